"""Keeping the tables true: comparing them with a channel's records, and learning new rows."""
