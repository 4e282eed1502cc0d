"""Why an error happens on this host: a symptom joined with the facts of the host, the environment and the tables.

Each join takes a `Case` and says what it knows; where the facts are silent it says nothing, and the row speaks alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from packaging.version import Version

from cuenv.core.record import dataclass, field, replace
from cuenv.core.regex import regex
from cuenv.core.versions import Capability, cuda_in_local, version_or_none
from cuenv.diagnosis.log_frames import Frame
from cuenv.host.describe import gpu_text, host_options
from cuenv.host.facts import Driver, Gpu, HostFacts
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import PLATFORMS, TorchBuild
from cuenv.prefix.cuda_files import cuda_of_wheels
from cuenv.prefix.inventory import Prefix
from cuenv.resolver.candidates import Candidate, bare_candidate
from cuenv.resolver.effective_driver import effective
from cuenv.resolver.rules import Context, Reason, Verdict, rule_named, verdict_of
from cuenv.resolver.rules.libraries import glibc_verdict
from cuenv.resolver.verdict import told
from cuenv.resolver.wheels import wheel_row
from cuenv.solve.model import build_cuda

RESOLVE = "cuenv resolve"
_SEE = (
    "see whether the machine has a driver: if nvidia-smi works on the host and not in the container, start the "
    "container with --gpus all; if it works nowhere, an administrator installs the driver"
)
_FOREIGN = regex(r"(?:ggml|llama|flashinfer|onnx)[\w./-]*\.cuh?:|/(?!\S*(?:aten|c10|THC|torch))\S+/csrc/\S+\.cuh?:")
"""A source of GPU code that is no part of torch."""
_NEWER_PTXAS = (
    "python -m pip install --upgrade nvidia-cuda-nvcc-cu12 && "
    "export PATH=$(python -c \"import sysconfig; print(sysconfig.get_path('purelib'))\")/nvidia/cuda_nvcc/bin:$PATH"
)
"""What jax-ml/jax#25718 ends with: the ptxas of NVIDIA's wheel in place of the system's."""
_LOG = "the machine of this log"
_IMAGE = "image"
"""What a log mentions only where it is of a container."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogContext:
    """What a symptom is joined with.

    Attributes:
        facts: the host; ``None`` when nobody asked for one.
        prefix: the environment, when one was named.
        told: what the line of the log tells, decoded.
        line: the line itself, as it is shown.
        mentions: what the log says in passing.
        packages: releases of packages that a list in the log tells.
        builds: their build strings.
        raised: where the exception of the line was raised.
    """

    knowledge: Knowledge
    facts: HostFacts | None = None
    prefix: Prefix | None = None
    told: Mapping[str, str] = field(default_factory=dict)
    line: str = ""
    mentions: Mapping[str, str] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    builds: Mapping[str, str] = field(default_factory=dict)
    raised: Frame | None = None

    @property
    def frameworks(self) -> frozenset[str]:
        """The frameworks, servers and engines of containers that the log names."""
        return frozenset(self.mentions.get("frameworks", "").split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """What the facts say: sentences, and a remedy and a command where they know better than the row.

    Attributes:
        command: ``None`` leaves it to the row; empty where the facts say that no command helps.
    """

    because: tuple[str, ...] = ()
    remedy: str = ""
    command: str | None = None
    values: Mapping[str, str] = field(default_factory=dict)


def host_words(facts: HostFacts | None) -> str:
    """The options that name a host in a command; none for the machine at hand."""
    from shlex import join  # noqa: PLC0415 - only where a command is given

    if facts is None or (facts.detected and not facts.asked_as and not facts.members):
        return ""
    return join(("--host", facts.asked_as) if facts.asked_as else host_options(facts))


def resolve_anew(case: LogContext, *options: str, gpus: str = "") -> str:
    """The command that chooses another environment for the host; for ``gpus`` when it is the machine at hand."""
    facts = case.facts
    if facts and other_driver(
        case
    ):  # what failed is the machine of the line; one that was named is chosen for as it is
        options = () if facts.asked_as else options
        facts = facts if facts.asked_as else replace(facts, driver=driver_of(case), detected=False, members=())
    driver = facts.driver if facts and facts.gpus and not facts.detected else None
    level = f"CONDA_OVERRIDE_CUDA={driver.cuda}" if driver and driver.cuda and not driver.version else ""
    words = (level, RESOLVE, host_words(facts) or gpus, *options, "-o environment.yml")
    return " ".join(filter(None, words))


def torch_of(case: LogContext) -> tuple[Version | None, Version | None]:
    """Release and CUDA of torch: of the environment, else as the log mentions it."""
    if case.prefix:
        package = case.prefix.package("pytorch")
        if package:
            return version_or_none(package.version), build_cuda(package.build)
        wheel = case.prefix.wheel("torch")
        if wheel:
            found = cuda_of_wheels(case.prefix)
            return version_or_none(wheel.version), found[0] if found else None
    text = case.mentions.get("torch", "")
    cuda = version_or_none(case.mentions.get("cuda", ""))
    return version_or_none(text), cuda_in_local(text) or cuda or build_cuda(case.builds.get("pytorch", ""))


def driver_of(case: LogContext) -> Driver | None:
    """The driver that programs get: of the host, else as the log mentions it; its CUDA release as the line tells it."""
    found = effective(case.facts, case.knowledge).driver if case.facts else None
    text = (found.version if found else None) or case.mentions.get("driver")
    own = (found.cuda if found else None) or (case.knowledge.cuda_of(text) if text else None)
    told = version_or_none(case.told.get("level", ""))
    if told and own and told != own:
        return Driver(cuda=told)  # the line speaks of another driver than the one that is known
    level = told or own
    return Driver(version=text, cuda=level) if text or level else None


def other_driver(case: LogContext) -> tuple[str, ...]:
    """That the line speaks of another driver than the host has, where it does."""
    told, driver = version_or_none(case.told.get("level", "")), case.facts.driver if case.facts else None
    level = driver.cuda if driver else None
    if case.facts is None or told is None or level is None or told == level:
        return ()
    whose = "that was given for it" if case.facts.label == _LOG else f"of {case.facts.label}"
    named = f"driver {driver.version} {whose}" if driver and driver.version else f"{case.facts.label}"
    return (f"the line tells of a driver for CUDA {told}, but {named} supports CUDA {level}: they are not one machine",)


def level_of(case: LogContext) -> Version | None:
    """The CUDA release that the driver supports."""
    driver = driver_of(case)
    return driver.cuda if driver else None


def capabilities(case: LogContext) -> tuple[Capability, ...]:
    """The GPUs that the line tells of, else those of the host."""
    told = case.told.get("sm")
    if told:
        return (Capability.parse(told.rstrip("af")),)
    return case.facts.capabilities if case.facts else ()


def host_of(case: LogContext) -> HostFacts:
    """The host that the rules are asked about: what the log tells goes before what the machine shows."""
    facts = case.facts or HostFacts(label=_LOG, platform=PLATFORMS[0])
    if case.told.get("level") or not facts.driver:
        own, driver = effective(facts, case.knowledge).driver, driver_of(case)
        label = _LOG if driver and (own is None or other_driver(case)) else facts.label  # it is no driver of that host
        facts = replace(facts, label=label, driver=driver, members=())
    if case.told.get("sm"):
        gpus = tuple(Gpu(index=0, name="", capability=capability) for capability in capabilities(case))
        facts = replace(facts, gpus=gpus, members=())
    return facts


def asked_rule(case: LogContext, name: str, candidate: Candidate) -> Verdict:
    """What a rule of `cuenv resolve` says of a candidate on the host."""
    return verdict_of(
        name, candidate, Context(facts=host_of(case), request=Request(dev=True), knowledge=case.knowledge)
    )


def with_code(verdict: Verdict) -> str:
    """A verdict in its own words, with the finding code of its rule where it is no plain pass."""
    return verdict.because + ("" if verdict.outcome == "pass" else f" ({rule_named(verdict.rule).code})")


def floor_verdict(case: LogContext, cuda: Version) -> Verdict:
    """What the rule on the minimum driver says of a CUDA release."""
    return asked_rule(case, "driver-floor", bare_candidate(cuda, host_of(case).platform))


def newest_for(case: LogContext) -> Version | None:
    """The newest CUDA of a torch build that the driver is not too old for: within its level, or by its major."""
    cudas = {row.cuda for row in case.knowledge.torch if row.cuda}
    return max((cuda for cuda in cudas if floor_verdict(case, cuda).outcome != "reject"), default=None)


def driver_floor(case: LogContext) -> Joined:
    """The driver against the minimum driver of the CUDA major that the program was built with."""
    driver, level = driver_of(case), level_of(case)
    if driver is None or level is None:
        return no_driver(case) if case.facts and case.facts.detected else Joined()
    name = f"driver {driver.version} supports" if driver.version else "the driver supports"
    differs = other_driver(case)
    supports = f"{name} CUDA {level}"
    _, wanted = torch_of(case)
    runs = newest_for(case)
    if wanted is None and runs is not None:
        wanted = min(
            (row.cuda for row in case.knowledge.torch if row.cuda and row.cuda.major > runs.major), default=None
        )
    if runs is None and wanted is None:
        lowest = min(row.driver for row in case.knowledge.floors)
        because = (supports, "the cuenv tables list no build of torch for it", *differs)
        remedy = f"install a newer driver, as an administrator: {lowest} or later runs builds for CUDA 11"
        return Joined(because=because, remedy=remedy, command="")
    verdict = floor_verdict(case, wanted) if wanted else None
    if verdict is None or verdict.outcome == "pass":
        return Joined(because=(supports, *differs))
    because = (supports, with_code(verdict), *differs)
    if verdict.outcome != "reject" or verdict.remedy is None:
        return Joined(because=because)
    if runs is None:
        remedy = f"install {verdict.remedy.text}; the cuenv tables list no build for this driver"
        return Joined(because=because, remedy=remedy, command="")
    remedy = (
        f"now: a build of torch for CUDA {runs}, which this driver supports; in the long run: {verdict.remedy.text}. "
        "Exporting LD_LIBRARY_PATH does not help, because the driver decides"
    )
    if differs and case.facts and case.facts.asked_as:
        remedy = f"this did not happen on {case.facts.label}: choose an environment for it; where it happened, {remedy}"
    command = resolve_anew(case, f"--cuda {runs}")
    return Joined(because=because, remedy=remedy, command=command, values={"cuda": str(runs)})


def no_driver(case: LogContext) -> Joined:
    """Whether the host has a driver at all."""
    facts = case.facts
    if facts is None or not facts.detected:
        return Joined() if _IMAGE in case.mentions else Joined(remedy=_SEE)
    where = f" inside {facts.environment.container}" if facts.environment.container else ""
    if facts.driver is None:
        said = f"{facts.label} has no NVIDIA driver{where}"
        if facts.environment.container:
            return Joined(because=(said,), command="docker run --gpus all IMAGE")
        return Joined(because=(said,))
    return Joined(
        because=(
            (
                f"{facts.label} has driver {facts.driver.version} and {gpu_text(facts)}{where}, "
                "so the driver is visible here"
            ),
        )
    )


def device_code(case: LogContext) -> Joined:
    """The code that torch holds against the GPUs; what is no part of torch is built again for them."""
    if _FOREIGN.search(case.line) or "ggml" in case.frameworks:
        wanted = ";".join(map(str, capabilities(case))) or "the compute capability of the GPU"
        remedy = f"build or install the package of this file again, for {wanted} (TORCH_CUDA_ARCH_LIST, CUDAARCHS)"
        return Joined(remedy=remedy, command="")
    if "jax" in case.frameworks and "ptxas" in case.line:
        remedy = "put the ptxas of a newer CUDA first on PATH; JAX takes the one that it finds there"
        return Joined(remedy=remedy, command=_NEWER_PTXAS)
    release, cuda = torch_of(case)
    found = capabilities(case)
    build = _build_of(case, release, cuda) if release and cuda else None
    because = []
    if found and build:
        verdict = asked_rule(case, "device-code", Candidate(build=build, cuda=cuda, python="3"))
        because.append(f"torch {build.version} for CUDA {cuda}: {with_code(verdict)}")
    elif found:
        because.append(f"the GPU has compute capability {', '.join(map(str, found))}")
    gpus = " ".join(f"--gpu {capability}" for capability in found) if case.told.get("sm") else ""
    host = case if not gpus or (case.facts and case.facts.detected) else replace(case, facts=host_of(case))
    return Joined(because=tuple(because), command=resolve_anew(host, gpus=gpus))


def _build_of(case: LogContext, release: Version, cuda: Version) -> TorchBuild | None:
    """The row of a torch whose device code is known: a wheel's, else that of the channel and platform."""
    package = case.prefix.package("pytorch") if case.prefix else None
    stack = package.channel_name if package else ""
    platform = host_of(case).platform
    wheel = wheel_row(release, "", cuda, platform, case.knowledge)
    if wheel.code and (release.local or (case.prefix and not package)):
        return wheel
    rows = [row for row in case.knowledge.torch if (row.version.public, row.cuda) == (release.public, cuda)]
    return max(
        (row for row in rows if row.code),
        key=lambda row: (row.platform == platform, row.stack == stack),
        default=None,
    )


