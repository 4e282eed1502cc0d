"""The packages of an environment, by conda's records and in site-packages.

``conda-meta/*.json`` has the records of conda, micromamba and rattler, which are compared with the files; site-packages
has the distributions of pip, torch among them.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cuenv.core.errors import InputError
from cuenv.core.io.files import LIMIT, is_file, ls_command, names_in, path_text, reason_of, text_at
from cuenv.core.reading import Faults, Reader
from cuenv.core.record import dataclass, field
from cuenv.core.regex import regex
from cuenv.core.urls import channel_url, printable, strip_credentials
from cuenv.host.io.toolkits import parse_version_py
from cuenv.prefix.fixes import FileOwner
from cuenv.prefix.inventory import DamagedRecord, Prefix, Wheel
from cuenv.prefix.lock_comparison import MissingFiles
from cuenv.solve.environment_spec import normalise
from cuenv.solve.model import LockedPackage

DIST_INFO = regex(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]{0,200}?)-(?P<version>[^-/\s]{1,100})\.dist-info")
_TORCH = regex(r"^Requires-Dist: *torch(?![\w.-]).*==", re.MULTILINE | re.IGNORECASE)


def wheels_in(folder: Path) -> Iterator[Wheel]:
    """The distributions in a site-packages folder, by their dist-info folders with METADATA."""
    for name in names_in(folder):
        found = DIST_INFO.fullmatch(name)
        if not found or not is_file(folder / name / "METADATA"):
            continue
        word = text_at(folder / name / "INSTALLER").strip().lower()
        yield Wheel(
            name=normalise(found["name"]),
            version=found["version"],
            folder=str(folder),
            installer=word if re.fullmatch(r"[\w.-]{1,40}", word, re.ASCII) else None,
            url=_direct_url(folder, name),
            dist_info=name,
        )


def _direct_url(folder: Path, name: str) -> str | None:
    try:
        url = json.loads(text_at(folder / name / "direct_url.json"))["url"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
    return strip_credentials(url) if isinstance(url, str) and url.isprintable() else None


def pins_torch(wheel: Wheel) -> bool:
    """Whether its METADATA pins one release of torch, so that pip can find the release for another torch."""
    return bool(_TORCH.search(text_of(wheel, "METADATA")))


def text_of(wheel: Wheel, name: str) -> str:
    """The text of a file in dist-info, such as ``METADATA``; empty if it cannot be read."""
    return text_at(Path(wheel.folder) / wheel.dist_info / name)


def files_of(wheel: Wheel) -> Iterator[str]:
    """The files in its RECORD, relative to site-packages, without those outside of it."""
    for line in text_of(wheel, "RECORD").splitlines():
        name = line[1:].partition('"')[0] if line.startswith('"') else line.partition(",")[0]
        if not name.startswith("/") and ".." not in name.split("/") and "\ufffd" not in name:  # not UTF-8
            yield name


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledTorch:
    """The torch of an environment, by its own files."""

    folder: Path  # the folder of the package, ``.../site-packages/torch``
    version: str  # the version in ``torch/version.py``, such as ``2.7.1+cu128``
    cuda: str | None  # the CUDA release that it was built with, ``12.8``; ``None`` for a CPU build


def find_torch(prefix: Prefix) -> InstalledTorch | None:
    """The torch that Python finds first in the environment's own folders; ``None`` without one."""
    return next(filter(None, map(torch_in, prefix.site_packages)), None)


def torch_in(site: str) -> InstalledTorch | None:
    """The torch in a site-packages folder; ``None`` without one."""
    folder = Path(site) / "torch"
    told = parse_version_py(text_at(folder / "version.py"))
    return InstalledTorch(folder=folder, version=told[0], cuda=told[1]) if told else None


def built_extensions(prefix: Prefix, environ: Mapping[str, str], cuda: str | None) -> Iterator[str]:
    """The extensions that torch compiled on first use for this Python and CUDA release."""
    base = environ.get("TORCH_EXTENSIONS_DIR")
    if not base and environ.get("HOME") and prefix.python:
        build = f"py{prefix.python.replace('.', '')}_{'cu' + cuda.replace('.', '') if cuda else 'cpu'}"
        base = f"{environ['HOME']}/.cache/torch_extensions/{build}"
    paths = (f"{base}/{name}/{name}.so" for name in names_in(base)) if base else ()
    yield from filter(is_file, paths)


