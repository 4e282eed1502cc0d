"""Settings and profiles: which there are, where they stand, and which of them count."""
