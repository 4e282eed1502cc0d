"""An environment file against a host and the tables: whether anything that it admits can exist and run there."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from packaging.version import Version

from cuenv.candidates import admits, candidates
from cuenv.decision import Decision, decide
from cuenv.environment import NVCC, EnvironmentSpec
from cuenv.errors import UsageError
from cuenv.extensions.laws import judged_wishes
from cuenv.facts import HostFacts
from cuenv.knowledge import Knowledge
from cuenv.laws import wants_cuda
from cuenv.lockfile import Solution
from cuenv.profile import STACKS, Profile
from cuenv.report import Finding
from cuenv.rules import Case
from cuenv.rules.wishes import wish as wished
from cuenv.urls import short_channel
from cuenv.verify import as_findings, build_cuda, candidate_of, choose_anew, evidence_of, unknown_build
from cuenv.versions import Wish, parse_wish, version

_NUMBERS = re.compile(r"\d+\.\d+")


def wishes_of(spec: EnvironmentSpec, knowledge: Knowledge) -> Profile:
    """What an environment file asks for, in the words of a profile, as far as the tables can judge it."""
    torch = spec.pin("pytorch") or spec.pin("pytorch-gpu")
    cuda = spec.pin("cuda-version") or spec.pin("pytorch-cuda") or spec.pin("cudatoolkit")
    python = spec.pin("python")
    compilers = [spec.pin(name) for name in NVCC]
    stack = _stack(spec, torch.channel if torch else "")
    # A compiler of another channel is judged by the one-channel law, and does not ask this stack to fill the role.
    nvcc = any(pin and (stack != "conda-forge" or not pin.channel.startswith("nvidia")) for pin in compilers)
    own = build_cuda(torch.build) if torch else None
    toolkit = _wish(cuda.version) if cuda else None
    packages, pip = judged_wishes(spec, knowledge, nvcc=nvcc)
    return Profile(
        stack=stack,
        pytorch=_wish(torch.version) if torch else None,
        cuda=toolkit or (_wish(f">={own},<{own.major + 1}") if own else None),
        python=_wish(python.version) if python else None,
        dev=nvcc,
        packages=packages,
        pip=pip,
        cpu=torch is not None and not wants_cuda(spec, knowledge),
    )


def named_cuda(spec: EnvironmentSpec) -> Version | None:
    """The CUDA release that a file names: by its pin on the toolkit, else by torch's build string."""
    for name in ("cuda-version", "pytorch-cuda", "cudatoolkit"):
        pin = spec.pin(name)
        found = _NUMBERS.match(pin.version.lstrip("=")) if pin else None
        if found:
            return version(found[0])
    torch = spec.pin("pytorch")
    return build_cuda(torch.build) if torch else None


def _stack(spec: EnvironmentSpec, channel: str) -> str | None:
    channels = [short_channel(item) for item in spec.channels]
    if channel in STACKS:
        return channel
    if spec.pin("pytorch-cuda") or "pytorch" in channels[:1]:
        return "pytorch"
    return "conda-forge" if "pytorch" not in channels else None


def _wish(text: str) -> Wish | None:
    try:
        return parse_wish(text, what="version") if text and text != "*" else None
    except UsageError:
        return None


def judge_spec(spec: EnvironmentSpec, facts: HostFacts, knowledge: Knowledge) -> tuple[Finding, ...]:
    """Judge an environment file by the tables: whether anything that it admits can exist and run on the host."""
    wish = wishes_of(spec, knowledge)
    if wish.cpu or not _covered(spec):
        return ()
    case = Case(facts=facts, wish=wish, knowledge=knowledge)
    pool = candidates(knowledge, facts.platform, wish.python)
    meant = [item for item in pool if item.cuda is not None and wished(item, case).outcome == "pass"]
    if not meant:
        return (_never_built(wish, facts, knowledge),)
    decision = decide(case, meant)
    return () if decision.chosen else tuple(_unsatisfiable(decision, knowledge))


def _covered(spec: EnvironmentSpec) -> bool:
    """Whether the tables know the channel that torch comes from: its own, else the first that may hold it."""
    torch = spec.pin("pytorch")
    listed = (short_channel(item) for item in spec.channels)
    first = next((channel for channel in listed if channel.split("/")[0] != "nvidia"), "")
    return torch is not None and (torch.channel or first) in STACKS


def _unsatisfiable(decision: Decision, knowledge: Knowledge) -> Iterable[Finding]:
    """Nothing that the file admits runs on the host: the candidate with the fewest objections says why."""
    nearest = min(decision.assessments, key=lambda item: len(item.objections))
    for verdict in nearest.objections:
        judged = tuple(as_findings(verdict, nearest.candidate, decision.case))
        evidence = tuple(evidence_of(verdict, knowledge))
        yield from judged or [
            Finding(code="CU110", severity="error", subject=verdict.rule, message=verdict.because, evidence=evidence)
        ]


def _never_built(wish: Profile, facts: HostFacts, knowledge: Knowledge) -> Finding:
    """No build is as the file wants it: an error where the tables know the release, else only their end."""
    asked = {"pytorch": wish.pytorch, "CUDA": wish.cuda, "python": wish.python, "stack": wish.stack}
    text = ", ".join(f"{name} {value}" for name, value in asked.items() if value)
    releases = [row.version for row in knowledge.torch if row.platform == facts.platform]
    known = wish.pytorch is None or any(wish.pytorch.admits(release) for release in releases)
    covered = f"; the tables cover pytorch {min(releases)} to {max(releases)}" if releases else ""
    toolkits = [row.version for row in knowledge.cudas if row.conda]
    pythons = [version(text) for row in knowledge.torch for text in row.pythons]
    for name, asks, have in (("CUDA", wish.cuda, toolkits), ("python", wish.python, pythons)):
        if known and asks and have and _later(asks, have):
            known, covered = False, f"; the tables end at {name} {max(have)}"
    return Finding(
        code="CU110" if known else "CU111",
        severity="error" if known else "warning",
        subject="pytorch",
        message=f"no build with {text} is known for {facts.platform}" + ("" if known else covered),
        fix=choose_anew(facts) if known else None,
    )


def _later(wish: Wish, known: list[Version]) -> bool:
    """Whether a wish admits no minor that is known, but one after the last of them."""
    last = max(known)
    after = [f"{last.major}.{last.minor + step}" for step in range(1, 10)] + [
        f"{last.major + 1}.{n}" for n in range(10)
    ]
    return not any(admits(wish, str(item)) for item in known) and any(admits(wish, text) for text in after)


def drift_findings(spec: EnvironmentSpec, solution: Solution, knowledge: Knowledge) -> tuple[Finding, ...]:
    """Where the solver's answer is not what the tables said: ``knowledge-drift``, never silence."""
    candidate = candidate_of(solution, knowledge)
    if candidate is None or spec.pin("pytorch") is None:
        return ()
    found = [] if candidate.build.sources else [replace(unknown_build(candidate), severity="warning")]
    python = spec.pin("python")
    known = candidate.build.pythons
    if known and python and candidate.python not in known:
        found.append(
            Finding(
                code="CU109",
                severity="warning",
                subject="python",
                message=f"knowledge drift: the channel has {candidate}, the tables name python {', '.join(known)}",
            )
        )
    return tuple(found)
