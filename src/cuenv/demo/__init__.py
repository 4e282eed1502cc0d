"""The demonstration, and the next step in a folder."""
