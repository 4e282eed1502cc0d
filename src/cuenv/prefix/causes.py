"""Which finding on an environment explains which: the order in which they are told, and one finding for one cause."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from dataclasses import replace

from cuenv.core.findings import Finding
from cuenv.prefix.cuda_files import family

FIRST = (
    *("CU207", "CU206", "CU208", "CU215", "CU204", "CU205", "CU201", "CU202", "CU209"),
    *("CU234", "CU401", "CU402", "CU403", "CU290", "CU231", "CU210", "CU213", "CU214", "CU211", "CU212", "CU216"),
    *("CU230", "CU233", "CU235", "CU236", "CU257", "CU250", "CU251"),
)
"""Codes in the order in which they are told, among those of one severity: what is wrong with the installation itself,
with the host, with CUDA, with the loading of it, with builds. Others follow by their code."""

_MISSING = frozenset({"CU211", "CU213", "CU214", "CU230"})
"""A library is wanted and not there."""
_CAUSES = ("CU215", "CU231", "CU213", "CU214", "CU211")
"""What may explain such a finding, the most basic first."""
_LIBRARY = re.compile(r"\blib[\w+.-]+\.so(?:\.[0-9]+)*\b")


def one_each(findings: Iterable[Finding]) -> list[Finding]:
    """The findings with those that another one explains as its evidence.

    A library that is missing is told once, by what says most about it: its package has lost files, the file is
    damaged, torch needs it; that loading fails for it follows.
    """
    left = list(findings)
    for code in _CAUSES:
        for cause in [item for item in left if item.code == code and item.severity == "error"]:
            names = _names(cause)
            effects = [item for item in left if item is not cause and _explains(cause, names, item)]
            if effects:
                told = dict.fromkeys((*cause.evidence, *(f"so {item.code}: {item.message}" for item in effects)))
                left = [item for item in left if item not in effects]
                left[left.index(cause)] = replace(cause, evidence=tuple(told))
    led = {path for item in left if item.code == "CU212" for path in item.evidence}
    return [item for item in left if not (item.code == "CU412" and any(_within(path, item.subject) for path in led))]


def _names(cause: Finding) -> frozenset[str]:
    """The libraries that a finding is about."""
    if cause.code == "CU215":
        return frozenset(map(posixpath.basename, cause.evidence))
    return frozenset(_LIBRARY.findall(cause.subject))


def _explains(cause: Finding, names: frozenset[str], item: Finding) -> bool:
    if item.code not in _MISSING or (item.code == cause.code and cause.code != "CU215"):
        return False
    if item.code == "CU230" or _CAUSES.index(item.code) > _CAUSES.index(cause.code):
        if item.code == "CU230" and ", " in cause.subject and family(item.subject.partition("*")[0].rstrip(".")):
            return True  # where several are gone, all of NVIDIA's are
        asked = item.subject.split(", ")
        return all(any(_same(wanted, name) for name in names) for wanted in asked)
    return False


def _same(wanted: str, name: str) -> bool:
    """Whether a name, or a pattern as torch writes it (``libcublas.so.*[0-9]``), means this file."""
    stem, star, _ = wanted.partition("*")
    return name.startswith(stem) if star else name == wanted


def _within(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")
