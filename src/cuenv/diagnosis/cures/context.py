"""The context of a symptom: its log line, the host and the environment, and the facts that cures derive from them.

A cure takes a `LogContext` and returns a `CureResult`. Where the facts do not say enough, the result is empty and the
remedy of the table row is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from packaging.version import Version

from cuenv.core.record import dataclass, field, replace
from cuenv.core.versions import Capability, cuda_in_local, version_or_none
from cuenv.diagnosis.log.frames import Frame
from cuenv.host.describe import host_options
from cuenv.host.facts import Driver, Gpu, HostFacts
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import PLATFORMS
from cuenv.prefix.cuda_files import cuda_release_of_wheels
from cuenv.prefix.inventory import Prefix
from cuenv.resolver.candidates import Candidate, bare_candidate
from cuenv.resolver.effective_driver import with_effective_driver
from cuenv.resolver.rules import Context, Verdict, rule_named, verdict_of
from cuenv.solve.model import build_cuda

RESOLVE = "cuenv resolve"
_LOG = "the machine of this log"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogContext:
    """What a cure knows about a matched line: its log, host and environment."""

    knowledge: Knowledge
    facts: HostFacts | None = None  # the host; ``None`` when nobody asked for one
    prefix: Prefix | None = None  # the environment, when one was named
    groups: Mapping[str, str] = field(default_factory=dict)  # the named groups of the matched line, decoded
    line: str = ""  # the matched line, as it is shown
    mentions: Mapping[str, str] = field(default_factory=dict)  # versions and names that other lines of the log mention
    # the package versions that a package list in the log shows
    packages: Mapping[str, str] = field(default_factory=dict)
    builds: Mapping[str, str] = field(default_factory=dict)  # the build strings of these packages
    frame: Frame | None = None  # the frame that raised the exception of the line

    @property
    def frameworks(self) -> frozenset[str]:
        """The frameworks, servers and engines of containers that the log names."""
        return frozenset(self.mentions.get("frameworks", "").split())


@dataclass(frozen=True, slots=True, kw_only=True)
class CureResult:
    """Sentences about the cause, and a remedy and a command that replace those of the table row."""

    because: tuple[str, ...] = ()
    remedy: str = ""
    command: str | None = None  # ``None`` keeps the command of the row; an empty text means that no command helps
    values: Mapping[str, str] = field(default_factory=dict)


def host_words(facts: HostFacts | None) -> str:
    """Return the options that name a host in a command; this machine needs none."""
    import shlex  # noqa: PLC0415 - only where a command is given

    if facts is None or (facts.detected and not facts.asked_as and not facts.members):
        return ""
    return shlex.join(("--host", facts.asked_as) if facts.asked_as else host_options(facts))


def resolve_command(context: LogContext, *options: str, gpus: str = "") -> str:
    """Return the `cuenv resolve` command for the host; ``gpus`` replaces the host options on this machine."""
    facts = context.facts
    if facts and driver_mismatch(
        context
    ):  # what failed is the machine of the line; one that was named is chosen for as it is
        options = () if facts.asked_as else options
        facts = facts if facts.asked_as else replace(facts, driver=driver_of(context), detected=False, members=())
    driver = facts.driver if facts and facts.gpus and not facts.detected else None
    level = f"CONDA_OVERRIDE_CUDA={driver.cuda}" if driver and driver.cuda and not driver.version else ""
    words = (level, RESOLVE, host_words(facts) or gpus, *options, "-o environment.yml")
    return " ".join(filter(None, words))


def torch_of(context: LogContext) -> tuple[Version | None, Version | None]:
    """Return the version and the CUDA of torch: from the environment, else from the log."""
    if context.prefix:
        package = context.prefix.package("pytorch")
        if package:
            return version_or_none(package.version), build_cuda(package.build)
        wheel = context.prefix.wheel("torch")
        if wheel:
            found = cuda_release_of_wheels(context.prefix)
            return version_or_none(wheel.version), found[0] if found else None
    text = context.mentions.get("torch", "")
    cuda = version_or_none(context.mentions.get("cuda", ""))
    return version_or_none(text), cuda_in_local(text) or cuda or build_cuda(context.builds.get("pytorch", ""))


def driver_of(context: LogContext) -> Driver | None:
    """Return the driver that programs use: from the host, else from the log; the line decides its CUDA version."""
    found = with_effective_driver(context.facts, context.knowledge).driver if context.facts else None
    text = (found.version if found else None) or context.mentions.get("driver")
    own = (found.cuda if found else None) or (context.knowledge.cuda_of(text) if text else None)
    cuda = version_or_none(context.groups.get("level", ""))
    if cuda and own and cuda != own:
        return Driver(cuda=cuda)  # the line speaks of another driver than the one that is known
    level = cuda or own
    return Driver(version=text, cuda=level) if text or level else None


def driver_mismatch(context: LogContext) -> tuple[str, ...]:
    """Return a sentence if the line is about another driver than that of the host."""
    cuda, driver = (version_or_none(context.groups.get("level", "")), context.facts.driver if context.facts else None)
    level = driver.cuda if driver else None
    if context.facts is None or cuda is None or level is None or cuda == level:
        return ()
    whose = "that was given for it" if context.facts.label == _LOG else f"of {context.facts.label}"
    named = f"driver {driver.version} {whose}" if driver and driver.version else f"{context.facts.label}"
    return (
        f"the line is about a driver for CUDA {cuda}, but {named} supports CUDA {level}: they are different machines",
    )


def driver_cuda(context: LogContext) -> Version | None:
    """Return the CUDA version that the driver supports."""
    driver = driver_of(context)
    return driver.cuda if driver else None


def capabilities(context: LogContext) -> tuple[Capability, ...]:
    """Return the compute capability that the line names, else those of the host."""
    text = context.groups.get("sm")
    if text:
        return (Capability.parse(text.rstrip("af")),)
    return context.facts.capabilities if context.facts else ()


def rule_host(context: LogContext) -> HostFacts:
    """Return the host for the rules: facts from the log replace those of the machine."""
    facts = context.facts or HostFacts(label=_LOG, platform=PLATFORMS[0])
    if context.groups.get("level") or not facts.driver:
        own, driver = with_effective_driver(facts, context.knowledge).driver, driver_of(context)
        label = (
            _LOG if driver and (own is None or driver_mismatch(context)) else facts.label
        )  # it is no driver of that host
        facts = replace(facts, label=label, driver=driver, members=())
    if context.groups.get("sm"):
        gpus = tuple(Gpu(index=0, name="", capability=capability) for capability in capabilities(context))
        facts = replace(facts, gpus=gpus, members=())
    return facts


def rule_verdict(context: LogContext, name: str, candidate: Candidate) -> Verdict:
    """Return the verdict of a `cuenv resolve` rule on a candidate for the host."""
    return verdict_of(
        name, candidate, Context(facts=rule_host(context), request=Request(dev=True), knowledge=context.knowledge)
    )


def text_with_code(verdict: Verdict) -> str:
    """Return the reason of a verdict; one that is not a pass ends with the finding code of its rule."""
    return verdict.because + ("" if verdict.outcome == "pass" else f" ({rule_named(verdict.rule).code})")


def minimum_driver_verdict(context: LogContext, cuda: Version) -> Verdict:
    """Return the verdict of the minimum-driver rule on a CUDA release."""
    return rule_verdict(context, "driver-floor", bare_candidate(cuda, rule_host(context).platform))


def newest_supported_cuda(context: LogContext) -> Version | None:
    """Return the newest CUDA among the torch builds that the driver can run."""
    cudas = {row.cuda for row in context.knowledge.torch if row.cuda}
    return max((cuda for cuda in cudas if minimum_driver_verdict(context, cuda).outcome != "reject"), default=None)


def in_docker_build(context: LogContext) -> bool:
    """Return whether the log comes from a docker build."""
    return "docker" in context.frameworks or "step" in context.mentions


Cure: TypeAlias = Callable[[LogContext], CureResult]
CURES: dict[str, Cure] = {}  # every cure, by the name that table rows use


def cure(function: Cure) -> Cure:
    """Register a cure by its function name, which rows of the symptom table name as ``join``."""
    if function.__name__ in CURES:
        raise TypeError(f"two cures are named {function.__name__}")
    CURES[function.__name__] = function
    return function
