"""Files, processes and file locks, for all other packages."""
