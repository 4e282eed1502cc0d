"""The text of plans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import TYPE_CHECKING

from cuenv.core.findings import counted
from cuenv.fleet.nodes import Unknown, fold
from cuenv.fleet.plan import Downgrade, FleetPlan, Price, candidate_name
from cuenv.fleet.plan_json import helps
from cuenv.fleet.reasons import merge_text, why_separate
from cuenv.knowledge.base import Knowledge

if TYPE_CHECKING:  # a plan needs neither
    from cuenv.fleet.check import FleetChecked
    from cuenv.fleet.diff import FleetDiff

_LONG = 400
_SHOWN = 4  # classes of hosts with less that are named without -v


def plan_lines(plan: FleetPlan, knowledge: Knowledge, *, verbose: bool = False) -> Iterator[str]:
    """The text of a plan: the environments, what fewer would cost, the proof, and hosts without environment."""
    placed = sum(len(item.names) for item in plan.environments)
    if plan.environments:
        count = len(plan.environments)
        yield f"plan    {counted(count, 'environment')} for {counted(placed, 'host')}"
        for item in plan.environments:
            hosts = counted(len(item.names), "host")
            who = f"{_nodes(item.names, whole=verbose)} ({hosts})"
            yield f"        {item.name}: {candidate_name(item.candidate)}: {who}"
    yield from _price_lines(plan, knowledge, verbose=verbose)
    for hint in plan.merges:
        yield f"hint: {merge_text(hint)}"
    for hopeless, found in helps(plan, knowledge):
        if hopeless.bare:
            yield f"note    no environment for {_nodes(hopeless.names, whole=verbose)}: {found.because}"
            continue
        would = f"; what would help: {found.would_help}" if found.would_help else ""
        names, hosts = _nodes(hopeless.names, whole=verbose), counted(len(hopeless.names), "host")
        yield f"error: no environment supports {names} ({hosts}; {hopeless.kinds[0].says}): {found.because}{would}"
    yield from unknown_lines(plan.unknown)
    if plan.assumed:
        yield f"note    glibc {plan.assumed.version} was assumed for hosts whose glibc is unknown"


def unknown_lines(items: Iterable[Unknown], then: str = "; --assume-glibc VERSION assumes one") -> Iterator[str]:
    """The lines on hosts that lack facts."""
    for item in items:
        lacks, hosts = " and ".join(item.lacks), counted(len(item.names), "host")
        more = then if item.lacks == ("glibc",) else ""
        verb = "is" if len(item.lacks) == 1 else "are"
        yield f"unknown {fold(item.names)}: the {lacks} of {hosts} {verb} not known{more}"


def check_fleet_lines(found: FleetChecked, *, verbose: bool = False) -> Iterator[str]:
    """The lines on which hosts can use each lock."""
    for item in found.locks:
        serves = _nodes(item.names, whole=verbose) or "none"
        yield f"lock    {item.path} supports {serves} ({len(item.names)} of {counted(found.hosts, 'host')})"
        for refusal in item.refusals:
            names = _nodes(refusal.names, whole=verbose)
            yield f"        not {names}: {refusal.finding.code} {refusal.finding.message}"
    if found.bare:
        yield f"note    not judged: {_nodes(found.bare, whole=verbose)}, without a GPU"
    if found.unserved:
        hosts = counted(len(found.unserved), "host")
        yield f"error: no lock supports {_nodes(found.unserved, whole=verbose)} ({hosts})"
    yield from unknown_lines(found.unknown, then="")


def diff_fleet_lines(found: FleetDiff, *, verbose: bool = False) -> Iterator[str]:
    """The lines on what a change of a fleet changes."""
    before, after = len(found.old.environments), len(found.new.environments)
    yield f"plan    {counted(before, 'environment')} before, {after} after"
    for title, some in (("added", found.added), ("removed", found.removed)):
        if some:
            yield f"{title:7} {_nodes(some, whole=verbose)} ({counted(len(some), 'host')})"
    for move in found.moves:
        names, hosts = _nodes(move.names, whole=verbose), counted(len(move.names), "host")
        if move.before is None:
            yield f"gets    {names} ({hosts}): {move.after}"
        elif move.after is not None:
            yield f"moves   {names} ({hosts}): from {move.before} to {move.after}: {move.why}"
    if not found.moves:
        yield "same    every host keeps its environment"


def _price_lines(plan: FleetPlan, knowledge: Knowledge, *, verbose: bool) -> Iterator[str]:
    """The table of what each number of environments costs."""
    least = plan.proofs[0] if plan.proofs else None
    for price in plan.prices:
        if not price.possible:
            continue
        if least and price.number == least.count > 1:
            fewer = f"k<{least.count}     fewer than {least.count} environments"
            lead = "k=1     one environment" if least.count == 2 else fewer
            yield f"{lead} cannot support all hosts: {' '.join(_proof(plan, 0, knowledge))}"
        yield from _price(price, verbose=verbose)
    if least and plan.limit is not None and plan.limit < least.count:
        yield f"error: {counted(plan.limit, 'environment')} cannot support all hosts; {least.count} are needed"
    if len(plan.proofs) > 1:
        well = plan.proofs[1]
        reasons = " ".join(_proof(plan, 1, knowledge))
        yield f"why     with fewer than {well.count}, some GPUs do not get their best environment: {reasons}"


def _proof(plan: FleetPlan, number: int, knowledge: Knowledge) -> Iterator[str]:
    proof = plan.proofs[number]
    if len(proof.hosts) > proof.count:
        yield f"no {proof.count - 1} environments support {'; '.join(kind.says for kind in proof.hosts)}"
        return
    for one, other in combinations(proof.hosts, 2):
        yield f"{why_separate(one, other, plan.request, knowledge, well=proof.well).says}."


def _price(price: Price, *, verbose: bool) -> Iterator[str]:
    choice = " + ".join(map(candidate_name, price.environments))
    count = sum(less.of.weight for less in price.less)
    exact = "" if price.exact else "; a better choice of so many may exist"
    if not count:
        yield f"k={price.number}     {choice}: every host gets its best build{exact}"
        return
    verb = "gets" if count == 1 else "get"
    yield f"k={price.number}     {choice}: {counted(count, 'host')} {verb} less than the best build{exact}"
    shown = _group_downgrades(price.less, whole=verbose)
    for text in shown if verbose else shown[:_SHOWN]:
        yield f"        {text}"
    if len(shown) > _SHOWN and not verbose:
        yield f"        and {counted(len(shown) - _SHOWN, 'further group')}; -v names them"


def _group_downgrades(items: Iterable[Downgrade], *, whole: bool) -> list[str]:
    """The lines on hosts that get less, grouped by what they get instead of what."""
    found: dict[tuple[str, str, bool], list[Downgrade]] = {}
    for item in items:
        found.setdefault((candidate_name(item.gets), candidate_name(item.best), item.worse), []).append(item)
    lines = []
    for (gets, best, worse), some in found.items():
        names = [name for item in some for name in item.of.names]
        how = " and less for the GPUs: PTX, or a library that nobody vouches for" if worse else ""
        lines.append((len(names), f"{_nodes(names, whole=whole)}: {gets} in place of {best}{how}"))
    return [text for _, text in sorted(lines, key=lambda line: (-line[0], line[1]))]


def _nodes(names: Iterable[str], *, whole: bool) -> str:
    """The folded names of nodes; names that cannot be folded are shortened to the first ones."""
    text = fold(names)
    return text if whole or len(text) <= _LONG else f"{text[: text.rindex(',', 0, _LONG)]}, ... (-v names all)"
