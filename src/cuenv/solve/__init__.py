"""From specs to packages: match specs, channels, the embedded solver, conda-lock as an engine, uv for the pip part."""

ENGINES = ("embedded", "conda-lock")
"""The solvers that a lock may ask: py-rattler inside cuenv, or conda-lock with the user's own client."""
WHEEL_LOCKS = ("pylock", "requirements")
"""The locks without conda that ``cuenv lock --format`` writes: PEP 751, and requirements with hashes."""
PIXI = "pixi"  # the other lock that it writes: a workspace of pixi
LOCK_VERSIONS = ("7", "6")  # the versions of ``pixi.lock`` that are written, the usual one first
