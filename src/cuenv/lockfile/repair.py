"""Repair: the file that does what an environment file was meant to do, proven by locking it.

What is wrong is mended by what the findings say themselves, and by relaxing entries that the channels cannot satisfy.
Where torch itself must move, the solver chooses the nearest of those that fit the host. A lock in which one component
lacks a GPU needs pins: all sets of them are tried on the solver, smaller ones first, so that the first that works is
the smallest.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING

from packaging.version import Version

from cuenv.core import __version__
from cuenv.core.errors import ChannelError, NoChannelError, NoHashError, Progress
from cuenv.core.findings import ComponentSupport, Report, report
from cuenv.core.record import dataclass, field, replace
from cuenv.core.regex import regex
from cuenv.core.urls import short_channel
from cuenv.core.versions import minor as series
from cuenv.core.versions import parse_version_spec, version
from cuenv.host.facts import HostFacts, virtual_packages
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import PLATFORMS
from cuenv.lockfile.coverage import coverage, narrowed, repairs, weakest
from cuenv.lockfile.drafts import (
    CORE,
    FORGE,
    TOGETHER,
    Draft,
    Near,
    as_read,
    forge_first,
    losses,
    nears,
    of_torch,
    of_variant,
    pythons_near,
    series_of,
    torch_of,
    with_core,
    with_cpu_torch,
    with_entries,
    with_torch_of_pip,
    without_triton,
)
from cuenv.lockfile.files import host_for, read_environment
from cuenv.lockfile.intent import (
    OF_CHANNELS,
    EntryChange,
    Intent,
    changes,
    dropped,
    further,
    intent_of,
    nearness,
    notes,
    release_pins,
)
from cuenv.lockfile.lock import Locked, LockRequest, locked, unsatisfied
from cuenv.lockfile.obey import obeyed
from cuenv.lockfile.proving import odds
from cuenv.lockfile.relax import SWAPS, ListedEntry, Relaxed, blamed, entries_of, forms_of, relax
from cuenv.resolver.asked_torch import CONDA_TORCHES
from cuenv.resolver.candidates import Candidate, admits_all, pythons
from cuenv.resolver.compose import composed, headed, overruled, requested
from cuenv.resolver.decision import Decision, decide
from cuenv.resolver.policy import asks_for_cpu, wants_cuda
from cuenv.resolver.prove import unsatisfiable_text
from cuenv.resolver.ranking import Assessment
from cuenv.resolver.requirements import OF_TORCH
from cuenv.resolver.rules import Context
from cuenv.solve.environment_spec import EnvironmentSpec, Pin, requirement_name
from cuenv.solve.match_spec import parse_spec
from cuenv.solve.model import (
    Choice,
    Settled,
    Solution,
    SolveRequest,
    Unsatisfiable,
    names_cpu,
)

if TYPE_CHECKING:  # the solver is heavy
    from cuenv.solve.io.records import Shelf

_TWICE = 2
"""Drafts that are tried once more, without what a finding refuses."""
_LOCKS = 6
"""Candidates that are locked; one that does not lock though its entries can be had is rare."""
_ROUNDS = 10
"""Times that one environment is mended by what its lock would say of it."""
_CHOOSING, _TRYING, _SECONDS, _PROVING = 8, 10, 12, 17
"""Seconds after which no further releases of torch and Python are looked at for what would stay beside them, no further
draft that keeps as much as it can is tried, nothing is put back, and nobody looks what a lost entry is at odds with."""
_BESIDE = "the solver cannot satisfy the entries of the file beside it"
_RELEASE = regex(r"\d.*")
"""The release of CUDA in a pattern of build strings, and what follows."""
_FIRST = frozenset({*CORE, *OF_TORCH})
"""Packages that are near before all others are."""
_OF_CUDA = ("CU102", "CU103", "CU104")
"""Findings on CUDA releases and CPU builds, which are mended where they are warnings as well."""
_NEEDED = frozenset({"python", *OF_TORCH})
"""Packages without which the environment is not what was meant."""


@dataclass(frozen=True, kw_only=True)
class Repaired:
    """What came of a repair.

    Attributes:
        report: what is wrong with the file as it is.
        spec: the environment in its place, which locks; ``None`` when there is none, and the file itself when nothing
            is wrong.
        changes: what became of each entry; empty when only ``pins`` were added.
        pins: the smallest set of pins that mends what a component lacks, and ``tried`` the smaller sets that do not.
        components: how each component of the lock supports the GPUs, as it would be without the repair.
        skipped: nearer environments, and why each does not lock.
        obstacles: where nothing locks, the entries that are in the way, and why.
        has_torch: whether the file takes torch from conda.
    """

    report: Report
    facts: HostFacts
    spec: EnvironmentSpec | None
    changes: tuple[EntryChange, ...] = ()
    pins: tuple[Pin, ...] = ()
    tried: int = 0
    components: tuple[ComponentSupport, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    obstacles: tuple[tuple[str, str], ...] = ()
    has_torch: bool = False

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
        request=replace(request, platforms=(platform,), anew=True),
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
class _Repair:
    """One repair: the file, the host, and what was tried."""

    file: EnvironmentSpec
    request: LockRequest
    facts: HostFacts
    knowledge: Knowledge
    progress: Progress | None
    skipped: list[tuple[str, str]] = field(default_factory=list)
    obstacles: list[tuple[str, str]] = field(default_factory=list)
    locks: list[tuple[EnvironmentSpec, tuple[Locked | None, str]]] = field(default_factory=list)
    decisions: list[tuple[Request, Decision]] = field(default_factory=list)
    composed: dict[tuple[Candidate, tuple[str, ...]], EnvironmentSpec] = field(default_factory=dict)
    shelves: dict[tuple[str, ...], Shelf] = field(default_factory=dict)
    answers: dict[tuple[object, ...], Settled | Unsatisfiable] = field(default_factory=dict)
    clock: Callable[[], float] = float
    began: float = 0
    gives_up: bool = False
    """Whether an entry goes whose CUDA build does not fit; before that, another torch is looked for."""

    @property
    def _spent(self) -> float:
        """Seconds since the repair began."""
        return self.clock() - self.began

    @property
    def late(self) -> bool:
        """Whether enough time was spent."""
        return self._spent > _SECONDS

    def done(self) -> Repaired:
        answer, why = self._lock(self.file)
        told = answer.report if answer else report(self.request.path.name, ())
        found = Repaired(report=unsatisfied(told, why) if why else told, facts=self.facts, spec=None)
        if answer and answer.conda:
            found = replace(found, components=coverage(answer.conda[0], self.facts, self.knowledge))
        if answer and answer.lock:
            components = coverage(answer.lock.solutions[0], self.facts, self.knowledge)
            return replace(found, spec=self.file, components=components)
        if answer and answer.conda and weakest(found.components):
            pinned = self._with_layers(answer.conda[0], found)
            if pinned:
                return pinned
        return self._moved(found)

    def _lock(self, spec: EnvironmentSpec) -> tuple[Locked | None, str]:
        """What locking an environment comes to, and why the channels do not satisfy it."""
        known = next((found for other, found in self.locks if other == spec), None)
        if known is None:
            known = self._locked(spec)
            self.locks.append((spec, known))
        return known

    def _locked(self, spec: EnvironmentSpec) -> tuple[Locked | None, str]:
        try:
            answer = locked(self.request, spec, self.knowledge, progress=self.progress)
        except (NoChannelError, NoHashError) as error:
            return None, error.message
        if answer.unsatisfiable:
            return answer, f"{unsatisfiable_text(answer.unsatisfiable, spec)}{self._by_pip(answer.unsatisfiable)}"
        return answer, ""

    def _by_pip(self, answer: Unsatisfiable) -> str:
        """The lines of the pip part that ask for what the channels lack, where no other entry of the file does."""
        names = {parse_spec(text).name for text in answer.missing} - {pin.name for pin in self.file.pins}
        lines = [f"pip: {text}" for text in self.file.pip if requirement_name(text) in names]
        return f", which the file asks for by {', '.join(lines)}" if lines else ""

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
            if tried and self._spent > _TRYING:
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
        own = self._proven(self._guarded(self._restored(own))) if own else None
        if own is None:
            obstacles = tuple(dict.fromkeys(self.obstacles))
            return replace(found, obstacles=obstacles, has_torch=torch_of(self.file) is not None)
        told = changes(self.file, own.spec, dict(own.why), self.knowledge, anew=own.anew)
        return replace(found, spec=_told(own.spec, told, self.file, self.request), changes=told)

    def _lesser(self, whole: Draft) -> Iterator[tuple[Draft, Draft]]:
        """Drafts without what cannot be had, the one that has most first; each after the whole of which it is less.

        The releases of torch and Python that the file names are worth a few entries; else what has more is nearer.
        """
        if torch_of(self.file) is None:
            yield whole, self._keepable(whole) or whole
            return
        bases = [(cost, replace(whole, near=near)) for near, cost in nears(self.file).items()]
        bases = [(cost, base) for cost, base in bases if self._judged(base, frozenset()).rows]
        found: list[_Less] = []
        for cost, base in [*bases[-1:], *bases[:-1]]:  # what can stay at all, then what costs less
            self._say(f"looking what can stay beside {base.near}")
            found += self._counted(cost, base, self._keepable(base))
            most = next(iter(found), None)
            nearest = most and found[-1] is not most and found[-1].worth <= most.worth
            if nearest or (found and self._spent > _CHOOSING):
                break
        best = min(found, key=lambda item: item.worth, default=None)
        if best and not best.misses:
            yield best.base, best.draft
        served: list[_Less] = []
        for cost, base in sorted(bases, key=lambda item: item[0] not in (0, bases[-1][0])):
            served += self._counted(cost, base, self._servable(base))
            if served and (not served[-1].misses or (cost and self._spent > _CHOOSING)):
                break
        if served and all(item.misses for item in served):
            served = self._without_triton(whole, served)
        found += served
        seen = [best.draft.spec] if best and not best.misses else []
        for item in sorted(found, key=lambda item: item.worth):
            if item.draft.spec not in seen:
                seen.append(item.draft.spec)
                yield item.base, item.draft

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

    def _own(self) -> Draft:
        """The file for one platform, with the channels that people take what it lists from, where its own lack it.

        A channel that is not there is left out, unless all are.
        """
        spec = self.file
        if spec.platforms:
            spec = replace(spec, platforms=(self.facts.platform,))
        gone = {channel: why for channel in spec.reached if (why := self._no_channel(channel))}
        channels = tuple(channel for channel in spec.channels if channel not in gone) or spec.channels or ("defaults",)
        pins = tuple(replace(pin, channel="") if pin.channel in gone else pin for pin in spec.pins)
        spec = replace(spec, pins=pins) if gone else spec
        names = {pin.name for pin in spec.pins} | ({"pip"} if spec.pip else set())
        for more in (FORGE, "nvidia"):
            if more in map(short_channel, channels):
                continue
            here = self._shelf(names, self._reached(replace(spec, channels=channels)))
            lacking = {pin.name for pin in spec.pins if not any(map(here.has, forms_of(pin)))}
            lacking |= {name for name in names if not here.has(Pin(name=name))}
            there = self._shelf_beyond(sorted(lacking), channels, (more,)) if lacking else None
            if there and any(there.has(Pin(name=name)) for name in lacking):
                channels = (*channels, more)
        own = Draft(spec=spec if channels == (spec.channels or ("defaults",)) else replace(spec, channels=channels))
        own = own.noting([OF_CHANNELS] if gone else [], next(iter(gone.values()), ""))
        shelf = None if wants_cuda(spec, self.knowledge) else self._shelf_of(own.spec)
        return with_cpu_torch(own, shelf) if shelf else own

    def _no_channel(self, channel: str) -> str:
        """What says that a channel is not there; empty for one that is."""
        try:
            self._shelf((), (channel,))
        except NoChannelError as error:
            return error.message
        return ""

    def _of_linux(self, draft: Draft) -> Draft:
        """A draft without what exists for another system alone."""
        for _ in range(_ROUNDS):
            answer, _ = self._lock(as_read(draft.spec))
            of_system = [item for item in answer.report.errors if item.code == "CU106"] if answer else []
            if not answer or not of_system:
                break
            draft = self._obeying(draft, replace(answer, report=replace(answer.report, findings=tuple(of_system))))
        return draft

    def _keepable(self, draft: Draft) -> Draft | None:
        """A draft without what cannot be had, with conda-forge before the channel of torch where more can be had so."""
        moved = self._forge_first(draft)
        most = self._kept(moved) if moved else None
        if most and not most.lost.intersection(OF_TORCH):
            return self._kept(draft, frozenset(pin.name for pin in most.spec.pins)) or most
        return min((item for item in (self._kept(draft), most) if item), key=losses, default=None)

    def _kept(self, draft: Draft, needed: frozenset[str] = frozenset()) -> Draft | None:
        """A draft without entries that the channels do not have beside the others and the torch that it keeps to.

        Returns:
            ``None`` where there is no such torch beside torchvision and torchaudio, and what else is needed.
        """
        spec, near = draft.spec, draft.near
        shelf = self._shelf_of(spec)
        if shelf is None:
            return None
        listed = [pin for pin in spec.pins if pin.name not in draft.bound and further(pin, self.knowledge)]
        entries: Sequence[ListedEntry] = entries_of(listed, shelf)
        python = version(f"3.{near.python}") if near.python else None
        of_core = ((torch_of(spec), near.torch), (spec.pin("python"), python))
        fixed = [form for pin, number in of_core if (form := self._any(pin, number, shelf))]
        if any(number and (pin is None or not self._any(pin, number, shelf)) for pin, number in of_core):
            return None
        beside_torch = [item for item in entries if item.pin.name in OF_TORCH]
        pairs = self._solved(spec, beside_torch, fixed, near=False)
        kept = needed.union(pin.name for pin in pairs.pins if pin) if pairs else needed
        if near != Near() and any(item.forms and item.pin.name not in kept for item in beside_torch):
            return None
        entries = [replace(item, needed=item.pin.name in kept) for item in entries]
        found = self._solved(spec, entries, fixed, near=False, swaps=0)
        if found is None:
            return None if needed or near != Near() else draft
        wide = self._shelf_beyond([pin.name for pin in listed], self._reached(spec), ("pytorch", FORGE))
        elsewhere = {
            pin.name for pin in listed if wide and wide.has(Pin(name=pin.name)) and not shelf.has(Pin(name=pin.name))
        }
        gone = {pin.name for pin, new in zip(listed, found.pins, strict=True) if new is None} - elsewhere
        return with_entries(draft, listed, [None if pin.name in gone else pin for pin in listed], shelf)

    def _any(self, pin: Pin | None, number: Version | None, shelf: Shelf) -> Pin | None:
        """Any release, or any of a minor, of what a file names; ``None`` where there is none.

        It is for CUDA or for the CPU if that is what the file is for.
        """
        if pin is None:
            return None
        form = Pin(name=pin.name, version=f"{number}.*" if number else "", channel=pin.channel)
        cuda, cpu = wants_cuda(self.file, self.knowledge), asks_for_cpu(self.file)
        meant = (
            [replace(form, build="*cuda*" if cuda else "*cpu*")] if pin.name in CONDA_TORCHES and cuda != cpu else []
        )
        return next((item for item in (*meant, form) if shelf.has(item)), None)

    def _until_locked(self, draft: Draft, label: str, needed: frozenset[str]) -> Draft | None:
        """A draft that locks, mended by what its lock would say of it; ``None`` where that leads nowhere.

        Args:
            draft: to begin with.
            label: what it is, for people.
            needed: entries that have to stay in some release, if the channels have any.
        """
        seen: list[EnvironmentSpec] = []
        answer, why = None, ""
        judged: tuple[Draft, Locked] | None = None
        for _ in range(_ROUNDS):
            if draft.spec in seen:
                break
            seen.append(draft.spec)
            answer, why = self._lock(as_read(draft.spec))
            if answer and answer.lock:
                return draft
            if answer is None:
                break
            if why:
                then = self._relaxed(draft, needed) or (
                    self._with_cpu_builds(*judged) if judged and self.gives_up else None
                )
                judged = None
            elif draft.spec.ours and all(item.code == "CU101" for item in answer.report.errors):
                then = self._of_two_channels(draft)
            else:
                judged, then = (draft, answer), self._obeying(draft, answer)
            why = why or next((item.message for item in answer.report.errors), "")
            if then is None:
                break
            draft = then
        self.skipped.append((label, why))
        if label == self.request.path.name:
            self.obstacles += _obstacles(draft.spec, answer)
        return None

    def _restored(self, own: Draft) -> Draft:
        """A draft that locks, with as many of its lost entries as fit after all.

        They are put back beside the rest as it is, else beside other releases of it, and then with conda-forge before
        the channel of torch: that one has a few old libraries, which hide those that conda-forge's packages require.
        """
        best = own
        for moved in (False, True):
            draft = self._forge_first(best) if moved else best
            for free in (False, True):
                lost = self._placeless(draft) if draft else frozenset()
                enough = self.late and (moved or free)  # beside the rest as it is, the solver says so in any case
                found = self._placed(draft, lost, free=free) if draft and lost and not enough else None
                if found is None or len(found.lost) >= len(best.lost):
                    continue
                names = ", ".join(sorted(best.lost - found.lost))
                there = frozenset(pin.name for pin in found.spec.pins)
                then = self._until_locked(found, f"{self.request.path.name} with {names} as well", there)
                if then is None:
                    answer, open_ = self._lock(as_read(found.spec))
                    first = next((item.message for item in answer.report.errors), "") if answer else ""
                    why = f"with {names} the file is refused: {open_ or first}"
                    best = best.saying(dict.fromkeys(best.lost - found.lost, why))
                best, draft = (then, then) if then else (best, draft)
        return best

    def _guarded(self, own: Draft) -> Draft:
        """A draft that locks, without what its lock would still warn of: CPU builds, parts of another CUDA.

        No entry is lost for that.
        """
        answer, _ = self._lock(as_read(own.spec))
        warned = (
            [item for item in answer.report.findings if item.edits and item.severity == "warning"] if answer else []
        )
        for codes in (_OF_CUDA, _OF_CUDA[-1:]):
            asked = tuple(replace(item, severity="error") for item in warned if item.code in codes)
            if answer is None or not asked:
                break
            draft = self._obeying(own, replace(answer, report=replace(answer.report, findings=asked)))
            then, _ = self._lock(as_read(draft.spec))
            if then and then.lock and draft.lost <= own.lost:
                return draft
        return own

    def _proven(self, own: Draft) -> Draft:
        """A draft that locks, and of each entry that it lost what it conflicts with."""
        spec = (self._forge_first(own) or own).spec  # what hides less says more
        said, shelf = dict(own.why), self._shelf_of(replace(own.spec, pins=self.file.pins))
        channels = ", ".join(map(short_channel, self._reached(own.spec)))
        for name in sorted(own.lost):
            if shelf is None or not said.get(name, "").endswith(TOGETHER):
                continue
            if not shelf.has(Pin(name=name)):
                own = own.saying({name: f"the channels have no {name} for {self.facts.platform}: {channels}"})
            elif self._spent < _PROVING:
                self._say(f"finding what {name} conflicts with")
                own = own.saying({name: odds(spec, name, partial(self._ask, spec), self._shelf, own.bound)})
        return own

    def _placeless(self, draft: Draft) -> frozenset[str]:
        """The lost entries of a draft that its channels have."""
        shelf = self._shelf_of(replace(draft.spec, pins=self.file.pins))
        names = {
            pin.name for pin in self.file.pins if draft.spec.pin(pin.name) is None and further(pin, self.knowledge)
        }
        return frozenset(name for name in draft.lost & names if shelf and shelf.has(Pin(name=name)))

    def _placed(self, draft: Draft, lost: frozenset[str], *, free: bool) -> Draft | None:
        """A draft with some of its lost entries; the others take other releases for that if they are ``free``."""
        spec = replace(draft.spec, pins=(*draft.spec.pins, *(pin for pin in self.file.pins if pin.name in lost)))
        shelf = self._shelf_of(spec)
        if shelf is None:
            return None
        held = [
            pin
            for pin in draft.spec.pins
            if not free or pin.name in draft.bound or pin.name in OF_TORCH or not further(pin, self.knowledge)
        ]
        listed = [pin for pin in spec.pins if pin not in held]
        entries = entries_of(listed, shelf, needed=lambda pin: pin.name not in lost)
        found = self._solved(spec, entries, held, near=False)
        if found is None or not any(new for pin, new in zip(listed, found.pins, strict=True) if pin.name in lost):
            return None
        found = self._solved(spec, entries, held) or found
        there = {pin.name for pin, new in zip(listed, found.pins, strict=True) if new}
        why = tuple(item for item in draft.why if item[0] not in lost)
        made = replace(draft, spec=spec, why=why, lost=draft.lost - there)
        return with_entries(made, listed, found.pins, shelf)

    def _forge_first(self, draft: Draft) -> Draft | None:
        """A draft with conda-forge before the channel ``pytorch``, and torch from there; ``None`` where that is so."""
        order, shelf = forge_first(draft.spec.channels), self._shelf_of(draft.spec)
        if shelf is None or order is None:
            return None
        pins = tuple(
            replace(pin, channel="pytorch") if of_torch(pin) and shelf.home(Pin(name=pin.name)) == "pytorch" else pin
            for pin in draft.spec.pins
        )
        why = "the channel pytorch has old libraries, which hide those that packages of conda-forge require"
        return replace(draft, spec=replace(draft.spec, channels=order, pins=pins)).noting([OF_CHANNELS], why)

    def _obeying(self, draft: Draft, answer: Locked) -> Draft:
        """A draft as the findings on it say that it should be."""
        spec, pins = obeyed(draft.spec, answer.report.errors)
        for item in answer.report.errors:
            lines = [text for edit in item.edits if edit.pip for text in edit.entries]
            names = {pin.name for edit in item.edits if not edit.pip for pin in map(parse_spec, edit.entries)}
            names |= {*map(requirement_name, lines), *(edit.over for edit in item.edits), item.subject}
            draft = draft.noting([*sorted(names), *lines], item.message)
        return self._of_release(replace(draft, spec=spec, bound=draft.bound | {pin.name for pin in pins}), pins)

    def _of_release(self, draft: Draft, pins: Sequence[Pin]) -> Draft:
        """A draft with NVIDIA's channel of one CUDA release, where that has components that are asked for."""
        channels, shelf = draft.spec.channels or ("defaults",), self._shelf_of(draft.spec)
        lacking = [pin for pin in pins if pin.name.startswith("cuda-") and shelf and not shelf.has(pin)]
        asked = {row.version: row for pin in lacking if (row := self.knowledge.cuda(series_of(pin))) and row.labels}
        for row in asked.values():
            labels = (f"nvidia/label/cuda-{number}" for number in reversed(row.labels))
            label = next((name for name in labels if self._has_of(name, channels, lacking)), None)
            if label is None or label in map(short_channel, channels):
                continue
            short = [short_channel(item).split("/")[0] for item in channels]
            place = next((short.index(name) for name in ("nvidia", FORGE) if name in short), len(short))
            channels = (*channels[:place], label, *channels[place:])
            why = f"the components of CUDA {row.version} that torch requires are there"
            draft = replace(draft, spec=replace(draft.spec, channels=channels)).noting([OF_CHANNELS], why)
        shelf = self._shelf_of(draft.spec)
        gone = {
            pin for pin in lacking if shelf and not shelf.has(pin) and (self.gives_up or not self.file.pin(pin.name))
        }
        for pin in gone:
            asked_for = self.file.pin(pin.name)
            why = f"the channels have no {pin.yaml_text()}, the release of torch's CUDA"
            draft = draft.losing(pin.name).noting([pin.name], why) if asked_for else draft
        return replace(draft, spec=replace(draft.spec, pins=tuple(pin for pin in draft.spec.pins if pin not in gone)))

    def _has_of(self, label: str, channels: Sequence[str], pins: Sequence[Pin]) -> bool:
        """Whether a channel beside others has what satisfies one of some pins."""
        there = self._shelf_beyond([pin.name for pin in pins], channels, (label,))
        return there is not None and any(there.has(replace(pin, channel=label)) for pin in pins)

    def _of_two_channels(self, draft: Draft) -> Draft:
        """A draft that does not promise one channel for CUDA, as what the file asks for needs parts of two."""
        why = "a package that the file asks for needs CUDA components of a second channel"
        return replace(draft, spec=replace(draft.spec, ours=False, header=())).noting([OF_CHANNELS], why)

    def _with_cpu_builds(self, draft: Draft, answer: Locked) -> Draft | None:
        """A draft that asks for the CPU builds whose CUDA builds do not fit beside the rest; torch never is one.

        ``None`` where there are none that it does not ask for.
        """
        refused = {item.subject for item in answer.report.errors if item.code == "CU103"} - _FIRST
        listed = [item for solution in answer.conda for item in solution.packages]
        found = [item for item in listed if item.name in refused and names_cpu(item.build)]
        asked: list[Pin] = []
        for package in found:
            pin = draft.spec.pin(package.name) or Pin(name=package.name)
            asked.append(replace(pin, version=pin.condition(), build="*cpu*"))
            why = f"no CUDA build that the channels have of {pin.name} goes with the rest"
            draft = replace(draft, why=tuple(item for item in draft.why if item[0] != pin.name))
            draft = draft.noting([pin.name], why)
        names = {pin.name: pin for pin in asked}
        if not asked or all(draft.spec.pin(name) == pin for name, pin in names.items()):
            return None
        pins = [names.pop(pin.name, pin) for pin in draft.spec.pins]
        bound = draft.bound.union(pin.name for pin in asked)
        return replace(draft, spec=replace(draft.spec, pins=(*pins, *names.values())), bound=bound)

    def _relaxed(self, draft: Draft, needed: frozenset[str]) -> Draft | None:
        """A draft whose entries the channels satisfy; torch keeps its release, and CUDA and Python if they can."""
        spec = draft.spec
        shelf = self._shelf((pin.name for pin in spec.pins), self._reached(spec))
        fixed = [pin for pin in spec.pins if pin.name in draft.bound or pin.name.startswith("__")]
        asked = [pin for pin in fixed if pin.build and pin.name not in _FIRST]
        fixed = [pin for pin in fixed if pin not in asked]
        free = [pin for pin in spec.pins if pin not in fixed]
        entries = []
        for entry in entries_of(free, shelf):
            forms = entry.forms
            if entry.pin in asked:
                loose = replace(entry.pin, version="")
                forms = tuple(form for form in (entry.pin, loose) if shelf.has(form))
            elif entry.pin.name in CONDA_TORCHES:
                minor = replace(entry.pin, version=f"{draft.near.torch}.*", build=of_variant(entry.pin))
                forms = (*release_pins(entry.pin), *((minor,) if draft.near.torch else ()))
                forms = tuple(form for form in forms if shelf.has(form))
            elif entry.pin.name == "python":
                forms = tuple(pythons_near(entry.pin, shelf, only=draft.near.python)) or forms
            must = entry.pin.name in (*CONDA_TORCHES, "python") or entry.pin in asked
            must = must or (bool(forms) and entry.pin.name in needed)
            entries.append(replace(entry, forms=forms, needed=must))
        ended = [item for item in entries if not item.forms and self.knowledge.discontinued(item.pin.name)]
        if ended and not self.gives_up and torch_of(spec):  # what takes its place is found where torch is decided anew
            return None
        found = self._solved(spec, entries, fixed)
        return with_entries(draft, free, found.pins, shelf) if found else None

    def _solved(
        self,
        spec: EnvironmentSpec,
        entries: Sequence[ListedEntry],
        fixed: Sequence[Pin],
        *,
        near: bool = True,
        swaps: int = SWAPS,
    ) -> Relaxed | None:
        ask = partial(self._ask, spec)
        return relax(entries, ask, fixed=fixed, first=_FIRST, near=near, swaps=swaps, progress=self.progress)

    def _ask(
        self, spec: EnvironmentSpec, pins: Sequence[Pin], choices: Sequence[Choice] = ()
    ) -> Settled | Unsatisfiable:
        from cuenv.solve.io.choosing import choose  # noqa: PLC0415 - the solver is heavy

        request = SolveRequest(
            spec=replace(spec, pins=tuple(pins)),
            channels=self._reached(spec),
            platform=self.facts.platform,
            virtual_packages=virtual_packages(self.facts),
        )
        key = tuple(request.channels), tuple(pins), tuple(choices)
        if key not in self.answers:
            self.answers[key] = choose(request, choices, self.request.sources)
        return self.answers[key]

    def _shelf(self, names: Iterable[str], channels: Sequence[str]) -> Shelf:
        from cuenv.solve.io.records import Shelf  # noqa: PLC0415 - the solver is heavy

        known = self.shelves.get(tuple(channels))
        if known is None:
            known = self.shelves[tuple(channels)] = Shelf(names, channels, self.facts.platform, self.request.sources)
        else:
            known.read(names)
        return known

    def _reached(self, spec: EnvironmentSpec) -> tuple[str, ...]:
        """The channels that conda reads for an environment; of those that single entries name, what can be read."""
        found = spec.channels or ("defaults",)
        for channel in spec.reached[len(found) :]:
            with suppress(ChannelError):
                self._shelf((), (channel,))
                found = (*found, channel)
        return found

    def _shelf_of(self, spec: EnvironmentSpec) -> Shelf | None:
        """The records of what an environment lists; ``None`` where a channel of its own is not there."""
        try:
            return self._shelf((pin.name for pin in spec.pins), self._reached(spec))
        except NoChannelError:
            return None

    def _shelf_beyond(self, names: Sequence[str], own: Sequence[str], more: Sequence[str]) -> Shelf | None:
        """The records of the channels of a file and of some more, where those can be read.

        Raises:
            ChannelError: a channel of the file is there and cannot be read.
        """
        found: Shelf | None = None
        with suppress(NoChannelError):
            found = self._shelf(names, own)
        with suppress(ChannelError):
            found = self._shelf(names, tuple(dict.fromkeys((*own, *more))))
        return found

    def _say(self, text: str) -> None:
        if self.progress:
            self.progress(text)

    def _judged(self, draft: Draft, needed: frozenset[str]) -> _Judged:
        """The candidates that fit the host, nearest to what a draft means first."""
        intent = intent_of(draft.spec, self.knowledge)
        cpu = asks_for_cpu(self.file) and not wants_cuda(self.file, self.knowledge)
        request = Request(cpu=True, dev=False, pip=intent.pip) if cpu else intent.profile()
        decision = self._decided(request)
        if request.pip and not decision.fitting:  # what pip installs fits no torch: the lock says what is wrong with it
            decision = self._decided(replace(request, pip=()))
        own = self._reached(self.file)
        names = [pin.name for pin in intent.packages]
        records = self._shelf_beyond(names, own, ("pytorch", FORGE)) or self._shelf_beyond(names, own, (FORGE,))
        known = [name for name in names if records and records.has(Pin(name=name))]
        pythons = {name: records.pythons(Pin(name=name)) for name in known} if records else {}

        def lost(python: str) -> list[str]:
            return [name for name, minors in pythons.items() if int(python.partition(".")[2]) not in minors]

        needed = needed.intersection(pythons)
        rows = [
            _Row(item=item, of=decision, made=self._composed(decision, item, intent))
            for item in _nearest(decision, intent, lambda python: len(lost(python)))
            if draft.near.takes(item)
        ]
        orders = [(row, forge_first(row.made.channels)) for row in rows]
        rows += [replace(row, made=replace(row.made, channels=order)) for row, order in orders if order]
        return _Judged(intent=intent, rows=rows, needed=needed)

    def _decided(self, request: Request) -> Decision:
        found = next((found for other, found in self.decisions if other == request), None)
        if found is None:
            found = decide(Context(facts=self.facts, request=request, knowledge=self.knowledge, proving=True))
            self.decisions.append((request, found))
        return found

    def _servable(self, draft: Draft) -> Draft | None:
        """A draft without what cannot be had beside a torch that fits the host; ``None`` where none is there."""
        judged = self._judged(draft, frozenset())
        names = frozenset(pin.name for pin in judged.intent.packages)
        pairs = names.intersection(OF_TORCH)
        found: Relaxed | None = None
        fewer = (pairs - {"torchaudio"}, frozenset[str]()) if draft.near == Near() else ()
        for hard in dict.fromkeys((pairs, *fewer)):
            able: list[tuple[int, _Beside]] = []
            for places in _by_channels(judged.rows).values():
                beside = self._beside([judged.rows[place] for place in places], judged.intent, hard)
                answer = (
                    self._ask_beside(beside, (), [((*entry.forms,), ()) for entry in beside.free]) if beside else None
                )
                if beside and isinstance(answer, Settled):
                    able.append((sum(answer.taken) - len(beside.free), beside))
            if able:
                beside = min(able, key=lambda item: item[0])[1]
                found = relax(beside.free, partial(self._ask_beside, beside), near=False)
                break
        if found is None:
            return None
        there = {pin.name for pin in found.pins if pin}
        best = names.difference(hard, there)
        shelf = self._shelf_of(draft.spec)
        if shelf is None:
            return None
        pins = draft.spec.pins
        return with_entries(draft, pins, [None if pin.name in best else pin for pin in pins], shelf)

    def _anew(self, whole: Draft, first: Draft, needed: frozenset[str]) -> Draft | None:
        """What was meant, decided anew: the nearest torch beside which the entries can stand."""
        pins = tuple(pin for pin in whole.spec.pins if pin.name not in first.lost)
        why = tuple(item for item in first.why if item[0] in first.lost)
        plain = Draft(spec=replace(whole.spec, pins=pins), why=(*whole.why, *why), lost=first.lost, near=first.near)
        judged = self._judged(plain, needed)
        mine = self._of_own_channels(first, [row.item for row in judged.rows], judged.needed)
        for tried in range(_LOCKS):
            if tried > 1 and self.late:  # those of the file's own channels and one other are tried in any case
                return None
            place = self._first_that_closes(judged)
            if mine and (place is None or mine[0] <= place):
                label = f"{mine[2]} from the channels of the file"
                found = self._until_locked(mine[1], label, judged.needed)
                mine = None
            elif place is None:
                return None
            else:
                found = self._candidate(judged.rows.pop(place), judged.intent, judged.needed, plain)
            if found:
                return found
        return None

    def _composed(self, decision: Decision, item: Assessment, intent: Intent) -> EnvironmentSpec:
        known = item.candidate, intent.pip
        if known not in self.composed:
            made = composed(_case(decision, item, intent), name=self.file.name or "cuenv")
            if intent.pip and not made.pip:
                made = replace(made, pip=intent.pip, pins=(*made.pins, Pin(name="pip", why=("installs the pip part",))))
            channels = (*made.channels, *intent.channels)
            self.composed[known] = replace(made, channels=channels, variables={**made.variables, **self.file.variables})
        return self.composed[known]

    def _first_that_closes(self, judged: _Judged) -> int | None:
        """The place of the nearest candidate beside which the needed entries can be had."""
        best: int | None = None
        for places in _by_channels(judged.rows).values():
            before = [place for place in places if best is None or place < best]
            if before:
                self._say(f"trying {judged.rows[before[0]].item.candidate} and {len(before) - 1} more")
                rows = [judged.rows[place] for place in before]
                beside = self._beside(rows, judged.intent, judged.needed)
                found = self._ask(beside.spec, beside.fixed, (beside.choice,)) if beside else None
                best = before[found.taken[0]] if isinstance(found, Settled) else best
        return best

    def _beside(self, rows: Sequence[_Row], intent: Intent, hard: frozenset[str]) -> _Beside | None:
        """Some candidates of the same channels with the entries of a file; ``None`` where a hard one is lacking."""
        made = rows[0].made
        try:
            shelf = self._shelf({pin.name for pin in (*intent.packages, *made.pins)}, made.channels)
        except NoChannelError as error:
            self.skipped.append((str(rows[0].item.candidate), error.message))
            return None
        kinds = {_kind(row): row for row in reversed(rows)}
        fixed: list[Pin] = []
        varied: dict[tuple[object, ...], list[Pin]] = {kind: [] for kind in kinds}
        free: list[ListedEntry] = []
        for pin in intent.packages:
            forms = {kind: self._weakest(pin, row, shelf) for kind, row in kinds.items()}
            widest = [form for each in forms.values() for form in each]
            if pin.name in hard and not widest:
                return None
            if pin.name not in hard:
                free += (ListedEntry(pin=pin, forms=(_loose(form),)) for form in widest[:1])
            elif len(dict.fromkeys(widest)) == 1 and all(forms.values()) and not made.pin(pin.name):
                fixed += widest[:1]
            else:
                for kind, each in forms.items():
                    varied[kind] += each or [_NOTHING]
        choice: list[tuple[Pin, ...]] = []
        for row in rows:
            mine = varied[_kind(row)]
            own = {pin.name for pin in mine}
            choice.append((*(pin for pin in row.made.pins if pin.name not in own), *mine))
        return _Beside(spec=made, fixed=tuple(fixed), free=tuple(free), choice=tuple(choice))

    def _ask_beside(self, beside: _Beside, pins: Sequence[Pin], choices: Sequence[Choice]) -> Settled | Unsatisfiable:
        found = self._ask(beside.spec, [*beside.fixed, *pins], (beside.choice, *choices))
        return replace(found, taken=found.taken[1:]) if isinstance(found, Settled) else found

    def _weakest(self, pin: Pin, row: _Row, shelf: Shelf) -> tuple[Pin, ...]:
        """The form of an entry that asks for least beside a candidate; none where the channels have none."""
        own = row.made.pin(pin.name)
        if own:
            return (own,)
        forms = [*forms_of(replace(pin, channel="")), *forms_of(pin)] if pin.channel else [*forms_of(pin)]
        return next(((form,) for each in reversed(forms) if shelf.has(form := self._form(each, row))), ())

    def _form(self, pin: Pin, row: _Row) -> Pin:
        own = row.made.pin(pin.name)
        asked = requested(pin, row.item.candidate, self.knowledge, f"of {self.request.path.name}")
        return overruled(own, asked) if own else asked

    def _forms(self, pin: Pin, row: _Row, shelf: Shelf) -> list[Pin]:
        """What may stand for an entry beside a candidate, nearest first."""
        own = row.made.pin(pin.name)
        forms = [done for each in forms_of(pin) if shelf.has(done := self._form(each, row))]
        if not forms and pin.channel:
            forms = [done for each in forms_of(replace(pin, channel="")) if shelf.has(done := self._form(each, row))]
        return [*forms, own] if own else forms

    def _candidate(self, row: _Row, intent: Intent, needed: frozenset[str], first: Draft) -> Draft | None:
        """A candidate with the entries of the file, locked; ``None`` where that cannot be."""
        made, label = row.made, str(row.item.candidate)
        shelf = self._shelf({pin.name for pin in (*made.pins, *intent.packages)}, made.channels)
        own = {pin.name for pin in made.pins}
        entries = [
            ListedEntry(
                pin=pin,
                forms=tuple(dict.fromkeys(self._forms(pin, row, shelf))),
                needed=pin.name in own or pin.name in needed,
            )
            for pin in intent.packages
        ]
        asked = {pin.name for pin in intent.packages}
        fixed = [pin for pin in made.pins if pin.name not in asked]
        found = self._solved(made, entries, fixed)
        if found is None:
            self.skipped.append((label, _BESIDE))
            return None
        spec = headed(made, _case(row.of, row.item, intent), version=__version__)
        spec = replace(spec, pins=(*fixed, *intent.packages))
        draft = Draft(spec=spec, bound=frozenset(pin.name for pin in fixed), anew=True, near=first.near)
        draft = with_entries(draft, intent.packages, found.pins, shelf)
        draft = replace(draft, why=(*first.why, *draft.why), lost=first.lost | draft.lost)
        return self._until_locked(draft, label, needed)

    def _of_own_channels(
        self, first: Draft, able: Sequence[Assessment], needed: frozenset[str]
    ) -> tuple[int, Draft, str] | None:
        """A draft with the nearest minor of torch from the channels of the file beside which they have all entries.

        Returns:
            also the place of the first candidate of that minor, and what to call it.
        """
        spec = first.spec
        torch, python = torch_of(spec), spec.pin("python")
        shelf = self._shelf_of(spec)
        if torch is None or shelf is None:
            return None
        here = tuple(map(short_channel, spec.channels))
        minors: dict[tuple[str, Version, bool], int] = {}
        for place, item in enumerate(able):
            build = item.candidate.build
            if build.stack in here:
                minors.setdefault((build.stack, series(build.version), bool(build.cuda)), place)
        forms = {
            key: Pin(
                name=torch.name, version=f"{key[1]}.*", build="*cuda*" if key[2] else "*cpu*", channel=torch.channel
            )
            for key in minors
        }
        forms = {key: form for key, form in forms.items() if shelf.has(form)}
        fixed: list[Pin] = []
        mine = (torch, python, None if spec.pin("pytorch-cuda") else spec.pin("cudatoolkit"))
        for entry in entries_of((pin for pin in spec.pins if pin not in mine and pin.name[:2] != "__"), shelf):
            if not entry.forms and entry.pin.name in needed and further(entry.pin, self.knowledge):
                return None
            fixed += entry.forms[-1:]
        choices: list[Choice] = [tuple((form,) for form in forms.values())]
        if python:
            choices.append(tuple((form,) for form in pythons_near(python, shelf)))
        answer = self._ask(spec, fixed, choices) if forms else None
        if not isinstance(answer, Settled):
            return None
        key = list(forms)[answer.taken[0]]
        found = answer.solution.package(torch.name)
        judged = {str(item.candidate.build.version) for item in able if item.candidate.build.stack == key[0]}
        if found is None or found.version not in judged:
            return None
        draft = with_core(first, torch, answer.solution, self.knowledge)
        return minors[key], draft, f"pytorch {key[1]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Less:
    """A draft without what cannot be had, and the whole of which it is less.

    Attributes:
        cost: what the releases are worth that it does not keep to, in halves of an entry.
        misses: how many entries it lost that the channels have.
    """

    base: Draft
    draft: Draft
    cost: int
    misses: int

    @property
    def worth(self) -> tuple[int, int, int]:
        """What it costs in all; what has lost torchvision or torchaudio more than all else."""
        return len(self.draft.lost.intersection(OF_TORCH)), 2 * self.misses + self.cost, self.cost


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A candidate of a decision, and the environment that is composed for it, without its header."""

    item: Assessment
    of: Decision
    made: EnvironmentSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """The candidates that fit the host, nearest first, for what a file means; and the entries that are needed."""

    intent: Intent
    rows: list[_Row]
    needed: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Beside:
    """What is asked of the solver for some candidates of the same channels.

    Attributes:
        spec: of the first of them, for its channels.
        fixed: entries that have to be there, and ``free`` those that may.
        choice: the candidates, each with the entries whose form depends on it.
    """

    spec: EnvironmentSpec
    fixed: tuple[Pin, ...]
    free: tuple[ListedEntry, ...]
    choice: Choice


def _kind(row: _Row) -> tuple[object, ...]:
    """What the forms of entries depend on, among candidates of the same channels."""
    return row.item.candidate.cuda, row.item.candidate.build.cuda


def _loose(pin: Pin) -> Pin:
    """Any release of a package, for any release of CUDA."""
    return Pin(name=pin.name, channel=pin.channel, build=_RELEASE.sub("*", pin.build))


_NOTHING = Pin(name="cuenv-nothing")
"""No channel has it."""


def _by_channels(rows: Sequence[_Row]) -> dict[tuple[str, ...], list[int]]:
    """The places of candidates by their channels."""
    found: dict[tuple[str, ...], list[int]] = {}
    for place, row in enumerate(rows):
        found.setdefault(row.made.channels, []).append(place)
    return found


def _obstacles(spec: EnvironmentSpec, answer: Locked | None) -> Iterator[tuple[str, str]]:
    """The entries that are in the way of a lock, and why."""
    if answer and answer.unsatisfiable:
        guilty = blamed(answer.unsatisfiable)
        why = unsatisfiable_text(answer.unsatisfiable, spec)
        yield from ((pin.yaml_text(), why) for pin in spec.pins if pin.name in guilty)
    for item in answer.report.errors if answer else ():
        pin = spec.pin(item.subject) or (torch_of(spec) if item.code.startswith("CU4") else None)
        asked = next((text for text in spec.pip if requirement_name(text) in ("torch", item.subject)), "")
        yield pin.yaml_text() if pin else f"pip: {asked}" if asked else item.subject, item.message


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


def _case(decision: Decision, item: Assessment, intent: Intent) -> Decision:
    """The decision for one candidate alone."""
    python = parse_version_spec(item.candidate.python, what="python")
    request = replace(decision.case.request, packages=(), python=python)
    if intent.python and admits_all(intent.python, item.candidate.python):
        request = replace(request, python=intent.python)
    return replace(decision, case=replace(decision.case, request=request), fitting=(item,))


def _nearest(decision: Decision, intent: Intent, lost: Callable[[str], int]) -> list[Assessment]:
    """Each candidate with each of its Pythons, nearest to what was meant first; ``lost`` counts what a Python loses."""
    driver = decision.case.facts.driver
    level = driver.cuda if driver else None
    found: list[tuple[tuple[object, ...], int, Assessment]] = []
    for item in decision.fitting:
        if item.verdict("roles").outcome != "pass":
            continue
        for python in pythons(item.candidate.build, intent.python):
            one = replace(item, candidate=replace(item.candidate, python=python))
            torch, *rest = nearness(one.candidate, intent, level)
            found.append(((_doubtful(item), torch, lost(python), *rest), len(found), one))
    return [item for _, _, item in sorted(found, key=lambda entry: entry[:2])]


def _doubtful(item: Assessment) -> bool:
    """Whether no row vouches for torch's own code or for cuDNN on some GPU: then another release is nearer."""
    return any(item.verdict(rule).outcome == "unknown" for rule in ("device-code", "cudnn"))


def _told(
    made: EnvironmentSpec, told: tuple[EntryChange, ...], spec: EnvironmentSpec, request: LockRequest
) -> EnvironmentSpec:
    """The environment with what became of each entry in its head and above its pins."""
    lines = (f"Repaired from {request.path.name}:", *(f"  {change}" for change in told))
    pins = tuple(replace(pin, why=(*pin.why, *notes(pin, spec))) for pin in made.pins)
    head, *rest = made.header if made.header and made.ours else (f"{_written(made)} {__version__}.",)
    return replace(made, header=(head, *lines, *rest), pins=pins)
