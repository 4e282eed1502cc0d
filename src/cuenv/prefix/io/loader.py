"""What this machine's loader would use: its cache, its own folders, what the processor can, read from files."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from cuenv.binary.data import BinaryError
from cuenv.binary.loader import CacheEntry, System, chosen, parse_ld_cache
from cuenv.core.io.files import is_file, why

_LIMIT = 64 * 1024 * 1024
_LOADERS = {"x86_64": "/lib64/ld-linux-x86-64.so.2", "aarch64": "/lib/ld-linux-aarch64.so.1"}
_FOLDERS = re.compile(rb"(?:/[A-Za-z0-9._/+-]{1,200}/\0){2,16}")
_CACHE = re.compile(rb"/[A-Za-z0-9._/+-]{1,200}/ld\.so\.cache\0")
_LIB = re.compile(rb"\0(lib(?:64|x?32)?(?:/[a-z0-9_]+-linux-gnu)?)\0")
_MULTIARCH = re.compile(rb"\0(lib/[a-z0-9_]+-linux-gnu)\0")
# What each level asks for beyond the one below, as /proc/cpuinfo says it (x86-64 psABI, table 3.1).
_LEVELS = (
    ("x86-64-v2", {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"}),
    ("x86-64-v3", {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"}),
    ("x86-64-v4", {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}),
)


def loader_facts(
    environ: Mapping[str, str], machine: str, *, interpreter: str | None = None, root: Path = Path("/")
) -> tuple[System, tuple[str, ...]]:
    """The search as this machine would make it, and what could not be read, one sentence each.

    Args:
        environ: LD_LIBRARY_PATH and LD_PRELOAD are read from it.
        machine: ``x86_64`` or ``aarch64``.
        interpreter: the loader that the environment's Python asks for.
        root: where the machine's files lie.
    """
    notes: list[str] = []
    loader = _bytes(root, interpreter or _LOADERS.get(machine, ""), notes)
    plain = System()
    folders = [found[0].rstrip(b"\0").split(b"\0") for found in _FOLDERS.finditer(loader)]
    listed = next((found for found in folders if any(b"lib" in folder for folder in found)), None)
    cached = _CACHE.search(loader)
    cache = os.fsdecode(cached[0][:-1]) if cached else "/etc/ld.so.cache"
    lib = _MULTIARCH.search(loader) or _LIB.search(loader)
    hwcaps = _hwcaps(root) if machine == "x86_64" and b"glibc-hwcaps" in loader else ()
    return System(
        library_path=environ.get("LD_LIBRARY_PATH", ""),
        preload=environ.get("LD_PRELOAD", ""),
        cache=chosen(read_cache(root, cache, notes), machine, hwcaps),
        defaults=tuple(os.fsdecode(folder).rstrip("/") for folder in listed) if listed else plain.defaults,
        hwcaps=hwcaps,
        lib=os.fsdecode(lib[1]) if lib else plain.lib,
        platform="haswell" if "x86-64-v3" in hwcaps else machine,
        cwd=_cwd(),
    ), tuple(notes)


def _bytes(root: Path, path: str, notes: list[str]) -> bytes:
    if not path:
        return b""
    place = root / path.lstrip("/")
    if os.path.exists(place) and not is_file(place):  # noqa: PTH110 - never an error
        notes.append(f"{path}: it is no regular file")  # a pipe would never end
        return b""
    try:
        with place.open("rb") as stream:
            return stream.read(_LIMIT)
    except (OSError, ValueError) as error:
        notes.append(f"{path}: {why(error)}")
        return b""


def read_cache(root: Path, path: str, notes: list[str]) -> tuple[CacheEntry, ...]:
    """The entries of the loader's cache; none, with a note, when it cannot be read."""
    data = _bytes(root, path, notes)
    if not data:
        return ()
    try:
        return parse_ld_cache(data)
    except BinaryError as error:
        notes.append(f"{path}: {error.reason}")
        return ()


def _hwcaps(root: Path) -> tuple[str, ...]:
    """The subfolders that the processor can use, best first."""
    try:
        with (root / "proc/cpuinfo").open(encoding="utf-8", errors="replace") as stream:
            text = stream.read(1 << 16)
    except OSError:
        return ()
    found = re.search(r"^flags\s*:(.*)$", text, re.MULTILINE)
    flags = set(found[1].split()) if found else set()
    levels: list[str] = []
    for name, needs in _LEVELS:
        if not needs <= flags:
            break
        levels.append(name)
    return tuple(reversed(levels))


def _cwd() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - text is wanted
    except OSError:
        return "/"
