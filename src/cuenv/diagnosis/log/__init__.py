"""What stands in a log: its lines, the symptoms on them, the frames of its tracebacks, and the host that it is of."""
