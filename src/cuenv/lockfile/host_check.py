"""A solved environment against a host: the rules' verdicts as findings.

What decides also checks: the packages of a lock make a candidate, and the same rules judge it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from packaging.version import Version

from cuenv.core.findings import DriverFix, FileEdit, Finding, LockFix, PipFix, Severity, first_of
from cuenv.core.record import replace
from cuenv.core.regex import regex
from cuenv.core.versions import driver_key, minor, version
from cuenv.host.describe import host_options
from cuenv.host.facts import HostFacts, Libc
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.requirement import Requirement
from cuenv.knowledge.rows import WHEELS, TorchBuild
from cuenv.lockfile.programs import (
    CUDA_PROGRAMS,
    as_cpu_warning,
    findings_without_cuda,
    loader_findings,
    newer_cuda,
    program_findings,
    programs_of,
)
from cuenv.resolver.candidates import NO_TORCH, Candidate, no_row
from cuenv.resolver.compilers import locked_gcc_findings
from cuenv.resolver.conflicts import locked_conflicts
from cuenv.resolver.requirements import demands
from cuenv.resolver.rules import LAYERS, Context, Judge, Reason, Verdict, rule_named, verdict_of
from cuenv.resolver.rules.device import THIS_BUILD
from cuenv.resolver.rules.libraries import glibc_verdict, range_for
from cuenv.resolver.verdict import for_host, with_sources
from cuenv.resolver.wheels import (
    cuda_in_names,
    cuda_major_findings,
    cuda_of_wheels,
    library_advice,
    locked_libraries,
    uses_no_gpu,
    wheel_advice,
    wheel_candidate,
    wheel_row,
)
from cuenv.solve.environment_spec import NVCC, EnvironmentSpec, requirement_name
from cuenv.solve.model import LockedPackage, Solution, build_cuda, names_cpu, names_cuda
from cuenv.solve.pip_lines import project_of

RUNTIMES = ("pytorch-cuda", "cuda-version", "cudatoolkit")
"""Packages that bind the CUDA libraries of torch to a release."""
_NUMBERS = regex(r"[0-9]{1,9}(\.[0-9]{1,9})*")

_SHOWN = 3
_NEED_OTHER_ENVIRONMENT = ("device-code", "nvcc", "glibc")
"""Rules whose objection is lifted by choosing another environment, and by no driver or option."""
_OF_EVERY_PROGRAM = ("device-code", "cudnn")
"""Those of them that every program on a GPU needs: not to know is a warning."""
_SEVERITY: dict[str, Severity] = {"reject": "error", "warn": "warning", "unknown": "info"}


def candidate_of(solution: Solution, knowledge: Knowledge) -> Candidate | None:
    """The candidate that a solved environment is, with conda's torch or pip's; ``None`` without a torch in it.

    Of both it is pip's, which is installed over the other.
    """
    torch = None if any(item.name == "torch" for item in solution.pip) else solution.package("pytorch")
    release = _version(solution, "pytorch")
    if torch is None or release is None:
        return wheel_candidate(solution.pip, solution.platform, knowledge, _python(solution)) if solution.pip else None
    own = build_cuda(torch.build)
    return _candidate(
        solution, _torch_row(torch, release, own, solution.platform, knowledge), _toolkit_release(solution) or own
    )


def candidate_without_torch(solution: Solution, knowledge: Knowledge) -> Candidate | None:
    """An environment that has CUDA and no torch, as a candidate of which no device code is known."""
    cuda = cuda_of_solution(solution)
    loaded = next((row for _, row in programs_of(solution.pip, knowledge) if row.cuda), None)
    if cuda is None and loaded:  # the libraries are those of the host
        made = _candidate(solution, no_row("", NO_TORCH, loaded.cuda, "", solution.platform), loaded.cuda)
        return replace(made, cudnn=made.cudnn or loaded.cudnn)
    cuda = cuda or cuda_in_names(solution.pip)
    return _candidate(solution, no_row("", NO_TORCH, cuda, "", solution.platform), cuda) if cuda else None


def cuda_of_solution(solution: Solution) -> Version | None:
    """The CUDA release of the libraries in an environment, or of what is built for it there."""
    built = [found for package in solution.packages if (found := build_cuda(package.build))]
    return _toolkit_release(solution) or cuda_of_wheels(solution.pip) or max(built, default=None)


def _candidate(solution: Solution, build: TorchBuild, cuda: Version | None) -> Candidate:
    """A solved environment as a candidate, with the given build."""
    return Candidate(
        build=build,
        cuda=cuda,
        python=_python(solution) or "3",
        label=None,
        cudnn=_version(solution, "libcudnn") or _version(solution, "cudnn"),
        nccl=_version(solution, "nccl"),
        compiler=minor(nvcc) if (nvcc := _version(solution, "cuda-nvcc")) else None,
    )


def _python(solution: Solution) -> str:
    python = solution.package("python")
    return ".".join((python.version if python else solution.python).split(".")[:2])


def _torch_row(
    torch: LockedPackage, release: Version, own: Version | None, platform: str, knowledge: Knowledge
) -> TorchBuild:
    """The table's row of a locked torch, or a row that admits to knowing nothing."""
    if torch.channel_name == WHEELS:
        return wheel_row(release, "", own, platform, knowledge)
    key = (torch.channel_name, release, own, platform)
    known = next((row for row in knowledge.torch if row.key == key), None)
    return known or no_row(torch.channel_name, release, own, torch.build, platform)


