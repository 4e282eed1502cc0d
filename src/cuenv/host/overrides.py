"""Conda's own variables that pretend another machine: facts with another source (CEP 30, CEP 46).

An empty variable means absent. ``__cuda_arch`` never stands without ``__cuda``: pretending no CUDA pretends no GPU.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from cuenv.core.errors import UsageError
from cuenv.core.reading import describe
from cuenv.core.versions import Capability, version
from cuenv.host.facts import Driver, Evidence, Gpu, HostFacts, glibc

T = TypeVar("T")

CUDA = "CONDA_OVERRIDE_CUDA"
ARCH = "CONDA_OVERRIDE_CUDA_ARCH"
GLIBC = "CONDA_OVERRIDE_GLIBC"
LINUX = "CONDA_OVERRIDE_LINUX"
ARCHSPEC = "CONDA_OVERRIDE_ARCHSPEC"

_RELEASE = re.compile(r"[0-9]{1,3}(\.[0-9]{1,4}){0,2}")
_ARCHSPEC = re.compile(r"[a-z0-9][a-z0-9_]{0,39}")
_KERNEL = re.compile(r"[0-9]{1,4}(\.[0-9]{1,6}){1,3}")


def apply_overrides(facts: HostFacts, environ: Mapping[str, str]) -> HostFacts:
    """The facts as the ``CONDA_OVERRIDE_*`` variables bend them; unchanged when none is set.

    Raises:
        UsageError: a variable is set to something that conda would not understand; the message names it.
    """
    if CUDA in environ:
        facts = _cuda(facts, environ[CUDA])
    if ARCH in environ:
        facts = _arch(facts, environ[ARCH], hidden=CUDA in environ and not environ[CUDA].strip())
    if GLIBC in environ:
        libc = _read(environ[GLIBC], GLIBC, "2.31", lambda text: glibc(_matching(_RELEASE, text)))
        facts = _forget(
            replace(facts, libc=libc), "libc", Evidence("libc", _source(GLIBC), _say(libc and libc.version))
        )
    if LINUX in environ:
        kernel = _read(environ[LINUX], LINUX, "5.15.0", lambda text: _matching(_KERNEL, text))
        facts = _forget(replace(facts, kernel=kernel), "kernel", Evidence("kernel", _source(LINUX), _say(kernel)))
    if ARCHSPEC in environ:
        name = _read(environ[ARCHSPEC], ARCHSPEC, "x86_64_v3", lambda text: _matching(_ARCHSPEC, text))
        note = Evidence("archspec", _source(ARCHSPEC), _say(name))
        facts = _forget(replace(facts, archspec=name), "archspec", note)
    return facts


def _cuda(facts: HostFacts, text: str) -> HostFacts:
    level = _read(text, CUDA, "12.4", lambda word: version(_matching(_RELEASE, word)))
    if level is None:
        note = Evidence("driver.cuda", _source(CUDA), "no CUDA: driver and GPUs are taken as absent")
        return _forget(_forget(replace(facts, detected=False, driver=None, gpus=()), "gpus"), "driver", note)
    known = facts.driver.version if facts.driver else None
    text = f"a driver that speaks CUDA {level}" + (f", in place of driver {known}" if known else "")
    note = Evidence("driver.cuda", _source(CUDA), text)
    return _forget(replace(facts, detected=False, driver=Driver(cuda=level)), "driver", note)


def _arch(facts: HostFacts, text: str, *, hidden: bool) -> HostFacts:
    lowest = _read(text, ARCH, "8.9", Capability.parse)
    if hidden:
        return facts
    gpus = () if lowest is None else (Gpu(index=0, name="", capability=lowest),)
    instead = f", in place of {len(facts.gpus)} detected" if facts.gpus else ""
    note = Evidence("gpus[0].capability" if gpus else "gpus", _source(ARCH), f"{_say(lowest)}{instead}")
    return _forget(replace(facts, detected=False, gpus=gpus), "gpus", note)


def _read(text: str, name: str, example: str, parse: Callable[[str], T]) -> T | None:
    stripped = text.strip()
    if not stripped:
        return None
    try:
        return parse(stripped)
    except ValueError as error:
        raise UsageError(
            f"the variable {name} is {describe(text)}, expected one like {example} (or empty for absent)",
            hint=f"unset {name}",
        ) from error


def _matching(pattern: re.Pattern[str], text: str) -> str:
    if not pattern.fullmatch(text):
        raise ValueError(text)
    return text


def _source(name: str) -> str:
    return f"override:{name}"


def _say(value: object) -> str:
    return "absent" if value is None else str(value)


def _forget(facts: HostFacts, fact: str, *notes: Evidence) -> HostFacts:
    """Drop evidence and gaps of a fact and of its parts; what the override says takes their place."""
    return replace(
        facts,
        evidence=(*(item for item in facts.evidence if not _within(item.fact, fact)), *notes),
        gaps=tuple(item for item in facts.gaps if not _within(item.fact, fact)),
    )


def _within(name: str, fact: str) -> bool:
    return name == fact or name.startswith((f"{fact}.", f"{fact}["))