_DIST_INFO = regex(r"site-packages/([^/]{1,300}\.dist-info)/(METADATA|INSTALLER)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class CondaDist:
    """The conda package of a Python distribution, and the digests of METADATA and INSTALLER."""

    package: str
    sha256: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CondaRecords:
    """The records of an environment: packages, distributions by their dist-info, and records that cannot be read."""

    packages: tuple[LockedPackage, ...]
    dists: Mapping[str, CondaDist]
    damaged: tuple[DamagedRecord, ...]
    # the files of each package, relative to the environment
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def read_conda_meta(prefix: Path) -> tuple[LockedPackage, ...]:
    """The packages of an environment, sorted by name.

    Raises:
        InputError: it is not a conda environment, or a record cannot be read.
    """
    return tuple(
        sorted((_package(path, _read_record(path)) for path in _paths(prefix)), key=lambda package: package.name)
    )


def read_conda_records(prefix: Path) -> CondaRecords:
    """The packages and distributions of an environment; unreadable records are listed as damaged.

    Raises:
        InputError: it is not a conda environment.
    """
    packages: list[LockedPackage] = []
    dists: dict[str, CondaDist] = {}
    damaged: list[DamagedRecord] = []
    files: dict[str, tuple[str, ...]] = {}
    for path in _paths(prefix):
        try:
            data = _read_record(path)
            package = _package(path, data)
        except InputError as error:
            forbidden = isinstance(error.__cause__, PermissionError)
            damaged.append(DamagedRecord(str(path), " ".join(error.message.split()), forbidden))
            continue
        packages.append(package)
        listed = data.get("files") if isinstance(data, dict) else None
        files[package.name] = tuple(filter(_is_inside, listed if isinstance(listed, list) else ()))
        for name, sums in _dists(data).items():
            dists[name] = CondaDist(package=package.name, sha256=sums)
    ordered = sorted(packages, key=lambda package: package.name)
    return CondaRecords(packages=tuple(ordered), dists=dists, damaged=tuple(damaged), files=files)


def _is_inside(name: object) -> bool:
    """Whether the path of a file in a record stays inside the environment; a record may be forged."""
    return isinstance(name, str) and not name.startswith("/") and ".." not in name and name.isprintable()


def _paths(prefix: Path) -> list[Path]:
    folder = prefix / "conda-meta"
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".json")
    except OSError as error:
        message = f"{prefix} is not a conda environment: {folder}: {error.strerror}"
        raise InputError(message, hint="name the directory of the environment, which contains conda-meta") from error


def _read_record(path: Path) -> object:
    """The JSON of a record; a pipe or a device is refused, because reading it might never end."""
    name = path_text(path)
    try:
        if path.exists() and not is_file(path):
            raise InputError(f"{name}: cannot be read: it is not a regular file", hint=ls_command(path))
        with path.open("rb") as stream:
            raw = stream.read(LIMIT + 1)
        if len(raw) > LIMIT:
            message = f"{name}: cannot be read: it is larger than {LIMIT} bytes"
            raise InputError(message, hint="reinstall the package it belongs to")
        data: object = json.loads(raw)
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {reason_of(error)}", hint=ls_command(path, error)) from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}: invalid JSON", hint="reinstall the package it belongs to") from error
    return data


def _package(path: Path, data: object) -> LockedPackage:
    faults = Faults(printable(str(path)))
    reader = Reader(data, faults)
    url = strip_credentials(reader.get("url", str) or "")
    subdir = reader.get("subdir", str) or _subdir_of_url(url)
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
    """The distributions in a record, with the digests of METADATA and INSTALLER if it has them."""
    found: dict[str, dict[str, str]] = {}
    for path, digest in _files_with_digests(data):
        match = _DIST_INFO.search(path)
        if match:
            sums = found.setdefault(match[1], {})
            if digest:
                sums[match[2]] = digest
    return found


