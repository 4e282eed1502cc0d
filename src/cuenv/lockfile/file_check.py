"""An environment file before anything is solved: conda's torch is judged by its builds, pip's by its wheels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from packaging.version import Version

from cuenv.core.findings import FileEdit, Finding
from cuenv.core.record import replace
from cuenv.core.regex import regex
from cuenv.core.urls import short_channel
from cuenv.core.versions import VersionSpec, parse_version_spec, version
from cuenv.host.facts import HostFacts
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import PLATFORMS, STACKS, WHEELS, TorchBuild
from cuenv.lockfile.host_check import (
    RUNTIMES,
    as_findings,
    build_name,
    build_not_in_tables,
    resolve_again,
    without_consequences,
)
from cuenv.lockfile.programs import (
    CUDA_PROGRAMS,
    CUDNN_USERS,
    as_cpu_warning,
    cpu_build_findings,
    newer_cuda,
    programs_asked,
)
from cuenv.resolver.asked_cuda import (
    NVCC_PACKAGES,
    asks_for_cpu,
    cuda_home,
    cuda_pins,
    nvcc_asked,
    of_nvidia,
    oldest_cuda,
    release_of_pin,
    toolkit_asked,
    torch_channel,
    version_spec_of,
    wants_cuda,
)
from cuenv.resolver.asked_torch import (
    CONDA_TORCHES,
    AskedTorch,
    library_requiring_torch,
    on_linux,
    torch_asked,
    wheels_asked,
)
from cuenv.resolver.candidates import Candidate, admits, bare_candidate, candidates, no_row
from cuenv.resolver.decision import Decision, decide
from cuenv.resolver.policy import judgeable_libraries
from cuenv.resolver.ranking import Assessment
from cuenv.resolver.requirements import OF_TORCH, pip_demand
from cuenv.resolver.rules import RULES, Context, Judge, Verdict, rule_named, verdict_of
from cuenv.resolver.rules.device import THIS_BUILD
from cuenv.resolver.torch_findings import (
    asked_torch_not_in_tables,
    python_findings,
    torch_not_in_tables,
    torch_not_named,
    wheels_with_other_tags,
    with_companions,
)
from cuenv.resolver.verdict import for_host, with_sources
from cuenv.solve.environment_spec import NVCC, EnvironmentSpec, Pin, requirement_name
from cuenv.solve.model import build_cuda

_MAJOR_IN_NAME = regex(
    r"\s*[A-Za-z0-9._-]+?(?:-cu(?:da)?(?P<name>1\d)x?\s*(?:[\[=<>!~@,]|\Z)|\s*\[[^\]]*\bcuda(?P<extra>1\d)(?:_\w+)?\b"
    r"|\s*==[0-9.]+\+cuda(?P<local>1\d))"
)
"""A wheel that bears the CUDA major that it is made for."""


def judge_file(
    spec: EnvironmentSpec, facts: HostFacts, knowledge: Knowledge, *, alone: bool = False
) -> tuple[Finding, ...]:
    """Judge an environment file by the tables: whether a torch that it admits, of conda or of pip, runs on the host.

    Args:
        alone: nothing is solved afterwards, so that what pip takes, and what nobody can judge, is said as well.
    """
    spec = _with_torch(spec)
    found = [*judge_spec(spec, facts, knowledge), *_judge_pip_torch(spec, facts, knowledge, alone=alone)]
    mends = {item.fix for item in found if item.code == "CU403"}
    found = [item for item in found if item.code != "CU405" or item.fix not in mends]  # another torch mends both
    told = any(item.severity == "error" for item in found)
    listed = torch_in_tables(spec) and not any(item.code == "CU111" for item in found)
    found += () if told else _judge_cuda(spec, facts, knowledge, listed=listed)
    if alone and facts.gpus and not any(item.severity == "error" or item.unknown for item in found):
        torch = spec.pin("pytorch")
        if torch and not torch_in_tables(spec) and not asks_for_cpu(spec):
            what = f"{torch.yaml_text()} of the channel {torch_channel(spec) or 'defaults'}"
            found.append(torch_not_in_tables(what, "pytorch"))
        found += _unlisted_program_findings(spec, facts, knowledge)
    if alone:
        found = [*(with_companions(item, spec.pip, knowledge) for item in found), *_too_old(spec, facts, knowledge)]
    return (*_cpu_asked_findings(spec, facts), *found)


def names_nothing(spec: EnvironmentSpec, knowledge: Knowledge) -> bool:
    """Whether a pip part names no torch and no program of which `judge_file` could say anything."""
    torch = torch_asked(spec.pip) or library_requiring_torch(spec.pip, knowledge)
    return not (torch or _cuda_of_wheels(spec)[1] or programs_asked(spec.pip, knowledge))


def _too_old(spec: EnvironmentSpec, facts: HostFacts, knowledge: Knowledge) -> Iterator[Finding]:
    """Libraries of pip of which no release that the file admits runs on a GPU of the host, beside any torch."""
    from cuenv.resolver.rules.extensions import gpu_too_old  # noqa: PLC0415 - only for files that nobody resolves

    for text in spec.pip if facts.gpus else ():
        demand = pip_demand(text) if on_linux(text) else None
        found = gpu_too_old(demand, facts.capabilities, knowledge) if demand else None
        if demand and found:
            candidate = bare_candidate(knowledge.cudas[-1].version, facts.platform)
            context = Context(facts=facts, request=Request(dev=True, pip=(demand.text,)), knowledge=knowledge)
            named = as_findings(for_host(found, facts), candidate, context)
            yield from (replace(item, subject=demand.name) for item in named)


def _unlisted_program_findings(spec: EnvironmentSpec, facts: HostFacts, knowledge: Knowledge) -> Iterator[Finding]:
    """Programs for GPUs of which no row says for which they hold code, and CPU builds of them."""
    yield from cpu_build_findings(spec.pip, facts, knowledge)
    of_cpu = [text for text, row in programs_asked(spec.pip, knowledge) if row.cuda is None]
    names = [pin.name for pin in spec.pins if pin.name in CUDA_PROGRAMS and "cpu" not in pin.build]
    lines = {text: requirement_name(text) for text in spec.pip if not text.startswith("-") and text not in of_cpu}
    known = (*CUDA_PROGRAMS, *(name for name in lines.values() if name.startswith("cupy-cuda")))
    theirs = {text for text, name in lines.items() if _MAJOR_IN_NAME.match(text) and not name.startswith("nvidia-")}
    names += [name for text, name in lines.items() if name in known or text in theirs]
    if names and not asks_for_cpu(spec):
        message = f"the cuenv tables do not list the GPU code of {', '.join(dict.fromkeys(names))}"
        yield Finding(code="CU403", severity="info", subject=names[0], message=message, unknown=True)


def _with_torch(spec: EnvironmentSpec) -> EnvironmentSpec:
    """A file that names what requires conda's torch, and not torch itself: it gets one all the same."""
    gpu, brings = spec.pin("pytorch-gpu"), ("pytorch-gpu", "pytorch-cuda", "torchvision", "torchaudio")
    named = spec.pin("pytorch") or spec.pin("pytorch-cpu")
    if named or not any(map(spec.pin, brings)) or (torch_asked(spec.pip) and not gpu):
        return spec
    return replace(spec, pins=(*spec.pins, replace(gpu, name="pytorch", build="") if gpu else Pin(name="pytorch")))


