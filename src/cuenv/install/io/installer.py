"""The embedded installer. Import this module lazily: it imports rattler.

rattler does not verify packages of ``file://``, links whatever they name, and writes where it has read into
``conda-meta``; here every package is a file that is verified and looked into first, what was linked is held against
what was announced, and ``conda-meta`` keeps the canonical URLs. A prefix is made whole or not at all.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime, timezone
from pathlib import Path
from threading import Event

from rattler import RepoDataRecord, Subdir
from rattler import install as _install
from rattler.exceptions import InstallerError
from rattler.install import InstallerReporter

from cuenv.core import __version__
from cuenv.core.errors import ChannelError, HashError, InputError, OutsideError, Progress
from cuenv.core.io.exclusive import BusyError, hold, retry_while_busy, wait_for_folder
from cuenv.core.io.files import ls_command, path_text, reason_of, refuse_untrusted
from cuenv.core.reading import describe
from cuenv.core.record import replace
from cuenv.core.urls import printable, redact, short_channel
from cuenv.install.bundle import conda_item
from cuenv.install.io.archives import inspect_together
from cuenv.install.placing import CLOBBERED, MARKER
from cuenv.prefix.io.conda_meta import read_conda_meta
from cuenv.prefix.io.prefix import OWN_DIGEST, installed_digest
from cuenv.solve.io.cache import use
from cuenv.solve.io.channels import rattler_errors, run
from cuenv.solve.io.connection import make_client
from cuenv.solve.io.download import Wanted, fetch, hash_difference
from cuenv.solve.io.solver import record_of
from cuenv.solve.io.sources import Sources
from cuenv.solve.model import LockedPackage, Solution, content_digest

_STATE = "conda-meta/state"

"""Says what was installed; conda and micromamba read ``*.json`` there, and ``history``."""


def recover(prefix: Path, progress: Progress | None = None) -> None:
    """Undo what an interrupted run left; wait for a run that is still busy.

    Raises:
        OutsideError: that is not allowed here.
    """

    def attempt() -> None:
        with wait_for_folder(prefix.parent):
            _recover(prefix, _aside(prefix))

    try:
        retry_while_busy(attempt, progress)
    except OSError as error:
        raise OutsideError(f"{path_text(prefix)}: {reason_of(error)}", hint=ls_command(prefix, error)) from error


def _recover(prefix: Path, aside: Path) -> None:
    if (prefix / MARKER).exists():
        with hold(prefix / MARKER, prefix):
            _remove(prefix)
    if not aside.is_dir() or aside.is_symlink():
        return
    if not prefix.exists() or (prefix.is_dir() and not any(prefix.iterdir())):
        if prefix.exists():
            prefix.rmdir()
        aside.rename(prefix)
    elif installed_digest(prefix):
        _remove(aside)


def state_text(variables: Mapping[str, str]) -> str:
    """The text of ``conda-meta/state``, in which conda and micromamba store the variables of an environment."""
    return json.dumps({"version": 1, "env_vars": dict(variables)}) + "\n"


def write_state(prefix: Path, variables: Mapping[str, str]) -> None:
    """Let the activation of an environment set variables, as ``conda env config vars set`` does.

    Raises:
        OSError: it cannot be written.
    """
    (prefix / _STATE).write_text(state_text(variables), encoding="utf-8")


def vacant(prefix: Path) -> bool:
    """Whether the folder does not exist or is empty.

    Raises:
        OutsideError: it cannot be looked at.
    """
    try:
        return not prefix.exists() or (prefix.is_dir() and not any(prefix.iterdir()))
    except OSError as error:
        raise OutsideError(f"{path_text(prefix)}: {reason_of(error)}", hint=ls_command(prefix, error)) from error


def refuse(prefix: Path) -> InputError:
    """The error for a folder that cuenv must not fill."""
    if installed_digest(prefix):
        return InputError(
            f"{path_text(prefix)} is not empty: it holds an environment of another lock, or one that was changed",
            hint="replace it, when nothing runs from it: cuenv install --replace",
        )
    what = "is not empty" if prefix.is_dir() else "exists but is not a folder"
    hint = "name another folder"
    if (prefix / "conda-meta").is_dir():  # else what lies there may be anything
        hint += f", or remove this environment first: rm -r {path_text(prefix)}"
    return InputError(f"{path_text(prefix)} {what}", hint=hint)


@contextmanager
def made_whole(prefix: Path, content: str) -> Iterator[None]:
    """Make an environment in a block; after an error or Ctrl-C everything is as before.

    Args:
        prefix: missing, empty, or an environment of ours that is to be replaced.
        content: digest of what is installed.

    Raises:
        BusyError: another run has begun there: nothing of it is touched.
        OutsideError: the disk is full, or the folder is not ours to write.
    """
    existed, aside, begun = prefix.exists(), _aside(prefix), Event()
    with ExitStack() as held:
        try:
            _begin(prefix, aside, held, begun)
            yield
            (prefix / OWN_DIGEST).write_text(f"{content}\n", encoding="ascii")
            (prefix / MARKER).unlink()
        except BaseException as error:
            if begun.is_set():
                _back(prefix, aside, existed=existed)
            if isinstance(error, OSError):
                message = f"{path_text(error.filename or prefix)}: {reason_of(error)}"
                raise OutsideError(message, hint=ls_command(error.filename or prefix, error)) from error
            raise
    if aside.is_dir():
        try:
            _remove(aside)
        except BaseException:  # Ctrl-C comes too late to undo anything: the new one is whole
            _remove(aside)
            raise


def _begin(prefix: Path, aside: Path, held: ExitStack, begun: Event) -> None:
    """Move the replaced environment aside, and lock the marker of the new one."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    refuse_untrusted(prefix)
    with wait_for_folder(prefix.parent):
        marker = prefix / MARKER
        if marker.exists():  # what a killed run left was cleared away before
            raise BusyError(f"another cuenv is at work on {path_text(prefix)}", hint="wait for it")
        replaced = prefix.exists() and any(prefix.iterdir())
        if replaced and os.path.lexists(aside):  # a file that NFS keeps for a program that runs, or not ours at all
            message = f"cannot replace {path_text(prefix)}: {path_text(aside)} is in the way, and could not be removed"
            raise OutsideError(message, hint=f"rm -r {shlex.quote(path_text(aside))}")
        begun.set()
        if replaced:
            prefix.rename(aside)
        prefix.mkdir(exist_ok=True)
        marker.touch()
        held.enter_context(hold(marker, prefix))


