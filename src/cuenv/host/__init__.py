"""What a machine is: its driver, GPUs and C library, each with its evidence, and what is wrong with it."""