def _cpu_asked_findings(spec: EnvironmentSpec, facts: HostFacts) -> Iterator[Finding]:
    """A file that asks for a CPU build of torch, for a host with GPUs; of what cuenv wrote, somebody asked for that."""
    if not asks_for_cpu(spec) or not facts.gpus:
        return
    torch = spec.pin("pytorch")
    if torch and spec.pin("cpuonly") and "cpu" not in torch.build and torch_channel(spec) == "conda-forge":
        cpu_build = replace(torch, version=torch.condition().removeprefix("=="), build="cpu*").exact_text()
        yield Finding(
            code="CU103",
            severity="warning",
            subject="pytorch",
            message="cpuonly of the channel pytorch selects only among builds of that channel, but conda-forge comes "
            "first here and may provide a CUDA build of pytorch",
            edits=(FileEdit(how="write", entries=(cpu_build,)),),
        )
    elif any(map(spec.pin, CONDA_TORCHES)) or not spec.of_cpu:
        message = f"the file requests a CPU build of PyTorch, which does not use the GPUs of {facts.label}"
        yield Finding(code="CU103", severity="info" if spec.ours else "warning", subject="pytorch", message=message)


def _judge_cuda(spec: EnvironmentSpec, facts: HostFacts, knowledge: Knowledge, *, listed: bool) -> Iterator[Finding]:
    """The CUDA release of a file, of whose programs nothing is known: driver, cuDNN and nvcc, before a solver runs.

    Args:
        listed: whether the tables have the torch that it asks for.
    """
    exact = toolkit_asked(spec)
    if torch_asked(spec.pip) or asks_for_cpu(spec):
        return
    wheels, wheel = _cuda_of_wheels(spec)
    cuda = exact or oldest_cuda(spec) or wheels
    if cuda is None:
        yield from _judge_programs(spec, facts, knowledge)
        return
    nvcc, cudnn = nvcc_asked(spec), version_spec_of(spec.pin("cudnn") or spec.pin("libcudnn")) if exact else None
    release = version(cudnn.text) if cudnn and cudnn.prefix else None
    candidate = replace(bare_candidate(cuda, facts.platform), cudnn=release, compiler=nvcc[0].release if nvcc else None)
    context = Context(facts=facts, request=Request(dev=bool(nvcc)), knowledge=knowledge)
    # A torch without rows calls cuDNN as every torch does.
    users = CUDNN_USERS if listed else {*CUDNN_USERS, *CONDA_TORCHES}
    calls_cudnn = release or (exact and users.intersection(_package_names(spec)))
    names = ("driver-gpu", "driver-floor", "nvcc", *(("cudnn",) if calls_cudnn else ()))
    verdicts = [verdict_of(name, candidate, context) for name in names]
    rejects = [verdict for verdict in verdicts if verdict.outcome == "reject"]
    unknown = [verdict for verdict in verdicts if verdict.outcome == "unknown" and verdict.rule == "cudnn"]
    for verdict in rejects or unknown:
        found = [*as_findings(verdict, candidate, context)]
        brings = "" if exact or oldest_cuda(spec) else wheel  # what the file names in place of the CUDA or cuDNN
        if exact and not release and verdict.rule == "cudnn":
            brings = next(pin.yaml_text() for pin in cuda_pins(spec) if release_of_pin(pin))
        if brings:
            found = [replace(item, message=f"{brings}: {item.message}", about=(brings, *item.about)) for item in found]
        if not (verdict.remedy or any(map(spec.pin, CONDA_TORCHES))):  # another torch is no help for a program
            better = newer_cuda(_package_names(spec), facts, knowledge)
            found = [replace(item, fix=better, edits=()) for item in found]
        yield from found


