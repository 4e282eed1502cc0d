"""A lock or an environment file against a host: the rules' verdicts as findings.

What decides also checks: the packages of a lock make a candidate, and the same rules judge it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from packaging.version import Version

from cuenv.candidates import Candidate
from cuenv.decision import Decision, decide
from cuenv.environment import EnvironmentSpec
from cuenv.facts import PLATFORMS, HostFacts
from cuenv.knowledge import Knowledge, TorchBuild
from cuenv.laws import wants_cuda
from cuenv.lock import LockedPackage, Solution, short_channel
from cuenv.profile import Profile
from cuenv.report import Finding, Severity
from cuenv.rules import Case, Judge, Verdict
from cuenv.versions import Wish, minor, parse_wish, version

_BUILD_CUDA = re.compile(r"cuda_?(\d{2})(\d)(?!\d)|cuda(\d{2})\.(\d)")
_CODES = {
    "platform": "CU106",
    "driver-floor": "CU401",
    "driver-gpu": "CU402",
    "device-code": "CU403",
    "nvcc": "CU404",
    "cudnn": "CU405",
    "nccl": "CU406",
    "glibc": "CU407",
    "driver-level": "CU408",
    "gpu": "CU409",
}
"""Codes of the rules that judge a lock against a host; wishes and roles are judged by the environment file."""

_FIXES = {
    "cudnn": "pin it: libcudnn<9.11, then cuenv lock",
    "device-code": "cuenv resolve --prove for these GPUs, then cuenv lock",
    "nvcc": "cuenv resolve for these GPUs, then cuenv lock",
}
_SEVERITY: dict[str, Severity] = {"reject": "error", "warn": "warning", "unknown": "info"}


def build_cuda(build: str) -> Version | None:
    """The CUDA release in a build string: ``cuda129_mkl_...`` or ``py3.10_cuda11.8_cudnn8.7.0_0``."""
    found = _BUILD_CUDA.search(build)
    if not found:
        return None
    major, small = (found[1], found[2]) if found[1] else (found[3], found[4])
    return version(f"{major}.{small}")


def candidate_of(solution: Solution, knowledge: Knowledge) -> Candidate | None:
    """The candidate that a solved environment is; ``None`` without a torch in it."""
    torch = solution.package("pytorch")
    if torch is None:
        return None
    own = build_cuda(torch.build)
    python = solution.package("python")
    return Candidate(
        build=_row(torch, own, solution.platform, knowledge),
        cuda=_release(solution) or own,
        python=".".join(python.version.split(".")[:2]) if python else "3",
        label=None,
        cudnn=_version(solution, "libcudnn") or _version(solution, "cudnn"),
        nccl=_version(solution, "nccl"),
    )


def _row(torch: LockedPackage, own: Version | None, platform: str, knowledge: Knowledge) -> TorchBuild:
    """The table's row of a locked torch, or a row that admits to knowing nothing."""
    release = version(torch.version)
    for row in knowledge.torch:
        if (row.stack, row.version, row.cuda, row.platform) == (torch.channel_name, release, own, platform):
            return row
    return TorchBuild(
        stack=torch.channel_name,
        version=release,
        cuda=own,
        build=torch.build,
        platform=platform,
        pythons=(),
        code=None,
        glibc=None,
        cudnn=None,
        nccl=None,
        sources=(),
    )


def _release(solution: Solution) -> Version | None:
    for name in ("cuda-version", "pytorch-cuda", "cudatoolkit"):
        found = _version(solution, name)
        if found:
            return minor(found)
    return None


def _version(solution: Solution, name: str) -> Version | None:
    package = solution.package(name)
    return version(package.version) if package else None


def host_findings(solution: Solution, facts: HostFacts, knowledge: Knowledge) -> tuple[Finding, ...]:
    """Judge a solved environment against a host by the rules that decide."""
    candidate = candidate_of(solution, knowledge)
    if candidate is None or candidate.cuda is None:
        return ()
    has_nvcc = any(package.name in ("cuda-nvcc", "cuda-toolkit") for package in solution.packages)
    case = Case(facts=facts, wish=Profile(dev=has_nvcc), knowledge=knowledge)
    verdicts = Judge(case).verdicts(candidate)
    found = [finding for verdict in verdicts for finding in _as_finding(verdict, knowledge)]
    if not candidate.build.sources:
        found.append(_unknown_build(candidate))
    return tuple(found)


def _as_finding(verdict: Verdict, knowledge: Knowledge) -> Iterator[Finding]:
    code = _CODES.get(verdict.rule)
    severity = _SEVERITY.get(verdict.outcome)
    if code is None or severity is None:
        return
    fix = verdict.remedy.text if verdict.remedy else _FIXES.get(verdict.rule)
    if verdict.rule == "driver-level":
        severity = "info"
    if verdict.outcome == "unknown":
        fix = None
    yield Finding(
        code=code,
        severity=severity,
        subject=verdict.rule,
        message=verdict.because,
        evidence=tuple(_evidence(verdict, knowledge)),
        fix=f"install {fix}" if verdict.remedy and verdict.remedy.driver else fix,
    )


