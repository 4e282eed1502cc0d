"""Many hosts: gathering them, the fewest environments that serve them, with proof, and what fewer would cost."""
