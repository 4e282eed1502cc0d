"""Locks: made, updated, repaired, compared and checked."""
