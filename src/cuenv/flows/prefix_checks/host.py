"""The host under the environment: driver against runtime, every layer against every GPU, the machine itself."""

from __future__ import annotations

from cuenv.checks import Check, judged, skipped
from cuenv.facts import THIS_MACHINE
from cuenv.flows.prefix_checks import Subject
from cuenv.host_text import host_line
from cuenv.machine import machine_findings
from cuenv.prefix_solution import as_solution
from cuenv.verify import candidate_of, host_findings


def check(subject: Subject) -> Check:
    """The rules that decide and that judge a lock, on what is installed."""
    facts = subject.facts
    # A device that the driver does not drive is a finding; a machine without any, such as a login node, is none.
    idle = [gap for gap in facts.gaps if gap.fact == "gpus" and gap.source.startswith("/")]
    if not facts.gpus and facts.label == THIS_MACHINE and not idle:
        return skipped("host", "this machine has no NVIDIA GPU: name the host with --host, or --gpu and --driver")
    solution = as_solution(subject.prefix, subject.cuda_files, facts.platform)
    candidate = candidate_of(solution, subject.knowledge)
    findings = [
        *host_findings(solution, facts, subject.knowledge),
        *machine_findings(facts, candidate, subject.knowledge),
    ]
    cuda = f"CUDA {candidate.cuda}" if candidate and candidate.cuda else "no torch with CUDA"
    return judged("host", f"{cuda} on {host_line(facts)}", findings)
