"""Repair: the file that does what an environment file was meant to do, proven by locking it.

`repair.py` searches; what it asks, what a draft becomes, what can stay and which torch is taken
instead have a module each.
"""