def _judge_programs(spec: EnvironmentSpec, facts: HostFacts, knowledge: Knowledge) -> Iterator[Finding]:
    """Wheels that load a CUDA release that the file does not name: the driver must run it, its cuDNN each GPU."""
    for text, row in programs_asked(spec.pip, knowledge) if not any(map(spec.pin, CONDA_TORCHES)) else ():
        if row.cuda is None:
            continue
        candidate = replace(bare_candidate(row.cuda, facts.platform), cudnn=row.cudnn)
        context = Context(facts=facts, request=Request(dev=False), knowledge=knowledge)
        names = ("driver-gpu", "driver-floor", *(("cudnn",) if row.cudnn else ()))
        rejects = [one for name in names if (one := verdict_of(name, candidate, context)).outcome == "reject"]
        for item in (item for verdict in rejects for item in as_findings(verdict, candidate, context)):
            told = as_cpu_warning(text, row, item)
            if told == item:
                message = f"{text} loads CUDA {row.cuda}: {item.message}"
                told = replace(item, message=message, edits=(), about=(text,))
            yield (
                told
                if item.subject != "cudnn"
                else replace(told, fix=newer_cuda(_package_names(spec), facts, knowledge))
            )


def _package_names(spec: EnvironmentSpec) -> Iterator[str]:
    yield from (pin.name for pin in spec.pins)
    yield from (requirement_name(text) for text in spec.pip)


