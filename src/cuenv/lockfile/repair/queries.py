"""What a repair asks of the solver, the channels, the lock and the rules: each question once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from cuenv.core.errors import ChannelError, NoChannelError, NoHashError, Progress
from cuenv.core.record import dataclass, field, replace
from cuenv.host.facts import HostFacts, virtual_packages
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.lockfile.lock import Locked, LockRequest, lock_spec
from cuenv.lockfile.repair.drafts import CORE
from cuenv.lockfile.repair.relax import SWAPS, ListedEntry, Relaxed, relax
from cuenv.resolver.candidates import Candidate
from cuenv.resolver.decision import Decision, decide
from cuenv.resolver.prove import unsatisfiable_text
from cuenv.resolver.ranking import Assessment
from cuenv.resolver.requirements import OF_TORCH
from cuenv.resolver.rules import Context
from cuenv.solve.environment_spec import EnvironmentSpec, Pin
from cuenv.solve.model import Choice, Solved, SolveRequest, Unsatisfiable

if TYPE_CHECKING:  # the solver is heavy
    from cuenv.solve.io.records import RecordIndex

FIRST = frozenset({*CORE, *OF_TORCH})  # packages that are near before all others are

CHOOSING, TRYING, SECONDS, PROVING = 8, 10, 12, 18
"""Seconds after which no further releases of torch and Python are looked at for what would stay beside them, no further
draft that keeps as much as it can is tried, nothing is put back, and nobody looks what a lost entry is at odds with."""


@dataclass(kw_only=True)
class RepairQueries:
    """One repair: the file, the host, and what was asked so far."""

    file: EnvironmentSpec
    request: LockRequest
    facts: HostFacts
    knowledge: Knowledge
    progress: Progress | None
    skipped: list[tuple[str, str]] = field(default_factory=list)
    obstacles: list[tuple[str, str]] = field(default_factory=list)
    locks: list[tuple[EnvironmentSpec, tuple[Locked | None, str]]] = field(default_factory=list)
    decisions: list[tuple[Request, Decision]] = field(default_factory=list)
    variants: dict[tuple[Candidate, str], Assessment] = field(default_factory=dict)
    composed: dict[Hashable, EnvironmentSpec] = field(default_factory=dict)
    shelves: dict[tuple[str, ...], RecordIndex] = field(default_factory=dict)
    answers: dict[tuple[object, ...], Solved | Unsatisfiable] = field(default_factory=dict)
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
        return self._spent > SECONDS

    @property
    def _swaps(self) -> int:
        """How many entries that have no place are tried in place of others: each costs a solve for all."""
        return 0 if self.late else SWAPS

    def _lock(self, spec: EnvironmentSpec) -> tuple[Locked | None, str]:
        """What locking an environment comes to, and why the channels do not satisfy it."""
        known = next((found for other, found in self.locks if other == spec), None)
        if known is None:
            known = self._locked(spec)
            self.locks.append((spec, known))
        return known

    def _locked(self, spec: EnvironmentSpec) -> tuple[Locked | None, str]:
        try:
            request = replace(self.request, quick=self.late)
            answer = lock_spec(request, spec, self.knowledge, progress=self.progress)
        except (NoChannelError, NoHashError) as error:
            return None, error.message
        if answer.unsatisfiable:
            return answer, unsatisfiable_text(answer.unsatisfiable, spec)
        return answer, ""

    def _solved(
        self,
        spec: EnvironmentSpec,
        entries: Sequence[ListedEntry],
        fixed: Sequence[Pin],
        *,
        near: bool = True,
        swaps: int = SWAPS,
    ) -> Relaxed | None:
        ask, swaps = partial(self._ask, spec), min(swaps, self._swaps)
        return relax(entries, ask, fixed=fixed, first=FIRST, near=near, swaps=swaps, progress=self.progress)

    def _ask(
        self, spec: EnvironmentSpec, pins: Sequence[Pin], choices: Sequence[Choice] = ()
    ) -> Solved | Unsatisfiable:
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

    def _index(self, names: Iterable[str], channels: Sequence[str]) -> RecordIndex:
        from cuenv.solve.io.records import RecordIndex  # noqa: PLC0415 - the solver is heavy

        known = self.shelves.get(tuple(channels))
        if known is None:
            known = self.shelves[tuple(channels)] = RecordIndex(
                names, channels, self.facts.platform, self.request.sources
            )
        else:
            known.read(names)
        return known

    def _reached(self, spec: EnvironmentSpec) -> tuple[str, ...]:
        """The channels that conda reads for an environment; of those that single entries name, what can be read."""
        found = spec.channels or ("defaults",)
        return (*found, *(channel for channel in spec.reached[len(found) :] if not self._unread(channel)))

    def _unread(self, channel: str, faults: type[ChannelError] = ChannelError) -> str:
        """What says that a channel cannot be read; empty for one that can.

        Args:
            channel: its name.
            faults: which faults are meant; others are raised.
        """
        try:
            self._index((), (channel,))
        except faults as error:
            return error.message
        return ""

    def _index_of(self, spec: EnvironmentSpec) -> RecordIndex | None:
        """The records of what an environment lists; ``None`` where a channel of its own is not there."""
        try:
            return self._index((pin.name for pin in spec.pins), self._reached(spec))
        except NoChannelError:
            return None

    def _shelf_beyond(self, names: Sequence[str], own: Sequence[str], more: Sequence[str]) -> RecordIndex | None:
        """The records of the channels of a file and of some more, where those can be read.

        Raises:
            ChannelError: a channel of the file is there and cannot be read.
        """
        found: RecordIndex | None = None
        with suppress(NoChannelError):
            found = self._index(names, own)
        with suppress(ChannelError):
            found = self._index(names, tuple(dict.fromkeys((*own, *more))))
        return found

    def _say(self, text: str) -> None:
        if self.progress:
            self.progress(text)

    def _decided(self, request: Request) -> Decision:
        found = next((found for other, found in self.decisions if other == request), None)
        if found is None:
            found = decide(Context(facts=self.facts, request=request, knowledge=self.knowledge, proving=True))
            self.decisions.append((request, found))
        return found
