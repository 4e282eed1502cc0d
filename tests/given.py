"""Hosts, candidates and packages made by hand, for the tests of the stations that decide and judge."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any

from hypothesis import strategies as st

from cuenv.core.io.files import DATA
from cuenv.core.urls import channel_url
from cuenv.core.versions import Capability, VersionSpec, driver_key, parse_version_spec, version
from cuenv.host.facts import Driver, Evidence, Gpu, HostFacts, glibc
from cuenv.host.io.record import shipped_names
from cuenv.host.request import Request
from cuenv.host.select import HostOptions, host_facts
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.io.load import load, load_from
from cuenv.resolver.candidates import Candidate, candidates
from cuenv.resolver.decision import Decision, decide
from cuenv.resolver.ranking import Assessment
from cuenv.resolver.rules import RULES, Context, Judge, Verdict
from cuenv.solve.environment_spec import EnvironmentSpec, Pin
from cuenv.solve.match_spec import parse_spec
from cuenv.solve.model import LockedPackage, Solution

HOSTS = shipped_names()
WITH_GPU = tuple(name for name in HOSTS if name != "no-gpu")
DRIVERS = tuple(
    sorted(
        {"450.80.02", "470.129.06", "525.60.13", "525.85.12", "535.129.03", "560.35.03", "575.57.08", "580.65.06"}
        | {"515.65.01", "550.144.03", "570.26", "590.48.01", "595.71.05", "615.31"},
        key=driver_key,
    )
)


@lru_cache(maxsize=1)
def base() -> Knowledge:
    """The frozen tables, which expectations rest on."""
    return load()


def shipped_base() -> Knowledge:
    """The tables that ship, which rules over the tables are about."""
    return load_from(DATA)


@lru_cache(maxsize=64)
def shipped(name: str) -> HostFacts:
    return host_facts(HostOptions(hosts=(name,), environ={}), base())


def machine(
    *gpus: str,
    driver: str | None = None,
    level: str | None = None,
    libc: str | None = "2.35",
    label: str = "box",
    platform: str = "linux-64",
) -> HostFacts:
    """One machine; a driver speaks the CUDA of its branch, unless only its level is known."""
    found = Driver(version=driver, cuda=base().cuda_of(driver)) if driver else None
    if level:
        found = Driver(version=driver, cuda=version(level))
    return HostFacts(
        label=label,
        platform=platform,
        detected=True,
        driver=found,
        gpus=tuple(Gpu(index=index, name="", capability=Capability.parse(text)) for index, text in enumerate(gpus)),
        libc=glibc(libc) if libc else None,
        evidence=(Evidence("gpus", "by hand", ", ".join(gpus)), Evidence("driver.version", "by hand", str(driver))),
    )


def options(*gpus: str, driver: str | None = None, libc: str = "2.35", platform: str = "linux-64") -> HostFacts:
    """What ``--gpu``, ``--driver``, ``--glibc`` and ``--platform`` mean."""
    given = HostOptions(gpus=gpus, driver=driver, glibc=libc, platform=platform, environ={})
    return host_facts(given, base())


def version_spec(text: str) -> VersionSpec:
    return parse_version_spec(text, what="wish")


def case(facts: HostFacts, **wishes: Any) -> Context:
    """A case; ``pytorch``, ``cuda`` and ``python`` may be given as text."""
    made: dict[str, Any] = {
        key: version_spec(value) if key in ("pytorch", "cuda", "python") else value for key, value in wishes.items()
    }
    return Context(facts=facts, request=Request(**made), knowledge=base())


def decided(facts: HostFacts, **wishes: Any) -> Decision:
    return decide(case(facts, **wishes))


@cache
def settled(name: str, **wishes: Any) -> Decision:
    """What is decided for a recorded host, made once: a decision does not change."""
    return decided(shipped(name), **wishes)


def choice(decision: Decision) -> Candidate:
    assert decision.chosen is not None, decision.rejections
    return decision.chosen.candidate


def everything(platform: str = "linux-64") -> tuple[Candidate, ...]:
    """Every candidate of a platform; the same objects each time, so that two decisions can be compared."""
    return _everything(platform)


@lru_cache(maxsize=4)
def _everything(platform: str) -> tuple[Candidate, ...]:
    return candidates(base(), platform)


def candidate(pytorch: str, build: str, cuda: str | None = None, *, platform: str = "linux-64") -> Candidate:
    """The candidate of the tables with this torch, build and toolkit (the build's own when none is named)."""
    for item in everything(platform):
        same_build = (str(item.build.version), item.build.build) == (pytorch, build)
        if same_build and item.cuda == (version(cuda) if cuda else item.build.cuda):
            return item
    raise LookupError(f"pytorch {pytorch} {build} {cuda}")


def verdict(rule: str, item: Candidate, facts: HostFacts, **wishes: Any) -> Verdict:
    (found,) = Judge(case(facts, **wishes), [each for each in RULES if each.name == rule]).verdicts(item)
    return found


def fitting(facts: HostFacts, **wishes: Any) -> dict[Candidate, Assessment]:
    """The candidates that fit, of one fixed tuple, so that two hosts can be compared."""
    return {item.candidate: item for item in decide(case(facts, **wishes), everything(facts.platform)).fitting}


def spec(*dependencies: str, channels: Iterable[str] = ("conda-forge",), **more: Any) -> EnvironmentSpec:
    """An environment file as a stranger writes it."""
    pins: tuple[Pin, ...] = tuple(parse_spec(text) for text in dependencies)
    return EnvironmentSpec(name="theirs", channels=tuple(channels), pins=pins, **more)


def package(
    name: str, number: str = "1.0", build: str = "0", channel: str = "conda-forge", **more: Any
) -> LockedPackage:
    """A locked package with hashes."""
    subdir = more.pop("subdir", "linux-64")
    base_url = channel_url(channel)
    mark = f"{name}-{number}-{build}"
    defaults = {
        "md5": hashlib.md5(mark.encode()).hexdigest(),
        "sha256": hashlib.sha256(mark.encode()).hexdigest(),
        "url": f"{base_url}/{subdir}/{mark}.conda",
    }
    made = {**defaults, **more}
    return LockedPackage(name=name, version=number, build=build, subdir=subdir, channel=base_url, **made)


def solution(*packages: LockedPackage, platform: str = "linux-64") -> Solution:
    return Solution(platform=platform, packages=packages, virtual_packages=(), solver="by hand")


CAPABILITIES = tuple(row.capability for row in load().generations)
capabilities = st.sampled_from(CAPABILITIES)
desktop = st.sampled_from([item for item in CAPABILITIES if str(item) not in ("5.3", "6.2", "7.2", "8.7", "10.1")])
drivers = st.sampled_from(DRIVERS)
