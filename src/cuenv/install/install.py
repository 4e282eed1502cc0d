"""Install: from a lock or a bundle to an environment, every byte hashed and looked at before it is unpacked."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from cuenv.core.errors import HashError, InputError, OutsideError, Progress, UsageError
from cuenv.core.findings import Report, report
from cuenv.core.io.files import is_file, is_folder, may_write_in, path_text, reason_of
from cuenv.core.record import dataclass
from cuenv.install.bundle import Item, conda_item, pip_item
from cuenv.install.io.bundles import is_bundle, opened
from cuenv.install.io.installer import write_state
from cuenv.install.make_bundle import checked_place, chosen, platform_here, refusals
from cuenv.lockfile.files import LOCK_NAME, lock_file, read_lock
from cuenv.lockfile.formats import PLATFORM, LockPart, explicit_txt
from cuenv.lockfile.formats.unlocked_txt import aside_command
from cuenv.solve.io.cache import use
from cuenv.solve.io.download import JOBS, Wanted, fetch, hash_difference
from cuenv.solve.io.sources import Sources, place_of
from cuenv.solve.model import Lock, Solution


@dataclass(frozen=True, kw_only=True)
class InstallRequest:
    """What to install, and where."""

    path: Path  # a lock, the folder it lies in, or a bundle
    prefix: Path  # folder of the environment
    sources: Sources
    environ: Mapping[str, str]
    platform: str = ""  # empty for this machine's
    replacing: bool = False  # put this in the place of an environment that cuenv made
    jobs: int = JOBS  # files fetched at the same time
    environment: str = ""  # of a ``pixi.lock``; empty for the one that pixi takes itself


@dataclass(frozen=True, kw_only=True)
class Installed:
    """The result of ``cuenv install``."""

    report: Report  # why it was refused, if it was
    prefix: Path
    solution: Solution | None = None  # what is installed; ``None`` when refused
    changed: bool = False
    lock: Path | None = None  # the file that names the GPUs that builds are for
    folder: Path | None = None  # where the lock lies; ``None`` for a bundle

    @property
    def afterwards(self) -> str:
        """The command that installs the unpinned requirements of the lock; empty without any."""
        if self.solution is None or not self.solution.aside:
            return ""
        python = shlex.quote(str(self.prefix / "bin" / "python"))
        if self.folder is not None:
            return aside_command(self.solution, self.folder, python)
        options = [word for text in self.solution.options for word in _words(text)]
        words = [word for item in self.solution.aside for word in _words(item.text)]
        build = "--no-build-isolation " if any(item.build for item in self.solution.aside) else ""
        return f"{python} -m pip install {build}{shlex.join([*options, *words])}"

    @property
    def hook(self) -> str | None:
        """The command by which builds find CUDA, if it has conda-forge's compiler; ``None`` without one."""
        nvcc = self.solution.package("cuda-nvcc") if self.solution else None
        if nvcc is None or nvcc.channel_name != "conda-forge":
            return None
        lock = ["--lock", str(self.lock)] if self.lock else []
        return shlex.join(["cuenv", "hook", "--prefix", str(self.prefix), *lock])

    @property
    def commands(self) -> tuple[str, ...]:
        """The next commands."""
        place = shlex.quote(str(self.prefix))
        return (
            f'eval "$(cuenv shell-hook --prefix {place})"',
            f"cuenv run --prefix {place} -- python",
            f"conda activate {place}",
            f"micromamba activate {place}",
        )


def _words(line: str) -> list[str]:
    """A line of a requirements list as words of a command; an option and its value are two words."""
    return line.split(" ", 1) if line.startswith("-") else [line]


def install(request: InstallRequest, progress: Progress | None = None) -> Installed:
    """Install a lock or a bundle completely or not at all.

    Raises:
        InputError: the lock or bundle is not valid, or the folder holds something else.
        ChannelError: a file cannot be had.
        HashError: a file is not what was locked; it is named.
        OutsideError: a disk, the installer or a build failed.
    """
    prefix = checked_place(request.prefix, "--prefix")
    if not is_bundle(request.path):
        part = LockPart(environment=request.environment)
        return _install(request, prefix, read_lock(request.path, to_install=part), None, progress)
    if request.environment:
        raise UsageError("--environment chooses from a pixi.lock, but this is a bundle", hint="cuenv install --help")
    scratch = prefix.with_name(f".{prefix.name}.cuenv-bundle")
    with opened(request.path, scratch, progress) as folder:
        return _install(request, prefix, read_lock(_lock_in(folder)), folder, progress)


