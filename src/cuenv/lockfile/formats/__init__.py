"""The files that a lock is written to, one module for each format."""
