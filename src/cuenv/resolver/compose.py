"""From a decision to the environment: pins with their channel, build, role and reasons."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from cuenv.core import __version__
from cuenv.core.errors import UsageError
from cuenv.core.record import replace
from cuenv.core.versions import VersionSpec, target_for
from cuenv.host.describe import host_line
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.requirement import Requirement
from cuenv.knowledge.rows import WHEELS, Cuda, TorchBuild, TorchWheel
from cuenv.resolver.candidates import Candidate, admits_all
from cuenv.resolver.decision import Decision
from cuenv.resolver.explain import lock_command, minimum_text, support_lines
from cuenv.resolver.rules import Context
from cuenv.resolver.rules.libraries import range_for
from cuenv.solve.environment_spec import EnvironmentSpec, Pin, check_name, requirement_name, together

HEADERS = ("cuda-cudart-dev", "libcusparse-dev", "libcublas-dev", "libcusolver-dev", "libcurand-dev")
"""Packages of the headers that torch's own headers include, by name: the metapackages pin cuBLAS exactly."""

DECIDED = {
    "pytorch": "--pytorch",
    "python": "--python",
    "cuda-version": "--cuda",
    "cudatoolkit": "--cuda",
    "pytorch-cuda": "--cuda",
}
"""Packages whose version is the decision itself, and the option that asks for another."""


def environment_of(decision: Decision, name: str, *, header: bool = True) -> EnvironmentSpec:
    """The environment of a decision, as `compose` writes it, for what a user typed.

    Raises:
        UsageError: a requested package is no spec or asks for what another option decides, or the name is invalid.
    """
    try:
        check_name(name)
    except ValueError as error:
        raise UsageError(f"invalid environment name: {error}", hint="cuenv resolve --name train") from error
    try:
        return compose(decision, name, header=header)
    except ValueError as error:
        raise UsageError(f"--with: {error}", hint="cuenv resolve --with 'transformers>=4.36'") from error


def compose(decision: Decision, name: str, *, header: bool = True) -> EnvironmentSpec:
    """Write what was chosen as an environment.

    Args:
        header: whether its head says what it was chosen for: that costs more than all the rest, and is left out where
            many candidates are tried.

    Raises:
        ValueError: no candidate fits, or a requested package is no spec or asks for what another option decides.
    """
    if decision.chosen is None:
        raise ValueError("no candidate fits")
    candidate, context = decision.chosen.candidate, decision.context
    own = _cpu(candidate) if candidate.cuda is None else _cuda(candidate, context)
    pins = [*own, _python(candidate, context.request.python), *_compiler(candidate, context)]
    pip, _ = _pip(candidate.build, context)
    if pip:
        pins.append(Pin(name="pip", why=("installs the pip part",)))
    spec = EnvironmentSpec(
        ours=True,
        name=name,
        channels=_channels(candidate),
        platforms=(candidate.build.platform,),
        pins=_merged(
            pins, _without_what_wheels_bring(candidate, _requested_pins(candidate, context), context.knowledge)
        ),
        pip=pip,
        variables=_variables(candidate, context),
    )
    return with_header(spec, decision) if header else spec


def with_header(spec: EnvironmentSpec, decision: Decision) -> EnvironmentSpec:
    """The environment with the header that says what it was chosen for."""
    return replace(spec, header=_header(decision))


def _without_what_wheels_bring(candidate: Candidate, requested: list[Pin], knowledge: Knowledge) -> list[Pin]:
    """What is asked for without what a wheel of torch brings: a second cuDNN or NCCL would only lie beside it."""
    if candidate.build.stack != WHEELS:
        return requested
    brought = ("cudnn", "nccl")
    roles = {pin.name: row.role for pin in requested if (row := knowledge.component(pin.name))}
    return [pin for pin in requested if pin.name != "pytorch" and roles.get(pin.name) not in brought]


def _requested_pins(candidate: Candidate, context: Context) -> list[Pin]:
    """The requested conda packages as pins, without releases that are known to be broken."""
    if not context.request.packages:
        return []
    from cuenv.solve.match_spec import parse_spec  # noqa: PLC0415 - its patterns cost 2 ms, and most runs request no package

    asked: dict[str, Pin] = {}
    for pin in map(parse_spec, context.request.packages):
        if pin.name in DECIDED and (pin.version or pin.build):
            message = f"{pin.yaml_text()}: cuenv chooses the version of {pin.name}; write {DECIDED[pin.name]} VERSION"
            raise ValueError(message)
        asked[pin.name] = _combined(asked[pin.name], pin) if pin.name in asked else pin
    from cuenv.resolver.requirements import broken_when, pin_without_broken  # noqa: PLC0415 - as above

    known, when = context.knowledge, broken_when(context.request.offload)
    _, base = context.request.origin or ("", None)
    of_profile = {parse_spec(text).name for text in base.packages} if base else set()

    def whose(pin: Pin) -> str:
        return f"requested in the profile {base.name}" if base and pin.name in of_profile else "requested with --with"

    return [pin_without_broken(requested_pin(pin, candidate, known, whose(pin)), when, known) for pin in asked.values()]


