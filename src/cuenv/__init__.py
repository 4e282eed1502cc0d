"""cuenv: CUDA + PyTorch conda environments that are known to run on the GPUs you have."""
