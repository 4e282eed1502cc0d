"""Reading of log files."""
