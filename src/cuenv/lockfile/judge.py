"""An environment file against a host and the tables: whether anything that it admits can exist and run there."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from packaging.version import Version

from cuenv.core.errors import UsageError
from cuenv.core.findings import Finding
from cuenv.core.urls import short_channel
from cuenv.core.versions import Wish, parse_wish, version
from cuenv.host.facts import HostFacts
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import STACKS
from cuenv.lockfile.host_check import as_findings, candidate_of, choose_anew, evidence_of, unknown_build
from cuenv.resolver.candidates import admits, candidates
from cuenv.resolver.decision import Decision, decide
from cuenv.resolver.policy import judged_wishes, wants_cuda
from cuenv.resolver.rules import Context, Judge, rule_named
from cuenv.solve.environment_spec import NVCC, EnvironmentSpec
from cuenv.solve.model import Solution, build_cuda

_NUMBERS = re.compile(r"\d+\.\d+")


def wishes_of(spec: EnvironmentSpec, knowledge: Knowledge) -> Request:
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
    return Request(
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
    case = Context(facts=facts, wish=wish, knowledge=knowledge)
    pool = candidates(knowledge, facts.platform, wish.python)
    asked = Judge(case, (rule_named("wish"),))
    meant = [item for item in pool if item.cuda is not None and asked.verdicts(item)[0].outcome == "pass"]
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
        code = rule_named(verdict.rule).code
        yield from judged or [
            Finding(code=code, severity="error", subject=verdict.rule, message=verdict.because, evidence=evidence)
        ]


def _never_built(wish: Request, facts: HostFacts, knowledge: Knowledge) -> Finding:
    """No build is as the file wants it: an error where the tables know the release, else only how far they reach."""
    asked = {"pytorch": wish.pytorch, "CUDA": wish.cuda, "python": wish.python, "stack": wish.stack}
    text = ", ".join(f"{name} {value}" for name, value in asked.items() if value)
    every = [row for row in knowledge.torch if row.platform == facts.platform and row.cuda]
    rows = [row for row in every if wish.stack in (None, row.stack)]
    first = min((row.version for row in rows), default=_NO_RELEASE)
    releases = [row.version for row in every if row.version >= first]
    unknown = ""
    if wish.pytorch and rows and not any(map(wish.pytorch.admits, releases)):
        unknown = f"; the tables cover pytorch {first} to {max(row.version for row in rows)}"
    toolkits = [row.version for row in knowledge.cudas if row.conda]
    own = [row.cuda for row in rows if row.cuda] if wish.stack == "pytorch" else toolkits
    pythons = [version(text) for row in knowledge.torch for text in row.pythons]
    for name, asks, have, seen in (("CUDA", wish.cuda, own, toolkits), ("python", wish.python, pythons, pythons)):
        if unknown or not asks or not have or _admits_any(asks, map(str, have)):
            continue
        if not _admits_any(asks, map(str, seen)) and _admits_any(asks, _after(max(seen))):
            unknown = f"; the tables end at {name} {max(seen)}"
        elif rows and _older(wish.pytorch, first) and _admits_any(asks, _before(min(have))):
            unknown = f"; the tables begin at pytorch {first} and {name} {min(have)}"
    return Finding(
        code="CU111" if unknown else "CU110",
        severity="warning" if unknown else "error",
        subject="pytorch",
        message=f"no build with {text} is known for {facts.platform}{unknown}",
        fix=None if unknown else choose_anew(facts, wish),
    )


_NO_RELEASE = version("0")


def _admits_any(wish: Wish, minors: Iterable[str]) -> bool:
    return any(admits(wish, minor) for minor in minors)


def _after(last: Version) -> list[str]:
    """Minors that may come after one."""
    own = [f"{last.major}.{last.minor + step}" for step in range(1, 10)]
    return own + [f"{last.major + 1}.{minor}" for minor in range(10)]


def _before(first: Version) -> list[str]:
    """Minors that were before one."""
    own = [f"{first.major}.{minor}" for minor in range(first.minor)]
    return own + [f"{major}.{minor}" for major in range(first.major) for minor in range(10)]


def _older(wish: Wish | None, first: Version) -> bool:
    """Whether a wish for torch admits a release before the first that the tables know."""
    return wish is None or any(wish.admits(version(f"{text}.{patch}")) for text in _before(first) for patch in range(4))


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
                message=(
                    f"knowledge drift: the channel has {candidate}, but the cuenv tables "
                    f"list only Python {', '.join(known)}"
                ),
            )
        )
    return tuple(found)
