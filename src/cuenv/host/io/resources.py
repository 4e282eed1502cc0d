"""What programs may use of this machine: memory, ``/dev/shm``, free disk, and the driver library that they get."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cuenv.core.io.files import names_in
from cuenv.host.facts import CudaLibrary, Evidence, Gap, Resources
from cuenv.host.io import libraries
from cuenv.host.io.system import read

Space = Callable[[Path], tuple[int, int]]

MEMINFO = "proc/meminfo"
SHM = "dev/shm"
_CGROUPS = ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes")
_TOTAL = re.compile(r"^MemTotal:\s+([0-9]{1,15}) kB$", re.MULTILINE)
_NODE = re.compile(r"nvidia(ctl|-uvm|-uvm-tools|-modeset|-caps|[0-9]{1,4})|dxg")
_MIB = 1024 * 1024
_MAX_NODES = 512


def space(folder: Path) -> tuple[int, int]:
    """All and free bytes of the file system that holds a folder.

    Raises:
        OSError: it cannot be told.
    """
    found = os.statvfs(folder)
    return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Memory and disk with their evidence, and what could not be told."""

    resources: Resources
    evidence: tuple[Evidence, ...] = ()
    gaps: tuple[Gap, ...] = ()


def measure(root: Path, ask: Space = space) -> Measured:
    """Memory of the machine or container, and its ``/dev/shm``."""
    return _measured(
        ("memory_mib", f"/{MEMINFO}", _memory(root)), ("shm_mib", f"statvfs /{SHM}", _space(root / SHM, 0, ask))
    )


def free_disk(ask: Space = space) -> Measured:
    """What is free in the working folder."""
    return _measured(("disk_mib", "statvfs of the working folder", _space(Path(), 1, ask)))


def _measured(*answers: tuple[str, str, tuple[int, str] | str]) -> Measured:
    """Answers, of which each is an amount with its better source if it has one, or the reason for none."""
    found: dict[str, int] = {}
    evidence: list[Evidence] = []
    gaps: list[Gap] = []
    for fact, source, answer in answers:
        if isinstance(answer, str):
            gaps.append(Gap(f"resources.{fact}", source, answer))
            continue
        found[fact] = answer[0]
        evidence.append(Evidence(f"resources.{fact}", answer[1] or source, f"{answer[0]} MiB"))
    return Measured(resources=Resources(**found), evidence=tuple(evidence), gaps=tuple(gaps))


def _memory(root: Path) -> tuple[int, str] | str:
    """MiB of memory with the file that bounds it when that is a control group; or why it is not known."""
    answer = read(root, MEMINFO)
    total = parse_meminfo(answer.text)
    if total is None:
        return answer.reason or "it names no MemTotal"
    for name in _CGROUPS:
        limit = parse_limit(read(root, name).text)
        if limit is not None and limit < total:
            return limit, f"/{name}"
    return total, ""


def parse_meminfo(text: str) -> int | None:
    """The MiB of memory in ``/proc/meminfo``."""
    found = _TOTAL.search(text)
    return int(found[1]) // 1024 if found else None


def parse_limit(text: str) -> int | None:
    """The MiB that a control group may use; ``None`` for no limit (``max``) and for any other text."""
    word = text.strip()
    return int(word) // _MIB if word.isascii() and word.isdigit() and len(word) < 20 else None


def _space(folder: Path, which: int, ask: Space) -> tuple[int, str] | str:
    try:
        return ask(folder)[which] // _MIB, ""
    except OSError as error:
        return error.strerror or type(error).__name__


def device_nodes(root: Path) -> tuple[str, ...]:
    """The names in ``/dev`` through which a process reaches an NVIDIA driver."""
    return tuple(name for name in names_in(root / "dev") if _NODE.fullmatch(name))[:_MAX_NODES]


def find_libcuda(environ: Mapping[str, str], root: Path) -> CudaLibrary | None:
    """The ``libcuda.so.1`` that a program of the active environment gets; ``None`` when there is none.

    conda's libraries carry a path to their own ``lib``, which goes before LD_LIBRARY_PATH.
    """
    for via, path in _places(environ, root):
        if not os.path.lexists(path):
            continue
        number = libraries.parse_number(os.path.realpath(path))
        return CudaLibrary(path=str(path), version=number, via=via, forward=libraries.is_forward(path))
    return None


def _places(environ: Mapping[str, str], root: Path) -> Iterator[tuple[str, Path]]:
    if environ.get("CONDA_PREFIX"):
        yield "CONDA_PREFIX", Path(environ["CONDA_PREFIX"], "lib", libraries.CUDA)
    for entry in environ.get("LD_LIBRARY_PATH", "").split(":"):
        if entry:
            yield "LD_LIBRARY_PATH", Path(entry, libraries.CUDA)
    found = libraries.find_library(libraries.CUDA, {}, root)
    if found:
        yield "loader", found.path