def _lock_in(folder: Path) -> Path:
    """The lock in a bundle: ``conda-lock.yml``, otherwise an explicit file."""
    explicit = sorted(folder.glob(explicit_txt.FORMAT.file.replace(PLATFORM, "*")))
    return explicit[0] if explicit and not is_file(folder / LOCK_NAME) else folder / LOCK_NAME


def _install(
    request: InstallRequest, prefix: Path, lock: Lock, folder: Path | None, progress: Progress | None
) -> Installed:
    from cuenv.install.io import installer  # noqa: PLC0415 - heavy, and not needed to refuse

    platform = request.platform or platform_here()
    (solution,) = chosen(lock, (platform,), request.path)
    judged = report(str(request.path), tuple(refusals(lock, (solution,))))
    if judged.errors:
        return Installed(report=judged, prefix=prefix)
    if solution.pip and platform != platform_here():
        raise InputError(
            f"the lock has packages for pip, which only {platform}'s own Python can install; this is {platform_here()}",
            hint="cuenv bundle, then install on a machine of that platform",
        )
    told = lock_file(request.path) if lock.metadata.get("cuenv_gpus") and folder is None else None
    try:
        variables = lock.variables
    except ValueError as error:
        raise InputError(f"{path_text(request.path)}: metadata.custom_metadata: {error}", hint="cuenv lock") from error
    beside = lock_file(request.path).parent if folder is None else None
    if not installer.needed(solution, prefix, replacing=request.replacing, progress=progress):
        return Installed(report=judged, prefix=prefix, solution=solution, lock=told, folder=beside)
    _check_writable(prefix)
    files = _files(request, solution, folder, progress)

    def finish() -> None:
        _pip(request, solution, prefix, files, offline=folder is not None, progress=progress)
        if variables:
            write_state(prefix, variables)

    changed = installer.install(
        solution, prefix, request.sources, archives=files, replacing=request.replacing, finish=finish, progress=progress
    )
    return Installed(report=judged, prefix=prefix, solution=solution, changed=changed, lock=told, folder=beside)


def _check_writable(prefix: Path) -> None:
    """Raise an error before gigabytes are downloaded, if the folder above is not writable.

    Raises:
        OutsideError: it is not.
    """
    above = next((item for item in prefix.parents if is_folder(item)), Path("/"))
    if not may_write_in(above):
        message = f"cannot make {path_text(prefix)}: {path_text(above)} is not writable"
        raise OutsideError(message, hint="cuenv install --prefix DIR")


def _files(
    request: InstallRequest, solution: Solution, folder: Path | None, progress: Progress | None
) -> dict[str, Path]:
    """The file of every package by URL: from the bundle, from a folder, or downloaded into the store."""
    wanted = [conda_item(package) for package in solution.packages]
    wanted += [pip_item(item, solution.platform) for item in solution.pip]
    if folder is not None:
        return {item.url: _of_bundle(item, folder, request.path) for item in wanted}
    found, missing = {}, []
    use(request.sources)
    store = request.sources.archive_folder()
    for item in wanted:
        local = place_of(item.url, request.sources).path
        path = local or store / item.stored
        found[item.url] = path
        if local is None or item.pip:
            missing.append(Wanted(url=item.url, path=path, sha256=item.sha256, md5=item.md5))
    from cuenv.solve.io.pip import logins  # noqa: PLC0415 - not needed for a bundle

    fetch(missing, request.sources, logins=logins(request.environ), jobs=request.jobs, progress=progress)
    return found


def _of_bundle(item: Item, folder: Path, source: Path) -> Path:
    """The file of a package in a bundle, which is verified by the lock and by ``SHA256SUMS``."""
    path = folder / item.place
    try:
        wrong = hash_difference(path, Wanted(url=item.url, path=path, sha256=item.sha256, md5=item.md5))
    except OSError as error:
        message = f"{path_text(source)}: {item.place}: {reason_of(error)}"
        raise HashError(message, hint="copy the bundle again") from error
    if wrong:
        raise HashError(f"{path_text(source)}: {item.place}: {wrong}", hint="copy the bundle again")
    return path


def _pip(
    request: InstallRequest,
    solution: Solution,
    prefix: Path,
    files: Mapping[str, Path],
    *,
    offline: bool,
    progress: Progress | None,
) -> None:
    if not solution.pip:
        return
    from cuenv.install.io.pip import install_pip  # noqa: PLC0415 - only with a pip part

    install_pip(
        solution.pip,
        prefix,
        files,
        request.environ,
        certificates=request.sources.certificates,
        offline=offline or request.sources.offline,
        progress=progress,
    )
