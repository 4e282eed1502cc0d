"""Making a bundle: everything that a lock names, in one folder or tar, for machines without a network."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from cuenv.core.errors import InputError, OutsideError, Progress, UsageError
from cuenv.core.findings import Finding, Report, report
from cuenv.core.io.exclusive import retry_while_busy
from cuenv.core.io.files import absolute, expand_home, ls_command, path_text, read_text, reason_of
from cuenv.core.io.process import machine
from cuenv.core.record import dataclass, replace
from cuenv.host.io.surroundings import platform_of
from cuenv.install import bundle as repodata
from cuenv.install.bundle import SCRIPT, SUMS, Item, conda_item, items, sums_text, without_credentials
from cuenv.install.io.bundles import README, install_script, is_tar, keep_only, publish, staging, write_files
from cuenv.install.io.installer import state_text
from cuenv.lockfile.files import LOCK_NAME, lock_file, read_lock
from cuenv.lockfile.formats import explicit_txt, requirements_txt
from cuenv.resolver.solution_policy import edit_findings, missing_hash_findings
from cuenv.solve.io.cache import use
from cuenv.solve.io.download import JOBS, Wanted, digest, fetch
from cuenv.solve.io.pip import logins
from cuenv.solve.io.sources import Sources
from cuenv.solve.model import Lock, LockedPackage, Solution


def platform_here() -> str:
    """The platform of this machine.

    Raises:
        UsageError: cuenv does not serve it.
    """
    return platform_of(*machine())


def checked_place(path: Path, option: str) -> Path:
    """The absolute path of a file or folder to be made, without resolving links.

    Raises:
        UsageError: it is the root, or contains unprintable characters.
    """
    found = absolute(expand_home(path))
    if found == found.parent:
        raise UsageError(f"{option} {found} is the root directory", hint=f"{option} DIR")
    if not str(found).isprintable():
        raise UsageError(f"{option} {str(path)!r} contains unprintable characters", hint=f"{option} DIR")
    return found


def chosen(lock: Lock, platforms: Sequence[str], path: Path) -> tuple[Solution, ...]:
    """The parts of a lock for some platforms, or all parts.

    Raises:
        InputError: the lock does not hold one, or nothing at all.
    """
    if not lock.solutions:
        raise InputError(f"{path} holds no packages", hint="cuenv lock")
    for platform in platforms:
        if lock.solution(platform) is None:
            have = ", ".join(item.platform for item in lock.solutions)
            message = f"{path} has {have}, but nothing for {platform}"
            raise InputError(message, hint=f"cuenv lock --platform {shlex.quote(platform)}")
    return tuple(item for item in lock.solutions if not platforms or item.platform in platforms)


def refusals(lock: Lock, solutions: Sequence[Solution]) -> Iterator[Finding]:
    """Why a lock is refused: it was edited (CU108), or something in it has no hash (CU105, CU513)."""
    yield from edit_findings(lock)
    for solution in solutions:
        yield from _unpinned(solution, lock.again) if lock.program else ()
        yield from missing_hash_findings(solution.packages, explicit=not lock.channels)
        if solution.pip:
            from cuenv.lockfile.pip_findings import pip_findings  # noqa: PLC0415 - most locks have no pip part

            yield from (item for item in pip_findings(solution) if item.code == "CU513")


def _unpinned(solution: Solution, again: str) -> Iterator[Finding]:
    """The packages of another program's lock that are built from folders and repositories and cannot be verified."""
    places = [item.message for item in solution.remarks if item.subject == "packages"]
    places += [f"pip: {item.name} comes from {item.url}" for item in solution.pip if item.direct and not item.sha256]
    for text in places:
        message = f"{text}; cuenv installs only files with a hash"
        yield Finding(code="CU105", severity="error", subject="packages", message=message, fix=again)


@dataclass(frozen=True, kw_only=True)
class BundleRequest:
    """What to bundle, and where."""

    path: Path  # a lock, or the folder it lies in
    out: Path  # a folder, or a file that ends in ``.tar``
    sources: Sources
    environ: Mapping[str, str]
    platforms: tuple[str, ...] = ()  # empty for all of the lock
    jobs: int = JOBS  # files fetched at the same time


@dataclass(frozen=True, kw_only=True)
class Bundled:
    """The result of ``cuenv bundle``."""

    report: Report  # why it was refused, if it was
    out: Path
    solutions: tuple[Solution, ...] = ()  # what is in it; empty when refused
    size: int = 0  # bytes of the files that the lock names


def bundle(request: BundleRequest, progress: Progress | None = None) -> Bundled:
    """Make a bundle; an interrupted run continues.

    Raises:
        InputError: the lock is not valid, or something stands at the place that is not a bundle.
        ChannelError: a file cannot be had.
        HashError: a file is not what was locked; it is named.
        OutsideError: it cannot be written; what stood there stays.
    """
    out = checked_place(request.out, "-o")
    lock = read_lock(request.path)
    solutions = chosen(lock, request.platforms, request.path)
    judged = report(str(request.path), tuple(refusals(lock, solutions)))
    if judged.errors:
        return Bundled(report=judged, out=request.out)
    wanted = items(solutions)
    with ExitStack() as held:
        folder = retry_while_busy(lambda: staging(out, held), progress)
        _fetch(request, wanted, folder, out, progress)
        try:
            size = _finish(request.path, lock, solutions, wanted, folder=folder, out=out, progress=progress)
        except OSError as error:
            message = f"cannot write {path_text(error.filename or out)}: {reason_of(error)}"
            raise OutsideError(message, hint=ls_command(error.filename or out, error)) from error
    return Bundled(report=judged, out=request.out, solutions=solutions, size=size)


