"""What the state of a machine means, whatever is locked: driver, kernel module, GPUs, container."""
