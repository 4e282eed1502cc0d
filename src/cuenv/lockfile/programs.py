"""Programs for GPUs other than torch, such as TensorFlow, JAX and CuPy: the CUDA that they load, and what nobody knows.

A wheel of TensorFlow holds no part of CUDA: it loads the libraries of one release by their names when it starts, those
of the environment or of the host, and uses no GPU where it finds none. The tables say of which release.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from packaging.version import Version

from cuenv.core.findings import FileEdit, Finding, first_of
from cuenv.core.record import replace
from cuenv.core.versions import version_or_none
from cuenv.host.facts import HostFacts
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import Program
from cuenv.resolver.candidates import bare_candidate
from cuenv.resolver.requirements import pip_demand
from cuenv.resolver.rules import Context, Verdict, verdict_of
from cuenv.resolver.rules.libraries import program_verdict, younger
from cuenv.resolver.verdict import for_host, of_capability
from cuenv.resolver.wheels import gpu_programs
from cuenv.solve.environment_spec import NUMBERS, requirement_name
from cuenv.solve.model import LockedPackage, PipLocked, Solution, names_cuda

CUDNN_USERS = frozenset(("jaxlib", "keras", "keras-gpu", "mxnet", "paddlepaddle-gpu", "tensorflow", "tensorflow-gpu"))
"""Programs that call cuDNN, so that the cuDNN releases for a CUDA release bound their GPUs."""
CUDA_PROGRAMS = CUDNN_USERS - {"keras"} | {"cudf", "cugraph", "cuml", "cupy", "rapids"}
"""Programs for GPUs other than torch."""
_LOADERS = ("tensorflow", "tensorflow-gpu", "onnxruntime-gpu", "paddlepaddle-gpu")
"""Programs of pip that load the shared libraries of CUDA when they start."""
_AND_CUDA = "use tensorflow[and-cuda] from 2.14 on: this extra installs its own CUDA"
_SHOWN = 3


def programs_of(packages: Iterable[PipLocked], knowledge: Knowledge) -> list[tuple[PipLocked, Program]]:
    """The wheels among pip packages of which the tables know which CUDA they load, or that they are CPU builds."""
    pairs = ((item, version_or_none(item.version)) for item in packages if item.name in _LOADERS and not item.direct)
    found = ((item, knowledge.program(item.name, release)) for item, release in pairs if release)
    return [(item, row) for item, row in found if row]


def programs_asked(lines: Iterable[str], knowledge: Knowledge) -> list[tuple[str, Program]]:
    """As `programs_of`, of the lines of a pip part that name one release, or one minor."""
    found: list[tuple[str, Program]] = []
    for text in lines:
        demand = pip_demand(text) if requirement_name(text) in _LOADERS else None
        exact = demand.condition.removeprefix("==").removesuffix(".*") if demand else ""
        release = version_or_none(exact) if demand and demand.condition.startswith("==") else None
        row = knowledge.program(demand.name, release) if demand and release else None
        found += [(text.strip(), row)] if row else []
    return found


def newer_cuda(names: Iterable[str], facts: HostFacts, knowledge: Knowledge) -> str | None:
    """What a file without torch needs: the first CUDA release for each GPU, and the program that is made for it."""
    rows = map(knowledge.compute_capability, facts.capabilities)
    first = max((row.first_cuda for row in rows if row and row.first_cuda), default=None)
    users = [name.removesuffix("-gpu") for name in names if name in CUDNN_USERS]
    program = next((name for name in users if name != "keras"), "".join(users[:1]))
    if first is None:
        return None
    wheels = (row for row in knowledge.programs if row.package == program and row.cuda and row.cuda >= first)
    since = next((f" (of its wheels {row.first} or later)" for row in wheels), "")
    made = f", and the release of {program} that is made for it{since}" if program else ""
    return f"use CUDA {first} or later{made}"


def loader_findings(
    solution: Solution, beside: Version | None, facts: HostFacts, knowledge: Knowledge
) -> Iterator[Finding]:
    """Wheels that load the libraries of a CUDA release that is not there, and CPU builds.

    Args:
        beside: the CUDA release of the environment; ``None`` without any part of CUDA.
    """
    if not facts.gpus or not solution.platform.startswith("linux"):
        return
    for item, row in programs_of(solution.pip, knowledge):
        yield from _program_findings(f"{item.name} {item.version}", row, beside, facts, knowledge)


def _program_findings(
    name: str, row: Program, beside: Version | None, facts: HostFacts, knowledge: Knowledge
) -> Iterator[Finding]:
    """The verdict on one wheel as a finding, where it does not pass."""
    verdict = for_host(program_verdict(row, beside), facts)
    if verdict.outcome == "pass":
        return
    edits = _toolkit_edits(row, knowledge) if verdict.outcome == "unknown" else ()
    fix: str | None
    if row.cuda is None:
        own, asked = f"{row.package}-gpu", NUMBERS.search(name)
        of_gpu = knowledge.program(own, Version(asked[0])) if asked else None
        runs = of_gpu is None or _runs(of_gpu, facts, knowledge)
        take = f"take {name.replace(row.package, own, 1)}, the CUDA build"
        fix = take if runs else newer_cuda((row.package,), facts, knowledge)
    elif beside is None:
        fix = None if edits else _AND_CUDA
    else:
        made = f"the release of {row.package.removesuffix('-gpu')} that is made for CUDA {beside}"
        fix = f"take CUDA {row.cuda}, or {made}"
    yield Finding(
        code="CU403" if row.cuda else "CU103",
        severity="warning",
        subject=row.package,
        message=f"{'' if row.cuda else 'the wheel of '}{name} {verdict.because}",
        evidence=tuple(row.sources),
        fix=fix,
        edits=edits,
        unknown=row.cuda is not None,
        about=(name,),
    )


def _runs(row: Program, facts: HostFacts, knowledge: Knowledge) -> bool:
    """Whether the CUDA and the cuDNN that a program loads run on the host: its driver, and its GPUs."""
    if row.cuda is None:
        return True
    candidate = replace(bare_candidate(row.cuda, facts.platform), cudnn=row.cudnn)
    context = Context(facts=facts, request=Request(dev=False), knowledge=knowledge)
    names = ("driver-gpu", "driver-floor", *(("cudnn",) if row.cudnn else ()))
    return all(verdict_of(name, candidate, context).outcome != "reject" for name in names)


def as_cpu_warning(name: str, row: Program, item: Finding) -> Finding:
    """What rejects the CUDA that a program takes from the host; tensorflow, which asks for no GPU, starts without."""
    if row.package != "tensorflow" or "[" in name or item.severity != "error":
        return item
    because = f"there is no CUDA {row.cuda} beside it, which it loads, and that of a host does not help"
    message = f"{name} runs on the CPU: {because}: {item.message}"
    return replace(item, severity="warning", message=message, edits=(), about=(name,))


def cpu_build_findings(lines: Iterable[str], facts: HostFacts, knowledge: Knowledge) -> Iterator[Finding]:
    """The CPU builds among the wheels that a pip part names."""
    for text, row in programs_asked(lines, knowledge) if facts.gpus else ():
        if row.cuda is None:
            yield from _program_findings(text, row, None, facts, knowledge)


def _toolkit_edits(row: Program, knowledge: Knowledge) -> tuple[FileEdit, ...]:
    """The libraries that a wheel loads as conda packages; none where conda-forge has no such release."""
    ended = knowledge.discontinued("cudatoolkit")
    there = ended and any(text.startswith(f"{row.cuda}.") for text in ended.versions)
    if not there or not row.cudnn:
        return ()
    return (FileEdit(how="add", entries=(f"cudatoolkit={row.cuda}", f"cudnn>={row.cudnn},<{row.cudnn.major + 1}")),)


def findings_without_cuda(solution: Solution, facts: HostFacts, knowledge: Knowledge) -> Iterator[Finding]:
    """Programs for GPUs that come by pip without any part of CUDA: they load that of the host, or hold their own."""
    yield from loader_findings(solution, None, facts, knowledge)
    known = [item.name for item, _ in programs_of(solution.pip, knowledge)]
    found = gpu_programs(solution.pip) if facts.gpus and solution.platform.startswith("linux") else ()
    found = tuple(item for item in found if item.name not in known)
    loads = [item for item in found if item.name in _LOADERS]
    if loads:
        load, they = ("loads", "it starts") if len(loads) == 1 else ("load", "they start")
        use = "it uses" if len(loads) == 1 else "they use"
        message = (
            f"{_releases(loads)} {load} CUDA and cuDNN when {they}, and the lock has no CUDA: {use} the GPUs only "
            "where the host has these libraries installed, and the cuenv tables do not list which releases fit"
        )
        fix = _AND_CUDA if any(item.name.startswith("tensorflow") for item in loads) else None
        yield Finding(code="CU403", severity="warning", subject=loads[0].name, message=message, fix=fix, unknown=True)
    elif found:
        message = f"the cuenv tables list neither the CUDA release nor the GPU code of {_releases(found)}"
        yield Finding(code="CU403", severity="info", subject=found[0].name, message=message, unknown=True)


def _releases(packages: Sequence[PipLocked]) -> str:
    return first_of([f"{item.name} {item.version}" for item in packages], _SHOWN)


def program_findings(
    solution: Solution,
    facts: HostFacts,
    cuda: Version | None,
    knowledge: Knowledge,
    *,
    exact: bool,
    told_of: Collection[str] = (),
) -> Iterator[Finding]:
    """Programs for GPUs of which no row says for which they hold code.

    Args:
        cuda: that they are for; ``None`` beside a torch, whose release says nothing of theirs.
        exact: whether that is their release, or the oldest of its major.
        told_of: those of which it was said that they may use no GPU.
    """
    of_cpu = [item.name for item, row in programs_of(solution.pip, knowledge) if row.cuda is None]
    made = (package.name for package in solution.packages if _uses_cuda(package, knowledge))
    names = [name for name in made if cuda or name in CUDA_PROGRAMS]
    names += [item.name for item in gpu_programs(solution.pip) if item.name not in (*of_cpu, *told_of)]
    if not names or not facts.capabilities:
        return
    listed = first_of(names, _SHOWN)
    newer = [item for item in facts.capabilities if cuda and exact and younger(item, cuda, knowledge)]
    message = f"the cuenv tables do not list the GPU code of {listed}"
    if newer:
        verb = "is" if len(names) == 1 else "are"
        nothing = f"CUDA {cuda}, whose nvcc compiles no machine code for the newer {of_capability(*newer)}"
        because = f"{listed} {verb} for {nothing}: only what contains PTX can run there"
        message = for_host(Verdict(rule="device-code", outcome="unknown", because=because), facts).because
    yield Finding(
        code="CU403", severity="warning" if newer else "info", subject=names[0], message=message, unknown=True
    )


def _uses_cuda(package: LockedPackage, knowledge: Knowledge) -> bool:
    """Whether a package that is no part of CUDA is made for it."""
    if knowledge.is_component(package.name) or package.subdir == "noarch":
        return False
    needs = {text.split(" ")[0] for text in package.depends}
    return bool(names_cuda(package.build)) or bool(needs & {"cuda-version", "cudatoolkit", "cuda-cudart"})
