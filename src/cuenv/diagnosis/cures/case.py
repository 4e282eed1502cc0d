"""A symptom in its place: the log, the host and the environment that it is of, and what they tell about each other.

A cure takes a `LogContext` and says what it knows; where the facts are silent it says nothing, and the row of the table
speaks alone.
"""

from __future__ import annotations

import re
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
            found = cuda_release_of_wheels(case.prefix)
            return version_or_none(wheel.version), found[0] if found else None
    text = case.mentions.get("torch", "")
    cuda = version_or_none(case.mentions.get("cuda", ""))
    return version_or_none(text), cuda_in_local(text) or cuda or build_cuda(case.builds.get("pytorch", ""))


def driver_of(case: LogContext) -> Driver | None:
    """The driver that programs get: of the host, else as the log mentions it; its CUDA release as the line tells it."""
    found = with_effective_driver(case.facts, case.knowledge).driver if case.facts else None
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
    return (
        f"the line is about a driver for CUDA {told}, but {named} supports CUDA {level}: they are different machines",
    )


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
        own, driver = with_effective_driver(facts, case.knowledge).driver, driver_of(case)
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


def in_image(case: LogContext) -> bool:
    """Whether the log is of an image that docker builds."""
    return "docker" in case.frameworks or bool(re.match(r"#[0-9]{1,4} [0-9.]{1,9} ", case.line))


Join: TypeAlias = Callable[[LogContext], Joined]
JOINS: dict[str, Join] = {}
"""Every cure, by the name that rows give."""


def join(function: Join) -> Join:
    """Register a cure under the name of its function, which rows of the table of symptoms give as ``join``."""
    if function.__name__ in JOINS:
        raise TypeError(f"two cures are named {function.__name__}")
    JOINS[function.__name__] = function
    return function