def _toolkit_release(solution: Solution) -> Version | None:
    """The CUDA release of the package that binds the CUDA libraries of torch."""
    # Beside a build of the pytorch channel cuda-version may be of any release: it binds nothing there.
    for name in RUNTIMES:
        found = _version(solution, name)
        if found:
            return minor(found)
    return None


def _version(solution: Solution, name: str) -> Version | None:
    """The version of a package, at least its leading numbers: ``1.1.1_h`` is one to conda and none to Python."""
    package = solution.package(name)
    if package is None:
        return None
    try:
        return version(package.version)
    except ValueError:
        numbers = _NUMBERS.match(package.version)
        return version(numbers[0]) if numbers else None


def host_findings(solution: Solution, facts: HostFacts, knowledge: Knowledge) -> tuple[Finding, ...]:
    """Judge a solved environment against a host by the rules that decide."""
    found = [_platform_finding(solution, facts)] if solution.platform != facts.platform else []
    found += locked_conflicts(solution.packages, solution.pip, knowledge)
    found += locked_gcc_findings(solution.packages, knowledge)
    found += _rule_findings(solution, facts, knowledge)
    if not any(item.code == rule_named("glibc").code and item.severity == "error" for item in found):
        found += _glibc_findings(solution, facts)
    return tuple(found)


