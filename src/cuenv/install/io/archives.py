"""What stands in the archive of a conda package, read before anything unpacks it. Import this module lazily: rattler.

rattler unpacks nothing outside its folder, but it links whatever ``info/paths.json`` names, wherever that leads. A
package that leads out is not a package: it is refused by name, and so is one that unpacks to more than any holds.
"""

from __future__ import annotations

import asyncio
import json
import mmap
import shlex
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from rattler.package import IndexJson, PathsJson
from rattler.package_streaming import PackageArchive

from cuenv.core.errors import InputError
from cuenv.core.io.files import ls_command, path_text, reason_of
from cuenv.core.reading import describe, unique_keys
from cuenv.core.urls import printable, redact
from cuenv.install.placing import (
    FILES,
    HAS_PREFIX,
    INDEX,
    LINK,
    NO_LINK,
    PATHS,
    TOLD,
    Contents,
    Kind,
    Member,
    environment_problem,
    package_problem,
    places,
    plain,
)
from cuenv.solve.io.channels import run
from cuenv.solve.model import LockedPackage

_FRAME, _SKIPPED = 0xFD2FB528, 0x184D2A50
_BLOCK = 1 << 17  # bytes that a compressed block holds at most
_RAW, _REPEATED, _COMPRESSED = 0, 1, 2


def most_unpacked(path: Path) -> int:
    """An upper bound of the unpacked size of a ``.conda``; 0 for other files.

    Where the bytes stop to be zstandard it ends: no reader gets further.

    Raises:
        OSError: it cannot be read.
    """
    try:
        with zipfile.ZipFile(path) as whole:
            parts = [(item.header_offset, item.compress_size) for item in whole.infolist() if not item.is_dir()]
        with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return sum(sum(_blocks(data, _start(data, offset), size)) for offset, size in parts)
    except (zipfile.BadZipFile, ValueError, NotImplementedError, IndexError):
        return 0


def _start(data: mmap.mmap, offset: int) -> int:
    """Where the bytes of a part begin, behind its own head."""
    return offset + 30 + _number(data, offset + 26, 2) + _number(data, offset + 28, 2)


def _number(data: mmap.mmap, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "little")


def _blocks(data: mmap.mmap, at: int, size: int) -> Iterator[int]:
    """The most that each block of a part holds."""
    end = min(at + size, len(data))
    while at + 4 < end:
        magic = _number(data, at, 4)
        if magic & ~0xF == _SKIPPED:
            at += 8 + _number(data, at + 4, 4)
            continue
        if magic != _FRAME:
            return
        flags = data[at + 4]
        single, checksum = flags >> 5 & 1, flags >> 2 & 1
        at += 5 + (not single) + (0, 1, 2, 4)[flags & 3] + (single, 2, 4, 8)[flags >> 6]
        last = False
        while not last and at + 3 <= end:
            head = _number(data, at, 3)
            last, kind, count = bool(head & 1), head >> 1 & 3, head >> 3
            if kind > _COMPRESSED:
                return
            at += 3 + (1 if kind == _REPEATED else count)
            yield _BLOCK if kind == _COMPRESSED else count
        at += 4 * checksum


_AT_ONCE = 4
_SECTIONS: tuple[Literal["info", "pkg"], ...] = ("info", "pkg")
_MEMBERS = 1_000_000
_UNPACKED = 64 << 30
_ALWAYS = 1 << 30  # bytes that a small archive may unpack to as well
_RATIO = 100  # times its own size that an archive may unpack to, beyond that
_TELLING = 256 << 20  # bytes that a file may have that says what to do with the others


def inspect(paths: Iterable[Path]) -> tuple[Contents, ...]:
    """Read the contents of packages, and check each alone.

    Raises:
        InputError: one cannot be read as a package, or something in it leads out of an environment.
    """
    return run(_all(tuple(paths)))


def inspect_together(packages: Sequence[LockedPackage], paths: Sequence[Path]) -> frozenset[str]:
    """Check the packages of one environment, each alone and all together.

    Returns:
        every path that will be in the environment, without what the installer adds.

    Raises:
        InputError: as of `inspect`, or one leads out of the environment through a link of another.
    """
    found = inspect(paths)
    version = next((item.version for item in packages if item.name == "python"), "")
    python = ".".join(version.split(".")[:2])
    if python and not all(part.isascii() and part.isalnum() for part in python.split(".")):
        message = f"the lock names Python {describe(version)}, which is not a version of Python"
        raise InputError(message, hint="cuenv lock")
    each = [places(contents, python) for contents in found]
    wrong = environment_problem(zip((item.name for item in found), each, strict=True))
    if wrong:
        raise _refused(Path(wrong[0]), wrong[1])
    return frozenset(place for there in each for place, item in there.items() if item.kind != "folder")


