"""From specs to packages: match specs, channels, the embedded solver, conda-lock as an engine, uv for the pip part."""

ENGINES = ("embedded", "conda-lock")
"""The solvers that a lock may ask: py-rattler inside cuenv, or conda-lock with the user's own client."""