def _rule_findings(solution: Solution, facts: HostFacts, knowledge: Knowledge) -> Iterator[Finding]:
    """What the rules say of a solved environment on a host."""
    torch = candidate_of(solution, knowledge)
    by_pip = torch is not None and torch.build.stack == WHEELS
    if torch and torch.cuda is None and uses_no_gpu(torch.build) and facts.gpus:
        yield _cpu_wheel_finding(torch, facts, knowledge)
    elif torch and torch.cuda is None and by_pip:
        yield build_not_in_tables(torch)  # a wheel of which not even the CUDA release is known
    of_host = torch is None and cuda_of_solution(solution) is None and bool(programs_of(solution.pip, knowledge))
    candidate = torch or (candidate_without_torch(solution, knowledge) if facts.gpus or not of_host else None)
    if candidate is None or candidate.cuda is None:
        yield from findings_without_cuda(solution, facts, knowledge) if torch is None else ()
        return
    if by_pip:
        yield from cuda_major_findings(solution.pip, candidate.build)
    context, verdicts = judge_solution(solution, candidate, facts, knowledge)
    found = [item for verdict in verdicts for item in as_findings(verdict, candidate, context)]
    found = _with_glibc_of_packages(found, solution, candidate, context)
    if torch is None:  # another torch is no help for a program that is none
        names = [package.name for package in solution.packages] + [item.name for item in solution.pip]
        anew, better = resolve_again(facts, context), newer_cuda(names, facts, knowledge)
        found = [replace(item, fix=better) if item.fix == anew and item.subject != "glibc" else item for item in found]
    found = _with_common_fix(found, context) if torch else found
    if torch and not torch.build.sources:
        yield build_not_in_tables(torch)
        found = [item for item in found if item.subject != LAYERS[0] or not item.unknown]
    refused = any(item.severity == "error" for item in found)
    loaded = [(f"{item.name}=={item.version}", row) for item, row in programs_of(solution.pip, knowledge) if row.cuda]
    for name, row in loaded[:1] if of_host else ():
        found = [as_cpu_warning(name, row, item) for item in found]
    yield from without_consequences(found, facts, by_pip=by_pip)
    beside = None if torch else cuda_of_solution(solution)
    loads = [] if torch or refused else [*loader_findings(solution, beside, facts, knowledge)]
    yield from loads
    cuda, said = None if torch else candidate.cuda, [item.subject for item in loads]
    programs = [*program_findings(solution, facts, cuda, knowledge, exact=bool(beside) and not refused, told_of=said)]
    if by_pip and any(item.name in CUDA_PROGRAMS and names_cuda(item.build) for item in solution.packages):
        # a program of conda uses conda's CUDA, whatever torch brings along
        programs += _rule_findings(replace(solution, pip=()), facts, knowledge)
    told = {(item.code, item.subject) for item in found if item.subject == "glibc"}
    once = {item.subject if item.unknown else item.message: item for item in programs}
    yield from (item for item in once.values() if (item.code, item.subject) not in told)


def _with_common_fix(found: list[Finding], context: Context) -> list[Finding]:
    """The errors of one host, with a fix that mends all of them where one does: another environment, or torch."""
    errors = [item for item in found if item.severity == "error" and item.fix and not isinstance(item.fix, _OlderFix)]
    whole = resolve_again(context.facts, context)
    for item in errors:
        if item.fix == whole or (item.subject == "device-code" and item.edits):
            return [replace(each, fix=item.fix, edits=item.edits) if each in errors else each for each in found]
    if len({item.fix for item in errors}) > 1 and not any(item.edits and item.edits[0].pip for item in errors):
        last = errors[-1]
        from cuenv.resolver.decision import decide  # noqa: PLC0415 - only where several fixes stand beside each other

        both = f"{last.fix}; or, instead of {'both' if len(errors) == 2 else 'all'} fixes: {whole}"
        if decide(replace(context, request=Request(dev=False))).chosen:
            return [replace(each, fix=both) if each == last else each for each in found]
    return found


def without_consequences(found: Iterable[Finding], facts: HostFacts, *, by_pip: bool = True) -> list[Finding]:
    """The findings on a torch; one without code for a GPU explains the cuDNN, NCCL and triton that come with it.

    What is mended by the same is evidence of the first; on a host with one kind of GPU another torch ends every doubt.

    Args:
        found: on a torch and what goes with it.
        by_pip: torch is a wheel, which brings these in one release each.
    """
    every = list(found)
    first = next((item for item in every if item.subject == LAYERS[0] and item.severity == "error"), None)
    if first is None:
        return every
    along = [item for item in every if item.subject in LAYERS[1:] or "triton" in map(requirement_name, item.about)]
    one = len(set(facts.capabilities)) == 1
    rest = [
        item
        for item in along
        if (by_pip and (item.fix, item.edits) == (first.fix, first.edits)) or (one and item.severity != "error")
    ]
    evidence = (*first.evidence, *(item.message for item in rest))
    return [replace(item, evidence=evidence) if item is first else item for item in every if item not in rest]


