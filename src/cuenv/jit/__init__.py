"""Building CUDA extensions on first use: what a build wants, finds, and is told."""