def _finish(
    path: Path,
    lock: Lock,
    solutions: Sequence[Solution],
    wanted: Sequence[Item],
    *,
    folder: Path,
    out: Path,
    progress: Progress | None,
) -> int:
    """Write the index files and rename the bundle to its name; returns the size of the packages."""
    texts = {**_locks(path, lock, solutions, wanted), **_channels(solutions, folder, progress)}
    write_files(folder, texts, executable=(SCRIPT,))
    known = {item.place: item.sha256 or digest(folder / item.place, "sha256") for item in wanted}
    known |= {place: digest(folder / place, "sha256") for place in texts}
    keep_only(folder, (*known, SUMS))
    write_files(folder, {SUMS: sums_text(known)})
    size = sum((folder / item.place).stat().st_size for item in wanted)
    if progress:
        progress(f"writing {path_text(out)}")
    publish(folder, out)
    return size


def _fetch(request: BundleRequest, wanted: Sequence[Item], folder: Path, out: Path, progress: Progress | None) -> None:
    """Get every file: from the bundle that is replaced, the store, a mirror, or the network."""
    use(request.sources)
    store = request.sources.archive_folder()
    files = []
    for item in wanted:
        seeds = [store / item.stored]
        seeds += [] if is_tar(out) else [out / item.place]
        files.append(
            Wanted(url=item.url, path=folder / item.place, sha256=item.sha256, md5=item.md5, seeds=tuple(seeds))
        )
    fetch(files, request.sources, logins=logins(request.environ), jobs=request.jobs, progress=progress)


def _locks(path: Path, lock: Lock, solutions: Sequence[Solution], wanted: Sequence[Item]) -> dict[str, str]:
    """The lock without credentials, the file that the script reads for each platform, the script, and a README."""
    found = {SCRIPT: install_script(), "README.txt": README}
    try:
        variables = lock.variables
    except ValueError as error:
        raise InputError(f"{path_text(path)}: metadata.custom_metadata: {error}", hint="cuenv lock") from error
    if variables:
        found["state.json"] = state_text(variables)
    if lock.channels:
        found[LOCK_NAME] = without_credentials(read_text(lock_file(path)), [*wanted, *items(lock.solutions)])
    for solution in solutions:
        here = replace(
            solution, packages=tuple(replace(item, url=conda_item(item).place) for item in solution.packages)
        )
        head = "For install.sh: places in this folder, in the order of installation"
        found[f"explicit-{solution.platform}.txt"] = explicit_txt.render(here, head=(head,))
        if not lock.channels:
            name = explicit_txt.FORMAT.path(Path(), solution.platform).name
            found[name] = explicit_txt.render(solution, head=("What this bundle holds",))
        if solution.pip:
            named = (replace(item, direct=False) for item in solution.pip)
            found[f"requirements-{solution.platform}.txt"] = requirements_txt.render(named, head=())
    return found


def _channels(solutions: Sequence[Solution], folder: Path, progress: Progress | None) -> dict[str, str]:
    """``repodata.json`` of each channel and subdir with the packages in the bundle."""
    from cuenv.install.io.archives import inspect_together, read_index  # noqa: PLC0415 - heavy, and not needed to refuse

    packages = {conda_item(item).place: item for solution in solutions for item in solution.packages}
    if progress:
        progress(f"looking into {len(packages)} packages")
    for solution in solutions:
        inspect_together(solution.packages, [folder / conda_item(item).place for item in solution.packages])
    records: dict[str, dict[str, dict[str, Any]]] = {}
    for solution in solutions:
        for package in solution.packages:
            root = conda_item(package).place.rsplit("/", 2)[0]
            records.setdefault(f"{root}/{solution.platform}", {})
            records.setdefault(f"{root}/noarch", {})
    for place, package in packages.items():
        root, name = place.rsplit("/", 1)
        records[root][name] = _record(package, folder / place, read_index(folder / place))
    return {f"{root}/repodata.json": repodata.render(root.rpartition("/")[2], found) for root, found in records.items()}


def _record(package: LockedPackage, path: Path, index: dict[str, Any]) -> dict[str, Any]:
    """The record of a package from its own index, corrected by the lock.

    Raises:
        InputError: the archive holds another package than its name says.
    """
    inside = (index["name"], index["version"], index["build"])
    if inside != (package.name, package.version, package.build):
        raise InputError(
            f"{path.name} holds {' '.join(map(str, inside))}, the lock says "
            f"{package.name} {package.version} {package.build}",
            hint="cuenv lock",
        )
    depends = list(package.depends) or index["depends"]
    sums = {name: text for name, text in (("md5", package.md5), ("sha256", package.sha256)) if text}
    if "sha256" not in sums:
        sums["sha256"] = digest(path, "sha256")
    return {**index, "depends": depends, "subdir": package.subdir, **sums, "size": path.stat().st_size}
