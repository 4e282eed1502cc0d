"""Compiling a small program with an environment's own tools, in a private folder and within a time limit."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from cuenv.core.io.files import private_folder
from cuenv.core.io.process import run
from cuenv.core.record import dataclass, field, replace
from cuenv.core.urls import printable
from cuenv.core.versions import Capability
from cuenv.prefix.toolchain.toolchain import Compiled, gencode, probe_source

SECONDS = 180.0
"""How long one call of a compiler may take: heavy headers for many architectures on a slow disk."""

_TAIL = 6
_MARKS = ("error", "fatal", "undefined", "cannot find", "not found", "killed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """What a build of a CUDA extension runs.

    Attributes:
        cxx: path of the C++ compiler, which compiles C++ files and links.
        ccbin: the host compiler that nvcc is told to call; ``None`` when it is not told (its variables may still).
        includes: folders for ``-isystem``, as torch's builder gives them.
        libraries: folders for ``-L``.
    """

    nvcc: str
    cxx: str | None = None
    ccbin: str | None = None
    includes: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)


def compile_cuda(source: Path, target: Path, tools: Toolchain, *, capabilities: Sequence[Capability] = ()) -> Compiled:
    """Compile a ``.cu`` file to an object as torch's builder does; for nvcc's own choice of GPUs when none is given."""
    host = ["-ccbin", tools.ccbin] if tools.ccbin else []
    command = [
        *(tools.nvcc, *host),
        *_includes(tools),
        *gencode(capabilities),
        *("--compiler-options", "-fPIC"),
        *("-c", str(source), "-o", str(target)),
    ]
    return _call(command, target, tools)


def _compile_host(cxx: str, source: Path, target: Path, tools: Toolchain) -> Compiled:
    """Compile a C++ file that includes CUDA headers, as torch's builder does."""
    command = [cxx, *_includes(tools), "-fPIC", "-std=c++17", "-c", str(source), "-o", str(target)]
    return _call(command, target, tools)


def _link(cxx: str, objects: Sequence[Path], target: Path, tools: Toolchain) -> Compiled:
    """Link objects to a shared library with the CUDA runtime, as torch's builder does."""
    folders = [f"-L{folder}" for folder in tools.libraries]
    command = [cxx, *map(str, objects), "-shared", *folders, "-lcudart", "-o", str(target)]
    return _call(command, target, tools)


def try_out(
    tools: Toolchain,
    *,
    headers: Sequence[str],
    plain: Sequence[str],
    capabilities: Sequence[Capability] = (),
    runtime: bool = True,
) -> tuple[Compiled, ...]:
    """Build a small extension: a CUDA file, a C++ file where there is a compiler for it, and the library of both.

    What needs the result of a step that failed is left out.

    Args:
        headers: what the CUDA file includes.
        plain: what the C++ file includes.
        runtime: link with ``-lcudart``, as every extension does.
    """
    with private_folder("build") as folder:
        (folder / "probe.cu").write_text(probe_source(headers, device=True), encoding="utf-8")
        (folder / "probe_host.cpp").write_text(probe_source(plain, device=False), encoding="utf-8")
        private = replace(tools, environ={**tools.environ, "TMPDIR": str(folder)})
        objects = [folder / "probe.o", folder / "probe_host.o"]
        done = [compile_cuda(folder / "probe.cu", objects[0], private, capabilities=capabilities)]
        if tools.cxx:
            done.append(_compile_host(tools.cxx, folder / "probe_host.cpp", objects[1], private))
            if runtime and not any(item.reason for item in done):
                done.append(_link(tools.cxx, objects, folder / "probe.so", private))
        return tuple(_without(item, folder) for item in done)


def _includes(tools: Toolchain) -> list[str]:
    return [word for folder in tools.includes for word in ("-isystem", folder)]


def _call(command: list[str], target: Path, tools: Toolchain) -> Compiled:
    start = time.monotonic()
    done = run(command, SECONDS, tools.environ, more=tools.environ, folder=str(target.parent))
    reason = done.reason
    if reason is None and not os.path.lexists(target):
        reason = f"it did not write {target.name}"
    return Compiled(
        what=target.name,
        command=tuple(command),
        seconds=time.monotonic() - start,
        tail=_tail(f"{done.out}\n{done.err}") if reason else (),
        reason=reason,
    )


def _tail(text: str) -> tuple[str, ...]:
    """The lines from the first error on, at most six; the last six when none says that it is one."""
    lines = [printable(line.strip())[:400] for line in text.splitlines() if line.strip()]
    start = next((i for i, line in enumerate(lines) if any(mark in line.lower() for mark in _MARKS)), None)
    return tuple(lines[-_TAIL:] if start is None else lines[start : start + _TAIL])


def _without(item: Compiled, folder: Path) -> Compiled:
    """The result without the name of a folder that is gone."""
    gone = f"{folder}/"
    return replace(
        item,
        command=tuple(word.replace(gone, "") for word in item.command),
        tail=tuple(line.replace(gone, "") for line in item.tail),
    )
