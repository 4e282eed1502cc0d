"""Which libraries the loader opens in an environment, and whether they define what is needed."""
