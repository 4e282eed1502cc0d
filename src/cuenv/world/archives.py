"""What stands in the archive of a conda package, read before anything unpacks it. Import this module lazily: rattler.

rattler, conda and micromamba unpack nothing outside their folder, but leave out what would go there without a word.
A package that tries is no package: here it is refused by name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from rattler.package import IndexJson
from rattler.package_streaming import PackageArchive

from cuenv.delivery.bundle import leaves
from cuenv.errors import InputError
from cuenv.reading import describe
from cuenv.urls import printable, redact
from cuenv.world.channels import run
from cuenv.world.files import shown

_AT_ONCE = 4
_SECTIONS: tuple[Literal["info", "pkg"], ...] = ("info", "pkg")


def inspect(paths: Iterable[Path]) -> None:
    """Refuse archives of packages with a name or a link that leads out of the environment, or a device.

    Raises:
        InputError: one has such an entry, or cannot be read as a package.
    """
    run(_all(tuple(paths)))


async def _all(paths: Sequence[Path]) -> None:
    gate = asyncio.Semaphore(_AT_ONCE)

    async def guarded(path: Path) -> None:
        async with gate:
            await _one(path)

    await asyncio.gather(*map(guarded, paths))


async def _one(path: Path) -> None:
    try:
        archive = await PackageArchive.from_path(str(path))
        for section in _SECTIONS:
            async for entry in archive.stream(section):
                _judge(path, entry)
    except (InputError, asyncio.CancelledError):
        raise
    except Exception as error:
        raise _refused(path, printable(redact(str(error)))[:300]) from error


def _judge(path: Path, entry: Any) -> None:
    wrong = _wrong(entry)
    if wrong:
        raise _refused(path, wrong)


def _wrong(entry: Any) -> str:
    """What is wrong with an entry; names outside the package are refused by rattler itself."""
    name, target = str(entry.name), entry.link_target
    if entry.is_symlink and leaves(name, target or ""):
        return f"{describe(name)} links to {describe(target)}, outside the environment"
    if entry.is_hardlink and leaves("", target or ""):
        return f"{describe(name)} links to {describe(target)}, outside the package"
    if not (entry.is_file or entry.is_link or name.endswith("/")):
        return f"{describe(name)} is no file, folder or link"
    return ""


def _refused(path: Path, wrong: str) -> InputError:
    return InputError(
        f"{shown(path.name)} is refused: {wrong}",
        hint="this is no package that a build makes: tell the channel, and lock another build",
    )


def read_index(path: Path) -> dict[str, Any]:
    """What ``info/index.json`` of a package says, as a channel's record has it.

    Raises:
        InputError: it cannot be read as a package.
    """
    try:
        found = IndexJson.from_package_archive(path)
        plain: dict[str, Any] = {
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
        raise InputError(
            f"{shown(path.name)} is no package: {printable(redact(str(error)))[:300]}",
            hint="fetch it again, or lock again: cuenv lock",
        ) from error
    return plain | {name: value for name, value in more.items() if value}


def _noarch(kind: Any) -> str | None:
    return "python" if kind.python else "generic" if kind.generic else None