def _files_with_digests(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each installed file and its digest; invalid entries are ignored."""
    for path in listed if isinstance(listed := data.get("files"), list) else ():
        if isinstance(path, str):
            yield path, ""
    table = data.get("paths_data")
    rows = table.get("paths") if isinstance(table, dict) else None
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and isinstance(path := row.get("_path"), str):
            digest = row.get("sha256_in_prefix") or row.get("sha256")
            yield path, digest if isinstance(digest, str) else ""


def _subdir_of_url(url: str) -> str:
    parts = url.rsplit("/", 2)
    return parts[1] if len(parts) == 3 else ""


def _channel(url: str, channel: str, subdir: str) -> str:
    """The URL of the channel without subdir; the package's URL is preferred, because a channel name may be an alias."""
    base = url.rpartition("/")[0] if url else strip_credentials(channel_url(channel))
    return base.removesuffix(f"/{subdir}")


_MOST = 500_000
"""The most files that are looked for. Each folder is listed once, so reading the records takes most of the time."""


def find_missing_files(prefix: Prefix) -> tuple[MissingFiles, ...]:
    """The packages with missing files; dist-info folders and files that Python compiles are ignored."""
    return tuple(item for item in _files_by_package(prefix, _Folders()) if item.files)


def _files_by_package(prefix: Prefix, there: _Folders) -> Iterator[MissingFiles]:
    names = Counter(wheel.name for wheel in prefix.wheels)
    for wheel in prefix.wheels:
        # conda records its files itself, and of two dist-infos with one name only one is true (CU206).
        if (wheel.conda and not wheel.replaced) or names[wheel.name] > 1:
            continue
        files, total = there.removed(wheel.folder, files_of(wheel))
        yield MissingFiles(name=wheel.name, version=wheel.version, files=files, total=total, wheel=wheel)
    # CU204 and CU205 report conda packages that pip overwrote or removed.
    over = {wheel.conda for wheel in prefix.wheels if wheel.replaced} | {wheel.conda for wheel in prefix.removed}
    over |= {wheel.name for wheel in prefix.wheels if not wheel.conda}
    for package in prefix.conda:
        if package.name not in over:
            files, total = there.removed(prefix.path, prefix.files.get(package.name, ()))
            yield MissingFiles(name=package.name, version=package.version, files=files, total=total, package=package)


class _Folders:
    """The names in folders, each listed once."""

    def __init__(self) -> None:
        self._left = _MOST
        self._listed: dict[str, frozenset[str]] = {}

    def removed(self, root: str, names: Iterable[str]) -> tuple[tuple[str, ...], int]:
        """The missing files below a folder, and the number of files that should exist."""
        wanted: dict[str, list[str]] = {}
        total = 0
        for name in names:
            folder, _, file = name.rpartition("/")
            if (
                file
                and name.isprintable()
                and not file.endswith(".pyc")
                and not folder.endswith((".dist-info", "__pycache__"))
            ):
                wanted.setdefault(folder, []).append(file)
                total += 1
        self._left -= total
        if self._left < 0:
            return (), total
        found = []
        for folder, files in wanted.items():
            missing = set(files) - self._names(f"{root}/{folder}" if folder else root)
            found += [f"{folder}/{file}".lstrip("/") for file in sorted(missing)]
        return tuple(sorted(found)), total

    def _names(self, folder: str) -> frozenset[str]:
        listed = self._listed.get(folder)
        if listed is None:
            try:
                listed = frozenset(os.listdir(folder))  # noqa: PTH208 - names are wanted, not paths
            except OSError:
                listed = frozenset()
            self._listed[folder] = listed
        return listed


def owner_of(prefix: Prefix, path: str) -> FileOwner | None:
    """The package that a file belongs to, even if the file is missing; pip's records go before conda's."""
    places = dict.fromkeys((posixpath.normpath(path), _with_real_folder(path)))
    for wheel in prefix.wheels:
        if wheel.conda and not wheel.replaced:
            continue
        for place in places:
            name = place.removeprefix(f"{wheel.folder}/")
            if name != place and name in files_of(wheel):
                return FileOwner(wheel=wheel)
    for place in places:
        name = place.removeprefix(f"{prefix.path}/")
        package = next((package for package, files in prefix.files.items() if name in files), None)
        if name != place and package:
            return FileOwner(package=prefix.package(package))
    return None


def _with_real_folder(path: str) -> str:
    """The path with links in its folder resolved, but not a link of the file itself, which may be missing."""
    folder, _, name = path.rpartition("/")
    return f"{os.path.realpath(folder)}/{name}"