def _pip(build: TorchBuild, context: Context) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The pip part, and the reasons for the header."""
    if not context.request.pip and not isinstance(build, TorchWheel):
        return (), ()
    from cuenv.resolver.requirements import pip_part, with_torch  # noqa: PLC0415 - as above

    texts, reasons = pip_part(context.request, context.knowledge)
    _check_pip(texts)
    if not isinstance(build, TorchWheel):
        return texts, reasons
    from cuenv.resolver.wheels import INDEX, last_wheel_note  # noqa: PLC0415 - only with wheels

    index = (f"--extra-index-url {INDEX}{build.build}",) if "index" in build.comes else ()
    beside = (with_torch(text, build, context.knowledge) for text in texts)
    return (*index, f"torch=={build.name}", *beside), (
        *reasons,
        *last_wheel_note(build, context.facts, context.knowledge),
    )


@lru_cache(maxsize=8)
def _check_pip(texts: tuple[str, ...]) -> None:
    """Refuse lines that pip refuses, and a second torch: once for all candidates that are composed with them."""
    from cuenv.solve.pip_lines import read_lines  # noqa: PLC0415 - as above

    for line in read_lines(texts).wrong:
        raise ValueError(f"pip:{line.text}: {line.why}; {line.fix}")
    second = next((text for text in texts if requirement_name(text) == "torch"), None)
    if second:
        raise ValueError(f"pip:{second}: cuenv chooses the version of torch; write --pytorch VERSION")


def _merged(pins: list[Pin], requests: list[Pin]) -> tuple[Pin, ...]:
    """The pins and the requested specs; on a package that is pinned anyway both must hold."""
    left = {request.name: request for request in requests}
    merged = [with_request(pin, left.pop(pin.name)) if pin.name in left else pin for pin in pins]
    return (*merged, *left.values())


def with_request(pin: Pin, request: Pin) -> Pin:
    """A pin of the decision with what is requested of its package; both must hold."""
    if request.version and pin.name.startswith("gxx_") and pin.version:
        # It is pinned to the newest major that nvcc accepts; an older one is as good.
        pin = replace(pin, version=f"<{int(pin.version.removesuffix('.*')) + 1}")
    # Another channel is kept as asked: the one-channel check then says what is wrong with it.
    return replace(_both(pin, request), why=(*pin.why, "as asked with --with"))


def _combined(pin: Pin, request: Pin) -> Pin:
    """Two specs of one package as one."""
    for what, one, other in (("build", pin.build, request.build), ("channel", pin.channel, request.channel)):
        if one and other and one != other:
            raise ValueError(f"{pin.yaml_text()} and {request.yaml_text()} require different {what}s")
    return _both(pin, request)


def _both(pin: Pin, request: Pin) -> Pin:
    build = request.build or pin.build
    if pin.version and request.version:
        version = together((pin.condition(), request.condition()))
    else:
        one = request if request.version else pin
        version = one.version if one.build == build else one.condition()  # a bare release is exact beside a build
    return replace(pin, version=version, build=build, channel=request.channel or pin.channel)


def cuda_channel(candidate: Candidate) -> str | None:
    """The one channel that every CUDA component comes from; ``None`` where no label is proven to fit."""
    if candidate.build.stack in ("conda-forge", WHEELS) or candidate.build.of_cudatoolkit:
        return "conda-forge"
    return f"nvidia/label/cuda-{candidate.label.label}" if candidate.label else None


def _channels(candidate: Candidate) -> tuple[str, ...]:
    if candidate.build.stack in ("conda-forge", WHEELS):
        return ("conda-forge",)
    if candidate.cuda is None or candidate.build.of_cudatoolkit:
        return ("pytorch", "conda-forge")
    # Where no label is proven, the label of the first release is the nearest thing to one channel.
    label = cuda_channel(candidate) or f"nvidia/label/cuda-{candidate.cuda}.0"
    return ("pytorch", label, "conda-forge")


def _cpu(candidate: Candidate) -> list[Pin]:
    build = candidate.build
    why = ("a CPU build, as requested with --cpu",)
    return [Pin(name="pytorch", version=str(build.version), build=build.build, channel=build.stack, why=why)]


def _cuda(candidate: Candidate, context: Context) -> list[Pin]:
    if candidate.build.stack == WHEELS:
        return _beside_wheel(candidate, context)
    return _pytorch(candidate, context) if candidate.build.stack == "pytorch" else _conda_forge(candidate, context)


def _torch(candidate: Candidate, channel: str) -> Pin:
    """The pin of torch itself."""
    build = candidate.build
    return Pin(
        name="pytorch",
        version=str(build.version),
        build=build.build,
        channel=channel,
        role="pytorch-cuda",
        why=(f"the build string excludes the CPU build; built with CUDA {build.cuda}",),
    )


def _conda_forge(candidate: Candidate, context: Context) -> list[Pin]:
    """The pins of a torch of conda-forge: torch, CUDA, compiler, cuDNN and NCCL."""
    channel, cuda = "conda-forge", candidate.cuda
    pins = [
        _torch(candidate, channel),
        Pin(
            name="cuda-version",
            version=str(cuda),
            channel=channel,
            role="pytorch-cuda",
            why=(f"pins every CUDA component to release {cuda}",),
        ),
    ]
    if cuda and cuda.major < 12:
        pins.append(Pin(name="cudatoolkit", channel=channel, role="pytorch-cuda", why=("the runtime libraries",)))
    if context.request.dev:
        pins += _nvcc(context.knowledge)
    pins.append(_layer_pin("cudnn", candidate.build.cudnn, candidate, context))
    pins.append(_layer_pin("nccl", candidate.build.nccl, candidate, context))
    return pins


def _nvcc(knowledge: Knowledge) -> Iterator[Pin]:
    yield Pin(name="cuda-nvcc", channel="conda-forge", role="cudatoolkit-dev", why=("the compiler",))
    for name in HEADERS:
        row = knowledge.component(name)
        why = ", ".join(row.headers) if row and row.headers else "headers of the runtime"
        yield Pin(name=name, channel="conda-forge", role="cudatoolkit-dev", why=(why,))


def _beside_wheel(candidate: Candidate, context: Context) -> list[Pin]:
    """The compiler of conda-forge for a torch that pip brings with its CUDA runtime."""
    toolkit = _compiles_with(candidate, context)
    if toolkit is None:
        return []
    why = (f"pins the compiler and the headers to CUDA {toolkit.version}; torch is built with CUDA {candidate.cuda}",)
    release = Pin(
        name="cuda-version", version=str(toolkit.version), channel="conda-forge", role="cudatoolkit-dev", why=why
    )
    return [release, *_nvcc(context.knowledge)]


def _compiles_with(candidate: Candidate, context: Context) -> Cuda | None:
    """The CUDA release of the compiler in an environment; ``None`` for one without."""
    if not context.request.dev or candidate.cuda is None:
        return None
    by_pip = candidate.build.stack == WHEELS
    return context.knowledge.conda_compiler(candidate.cuda) if by_pip else context.knowledge.cuda(candidate.cuda)


def _layer_pin(library: str, requirement: Requirement | None, candidate: Candidate, context: Context) -> Pin:
    name = requirement.package if requirement and requirement.package else library
    why = (f"{library} in the version that this PyTorch build requires",)
    bound = ""
    if context.facts.capabilities and candidate.build.cuda:
        oldest = context.facts.capabilities[0]
        found = range_for(library, requirement, oldest, candidate.build.cuda, context.knowledge)
        if found.answer == "below":
            bound = f"<{found.below}"
            why = (f"release {found.below} dropped compute capability {oldest}",)
    return Pin(name=name, version=bound, channel="conda-forge", role=library, why=why)


def _pytorch(candidate: Candidate, context: Context) -> list[Pin]:
    """The pins of a torch of the channel pytorch, which contains cuDNN and NCCL."""
    label, older = candidate.label, candidate.build.of_cudatoolkit
    pins = [
        _torch(candidate, "pytorch"),
        Pin(
            name="cudatoolkit" if older else "pytorch-cuda",
            version=str(candidate.cuda),
            build=label.build if label and label.build != "*" else "",
            channel="conda-forge" if older else "pytorch",
            role="pytorch-cuda",
            why=(f"pins the runtime libraries to CUDA {candidate.cuda}; the PyTorch build contains cuDNN and NCCL",),
        ),
        *(
            Pin(name=row.package, version=row.bound, channel="conda-forge", why=(f"with a later release {row.says}",))
            for row in context.knowledge.conflicts_of("pytorch", candidate.build.version)
        ),
    ]
    channel = cuda_channel(candidate)
    if context.request.dev and label and channel:
        why = ("compiler, headers and libraries of one CUDA release",)
        toolkit = Pin(name="cuda-toolkit", version=label.label, channel=channel, role="cudatoolkit-dev", why=why)
        pins.append(toolkit)
    return pins


def _python(candidate: Candidate, request: VersionSpec | None) -> Pin:
    release = candidate.python
    if request and not admits_all(request, release):
        exact = request.prefix is not None or (request.text.startswith("==") and "," not in request.text)
        release = request.text if exact else f"{release}.*,{request.text.replace(' ', '')}"
    return Pin(name="python", version=release, why=("this PyTorch build exists for this Python",))


def _compiler(candidate: Candidate, context: Context) -> list[Pin]:
    """The pins of the host compiler, where extensions are to be built."""
    row = _compiles_with(candidate, context)
    if not context.request.dev or candidate.cuda is None or (row is None and candidate.build.stack == WHEELS):
        return []
    bounds = [row.gcc_max, row.conda_gcc_max if candidate.build.stack != "pytorch" else None] if row else []
    limit = min((bound for bound in bounds if bound), default=None)
    why = (
        (f"nvcc {row.version if row else candidate.cuda} supports host compilers up to {limit}",)
        if limit
        else ("the host compiler",)
    )
    gxx = Pin(
        name=f"gxx_{candidate.build.platform}", version=f"{limit}.*" if limit else "", channel="conda-forge", why=why
    )
    return [gxx, Pin(name="ninja", why=("PyTorch builds extensions with ninja",))]


def requested_pin(pin: Pin, candidate: Candidate, knowledge: Knowledge, asked: str) -> Pin:
    """A package of the request: guarded if it has a CPU variant, bound to the CUDA channel if it is NVIDIA's."""
    cuda = candidate.build.cuda
    why = (asked,)
    if cuda is None:
        return replace(pin, why=why)
    variant = knowledge.cuda_variant(pin.name, pin.channel or candidate.build.stack) or knowledge.cuda_variant(
        pin.name, "conda-forge"
    )
    if variant and not pin.build:
        guard = variant.guard.format(cuda=f"{cuda.major}{cuda.minor}", dotted=str(cuda))
        return replace(
            pin,
            version=pin.condition(),  # a bare release would be exact beside a build
            build=guard,
            channel=pin.channel or variant.channel,
            why=(*why, "the build string excludes the CPU variant"),
        )
    if not pin.channel and knowledge.is_component(pin.name):
        return replace(pin, channel=cuda_channel(candidate) or "", why=(*why, "from the one CUDA channel"))
    return replace(pin, why=why)


