"""Repair: the file that does what an environment file was meant to do, each change with its reason.

A lock in which one layer cuts the GPU set needs pins: all sets of them are tried on the solver, smaller ones first,
so that the first that works is the smallest. A file that cannot work at all is decided anew, nearest first.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from itertools import combinations

from cuenv.core import __version__
from cuenv.core.errors import ChannelError, NoChannelError, OutsideError, Progress, UsageError
from cuenv.core.findings import Finding, LayerCoverage, Report, report
from cuenv.core.record import dataclass, replace
from cuenv.core.versions import parse_version_spec
from cuenv.host.facts import HostFacts, virtual_packages
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.lockfile.coverage import coverage, narrowed, repairs, weakest
from cuenv.lockfile.files import host_for, read_environment
from cuenv.lockfile.host_check import candidate_of, host_findings
from cuenv.lockfile.intent import EntryChange, Intent, changes, intent_of, nearness, notes
from cuenv.lockfile.lock import LockRequest
from cuenv.lockfile.pip import before_pip
from cuenv.lockfile.pip_torch import judge_file
from cuenv.resolver.candidates import pythons
from cuenv.resolver.compose import compose
from cuenv.resolver.decision import Decision, decide
from cuenv.resolver.explain import request_options
from cuenv.resolver.policy import asks_for_cpu, spec_findings, wants_cuda
from cuenv.resolver.prove import cuda_offered, prove, unsatisfiable_text
from cuenv.resolver.ranking import Assessment
from cuenv.resolver.resolve import composed, decidable
from cuenv.resolver.rules import Context
from cuenv.resolver.solution_policy import cpu_variants, lock_findings
from cuenv.solve.environment_spec import EnvironmentSpec, Pin
from cuenv.solve.io.sources import Sources
from cuenv.solve.model import Solution, SolveRequest, Unsatisfiable

_TRIES = 60
"""Candidates that are tried; most are answered without a solve."""
_ATTEMPTS = 400
"""Attempts at nearer and nearer candidates; most are answered without a solve."""


@dataclass(frozen=True, kw_only=True)
class Repaired:
    """What came of a repair.

    Attributes:
        report: what is wrong with the file as it is.
        spec: the environment in its place; ``None`` when there is none, and the file itself when nothing is wrong.
        changes: what became of each entry; empty when only ``pins`` were added.
        pins: the smallest set of pins that mends what a layer cuts, and ``tried`` the smaller sets that do not.
        layers: how each layer of the lock serves the GPUs, as it would be without the repair.
        skipped: nearer environments, and why each does not close.
        open: why the channels do not close the file as it is; empty when they do, or were not asked.
    """

    report: Report
    facts: HostFacts
    spec: EnvironmentSpec | None
    changes: tuple[EntryChange, ...] = ()
    pins: tuple[Pin, ...] = ()
    tried: int = 0
    layers: tuple[LayerCoverage, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    open: str = ""

    @property
    def needed(self) -> bool:
        """Whether anything was wrong."""
        return bool(self.report.errors or self.open)


def repair(
    request: LockRequest, knowledge: Knowledge, *, name: str = "environment.yml", progress: Progress | None = None
) -> Repaired:
    """Find the file that does what an environment file was meant to do. Writes nothing.

    Args:
        request: the file, the host and the channels.
        knowledge: the tables.
        name: of the new file, for the command in its head.
        progress: told what is being tried.

    Raises:
        InputError: the file or a channel cannot be read.
        OutsideError: the solver crashed.
    """
    spec, _ = read_environment(request.path)
    found = _repaired(spec, request, knowledge, progress)
    of_pip = before_pip(spec, ())
    if of_pip:  # requirements for pip stay as they are: nobody knows what else was meant
        whole = report(request.path.name, [*found.report.findings, *of_pip])
        found = replace(found, report=whole, spec=found.spec if found.needed else None)
    if found.spec is None or not found.changes:
        return found
    lock = f"cuenv lock {shlex.quote(name)} "
    header = tuple(line.replace("cuenv lock environment.yml ", lock) for line in found.spec.header)
    return replace(found, spec=replace(found.spec, header=header))


def _repaired(spec: EnvironmentSpec, request: LockRequest, knowledge: Knowledge, progress: Progress | None) -> Repaired:
    facts, _ = host_for(request.path, request.host, knowledge, spec.platforms)
    platform = request.host.platform or next(iter(spec.platforms), facts.platform)
    facts = replace(facts, platform=platform)
    title = request.path.name
    early = report(title, [*spec_findings(spec, knowledge), *judge_file(spec, facts, knowledge)])
    if early.errors:
        return _anew(Repaired(report=early, facts=facts, spec=None), spec, request, knowledge, progress)
    answer = _solve(spec, facts, request.sources)
    if isinstance(answer, Unsatisfiable):
        why = unsatisfiable_text(answer, spec)
        return _anew(Repaired(report=early, facts=facts, spec=None, open=why), spec, request, knowledge, progress)
    late = report(title, [*early.findings, *_judged(spec, answer, facts, request.sources, knowledge)])
    layers = coverage(answer, facts, knowledge)
    found = Repaired(report=late, facts=facts, spec=spec, layers=layers)
    if not late.errors:
        return found
    if weakest(layers):
        for tried, pins in enumerate(_sets(repairs(answer, layers, knowledge))):
            if progress:
                progress(f"trying {', '.join(pin.yaml_text() for pin in pins)}")
            if _mends(narrowed(spec, pins), facts, request.sources, knowledge):
                return replace(found, spec=_with_pins(spec, pins, request), pins=pins, tried=tried)
    return _anew(replace(found, spec=None), spec, request, knowledge, progress)


def _sets(pins: tuple[Pin, ...]) -> Iterator[tuple[Pin, ...]]:
    """All sets of pins that are not empty, smaller ones first."""
    for size in range(1, len(pins) + 1):
        yield from combinations(pins, size)


def _solve(spec: EnvironmentSpec, facts: HostFacts, sources: Sources) -> Solution | Unsatisfiable:
    from cuenv.solve.io.solver import solve  # noqa: PLC0415 - the solver is heavy

    channels = spec.channels or ("defaults",)
    request = SolveRequest(
        spec=spec, channels=channels, platform=facts.platform, virtual_packages=virtual_packages(facts)
    )
    return solve(request, sources)


def _judged(
    spec: EnvironmentSpec, solution: Solution, facts: HostFacts, sources: Sources, knowledge: Knowledge
) -> Iterator[Finding]:
    offered = cuda_offered(solution, spec, sources, knowledge)
    names = {pin.name for pin in spec.pins}
    yield from lock_findings(solution.packages, facts.platform, knowledge, offered, names, ours=spec.ours)
    if facts.driver and spec.pin("pytorch") and not asks_for_cpu(spec):
        yield from cpu_variants(solution.packages, knowledge)
    yield from host_findings(solution, facts, knowledge)


def _mends(spec: EnvironmentSpec, facts: HostFacts, sources: Sources, knowledge: Knowledge) -> bool:
    """Whether an environment closes, and nothing is wrong with what it locks."""
    answer = _solve(spec, facts, sources)
    if isinstance(answer, Unsatisfiable):
        return False
    torch = candidate_of(answer, knowledge)
    if torch is None or torch.cuda is None:
        return False
    return not report("", _judged(spec, answer, facts, sources, knowledge)).errors


def _with_pins(spec: EnvironmentSpec, pins: tuple[Pin, ...], request: LockRequest) -> EnvironmentSpec:
    added = ", ".join(pin.yaml_text() for pin in pins)
    header = (f"Written by cuenv {__version__} from {request.path.name}, with {added}.",)
    return replace(narrowed(spec, pins), header=header)


def _anew(
    found: Repaired, spec: EnvironmentSpec, request: LockRequest, knowledge: Knowledge, progress: Progress | None
) -> Repaired:
    """Decide what was meant anew: the candidate nearest to it that the channels can satisfy."""
    facts = found.facts
    if spec.pin("pytorch") is None and not wants_cuda(spec, knowledge):
        return found
    intent = intent_of(spec, knowledge)
    decision = decide(Context(facts=facts, request=intent.profile(), knowledge=knowledge, proving=True))
    skipped: list[tuple[str, str]] = []
    for item, lost in _nearest(decision, intent, request.sources, skipped)[:_ATTEMPTS]:
        then = _case(decision, item, intent, lost)
        answer, solution = prove(then, lambda chosen: _composed(chosen, intent, spec), request.sources, progress)
        if solution is None:
            skipped += [(str(candidate), why) for candidate, why in answer.skipped]
            continue
        made = _composed(replace(then, fitting=(item,)), intent, spec)
        if report(
            "", [*spec_findings(made, knowledge), *_judged(made, solution, facts, request.sources, knowledge)]
        ).errors:
            continue
        told = changes(spec, made, intent, lost, knowledge)
        return replace(found, spec=_told(made, told, spec, request), changes=told, skipped=tuple(skipped))
    return replace(found, skipped=tuple(skipped))


def _case(decision: Decision, item: Assessment, intent: Intent, lost: dict[str, str]) -> Decision:
    """The decision for one candidate, with the packages that can be kept."""
    packages = tuple(pin.yaml_text() for pin in intent.packages if pin.name not in lost)
    request = replace(
        intent.profile(), packages=packages, python=parse_version_spec(item.candidate.python, what="python")
    )
    return replace(decision, case=replace(decision.case, request=request), fitting=(item,))


def _nearest(
    decision: Decision, intent: Intent, sources: Sources, skipped: list[tuple[str, str]]
) -> list[tuple[Assessment, dict[str, str]]]:
    """Each candidate with each of its Pythons, nearest to what was meant first, and the packages it has to lose.

    Raises:
        ChannelError: a channel is there and cannot be read, which says nothing of what it holds.
    """
    driver = decision.case.facts.driver
    level = driver.cuda if driver else None
    found: list[tuple[tuple[object, ...], int, Assessment, dict[str, str]]] = []
    for item in decision.fitting:
        if item.verdict("roles").outcome != "pass":
            continue
        try:
            lost = _lost(decision, item, intent, sources)
        except NoChannelError as error:
            skipped.append((str(item.candidate), error.message))
            continue
        for python in pythons(item.candidate.build, intent.python):
            one = replace(item, candidate=replace(item.candidate, python=python))
            torch, *rest = nearness(one.candidate, intent, level)
            found.append(((_doubtful(item), torch, len(lost), *rest), len(found), one, lost))
    return [(item, lost) for _, _, item, lost in sorted(found, key=lambda entry: entry[:2])]


def _doubtful(item: Assessment) -> bool:
    """Whether no row vouches for torch's own code or for cuDNN on some GPU: then another release is nearer."""
    return any(item.verdict(rule).outcome == "unknown" for rule in ("device-code", "cudnn"))


