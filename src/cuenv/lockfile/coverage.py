"""Which GPUs each component of a lock supports, which component limits it, and the pins that could mend it.

A component is a library with device code, or the compiler. What it supports is read from the rows of its release, which
say what the file with the least device code serves, never the union over a package.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from packaging.version import Version

from cuenv.core.findings import ComponentSupport, How
from cuenv.core.record import replace
from cuenv.core.versions import Capability, Jit, Native, support_of
from cuenv.host.facts import HostFacts
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.lockfile.host_check import candidate_of
from cuenv.resolver.candidates import Candidate
from cuenv.resolver.rules import Context, Judge, Verdict, rule_named
from cuenv.resolver.rules.libraries import younger
from cuenv.resolver.verdict import with_sources
from cuenv.solve.environment_spec import NVCC, EnvironmentSpec, Pin, together
from cuenv.solve.model import LockedPackage, PipLocked, Solution

_COMPONENTS = {"device-code": "torch", "cudnn": "cuDNN", "nccl": "NCCL", "nvcc": "nvcc"}
_PACKAGES = {"device-code": ("pytorch",), "cudnn": ("libcudnn", "cudnn"), "nccl": ("nccl",), "nvcc": NVCC}
_WHEELS = {"device-code": "torch", "cudnn": r"nvidia-cudnn-cu\d\d", "nccl": r"nvidia-nccl-cu\d\d"}
"""What stands for a package where torch comes by pip."""
_DEVELOPING = Request(dev=True)
RANK: dict[How, int] = {"no": 0, "unknown": 1, "jit": 2, "native": 3}  # how a GPU is supported, the worst first


def coverage(solution: Solution, facts: HostFacts, knowledge: Knowledge) -> tuple[ComponentSupport, ...]:
    """How each component of a solved environment supports the GPUs of a host; empty without CUDA or without GPUs."""
    candidate = candidate_of(solution, knowledge)
    if candidate is None or candidate.cuda is None:
        return ()
    return tuple(_components(candidate, solution, facts, knowledge))


def _components(
    candidate: Candidate, solution: Solution, facts: HostFacts, knowledge: Knowledge
) -> Iterator[ComponentSupport]:
    """Each component with how it supports the GPUs of a host."""
    torch = solution.package("pytorch")
    rules = [rule for rule in _COMPONENTS if rule != "nvcc" or any(map(solution.package, NVCC))]
    of_gpus = [support_alone(rules, candidate, device, facts, knowledge) for device in facts.capabilities]
    for rule, *judged in zip(rules, *of_gpus, strict=True) if of_gpus else ():
        packages: list[LockedPackage | PipLocked] = []
        packages += [found for name in _PACKAGES[rule] if (found := solution.package(name))]
        if rule in _WHEELS:
            packages += [item for item in solution.pip if re.fullmatch(_WHEELS[rule], item.name)]
        inside = packages[0] if packages else next((item for item in solution.pip if item.name == "torch"), torch)
        worst = min(judged, key=lambda item: RANK[item[1]])[2]
        yield ComponentSupport(
            rule=rule,
            name=_COMPONENTS[rule],
            package=(f"{inside.name} {inside.version}" if packages else f"in {inside.name} {inside.version}")
            if inside
            else _COMPONENTS[rule],
            support=tuple((device, how) for device, how, _ in judged),
            because=worst.because,
            evidence=tuple(with_sources(reason, knowledge) for reason in worst.reasons),
        )


def support_alone(
    rules: Sequence[str],
    candidate: Candidate,
    device: Capability,
    facts: HostFacts,
    knowledge: Knowledge,
    *,
    request: Request = _DEVELOPING,
) -> list[tuple[Capability, How, Verdict]]:
    """What rules say of one GPU alone, each with whether and how the GPU is supported.

    Args:
        request: what is wanted; nothing but a compiler by default.
    """
    one = _with_gpus_of(facts, device)
    if len(one.gpus) < len(facts.gpus):
        one = replace(one, detected=False)  # it is not alone there, whatever stands beside it
    context = Context(facts=one, request=request, knowledge=knowledge)
    verdicts = Judge(context, map(rule_named, rules)).verdicts(candidate)
    return [(device, _support(candidate, device, verdict, knowledge), verdict) for verdict in verdicts]


def _support(candidate: Candidate, device: Capability, verdict: Verdict, knowledge: Knowledge) -> How:
    """How a verdict says that a GPU is supported."""
    if verdict.outcome == "reject":
        return "no"
    if verdict.outcome == "unknown":
        return "unknown"
    if verdict.rule == "device-code":
        return "jit" if candidate.build.code and isinstance(support_of(candidate.build.code, device), Jit) else "native"
    cuda = candidate.build.cuda if verdict.rule == "cudnn" else None
    return "jit" if cuda and younger(device, cuda, knowledge) else "native"


def _with_gpus_of(facts: HostFacts, device: Capability) -> HostFacts:
    """The host with its GPUs of one capability; of a pool, the machines that have one."""
    gpus = tuple(gpu for gpu in facts.gpus if gpu.capability == device)
    members = tuple(_with_gpus_of(member, device) for member in facts.members if device in member.capabilities)
    return replace(facts, gpus=gpus, members=members)


def weakest(components: tuple[ComponentSupport, ...]) -> ComponentSupport | None:
    """The component that supports fewest GPUs, if it lacks any; of equals the one nearest to torch."""
    return max((item for item in components if item.cut), key=lambda item: len(item.cut), default=None)


def repairs(solution: Solution, components: tuple[ComponentSupport, ...], knowledge: Knowledge) -> tuple[Pin, ...]:
    """Pins of which each could mend one limiting component; which of them are needed only solving tells."""
    found: dict[str, Pin] = {}
    for component in components:
        pin = _repair(component, solution, knowledge) if component.cut else None
        if pin:
            found.setdefault(pin.name, pin)
    return tuple(found.values())


def _repair(component: ComponentSupport, solution: Solution, knowledge: Knowledge) -> Pin | None:
    """A pin that could make one component support all GPUs; ``None`` where none is known."""
    why = (component.because,)
    if component.rule in ("cudnn", "nccl"):
        package = next((found for name in _PACKAGES[component.rule] if (found := solution.package(name))), None)
        cap = _last_release(component.rule, component.cut[0], candidate_of(solution, knowledge), knowledge)
        if package is None or cap is None:
            return None
        return Pin(name=package.name, version=f"<{cap}", channel=package.channel_name, role=component.rule, why=why)
    if component.rule == "nvcc":
        generation = knowledge.compute_capability(component.cut[0])
        first, last = (generation.first_cuda, generation.last_cuda) if generation else (None, None)
        candidate = candidate_of(solution, knowledge)
        too_old = first and candidate and candidate.cuda and candidate.cuda < first
        bounds = (f">={first}" if too_old else "", f"<{last.major + 1}" if last else "")
        version = ",".join(filter(None, bounds))
        return Pin(name="cuda-version", version=version, why=why) if version else None
    builds = _build_with_code(component.cut, solution, knowledge)
    return Pin(name="pytorch", build=builds, why=why) if builds else None


def _last_release(library: str, device: Capability, torch: Candidate | None, knowledge: Knowledge) -> Version | None:
    """The release from which on a library, built for the CUDA of torch, no longer supports a GPU."""
    of_library = knowledge.layers_of(library, torch.build.cuda if torch else None)
    rows = [row for row in of_library if row.serves_from <= device]
    return max((row.below for row in rows if row.below), default=None)


def _build_with_code(devices: tuple[Capability, ...], solution: Solution, knowledge: Knowledge) -> str:
    """The glob of the builds, of the release that is locked, that hold code for the GPUs; empty without one."""
    torch = solution.package("pytorch")
    for row in reversed(knowledge.torch) if torch else ():
        if torch and (row.stack, row.platform) == (torch.channel_name, solution.platform) and row.code:
            same = str(row.version) == torch.version and row.cuda is not None
            if same and all(isinstance(support_of(row.code, device), Native) for device in devices):
                return row.build
    return ""


def narrowed(spec: EnvironmentSpec, pins: tuple[Pin, ...]) -> EnvironmentSpec:
    """An environment with further pins: on a package that it pins already both must hold."""
    wanted = {pin.name: pin for pin in pins}
    merged = [_both(pin, wanted.pop(pin.name)) if pin.name in wanted else pin for pin in spec.pins]
    return replace(spec, pins=(*merged, *wanted.values()))


def _both(pin: Pin, wanted: Pin) -> Pin:
    return replace(
        pin,
        version=together((pin.condition(), wanted.condition())) if pin.version else wanted.version,
        build=pin.build or wanted.build,
        why=(*pin.why, *wanted.why),
        role=pin.role or wanted.role,
    )
