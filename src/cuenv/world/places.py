"""Where a file that a lock names is really read: a mirror, a folder, or where its URL says."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from cuenv.urls import printable, strip_credentials
from cuenv.world.files import is_file
from cuenv.world.sources import Sources


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place to read a file.

    Attributes:
        url: with credentials, never shown; empty for a path.
        path: of a file on this machine; ``None`` for the network.
        shown: for people.
    """

    url: str = field(repr=False)
    path: Path | None
    shown: str


def place_of(url: str, sources: Sources) -> Place:
    """Where a canonical URL is read, by the mirrors of the sources."""
    target = sources.target(url)
    if target.startswith("file://"):
        target = unquote(target.removeprefix("file://").removeprefix("localhost"))
    if "://" not in target:
        plain, decoded = Path(target), Path(unquote(target))
        return Place(url="", path=plain if is_file(plain) else decoded, shown=printable(target))
    return Place(url=target, path=None, shown=printable(strip_credentials(target)))