def _evidence(verdict: Verdict, knowledge: Knowledge) -> Iterator[str]:
    for ground in verdict.grounds:
        cited = [knowledge.sources[item].title for item in ground.sources if item in knowledge.sources]
        low = " (low confidence)" if ground.low else ""
        where = "; ".join(cited or ground.sources)
        yield f"{ground.says} [{where}]{low}" if where else f"{ground.says}{low}"


def _unknown_build(candidate: Candidate) -> Finding:
    build = candidate.build
    return Finding(
        code="CU111",
        severity="info",
        subject="pytorch",
        message=f"the tables do not know pytorch {build.version} {build.build} of {build.stack}: "
        "which GPUs it serves is not judged",
    )


def machine_findings(facts: HostFacts, chosen: Candidate | None, knowledge: Knowledge) -> tuple[Finding, ...]:
    """What is odd about each real machine itself, whatever is locked."""
    found: list[Finding] = []
    for machine in facts.machines:
        if machine.detected:
            found += [*_modules(machine, knowledge), *_mismatch(machine)]
            found += _nvcc_on_path(machine, chosen)
    return tuple(found)


def _modules(machine: HostFacts, knowledge: Knowledge) -> Iterator[Finding]:
    """GPUs in one box that need different flavours of the kernel modules exclude each other."""
    needs: dict[str, list[str]] = {}
    for capability in machine.capabilities:
        row = knowledge.generation(capability)
        if row and row.module in ("open", "proprietary"):
            needs.setdefault(row.module, []).append(f"{capability} ({row.architecture})")
    if len(needs) > 1:
        yield Finding(
            code="CU410",
            severity="warning",
            subject=machine.label,
            message=f"{machine.label}: {', '.join(needs['open'])} works only with the open kernel modules, "
            f"{', '.join(needs['proprietary'])} only with the proprietary ones: one driver cannot drive both",
            fix="put the cards into two machines; one lock can still serve both",
        )


def _mismatch(machine: HostFacts) -> Iterator[Finding]:
    driver = machine.driver
    if driver and driver.version and driver.kernel_module and driver.version != driver.kernel_module:
        yield Finding(
            code="CU411",
            severity="warning",
            subject=machine.label,
            message=f"the driver library is {driver.version}, the loaded kernel module {driver.kernel_module}",
            fix="sudo reboot",
        )


def _nvcc_on_path(machine: HostFacts, chosen: Candidate | None) -> Iterator[Finding]:
    """An nvcc of another CUDA major on PATH would break the build of extensions."""
    if chosen is None or chosen.cuda is None:
        return
    for toolkit in machine.toolkits:
        if toolkit.on_path and toolkit.release and version(toolkit.release).major != chosen.cuda.major:
            yield Finding(
                code="CU412",
                severity="warning",
                subject=toolkit.path,
                message=f"nvcc {toolkit.release} of {toolkit.path} is on PATH: extensions for a torch of CUDA "
                f"{chosen.cuda} would not build with it",
                fix="conda activate the environment first, or take it from PATH; check with: which nvcc",
            )


def wishes_of(spec: EnvironmentSpec, knowledge: Knowledge) -> Profile:
    """What an environment file asks for, in the words of a profile, as far as the tables can judge it."""
    torch = spec.pin("pytorch") or spec.pin("pytorch-gpu")
    cuda = spec.pin("cuda-version") or spec.pin("pytorch-cuda") or spec.pin("cudatoolkit")
    python = spec.pin("python")
    nvcc = any(spec.pin(name) for name in ("cuda-nvcc", "cuda-toolkit", "cuda-compiler", "cudatoolkit-dev"))
    own = build_cuda(torch.build) if torch else None
    wished = _wish(cuda.version) if cuda else None
    return Profile(
        stack=_stack(spec, torch.channel if torch else ""),
        pytorch=_wish(torch.version) if torch else None,
        cuda=wished or (_wish(f">={own},<{own.major + 1}") if own else None),
        python=_wish(python.version) if python else None,
        dev=nvcc,
        cpu=torch is not None and not wants_cuda(spec, knowledge),
    )


def _stack(spec: EnvironmentSpec, channel: str) -> str | None:
    channels = [short_channel(item) for item in spec.channels]
    if channel in ("conda-forge", "pytorch"):
        return channel
    if spec.pin("pytorch-cuda") or "pytorch" in channels[:1]:
        return "pytorch"
    return "conda-forge" if "pytorch" not in channels else None


