"""The sample channels of ``cuenv demo``: built from a description of a few kilobytes that ships in the package.

The description (``data/sample/channel.json``) says what each row means. A row with ``each`` is written once for every
row of that table; a list in a table stands for one row per item.
"""

from __future__ import annotations

import bz2
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

from cuenv.core.errors import OutsideError
from cuenv.core.io.files import ls_command
from cuenv.core.record import dataclass, field
from cuenv.core.regex import regex
from cuenv.core.urls import channel_url
from cuenv.solve.io.sources import Mirror

_HASHES = ("md5", "sha256")


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A package to write."""

    name: str
    version: str
    build: str
    subdir: str  # platform or ``noarch``
    build_number: int = 0
    depends: tuple[str, ...] = ()
    constrains: tuple[str, ...] = ()
    noarch: str = ""  # ``python`` or ``generic`` for a package of ``noarch``, else empty
    # path inside the prefix and content; what lies in a folder ``bin`` is made executable
    files: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def file_name(self) -> str:
        """The file name of its archive."""
        return f"{self.name}-{self.version}-{self.build}.tar.bz2"

    def index(self) -> dict[str, Any]:
        """The content of ``info/index.json`` and of the channel's record."""
        found: dict[str, Any] = {
            "name": self.name,
            "version": self.version,
            "build": self.build,
            "build_number": self.build_number,
            "subdir": self.subdir,
            "depends": list(self.depends),
            "constrains": list(self.constrains),
        }
        if self.noarch:
            found["noarch"] = self.noarch
        return found


def archive(package: Package) -> bytes:
    """The ``.tar.bz2`` of a package; the same package gives the same bytes."""
    files = dict(sorted(package.files.items()))
    paths = [
        {
            "_path": path,
            "path_type": "hardlink",
            "sha256": hashlib.sha256(content).hexdigest(),
            "size_in_bytes": len(content),
        }
        for path, content in files.items()
    ]
    info = {
        "info/index.json": _json(package.index()),
        "info/files": "".join(f"{path}\n" for path in files).encode(),
        "info/paths.json": _json({"paths": paths, "paths_version": 1}),
    }
    if package.noarch == "python":
        info["info/link.json"] = _json({"noarch": {"type": "python"}, "package_metadata_version": 1})
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path, content in {**info, **files}.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            member.mode = 0o755 if "/bin/" in f"/{path}" else 0o644
            tar.addfile(member, io.BytesIO(content))
    return bz2.compress(buffer.getvalue(), 1)


def write_channel(
    folder: Path, packages: Iterable[Package], *, subdirs: Iterable[str], hashes: Iterable[str] = _HASHES
) -> None:
    """Write a channel: every package, and ``repodata.json`` in each subdir.

    Args:
        folder: root of the channel; made when it is missing.
        subdirs: that get a ``repodata.json`` even without packages.
        hashes: what the records carry: ``md5``, ``sha256``.
    """
    records: dict[str, dict[str, Any]] = {subdir: {} for subdir in subdirs}
    wanted = tuple(hashes)
    for package in packages:
        data = archive(package)
        place = folder / package.subdir
        place.mkdir(parents=True, exist_ok=True)
        (place / package.file_name).write_bytes(data)
        sums = {name: hashlib.new(name, data, usedforsecurity=False).hexdigest() for name in wanted}
        record = {**package.index(), **sums, "size": len(data)}
        records.setdefault(package.subdir, {})[package.file_name] = record
    for subdir, found in records.items():
        content = {"info": {"subdir": subdir}, "packages": found, "packages.conda": {}, "repodata_version": 1}
        (folder / subdir).mkdir(parents=True, exist_ok=True)
        (folder / subdir / "repodata.json").write_bytes(_json(content))


def _json(data: object) -> bytes:
    return json.dumps(data, indent=1, sort_keys=True).encode()


_WORD = regex(r"\{(\w+)\}")
_BUILD_NUMBER = regex(r"_(\d+)(?:_cp\d+)?$")


def write_sample(folder: Path, platform: str) -> tuple[Mirror, ...]:
    """Write the sample channels for one platform.

    Args:
        platform: ``linux-64`` or ``linux-aarch64``.

    Returns:
        The mirrors that replace the real channels by them.

    Raises:
        OutsideError: the folder cannot be written.
    """
    data = json.loads(files("cuenv").joinpath("data/sample/channel.json").read_bytes())
    mirrors = []
    for name, channel in data["channels"].items():
        place = folder / name
        packages = _packages(channel["packages"], data["tables"], data["platforms"], platform)
        try:
            write_channel(place, packages, subdirs=(platform, "noarch"), hashes=channel["hashes"])
        except OSError as error:
            message = f"the sample channels cannot be written to {folder}: {error.strerror}"
            raise OutsideError(message, hint=ls_command(folder, error)) from error
        mirrors.append(Mirror(origin=channel_url(name), target=str(place.absolute())))
    return tuple(mirrors)


def _packages(
    rows: list[dict[str, Any]], tables: Mapping[str, Any], platforms: Mapping[str, Any], platform: str
) -> Iterator[Package]:
    for row in rows:
        for words in _expanded_rows(tables[row["each"]] if "each" in row else [{}]):
            if platform in {row.get("on", platform)} & {words.get("on", platform)}:
                yield _package(row, {**platforms[platform], **words, "subdir": platform})


def _expanded_rows(table: list[dict[str, Any]]) -> Iterator[dict[str, str]]:
    for row in table:
        choices = [value if isinstance(value, list) else [value] for value in row.values()]
        for values in product(*choices):
            yield dict(zip(row, values, strict=True))


def _package(row: Mapping[str, Any], words: Mapping[str, str]) -> Package:
    known = {**words, **{f"{key}_digits": value.replace(".", "") for key, value in words.items()}}

    def fill(text: str) -> str:
        return _WORD.sub(lambda found: known[found[1]], text)

    build = fill(row.get("build", "sample_0"))
    number = _BUILD_NUMBER.search(build)
    return Package(
        name=fill(row["name"]),
        version=fill(row["version"]),
        build=build,
        build_number=int(number[1]) if number else 0,
        subdir="noarch" if "noarch" in row else words["subdir"],
        noarch=row.get("noarch", ""),
        depends=tuple(filter(None, map(fill, row.get("depends", ())))),
        constrains=tuple(filter(None, map(fill, row.get("constrains", ())))),
        files={fill(path): fill(text).encode() for path, text in row.get("files", {}).items()},
    )