def driver_level(case: LogContext) -> Joined:
    """The CUDA version of the driver beside the one that is asked for."""
    level, wanted = level_of(case), version_or_none(case.told.get("cuda", ""))
    if level is None and "unsatisfied condition" in case.line:  # without its driver nobody knows whether to skip it
        says = "the check may be skipped only where the driver has the minimum of that CUDA major"
        return Joined(because=(says,))
    if level is None:
        return Joined()
    if wanted is None:
        return Joined(because=(f"the driver supports CUDA {level}",))
    first = case.knowledge.native_driver(wanted)
    came = f": CUDA {wanted} came with driver {first}" if first else ""
    because = [f"the driver supports CUDA {level}, which is {_order(level, wanted)} {wanted}{came}"]
    floor = floor_verdict(case, wanted)
    above = asked_rule(case, "driver-level", bare_candidate(wanted, host_of(case).platform))
    runs = newest_for(case)
    if floor.outcome == "reject" and runs:
        because.append(f"{with_code(floor)}, so skipping the check does not help")
        return Joined(because=tuple(because), command=resolve_anew(case, f"--cuda {runs}"))
    because += [with_code(verdict) for verdict in (floor, above) if verdict.outcome != "pass"]
    return Joined(because=tuple(because))


def _order(level: Version, wanted: Version) -> str:
    return "below" if level < wanted else "not below"


