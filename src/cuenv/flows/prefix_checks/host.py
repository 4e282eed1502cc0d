"""The driver against the CUDA release of the environment, and the state of the machine."""

from __future__ import annotations

from collections.abc import Iterator

from cuenv.candidates import Candidate
from cuenv.checks import Check, judged, skipped
from cuenv.flows.prefix_checks import Subject
from cuenv.host_text import host_line
from cuenv.machine import machine_findings
from cuenv.machine_driver import with_forward
from cuenv.prefix_cuda import cuda_of
from cuenv.profile import Profile
from cuenv.report import Finding
from cuenv.rules import Case, Judge
from cuenv.verify import as_findings, bare_candidate

_RULES = ("gpu", "driver-gpu", "driver-floor", "driver-level")
"""The rules that join a driver with GPUs and a CUDA release; what the files hold for a GPU is another check."""


def check(subject: Subject) -> Check:
    """Floor, branch and level of the driver, and what the machine is in the way of."""
    facts = subject.facts
    known = cuda_of(subject.prefix)
    candidate = bare_candidate(known[0], facts.platform) if known else None
    found = [*machine_findings(facts, candidate, subject.knowledge, subject.profile)]
    if not facts.gpus:
        why = f"{facts.label} has no GPU that could be judged; name the host with --host, or with --gpu and --driver"
        return judged("host", why, found) if found else skipped("host", why)
    if candidate is None or known is None:
        return judged("host", f"{host_line(facts)}; no record of the environment names a CUDA release", found)
    found += _driver(candidate, subject)
    return judged("host", f"CUDA {known[0]}, by {known[1]}, on {host_line(facts)}", found)


def _driver(candidate: Candidate, subject: Subject) -> Iterator[Finding]:
    facts = with_forward(subject.facts, subject.knowledge)
    case = Case(facts=facts, wish=Profile(dev=False), knowledge=subject.knowledge)
    for verdict in Judge(case).verdicts(candidate):
        if verdict.rule in _RULES:
            yield from as_findings(verdict, candidate, case)
