"""The URL of a conda package: what it says about the package it names (CEP 26)."""

from __future__ import annotations

import re
from dataclasses import dataclass

_URL = re.compile(r"([a-z][a-z0-9+.-]*://[^\s#]+|/[^\s#]+)/([a-z0-9_-]+)/([^/\s#]+?)(\.conda|\.tar\.bz2)")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageUrl:
    """The parts of a package's URL.

    Attributes:
        channel: everything before the subdir.
        subdir: such as ``linux-64`` or ``noarch``.
    """

    channel: str
    subdir: str
    name: str
    version: str
    build: str


def parse_package_url(url: str) -> PackageUrl:
    """Read ``CHANNEL/SUBDIR/NAME-VERSION-BUILD.conda`` (or ``.tar.bz2``).

    Raises:
        ValueError: the text has another form.
    """
    found = _URL.fullmatch(url) if url.isprintable() else None
    parts = _decoded(found[3]).rsplit("-", 2) if found else []
    if not found or len(parts) != 3 or not all(parts):
        raise ValueError(f"expected the URL of a package, .../SUBDIR/NAME-VERSION-BUILD.conda, got {ascii(url)[:200]}")
    name, version, build = parts
    return PackageUrl(channel=found[1], subdir=found[2], name=name, version=version, build=build)


def _decoded(text: str) -> str:
    if "%" not in text:
        return text
    from urllib.parse import unquote  # noqa: PLC0415 - few URLs need it

    return unquote(text)
