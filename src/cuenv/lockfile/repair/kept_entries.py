"""What of a file can stay: a draft without what cannot be had, and with what fits after all."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from packaging.version import Version

from cuenv.core.errors import NoChannelError
from cuenv.core.io.exclusive import run_parallel
from cuenv.core.record import replace
from cuenv.core.regex import regex
from cuenv.core.urls import short_channel
from cuenv.core.versions import version
from cuenv.lockfile.repair.draft_repair import DraftRepair
from cuenv.lockfile.repair.drafts import (
    FORGE,
    TOGETHER,
    Draft,
    KeptMinors,
    as_read,
    forge_first,
    losses,
    of_torch,
    torch_of,
    with_cpu_torch,
    with_entries,
    with_tensorflow,
)
from cuenv.lockfile.repair.intent import OF_CHANNELS, further
from cuenv.lockfile.repair.proving import odds
from cuenv.lockfile.repair.queries import PROVING
from cuenv.lockfile.repair.relax import SWAPS, ListedEntry, entries_of, forms_of
from cuenv.resolver.asked_cuda import asks_for_cpu, wants_cuda
from cuenv.resolver.asked_torch import CONDA_TORCHES
from cuenv.resolver.requirements import OF_TORCH
from cuenv.solve.environment_spec import EnvironmentSpec, Pin
from cuenv.solve.model import Solution, Solved

if TYPE_CHECKING:  # the solver is heavy
    from cuenv.solve.io.records import RecordIndex

_EXCLUDES = regex(r"(\S+) <0(?:\.0)*(?:\.?a0?)?")  # how a record of conda-forge says whose place its package takes
_OF_CUDA = ("CU101", "CU102", "CU103", "CU104")
"""Findings on CUDA channels, CUDA releases and CPU builds, which are mended where they are warnings as well."""


class KeptEntries(DraftRepair):
    """The entries of the file that stay, and what the others conflict with."""

    def _own(self) -> Draft:
        """The file for one platform, with the channels that people take what it lists from, where its own lack it.

        A channel that is not there is left out, unless all are.
        """
        spec = _once(self.file)
        if spec.platforms:
            spec = replace(spec, platforms=(self.facts.platform,))
        gone = {channel: why for channel in spec.reached if (why := self._unread(channel, NoChannelError))}
        channels = tuple(channel for channel in spec.channels if channel not in gone) or spec.channels or ("defaults",)
        pins = tuple(replace(pin, channel="") if pin.channel in gone else pin for pin in spec.pins)
        spec = replace(spec, pins=pins) if gone else spec
        names = {pin.name for pin in spec.pins} | ({"pip"} if spec.pip else set())
        for more in (FORGE, "nvidia"):
            if more in map(short_channel, channels):
                continue
            here = self._index(names, self._reached(replace(spec, channels=channels)))
            lacking = {pin.name for pin in spec.pins if not any(map(here.has, forms_of(pin)))}
            lacking |= {name for name in names if not here.has(Pin(name=name))}
            there = self._shelf_beyond(sorted(lacking), channels, (more,)) if lacking else None
            if there and any(there.has(Pin(name=name)) for name in lacking):
                channels = (*channels, more)
        own = Draft(spec=spec if channels == (spec.channels or ("defaults",)) else replace(spec, channels=channels))
        own = own.noting([OF_CHANNELS] if gone else [], next(iter(gone.values()), ""))
        if spec.pin("tensorflow-gpu"):
            index = self._index_of(replace(own.spec, pins=(*own.spec.pins, Pin(name="tensorflow"))))
            own = with_tensorflow(own, index) if index else own
        index = None if wants_cuda(spec, self.knowledge) else self._index_of(own.spec)
        return with_cpu_torch(own, index) if index else own

    def _any(self, pin: Pin | None, number: Version | None, index: RecordIndex) -> Pin | None:
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
        return next((item for item in (*meant, form) if index.has(item)), None)

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
        index = self._index_of(spec)
        if index is None:
            return None
        listed = [pin for pin in spec.pins if pin.name not in draft.bound and further(pin, self.knowledge)]
        entries: Sequence[ListedEntry] = entries_of(listed, index)
        python = version(f"3.{near.python}") if near.python else None
        of_core = ((torch_of(spec), near.torch), (spec.pin("python"), python))
        fixed = [form for pin, number in of_core if (form := self._any(pin, number, index))]
        if any(number and (pin is None or not self._any(pin, number, index)) for pin, number in of_core):
            return None
        beside_torch = [item for item in entries if item.pin.name in OF_TORCH]
        pairs = self._solved(spec, beside_torch, fixed, near=False) if beside_torch else None
        kept = needed.union(pin.name for pin in pairs.pins if pin) if pairs else needed
        if near != KeptMinors() and any(item.forms and item.pin.name not in kept for item in beside_torch):
            return None
        entries = [replace(item, needed=item.pin.name in kept) for item in entries]
        found = self._solved(spec, entries, fixed, near=False, swaps=0)
        if found is None:
            return None if needed or near != KeptMinors() else draft
        wide = self._shelf_beyond([pin.name for pin in listed], self._reached(spec), ("pytorch", FORGE))
        elsewhere = {
            pin.name for pin in listed if wide and wide.has(Pin(name=pin.name)) and not index.has(Pin(name=pin.name))
        }
        gone = {pin.name for pin, new in zip(listed, found.pins, strict=True) if new is None} - elsewhere
        return with_entries(draft, listed, [None if pin.name in gone else pin for pin in listed], index)

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
                if found is None or len(_gone(found)) >= len(_gone(best)):
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

    def _placeless(self, draft: Draft) -> frozenset[str]:
        """The lost entries of a draft that its channels have."""
        index = self._index_of(replace(draft.spec, pins=self.file.pins))
        names = {
            pin.name for pin in self.file.pins if draft.spec.pin(pin.name) is None and further(pin, self.knowledge)
        }
        return frozenset(name for name in draft.lost & names if index and index.has(Pin(name=name)))

    def _elsewhere(self, draft: Draft) -> frozenset[str]:
        """The lost entries of a draft that its channels do not have, and those have from which people take torch."""
        names = sorted(name for name in draft.lost if draft.spec.pin(name) is None)
        wide = self._shelf_beyond(names, self._reached(draft.spec), ("pytorch", FORGE)) if names else None
        return frozenset(name for name in names if wide and wide.has(Pin(name=name)))

    def _placed(self, draft: Draft, lost: frozenset[str], *, free: bool) -> Draft | None:
        """A draft with some of its lost entries; the others take other releases for that if they are ``free``."""
        spec = replace(draft.spec, pins=(*draft.spec.pins, *(pin for pin in self.file.pins if pin.name in lost)))
        index = self._index_of(spec)
        if index is None:
            return None
        held = [
            pin
            for pin in draft.spec.pins
            if not free or pin.name in draft.bound or pin.name in OF_TORCH or not further(pin, self.knowledge)
        ]
        listed = [pin for pin in spec.pins if pin not in held]
        entries = entries_of(listed, index, needed=lambda pin: pin.name not in lost)
        found = self._solved(spec, entries, held, near=False)
        if found is None or not any(new for pin, new in zip(listed, found.pins, strict=True) if pin.name in lost):
            traded = self._traded(spec, entries, held) if free else ()
            found = self._solved(spec, traded, held, near=False) if traded else None
            if found is None:
                return None
            entries, draft = traded, replace(draft, instead=(*draft.instead, *_excluded(found.solution)))
        found = self._solved(spec, entries, held) or found
        there = {pin.name for pin, new in zip(listed, found.pins, strict=True) if new}
        why = tuple(item for item in draft.why if item[0] not in lost)
        made = replace(draft, spec=spec, why=why, lost=draft.lost - there)
        return with_entries(made, listed, found.pins, index)

    def _traded(
        self, spec: EnvironmentSpec, entries: Sequence[ListedEntry], held: Sequence[Pin]
    ) -> tuple[ListedEntry, ...]:
        """The entries with a lost one that is needed, in place of such as something excludes then; none if none is."""
        kept = [entry for entry in entries if entry.needed and entry.forms]
        choices = [((entry.forms[-1],), ()) for entry in kept]
        for lost in [entry for entry in entries if not entry.needed and entry.forms][:SWAPS]:
            found = self._ask(spec, [*held, lost.forms[-1]], choices)
            out = (
                {entry.pin.name for entry, place in zip(kept, found.taken, strict=True) if place}
                if isinstance(found, Solved)
                else set()
            )
            if isinstance(found, Solved) and out and out <= dict(_excluded(found.solution)).keys():
                return tuple(
                    replace(entry, needed=entry == lost or (entry.needed and entry.pin.name not in out))
                    for entry in entries
                )
        return ()

    def _forge_first(self, draft: Draft) -> Draft | None:
        """A draft with conda-forge before what hides its libraries, torch from its channel; ``None`` where it is so."""
        order, index = forge_first(draft.spec.channels), self._index_of(draft.spec)
        if index is None or order is None:
            return None
        pins = tuple(
            replace(pin, channel="pytorch") if of_torch(pin) and index.home(Pin(name=pin.name)) == "pytorch" else pin
            for pin in draft.spec.pins
        )
        by_nvidia = "pytorch" not in map(short_channel, order)
        hides = "nvidia has CUDA libraries" if by_nvidia else "pytorch has old libraries"
        why = f"the channel {hides}, which hide those that packages of conda-forge require"
        return replace(draft, spec=replace(draft.spec, channels=order, pins=pins)).noting([OF_CHANNELS], why)

    def _guarded(self, own: Draft) -> Draft:
        """A draft that locks, without what its lock would still warn of: CPU builds, CUDA components without a bound.

        No entry is lost for that.
        """
        answer, _ = self._lock(as_read(own.spec))
        warned = (
            [item for item in answer.report.findings if item.edits and item.severity == "warning"] if answer else []
        )
        for codes in (_OF_CUDA, _OF_CUDA[1:], _OF_CUDA[-1:]):
            asked = tuple(replace(item, severity="error") for item in warned if item.code in codes)
            if answer is None or not asked:
                break
            draft = self._obeying(own, replace(answer, report=replace(answer.report, findings=asked)))
            then, _ = self._lock(as_read(draft.spec))
            if then and then.lock and draft.lost <= own.lost:
                return draft
        return own

    def _proven(self, own: Draft) -> Draft:
        """A draft that locks, and of each entry that it lost what takes its place, or what it conflicts with."""
        spec = (self._forge_first(own) or own).spec  # what hides less says more
        said, index = dict(own.why), self._index([pin.name for pin in self.file.pins], self._reached(own.spec))
        channels = ", ".join(map(short_channel, self._reached(own.spec)))
        file = self._index_of(self.file)
        answer, _ = self._lock(as_read(own.spec))
        excluded = _excluded(answer.lock.solutions[0]) if answer and answer.lock else ()
        own = replace(own, instead=tuple((lost, name) for lost, name in excluded if lost in own.lost))
        own = own.saying(
            {name: f"{other}, which is installed, excludes every release of it" for name, other in own.instead}
        )
        at_odds: list[str] = []
        for name in sorted(own.lost.difference(dict(own.instead))):
            home = file.home(Pin(name=name)) if file and not index.has(Pin(name=name)) else ""
            if home:
                why = f"only the channel {home} has it, and the new file leaves out that channel and its CUDA packages"
                own = own.saying({name: why})
                continue
            if not said.get(name, "").endswith(TOGETHER):
                continue
            if not index.has(Pin(name=name)):
                own = own.saying({name: f"the channels have no {name} for {self.facts.platform}: {channels}"})
            else:
                at_odds.append(name)

        def prove(name: str) -> str:
            if self._spent > PROVING:
                return said[name]
            self._say(f"finding what {name} conflicts with")
            return odds(spec, name, partial(self._ask, spec), self._index, own.bound)

        return own.saying(dict(zip(at_odds, run_parallel(prove, at_odds, busy=True), strict=True)))


def _once(spec: EnvironmentSpec) -> EnvironmentSpec:
    """An environment without the entries that only repeat the name of another."""
    asked = {pin.name for pin in spec.pins if pin.version or pin.build}
    kept = (pin for pin in spec.pins if pin.version or pin.build or pin.channel or pin.name not in asked)
    return replace(spec, pins=tuple(kept))


def _excluded(solution: Solution) -> tuple[tuple[str, str], ...]:
    """The packages whose place others take in a solution, with those."""
    found = ((_EXCLUDES.fullmatch(text), item.name) for item in solution.packages for text in item.constrains)
    return tuple((match[1], name) for match, name in found if match)


def _gone(draft: Draft) -> frozenset[str]:
    """The entries that a draft lost and whose place nothing takes."""
    return draft.lost.difference(dict(draft.instead))
