"""What a container is to hold, read from a lock or from a decision."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from packaging.version import Version

from cuenv.core.versions import check_driver, version
from cuenv.export.container import Content
from cuenv.knowledge.base import Knowledge
from cuenv.lockfile.host_check import candidate_of
from cuenv.resolver.decision import Decision
from cuenv.solve.environment_spec import NVCC, EnvironmentSpec
from cuenv.solve.model import Lock, Solution

_HOST_COMPILERS = ("gxx_linux-*", "gxx")
_NUMBERS = re.compile(r"[0-9]{1,4}(\.[0-9]{1,4}){1,2}")


def content_of_lock(
    lock: Lock, spec: EnvironmentSpec | None, knowledge: Knowledge, host: tuple[str, ...] = ()
) -> Content:
    """What a lock holds.

    Args:
        lock: with one solution at least.
        spec: its environment file, where that lies beside it, for its variables.
        knowledge: the tables.
        host: options of the host that it is for.

    Raises:
        ValueError: what the lock remembers is not as cuenv writes it.
    """
    first = lock.solutions[0]
    candidate = candidate_of(first, knowledge)
    cuda = candidate.cuda if candidate else None
    floor = knowledge.floor(cuda) if cuda else None
    remembered = lock.metadata.get("cuenv_minimum_driver")
    python = first.package("python")
    glibcs = [lowest for solution in lock.solutions for _, lowest in solution.glibcs]
    return Content(
        locked=True,
        platforms=tuple(item.platform for item in lock.solutions),
        cuda=cuda,
        torch=candidate.build.version if candidate else None,
        stack=candidate.build.stack if candidate else "",
        python=".".join(python.version.split(".")[:2]) if python else "",
        glibc=max([*glibcs, *_remembered(lock)], default=None),
        nvcc=any(first.package(name) for name in NVCC),
        compiling=tuple(_compiling(first, knowledge)),
        driver=check_driver(remembered) if remembered else floor.driver if floor else None,
        variables=dict(spec.variables) if spec else {},
        host=host,
    )


def content_of_decision(decision: Decision, spec: EnvironmentSpec, host: tuple[str, ...] = ()) -> Content:
    """What a decision asks for, before anything is locked.

    Args:
        decision: with a choice.
        spec: the environment composed from it.
        host: options of the host that it is for.

    Raises:
        ValueError: nothing was chosen.
    """
    if decision.chosen is None:
        raise ValueError("nothing was chosen")
    candidate, wish = decision.chosen.candidate, decision.case.wish
    row = decision.case.knowledge.cuda(candidate.cuda) if candidate.cuda else None
    known = [item for item in (candidate.build.glibc, row.glibc if row else None) if item]
    return Content(
        locked=False,
        platforms=spec.platforms or (decision.case.facts.platform,),
        cuda=candidate.cuda,
        torch=candidate.build.version,
        stack=candidate.build.stack,
        python=candidate.python,
        glibc=max(known, default=None),
        nvcc=any(pin.role == "cudatoolkit-dev" for pin in spec.pins),
        compiling=("a compiler is asked for (--dev)",) if wish.dev and candidate.cuda else (),
        conda=wish.packages,
        pip=spec.pip,
        driver=decision.minimum_driver,
        variables=dict(spec.variables),
        host=host,
    )


def _compiling(solution: Solution, knowledge: Knowledge) -> Iterator[str]:
    """What compiles CUDA code: libraries that do so on first use, and a host compiler that stands there for it."""
    for name, release, ways in _libraries(solution):
        rows = [row for row in knowledge.extensions if row.package == name and ways & frozenset(row.comes)]
        try:
            covering = [row for row in rows if row.covers(version(release))]
        except ValueError:
            continue
        if covering and all(row.nvcc for row in covering):
            yield f"{name} {release}"
    for package in solution.packages:
        if any(fnmatchcase(package.name, glob) for glob in _HOST_COMPILERS):
            yield f"{package.name} {package.version}"


def _libraries(solution: Solution) -> Iterator[tuple[str, str, frozenset[str]]]:
    for package in solution.packages:
        yield package.name, package.version, frozenset({package.channel_name})
    for item in solution.pip:
        yield item.name, item.version, frozenset({"source" if item.from_source else "wheel"})


def _remembered(lock: Lock) -> Iterator[Version]:
    """The C library that the lock itself names: it knows that of wheels as well."""
    text = lock.metadata.get("cuenv_minimum_glibc", "")
    if _NUMBERS.fullmatch(text):
        yield version(text)
