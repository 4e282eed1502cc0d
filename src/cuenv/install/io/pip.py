"""The pip part into an environment: by uv, from files that lie here and are verified, and nothing else."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from cuenv.core.errors import OutsideError, Progress
from cuenv.core.io.files import is_file, path_text
from cuenv.core.io.process import Completed, run
from cuenv.core.record import replace
from cuenv.core.urls import printable, redact
from cuenv.install.bundle import file_name
from cuenv.lockfile.formats import requirements_txt
from cuenv.solve.io.pip import index_variables, uv_program
from cuenv.solve.model import PipLocked

_TIMEOUT = 3600.0
_LIMIT = 16 * 1024 * 1024
_SCRATCH = ".cuenv-pip"


def install_pip(
    packages: tuple[PipLocked, ...],
    prefix: Path,
    files: Mapping[str, Path],
    environ: Mapping[str, str],
    *,
    certificates: str | None = None,
    offline: bool,
    progress: Progress | None = None,
) -> None:
    """Install the pip part into an environment that has its conda part.

    Wheels are unpacked without network. A source is built: online with what its build asks for, offline with what the
    environment has.

    Args:
        packages: each with its sha256.
        prefix: of the environment; its own Python says where packages go.
        files: the file of each package, by URL.
        environ: the user's variables: indexes and proxies, for what a source needs to be built.
        certificates: authorities of a settings file, for when the variables name none.

    Raises:
        OutsideError: the environment has no Python of its own, or uv or a build failed.
    """
    python = _python(prefix, environ)
    if progress:
        progress(f"installing {len(packages)} packages for pip into {prefix}")
    scratch = prefix / _SCRATCH
    links = scratch / "files"
    links.mkdir(parents=True)
    for item in packages:
        (links / file_name(item.url)).symlink_to(files[item.url].absolute())
    text = requirements_txt.render((replace(item, direct=False) for item in packages), head=())
    (scratch / "requirements.txt").write_text(text, encoding="utf-8")
    sources = any(item.from_source for item in packages)
    command = [uv_program(), "pip", "install", "--python", str(python), "--require-hashes", "--no-deps"]
    command += ["--break-system-packages", "--no-config", "--no-progress", "--color", "never", "--compile-bytecode"]
    command += ["--find-links", str(links), "--link-mode", "copy", "-r", str(scratch / "requirements.txt")]
    if not sources:
        command += ["--offline", "--no-index", "--no-build"]
    elif offline:
        command += ["--offline", "--no-index", "--no-build-isolation"]
    variables = index_variables(environ, certificates) if sources and not offline else {}
    more = {**variables, "UV_CACHE_DIR": str(scratch / "cache"), "UV_PYTHON_DOWNLOADS": "never"}
    done = run(command, _TIMEOUT, environ, more=more, folder=str(scratch), limit=_LIMIT)
    if done.reason:
        raise OutsideError(f"the pip part cannot be installed: {_last(done)}", hint=_hint(sources, offline=offline))
    shutil.rmtree(scratch)
    (prefix / ".lock").unlink(missing_ok=True)  # uv's own, while it works


def _python(prefix: Path, environ: Mapping[str, str]) -> Path:
    """The environment's own Python; another one would install elsewhere."""
    python = prefix / "bin" / "python"
    if not is_file(python):
        python = prefix / "bin" / "python3"
    if not is_file(python):
        raise OutsideError(f"{path_text(prefix)} has no Python, but the lock has packages for pip", hint="cuenv lock")
    done = run([str(python), "-Ic", "import sys; print(sys.prefix)"], 60, environ)
    if done.reason:
        message = f"{path_text(python)} does not run here: {done.reason}"
        raise OutsideError(message, hint="is the lock for this platform?")
    if os.path.realpath(done.out.strip()) != os.path.realpath(prefix):
        message = f"{path_text(python)} belongs to {printable(done.out.strip())[:200]}, not to the environment"
        raise OutsideError(message, hint="name another folder: --prefix DIR")
    return python


def _last(done: Completed) -> str:
    lines = [line.strip() for line in printable(redact(done.err)).splitlines() if line.strip()]
    return "; ".join(lines[-6:])[-800:] or str(done.reason)


def _hint(sources: bool, *, offline: bool) -> str | None:
    if sources and offline:
        return (
            "sources are built with the environment's packages: add "
            "setuptools and wheel to the conda packages and lock again"
        )
    return None