def _cuda_of_wheels(spec: EnvironmentSpec) -> tuple[Version | None, str]:
    """The oldest release of the CUDA major that wheels bear, ``jax[cuda12]``, ``cupy-cuda12x``, and who bears it."""
    lines = [(line, _MAJOR_IN_NAME.match(line.partition(";")[0])) for line in spec.pip if not line.startswith("-")]
    majors = [(int(item["name"] or item["extra"] or item["local"]), line) for line, item in lines if item]
    last, wheel = max(majors, key=lambda pair: pair[0], default=(0, ""))
    return version(f"{last}.0") if wheel else None, wheel


def _judge_pip_torch(
    spec: EnvironmentSpec, facts: HostFacts, knowledge: Knowledge, *, alone: bool
) -> Iterator[Finding]:
    """Errors where none of the wheels of torch that a pip part admits runs on the host; the nearest says why.

    Where one runs and pip takes another, that is a warning for a file that is judged alone.
    """
    if any(map(spec.pin, CONDA_TORCHES)):
        return
    asked = torch_asked(spec.pip)
    library = (
        library_requiring_torch(spec.pip, knowledge) if asked is None and alone else None
    )  # a lock judges what it solves
    if library and library[1]:
        asked = torch_asked((*spec.pip, f"torch=={library[1]}"))
        told = f"{library[0]} requires torch {library[1]}"
        for item in _judge_wheels(asked, spec, facts, knowledge, alone=alone) if asked else ():
            whole = replace(item, message=f"{told}: {item.message}", about=(library[0], *item.about))
            # A library with CUDA code of its own is made for one CUDA, whatever the torch beside it is.
            yield whole if requirement_name(library[0]) in OF_TORCH else replace(whole, fix=None, edits=())
    elif library and facts.gpus:
        yield torch_not_named(library[0], "the file does not name", "name torch, with its release")
    elif asked:
        yield from _judge_wheels(asked, spec, facts, knowledge, alone=alone)
    elif alone and facts.gpus and (built := asked_torch_not_in_tables(spec, knowledge)):  # somebody's own build
        yield built


def _judge_wheels(
    asked: AskedTorch, spec: EnvironmentSpec, facts: HostFacts, knowledge: Knowledge, *, alone: bool
) -> Iterator[Finding]:
    """Findings on the wheels of torch that a pip part admits, of which none exists, uses a GPU or runs on the host."""
    if asked.of_cpu:
        if facts.gpus and not asks_for_cpu(spec):
            index = "" if asked.tag else f" of the index {asked.tags[0]}"
            yield Finding(
                code="CU103",
                severity="info" if spec.ours else "warning",
                subject="torch",
                message=f"the file asks {'' if spec.project else 'pip '}for {asked.text}{index}, which is "
                f"not a CUDA build and does not use the GPUs of {facts.label}",
                about=(asked.text,),
            )
        return
    python = version_spec_of(spec.pin("python"))
    meant = wheels_asked(asked, facts.platform, python, knowledge, spec.pip)
    if not meant:
        wheels = [row for row in knowledge.wheels if row.platform == facts.platform]
        if not wheels_with_other_tags(asked, wheels):  # that is said of the file, on any host
            yield from _no_wheel_findings(asked, python, facts, knowledge)
        return
    judged, context = _rejections(meant, facts, knowledge)
    nearest, objections = min(
        reversed(judged), key=lambda pair: (bool(pair[1]), asked.rank(pair[0].build), len(pair[1]))
    )
    oldest = min((one.libc.version for one in facts.machines if one.libc), default=None)
    loads = [pair for pair in judged if not (oldest and pair[0].build.glibc and pair[0].build.glibc > oldest)]
    newest = max(loads, key=lambda pair: pair[0].build.version, default=None)  # pip takes no wheel for a later glibc
    if alone and objections and newest and not asked.exact:
        nearest, objections = newest  # none runs, and of those pip takes the newest
    yield from without_consequences(
        (item for verdict in objections for item in as_findings(verdict, nearest, context)), facts
    )
    if alone and newest and not (objections or asked.elsewhere):
        taken, why = newest
        for verdict in why[:1]:
            name = f"torch {taken.build.version} ({taken.build.build})"
            takes = "uv and pip take" if spec.project else "pip takes"
            for item in as_findings(verdict, taken, context, named=False):
                message = f"{takes} {name} for {asked.text} today: {item.message}"
                yield replace(item, severity="warning", message=message, about=(asked.text,))


