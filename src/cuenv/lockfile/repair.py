"""Repair: the file that does what an environment file was meant to do, proven by locking it.

What is wrong is mended by what the findings say themselves, and by relaxing entries that the channels cannot satisfy.
Where torch itself must move, the nearest torch is decided anew. A lock in which one component lacks a GPU needs pins:
all sets of them are tried on the solver, smaller ones first, so that the first that works is the smallest.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import combinations
from typing import TYPE_CHECKING

from packaging.version import Version

from cuenv.core import __version__
from cuenv.core.errors import ChannelError, NoChannelError, NoHashError, OutsideError, Progress, UsageError
from cuenv.core.findings import ComponentSupport, Report, report
from cuenv.core.record import dataclass, field, replace
from cuenv.core.urls import short_channel
from cuenv.core.versions import minor as series
from cuenv.core.versions import parse_version_spec, version
from cuenv.host.facts import HostFacts, virtual_packages
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import PLATFORMS
from cuenv.lockfile.coverage import coverage, narrowed, repairs, weakest
from cuenv.lockfile.files import host_for, read_environment
from cuenv.lockfile.intent import (
    OF_CHANNELS,
    EntryChange,
    Intent,
    changes,
    further,
    intent_of,
    nearness,
    notes,
    release_pins,
)
from cuenv.lockfile.lock import Locked, LockRequest, locked
from cuenv.lockfile.obey import obeyed
from cuenv.lockfile.relax import ListedEntry, Relaxed, blamed, entries_of, forms_of, relax
from cuenv.resolver.asked_torch import OF_TORCH
from cuenv.resolver.candidates import admits_all, pythons
from cuenv.resolver.compose import compose, overruled, requested
from cuenv.resolver.decision import Decision, decide
from cuenv.resolver.explain import request_options
from cuenv.resolver.policy import asks_for_cpu, spec_of, wants_cuda
from cuenv.resolver.prove import prove, unsatisfiable_text
from cuenv.resolver.ranking import Assessment
from cuenv.resolver.resolve import composed, decidable
from cuenv.resolver.rules import Context
from cuenv.solve.environment_spec import EnvironmentSpec, Pin, requirement_name
from cuenv.solve.environment_yml import parse, render
from cuenv.solve.io.sources import Sources
from cuenv.solve.match_spec import parse_spec
from cuenv.solve.model import LockedPackage, Solution, SolveRequest, Unsatisfiable, build_cuda

if TYPE_CHECKING:  # the solver is heavy
    from cuenv.solve.io.shelf import Shelf

_TRIES = 60
"""Candidates that are tried; most are answered without a solve."""
_ATTEMPTS = 400
"""Attempts at nearer and nearer candidates; most are answered without a solve."""
_ROUNDS = 10
"""Times that one environment is mended by what its lock would say of it."""
_OLDEST, _NEWEST = 5, 20
"""Minors of Python 3 that are looked for."""
_PYTHONS = 3
"""Of these, how many are tried beside the torch of a file."""
_NEAR, _SOLVED = 80, 7
"""How long candidates are tried: one that is solved beside the entries counts for several that are solved alone."""
_SECONDS, _ENOUGH = 12, 18
"""After this time the search for what is nearest ends, and what few solves find is taken; then nothing is put back."""
_KEEPING, _LATE = 24, 6
"""Solves that find what can be had at all, of a short file, and those for one environment when it is late."""
_GROUPS = 12
"""Minor releases of torch that come before that of an environment in which all entries were had."""
_TOGETHER = "the solver cannot satisfy all requirements together"
_BESIDE = "the solver cannot satisfy the entries of the file beside it"
_FORGE = "conda-forge"
_TORCH = ("pytorch", "pytorch-gpu")
_CORE = (*_TORCH, "python", "pytorch-cuda", "cuda-version", "cudatoolkit")
"""Packages whose release is meant as it is written, as long as that can be."""
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
        open: why the channels do not close the file as it is; empty when they do, or were not asked.
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
    open: str = ""

    @property
    def needed(self) -> bool:
        """Whether anything was wrong."""
        return bool(self.report.errors or self.open)


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
    spec, _ = read_environment(request.path)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """An environment that may take the place of the file.

    Attributes:
        bound: names of pins that stand as they are.
        why: by name, why an entry is not as it was.
        anew: torch and its CUDA were decided anew, by what the file meant.
        lost: names of entries that the solver did not find a place for.
    """

    spec: EnvironmentSpec
    bound: frozenset[str] = frozenset()
    why: tuple[tuple[str, str], ...] = ()
    anew: bool = False
    lost: frozenset[str] = frozenset()

    def noting(self, names: Iterable[str], why: str) -> _Draft:
        have = dict(self.why)
        return replace(self, why=(*self.why, *((name, why) for name in names if name not in have)))

    def losing(self, name: str) -> _Draft:
        """Without an entry: what was said of another release of it is no longer why."""
        return replace(self, lost=self.lost | {name}, why=tuple(item for item in self.why if item[0] != name))


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
    dead: dict[str, str] = field(default_factory=dict)
    clock: Callable[[], float] = float
    began: float = 0
    near: int = 0
    tried: set[tuple[object, ...]] = field(default_factory=set)
    closes: Solution | None = None
    in_order: _Draft | None = None
    """What can be had with the channels in the order of the file, where more can be had in another one."""

    @property
    def late(self) -> bool:
        """Whether enough time was spent on what is nearer."""
        return self.spent > _SECONDS

    @property
    def spent(self) -> float:
        return self.clock() - self.began

    @property
    def tired(self) -> bool:
        """Whether enough candidates were tried."""
        return self.near >= _NEAR

    def done(self) -> Repaired:
        answer, why = self._lock(self.file)
        title = self.request.path.name
        found = Repaired(report=answer.report if answer else report(title, ()), facts=self.facts, spec=None, open=why)
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
        try:
            answer = locked(self.request, spec, self.knowledge, progress=self.progress)
        except (NoChannelError, NoHashError) as error:
            return None, error.message
        if answer.unsatisfiable:
            return answer, unsatisfiable_text(answer.unsatisfiable, spec)
        return answer, ""

    def _with_layers(self, solution: Solution, found: Repaired) -> Repaired | None:
        """The file with the smallest set of pins with which every component supports every GPU."""
        for tried, pins in enumerate(_sets(repairs(solution, found.components, self.knowledge))):
            self._say(f"trying {', '.join(pin.yaml_text() for pin in pins)}")
            made = _with_pins(narrowed(self.file, pins), pins, self.request)
            answer, _ = self._lock(_as_read(made))
            if answer and answer.lock:
                return replace(found, spec=made, pins=pins, tried=tried)
        return None

    def _moved(self, found: Repaired) -> Repaired:
        """The nearest environment that locks: with the torch of the file, else with the nearest torch.

        As many entries as can be had stay, before torch keeps its release.
        """
        first = self._own()
        listed = frozenset(pin.name for pin in self.file.pins)
        own = self._until_locked(first, self.request.path.name, listed)
        if own is None:
            first = self._keepable(first)
        for needed in (listed, _NEEDED, _NEEDED - {"torchaudio"}, _NEEDED.difference(OF_TORCH)) if own is None else ():
            own = self._until_locked(first, self.request.path.name, needed)
            if own is None and _torch_of(self.file):
                own = self._anew(first, needed)
            if own:
                break
        found = replace(found, skipped=tuple(dict.fromkeys(self.skipped)))
        own = self._restored(own) if own else None
        if own is None:
            obstacles = tuple(dict.fromkeys(self.obstacles))
            return replace(found, obstacles=obstacles, has_torch=_torch_of(self.file) is not None)
        told = changes(self.file, own.spec, dict(own.why), self.knowledge, anew=own.anew)
        return replace(found, spec=_told(own.spec, told, self.file, self.request), changes=told)

    def _own(self) -> _Draft:
        """The file for one platform, with the channels that people take what it lists from, where its own lack it."""
        spec = self.file
        if spec.platforms:
            spec = replace(spec, platforms=(self.facts.platform,))
        channels = spec.channels or ("defaults",)
        names = {pin.name for pin in spec.pins}
        for more in (_FORGE, "nvidia"):
            if more in map(short_channel, channels):
                continue
            here = self._shelf(names, channels)
            lacking = {pin.name for pin in spec.pins if not any(map(here.has, forms_of(pin)))}
            there = self._shelf_beyond(sorted(lacking), channels, (more,)) if lacking else None
            if there and any(there.has(Pin(name=name)) for name in lacking):
                channels = (*channels, more)
        return _Draft(spec=spec if channels == (spec.channels or ("defaults",)) else replace(spec, channels=channels))

    def _keepable(self, draft: _Draft) -> _Draft:
        """A draft without what cannot be had, with conda-forge before the channel of torch where more can be had so."""
        found = self._kept(draft)
        moved = self._forge_first(draft) if self._placeless(found) and not self.late else None
        if moved:
            closes = self.closes
            other = self._kept(moved)
            pairs = all(other.spec.pin(name) for name in OF_TORCH if found.spec.pin(name))
            if pairs and len(other.spec.pins) > len(found.spec.pins):
                self.in_order = found
                return other
            self.closes = closes
        return found

    def _kept(self, draft: _Draft) -> _Draft:
        """A draft without entries that the channels do not have beside the others, whatever torch and Python are."""
        spec = draft.spec
        shelf = self._shelf_of(spec)
        if shelf is None:
            return draft
        listed = [pin for pin in spec.pins if pin.name not in draft.bound and further(pin, self.knowledge)]
        entries: Sequence[ListedEntry] = entries_of(listed, shelf)
        fixed = [form for pin in (_torch_of(spec), spec.pin("python")) if (form := self._any(pin, shelf))]
        pairs = self._solved(
            spec, [item for item in entries if item.pin.name in OF_TORCH], shelf, fixed, None, near=False
        )
        kept = {pin.name for pin in pairs.pins if pin} if pairs else set()
        entries = [replace(item, needed=item.pin.name in kept) for item in entries]
        found = self._solved(spec, entries, shelf, fixed, None, near=False)
        if found is None:
            return draft
        self.closes = found.solution
        wide = self._shelf_beyond([pin.name for pin in listed], spec.channels or ("defaults",), ("pytorch", _FORGE))
        elsewhere = {
            pin.name for pin in listed if wide and wide.has(Pin(name=pin.name)) and not shelf.has(Pin(name=pin.name))
        }
        gone = {pin.name for pin, new in zip(listed, found.pins, strict=True) if new is None} - elsewhere
        return _with_entries(draft, listed, [None if pin.name in gone else pin for pin in listed], shelf, cut=found.cut)

    def _any(self, pin: Pin | None, shelf: Shelf) -> Pin | None:
        """Any release of what a file names, for CUDA if that is what the file is for; ``None`` where there is none."""
        if pin is None:
            return None
        cuda = pin.name in _TORCH and wants_cuda(self.file, self.knowledge) and not asks_for_cpu(self.file)
        forms = [Pin(name=pin.name, build="*cuda*", channel=pin.channel)] if cuda else []
        return next((form for form in (*forms, Pin(name=pin.name, channel=pin.channel)) if shelf.has(form)), None)

    def _until_locked(self, draft: _Draft, label: str, needed: frozenset[str]) -> _Draft | None:
        """A draft that locks, mended by what its lock would say of it; ``None`` where that leads nowhere.

        Args:
            draft: to begin with.
            label: what it is, for people.
            needed: entries that have to stay in some release, if the channels have any.
        """
        seen: list[EnvironmentSpec] = []
        answer, why = None, ""
        for _ in range(_ROUNDS):
            if draft.spec in seen:
                break
            seen.append(draft.spec)
            answer, why = self._lock(_as_read(draft.spec))
            if answer and answer.lock:
                return draft
            if answer is None:
                break
            then = self._relaxed(draft, needed) if why else self._obeying(draft, answer)
            why = why or next((item.message for item in answer.report.errors), "")
            if then is None:
                break
            draft = then
        self.skipped.append((label, why))
        if label == self.request.path.name:
            self.obstacles += _obstacles(draft.spec, answer)
        return None

    def _restored(self, own: _Draft) -> _Draft:
        """A draft that locks, with as many of its lost entries as there is a place for after all.

        They are put back beside the rest as it is, else beside other releases of it, and then with conda-forge before
        the channel of torch: that one has a few old libraries, which hide those that conda-forge's packages require.
        """
        best = own
        for moved in (False, True):
            draft = self._forge_first(best) if moved else best
            for free in (False, True):
                lost = self._placeless(draft) if draft else frozenset()
                found = (
                    self._placed(draft, lost, free=free)
                    if draft and lost and not (free and self.late) and self.spent < _ENOUGH
                    else None
                )
                if found is None or len(found.lost) >= len(best.lost):
                    continue
                names = ", ".join(sorted(best.lost - found.lost))
                there = frozenset(pin.name for pin in found.spec.pins)
                then = self._until_locked(found, f"{self.request.path.name} with {names} as well", there)
                best, draft = (then, then) if then else (best, draft)
        return best

    def _placeless(self, draft: _Draft) -> frozenset[str]:
        """The lost entries of a draft that its channels have."""
        shelf = self._shelf_of(replace(draft.spec, pins=self.file.pins))
        names = {
            pin.name for pin in self.file.pins if draft.spec.pin(pin.name) is None and further(pin, self.knowledge)
        }
        return frozenset(name for name in draft.lost & names if shelf and shelf.has(Pin(name=name)))

    def _placed(self, draft: _Draft, lost: frozenset[str], *, free: bool) -> _Draft | None:
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
        found = relax(
            entries,
            lambda pins, prefer: self._ask(spec, pins, prefer),
            shelf,
            fixed=held,
            python="" if (minor := _minor(spec.pin("python"))) is None else f"3.{minor}",
            exact=False,
            solves=_LATE if self.late or not free else 2 * _LATE,
            progress=self.progress,
        )
        if found is None:
            return None
        there = {pin.name for pin, new in zip(listed, found.pins, strict=True) if new}
        why = tuple(item for item in draft.why if item[0] not in lost)
        made = replace(draft, spec=spec, why=why, lost=draft.lost - there)
        return _with_entries(made, listed, found.pins, shelf, cut=found.cut)

    def _forge_first(self, draft: _Draft) -> _Draft | None:
        """A draft with conda-forge before the channel ``pytorch``, and torch from there; ``None`` where that is so."""
        channels = draft.spec.channels
        short = list(map(short_channel, channels))
        shelf = self._shelf_of(draft.spec)
        if shelf is None or "pytorch" not in short or _FORGE not in short[short.index("pytorch") :]:
            return None
        home = channels[short.index("pytorch")]
        nvidia = [item for item in channels if short_channel(item).split("/")[0] == "nvidia"]
        order = (*nvidia, *(item for item in channels if item not in (home, *nvidia)), home)
        pins = tuple(
            replace(pin, channel="pytorch") if _of_torch(pin) and _comes_from(shelf.best(pin), "pytorch") else pin
            for pin in draft.spec.pins
        )
        why = "the channel pytorch has old libraries, which hide those that packages of conda-forge require"
        return replace(draft, spec=replace(draft.spec, channels=order, pins=pins)).noting([OF_CHANNELS], why)

    def _obeying(self, draft: _Draft, answer: Locked) -> _Draft:
        """A draft as the findings on it say that it should be."""
        spec, pins = obeyed(draft.spec, answer.report.errors)
        for item in answer.report.errors:
            lines = [text for edit in item.edits if edit.pip for text in edit.entries]
            names = {pin.name for edit in item.edits if not edit.pip for pin in map(parse_spec, edit.entries)}
            names |= {*map(requirement_name, lines), *(edit.over for edit in item.edits), item.subject}
            draft = draft.noting([*sorted(names), *lines], item.message)
        return replace(draft, spec=spec, bound=draft.bound | {pin.name for pin in pins})

    def _relaxed(self, draft: _Draft, needed: frozenset[str]) -> _Draft | None:
        """A draft whose entries the channels satisfy; torch keeps its release, and CUDA and Python if they can."""
        spec = draft.spec
        channels = spec.channels or ("defaults",)
        shelf = self._shelf((pin.name for pin in spec.pins), channels)
        fixed = [pin for pin in spec.pins if pin.name in draft.bound or pin.name.startswith("__")]
        free = [pin for pin in spec.pins if pin not in fixed]
        known = entries_of(free, shelf)
        if needed.issuperset(entry.pin.name for entry in known) and not self._together(spec, known, fixed, shelf):
            return None
        for core, minor in self._orders(known, fixed, shelf, needed):
            entries = []
            for entry in known:
                forms = entry.forms
                if entry.pin.name in core:
                    forms = tuple(form for form in release_pins(entry.pin) if shelf.has(form))
                elif minor is not None and entry.pin.name == "python":
                    forms = tuple(form for form in (Pin(name="python", version=f"3.{minor}.*"),) if shelf.has(form))
                elif minor is not None:
                    forms = tuple(form for form in forms if minor in shelf.pythons(form))
                must = entry.pin.name in core or (bool(entry.forms) and entry.pin.name in needed)
                entries.append(replace(entry, forms=forms, needed=must))
            found = self._solved(spec, entries, shelf, fixed, minor, exact=core == _CORE)
            if found:
                return _with_entries(draft, free, found.pins, shelf)
        return None

    def _together(
        self, spec: EnvironmentSpec, entries: Sequence[ListedEntry], fixed: Sequence[Pin], shelf: Shelf
    ) -> bool:
        """Whether all entries can be had in some release beside torch as it is asked for."""
        pins = list(fixed)
        for entry in entries:
            torch = entry.pin.name in _TORCH
            forms = [form for form in release_pins(entry.pin) if shelf.has(form)] if torch else list(entry.forms)
            if torch and not forms:
                return False
            pins += forms[-1:]
        return isinstance(self._ask(spec, pins, ()), Solution)

    def _orders(
        self, entries: Sequence[ListedEntry], fixed: Sequence[Pin], shelf: Shelf, needed: frozenset[str]
    ) -> Iterator[tuple[tuple[str, ...], int | None]]:
        """Which packages keep their release, beside which minor of Python; nearest first."""
        asked = _minor(next((pin for pin in (*fixed, *(item.pin for item in entries)) if pin.name == "python"), None))
        free = any(item.pin.name == "python" for item in entries)
        if asked is None or not free:
            yield from ((core, asked) for core in (_CORE, _TORCH))
            return
        bare = [item for item in entries if item.forms and item.pin.name != "python"]
        of_torch = [item for item in bare if item.pin.name in _TORCH]
        able = frozenset(range(_OLDEST, _NEWEST))
        for item in of_torch:
            able &= frozenset().union(*(shelf.pythons(form) for form in release_pins(item.pin)))
        able &= shelf.pythons(Pin(name="python")) & frozenset(
            minor for minor in able if shelf.has(Pin(name="python", version=f"3.{minor}.*"))
        )
        lost = {minor: sum(minor not in shelf.pythons(item.forms[-1]) for item in bare) for minor in able}
        nearest = sorted(able, key=lambda minor: (lost[minor], abs(minor - asked), minor < asked))
        least = lost[nearest[0]] if nearest else 0
        whole = needed.issuperset(item.pin.name for item in entries)
        if whole and least:
            return  # beside no Python there is a release of all of them
        if asked in able and lost[asked] == least:
            yield _CORE, asked
        yield from ((_TORCH, minor) for minor in nearest[:_PYTHONS] if not whole or not lost[minor])

    def _solved(
        self,
        spec: EnvironmentSpec,
        entries: Sequence[ListedEntry],
        shelf: Shelf,
        fixed: Sequence[Pin],
        minor: int | None,
        *,
        exact: bool = False,
        near: bool = True,
    ) -> Relaxed | None:
        return relax(
            entries,
            lambda pins, prefer: self._ask(spec, pins, prefer),
            shelf,
            fixed=fixed,
            python="" if minor is None else f"3.{minor}",
            exact=exact,
            near=near,
            solves=_LATE if self.late else None if near else max(_KEEPING - len(entries) // 10, _KEEPING // 2),
            progress=self.progress,
        )

    def _ask(
        self, spec: EnvironmentSpec, pins: Sequence[Pin], prefer: Sequence[LockedPackage]
    ) -> Solution | Unsatisfiable:
        from cuenv.solve.io.solver import solve  # noqa: PLC0415 - the solver is heavy

        request = SolveRequest(
            spec=replace(spec, pins=tuple(pins)),
            channels=spec.channels or ("defaults",),
            platform=self.facts.platform,
            virtual_packages=virtual_packages(self.facts),
            prefer=tuple(prefer),
        )
        try:
            return solve(request, self.request.sources)
        except NoHashError as error:
            return Unsatisfiable(platform=self.facts.platform, missing=(), text=error.message)

    def _shelf(self, names: Iterable[str], channels: Sequence[str]) -> Shelf:
        from cuenv.solve.io.shelf import Shelf  # noqa: PLC0415 - the solver is heavy

        return Shelf(names, channels, self.facts.platform, self.request.sources)

    def _shelf_of(self, spec: EnvironmentSpec) -> Shelf | None:
        """The records of what an environment lists; ``None`` where a channel of its own is not there."""
        try:
            return self._shelf((pin.name for pin in spec.pins), spec.channels or ("defaults",))
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

    def _anew(self, first: _Draft, needed: frozenset[str]) -> _Draft | None:
        """What was meant, decided anew: the nearest torch beside which the entries can stand."""
        plain = self.in_order or first
        intent = intent_of(plain.spec, self.knowledge)
        cpu = asks_for_cpu(self.file) and not wants_cuda(self.file, self.knowledge)
        wishes = Request(cpu=True, dev=False, pip=intent.pip) if cpu else intent.profile()
        decision = decide(Context(facts=self.facts, request=wishes, knowledge=self.knowledge, proving=True))
        own = self.file.channels or ("defaults",)
        names = [pin.name for pin in intent.packages]
        records = self._shelf_beyond(names, own, ("pytorch", _FORGE)) or self._shelf_beyond(names, own, (_FORGE,))
        known = [name for name in names if records and records.has(Pin(name=name))]
        pythons = {name: records.pythons(Pin(name=name)) for name in known} if records else {}

        def lost(python: str) -> int:
            return sum(int(python.partition(".")[2]) not in minors for minors in pythons.values())

        needed = needed.intersection(pythons)
        whole = len(needed) == len(pythons)
        self.near = 0
        able = [item for item in _nearest(decision, intent, lost) if not (whole and lost(item.candidate.python))]
        left = _ATTEMPTS
        for label, group, proven in self._by_release(able):
            if not proven and (left <= 0 or self.tired or (whole and self.late)):
                continue
            left -= len(group)
            self._say(f"trying {label}")
            mine = self._of_own_channels(first, group, needed) if whole else None
            found = (
                self._until_locked(mine, f"{label.partition(' (')[0]} from the channels of the file", needed)
                if mine
                else None
            )
            if found:
                return found
            for item in group if not whole or plain is first else ():
                found = self._candidate(decision, item, intent, needed, plain)
                if found:
                    return found
                if self.tired or (whole and self.late):
                    break
        return None

    def _of_own_channels(self, first: _Draft, group: Sequence[Assessment], needed: frozenset[str]) -> _Draft | None:
        """A draft with another minor of torch from the channels of the file, beside which they have all entries."""
        spec, build = first.spec, group[0].candidate.build
        torch = _torch_of(spec)
        if torch is None or build.stack not in map(short_channel, spec.channels):
            return None
        shelf = self._shelf_of(spec)
        if shelf is None:
            return None
        cuda = "*cuda*" if build.cuda else ""
        fixed = [Pin(name=torch.name, version=f"{series(build.version)}.*", build=cuda, channel=torch.channel)]
        python = spec.pin("python")
        mine = (torch, python, spec.pin("cudatoolkit"))
        others = [pin for pin in spec.pins if pin not in mine and not pin.name.startswith("__")]
        for entry in entries_of(others, shelf):
            if not entry.forms and entry.pin.name in needed and further(entry.pin, self.knowledge):
                return None
            fixed += entry.forms[-1:]
        for form in dict.fromkeys((python, Pin(name="python"))) if python else (None,):
            answer = (
                self._ask(spec, [*fixed, *([form] if form else [])], ()) if form is None or shelf.has(form) else None
            )
            if isinstance(answer, Solution):
                found = answer.package(torch.name)
                fits = found and found.version in {str(item.candidate.build.version) for item in group}
                return _with_core(first, torch, answer, self.knowledge) if fits else None
        return None

    def _candidate(
        self, decision: Decision, item: Assessment, intent: Intent, needed: frozenset[str], first: _Draft
    ) -> _Draft | None:
        """A candidate with the entries of the file, locked; ``None`` where that cannot be."""
        key = (item.candidate, needed)
        if key in self.tried:
            return None
        self.tried.add(key)
        self._say(f"trying {item.candidate}")
        try:
            made = self._beside(_case(decision, item, intent), item, intent, needed)
        except NoChannelError as error:
            made = error.message
        if isinstance(made, str):
            self.skipped.append((str(item.candidate), made))
            self.near += _SOLVED if made == _BESIDE else made == _TOGETHER
            return None
        made = replace(made, why=(*first.why, *made.why), lost=first.lost | made.lost)
        return self._until_locked(made, str(item.candidate), needed)

    def _by_release(self, fitting: Sequence[Assessment]) -> list[tuple[str, list[Assessment], bool]]:
        """Candidates by the channel and the minor release of their torch, nearest first.

        The release with which all entries were had is marked, and comes before those that are further away.
        """
        groups: dict[tuple[str, Version], list[Assessment]] = {}
        for item in fitting:
            build = item.candidate.build
            groups.setdefault((build.stack, series(build.version)), []).append(item)
        torch = next((found for name in _TORCH if self.closes and (found := self.closes.package(name))), None)
        known = (torch.channel_name, series(version(torch.version))) if torch else None
        order = list(groups)
        if known in groups and (self.late or order.index(known) >= _GROUPS):
            order.remove(known)
            order.insert(0 if self.late else _GROUPS, known)
        return [(f"pytorch {key[1]} ({key[0]})", groups[key], key == known) for key in order]

    def _alone(self, made: EnvironmentSpec, item: Assessment, needed: frozenset[str]) -> str:
        """Why a candidate cannot be had, without the further packages of the file; empty where it can."""
        from cuenv.solve.io.solver import absent  # noqa: PLC0415 - the solver is heavy

        pairs = sorted(needed.intersection(OF_TORCH))
        shelf = self._shelf(pairs, made.channels)
        for name in pairs:
            if not shelf.goes_with(name, "pytorch", str(item.candidate.build.version)):
                return f"the channels have no {name} for it"
        label = str(item.candidate)
        if label not in self.dead:
            gone = absent(made.pins, made.channels, self.facts.platform, self.request.sources)
            if gone:
                self.dead[label] = f"the channels have no {', '.join(pin.yaml_text() for pin in gone)}"
            else:
                alone = isinstance(self._ask(made, made.pins, ()), Solution)
                self.dead[label] = "" if alone else _TOGETHER
        return self.dead[label]

    def _beside(self, case: Decision, item: Assessment, intent: Intent, needed: frozenset[str]) -> _Draft | str:
        """A candidate with the further packages that the channels have beside it, or why there is none."""
        made = compose(case, name=self.file.name or "cuenv", version=__version__)
        channels = (*made.channels, *intent.channels)
        made = replace(made, channels=channels, variables={**made.variables, **self.file.variables})
        why = self._alone(made, item, needed)
        if why:
            return why
        own = {pin.name: pin for pin in made.pins}
        shelf = self._shelf((*own, *(pin.name for pin in intent.packages)), channels)
        of_file = f"of {self.request.path.name}"
        minor = int(item.candidate.python.partition(".")[2])

        def form(pin: Pin) -> Pin:
            asked = requested(pin, item.candidate, self.knowledge, of_file)
            return overruled(own[pin.name], asked) if pin.name in own else asked

        entries = []
        for pin in intent.packages:
            forms = [done for each in forms_of(pin) if shelf.has(done := form(each))]
            if not forms and pin.channel:
                forms = [done for each in forms_of(replace(pin, channel="")) if shelf.has(done := form(each))]
            forms = [each for each in forms if minor in shelf.pythons(each)]
            forms += [own[pin.name]] if pin.name in own else []
            if pin.name in needed and not forms:
                return f"the channels have no {pin.name} for it"
            must = pin.name in own or pin.name in needed
            entries.append(ListedEntry(pin=pin, forms=tuple(dict.fromkeys(forms)), needed=must))
        asked = {pin.name for pin in intent.packages}
        fixed = [pin for pin in made.pins if pin.name not in asked]
        found = self._solved(made, entries, shelf, fixed, minor)
        if found is None:
            return _BESIDE
        spec = replace(made, pins=(*fixed, *intent.packages))
        draft = _Draft(spec=spec, bound=frozenset(pin.name for pin in fixed), anew=True)
        return _with_entries(draft, intent.packages, found.pins, shelf)


def _with_core(draft: _Draft, torch: Pin, solution: Solution, knowledge: Knowledge) -> _Draft:
    """A draft with the torch of a solution, and with its Python, CUDA and libraries of torch where they differ."""
    from cuenv.solve.io.solver import matches  # noqa: PLC0415 - the solver is heavy

    pins: list[Pin] = []
    by_cuda = solution.package("pytorch-cuda")
    for pin in draft.spec.pins:
        package = solution.package(pin.name)
        if pin.name == "cudatoolkit" and package is None and by_cuda:
            there = draft.spec.pin("pytorch-cuda")
            pins += () if there else [Pin(name="pytorch-cuda", version=by_cuda.version, channel=torch.channel)]
            draft = draft.noting([pin.name, "pytorch-cuda"], "this torch takes its CUDA by pytorch-cuda")
            continue
        if package is None or (pin != torch and matches(pin.match_spec(), package)):
            pins.append(pin)
        elif pin == torch or pin.name in OF_TORCH:
            cuda = pin == torch and build_cuda(package.build)
            pins.append(replace(pin, version=package.version, build="*cuda*" if cuda else ""))
        elif pin.name == "python" or not further(pin, knowledge):
            pins.append(replace(pin, version=str(series(version(package.version))), build=""))
        else:
            pins.append(pin)
    why = "the nearest release that was found beside which the channels have the other entries"
    moved = replace(draft, spec=replace(draft.spec, pins=tuple(pins)), bound=draft.bound | {torch.name})
    return moved.noting([torch.name], why).noting(OF_TORCH, "the release for that torch")


def _with_entries(
    draft: _Draft, entries: Sequence[Pin], chosen: Sequence[Pin | None], shelf: Shelf, *, cut: bool = False
) -> _Draft:
    """A draft with what was chosen for some of its entries, and why each is not as it was.

    Where the search was ``cut``, it is not known whether what went could have stayed.
    """
    by_name = dict(zip((pin.name for pin in entries), zip(entries, chosen, strict=True), strict=True))
    pins: list[Pin] = []
    channels = ", ".join(map(short_channel, draft.spec.channels or ("defaults",)))
    for pin in draft.spec.pins:
        old, new = by_name.get(pin.name, (pin, pin))
        pins += [new] if new else []
        if new is None or (old.condition() not in ("", new.condition()) or (old.build and new.build != old.build)):
            bare = old.yaml_text() if new else old.name
            if not shelf.has(old if new else Pin(name=old.name)):
                why = f"the channels have no {bare} for {shelf.platform}: {channels}"
            elif cut and new is None:
                why = (
                    f"the solver names {bare} in a conflict with the rest; whether it fits in another way was not tried"
                )
            else:
                why = f"{bare} cannot be satisfied together with the rest"
            draft = (draft if new else draft.losing(old.name)).noting([old.name], why)
    return replace(draft, spec=replace(draft.spec, pins=tuple(pins)))


def _of_torch(pin: Pin) -> bool:
    return pin.name in _CORE or pin.name.startswith("torch")


def _comes_from(package: LockedPackage | None, channel: str) -> bool:
    return package is not None and package.channel_name == channel


def _torch_of(spec: EnvironmentSpec) -> Pin | None:
    return next((pin for name in _TORCH if (pin := spec.pin(name))), None)


def _obstacles(spec: EnvironmentSpec, answer: Locked | None) -> Iterator[tuple[str, str]]:
    """The entries that are in the way of a lock, and why."""
    if answer and answer.unsatisfiable:
        guilty = blamed(answer.unsatisfiable)
        why = unsatisfiable_text(answer.unsatisfiable, spec)
        yield from ((pin.yaml_text(), why) for pin in spec.pins if pin.name in guilty)
    for item in answer.report.errors if answer else ():
        pin = spec.pin(item.subject) or (_torch_of(spec) if item.code.startswith("CU4") else None)
        asked = next((text for text in spec.pip if requirement_name(text) in ("torch", item.subject)), "")
        yield pin.yaml_text() if pin else f"pip: {asked}" if asked else item.subject, item.message


def _minor(python: Pin | None) -> int | None:
    """The minor of Python 3 that a pin names."""
    wish = spec_of(python)
    prefix = wish.prefix if wish else None
    return prefix[1] if prefix and len(prefix) > 1 and prefix[0] == 3 else None


def _as_read(spec: EnvironmentSpec) -> EnvironmentSpec:
    """An environment as a reader of its file gets it."""
    read = parse(render(replace(spec, constrained=())), "environment.yml")[0]
    return replace(read, constraints=spec.constraints, constrained=spec.constrained)


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