def cuda_available(case: LogContext) -> Joined:
    """Why torch sees no CUDA: the CPU build, no driver, or a driver older than the minimum."""
    release, cuda = torch_of(case)
    if release is not None and cuda is None:
        return Joined(because=(f"torch {release} of this environment is a CPU build",), command=resolve_anew(case))
    level = level_of(case)
    if cuda is None and level is not None:  # whether the driver is to blame depends on a build that nobody named
        runs = newest_for(case)
        upto = f"it runs builds for CUDA up to {runs}" if runs else "the cuenv tables list no build of torch for it"
        return Joined(because=(f"the driver supports CUDA {level}; {upto}",))
    found = driver_floor(case)
    if cuda is None or level is None or (verdict := floor_verdict(case, cuda)).outcome != "pass":
        return found
    return Joined(because=(*found.because, f"torch is built for CUDA {cuda}: {with_code(verdict)}"))


def glibc(case: LogContext) -> Joined:
    """The C library of the host against the one that the line asks for."""
    wanted = version_or_none(case.told.get("glibc", ""))
    if case.facts is None or case.facts.libc is None or wanted is None:
        return Joined()
    reason = Reason("row", f"the file of this line needs glibc {wanted} or later")
    machines = [machine for machine in case.facts.machines if machine.libc]
    verdicts = [told(glibc_verdict(wanted, reason, machine.libc), machine) for machine in machines]
    return Joined(because=tuple(dict.fromkeys(map(with_code, verdicts))))


def kernel_module(case: LogContext) -> Joined:
    """The driver's library against the loaded kernel module."""
    driver = case.facts.driver if case.facts else None
    if driver and driver.version and driver.kernel_module and driver.version != driver.kernel_module:
        return Joined(because=(f"the library is {driver.version}, the loaded module {driver.kernel_module}",))
    return Joined()


JOINS: dict[str, Callable[[LogContext], Joined]] = {
    "cuda_available": cuda_available,
    "device_code": device_code,
    "driver_floor": driver_floor,
    "driver_level": driver_level,
    "glibc": glibc,
    "kernel_module": kernel_module,
    "no_driver": no_driver,
}
"""The joins of this module by the names that rows give; more lie in `on_host_run` and `on_host_build`."""
