"""The host under the environment: driver against runtime, every layer against every GPU, the state of the machine."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.version import Version

from cuenv.core.findings import Check, Finding, judged, skipped
from cuenv.host.describe import host_line
from cuenv.host.facts import HostFacts
from cuenv.host.request import Request
from cuenv.lockfile.host_check import as_findings, bare_candidate, candidate_of, host_findings
from cuenv.prefix.checks import Subject
from cuenv.prefix.solution import as_solution, cuda_of
from cuenv.resolver.candidates import Candidate
from cuenv.resolver.effective_driver import effective
from cuenv.resolver.health import machine_findings
from cuenv.resolver.rules import Context, Judge
from cuenv.solve.model import Solution

_DRIVER_RULES = ("gpu", "driver-gpu", "driver-floor", "driver-level")
"""The rules that join a driver with GPUs and a CUDA release, where no torch is there to judge the rest by."""


def check(subject: Subject) -> Check:
    """The rules that decide and that judge a lock, on what is installed; and what the machine is in the way of."""
    facts, knowledge = subject.facts, subject.knowledge
    solution = as_solution(subject.prefix, subject.cuda_files, facts.platform)
    torch = candidate_of(solution, knowledge)
    known = _known(subject, torch)
    candidate = torch or (bare_candidate(known[0], facts.platform) if known else None)
    found = [*machine_findings(facts, candidate, knowledge, subject.profile)]
    if not facts.gpus:
        why = f"{facts.label} has no GPU that could be judged; name the host with --host, or with --gpu and --driver"
        return judged("host", why, found) if found else skipped("host", why)
    if candidate is None or known is None:
        return judged("host", f"{host_line(facts)}; no record of the environment names a CUDA release", found)
    host = effective(facts, knowledge)
    found += _installed(solution, host, subject) if torch else _driver(candidate, host, subject)
    return judged("host", f"CUDA {known[0]}, by {known[1]}, on {host_line(facts)}", found)


def _known(subject: Subject, torch: Candidate | None) -> tuple[Version, str] | None:
    """The CUDA release of the environment, and what says it."""
    if torch and torch.cuda and subject.cuda_files.by_pip:
        return torch.cuda, f"torch {subject.cuda_files.torch} (its files)"
    found = cuda_of(subject.prefix)
    if found or torch is None or torch.cuda is None:
        return found
    return torch.cuda, f"pytorch {torch.build.version} {torch.build.build} (conda-meta)"


def _installed(solution: Solution, host: HostFacts, subject: Subject) -> Iterator[Finding]:
    # Of a torch from pip no row says what it holds: the check of device code reads it.
    silent = ("CU111", "CU403", "CU106") if subject.cuda_files.by_pip else ("CU106",)  # of packages, told there
    for finding in host_findings(solution, host, subject.knowledge):
        if finding.code not in silent:
            yield finding


def _driver(candidate: Candidate, host: HostFacts, subject: Subject) -> Iterator[Finding]:
    case = Context(facts=host, wish=Request(dev=False), knowledge=subject.knowledge)
    for verdict in Judge(case).verdicts(candidate):
        if verdict.rule in _DRIVER_RULES:
            yield from as_findings(verdict, candidate, case)