def _back(prefix: Path, aside: Path, *, existed: bool) -> None:
    if aside.is_dir() or (prefix / MARKER).exists() or not existed:
        _remove(prefix)
    if aside.is_dir() and not prefix.exists():
        aside.rename(prefix)
    elif existed:
        prefix.mkdir(exist_ok=True)


def _aside(prefix: Path) -> Path:
    return prefix.with_name(f".{prefix.name}.cuenv-old")


def _remove(folder: Path) -> None:
    """Remove a folder; rattler's threads may still write for a moment after Ctrl-C."""
    for _ in range(20):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.05)


_DISK = ("os error 28", "os error 122", "os error 27", "os error 30", "os error 13")
"""How rattler ends when the disk is full, a quota or a limit of size is reached, or writing is not allowed."""
_INSTALLERS = ("conda-meta", MARKER, CLOBBERED, "CACHEDIR.TAG")
"""What the installer itself writes at the top of an environment."""


def install(
    solution: Solution,
    prefix: Path,
    sources: Sources,
    *,
    archives: Mapping[str, Path] | None = None,
    replacing: bool = False,
    finish: Callable[[], None] | None = None,
    progress: Progress | None = None,
) -> bool:
    """Install a solution into a new prefix, without running link scripts.

    A prefix that holds exactly this solution already is left as it is; one that an interrupted run left is cleared
    away first, and what it was to replace comes back.

    Args:
        solution: what to install; every package has a hash.
        prefix: the folder of the environment: missing or empty.
        archives: files that hold packages, by URL; they are hashed again.
        replacing: put this in the place of an environment that cuenv made.
        finish: called last, while the prefix still counts as unfinished; the pip part.

    Returns:
        whether there was anything to do.

    Raises:
        InputError: the prefix holds something else, or an archive is refused.
        ChannelError: a package cannot be read.
        HashError: a package is not what its hash says.
        OutsideError: the installer failed, or the disk did.
    """
    prefix = prefix.absolute()

    def attempt() -> bool:
        if not needed(solution, prefix, replacing=replacing, progress=progress):
            return False
        _make(solution, prefix, sources, archives=archives or {}, finish=finish, progress=progress)
        return True

    return retry_while_busy(attempt, progress)


