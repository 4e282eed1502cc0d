"""The subcommands of ``cuenv kb``, each in its own module."""