def _rejections(
    wheels: Iterable[Candidate], facts: HostFacts, knowledge: Knowledge
) -> tuple[list[tuple[Candidate, list[Verdict]]], Context]:
    """Wheels of torch, each with what rejects it on the host."""
    context = Context(facts=facts, request=Request(dev=False), knowledge=knowledge)
    judge = Judge(context, (one for one in RULES if one.locked))
    of = tuple(wheels)
    objections = ([one for one in each if one.outcome == "reject"] for each in judge.verdicts_of_all(of))
    return list(zip(of, objections, strict=True)), context


def runnable_torch(
    spec: EnvironmentSpec, facts: HostFacts, python: str, knowledge: Knowledge
) -> tuple[Version, Version, Finding | None] | None:
    """The first and the last release of torch that run on the host, of a file that leaves the release open to pip.

    All between them run as well. With them goes what is said where pip would take a newer one. ``None`` where the file
    names its release, and where none of those that it admits runs.
    """
    asked = torch_asked((*spec.pip, "torch")) if not any(map(spec.pin, CONDA_TORCHES)) else None
    if asked is None or asked.exact or asked.tag or asked.of_cpu:
        return None
    there = asked._replace(anywhere=False)  # what another index has nobody knows
    wheels = wheels_asked(there, facts.platform, parse_version_spec(python, what="python"), knowledge, spec.pip)
    judged, context = _rejections(wheels, facts, knowledge)
    able = {item.build.version for item, objections in judged if not objections}
    if not able:
        return None
    last = max(able)
    above = max(
        (item.build.version for item, _ in judged if item.build.version < last and item.build.version not in able),
        default=None,
    )
    first = min(one for one in able if above is None or one > above)
    newest, objections = max(judged, key=lambda pair: pair[0].build.version)
    if newest.build.version == last:
        return first, last, None
    why = next((item.message for verdict in objections for item in as_findings(verdict, newest, context)), "")
    told = f"the file leaves torch open, and {last} is the newest that runs on the host: {why}"
    return first, last, Finding(code="CU520", severity="info", subject="torch", message=told)


def _no_wheel_findings(
    asked: AskedTorch, python: VersionSpec | None, facts: HostFacts, knowledge: Knowledge
) -> Iterator[Finding]:
    """Why no wheel is as the pip part asks for it: the Python, or a release that the tables do not have."""
    found = tuple(python_findings(asked, python, facts.platform, knowledge))
    if found:
        yield from found if facts.platform != PLATFORMS[0] else ()  # else it is said of the file, on any host
    elif asked.exact and not any(
        asked.tag in ("", row.build) for row in knowledge.wheels_of(asked.exact, facts.platform)
    ):
        strange = no_row(WHEELS, asked.exact, None, asked.tag, facts.platform)
        yield build_not_in_tables(Candidate(build=strange, cuda=None, python="3"))
    elif not asked.exact:
        yield torch_not_in_tables(asked.text, "torch")


def request_of(spec: EnvironmentSpec, knowledge: Knowledge) -> Request:
    """What an environment file asks for, in the words of a profile, as far as the tables can judge it."""
    torch = spec.pin("pytorch") or spec.pin("pytorch-gpu")
    cuda = next((pin for pin in cuda_pins(spec) if pin.name in RUNTIMES), None)
    python = spec.pin("python")
    compilers = [spec.pin(name) for name in NVCC]
    stack = _stack(spec, torch.channel if torch else "")
    # A compiler of another channel is judged by the one-channel check, and does not ask this stack to fill the role.
    nvcc = any(pin and (stack != "conda-forge" or not pin.channel.startswith("nvidia")) for pin in compilers)
    own = build_cuda(torch.build) if torch else None
    toolkit = version_spec_of(cuda)
    packages, pip = judgeable_libraries(spec, knowledge, nvcc=nvcc)
    return Request(
        stack=stack,
        pytorch=version_spec_of(torch),
        cuda=toolkit or (parse_version_spec(f">={own},<{own.major + 1}", what="version") if own else None),
        python=version_spec_of(python),
        dev=nvcc,
        packages=packages,
        pip=pip,
        cpu=torch is not None and not wants_cuda(spec, knowledge),
    )


