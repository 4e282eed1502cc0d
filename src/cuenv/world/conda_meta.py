"""What is installed in a conda environment: ``conda-meta/*.json``, as conda, micromamba and rattler write it."""

from __future__ import annotations

import json
from pathlib import Path

from cuenv.errors import InputError
from cuenv.lockfile import LockedPackage
from cuenv.reading import Faults, Reader
from cuenv.urls import channel_url, printable, strip_credentials


def read_conda_meta(prefix: Path) -> tuple[LockedPackage, ...]:
    """The packages of an environment, by name.

    Raises:
        InputError: it is no conda environment, or a record in it cannot be read.
    """
    folder = prefix / "conda-meta"
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".json")
    except OSError as error:
        raise InputError(
            f"{prefix} is no conda environment: {folder}: {error.strerror}",
            hint="name the environment's folder, the one that holds conda-meta",
        ) from error
    return tuple(sorted(map(_read, paths), key=lambda package: package.name))


def _read(path: Path) -> LockedPackage:
    try:
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: no valid JSON", hint="reinstall the package it belongs to") from error
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
    faults.check()
    return package


def _segment(url: str) -> str:
    parts = url.rsplit("/", 2)
    return parts[1] if len(parts) == 3 else ""


def _channel(url: str, channel: str, subdir: str) -> str:
    """The channel without subdir; the URL knows better than the name, which may be an alias."""
    base = url.rpartition("/")[0] if url else strip_credentials(channel_url(channel))
    return base.removesuffix(f"/{subdir}")