async def _all(paths: Sequence[Path]) -> tuple[Contents, ...]:
    """What each archive holds, or the first refusal.

    A reading that began comes to its end: rattler writes a traceback to standard error when it answers a closed loop.
    """
    gate = asyncio.Semaphore(_AT_ONCE)
    refused: list[InputError] = []

    async def guarded(path: Path) -> Contents | None:
        async with gate:
            if not refused:
                try:
                    return await _one(path)
                except InputError as error:
                    refused.append(error)
        return None

    found = await asyncio.gather(*map(guarded, paths))
    if refused:
        raise refused[0]
    return tuple(contents for contents in found if contents)


async def _one(path: Path) -> Contents:
    size, most = _sizes(path)
    limit = min(max(_ALWAYS, _RATIO * size), _UNPACKED)
    if most > limit:
        raise _refused(path, f"it unpacks to more than {limit / 1e9:.1f} GB")
    try:
        contents = await _read(path, limit)
    except (InputError, asyncio.CancelledError):
        raise
    except Exception as error:
        raise _refused(path, f"it cannot be read as a package: {printable(redact(str(error)))[:300]}") from error
    wrong = package_problem(contents)
    if wrong:
        raise _refused(path, wrong)
    return contents


def _sizes(path: Path) -> tuple[int, int]:
    """The size of an archive, and an upper bound of its unpacked size, if known."""
    try:
        return path.stat().st_size, most_unpacked(path)
    except OSError as error:
        raise InputError(f"cannot read {path_text(path)}: {reason_of(error)}", hint=ls_command(path, error)) from error


async def _read(path: Path, limit: int) -> Contents:
    archive = await PackageArchive.from_path(str(path))
    found = _Found(path)
    size = 0
    for section in _SECTIONS:
        async for entry in archive.stream(section):
            size += entry.size
            if size > limit:
                raise _refused(path, f"it unpacks to more than {limit / 1e9:.1f} GB")
            place = found.add(entry)
            if place in TOLD:
                found.texts[place] = await entry.read()
    return found.contents()


class _Found:
    """The contents of an archive that were read so far."""

    def __init__(self, path: Path) -> None:
        self.texts: dict[str, bytes] = {}
        self._path = path
        self._members: dict[str, Member] = {}
        self._hard: dict[str, str] = {}

    def add(self, entry: Any) -> str:
        """Take an entry; its place, empty for the top folder."""
        place, member = _member(self._path, entry)
        if not place:
            return ""
        before = self._members.setdefault(place, member)
        if before is not member and (before != member or member.kind == "link" or place in TOLD):
            raise _refused(self._path, f"{describe(place)} is in it twice")
        if len(self._members) > _MEMBERS:
            raise _refused(self._path, f"it holds more than {_MEMBERS} files")
        if entry.is_hardlink:
            self._hard[place] = _inside(entry.link_target or "") or ""
        if place in TOLD and (not entry.is_file or entry.is_link or entry.size > _TELLING):
            raise _refused(self._path, f"{place} is not a file of at most {_TELLING >> 20} MiB")
        if place == "info" and member.kind != "folder":
            raise _refused(self._path, f"info is a {member.kind}")
        return place

    def contents(self) -> Contents:
        """All of it."""
        for place, target in self._hard.items():
            if target not in self._members or self._members[target].kind == "folder":
                raise _refused(self._path, f"{describe(place)} links to {describe(target)}, outside the package")
            if self._members[target].kind == "link":  # it is that link once more
                self._members[place] = self._members[target]
        return _contents(self._path, self._members, self.texts)


def _member(path: Path, entry: Any) -> tuple[str, Member]:
    """The path of an entry and its kind; the path is empty for the top folder."""
    name, target = str(entry.name), entry.link_target
    place = _inside(name)
    if place is None:
        raise _refused(path, f"{describe(name)} is outside the package")
    if entry.is_symlink:
        if not place or not target:
            raise _refused(path, f"{describe(name)} links to {describe(target or '')}, outside the environment")
        return place, Member(kind="link", target=target)
    if entry.is_hardlink and not _inside(target or ""):
        raise _refused(path, f"{describe(name)} links to {describe(target)}, outside the package")
    if entry.is_file or entry.is_hardlink:
        if not place:
            raise _refused(path, f"{describe(name)} is not a valid name of a file")
        return place, Member(kind="file")
    if not name.endswith("/"):
        raise _refused(path, f"{describe(name)} is not a file, folder or link")
    return place, Member(kind="folder")


