"""What a report reads of an installed environment."""
