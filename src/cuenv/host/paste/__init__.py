"""Readers of pasted output: each recognises the output of one tool, and finds the facts about a host in it."""
