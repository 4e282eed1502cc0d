"""A bundle: everything that a lock names in one folder, each file at a place that its own name makes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote

from cuenv.core.errors import InputError
from cuenv.core.reading import describe
from cuenv.core.record import dataclass
from cuenv.core.regex import regex
from cuenv.core.urls import index_url, short_channel, strip_credentials
from cuenv.solve.model import LockedPackage, PipLocked, Solution, digest

TOP = "cuenv-bundle"  # the one folder in a bundle's tar
SUMS = "SHA256SUMS"
SCRIPT = "install.sh"

_SEGMENT = regex(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,80}")
_SUBDIR = regex(r"noarch|[a-z]+-[a-z0-9_]{1,20}")
_PACKAGE = regex(r"[A-Za-z0-9_][A-Za-z0-9_.!+~-]{0,240}(?:\.conda|\.tar\.bz2)")
_FILE = regex(r"[A-Za-z0-9][A-Za-z0-9_.!+~-]{0,240}\.(?:whl|zip|tar\.gz|tar\.bz2|tar\.xz|tgz)")
_PLACE = regex(r"[A-Za-z0-9_][A-Za-z0-9_.!+~-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.!+~-]*){0,12}")
_URL = regex(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s'\"<>\x00-\x1f]*")
_LINE = regex(r"([0-9a-f]{64}) [ *](.+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One file that a lock names, and its place in a bundle."""

    place: str  # in the bundle, with ``/``; made of checked names alone
    url: str  # where the lock says it is, without credentials
    sha256: str | None
    md5: str | None = None
    pip: bool = False  # whether it comes from a Python package index

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.place.rpartition("/")[2]

    @property
    def stored(self) -> str:
        """Its path in the store of archives, where each hash has a folder."""
        return f"{(self.sha256 or self.md5 or '')[:16]}/{self.name}"


def items(solutions: Iterable[Solution]) -> tuple[Item, ...]:
    """The files of solutions, each once, sorted by place.

    Raises:
        InputError: a name is none that a file may have, or two different files claim one place.
    """
    found: dict[str, Item] = {}
    for solution in solutions:
        wanted = [conda_item(package) for package in solution.packages]
        wanted += [pip_item(item, solution.platform) for item in solution.pip]
        for item in wanted:
            before = found.setdefault(item.place, item)
            if (before.sha256, before.md5) != (item.sha256, item.md5):
                raise InputError(f"the lock names two different files {describe(item.name)}", hint="cuenv lock")
    return tuple(found[place] for place in sorted(found))


def conda_item(package: LockedPackage) -> Item:
    """The archive of a conda package as a file of a bundle.

    Raises:
        InputError: its URL ends in no name of a package.
    """
    name, subdir = file_name(package.url), package.subdir
    if not _PACKAGE.fullmatch(name) or not _SUBDIR.fullmatch(subdir):
        message = f"the lock names a package {describe(f'{subdir}/{name}')}, which is not a valid package name"
        raise InputError(message, hint="lock it again: cuenv lock")
    place = f"channel/{channel_folder(package.channel)}/{subdir}/{name}"
    return Item(place=place, url=package.url, sha256=package.sha256, md5=package.md5)


def pip_item(package: PipLocked, platform: str) -> Item:
    """The wheel or source of a pip package as a file of a bundle.

    Raises:
        InputError: its URL ends in no name of one.
    """
    name = file_name(package.url)
    if not _FILE.fullmatch(name) or not _SUBDIR.fullmatch(platform):
        message = f"the lock names a file for pip {describe(name)}, which is not a valid name of a wheel or a source"
        raise InputError(message, hint="lock it again: cuenv lock")
    return Item(place=f"wheels/{platform}/{name}", url=package.url, sha256=package.sha256, pip=True)


def file_name(url: str) -> str:
    """The decoded last part of a URL's path: ``x-1!2.0-0.conda`` for ``x-1%212.0-0.conda``."""
    return unquote(url.partition("#")[0].partition("?")[0].rpartition("/")[2])


def channel_folder(channel: str) -> str:
    """The folder of a channel in a bundle: its short name, otherwise host and path, with a digest if needed."""
    text = short_channel(channel)
    plain = text.partition("://")[2] or text.strip("/")
    parts = plain.split("/")
    if len(parts) <= 8 and all(map(_SEGMENT.fullmatch, parts)):
        return plain
    slug = re.sub(r"[^A-Za-z0-9]+", "-", plain).strip("-")[:40] or "channel"
    return f"{slug}-{digest(channel)[:12]}"


def without_credentials(text: str, wanted: Iterable[Item]) -> str:
    """The text of a lock without credentials in its URLs."""
    clean = {item.url for item in wanted if item.pip}

    def cleaned(found: re.Match[str]) -> str:
        url = index_url(found[0])
        return url if url in clean else strip_credentials(found[0])

    return _URL.sub(cleaned, text)


def sums_text(digests: Mapping[str, str]) -> str:
    """The text of ``SHA256SUMS`` for ``sha256sum -c``, sorted by place."""
    return "".join(f"{digests[place]}  {place}\n" for place in sorted(digests))


def parse_sums(text: str, source: str) -> dict[str, str]:
    """Read ``SHA256SUMS``: the places with their hashes.

    Raises:
        InputError: a line is none, or names a place outside the bundle.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        parts = _LINE.fullmatch(line)
        if not parts or not is_place(parts[2]):
            message = f"{source}: line {number}: expected a sha256 and a file of the bundle, got {describe(line)}"
            raise InputError(message, hint="make it again: cuenv bundle -o train.tar")
        found[parts[2]] = parts[1]
    if not found:
        raise InputError(f"{source} is not a bundle, because it names no file", hint="cuenv bundle")
    return found


def is_place(text: str) -> bool:
    """Whether a text is a path below the bundle."""
    return bool(_PLACE.fullmatch(text)) and ".." not in text.split("/") and len(text) < 1000


def render(subdir: str, records: Mapping[str, Mapping[str, Any]]) -> str:
    """The text of ``repodata.json``; the same records give the same bytes.

    Args:
        records: file name to record, as ``info/index.json`` of the package has it, with hashes and size.
    """
    conda = {name: dict(record) for name, record in records.items() if name.endswith(".conda")}
    older = {name: dict(record) for name, record in records.items() if not name.endswith(".conda")}
    data = {"info": {"subdir": subdir}, "packages": older, "packages.conda": conda, "repodata_version": 1}
    return json.dumps(data, indent=1, sort_keys=True) + "\n"
