"""Packages as an enemy writes them: any members, any announcements, in both forms of archive."""

from __future__ import annotations

import bz2
import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cuenv.solve.model import LockedPackage

CHANNEL = "https://conda.anaconda.org/conda-forge"
BODY = b"written by a package\n"


@dataclass(frozen=True)
class Evil:
    """A package.

    Attributes:
        members: name, and bytes of a file, or the target of a link; ``None`` for a folder.
        announced: ``_path`` and ``path_type``; ``None`` for a package without ``paths.json``.
        info: more files below ``info``.
    """

    members: Sequence[tuple[str, bytes | str | None]] = ()
    announced: Sequence[tuple[str, str]] | None = ()
    info: Mapping[str, bytes] = field(default_factory=dict)
    noarch: str = ""
    name: str = "evil"
    version: str = "1.0"
    form: str = ".tar.bz2"

    @property
    def subdir(self) -> str:
        """Where it lies in its channel."""
        return "noarch" if self.noarch else "linux-64"

    @property
    def file_name(self) -> str:
        """Of the archive."""
        return f"{self.name}-{self.version}-0{self.form}"


def listed(*places: str, kind: str = "hardlink") -> list[tuple[str, str]]:
    """Announcements of files."""
    return [(place, kind) for place in places]


def _info(package: Evil) -> list[tuple[str, bytes | str | None]]:
    index: dict[str, Any] = {
        "name": package.name,
        "version": package.version,
        "build": "0",
        "build_number": 0,
        "depends": [],
        "subdir": package.subdir,
    }
    found: dict[str, bytes] = {
        "info/index.json": json.dumps(index | ({"noarch": package.noarch} if package.noarch else {})).encode()
    }
    if package.announced is not None:
        contents = {name: body for name, body in package.members if isinstance(body, bytes)}
        entries = [
            {
                "_path": place,
                "path_type": kind,
                "sha256": hashlib.sha256(contents.get(place, BODY)).hexdigest(),
                "size_in_bytes": len(contents.get(place, BODY)),
            }
            for place, kind in package.announced
        ]
        found["info/paths.json"] = json.dumps({"paths": entries, "paths_version": 1}).encode()
    return list((found | {f"info/{name}": body for name, body in package.info.items()}).items())


def _tar(members: Sequence[tuple[str, bytes | str | None]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, body in members:
            entry = tarfile.TarInfo(name)
            entry.mode = 0o755
            if isinstance(body, bytes):
                entry.size = len(body)
                tar.addfile(entry, io.BytesIO(body))
                continue
            hard = body is not None and body.startswith("=")
            entry.type = tarfile.DIRTYPE if body is None else tarfile.LNKTYPE if hard else tarfile.SYMTYPE
            entry.linkname = (body or "").removeprefix("=")
            tar.addfile(entry)
    return out.getvalue()


def _zst(data: bytes) -> bytes:
    """A frame of zstandard with nothing compressed in it."""
    frame = [b"\x28\xb5\x2f\xfd\xe0", len(data).to_bytes(8, "little")]
    blocks = [data[start : start + 65536] for start in range(0, len(data), 65536)] or [b""]
    for number, block in enumerate(blocks, 1):
        frame += [((len(block) << 3) | (number == len(blocks))).to_bytes(3, "little"), block]
    return b"".join(frame)


def archive(package: Evil) -> bytes:
    """The bytes of its archive."""
    if package.form == ".tar.bz2":
        return bz2.compress(_tar([*_info(package), *package.members]))
    out = io.BytesIO()
    stem = package.file_name.removesuffix(".conda")
    with zipfile.ZipFile(out, "w") as whole:
        whole.writestr("metadata.json", '{"conda_pkg_format_version": 2}')
        whole.writestr(f"pkg-{stem}.tar.zst", _zst(_tar(package.members)))
        whole.writestr(f"info-{stem}.tar.zst", _zst(_tar(_info(package))))
    return out.getvalue()


def bomb(package: Evil, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    """Its archive as ``.conda``, with one more entry of zeros that takes almost nothing in it."""
    entry = tarfile.TarInfo("share/zeros")
    entry.size, entry.type = size, kind
    head = entry.tobuf(tarfile.PAX_FORMAT)
    block = 1 << 17
    zeros = ((block << 3) | 2).to_bytes(3, "little") + b"\0"
    whole = b"\x28\xb5\x2f\xfd\x00\x58" + (len(head) << 3).to_bytes(3, "little") + head
    whole += zeros * (size // block + 1) + ((1024 << 3) | 3).to_bytes(3, "little") + b"\0"
    out = io.BytesIO()
    stem = f"{package.name}-{package.version}-0"
    with zipfile.ZipFile(out, "w") as archived:
        archived.writestr("metadata.json", '{"conda_pkg_format_version": 2}')
        archived.writestr(f"pkg-{stem}.tar.zst", whole)
        archived.writestr(f"info-{stem}.tar.zst", _zst(_tar(_info(package))))
    return out.getvalue()


def locked(package: Evil, channel: Path) -> LockedPackage:
    """Write a package into the folder of a channel; as a lock has it."""
    data = archive(package)
    path = channel / package.subdir / package.file_name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return LockedPackage(
        name=package.name,
        version=package.version,
        build="0",
        subdir=package.subdir,
        channel=CHANNEL,
        url=f"{CHANNEL}/{package.subdir}/{package.file_name}",
        md5=hashlib.md5(data, usedforsecurity=False).hexdigest(),
        sha256=hashlib.sha256(data).hexdigest(),
    )
