"""The host compilers that a build of CUDA extensions would call, by the variables that name them and by PATH."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from cuenv.jit.workshop import HostCompiler
from cuenv.world.files import is_file, is_folder, names_in
from cuenv.world.process import run, which
from cuenv.world.toolkits import parse_compiler

_SECONDS = 20.0
_CACHES = frozenset({"ccache", "sccache", "distcc", "icecc"})
_PROGRAM = re.compile(
    r"(?P<triple>[\w.-]+-)?(?P<kind>g\+\+|gcc|c\+\+|cc|clang\+\+|clang)(?:-(?P<number>[0-9]{1,3}(?:\.[0-9]{1,3}){0,2}))?"
)
_RECORD = re.compile(r"g(?:cc|xx)(?:_impl)?_linux-[a-z0-9]{1,20}-([0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3})-[^-]{1,80}\.json")
_CCBIN = re.compile(r"--?(?:ccbin|compiler-bindir)(?:=(.*))?", re.DOTALL)


def find_host_compilers(environ: Mapping[str, str], *, running: bool) -> tuple[HostCompiler, ...]:
    """The compiler of C++ files, then the one that nvcc calls.

    torch takes ``CXX`` for the first, and tells nvcc to call ``CC``. nvcc takes the last that it is told: by
    NVCC_APPEND_FLAGS, by its command line, by NVCC_PREPEND_FLAGS, by NVCC_CCBIN; else the gcc on PATH.

    Args:
        environ: the variables as activation leaves them.
        running: whether they may be asked for their versions; else the files beside them are.
    """
    find = _compiler if running else _read
    return (
        find("C++", *_named(environ, ("CXX",), "c++"), environ),
        find("nvcc", *nvcc_host(environ), environ),
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


def _read(does: str, asked: str, via: str, environ: Mapping[str, str]) -> HostCompiler:
    """A compiler by its name and the folder of its own libraries: ``lib/gcc/x86_64-conda-linux-gnu/13.3.0``."""
    path = _path(asked, environ)
    if path is None:
        return HostCompiler(does=does, asked=asked, via=via)
    real = Path(os.path.realpath(path))
    found = _PROGRAM.fullmatch(real.name)
    kind = "" if found is None else "clang" if found["kind"].startswith("clang") else "gcc"
    number = _recorded(real, kind) if found else None
    if found and number is None and not _is_script(real):  # a script may call another one
        number = _number(real, kind, found)
    return HostCompiler(
        does=does, asked=asked, via=via, path=path, kind=kind if number else "", version=number, unread=number is None
    )


def _recorded(real: Path, kind: str) -> str | None:
    """The version of an environment's own gcc, by the file names of its conda-meta."""
    names = names_in(real.parent.parent / "conda-meta") if kind == "gcc" else ()
    found = {match[1] for name in names if (match := _RECORD.fullmatch(name))}
    return found.pop() if len(found) == 1 else None


def _number(real: Path, kind: str, name: re.Match[str]) -> str | None:
    """The version of a compiler by its folders; of several the one that its name names."""
    root = real.parent.parent
    if kind == "clang":
        folders = [root / lib / "clang" for lib in ("lib", "lib64")]
    else:
        own = (name["triple"] or "").rstrip("-")
        bases = [root / lib / "gcc" for lib in ("lib", "lib64", "libexec")]
        folders = [base / triple for base in bases for triple in names_in(base) if triple == own or not own]
    found = {number for folder in folders for number in names_in(folder) if parse_compiler(number) == number}
    named = name["number"]
    if named:
        found = {number for number in found if f"{number}.".startswith(f"{named}.")} or {named}
    return found.pop() if len(found) == 1 else None


def _is_script(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return stream.read(2) == b"#!"
    except OSError:
        return True


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
