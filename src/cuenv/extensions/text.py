"""A row on a library that sits on torch, in one line."""

from __future__ import annotations

from cuenv.extensions.columns import span_text
from cuenv.extensions.rows import Extension


def extension_line(row: Extension) -> str:
    """What its releases need: ``deepspeed 0.17.2 to below 0.19.8 (source): nvcc >=10.0, ...``."""
    parts = []
    if row.torch:
        parts.append(f"torch {span_text(row.torch)}")
    if row.cuda:
        how = {"major": ", another of the same major serves", "toolkit": " of the environment's runtime"}
        parts.append(f"CUDA {', '.join(map(str, row.cuda))}{how.get(row.match, '')}")
    if row.platforms:
        parts.append(f"for {' and '.join(row.platforms)}")
    if row.serves_from:
        parts.append(f"GPUs from {row.serves_from}")
    if row.nvcc:
        parts.append(f"compiles with nvcc {span_text(row.nvcc)}")
    if row.checks:
        parts.append(f"nvcc and torch may differ only within {', '.join(map(str, row.tolerates))}, major for major")
    if row.headers:
        parts.append(f"includes {', '.join(row.headers)}")
    if row.tools:
        parts.append(f"calls {', '.join(row.tools)}")
    needs = "; ".join(parts) or "binds neither torch nor CUDA"
    return f"{row.package} {row.span()} ({', '.join(row.comes)}): {needs}"
