"""Channels, solvers and package indexes: the only modules that import rattler's solver, conda-lock and uv."""
