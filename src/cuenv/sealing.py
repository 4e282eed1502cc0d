"""Whether a file of ours is still as it was written: its head names the digest of the rest."""

from __future__ import annotations

import re

_KEPT = "An edited file is kept as FILE.bak when cuenv writes it again; it was written with sha256"
_SEAL = re.compile(rb"^# %s ([0-9a-f]{32})\n" % re.escape(_KEPT.encode()), re.MULTILINE)
_HEAD = 16384
"""Bytes at the start of a file in which the digest stands."""


def sealed(text: str, advice: str = "") -> str:
    """A text of ours with the digest of it at the end of the comment that it begins with.

    Args:
        text: of a file whose comments begin with ``#``.
        advice: one line, how to change the file so that the change stays.
    """
    lines = text.splitlines(keepends=True)
    end = next((number for number, line in enumerate(lines) if not line.startswith("#")), len(lines))
    more = [f"# {advice}\n"] if advice else []
    head, rest = "".join([*lines[:end], *more]), "".join(lines[end:])
    digest = _digest((head + rest).encode())
    return f"{head}# {_KEPT} {digest}\n{rest}"


def as_written(raw: bytes, own: str) -> bool:
    """Whether a file begins as ours do and was not edited since; one without a digest may have been.

    Args:
        raw: its bytes.
        own: how a file of ours begins.
    """
    found = _SEAL.search(raw, 0, _HEAD)
    if not raw.startswith(own.encode()) or not found:
        return False
    return _digest(raw[: found.start()] + raw[found.end() :]) == found[1].decode()


def _digest(raw: bytes) -> str:
    import hashlib  # noqa: PLC0415 - most runs write nothing

    return hashlib.sha256(raw).hexdigest()[:32]
