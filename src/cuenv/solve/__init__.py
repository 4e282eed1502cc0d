"""From specs to packages: match specs, channels, the embedded solver, conda-lock as an engine, uv for the pip part."""