def judge_solution(
    solution: Solution, candidate: Candidate, facts: HostFacts, knowledge: Knowledge
) -> tuple[Context, tuple[Verdict, ...]]:
    """What the rules that judge a solved environment say of it, each about something that is there, and the context."""
    torch = candidate.build.version != NO_TORCH
    has_nvcc = any(package.name in NVCC for package in solution.packages)
    beside = (*locked_libraries(solution.pip, knowledge), *_libraries_to_build(solution, knowledge)) if torch else ()
    # A wheel is built already: it needs no nvcc, whatever its source would need.
    context = Context(facts=facts, request=Request(dev=has_nvcc or bool(beside), pip=beside), knowledge=knowledge)
    there = {"nvcc": has_nvcc, "device-code": torch, "cudnn": torch or candidate.cudnn, "nccl": torch or candidate.nccl}
    there["glibc"] = torch or cuda_of_solution(solution)  # what the host has runs there
    found = (
        one for one in Judge(context).verdicts(candidate) if rule_named(one.rule).locked and there.get(one.rule, True)
    )
    return context, tuple(found)


_RELEASE = regex(r"[-_](\d[\w.+!]*?)\.(?:tar\.\w+|tgz|zip)(?:#|\Z)")


def _libraries_to_build(solution: Solution, knowledge: Knowledge) -> Iterator[str]:
    """The libraries that pip is to build against torch, as requirements of their releases."""
    for item in solution.aside:
        name, release = project_of(item.text), _RELEASE.search(item.text)
        if item.build and name and knowledge.extension(name):
            yield f"{name}=={release[1]}" if release else name


def _cpu_wheel_finding(torch: Candidate, facts: HostFacts, knowledge: Knowledge) -> Finding:
    """A wheel that uses no GPU on a host that has one."""
    build = torch.build
    what = f"the wheel of torch {build.version} for {build.platform}"
    fix, edits = wheel_advice(torch, facts, knowledge)
    message = f"{what} is not a CUDA build, so it does not use the GPUs of {facts.label}"
    return Finding(code="CU103", severity="warning", subject="torch", message=message, fix=fix, edits=edits)


def cpu_torch_findings(solution: Solution, facts: HostFacts, *, asked: bool) -> Iterator[Finding]:
    """A CPU build of conda's torch for a host with GPUs.

    Args:
        asked: somebody asked for that build by name, so that it is no mistake.
    """
    torch = solution.package("pytorch")
    if torch and facts.gpus and names_cpu(torch.build):
        yield Finding(
            code="CU103",
            severity="info" if asked else "warning",
            subject=torch.name,
            message=f"{torch.name} {torch.version} {torch.build} is a CPU build, so it does not use the GPUs of "
            f"{facts.label}",
            fix=None if asked else resolve_again(facts),
        )


def _glibc_findings(solution: Solution, facts: HostFacts) -> Iterator[Finding]:
    """What the packages themselves require of the C library, which may be more than the rows on torch say."""
    needs = solution.glibcs
    lowest = max((needed for _, needed in needs), default=None)
    if lowest is None:
        return
    for machine in facts.machines:
        libc = machine.libc
        lacking = sorted(name for name, needed in needs if libc is None or needed > libc.version)
        most = sorted(name for name, needed in needs if needed == lowest)
        says = f"{first_of(most, _SHOWN)} {'need' if len(most) > 1 else 'needs'} glibc {lowest} or later"
        verdict = for_host(glibc_verdict(lowest, Reason("row", says), libc), machine)
        if verdict.outcome == "reject":
            message = verdict.because
            fix = _glibc_fix(lacking, solution, libc, facts)
            yield Finding(code=rule_named("glibc").code, severity="error", subject="glibc", message=message, fix=fix)