_FIRST_NVCC = 12  # the first CUDA major of which conda-forge has an nvcc; an earlier one comes from a channel of NVIDIA


def _nvcc_is_nvidias(spec: EnvironmentSpec) -> bool:
    """Whether the nvcc of a file comes from a channel of NVIDIA: by its release, or as the first that is listed."""
    asked = nvcc_asked(spec)
    if not asked:
        named = next((pin for name in NVCC_PACKAGES if (pin := spec.pin(name))), None)
        return named is not None and cuda_home(named, spec).startswith("nvidia")
    older = any(item.release.major < _FIRST_NVCC for item in asked)
    return older and any(map(of_nvidia, spec.channels))


def _stack(spec: EnvironmentSpec, channel: str) -> str | None:
    """The stack of the torch that a file asks for; ``None`` where its channels leave that open."""
    channels = [short_channel(item) for item in spec.channels]
    if channel in STACKS:
        return channel
    if spec.pin("pytorch-cuda") or "pytorch" in channels[:1]:
        return "pytorch"
    return "conda-forge" if "pytorch" not in channels else None


def judge_spec(spec: EnvironmentSpec, facts: HostFacts, knowledge: Knowledge) -> tuple[Finding, ...]:
    """Judge an environment file by the tables: whether anything that it admits can exist and run on the host."""
    request = request_of(spec, knowledge)
    if (
        (request.cpu and not facts.gpus)
        or asks_for_cpu(spec)
        or facts.platform not in PLATFORMS
        or not torch_in_tables(spec)
    ):
        return ()
    open_ = request.cpu  # it names no CUDA; the CPU build that it admits as well does not use the GPUs of the host
    request = replace(request, cpu=False)
    context = Context(facts=facts, request=request, knowledge=knowledge)
    pool = candidates(knowledge, facts.platform, request.python)
    wishes = Judge(context, (rule_named("wish"),)).verdicts_of_all(pool)
    meant = [item for item, (wish,) in zip(pool, wishes, strict=True) if item.cuda and wish.outcome == "pass"]
    if not meant:
        none = _no_build_finding(request, facts, knowledge)
        return () if open_ and not none.unknown else (none,)
    nvcc = nvcc_asked(spec)
    meant = [replace(item, compiler=nvcc[0].release) for item in meant] if nvcc else meant
    judge = Judge(context)
    if any(all(verdict.outcome != "reject" for verdict in judge.verdicts(item)) for item in reversed(meant)):
        return ()  # of most files the newest that is meant runs there
    return tuple(_unsatisfiable(decide(context, meant), knowledge, nvcc_elsewhere=_nvcc_is_nvidias(spec)))


def torch_in_tables(spec: EnvironmentSpec) -> bool:
    """Whether the tables know the channel that torch comes from."""
    return spec.pin("pytorch") is not None and torch_channel(spec) in STACKS


def _unsatisfiable(decision: Decision, knowledge: Knowledge, *, nvcc_elsewhere: bool) -> Iterable[Finding]:
    """Nothing that the file admits runs on the host: the newest candidate with the fewest objections says why.

    Args:
        nvcc_elsewhere: the nvcc of the file comes from a channel of NVIDIA, whatever conda-forge has.
    """
    nearest = max(decision.assessments, key=_nearness)
    name = build_name(nearest.candidate)
    for verdict in nearest.objections:
        if verdict.rule == "roles" and nvcc_elsewhere:
            continue
        judged = tuple(as_findings(verdict, nearest.candidate, decision.context))
        if verdict.rule == "cudnn":  # the file names torch alone
            judged = tuple(replace(item, message=f"{name}: {item.message}") for item in judged)
        evidence = tuple(with_sources(reason, knowledge) for reason in verdict.reasons)
        code = rule_named(verdict.rule).code
        yield from judged or [
            Finding(
                code=code,
                severity="error",
                subject=verdict.rule,
                message=verdict.because.replace(THIS_BUILD, name, 1),
                evidence=evidence,
            )
        ]


