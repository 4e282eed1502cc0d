"""cuenv: CUDA + PyTorch conda environments that are known to run on the GPUs you have."""

__version__ = "0.1.0"
