"""Values of the public API as a notebook shows them: with the pictures of the report."""

from __future__ import annotations

from typing import Any

from cuenv.core.findings import Report, counted
from cuenv.fleet.plan import FleetPlan
from cuenv.fleet.plan_json import plan_plain
from cuenv.knowledge.io.load import load
from cuenv.lockfile.check import LockCheck
from cuenv.lockfile.coverage import coverage
from cuenv.lockfile.lock import Locked
from cuenv.prefix.check import PrefixCheck
from cuenv.report.make import decision_page, findings_page, fleet_page, lock_page, prefix_page
from cuenv.report.page import ReportPage, snippet
from cuenv.resolver.decision import Decision
from cuenv.resolver.resolve import Resolution


def drawn(item: Any) -> str | None:
    """A value as HTML; ``None`` if there is no page for it."""
    page = page_of(item)
    return snippet(page) if page else None


def page_of(item: Any) -> ReportPage | None:
    """The report on a value; ``None`` if there is no page for it."""
    if isinstance(item, Resolution):
        return decision_page(item.decision, item.findings)
    if isinstance(item, Decision):
        return decision_page(item)
    if isinstance(item, Report):
        return findings_page(item)
    knowledge = load(None)
    if isinstance(item, LockCheck):
        return lock_page(item, knowledge)
    if isinstance(item, Locked):
        mine = item.lock.solution(item.facts.platform) if item.lock else None
        components = coverage(mine, item.facts, knowledge) if mine else ()
        return lock_page(
            LockCheck(report=item.report, facts=item.facts, components=components, lock=item.lock), knowledge
        )
    if isinstance(item, FleetPlan):
        count = sum(kind.weight for kind in item.kinds)
        return fleet_page(plan_plain(item, knowledge), f"of {counted(count, 'host')}")
    if isinstance(item, PrefixCheck):
        return prefix_page(item, None, knowledge)
    return None
