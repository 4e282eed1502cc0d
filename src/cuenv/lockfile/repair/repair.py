"""Repair: the file that does what an environment file was meant to do, proven by locking it.

What is wrong is mended by what the findings say themselves, and by relaxing entries that the channels cannot satisfy.
Where torch itself must move, the solver chooses the nearest of those that fit the host. A lock in which one component
lacks a GPU needs pins: all sets of them are tried on the solver, smaller ones first, so that the first that works is
the smallest.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from cuenv.core import __version__
from cuenv.core.errors import Progress
from cuenv.core.findings import ComponentSupport, Report, report
from cuenv.core.io.exclusive import run_parallel
from cuenv.core.record import dataclass, replace
from cuenv.core.regex import regex
from cuenv.host.facts import HostFacts
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import PLATFORMS
from cuenv.lockfile.coverage import coverage, narrowed, repairs, weakest
from cuenv.lockfile.files import host_for, read_environment
from cuenv.lockfile.lock import LockRequest, unsatisfied_report
from cuenv.lockfile.repair.drafts import Draft, as_read, kept_minors, torch_of, with_torch_of_pip, without_triton
from cuenv.lockfile.repair.intent import EntryChange, changes, dropped, notes
from cuenv.lockfile.repair.kept_entries import KeptEntries
from cuenv.lockfile.repair.queries import CHOOSING, TRYING
from cuenv.lockfile.repair.relax import SWAPS
from cuenv.lockfile.repair.torch_choice import TorchChoice
from cuenv.resolver.requirements import OF_TORCH
from cuenv.solve.environment_spec import EnvironmentSpec, Pin
from cuenv.solve.model import Solution

_TWICE = 2  # drafts that are tried once more, without what a finding refuses
_OF_ONE_TORCH = regex(
    r"\+pt\d|/torch-\d"
)  # what a line of the pip part has that is made for one release of torch: PyG's
_NEEDED = frozenset({"python", *OF_TORCH})  # packages without which the environment is not what was meant


@dataclass(frozen=True, kw_only=True)
class Repaired:
    """What came of a repair."""

    report: Report  # what is wrong with the file as it is
    facts: HostFacts
    # the environment in its place, which locks; ``None`` when there is none, and the file itself when nothing is wrong
    spec: EnvironmentSpec | None
    changes: tuple[EntryChange, ...] = ()  # what became of each entry; empty when only ``pins`` were added
    # the smallest set of pins that mends what a component lacks, and ``tried`` the smaller sets that do not
    pins: tuple[Pin, ...] = ()
    tried: int = 0
    # how each component of the lock supports the GPUs, as it would be without the repair
    components: tuple[ComponentSupport, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()  # nearer environments, and why each does not lock
    obstacles: tuple[tuple[str, str], ...] = ()  # where nothing locks, the entries that are in the way, and why
    has_torch: bool = False  # whether the file takes torch from conda

    @property
    def needed(self) -> bool:
        """Whether anything was wrong."""
        return bool(self.report.errors)

    @property
    def dropped(self) -> str:
        """What was dropped and why, in one sentence; empty where nothing was."""
        return dropped(self.changes)


def repair(
    request: LockRequest,
    knowledge: Knowledge,
    *,
    name: str = "environment.yml",
    progress: Progress | None = None,
    clock: Callable[[], float] = float,
) -> Repaired:
    """Find the file that does what an environment file was meant to do, and prove that it locks. Writes nothing.

    Args:
        request: the file, the host and the channels.
        knowledge: the tables.
        name: of the new file, for the command in its head.
        progress: told what is being tried.
        clock: in seconds, so that the search for what is nearest ends; without one it takes its time.

    Raises:
        InputError: the file or a channel cannot be read.
        OutsideError: the solver crashed.
    """
    spec, _ = read_environment(request.path, request.host.words)
    facts, _ = host_for(request.path, request.host, knowledge, spec.platforms)
    known = (item for item in spec.platforms if item in PLATFORMS)
    platform = request.host.platform or next(known, facts.platform)
    facts = replace(facts, platform=platform)
    work = _Repair(
        file=spec,
        request=replace(request, platforms=(platform,), anew=True, solved={}),
        facts=facts,
        knowledge=knowledge,
        progress=progress,
        clock=clock,
        began=clock(),
    )
    found = work.done()
    if found.spec is None or not found.changes:
        return found
    lock = f"cuenv lock {shlex.quote(name)} "
    header = tuple(line.replace("cuenv lock environment.yml ", lock) for line in found.spec.header)
    return replace(found, spec=replace(found.spec, header=header))


@dataclass(kw_only=True)
class _Repair(KeptEntries, TorchChoice):
    """The search: what stays as it is, else the nearest that locks."""

    def done(self) -> Repaired:
        answer, why = self._lock(self.file)
        told = answer.report if answer else report(self.request.path.name, ())
        found = Repaired(report=unsatisfied_report(told, why) if why else told, facts=self.facts, spec=None)
        if answer and answer.conda_solutions:
            found = replace(found, components=coverage(answer.conda_solutions[0], self.facts, self.knowledge))
        if answer and answer.lock:
            components = coverage(answer.lock.solutions[0], self.facts, self.knowledge)
            return replace(found, spec=self.file, components=components)
        if answer and answer.conda_solutions and weakest(found.components):
            pinned = self._with_layers(answer.conda_solutions[0], found)
            if pinned:
                return pinned
        return self._moved(found)

    def _with_layers(self, solution: Solution, found: Repaired) -> Repaired | None:
        """The file with the smallest set of pins with which every component supports every GPU."""
        for tried, pins in enumerate(_sets(repairs(solution, found.components, self.knowledge))):
            self._say(f"trying {', '.join(pin.yaml_text() for pin in pins)}")
            made = _with_pins(narrowed(self.file, pins), pins, self.request)
            answer, _ = self._lock(as_read(made))
            if answer and answer.lock:
                return replace(found, spec=made, pins=pins, tried=tried)
        return None

    def _moved(self, found: Repaired) -> Repaired:
        """The nearest environment that locks: with the torch of the file, else with the nearest torch.

        As many entries as can be had stay, before torch keeps its release.
        """
        whole = with_torch_of_pip(self._of_linux(self._own()))
        own = self._until_locked(whole, self.request.path.name, frozenset(pin.name for pin in self.file.pins))
        tried: list[tuple[Draft, Draft]] = []
        for base, draft in self._lesser(whole) if own is None else ():
            if tried and self._spent > TRYING:
                break
            if tried and len(draft.lost) > len(tried[-1][1].lost):
                own = own or self._with_cpu(tried)
            own = own or self._meant(base, draft, frozenset(pin.name for pin in draft.spec.pins))
            if own:
                break
            tried.append((base, draft))
        own = own or self._with_cpu(tried)
        self.gives_up = own is None
        for base, draft in tried[:_TWICE] if own is None else ():
            own = own or self._meant(base, draft, _NEEDED)
        for needed in (_NEEDED, _NEEDED.difference(OF_TORCH)) if own is None else ():
            own = own or self._meant(whole, whole, needed)
        found = replace(found, skipped=tuple(dict.fromkeys(self.skipped)))
        own = self._proven(self._guarded(self._regained(whole, self._restored(own)))) if own else None
        if own is None:
            obstacles = tuple(dict.fromkeys(self.obstacles))
            return replace(found, obstacles=obstacles, has_torch=torch_of(self.file) is not None)
        instead = dict(own.instead)
        told = changes(self.file, own.spec, dict(own.why), self.knowledge, anew=own.anew, instead=instead)
        return replace(found, spec=_told(own.spec, told, self.file, self.request), changes=told)

    @property
    def _held(self) -> bool:
        """Whether the pip part has what is made for one release of torch."""
        return any(map(_OF_ONE_TORCH.search, self.file.pip))

    def _regained(self, whole: Draft, own: Draft) -> Draft:
        """A draft that locks, else one beside another torch that has all its entries and some that it lost."""
        lost = self._placeless(own) | self._elsewhere(own)
        if not lost or self.late or torch_of(self.file) is None or self._held:
            return own
        best, there = None, frozenset(pin.name for pin in own.spec.pins)
        for name in sorted(lost)[:SWAPS]:
            if best and name not in best.lost:
                continue
            self._say(f"looking for a torch beside which {name} can stay")
            best = self._servable(whole, there | {name}) or best
            there = there.union(lost - best.lost) if best else there
        then = self._anew(whole, best, there) if best else None
        return then if then and then.lost < own.lost else own

    def _lesser(self, whole: Draft) -> Iterator[tuple[Draft, Draft]]:
        """Drafts without what cannot be had, the one that has most first; each after the whole of which it is less.

        What has more entries is nearer; of those with as many, what keeps the releases of torch and Python.
        """
        if torch_of(self.file) is None:
            yield whole, self._keepable(whole) or whole
            return
        bases = self._bases(whole)
        found: list[_Less] = []
        order = [*bases[-1:], *bases[:-1]]  # what can stay at all, then what costs less
        for pair in (order[:2], order[2:]):
            found += self._kept_beside(pair)
            most = next(iter(found), None)
            nearest = most and found[-1] is not most and min(item.worth for item in found[1:]) <= most.worth
            if nearest or (found and self._spent > CHOOSING):
                break
        best = min(found, key=lambda item: item.worth, default=None)
        if best and not best.misses:
            yield best.base, best.draft
        served: list[_Less] = []
        for cost, base in sorted(bases, key=lambda item: item[0] not in (0, bases[-1][0])):
            served += self._counted(cost, base, self._servable(base))
            if served and (not served[-1].misses or (cost and self._spent > CHOOSING)):
                break
        if served and all(item.misses for item in served):
            served = self._without_triton(whole, served)
        found += served
        seen = [best.draft.spec] if best and not best.misses else []
        for item in sorted(found, key=lambda item: item.worth):
            if item.draft.spec not in seen:
                seen.append(item.draft.spec)
                yield item.base, item.draft

    def _kept_beside(self, bases: Sequence[tuple[int, Draft]]) -> list[_Less]:
        """What can stay beside the releases of torch and Python that each draft keeps to, looked at side by side."""
        for _, base in bases:
            self._say(f"looking for what can stay beside {base.near}")
        drafts = run_parallel(lambda item: self._keepable(item[1]), bases, busy=True)
        pairs = zip(bases, drafts, strict=True)
        return [item for (cost, base), draft in pairs for item in self._counted(cost, base, draft)]

    def _bases(self, whole: Draft) -> list[tuple[int, Draft]]:
        """The whole with the releases of torch and Python that it may keep to, with what each costs, as `_Less` has it.

        Torch keeps its release where the pip part has what is made for it, if a build of it fits the host.
        """
        bases = [(cost, replace(whole, near=near)) for near, cost in kept_minors(self.file).items()]
        bases = [(cost, base) for cost, base in bases if self._judged(base, frozenset()).rows]
        held = [item for item in bases if item[1].near.torch] if self._held else []
        return held or bases

    def _without_triton(self, whole: Draft, found: list[_Less]) -> list[_Less]:
        """The drafts, or one without the triton of the pip part where it keeps entries away by the torch it takes."""
        free, least = without_triton(whole), min(found, key=lambda item: item.worth)
        other = self._servable(free) if free else None
        gained = sorted(least.draft.lost - other.lost) if other else ()
        if free is None or other is None or not gained or other.lost - least.draft.lost:
            return found
        why = f"beside the torch that takes this triton {', '.join(gained)} cannot be installed"
        return [replace(least, base=free.noting(["triton"], why), draft=other.noting(["triton"], why))]

    def _counted(self, cost: int, base: Draft, draft: Draft | None) -> Iterator[_Less]:
        if draft:
            yield _Less(base=base, draft=draft, cost=cost, misses=len(self._placeless(draft)))

    def _with_cpu(self, tried: Sequence[tuple[Draft, Draft]]) -> Draft | None:
        """The first of some drafts that locks where a CUDA build that does not fit gives way to the CPU build."""
        self.gives_up = True
        found = (
            self._meant(base, draft, frozenset(pin.name for pin in draft.spec.pins)) for base, draft in tried[:_TWICE]
        )
        own = next((draft for draft in found if draft), None)
        self.gives_up = False
        return own

    def _meant(self, whole: Draft, draft: Draft, needed: frozenset[str]) -> Draft | None:
        """A draft with its own torch that locks, else with the nearest one."""
        own = self._until_locked(draft, self.request.path.name, needed)
        return self._anew(whole, draft, needed) if own is None and torch_of(self.file) else own


@dataclass(frozen=True, slots=True, kw_only=True)
class _Less:
    """A draft without what cannot be had, and the whole of which it is less."""

    base: Draft
    draft: Draft
    cost: int  # what the releases are worth that it does not keep to; less than any entry
    misses: int  # how many entries it lost that the channels have

    @property
    def worth(self) -> tuple[int, int, int]:
        """What it costs in all; what has lost torchvision or torchaudio more than all else."""
        return len(self.draft.lost.intersection(OF_TORCH)), self.misses, self.cost


def _sets(pins: tuple[Pin, ...]) -> Iterator[tuple[Pin, ...]]:
    """All sets of pins that are not empty, smaller ones first."""
    for size in range(1, len(pins) + 1):
        yield from combinations(pins, size)


def _with_pins(spec: EnvironmentSpec, pins: tuple[Pin, ...], request: LockRequest) -> EnvironmentSpec:
    added = ", ".join(pin.yaml_text() for pin in pins)
    return replace(spec, header=(f"{_written(spec)} {__version__} from {request.path.name}, with {added}.",))


def _written(spec: EnvironmentSpec) -> str:
    """How the head begins: what cuenv wrote promises one channel for CUDA, what it mended for others does not."""
    return "Written by cuenv" if spec.ours else "Mended by cuenv"


def _told(
    made: EnvironmentSpec, told: tuple[EntryChange, ...], spec: EnvironmentSpec, request: LockRequest
) -> EnvironmentSpec:
    """The environment with what became of each entry in its head and above its pins."""
    lines = (f"Repaired from {request.path.name}:", *(f"  {change}" for change in told))
    pins = tuple(replace(pin, why=(*pin.why, *notes(pin, spec))) for pin in made.pins)
    head, *rest = made.header if made.header and made.ours else (f"{_written(made)} {__version__}.",)
    return replace(made, header=(head, *lines, *rest), pins=pins)
