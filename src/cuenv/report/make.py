"""Reports of a decision, a lock, an installed environment and a fleet: what was found, arranged for a reader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from cuenv.core.findings import ComponentSupport, Finding, Report, counted
from cuenv.core.record import NamedTuple, replace
from cuenv.host.describe import host_line
from cuenv.host.facts import HostFacts
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import WHEELS
from cuenv.lockfile.check import LockCheck
from cuenv.lockfile.coverage import coverage
from cuenv.lockfile.host_check import candidate_of, candidate_without_torch, judge_solution
from cuenv.report.builds import builds
from cuenv.report.components import component_grid, components_of, driver_of, extensions_of, limit
from cuenv.report.drivers import drivers
from cuenv.report.fleets import nodes, prices
from cuenv.report.page import Cited, ReportPage, ReportSection, Table, head_of
from cuenv.report.sizes import SizedPackage, parts_of, sizes
from cuenv.resolver.candidates import Candidate
from cuenv.resolver.decision import Decision, decide
from cuenv.resolver.effective_driver import with_effective_driver
from cuenv.resolver.explain import chosen_line, hints, rank_text, reason_text
from cuenv.resolver.rules import LAYERS, Context, Verdict, minimum_driver, rule_named
from cuenv.solve.model import Solution

if TYPE_CHECKING:  # types alone
    from cuenv.fleet.documents import FleetPlanDocument
    from cuenv.prefix.check import PrefixCheck

_NO_SIZES = (
    "The size of the packages is not known: a conda-lock.yml does not contain it, and no channel records on this "
    "machine list it. The report on a pixi.lock, a pylock.toml or an installed environment (--prefix) has this picture."
)
_NEEDED = (*LAYERS, "gpu", "driver-gpu", "driver-floor")  # rules of which an unknown leaves the whole answer open
_OUTCOMES = {"pass": "✓ passes", "warn": "! warns", "reject": "✕ rejects", "unknown": "? unknown"}


def decision_page(decision: Decision, findings: Sequence[Finding] = ()) -> ReportPage:
    """The report on what `cuenv resolve` chooses for a host.

    Args:
        findings: what is odd about the machine or the request.
    """
    case, chosen = decision.context, decision.chosen
    facts, knowledge = case.facts, case.knowledge
    sections = []
    lead = []
    if chosen:
        uses_gpus = chosen.candidate.cuda is not None
        components = _with_driver(chosen.candidate, components_of(chosen.candidate, case), case) if uses_gpus else []
        picture = component_grid(components, facts)
        lead = [limit(components, facts)] if picture else [] if uses_gpus else ["A CPU build uses no GPU."]
        lead.append(f"{chosen_line(decision)}. Why this one: {rank_text(decision)}.")
        sections += [ReportSection(title="Limiting components", picture=picture)] if picture else []
    else:
        lead = [f"{counted(group.count, 'candidate')} rejected: {group.because}." for group in decision.rejections[:3]]
    lead += [f"{hint.text}: {hint.command}" for hint in hints(decision)]
    candidate = chosen.candidate if chosen else None
    sections += _on_host(candidate, decision.minimum_driver, case, decision)
    verdicts = chosen.verdicts if chosen else tuple(group.lead for group in decision.rejections)
    sections += _reasons(verdicts, knowledge)
    found = head_of(findings, "fine")
    if chosen and found[0] == "fine":
        silent = any(one.outcome == "unknown" and one.rule in _NEEDED for one in chosen.verdicts)
        found = (
            ("unsure", f"? {chosen.candidate} fits as far as is known")
            if silent
            else ("fine", f"✓ {chosen.candidate} fits")
        )
    return ReportPage(
        title=f"PyTorch and CUDA: {facts.label}",
        verdict=found if chosen else ("bad", "✕ No build fits this host"),
        lead=tuple(lead),
        facts=_facts(facts, knowledge),
        findings=tuple(findings),
        sections=tuple(sections),
    )


def lock_page(checked: LockCheck, knowledge: Knowledge) -> ReportPage:
    """A report on a lock for a host."""
    facts, lock = with_effective_driver(checked.facts, knowledge), checked.lock
    solution = lock.solution(facts.platform) if lock else None
    solution = solution or (lock.solutions[0] if lock and lock.solutions else None)
    page = _environment_page(
        checked.report, solution=solution, components=checked.components, facts=facts, knowledge=knowledge
    )
    looked = (("checked", ", ".join(checked.report.looked_at[:1])),)
    return replace(page, facts=(*looked, *page.facts))


class ReadPrefix(NamedTuple):
    """The data about an installed environment that a report needs beside its check."""

    solution: Solution  # its packages
    libraries: ReportSection  # what `cuenv scan` found in it
    parts: tuple[SizedPackage, ...]  # its packages by size


def prefix_page(checked: PrefixCheck, read: ReadPrefix | None, knowledge: Knowledge) -> ReportPage:
    """The report on an installed environment.

    Args:
        read: what is read beside it; without it the findings and the checks are all.
    """
    table = Table(
        ("check", "result", "what was looked at"), tuple((one.name, one.status, one.says) for one in checked.checks)
    )
    checks = ReportSection(title="What was checked", table=table)
    if read is None:
        page = findings_page(checked.report)
        return replace(
            page, facts=_facts(with_effective_driver(checked.facts, knowledge), knowledge), sections=(checks,)
        )
    facts = with_effective_driver(checked.facts, knowledge)
    page = _environment_page(
        checked.report,
        solution=read.solution,
        components=coverage(read.solution, facts, knowledge),
        facts=facts,
        knowledge=knowledge,
        parts=read.parts,
    )
    return replace(page, sections=(*page.sections[:1], read.libraries, *page.sections[1:], checks))


def findings_page(report: Report) -> ReportPage:
    """The report on findings alone."""
    return ReportPage(
        title=report.title,
        verdict=head_of(report.findings, report.verdict(strict=False)),
        facts=(("checked", ", ".join(report.looked_at)),) if report.looked_at else (),
        findings=report.findings,
    )


def fleet_page(plan: FleetPlanDocument, source: str) -> ReportPage:
    """The report on the plan of a fleet."""
    placed = sum(item["hosts"] for item in plan["environments"])
    missing = plan["hosts"] - placed
    count = counted(len(plan["environments"]), "environment")
    lead = [f"{count} for {placed} of {counted(plan['hosts'], 'host')}."]
    lead += [item["text"] for item in plan["hints"]]
    lead += (
        [f"glibc {plan['assumed_glibc']} was assumed for hosts whose glibc is not known."]
        if plan["assumed_glibc"]
        else []
    )
    sections = [ReportSection(title="Hosts by environment", picture=nodes(plan))]
    sections.append(ReportSection(title="What another number of environments would cost", picture=prices(plan)))
    pairs = [(f"at least {proof['environments']}", pair["says"]) for proof in plan["proofs"] for pair in proof["pairs"]]
    if pairs:
        says = ("The command 'cuenv fleet verify PLAN' checks these statements without the planner.",)
        sections.append(
            ReportSection(title="Why fewer are not enough", says=says, table=Table(("needed", "because"), tuple(pairs)))
        )
    helps = [(one["nodes"], one["because"], one["would_help"] or "nothing known") for one in plan["hopeless"]]
    if helps:
        table = Table(("nodes", "why no build supports them", "what would help"), tuple(helps))
        sections.append(ReportSection(title="Hosts without an environment", table=table))
    if plan["broken"]:
        rows = tuple((str(number), text) for number, text in enumerate(plan["broken"], 1))
        sections.append(
            ReportSection(title="Inputs that could not be read", table=Table(("", "part of the input"), rows))
        )
    serve = "supports" if len(plan["environments"]) == 1 else "support"
    return ReportPage(
        title=f"Environments of the fleet {source}",
        verdict=("bad", f"✕ {counted(missing, 'host')} without an environment")
        if missing
        else ("fine", f"✓ {count} {serve} every host"),
        lead=tuple(lead),
        facts=(("tables", f"edition {plan['knowledge']}"),),
        sections=tuple(sections),
    )


def _environment_page(
    report: Report,
    *,
    solution: Solution | None,
    components: Sequence[ComponentSupport],
    facts: HostFacts,
    knowledge: Knowledge,
    parts: Sequence[SizedPackage] | None = None,
) -> ReportPage:
    torch = candidate_of(solution, knowledge) if solution else None
    candidate = torch or (candidate_without_torch(solution, knowledge) if solution else None)
    lead: list[str] = []
    sections: list[ReportSection] = []
    verdicts: tuple[Verdict, ...] = ()
    if solution and candidate and candidate.cuda:
        case, verdicts = judge_solution(solution, candidate, facts, knowledge)
        every = [*components, *extensions_of(candidate, case.request.pip, case)] if facts.capabilities else []
        every = _with_driver(candidate, every, case)
        picture = component_grid(every, facts)
        if torch is None:
            lead.append(
                f"The environment has CUDA {candidate.cuda} and no PyTorch; the tables do not list what else uses CUDA."
            )
        lead += [limit(every, facts)] if picture and (torch or every[0].cut) else []
        without = (
            "" if picture else "No GPU of the host is known, so no component was compared with one: name it with --gpu."
        )
        sections.append(ReportSection(title="Limiting components", picture=picture, without=without))
        stack = WHEELS if candidate.build.stack == WHEELS else None  # conda's channels are compared with each other
        decision = decide(replace(case, request=replace(case.request, stack=stack))) if torch else None
        sections += _on_host(candidate, minimum_driver(candidate, case), case, decision)
    else:
        lead.append("The environment has no CUDA, so nothing in it was compared with the GPUs.")
        sections += [ReportSection(title="The driver", picture=drivers(None, None, facts, knowledge))]
    if solution:
        sections.append(_size_section(solution, parts, knowledge))
    sections += _reasons(verdicts, knowledge)
    return ReportPage(
        title=report.title,
        verdict=head_of(report.findings, report.verdict(strict=False)),
        lead=tuple(lead),
        facts=_facts(facts, knowledge),
        findings=report.findings,
        sections=tuple(
            section for section in sections if section.picture or section.without or section.table or section.sources
        ),
    )


def _size_section(solution: Solution, parts: Sequence[SizedPackage] | None, knowledge: Knowledge) -> ReportSection:
    known, unknown = parts_of(solution, knowledge) if parts is None else (tuple(parts), 0)
    what = "as archives to download" if parts is None else "as files on disk"
    picture = sizes(known, unknown, what)
    return ReportSection(title="Size", picture=picture, without="" if picture else _NO_SIZES)


def _with_driver(candidate: Candidate, components: Iterable[ComponentSupport], case: Context) -> list[ComponentSupport]:
    driver = driver_of(candidate, case)
    return [*([driver] if driver else []), *components]


def _on_host(
    candidate: Candidate | None, lowest: str | None, case: Context, decision: Decision | None
) -> Iterator[ReportSection]:
    driver = drivers(candidate, lowest, case.facts, case.knowledge)
    if driver:
        yield ReportSection(title="The driver", picture=driver)
    picture = builds(decision, candidate) if decision and case.facts.gpus and not case.request.cpu else None
    if picture:
        yield ReportSection(title="All builds", picture=picture)


def _reasons(verdicts: Sequence[Verdict], knowledge: Knowledge) -> Iterator[ReportSection]:
    """The verdict of each rule with its reasons, and the numbered sources."""
    if not verdicts:
        return
    cited: dict[str, int] = {}
    rows = []
    for verdict in verdicts:
        reasons = "; ".join(reason_text(reason, knowledge, cited) for reason in verdict.reasons)
        rule = rule_named(verdict.rule)
        rows.append((rule.title, _OUTCOMES[verdict.outcome], verdict.because, reasons))
    yield ReportSection(title="What each rule says", table=Table(("rule", "result", "because", "reasons"), tuple(rows)))
    sources = (knowledge.sources[name] for name in cited)
    yield ReportSection(
        title="Sources", sources=tuple(Cited(f"{row.shown}, read {row.read_on}.", row.url) for row in sources)
    )


def _facts(facts: HostFacts, knowledge: Knowledge) -> tuple[tuple[str, str], ...]:
    libc = f"{facts.libc.family} {facts.libc.version}" if facts.libc else "not known"
    return (("host", host_line(facts)), ("C library", libc), ("tables", f"edition {knowledge.edition}"))
