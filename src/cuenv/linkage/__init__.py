"""What the loader does with an environment's binaries: which file wins, and whether it defines what is needed."""
