"""The embedded installer. Import this module lazily: it imports rattler.

rattler does not verify packages of ``file://`` and writes where it has read into ``conda-meta``; here every package
of a folder is verified first, and ``conda-meta`` keeps the canonical URLs. A prefix is made whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from rattler import RepoDataRecord, Subdir
from rattler import install as _install
from rattler.exceptions import InstallerError

from cuenv.errors import ChannelError, HashError, InputError, OutsideError
from cuenv.lockfile import LockedPackage, Solution
from cuenv.urls import printable, redact, short_channel
from cuenv.world.channels import Progress, run, translated
from cuenv.world.client import make_client
from cuenv.world.conda_meta import read_conda_meta
from cuenv.world.files import look
from cuenv.world.records import record_of
from cuenv.world.sources import Sources

_MARKER = ".cuenv-unfinished"
_CHUNK = 1 << 20
_DOWNLOAD_SECONDS = 3600


def install(solution: Solution, prefix: Path, sources: Sources, *, progress: Progress | None = None) -> None:
    """Install a solution into a new prefix. Link scripts of packages are not run.

    A prefix that holds exactly this solution already is left as it is; one that an interrupted run left is removed
    first.

    Args:
        solution: what to install; every package has a hash.
        prefix: the folder of the environment: missing or empty.
        sources: where the packages are read.
        progress: told what is being done.

    Raises:
        InputError: the prefix holds something else.
        ChannelError: a package cannot be read.
        HashError: a package is not what its hash says.
        OutsideError: the installer failed, or the disk did.
    """
    prefix = prefix.absolute()
    if not _vacant(prefix, solution):
        return
    if progress:
        progress(f"verifying {len(solution.packages)} packages")
    places = {package.url: _verified(package, sources) for package in solution.packages}
    records = [record_of(replace(package, url=places[package.url])) for package in solution.packages]
    with _made_whole(prefix):
        if progress:
            progress(f"installing {len(solution.packages)} packages into {prefix}")
        with translated("the installer failed"):
            try:
                run(_put(records, prefix, solution.platform, sources))
            except InstallerError as error:
                raise _refusal(str(error)) from error
        _finish(prefix, {place: url for url, place in places.items()})


async def _put(records: list[RepoDataRecord], prefix: Path, platform: str, sources: Sources) -> None:
    await _install(
        records,
        prefix,
        cache_dir=sources.package_folder(),
        installed_packages=[],
        platform=Subdir(platform),
        client=make_client(sources, timeout=_DOWNLOAD_SECONDS),
        show_progress=False,
        execute_link_scripts=False,
    )


def _vacant(prefix: Path, solution: Solution) -> bool:
    """Whether there is something to do; clears away what an interrupted run left."""
    try:
        if not prefix.exists() or (prefix.is_dir() and not any(prefix.iterdir())):
            return True
        if (prefix / _MARKER).exists():
            _remove(prefix)
            return True
        same = (prefix / "conda-meta").is_dir() and _urls(read_conda_meta(prefix)) == _urls(solution.packages)
    except OSError as error:
        raise OutsideError(f"{prefix}: {error.strerror}", hint=look(prefix, error)) from error
    if same:
        return False
    raise InputError(f"{prefix} is not empty", hint=f"name another folder, or remove it first: rm -r {prefix}")


def _urls(packages: tuple[LockedPackage, ...]) -> list[str]:
    return sorted(package.url for package in packages)


def _verified(package: LockedPackage, sources: Sources) -> str:
    """Where the package is read; what lies in a folder is hashed now, the network's is hashed by rattler."""
    folder = sources.folder(package.channel)
    if folder is None:
        return package.url
    path = folder / package.subdir / package.url.rpartition("/")[2]
    name = f"channel {short_channel(package.channel)}: {path}"
    kind, expected = ("sha256", package.sha256) if package.sha256 else ("md5", package.md5)
    try:
        found = _digest(path, kind)
    except OSError as error:
        raise ChannelError(f"{name}: {error.strerror}", hint="copy the package from its channel again") from error
    if found != expected:
        raise HashError(
            f"{name}: its {kind} is {found}, the lock says {expected}", hint="copy the package from its channel again"
        )
    return path.absolute().as_uri()


def _digest(path: Path, kind: str) -> str:
    total = hashlib.new(kind, usedforsecurity=False)
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            total.update(chunk)
    return total.hexdigest()


@contextmanager
def _made_whole(prefix: Path) -> Iterator[None]:
    """Remove the prefix again when the block does not end well, Ctrl-C included.

    A marker inside lets the next run clear away what even ``kill -9`` left.
    """
    existed = prefix.exists()
    try:
        prefix.mkdir(parents=True, exist_ok=True)
        (prefix / _MARKER).touch()
        yield
        (prefix / _MARKER).unlink()
    except BaseException as error:
        _remove(prefix)
        if existed:
            prefix.mkdir(exist_ok=True)
        if isinstance(error, OSError):
            raise OutsideError(
                f"{error.filename or prefix}: {error.strerror or error}", hint=look(error.filename or prefix, error)
            ) from error
        raise


def _remove(prefix: Path) -> None:
    """Remove a half-made prefix. rattler's threads may still be writing for a moment after Ctrl-C."""
    for _ in range(20):
        shutil.rmtree(prefix, ignore_errors=True)
        if not prefix.exists():
            return
        time.sleep(0.05)


def _finish(prefix: Path, canonical: dict[str, str]) -> None:
    """Put canonical URLs into ``conda-meta``, and the history that tells conda what an environment is."""
    folder = prefix / "conda-meta"
    folder.mkdir(exist_ok=True)
    for path in folder.glob("*.json"):
        record = json.loads(path.read_bytes())
        url = canonical.get(record.get("url"))
        if url and url != record["url"]:
            path.write_text(json.dumps({**record, "url": url}, indent=2), encoding="utf-8")
    (folder / "history").touch()


def _refusal(text: str) -> HashError | ChannelError | OutsideError:
    lines = [line.removeprefix("Caused by: ").strip() for line in text.splitlines() if line.strip()]
    shown = printable(redact(": ".join(dict.fromkeys((lines[0], lines[-1]))) if lines else "no reason given"))
    if "mismatch" in text.lower():
        return HashError(shown, hint="the package is not what was locked: lock again, or ask who changed it")
    if lines and lines[0].startswith("failed to fetch"):
        return ChannelError(shown, hint="try again, or read the channel elsewhere: --mirror")
    return OutsideError(f"the installer failed: {shown}", hint="try again; the folder is as it was before")