def _make(
    solution: Solution,
    prefix: Path,
    sources: Sources,
    *,
    archives: Mapping[str, Path],
    finish: Callable[[], None] | None,
    progress: Progress | None,
) -> None:
    """Verify, check and link the packages."""
    files = _files(solution, sources, archives, progress)
    for number, package in enumerate(solution.packages, 1):
        if progress:
            progress(f"verifying {number} of {len(solution.packages)} packages")
        _verify(package, files[package.url], sources, archives)
    if progress:
        progress(f"looking into {len(solution.packages)} packages")
    expected = inspect_together(solution.packages, [files[package.url] for package in solution.packages])
    places = {url: path.absolute().as_uri() for url, path in files.items()}
    records = [record_of(replace(_named(package), url=places[package.url])) for package in solution.packages]
    with made_whole(prefix, content_digest((solution,))):
        if progress:
            progress(f"installing {len(solution.packages)} packages into {prefix}")
        with rattler_errors("the installer failed"):
            try:
                run(_put(records, prefix, solution.platform, sources, progress))
            except InstallerError as error:
                raise _refusal(str(error)) from error
        _compare(prefix, expected)
        _finish(prefix, {place: url for url, place in places.items()}, solution)
        if finish:
            finish()


def needed(solution: Solution, prefix: Path, *, replacing: bool, progress: Progress | None = None) -> bool:
    """Whether there is something to install at a prefix; undoes an interrupted run and waits for a busy one.

    Raises:
        InputError: it holds something else, and that is not to be replaced.
        OutsideError: it cannot be looked at.
    """
    recover(prefix, progress)
    if vacant(prefix):
        return True
    own = installed_digest(prefix)
    # without a note it was made in cuenv's first days; with one, somebody may have changed it since
    known = own == content_digest((solution,)) or (not own and not solution.pip)
    if known and (prefix / "conda-meta").is_dir() and _urls(read_conda_meta(prefix)) == _urls(solution.packages):
        return replacing and bool(own)  # made anew when told: its files may have been spoiled since
    if replacing and own:
        return True
    raise refuse(prefix)


class _Linked(InstallerReporter):
    """Reports the number of linked packages; rattler calls it from its threads."""

    def __init__(self, total: int, prefix: Path, progress: Progress) -> None:
        self._total, self._prefix, self._progress = total, prefix, progress
        self._done = 0

    def on_link_complete(self, index: int) -> None:  # noqa: ARG002 - rattler's signature
        """One more package is linked."""
        self._done += 1
        self._progress(f"installing {self._done} of {self._total} packages into {self._prefix}")


async def _put(
    records: list[RepoDataRecord], prefix: Path, platform: str, sources: Sources, progress: Progress | None
) -> None:
    await _install(
        records,
        prefix,
        cache_dir=sources.package_folder(),
        installed_packages=[],
        platform=Subdir(platform),
        client=make_client(sources),
        show_progress=False,
        execute_link_scripts=False,
        reporter=_Linked(len(records), prefix, progress) if progress else None,  # type: ignore[abstract] # the others do nothing, and need no body here
    )


def _urls(packages: tuple[LockedPackage, ...]) -> list[str]:
    return sorted(package.url for package in packages)


def _files(
    solution: Solution, sources: Sources, archives: Mapping[str, Path], progress: Progress | None
) -> dict[str, Path]:
    """The archive of each package by URL: a given one, one of a folder, or downloaded into the store."""
    found, missing = {}, []
    for package in solution.packages:
        folder = sources.folder(package.channel)
        if package.url in archives:
            found[package.url] = archives[package.url]
        elif folder is not None:
            found[package.url] = folder / package.subdir / package.url.rpartition("/")[2]
        else:
            item = conda_item(package)
            use(sources)
            path = found[package.url] = sources.archive_folder() / item.stored
            missing.append(Wanted(url=item.url, path=path, sha256=item.sha256, md5=item.md5, size=package.size))
    if missing:
        fetch(missing, sources, progress=progress)
    return found


