"""What the libraries of an environment compile with on first use, if any of them does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cuenv.core.versions import version
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import Extension
from cuenv.prefix.inventory import Prefix, Wheel
from cuenv.solve.environment_spec import NVCC
from cuenv.solve.model import Solution

_ALWAYS = "cuda_runtime.h"
_TOOLS = ("gxx", "ninja")


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedHeader:
    """A header that some build includes.

    Attributes:
        by: who includes it.
        holder: the conda package that brings it; ``None`` when no row knows one.
    """

    name: str
    by: tuple[str, ...]
    holder: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wants:
    """What has to be there for builds on first use.

    Attributes:
        why: the reasons to expect such builds; empty when there is none.
        libraries: those that compile on first use, with their versions.
        headers: by name.
        tools: further programs: ``gxx``, ``ninja``.
    """

    why: tuple[str, ...]
    libraries: tuple[str, ...] = ()
    headers: tuple[WantedHeader, ...] = ()
    tools: tuple[str, ...] = ()


def has_torch(prefix: Prefix) -> bool:
    """Whether torch is installed, by conda or pip."""
    return any(prefix.package(name) for name in ("pytorch", "libtorch")) or prefix.wheel("torch") is not None


def compiling(prefix: Prefix, knowledge: Knowledge) -> tuple[tuple[Wheel, Extension], ...]:
    """The installed libraries that compile, by the tables, in every way that they can have come."""
    found = []
    for wheel in prefix.wheels:
        rows = _rows(wheel, prefix, knowledge)
        if rows and all(row.nvcc for row in rows):
            found.append((wheel, rows[-1]))
    return tuple(found)


def _rows(wheel: Wheel, prefix: Prefix, knowledge: Knowledge) -> list[Extension]:
    rows = knowledge.extension(wheel.name)
    if not rows:
        return []
    try:
        release = version(wheel.version)
    except ValueError:
        return []
    package = prefix.package(wheel.name) if wheel.installer == "conda" else None
    ways = {package.channel_name} if package else {"source", "wheel"}
    return [row for row in rows if row.covers(release) and ways & set(row.comes)]


def wants(
    prefix: Prefix,
    knowledge: Knowledge,
    *,
    nvcc: bool,
    built: frozenset[str] = frozenset(),
    torch_includes: Iterable[str] = (),
    solution: Solution | None = None,
    profile: Request | None = None,
) -> Wants:
    """What builds in an environment need.

    Builds are expected where a library compiles on first use, where an nvcc is installed or locked, and where the
    profile asks for one.

    Args:
        prefix: the environment.
        knowledge: the tables on extensions and on who holds which header.
        nvcc: the environment holds an nvcc.
        built: libraries that bring compiled code: they were built when they were installed.
        torch_includes: the CUDA headers that torch's own headers include.
        solution: what was locked.
        profile: what the team asked for.
    """
    libraries = [(wheel, row) for wheel, row in compiling(prefix, knowledge) if wheel.name not in built]
    why = [f"{wheel.name} {wheel.version} compiles on first use" for wheel, _ in libraries]
    if nvcc:
        why.append("the environment holds nvcc")
    locked = [item for item in solution.packages if item.name in NVCC] if solution else []
    why += [f"the lock holds {item.name} {item.version}" for item in locked]
    if profile is not None and profile.dev and not profile.cpu:
        why.append(f"the profile {profile.name} asks for a compiler")
    if not why:
        return Wants(why=())
    asked: dict[str, list[str]] = {_ALWAYS: ["nvcc"]}
    for name in torch_includes:
        asked.setdefault(name, []).append("torch")
    for wheel, row in libraries:
        for name in row.headers:
            asked.setdefault(name, []).append(f"{wheel.name} {wheel.version}")
    for name, package in _promised(prefix, knowledge):
        asked.setdefault(name, []).append(package)
    headers = tuple(
        WantedHeader(name=name, by=tuple(dict.fromkeys(by)), holder=knowledge.holder_of(name))
        for name, by in sorted(asked.items())
    )
    extra = {tool for _, row in libraries for tool in row.tools} | set(_TOOLS if has_torch(prefix) else ("gxx",))
    names = tuple(f"{wheel.name} {wheel.version}" for wheel, _ in libraries)
    return Wants(why=tuple(why), libraries=names, headers=headers, tools=tuple(sorted(extra)))


def _promised(prefix: Prefix, knowledge: Knowledge) -> Iterator[tuple[str, str]]:
    """Headers that an installed conda package is known to bring."""
    for package in prefix.conda:
        component = knowledge.component(package.name)
        if component and component.name == package.name:
            yield from ((header, package.name) for header in component.headers)


def wheel_of(package: str, cuda: int | None) -> str:
    """The wheel of the Python index with the headers of a conda package: ``nvidia-cusparse-cu12``, ``nvidia-cusparse``.

    From CUDA 13 on the wheels of the toolkit bear no suffix; those of cuDNN and NCCL still do.
    """
    part = package.removeprefix("lib").removesuffix("-dev").replace("cudart", "runtime")
    suffix = f"-cu{cuda}" if cuda and (cuda < 13 or part in ("cudnn", "nccl")) else ""
    return f"nvidia-{part}{suffix}"