def _inside(name: str) -> str | None:
    """The normalised path; ``None`` if it is absolute or leaves its folder."""
    place = "/".join(part for part in name.split("/") if part not in ("", "."))
    return place if not name.startswith("/") and (not place or plain(place)) else None


def _contents(path: Path, members: dict[str, Member], texts: dict[str, bytes]) -> Contents:
    told = {name: data.decode("utf-8") for name, data in texts.items()}
    index = _json(told.get(INDEX, ""), path, INDEX)
    noarch = index.get("noarch") == "python"
    announced = _announced(path, members, told)
    return Contents(
        name=path.name,
        members=members,
        announced=announced,
        entry_points=_entry_points(path, told) if noarch or LINK in told else (),
        noarch_python=noarch,
    )


def _announced(path: Path, members: dict[str, Member], told: dict[str, str]) -> tuple[tuple[str, Kind], ...]:
    """The files that an installer links: by ``paths.json``, or by the file list of older packages."""
    listed = [line.removesuffix("\r") for line in told.get(FILES, "").split("\n")]
    listed = [line for line in listed if line]
    marked = [_marked(line) for line in told.get(HAS_PREFIX, "").splitlines() if line.strip()]
    unlinked = [line.strip() for line in told.get(NO_LINK, "").splitlines() if line.strip()]
    for place in (*listed, *marked, *unlinked):
        if not plain(place):
            raise _refused(path, f"it announces {describe(place)}, which is not a path inside an environment")
    if PATHS in told:
        entries = PathsJson.from_str(told[PATHS]).paths  # as the installer reads it
        spelled = [item["_path"] for item in _json(told[PATHS], path, PATHS)["paths"]]
        if [str(entry.relative_path) for entry in entries] != spelled:
            odd = next((text for text in spelled if not plain(text)), spelled[0])
            raise _refused(path, f"it announces {describe(odd)}, which is not a path inside an environment")
        kinds = (entry.path_type for entry in entries)
        return tuple(
            (place, "link" if kind.softlink else "folder" if kind.directory else "file")
            for place, kind in zip(spelled, kinds, strict=True)
        )
    if FILES not in told:
        raise _refused(path, f"it does not list its files: it has neither {PATHS} nor {FILES}")
    return tuple((place, members[place].kind if place in members else "file") for place in listed)


def _marked(line: str) -> str:
    """The path in a line of ``has_prefix``, which may have a placeholder and a mode in front."""
    try:
        return shlex.split(line)[-1]
    except (ValueError, IndexError):
        return line.strip()


def _entry_points(path: Path, told: dict[str, str]) -> tuple[str, ...]:
    if LINK not in told:
        return ()
    link = _json(told[LINK], path, LINK)
    noarch = link.get("noarch")
    if type(link.get("package_metadata_version")) is not int or not isinstance(noarch, dict):
        raise _refused(path, f"{LINK} lacks noarch or package_metadata_version")
    found = noarch.get("entry_points", [])
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise _refused(path, f"{LINK}: entry_points is not a list of texts")
    return tuple(found)


def _json(text: str, path: Path, name: str) -> dict[str, Any]:
    try:
        found = json.loads(text, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        raise _refused(path, f"{name} is not valid JSON: {printable(str(error))[:200]}") from error
    if not isinstance(found, dict):
        raise _refused(path, f"{name} does not contain a mapping")
    return found


def _refused(path: Path, wrong: str) -> InputError:
    hint = "no build tool makes such a package: report it to the channel, and lock another build"
    return InputError(f"{path_text(path.name)} is refused: {wrong}", hint=hint)


def read_index(path: Path) -> dict[str, Any]:
    """The ``info/index.json`` of a package.

    Raises:
        InputError: it cannot be read as a package.
    """
    try:
        found = IndexJson.from_package_archive(path)
        plain_index: dict[str, Any] = {
            "name": found.name.source,
            "version": str(found.version),
            "build": str(found.build),
            "build_number": found.build_number,
            "depends": list(found.depends),
            "constrains": list(found.constrains),
            "subdir": found.subdir,
        }
        more = {
            "license": found.license,
            "noarch": _noarch(found.noarch),
            "track_features": " ".join(found.track_features) or None,
            "timestamp": int(found.timestamp.timestamp() * 1000) if found.timestamp else None,
            "python_site_packages_path": found.python_site_packages_path,
        }
    except Exception as error:
        message = f"{path_text(path.name)} is not a package: {printable(redact(str(error)))[:300]}"
        raise InputError(message, hint="fetch it again, or lock again: cuenv lock") from error
    return plain_index | {name: value for name, value in more.items() if value}


def _noarch(kind: Any) -> str | None:
    return "python" if kind.python else "generic" if kind.generic else None