def _verify(package: LockedPackage, path: Path, sources: Sources, archives: Mapping[str, Path]) -> None:
    """Compare an archive with its hash."""
    given = package.url in archives or sources.folder(package.channel) is None
    name = f"{path}" if given else f"channel {short_channel(package.channel)}: {path}"
    try:
        wrong = hash_difference(path, Wanted(url=package.url, path=path, sha256=package.sha256, md5=package.md5))
    except OSError as error:
        raise ChannelError(f"{name}: {error.strerror}", hint="copy the package from its channel again") from error
    if wrong:
        raise HashError(f"{name}: {wrong}", hint="copy the package from its channel again")


def _named(package: LockedPackage) -> LockedPackage:
    """Check that name, version and build of a package can be file names."""
    words = (package.name, package.version, package.build)
    if not all(word and "/" not in word and "\0" not in word for word in words) or package.name.startswith("."):
        message = f"the lock names a package {describe(' '.join(words))}, which is not a valid package name"
        raise InputError(message, hint="cuenv lock")
    return package


def _compare(prefix: Path, expected: Iterable[str]) -> None:
    """Compare the linked files with those that the packages announced.

    Raises:
        InputError: something announced is missing, or something else is there.
    """
    folders: dict[str, str] = {}
    there, missing = set(), []
    for place in expected:
        above, _, name = place.rpartition("/")
        if above not in folders:
            folders[above] = os.path.realpath(prefix / above)
        path = f"{folders[above]}/{name}"
        there.add(path)
        if not os.path.lexists(path):
            missing.append(place)
    root = os.path.realpath(prefix)
    more = [path for path in _linked(root) if path not in there]
    for what, names in (("missing", missing), ("there unannounced", [os.path.relpath(path, root) for path in more])):
        if names:
            some = ", ".join(describe(name) for name in sorted(names)[:3])
            message = f"{path_text(prefix)} differs from what its packages list: {len(names)} {what}: {some}"
            hint = "no build tool makes such a package: report it to the channel, and lock another build"
            raise InputError(message, hint=hint)


def _linked(root: str) -> Iterator[str]:
    """Every file and link of an environment except those of the installer."""
    todo, ours = [root], {f"{root}/{name}" for name in _INSTALLERS}
    while todo:
        with os.scandir(todo.pop()) as entries:
            for entry in entries:
                own = entry.path in ours
                if entry.is_dir(follow_symlinks=False):
                    todo += [] if own else [entry.path]
                elif not own and not entry.name.startswith(".nfs"):  # what NFS keeps of a file that is still open
                    yield entry.path


def _finish(prefix: Path, canonical: dict[str, str], solution: Solution) -> None:
    """Write canonical URLs into ``conda-meta``, and the history by which conda recognises an environment."""
    folder = prefix / "conda-meta"
    folder.mkdir(exist_ok=True)
    for path in folder.glob("*.json"):
        record = json.loads(path.read_bytes())
        url = canonical.get(record.get("url"))
        if url and url != record["url"]:
            path.write_text(json.dumps({**record, "url": url}, indent=2), encoding="utf-8")
    when = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
    lines = [f"==> {when} <==", "# cmd: cuenv install", f"# cuenv version: {__version__}"]
    lines += [f"+{item.channel}/{item.subdir}::{item.name}-{item.version}-{item.build}" for item in solution.packages]
    (folder / "history").write_text("\n".join([*lines, ""]), encoding="utf-8")


def _refusal(text: str) -> HashError | ChannelError | OutsideError:
    lines = [line.removeprefix("Caused by: ").strip() for line in text.splitlines() if line.strip()]
    shown = printable(redact(": ".join(dict.fromkeys((lines[0], lines[-1]))) if lines else "no reason given"))
    if any(word in text for word in _DISK):
        return OutsideError(f"the installer cannot write: {shown}", hint="df -h")
    if "mismatch" in text.lower():
        return HashError(shown, hint="the package is not the locked one: lock again, or find out who changed it")
    if lines and lines[0].startswith("failed to fetch"):
        return ChannelError(shown, hint="try again, or read the channel elsewhere: --mirror")
    return OutsideError(f"the installer failed: {shown}", hint="try again; the folder is unchanged")