def _with_glibc_of_packages(
    found: list[Finding], solution: Solution, candidate: Candidate, context: Context
) -> list[Finding]:
    """The errors on the C library, with what the packages require where that is more than the rows say: told once."""
    code = rule_named("glibc").code
    errors = [item for item in found if item.code == code and item.severity == "error"]
    lowest = max((needed for _, needed in solution.glibcs), default=None)
    if not errors or lowest is None:
        return found
    enough = replace(context.facts, libc=Libc(family="glibc", version=lowest), members=())
    if verdict_of("glibc", candidate, replace(context, facts=enough)).outcome == "reject":
        return found
    own = [replace(item, fix=item.fix or errors[0].fix) for item in _glibc_findings(solution, context.facts)]
    return [*(item for item in found if item not in errors), *own]


_WITH_TORCH = regex(r"torch(?:vision|audio)?|triton|nvidia-.+")


class _OlderFix(str):
    """The text of a fix by older releases of wheels, which no other torch mends."""

    __slots__ = ()


def _glibc_fix(lacking: Sequence[str], solution: Solution, libc: Libc | None, facts: HostFacts) -> str | None:
    """What mends it; ``None`` where another torch does, since what needs a later glibc comes with torch.

    Wheels for an older C library stand beside the others in an index: locking for the host takes those.
    """
    by_pip = {item.name for item in solution.pip if solution.package(item.name) is None}
    others = [name for name in lacking if name in by_pip and not _WITH_TORCH.fullmatch(name)]
    alone = by_pip.issuperset(lacking)
    if not others and not alone:
        return resolve_again(facts)
    if "torch" not in by_pip and alone:
        return LockFix.of(*host_options(facts))
    if not others or libc is None or libc.family != "glibc":
        return None
    beside = "" if len(others) == len(lacking) else f", and another {'torch' if alone else 'set of conda packages'}"
    return _OlderFix(f"take releases of {first_of(others, _SHOWN)} that have wheels for glibc {libc.version}{beside}")


def _platform_finding(solution: Solution, facts: HostFacts) -> Finding:
    message = f"the lock is for {solution.platform}, but {facts.label} is {facts.platform}"
    fix = LockFix.of("--platform", facts.platform)
    return Finding(code="CU106", severity="error", subject="platform", message=message, fix=fix)


def as_findings(verdict: Verdict, candidate: Candidate, context: Context, *, named: bool = True) -> Iterator[Finding]:
    """A verdict on a candidate as a finding, where its rule judges a solved environment and it is no plain pass.

    Args:
        named: what comes with a wheel of torch, and bears no name of its own, is said of that wheel by name.
    """
    rule = rule_named(verdict.rule)
    severity = _SEVERITY.get(verdict.outcome)
    if not rule.locked or severity is None:
        return
    if verdict.rule == "driver-level":
        severity = "info"
    elif verdict.outcome == "unknown" and verdict.rule in _OF_EVERY_PROGRAM:
        severity = "warning"
    fix, edits = _fix(verdict, candidate, context)
    message = verdict.because.replace(THIS_BUILD, build_name(candidate), 1)
    if named and (verdict.rule == "cudnn" or rule.code == "CU401") and candidate.build.stack == WHEELS:
        message = f"{build_name(candidate)}: {message}"
    yield Finding(
        code=rule.code,
        severity=severity,
        subject=verdict.rule,
        message=message,
        evidence=tuple(with_sources(reason, context.knowledge) for reason in verdict.reasons),
        fix=fix,
        edits=edits,
        unknown=verdict.outcome == "unknown" and verdict.rule in (*LAYERS, "extensions"),
        about=tuple(reason.says for reason in verdict.reasons if reason.kind == "wish"),
    )


def build_name(candidate: Candidate) -> str:
    """``pytorch 2.5.1 for CUDA 12.4``, ``torch 2.7.1+cu126``."""
    build = candidate.build
    if build.stack == WHEELS:
        tag = "" if build.version.local or not build.build else f"+{build.build}"
        return f"torch {build.version}{tag}"
    return f"pytorch {build.version}{f' for CUDA {build.cuda}' if build.cuda else ''}"


_Fix: TypeAlias = tuple[str | None, tuple[FileEdit, ...]]
"""What mends a finding, in words and as edits of the environment file."""