def _wish(text: str) -> Wish | None:
    from cuenv.errors import UsageError  # noqa: PLC0415 - a spec outside our wishes is no error here

    try:
        return parse_wish(text, what="version") if text and text != "*" else None
    except UsageError:
        return None


def judge_spec(spec: EnvironmentSpec, facts: HostFacts, knowledge: Knowledge) -> tuple[Decision, tuple[Finding, ...]]:
    """Judge an environment file by the tables: whether anything that it admits can exist and run on the host."""
    wish = wishes_of(spec, knowledge)
    decision = decide(Case(facts=facts, wish=wish, knowledge=knowledge))
    if spec.pin("pytorch") is None or wish.cpu or decision.chosen is not None:
        return decision, ()
    return decision, tuple(_unsatisfiable(decision, knowledge))


def _unsatisfiable(decision: Decision, knowledge: Knowledge) -> Iterable[Finding]:
    """Nothing that the file admits runs on the host: the nearest candidates say why."""
    wished = [item for item in decision.assessments if all(lead.rule != "wish" for lead in item.objections)]
    meant = [item for item in wished if all(lead.rule != "cpu" for lead in item.objections)]
    if not meant:
        yield _never_built(decision)
        return
    nearest = min(meant, key=lambda item: len(item.objections))
    judged = [finding for verdict in nearest.objections for finding in _as_finding(verdict, knowledge)]
    if judged:
        yield from judged
    else:
        lead = nearest.objections[0]
        yield Finding(
            code="CU110",
            severity="error",
            subject=lead.rule,
            message=lead.because,
            evidence=tuple(_evidence(lead, knowledge)),
        )


def _never_built(decision: Decision) -> Finding:
    wish = decision.case.wish
    asked = {"pytorch": wish.pytorch, "CUDA": wish.cuda, "python": wish.python, "stack": wish.stack}
    text = ", ".join(f"{name} {value}" for name, value in asked.items() if value)
    newest = max((row.version for row in decision.case.knowledge.torch), default=None)
    beyond = (
        wish.pytorch is not None
        and newest is not None
        and not any(wish.pytorch.admits(row.version) for row in decision.case.knowledge.torch)
    )
    return Finding(
        code="CU111" if beyond else "CU110",
        severity="warning" if beyond else "error",
        subject="pytorch",
        message=f"no build with {text} is known for {decision.case.facts.platform}"
        + (f"; the tables end at pytorch {newest}" if beyond else ""),
        fix=None if beyond else "cuenv resolve --prove -o environment.yml writes one that exists",
    )


def drift_findings(spec: EnvironmentSpec, solution: Solution, knowledge: Knowledge) -> tuple[Finding, ...]:
    """Where the solver's answer is not what the tables said: ``knowledge-drift``, never silence."""
    candidate = candidate_of(solution, knowledge)
    if candidate is None or spec.pin("pytorch") is None:
        return ()
    found = [] if candidate.build.sources else [replace(_unknown_build(candidate), severity="warning")]
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


def check_platforms(platforms: Iterable[str]) -> str | None:
    """The first platform that cuenv does not resolve for."""
    return next((item for item in platforms if item not in PLATFORMS), None)


def metadata_findings(recorded: Mapping[str, str], now: Mapping[str, str]) -> tuple[Finding, ...]:
    """What changed since a lock was made: each recorded input against the same input now."""
    changed = [key for key in now if recorded.get(key) != now[key]]
    return tuple(
        Finding(
            code="CU107",
            severity="error",
            subject=key,
            message=f"{key} changed: the lock was made with {recorded.get(key, 'nothing')}, now it is {now[key]}",
            fix="cuenv lock",
        )
        for key in changed
    )


def installed_findings(installed: Iterable[LockedPackage], solution: Solution) -> tuple[Finding, ...]:
    """An installed environment against its lock: what is missing, changed, or was never locked."""
    have = {package.name: package for package in installed}
    locked = {package.name: package for package in solution.packages}
    found = []
    for name in sorted(have.keys() | locked.keys()):
        mine, asked = have.get(name), locked.get(name)
        if asked is None and mine is not None:
            found.append(_installed("CU203", name, f"{name} {mine.version} is installed and not in the lock"))
        elif mine is None and asked is not None:
            found.append(_installed("CU201", name, f"{name} {asked.version} is in the lock and not installed"))
        elif mine is not None and asked is not None and (mine.version, mine.build) != (asked.version, asked.build):
            text = f"{name} is {mine.version} {mine.build}, the lock says {asked.version} {asked.build}"
            found.append(_installed("CU202", name, text))
    return tuple(found)


def _installed(code: str, name: str, message: str) -> Finding:
    fix = "make the environment again from its lock"
    return Finding(code=code, severity="error", subject=name, message=message, fix=fix)
