"""Many hosts: gather them, plan the fewest environments that run on them, with proof, and compare states of a fleet."""