def _fix(verdict: Verdict, candidate: Candidate, context: Context) -> _Fix:
    """What mends it: a driver to install, an edit, or a command; nothing for what is only not known."""
    if verdict.outcome != "reject" or _other_driver_is_newer(verdict, candidate, context):
        return None, ()
    if verdict.rule == "extensions":
        from cuenv.resolver.rules.extensions import gpu_too_old  # noqa: PLC0415 - most files have no such library

        def suits(text: str) -> bool:
            alone = replace(context, request=replace(context.request, pip=(text,)))
            return verdict_of("extensions", candidate, alone).outcome in ("pass", "warn")

        asked, served = demands(context.request.packages, context.request.pip), context.facts.capabilities
        old = next((item for item in asked if gpu_too_old(item, served, context.knowledge)), None)
        if old:
            others = gpu_too_old(replace(old, condition=""), served, context.knowledge) is None
            other = f"remove {old.name}{', or take a release that supports the GPU' if others else ''}"
            return _OTHER_ATTENTION if old.name == "flash-attn" else other, ()
        better = library_advice(context.request.pip, candidate.build.version, context.knowledge, suits)
        return (PipFix.of(*(text for edit in better for text in edit.entries)) if better else None), better
    if candidate.build.stack == WHEELS and verdict.rule in (*_NEED_OTHER_ENVIRONMENT, "driver-floor", "cudnn", "nccl"):
        return _other_wheel(verdict, candidate, context)
    if verdict.rule == "cudnn" and not verdict.remedy and (narrowed := _cudnn_bound(candidate, context)):
        return None, (narrowed,)
    return _command(verdict, candidate, context), ()


_OTHER_ATTENTION = 'remove flash-attn, and load the model with attn_implementation="sdpa", which is PyTorch\'s own'
"""SDPA has kernels for every GPU that torch has: https://huggingface.co/docs/transformers/attention_interface."""
_DRIVER_RULES = ("driver-gpu", "driver-floor")


def _other_driver_is_newer(verdict: Verdict, candidate: Candidate, context: Context) -> bool:
    """Whether the other rule on the driver rejects too and asks for a later one, whose command mends both."""
    lowest = _lowest_driver(verdict)
    if lowest is None:
        return False
    (name,) = {*_DRIVER_RULES} - {verdict.rule}
    other = _lowest_driver(verdict_of(name, candidate, context))
    return other is not None and (other > lowest or (other == lowest and name == "driver-gpu"))


def _lowest_driver(verdict: Verdict) -> tuple[int, ...] | None:
    remedy = verdict.remedy if verdict.outcome == "reject" and verdict.rule in _DRIVER_RULES else None
    return driver_key(remedy.driver) if remedy and remedy.driver and not remedy.upto else None


def _driver_does_not_help(verdict: Verdict, candidate: Candidate, context: Context) -> bool:
    """Whether the driver that is asked for runs no more than this one: a GPU has no code in the build."""
    others = LAYERS if candidate.build.stack == WHEELS else LAYERS[:1]  # conda's cuDNN and NCCL can be pinned
    rejects = [] if _lowest_driver(verdict) is None else [verdict_of(name, candidate, context) for name in others]
    return any(item.outcome == "reject" and not (item.remedy and item.remedy.driver) for item in rejects)


def _command(verdict: Verdict, candidate: Candidate, context: Context) -> str | None:
    """The command that mends what no edit does."""
    if _driver_does_not_help(verdict, candidate, context):
        return resolve_again(context.facts, context)
    if verdict.remedy:
        if verdict.remedy.driver:
            return DriverFix.of(verdict.remedy.text)
        return _resolve_command(context.facts, *_libraries(context.request, context.knowledge), verdict.remedy.option)
    if verdict.rule == "gpu":
        return "name the machine that it is for: --gpu NAME --driver VERSION, or --host FILE (cuenv inspect --json)"
    return (
        resolve_again(context.facts, context) if verdict.rule in (*_NEED_OTHER_ENVIRONMENT, "cudnn", "nccl") else None
    )