def _variables(candidate: Candidate, context: Context) -> dict[str, str]:
    if candidate.cuda is None or not context.facts.capabilities:
        return {}
    row = context.knowledge.cuda(candidate.cuda)
    able = row.targets if row else ()
    targets = dict.fromkeys(target_for(item, able) or item for item in context.facts.capabilities)
    return {"TORCH_CUDA_ARCH_LIST": ";".join(map(str, targets))}


def _header(decision: Decision) -> tuple[str, ...]:
    """The lines of the header: what was chosen, for which host, and how to lock it."""
    if decision.chosen is None:
        raise ValueError("no candidate fits")
    context = decision.context
    _, reasons = _pip(decision.chosen.candidate.build, context)
    lines = [
        f"Written by cuenv {__version__}, knowledge base of {context.knowledge.edition}.",
        f"For {host_line(context.facts)}.",
    ]
    lines += support_lines(decision)
    if decision.minimum_driver:
        lines.append(f"Minimum driver: {minimum_text(decision)}.")
    if context.request.host_memory_gb:
        lines.append(f"Host memory: the profile asks for {context.request.host_memory_gb} GB.")
    if context.request.disk_gb:
        lines.append(f"Free disk: the profile asks for {context.request.disk_gb} GB.")
    if decision.conda:
        lines.append(
            f"PyTorch comes as a wheel, because no conda build fits this host and this request: {decision.conda}."
        )
    if context.request.as_of:
        lines.append(f"As of {context.request.as_of}: only builds that existed on that day; the lock keeps the day.")
    lines += [f"pip: {reason}." for reason in reasons]
    lines += ["Lock it:", f"  {lock_command(decision, 'environment.yml')}"]
    return tuple(lines)
