"""The user's own conda and conda-lock, where they solve instead of the embedded solver."""