def _lost(decision: Decision, item: Assessment, intent: Intent, sources: Sources) -> dict[str, str]:
    """The further packages of which the channels of a candidate have no record."""
    from cuenv.solve.io.solver import absent  # noqa: PLC0415 - the solver is heavy

    spec = compose(_case(decision, item, intent, {}), name="", version=__version__)
    # A label may be missing; it holds NVIDIA's packages alone, and the solver answers for those.
    channels = tuple(item for item in (*spec.channels, *intent.channels) if "/label/" not in item)
    names = {pin.name for pin in intent.packages}
    mine = [pin for pin in spec.pins if pin.name in names and "/label/" not in pin.channel]
    gone = absent(mine, channels, item.candidate.build.platform, sources)
    return {pin.name: f"the channels have no {pin.yaml_text()}: {', '.join(channels)}" for pin in gone}


def _composed(decision: Decision, intent: Intent, spec: EnvironmentSpec) -> EnvironmentSpec:
    made = compose(decision, name=spec.name or "cuenv", version=__version__)
    return replace(
        made,
        channels=(*made.channels, *intent.channels),
        variables={**made.variables, **spec.variables},
    )


def _told(
    made: EnvironmentSpec, told: tuple[EntryChange, ...], spec: EnvironmentSpec, request: LockRequest
) -> EnvironmentSpec:
    """The environment with what became of each entry in its head and above its pins."""
    lines = (f"Repaired from {request.path.name}:", *(f"  {change}" for change in told))
    pins = tuple(
        replace(
            pin,
            why=(
                *(text.replace("asked for with --with", f"of {request.path.name}") for text in pin.why),
                *notes(pin, spec),
            ),
        )
        for pin in made.pins
    )
    return replace(made, header=(made.header[0], *lines, *made.header[1:]), pins=pins)


