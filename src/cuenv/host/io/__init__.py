"""Asking this machine: NVML, nvidia-smi, /proc, CUDA toolkits; and the records of other machines."""
