"""Settings and profiles on disk."""
