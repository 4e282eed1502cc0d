"""Making an environment from a lock or a bundle: download, judge, install."""
