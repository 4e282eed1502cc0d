"""Small conda packages and channels, written with the standard library alone, byte for byte the same each time.

For the sample channel of ``cuenv demo`` and for tests: packages of some hundred bytes that conda, micromamba and
rattler solve and install like any other.
"""

from __future__ import annotations

import bz2
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_HASHES = ("md5", "sha256")


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A package to write.

    Attributes:
        subdir: platform or ``noarch``.
        noarch: ``python`` or ``generic`` for a package of ``noarch``, else empty.
        files: path inside the prefix and content; what lies in a folder ``bin`` is made executable.
    """

    name: str
    version: str
    build: str
    subdir: str
    build_number: int = 0
    depends: tuple[str, ...] = ()
    constrains: tuple[str, ...] = ()
    noarch: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def file_name(self) -> str:
        """The name of its archive."""
        return f"{self.name}-{self.version}-{self.build}.tar.bz2"

    def index(self) -> dict[str, Any]:
        """What ``info/index.json`` and the channel's record say about it."""
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
    """The ``.tar.bz2`` of a package, reproducible."""
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
        packages: what it holds.
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
