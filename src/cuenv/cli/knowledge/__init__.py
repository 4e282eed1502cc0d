"""The subcommands of ``cuenv kb``, each in its own module."""

SUBCOMMANDS = ("audit", "learn")
"""What ``cuenv kb`` does with a channel."""
