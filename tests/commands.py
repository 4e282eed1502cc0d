"""cuenv as it is typed: whole processes, away from the settings of whoever runs the tests."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

HOST = ("--host", "rtx4090-535")
"""A recorded host that ships: the answer does not depend on this machine."""

_KEPT = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")


def run(
    *words: str | Path,
    folder: Path,
    python: tuple[str, ...] = (),
    stdout: int | None = subprocess.PIPE,
    text: str = "",
    **environ: str,
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m cuenv WORDS`` in a folder, which is its home as well.

    Args:
        words: what is typed after ``cuenv``.
        folder: the working folder.
        python: options of the interpreter.
        stdout: where standard output goes, when not into the result.
        text: standard input.
        environ: more environment variables.
    """
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    home = {"HOME": str(folder), "XDG_CACHE_HOME": str(folder / ".cache"), "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, *python, "-m", "cuenv", *map(str, words)],
        cwd=folder,
        env={**kept, **home, **environ},
        stdout=stdout,
        stderr=subprocess.PIPE,
        input=text,
        text=True,
        timeout=60,
        check=False,
    )


class _Typed(io.StringIO):
    """Standard input with a text, as bytes too."""

    @property
    def buffer(self) -> io.BytesIO:
        return io.BytesIO(self.getvalue().encode())


def inside(*words: str | Path, folder: Path, text: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    """The same in this process, for tests with many runs: ten times as fast, without the start and the end of one."""
    from cuenv.cli.main import run as main

    before, here = dict(os.environ), Path.cwd()
    home = {"HOME": str(folder), "XDG_CACHE_HOME": str(folder / ".cache"), "NO_COLOR": "1"}
    out, err = io.StringIO(), io.StringIO()
    typed = [str(word) for word in words]
    stdin = sys.stdin
    try:
        sys.stdin = _Typed(text)
        os.environ.clear()
        os.environ.update({**{name: before[name] for name in _KEPT if name in before}, **home, **environ})
        os.chdir(folder)
        with redirect_stdout(out), redirect_stderr(err):
            code = int(main(typed))
    finally:
        sys.stdin = stdin
        os.environ.clear()
        os.environ.update(before)
        os.chdir(here)
    return subprocess.CompletedProcess(typed, code, out.getvalue(), err.getvalue())
