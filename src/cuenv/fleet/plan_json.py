"""Plans as JSON, schema ``cuenv/fleet-plan/1``, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import TYPE_CHECKING, Any

from cuenv.core.errors import InputError
from cuenv.core.reading import Faults, Reader, unique_keys
from cuenv.core.record import dataclass, replace
from cuenv.core.versions import Capability, check_driver, version
from cuenv.fleet.nodes import NodeKind, fold, host_summary
from cuenv.fleet.plan import FleetPlan, Price, Proof, UnsupportedHosts
from cuenv.fleet.reasons import Help, Merge, merge_text, nodes_of, nothing_serves, why_separate
from cuenv.host.facts import Driver, Gpu, HostFacts, Libc, Surroundings
from cuenv.host.request import Request, parse
from cuenv.knowledge.base import Knowledge
from cuenv.resolver.candidates import Candidate
from cuenv.resolver.rules import rule_named

if TYPE_CHECKING:  # types alone
    from cuenv.fleet.documents import (
        FleetEnvironmentFields,
        FleetHintFields,
        FleetHopelessFields,
        FleetKindFields,
        FleetPairFields,
        FleetPlanDocument,
        FleetPriceFields,
        FleetProofFields,
        FleetRequestFields,
        FleetUnknownFields,
    )
    from cuenv.fleet.nodes import Unknown

SCHEMA = "cuenv/fleet-plan/1"
MAKE = "cuenv fleet plan fleet.ndjson --json > plan.json"


def plan_plain(
    plan: FleetPlan, knowledge: Knowledge, broken: Iterable[str] = (), written: Iterable[str] = ()
) -> FleetPlanDocument:
    """A plan as JSON."""
    places = {kind.names: place for place, kind in enumerate(plan.kinds)}
    homes = {kind.names: item.name for item in plan.environments for kind in item.kinds}
    return {
        "schema": "cuenv/fleet-plan/1",
        "knowledge": knowledge.edition,
        "request": _request(plan.request),
        "hosts": sum(kind.weight for kind in plan.kinds) + sum(len(item.names) for item in plan.unknown),
        "at_most": plan.limit,
        "assumed_glibc": str(plan.assumed.version) if plan.assumed else None,
        "environments": [_environment(item.name, item.candidate, item.names) for item in plan.environments],
        "kinds": [_kind(kind, homes.get(kind.names)) for kind in plan.kinds],
        "prices": [_price(item) for item in plan.prices],
        "proofs": [_proof(item, places, plan.request, knowledge) for item in plan.proofs],
        "unknown": unknown_plain(plan.unknown),
        "hopeless": [_hopeless(item, helped) for item, helped in helps(plan, knowledge)],
        "hints": [_hint(item) for item in plan.merges],
        "broken": list(broken),
        "written": list(written),
    }


def helps(plan: FleetPlan, knowledge: Knowledge) -> Iterator[tuple[UnsupportedHosts, Help]]:
    """The hosts without an environment, each with what would help."""
    for item in plan.hopeless:
        yield item, nothing_serves(item.kinds[0], plan.request, knowledge)


def unknown_plain(items: Iterable[Unknown]) -> list[FleetUnknownFields]:
    """The nodes that lack facts, as JSON."""
    return [{"nodes": fold(item.names), "hosts": len(item.names), "lacks": list(item.lacks)} for item in items]


def _request(asked: Request) -> FleetRequestFields:
    return {
        "name": asked.name,
        "stack": asked.stack,
        "pytorch": asked.pytorch.text if asked.pytorch else None,
        "cuda": asked.cuda.text if asked.cuda else None,
        "python": asked.python.text if asked.python else None,
        "packages": list(asked.packages),
        "pip": list(asked.pip),
        "dev": asked.dev,
        "cpu": asked.cpu,
        "prefer": asked.prefer,
        "offload": asked.offload,
        **({"as_of": asked.as_of} if asked.as_of else {}),  # type: ignore[typeddict-item] # one key, or none
    }


def _environment(name: str, item: Candidate, names: tuple[str, ...]) -> FleetEnvironmentFields:
    return {
        "name": name,
        "nodes": fold(names),
        "hosts": len(names),
        "pytorch": str(item.build.version),
        "build": item.build.build,
        "stack": item.build.stack,
        "cuda": str(item.cuda) if item.cuda else None,
        "python": item.python,
        "label": item.label.label if item.label else None,
        "platform": item.build.platform,
    }


def _kind(kind: NodeKind, environment: str | None) -> FleetKindFields:
    facts = kind.facts
    driver, libc = facts.driver, facts.libc
    return {
        "nodes": fold(kind.names),
        "hosts": kind.weight,
        "platform": facts.platform,
        "gpus": [{"name": gpu.name, "capability": str(gpu.capability)} for gpu in facts.gpus],
        "driver": driver.version if driver else None,
        "cuda": str(driver.cuda) if driver and driver.cuda else None,
        "libc": {"family": libc.family, "version": str(libc.version)} if libc else None,
        "wsl": facts.environment.wsl,
        "environment": environment,
    }


def _price(item: Price) -> FleetPriceFields:
    return {
        "environments": item.number,
        "possible": item.possible,
        "choice": [str(candidate) for candidate in item.environments],
        "hosts_with_less": sum(less.of.weight for less in item.less),
        "less": [
            {
                "nodes": fold(less.of.names),
                "hosts": less.of.weight,
                "gets": str(less.gets),
                "best": str(less.best),
                "worse": less.worse,
            }
            for less in item.less
        ],
        "exact": item.exact,
    }


def _proof(item: Proof, places: dict[tuple[str, ...], int], request: Request, knowledge: Knowledge) -> FleetProofFields:
    pairs: list[FleetPairFields] = []
    for one, other in combinations(item.hosts, 2) if len(item.hosts) == item.count else ():
        found = why_separate(one, other, request, knowledge, well=item.well)
        pairs.append(
            {
                "one": places[one.names],
                "other": places[other.names],
                "says": found.says,
                "rules": [
                    {"rule": each.rule, "code": rule_named(each.rule).code, "because": each.because}
                    for each in found.rules
                ],
            }
        )
    hosts = [places[kind.names] for kind in item.hosts]
    return {"environments": item.count, "well": item.well, "kinds": hosts, "pairs": pairs}


def _hopeless(item: UnsupportedHosts, helped: Help) -> FleetHopelessFields:
    return {
        "nodes": fold(item.names),
        "hosts": len(item.names),
        "says": item.kinds[0].says,
        "rule": helped.rule,
        "because": helped.because,
        "would_help": helped.would_help or None,
    }


def _hint(item: Merge) -> FleetHintFields:
    return {
        "saves": item.saves,
        "drivers": [
            {"driver": driver, "nodes": nodes_of(kinds), "hosts": sum(kind.weight for kind in kinds)}
            for driver, kinds in item.drivers
        ],
        "text": merge_text(item),
    }


@dataclass(frozen=True, kw_only=True)
class PlanClaims:
    """The claims of a plan: its environments with their hosts, and the proofs."""

    request: Request
    edition: str
    # what identifies each candidate, and the hosts that it serves
    environments: tuple[tuple[str, tuple[str | None, ...], tuple[HostFacts, ...]], ...]
    # how many are needed, whether for all to be served well, and the hosts that show it
    proofs: tuple[tuple[int, bool, tuple[HostFacts, ...]], ...]
    hosts: int  # how many the plan speaks of; ``counted`` are in its kinds or unknown
    counted: int
    limit: int | None
    nowhere: tuple[HostFacts, ...]  # hosts that it says nothing serves


def identity(item: Candidate) -> tuple[str | None, ...]:
    """The values that identify a candidate in a plan."""
    plain = _environment("", item, ())
    keys = ("pytorch", "build", "stack", "cuda", "python", "label", "platform")
    return tuple(plain[key] for key in keys)  # type: ignore[literal-required]  # they stand right above


def read_plan(text: str, source: str) -> PlanClaims:
    """Read a plan.

    Raises:
        InputError: with every fault in it and its path.
    """
    faults = Faults(source)
    try:
        data: Any = json.loads(text, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        why = error if isinstance(error, ValueError) else "it is nested too deeply"
        raise InputError(f"{source} is not JSON: {why}", hint=MAKE) from error
    reader = Reader(data, faults)
    schema = reader.text("schema")
    if schema != SCHEMA:
        faults.add("schema", f"expected {SCHEMA}, got {schema!r}")
        faults.check(hint=MAKE)
    asked = reader.reader("request")
    request = _read_request(asked, source) if asked else Request()
    kinds = [_read_kind(item) for item in reader.readers("kinds", required=True)]
    environments: list[tuple[str, tuple[str | None, ...], tuple[HostFacts, ...]]] = []
    for item in reader.readers("environments", required=True):
        name = item.text("name")
        keys = tuple(item.get(key, str) for key in ("pytorch", "build", "stack", "cuda", "python", "label", "platform"))
        environments.append((name, keys, tuple(facts for facts, _, home in kinds if home == name)))
    proofs: list[tuple[int, bool, tuple[HostFacts, ...]]] = []
    for item in reader.readers("proofs", required=True):
        places = item.raw("kinds")
        known = isinstance(places, list) and all(type(at) is int and 0 <= at < len(kinds) for at in places)
        if not known:
            item.faults.add(item.at("kinds"), "expected places of kinds")
        count, well = item.get("environments", int) or 0, bool(item.get("well", bool))
        proofs.append((count, well, tuple(kinds[at][0] for at in places) if known else ()))
    unknown = sum(item.get("hosts", int) or 0 for item in reader.readers("unknown"))
    found = PlanClaims(
        request=request,
        edition=reader.text("knowledge"),
        environments=tuple(environments),
        proofs=tuple(proofs),
        hosts=reader.get("hosts", int) or 0,
        counted=sum(count for _, count, _ in kinds) + unknown,
        limit=reader.get("at_most", int),
        nowhere=tuple(facts for facts, _, home in kinds if home is None),
    )
    faults.check(hint=MAKE)
    return found


def _read_request(reader: Reader, source: str) -> Request:
    """Read the request with the reader of profiles, which has all its keys but ``cpu``."""
    names = ("name", "stack", "pytorch", "cuda", "python", "pip", "dev", "prefer", "offload")
    data = {name: value for name in names if (value := reader.raw(name)) is not None}
    found = parse({"story": "", "with": reader.raw("packages") or [], **data}, source, reader.path)
    return replace(found, cpu=bool(reader.get("cpu", bool)), as_of=reader.get("as_of", str) or "")


def _read_kind(reader: Reader) -> tuple[HostFacts, int, str | None]:
    gpus = [
        Gpu(index=at, name=item.get("name", str) or "", capability=item.parsed("capability", Capability.parse))
        for at, item in enumerate(reader.readers("gpus"))
    ]
    own, level = reader.parsed("driver", check_driver), reader.parsed("cuda", version)
    libc = reader.reader("libc")
    found = Libc(family=libc.text("family"), version=libc.parsed("version", version) or version("0")) if libc else None
    facts = HostFacts(
        label="",
        platform=reader.text("platform"),
        driver=Driver(version=own, cuda=level) if own or level else None,
        gpus=tuple(gpus),
        libc=found,
        environment=Surroundings(wsl=bool(reader.get("wsl", bool))),
    )
    return replace(facts, label=host_summary(facts)), reader.get("hosts", int) or 0, reader.get("environment", str)
