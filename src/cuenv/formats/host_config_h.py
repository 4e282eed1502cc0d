"""``crt/host_config.h`` of a CUDA toolkit: which host compilers its nvcc accepts, in the words of its preprocessor.

The header refuses a compiler by ``#error`` after ``#if __GNUC__ > 14`` or ``#if (__clang_major__ >= 20) || ...``.
"""

from __future__ import annotations

import re

from cuenv.jit.workshop import CompilerBounds

_GCC = re.compile(r"^[ \t]*#[ \t]*if[ \t]+\(?[ \t]*__GNUC__[ \t]*(>=?)[ \t]*([0-9]{1,3})\b", re.MULTILINE)
_CLANG = re.compile(
    r"^[ \t]*#[ \t]*if[ \t]+defined\(__clang__\)[^\n]*\n\s*#[ \t]*if[ \t]+\(?[ \t]*"
    r"\(?__clang_major__[ \t]*(>=?)[ \t]*([0-9]{1,3})\b",
    re.MULTILINE,
)


def parse(text: str) -> CompilerBounds | None:
    """The newest majors of gcc and clang that the header accepts; ``None`` when it names no bound for gcc.

    The header names no lower bound for gcc; that of clang (3.3) is older than any in use.
    """
    gcc = _bound(_GCC, text)
    return None if gcc is None else CompilerBounds(gcc_max=gcc, clang_max=_bound(_CLANG, text))


def _bound(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    return (int(found[2]) - (found[1] == ">=")) if found else None