def _nearness(item: Assessment) -> tuple[int, Version, Version]:
    """A solver takes the newest of several that nothing else tells apart."""
    build = item.candidate.build
    return -len(item.objections), build.version, item.candidate.cuda or _NO_RELEASE


def _no_build_finding(request: Request, facts: HostFacts, knowledge: Knowledge) -> Finding:
    """No build is as the file wants it: an error where the tables know the release, else only how far they reach."""
    asked = {"pytorch": request.pytorch, "CUDA": request.cuda, "python": request.python, "stack": request.stack}
    text = ", ".join(f"{name} {value}" for name, value in asked.items() if value)
    every = [row for row in knowledge.torch if row.platform == facts.platform and row.cuda]
    rows = [row for row in every if request.stack in (None, row.stack)]
    first = min((row.version for row in rows), default=_NO_RELEASE)
    releases = [row.version for row in every if row.version >= first]
    unknown = ""
    if request.pytorch and rows and not any(map(request.pytorch.admits, releases)):
        unknown = f"; the tables cover pytorch {first} to {max(row.version for row in rows)}"
    toolkits = [row.version for row in knowledge.cudas if row.conda]
    own = [row.cuda for row in rows if row.cuda] if request.stack == "pytorch" else toolkits
    pythons = [version(text) for row in knowledge.torch for text in row.pythons]
    for name, asks, have, seen in (("CUDA", request.cuda, own, toolkits), ("python", request.python, pythons, pythons)):
        if unknown or not asks or not have or _admits_any(asks, map(str, have)):
            continue
        if not _admits_any(asks, map(str, seen)) and _admits_any(asks, _after(max(seen))):
            unknown = f"; the tables end at {name} {max(seen)}"
        elif rows and _admits_older(request.pytorch, first) and _admits_any(asks, _before(min(have))):
            unknown = f"; the tables begin at pytorch {first} and {name} {min(have)}"
    others = "" if unknown else _built_for(request, rows)
    return Finding(
        code="CU111" if unknown else "CU110",
        severity="warning" if unknown else "error",
        subject="pytorch",
        message=f"the cuenv tables list no build with {text} for {facts.platform}{unknown or others}",
        fix=None if unknown else resolve_again(facts, Context(facts=facts, request=request, knowledge=knowledge)),
        unknown=bool(unknown),
    )


def _built_for(request: Request, rows: Iterable[TorchBuild]) -> str:
    """The CUDA releases and Pythons of the builds of the torch that is asked for, where they are few."""
    mine = [row for row in rows if request.pytorch and request.pytorch.admits(row.version)]
    releases = sorted({row.version for row in mine})
    if len(releases) != 1:
        return ""
    cudas = ", ".join(map(str, sorted({row.cuda for row in mine if row.cuda})))
    pythons = ", ".join(map(str, sorted({version(text) for row in mine for text in row.pythons})))
    return f"; pytorch {releases[0]} has builds for CUDA {cudas} and Python {pythons}"


_NO_RELEASE = version("0")


def _admits_any(request: VersionSpec, minors: Iterable[str]) -> bool:
    return any(admits(request, minor) for minor in minors)


def _after(last: Version) -> list[str]:
    """Minors that may come after one."""
    own = [f"{last.major}.{last.minor + step}" for step in range(1, 10)]
    return own + [f"{last.major + 1}.{minor}" for minor in range(10)]


def _before(first: Version) -> list[str]:
    """Minors that were before one."""
    own = [f"{first.major}.{minor}" for minor in range(first.minor)]
    return own + [f"{major}.{minor}" for major in range(first.major) for minor in range(10)]


def _admits_older(request: VersionSpec | None, first: Version) -> bool:
    """Whether the version spec of torch admits a release before the first that the tables know."""
    return request is None or any(
        request.admits(version(f"{text}.{patch}")) for text in _before(first) for patch in range(4)
    )