@dataclass(frozen=True, kw_only=True)
class Instead:
    """What there is.

    Attributes:
        decision: its choice closes on the channels.
        options: of ``cuenv resolve`` that ask for what the file asks for, less the release that is not there.
    """

    decision: Decision
    options: tuple[str, ...]


def instead(
    spec: EnvironmentSpec, facts: HostFacts, knowledge: Knowledge, sources: Sources, progress: Progress | None = None
) -> Instead | None:
    """The best that closes with the further packages of a file; ``None`` where nothing near does, or none was asked.

    Args:
        spec: what the channels do not close.
        facts: the host.
        knowledge: the tables.
        sources: where the channels are read.
        progress: told what is being tried.
    """
    if spec.pin("pytorch") is None:
        return None
    intent, cpu = intent_of(spec, knowledge), asks_for_cpu(spec)
    packages = tuple(pin.yaml_text() for pin in intent.packages)
    base = Request(dev=intent.dev and not cpu, cpu=cpu, packages=packages, pip=intent.pip)
    wishes = dict.fromkeys((replace(base, python=intent.python), base))
    for request in wishes:
        decision = decide(Context(facts=decidable(facts), request=request, knowledge=knowledge, proving=True))
        try:
            found, solution = prove(
                decision, lambda item: composed(item, spec.name or "cuenv"), sources, progress, limit=_TRIES
            )
        except (ChannelError, OutsideError, UsageError):
            return None
        if solution is not None:
            return Instead(decision=found, options=request_options(request))
    return None
