"""What the environment's records say: against its lock, against its files, and against each other."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace

from cuenv.core.findings import Check, Finding, judged
from cuenv.prefix.checks import Subject
from cuenv.prefix.fixes import INDEX, conda_exactly, pip_command, put_back
from cuenv.prefix.gone_files import gone_findings
from cuenv.prefix.packages import installed_findings, pip_findings
from cuenv.prefix.policy import cpu_torch, numpy_findings, prefix_findings
from cuenv.prefix.runtime_policy import number_of
from cuenv.prefix.torch_wheels import wheel_for
from cuenv.resolver.solution_policy import cpu_builds, cpu_twins, cuda_components
from cuenv.solve.model import Solution


def check(subject: Subject) -> Check:
    """Missing, changed and further packages; pip over conda; a second torch; a CPU twin; damaged records."""
    from cuenv.prefix.io.gone_files import gone_files  # noqa: PLC0415 - many files are looked for, by this check alone
    from cuenv.prefix.io.prefix import outside_sites  # noqa: PLC0415 - as above
    from cuenv.solve.io.pip import pypi_names  # noqa: PLC0415 - a table that only this check needs

    prefix = subject.prefix
    sites = outside_sites(prefix, subject.environ)
    torch = subject.cuda_files.torch
    findings = [*_foreign(subject), *gone_findings(gone_files(prefix), prefix), *numpy_findings(prefix, torch)]
    findings += [*prefix_findings(prefix, sites, subject.knowledge, pypi_names(), torch), *_twins(subject)]
    solution = subject.lock.solution(prefix.platform or subject.facts.platform) if subject.lock else None
    if solution:
        findings += _against(subject, solution)
    by_pip = sum(wheel.conda is None for wheel in prefix.wheels)
    counts = [f"{len(prefix.conda)} conda packages"] if prefix.kind == "conda" else []
    if by_pip or not counts:
        counts.append(f"{by_pip} by pip" if counts else f"{by_pip} distributions")
    told = "against the lock" if solution else subject.no_lock if subject.lock is None else _other_platforms(subject)
    return judged("packages", f"{' and '.join(counts)}; {told}", findings)


def _foreign(subject: Subject) -> Iterator[Finding]:
    """An environment that was made from the packages of another platform, which conda does without a word."""
    prefix, facts = subject.prefix, subject.facts
    if prefix.platform in (None, facts.platform):
        return
    made = prefix.anew or f"cuenv install --prefix {shlex.quote(f'{prefix.path}.new')}"
    steps = [] if subject.solution else [f"cuenv lock --platform {prefix.platform} --platform {facts.platform}"]
    yield Finding(
        code="CU106",
        severity="error",
        subject="platform",
        message=f"the environment holds packages for {prefix.platform}, {facts.label} is {facts.platform}: none "
        "of them runs there",
        fix=" && ".join([*steps, made]),
    )


def _other_platforms(subject: Subject) -> str:
    locked = ", ".join(one.platform for one in subject.lock.solutions) if subject.lock else ""
    return f"not compared: the lock is for {locked}"


def _against(subject: Subject, solution: Solution) -> Iterator[Finding]:
    prefix = subject.prefix
    if prefix.kind == "conda":
        yield from installed_findings(prefix.conda, solution, prefix)
    elif solution.packages:
        yield Finding(
            code="CU201",
            severity="error",
            subject="conda",
            message=f"the lock holds {len(solution.packages)} conda packages, and this is no conda environment",
            fix="name the environment that was made from the lock: cuenv check --prefix DIR",
        )
    yield from pip_findings(prefix, solution)


def _cuda_build(finding: Finding, subject: Subject) -> str | None:
    """What puts the CUDA build in the place of conda's CPU build: that of the lock, else the same release."""
    prefix, name = subject.prefix, finding.subject
    locked = subject.solution.package(name) if subject.solution else None
    mine = prefix.package(name)
    twin = subject.knowledge.twin(name, mine.channel_name) if mine else None
    if locked and mine and locked.build != mine.build:
        return put_back(locked, prefix)
    return conda_exactly(prefix, f"{name}={mine.version}={twin.any_cuda}") if mine and twin else finding.fix


def _cuda_torch(release: str, subject: Subject) -> str:
    """What brings a CUDA torch from pip that the host's driver and GPUs run."""
    from cuenv.prefix.io.torch_wheels import torch_wheels  # noqa: PLC0415 - a table that only a finding needs

    wheel = wheel_for(number_of(release), subject.facts, torch_wheels(), subject.knowledge)
    if wheel is None:
        return pip_command(subject.prefix, "install", "--force-reinstall", f"torch=={release}")
    index = ("--index-url", f"{INDEX}{wheel.tag}")
    return pip_command(subject.prefix, "install", "--force-reinstall", *index, f"torch=={wheel.torch}+{wheel.tag}")


def _twins(subject: Subject) -> Iterator[Finding]:
    """The CPU build where a CUDA build is wanted: conda's by their build strings, torch of pip by its own file."""
    from cuenv.prefix.io.distributions import find_torch_here  # noqa: PLC0415 - as above

    prefix = subject.prefix
    cuda = cuda_components(prefix.conda, subject.knowledge)
    twins = [twin for law in (cpu_twins, cpu_builds) for twin in law(prefix.conda, subject.knowledge)] if cuda else []
    conda = [replace(item, fix=_cuda_build(item, subject)) for item in twins]
    yield from conda
    torch = find_torch_here(prefix)
    if torch is None or any(item.subject == "pytorch" for item in conda):
        return
    wheels = [wheel.name for wheel in prefix.wheels if wheel.name.startswith("nvidia-")]
    locked = subject.solution.package("pytorch") if subject.solution else None
    if locked and "cuda" in locked.build:
        wanted = f"the lock says {locked.version} {locked.build}"
    elif cuda or wheels:
        wanted = f"CUDA is there beside it ({', '.join(sorted({*wheels, *(item.name for item in cuda)})[:3])})"
    else:
        wanted = "the host has a GPU" if subject.facts.gpus and not locked else ""
    release = torch.version.partition("+")[0]
    fix = _cuda_torch(release, subject)
    if locked:
        out = [pip_command(prefix, "uninstall", "-y", "torch")] if subject.cuda_files.by_pip else []
        fix = " && ".join([*out, put_back(locked, prefix)])
    yield from cpu_torch(torch.version, torch.cuda, wanted=wanted, grave=bool(locked or cuda or wheels), fix=fix)
