"""Locks of other programs, which cuenv reads, and writes only where one of them is asked for in place of its own."""
