"""``requirements-<platform>.lock.txt``: the pip part with hashes, as ``pip install --require-hashes`` reads it."""

from __future__ import annotations

from collections.abc import Iterable

from cuenv.core.urls import blanked, index_url
from cuenv.solve.model import PipLocked


def lines(packages: Iterable[PipLocked]) -> tuple[str, ...]:
    """One requirement for each package: ``name==version --hash=sha256:...``, or ``name @ URL`` where one was asked."""
    return tuple(
        (f"{item.name} @ {index_url(item.url)}" if item.direct else f"{item.name}=={item.version}")
        + (f" --hash=sha256:{item.sha256}" if item.sha256 else "")
        for item in sorted(packages, key=lambda item: item.name)
    )


def render(packages: Iterable[PipLocked], *, head: tuple[str, ...]) -> str:
    """Write the file.

    Args:
        packages: of one platform.
        head: lines for the comment at the top.
    """
    comments = (f"# {blanked(text)}".rstrip() for text in head)
    return "\n".join([*comments, *lines(packages)]) + "\n"
