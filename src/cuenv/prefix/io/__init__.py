"""Reading an installed environment from its files, and running programs of it where that is asked for."""
