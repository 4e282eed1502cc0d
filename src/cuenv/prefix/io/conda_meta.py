"""What is installed in a conda environment: ``conda-meta/*.json``, as conda, micromamba and rattler write it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cuenv.core.errors import InputError
from cuenv.core.io.files import LIMIT, is_file, look, shown, why
from cuenv.core.reading import Faults, Reader
from cuenv.core.urls import channel_url, printable, strip_credentials
from cuenv.solve.model import LockedPackage

_DIST_INFO = re.compile(r"site-packages/([^/]{1,300}\.dist-info)/(METADATA|INSTALLER)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class CondaDist:
    """A Python distribution that a conda package brought: the package, and the digests of its small files."""

    package: str
    sha256: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CondaRecords:
    """What conda-meta holds: packages by name, distributions by the name of their dist-info, what cannot be read.

    Attributes:
        files: of each package, relative to the environment.
    """

    packages: tuple[LockedPackage, ...]
    dists: Mapping[str, CondaDist]
    damaged: tuple[tuple[str, str], ...]
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def read_conda_meta(prefix: Path) -> tuple[LockedPackage, ...]:
    """The packages of an environment, by name.

    Raises:
        InputError: it is no conda environment, or a record in it cannot be read.
    """
    return tuple(sorted((_package(path, _load(path)) for path in _paths(prefix)), key=lambda package: package.name))


def read_conda_records(prefix: Path) -> CondaRecords:
    """The packages and the distributions of an environment; a record that cannot be read hinders no other.

    Raises:
        InputError: it is no conda environment.
    """
    packages: list[LockedPackage] = []
    dists: dict[str, CondaDist] = {}
    damaged: list[tuple[str, str]] = []
    files: dict[str, tuple[str, ...]] = {}
    for path in _paths(prefix):
        try:
            data = _load(path)
            package = _package(path, data)
        except InputError as error:
            damaged.append((str(path), " ".join(error.message.split())))
            continue
        packages.append(package)
        listed = data.get("files") if isinstance(data, dict) else None
        files[package.name] = tuple(filter(_inside, listed if isinstance(listed, list) else ()))
        for name, sums in _dists(data).items():
            dists[name] = CondaDist(package=package.name, sha256=sums)
    ordered = sorted(packages, key=lambda package: package.name)
    return CondaRecords(packages=tuple(ordered), dists=dists, damaged=tuple(damaged), files=files)


def _inside(name: object) -> bool:
    """Whether a file that a record lists lies in the environment; what a record made up leads nowhere."""
    return isinstance(name, str) and not name.startswith("/") and ".." not in name and name.isprintable()


def _paths(prefix: Path) -> list[Path]:
    folder = prefix / "conda-meta"
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".json")
    except OSError as error:
        raise InputError(
            f"{prefix} is no conda environment: {folder}: {error.strerror}",
            hint="name the environment's folder, the one that holds conda-meta",
        ) from error


def _load(path: Path) -> object:
    """The JSON of a record; a pipe or a device, which would never end, is refused unread."""
    name = shown(path)
    try:
        if path.exists() and not is_file(path):
            raise InputError(f"{name}: cannot be read: it is no regular file", hint=look(path))
        with path.open("rb") as stream:
            raw = stream.read(LIMIT + 1)
        if len(raw) > LIMIT:
            raise InputError(
                f"{name}: cannot be read: it is larger than {LIMIT} bytes", hint="reinstall the package it belongs to"
            )
        data: object = json.loads(raw)
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {why(error)}", hint=look(path, error)) from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}: no valid JSON", hint="reinstall the package it belongs to") from error
    return data


def _package(path: Path, data: object) -> LockedPackage:
    faults = Faults(printable(str(path)))
    reader = Reader(data, faults)
    url = strip_credentials(reader.get("url", str) or "")
    subdir = reader.get("subdir", str) or _segment(url)
    channel = _channel(url, reader.get("channel", str) or "", subdir)
    package = LockedPackage(
        name=reader.text("name"),
        version=reader.text("version"),
        build=reader.text("build"),
        subdir=subdir,
        channel=channel,
        url=url or f"{channel}/{subdir}/{reader.get('fn', str) or ''}",
        md5=reader.get("md5", str),
        sha256=reader.get("sha256", str),
        size=reader.get("size", int),
        depends=reader.texts("depends"),
        constrains=reader.texts("constrains"),
    )
    faults.check(hint="reinstall the package it belongs to")
    return package


def _dists(data: Any) -> dict[str, dict[str, str]]:
    """The distributions that a record lists, each with the digests of its METADATA and INSTALLER where it has them."""
    found: dict[str, dict[str, str]] = {}
    for path, digest in _files(data):
        match = _DIST_INFO.search(path)
        if match:
            sums = found.setdefault(match[1], {})
            if digest:
                sums[match[2]] = digest
    return found


def _files(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each installed file and its digest; what is not as conda writes it tells nothing."""
    for path in listed if isinstance(listed := data.get("files"), list) else ():
        if isinstance(path, str):
            yield path, ""
    table = data.get("paths_data")
    rows = table.get("paths") if isinstance(table, dict) else None
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and isinstance(path := row.get("_path"), str):
            digest = row.get("sha256_in_prefix") or row.get("sha256")
            yield path, digest if isinstance(digest, str) else ""


def _segment(url: str) -> str:
    parts = url.rsplit("/", 2)
    return parts[1] if len(parts) == 3 else ""


def _channel(url: str, channel: str, subdir: str) -> str:
    """The channel without subdir; the URL knows better than the name, which may be an alias."""
    base = url.rpartition("/")[0] if url else strip_credentials(channel_url(channel))
    return base.removesuffix(f"/{subdir}")
