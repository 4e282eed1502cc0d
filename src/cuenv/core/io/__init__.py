"""Files, processes and locks: what every other package uses to touch the machine."""
