"""An installed environment: what its records and files say, and the laws that hold of it."""