def _other_wheel(verdict: Verdict, candidate: Candidate, context: Context) -> _Fix:
    """A wheel of torch that runs on the host, or the driver that this one needs."""
    helps = verdict.remedy and verdict.remedy.driver and not _driver_does_not_help(verdict, candidate, context)
    driver = verdict.remedy.text if verdict.remedy and helps else ""
    wheel, edits = wheel_advice(candidate, context.facts, context.knowledge)
    if wheel is None:
        return DriverFix.of(driver) if driver else None, edits
    return wheel.but(driver=driver), edits


def resolve_again(facts: HostFacts, context: Context | None = None) -> str:
    """The command that chooses another environment for the host that was judged, whichever machine it is typed on."""
    libraries = _libraries(context.request, context.knowledge) if context else ()
    return _resolve_command(facts, *libraries, "--prove", "-o", "environment.new.yml")


def _libraries(request: Request, knowledge: Knowledge) -> list[str]:
    """The libraries of a request, as options: another environment has them too, each in a release that fits it."""
    found: dict[str, None] = {}
    for text in (*request.packages, *(f"pip:{item}" for item in request.pip)):
        by_pip, bare = text.startswith("pip:"), text.removeprefix("pip:").rpartition("::")[2]
        asked = demands((), (bare,)) if by_pip else demands((bare,), ())
        bound = any(row.torch or row.cuda for item in asked for row in knowledge.extension(item.name))
        found["pip:" * by_pip + (asked[0].name if bound else bare)] = None
    return [word for text in found for word in ("--with", text)]


def _resolve_command(facts: HostFacts, *options: str | None) -> str:
    return shlex.join(["cuenv", "resolve", *host_options(facts), *filter(None, options)])


def _cudnn_bound(candidate: Candidate, context: Context) -> FileEdit | None:
    """The bound on cuDNN that supports the oldest GPU again, where the torch build admits such a release."""
    asked = candidate.build.cudnn or Requirement(package="libcudnn", first=None, below=None)
    if candidate.build.cuda is None or not context.facts.capabilities or candidate.build.stack == WHEELS:
        return None  # a torch from pip asks for one cuDNN exactly
    found = range_for("cudnn", asked, context.facts.capabilities[0], candidate.build.cuda, context.knowledge)
    return FileEdit(how="add", entries=(f"{asked.package}<{found.below}",)) if found.answer == "below" else None


def build_not_in_tables(candidate: Candidate) -> Finding:
    """The finding that the tables do not know a torch build."""
    build = candidate.build
    by_pip = build.stack == WHEELS
    what = (
        f"the wheel of {build_name(candidate)}" if by_pip else f"pytorch {build.version} {build.build} of {build.stack}"
    )
    message = f"the cuenv tables do not list {what}, so its GPU support was not checked"
    subject = "torch" if by_pip else "pytorch"
    return Finding(code="CU111", severity="warning", subject=subject, message=message, unknown=True)


def drift_findings(spec: EnvironmentSpec, solution: Solution, knowledge: Knowledge) -> tuple[Finding, ...]:
    """Where the solver's answer is not what the tables said: ``knowledge-drift``, never silence."""
    candidate = candidate_of(solution, knowledge)
    if candidate is None or spec.pin("pytorch") is None:
        return ()
    torch = solution.package("pytorch")
    of_cpu = candidate.cuda is None and torch is not None and names_cpu(torch.build)
    found = [] if candidate.build.sources or of_cpu else [build_not_in_tables(candidate)]
    python = spec.pin("python")
    known = candidate.build.pythons
    if known and python and candidate.python not in known:
        message = (
            f"knowledge drift: the channel has {candidate}, but the cuenv tables list only Python {', '.join(known)}"
        )
        found.append(Finding(code="CU109", severity="warning", subject="python", message=message))
    return tuple(found)
