"""The user's own conda, mamba or micromamba: where it is and what it says it is."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from cuenv.core.errors import OutsideError, UsageError
from cuenv.core.io.files import expand_home, is_file
from cuenv.core.io.process import run, which
from cuenv.core.record import dataclass
from cuenv.core.regex import regex
from cuenv.core.urls import printable

NAMES = ("conda", "mamba", "micromamba")
_VARIABLES = ("CONDA_EXE", "MAMBA_EXE")
_SECONDS = 60.0
_VERSION = regex(r"\d+\.[\w.+-]*")
_HINT = "remove --engine conda-lock: the embedded solver needs no conda"


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A program that solves for conda-lock."""

    path: str  # absolute
    kind: str  # ``conda``, ``mamba`` or ``micromamba``
    version: str

    def __str__(self) -> str:
        return f"{self.kind} {self.version}"


def find_client(asked: str | None, environ: Mapping[str, str]) -> Client:
    """The client that is asked for, else that of CONDA_EXE or MAMBA_EXE, else the first on PATH.

    Raises:
        UsageError: what is asked for is no program.
        OutsideError: there is none, or it does not say its version.
    """
    path = _asked(asked, environ) if asked else next(_around(environ), None)
    if path is None:
        raise OutsideError(
            f"--engine conda-lock needs conda, but there is no {', '.join(NAMES[:-1])} or {NAMES[-1]}: neither "
            f"{' nor '.join(_VARIABLES)} names one, and PATH has none",
            hint=f"name it with --conda PATH, or {_HINT}",
        )
    done = run([path, "--version"], _SECONDS, environ)
    found = _VERSION.search(done.out)
    if done.reason or not found:
        why = done.reason or f"it answers {done.out.strip()[:60]!r}"
        raise OutsideError(f"{printable(path)} --version: {printable(why)}", hint=_HINT)
    return Client(path=path, kind=_kind(path, done.out), version=found[0])


def client_at_hand(environ: Mapping[str, str]) -> str:
    """What a command that mends an environment can call, by its name; empty where nothing is. Nothing is started."""
    found = {Path(path).name for path in _around(environ)}
    return next((name for name in NAMES if name in found), "")


def _asked(text: str, environ: Mapping[str, str]) -> str:
    path = str(expand_home(text).absolute()) if "/" in text else which(text, environ)
    if path is None or not _runs(path):
        message = f"--conda {printable(text)}: no such program"
        raise UsageError(message, hint="--conda /opt/conda/bin/conda, or micromamba on PATH")
    return path


def _around(environ: Mapping[str, str]) -> Iterator[str]:
    for variable in _VARIABLES:
        path = environ.get(variable, "")
        if path.startswith("/") and _runs(path):
            yield path
    for name in NAMES:
        found = which(name, environ)
        if found:
            yield found


def _runs(path: str) -> bool:
    return is_file(path) and os.access(path, os.X_OK)


def _kind(path: str, said: str) -> str:
    """``conda 26.7.1`` says it; micromamba, and mamba from 2 on, say a bare number."""
    named = re.match(r"\s*([a-z]+) ", said)
    if named and named[1] in NAMES:
        return named[1]
    name = path.rpartition("/")[2]
    return "micromamba" if "micromamba" in name else next((item for item in NAMES if item in name), "conda")
