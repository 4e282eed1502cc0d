"""cuenv inside conda.

conda imports this package in every command, so `hooks` imports nothing but pluggy, which conda has loaded. cuenv itself
is never imported: it lives in an environment of its own, since it needs another py-rattler than conda's solver does.
"""
