"""The host compilers that a build of CUDA extensions would call, by the variables that name them and by PATH."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from cuenv.jit.workshop import HostCompiler
from cuenv.world.files import is_file, is_folder
from cuenv.world.process import run, which
from cuenv.world.toolkits import parse_compiler

_SECONDS = 20.0
_CACHES = frozenset({"ccache", "sccache", "distcc", "icecc"})
_CCBIN = re.compile(r"--?(?:ccbin|compiler-bindir)(?:=(.*))?", re.DOTALL)


def find_host_compilers(environ: Mapping[str, str]) -> tuple[HostCompiler, ...]:
    """The compiler of C++ files, then the one that nvcc calls.

    torch takes ``CXX`` for the first, and tells nvcc to call ``CC``. nvcc takes the last that it is told: by
    NVCC_APPEND_FLAGS, by its command line, by NVCC_PREPEND_FLAGS, by NVCC_CCBIN; else the gcc on PATH.

    Args:
        environ: the variables as activation leaves them.
    """
    return (
        _compiler("C++", *_named(environ, ("CXX",), "c++"), environ),
        _compiler("nvcc", *nvcc_host(environ), environ),
    )


def nvcc_host(environ: Mapping[str, str]) -> tuple[str, str]:
    """The host compiler that nvcc calls, as it is named, and what names it."""
    for name, value in (
        ("NVCC_APPEND_FLAGS", ccbin(environ.get("NVCC_APPEND_FLAGS", ""))),
        ("CC", environ.get("CC")),
        ("NVCC_PREPEND_FLAGS", ccbin(environ.get("NVCC_PREPEND_FLAGS", ""))),
        ("NVCC_CCBIN", environ.get("NVCC_CCBIN")),
    ):
        if value:
            return value, name
    return "gcc", "PATH"


def ccbin(flags: str) -> str | None:
    """The host compiler that options of nvcc name last."""
    words, found = _words(flags), None
    for word, after in zip(words, [*words, ""][1:], strict=True):
        match = _CCBIN.fullmatch(word)
        if match:
            found = match[1] if match[1] is not None else after
    return found or None


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a quote that nobody closes
        return text.split()


def _named(environ: Mapping[str, str], names: tuple[str, ...], otherwise: str) -> tuple[str, str]:
    return next(((environ[name], name) for name in names if environ.get(name)), (otherwise, "PATH"))


def _compiler(does: str, asked: str, via: str, environ: Mapping[str, str]) -> HostCompiler:
    path = _path(asked, environ)
    if path is None:
        return HostCompiler(does=does, asked=asked, via=via)
    # clang knows -dumpversion alone, gcc answers with its major to that.
    for kind, question in (("gcc", ("-dumpfullversion", "-dumpversion")), ("clang", ("-dumpversion",))):
        done = run([path, *question], _SECONDS, environ)
        number = parse_compiler(done.out)
        if done.reason is None and number:
            return HostCompiler(does=does, asked=asked, via=via, path=path, kind=kind, version=number)
    return HostCompiler(does=does, asked=asked, via=via, path=path)


def _path(asked: str, environ: Mapping[str, str]) -> str | None:
    """Where a compiler is; a cache in front of it is passed over, and of a folder its gcc is taken, as nvcc does."""
    whole = asked.strip()
    words = [whole] if is_file(whole) or is_folder(whole) else _words(whole)
    while len(words) > 1 and Path(words[0]).name in _CACHES:
        words = words[1:]
    if not words:
        return None
    name = words[0]
    if "/" not in name:
        return which(name, environ)
    if is_folder(name):
        name = f"{name}/gcc"
    return name if is_file(name) else None
