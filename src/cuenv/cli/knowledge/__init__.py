"""The subcommands of ``cuenv kb``, each in its own module."""

SUBCOMMANDS = ("audit", "learn", "format")
"""What ``cuenv kb`` does beside looking things up."""
