"""Many hosts: the fewest environments that serve them, with proof, and what fewer would cost."""
