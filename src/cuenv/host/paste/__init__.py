"""Readers of what people paste: each recognises the output of one tool, and says which facts of a host stand in it."""
