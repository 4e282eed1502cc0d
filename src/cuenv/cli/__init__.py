"""The command line: the only package that talks to people."""
