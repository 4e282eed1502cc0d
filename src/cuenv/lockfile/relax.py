"""Relax: as much of what a file asks for as the channels can satisfy together, each entry as near to it as can be.

Each entry has forms, from what is written to the bare name. The weakest forms of all are solved with the written
releases as a preference; what that leaves behind is then put back, less what the solver blames, as long as there are
solves left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from cuenv.core.errors import Progress
from cuenv.core.record import dataclass, field, replace
from cuenv.core.regex import regex
from cuenv.solve.environment_spec import Pin
from cuenv.solve.model import LockedPackage, Solution, Unsatisfiable, names_cpu, names_cuda

_RELEASE = regex(r"={0,2}(\d+(?:\.\d+)*)(?:\.\*)?")
_SOLVES, _FEWEST, _WORK = 40, 10, 1500
"""Solves for one set of entries at most and at least, and how many entries times solves are enough."""


class Records(Protocol):
    """What the channels have of some packages."""

    def has(self, pin: Pin) -> bool:
        """Whether a record satisfies a pin."""

    def best(self, pin: Pin, python: str = "") -> LockedPackage | None:
        """The newest record that does, for a Python."""


Ask = Callable[[Sequence[Pin], Sequence[LockedPackage]], Solution | Unsatisfiable]
"""Solves for pins and prefers packages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedEntry:
    """One entry of a file.

    Attributes:
        pin: as it is written.
        forms: what may stand for it, nearest first; only such as a record satisfies.
        needed: whether the environment is not what was meant without it.
    """

    pin: Pin
    forms: tuple[Pin, ...]
    needed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxed:
    """What the channels satisfy.

    Attributes:
        pins: for each entry what stands for it; ``None`` where it had to go.
        solution: of these pins.
        cut: more might stay, and was not tried any more.
    """

    pins: tuple[Pin | None, ...]
    solution: Solution
    cut: bool = False


def forms_of(pin: Pin) -> Iterator[Pin]:
    """What may stand for a pin, nearest first: without its build, its minor, its major, any later release, any."""
    yield pin
    builds = ["", f"*{'cu' if names_cuda(pin.build) else 'cpu'}*"] if _variant(pin.build) else [""]
    for build in reversed(builds):
        for condition in _conditions(pin):
            found = replace(pin, version=condition, build=build)
            yield replace(found, version=found.condition()) if build and condition[:1].isdigit() else found


def _variant(build: str) -> bool:
    return bool(names_cuda(build)) or names_cpu(build)


def _conditions(pin: Pin) -> Iterator[str]:
    found = _RELEASE.fullmatch(pin.version)
    if found is None:
        yield from ((pin.condition() if pin.build else pin.version), "") if pin.version else ("",)
        return
    number = found[1]
    parts = number.split(".")
    yield number if pin.build else pin.version
    if len(parts) > 2:
        yield f"{parts[0]}.{parts[1]}.*"
    if len(parts) > 1:
        yield f">={number},<{int(parts[0]) + 1}"
    yield f">={number}"
    yield ""


def entries_of(
    pins: Iterable[Pin], records: Records, *, needed: Callable[[Pin], bool] = lambda _: False
) -> tuple[ListedEntry, ...]:
    """Entries with those of their forms of which there are records; one without any has none."""
    found = []
    for pin in pins:
        forms = [form for form in dict.fromkeys(forms_of(pin)) if records.has(form)]
        if not forms and pin.channel:
            free = (replace(form, channel="") for form in dict.fromkeys(forms_of(pin)))
            forms = [form for form in free if records.has(form)]
        found.append(ListedEntry(pin=pin, forms=tuple(forms), needed=needed(pin)))
    return tuple(found)


_MENTIONED = regex(r"[├└│─ ]*(?:Cannot solve the request because of: )?([A-Za-z0-9_][\w.-]*)")
_BLAMED = regex(r"(?:Cannot solve the request because of: |[├└]─ )([A-Za-z0-9_][\w.-]*) ")


def blamed(answer: Unsatisfiable) -> frozenset[str]:
    """The entries that the solver names as those that do not go together."""
    found = (_BLAMED.match(line) for line in answer.text.splitlines())
    return frozenset(match[1].lower() for match in found if match)


@dataclass(kw_only=True)
class _Search:
    """The best that was found so far, and how much may still be tried.

    Attributes:
        at: for each entry the form that it has; ``None`` where it is left out.
        blame: what the solver named as the cause of the last failure, and ``beside`` all that it spoke of.
    """

    entries: tuple[ListedEntry, ...]
    fixed: tuple[Pin, ...]
    ask: Ask
    progress: Progress | None
    left: int
    at: list[int | None] = field(default_factory=list)
    solution: Solution | None = None
    blame: frozenset[str] = frozenset()
    beside: frozenset[str] = frozenset()

    def attempt(self, at: Sequence[int | None], prefer: Sequence[LockedPackage] = ()) -> bool:
        """Solve, and keep the answer if there is one: each entry in the nearest form that it satisfies."""
        self.blame = frozenset()
        if self.left <= 0:
            return False
        self.left -= 1
        chosen = zip(self.entries, at, strict=True)
        answer = self.ask([*self.fixed, *(item.forms[form] for item, form in chosen if form is not None)], prefer)
        if isinstance(answer, Unsatisfiable):
            self.blame = blamed(answer)
            lines = (_MENTIONED.match(line) for line in answer.text.splitlines())
            self.beside = frozenset(found[1].lower() for found in lines if found)
            return False
        self.solution = answer
        self.at = [
            form if form is None else _nearest(entry, form, answer)
            for entry, form in zip(self.entries, at, strict=True)
        ]
        return True

    def begin(self, prefer: Sequence[LockedPackage]) -> bool:
        """The weakest form of every entry, less entries that can be left out and that the solver blames.

        All that it blames go at once, and come back together where only one of them was in the way.
        """
        at: list[int | None] = [len(entry.forms) - 1 for entry in self.entries]
        out: list[int] = []
        while not self.attempt(at, prefer):
            free = [index for index, entry in enumerate(self.entries) if at[index] is not None and not entry.needed]
            guilty = self._among(free, self.blame)
            if not guilty and self.blame and self.left > 0:
                guilty = self._among(free, self.beside)
            if not guilty:
                return False
            out += guilty
            for index in guilty:
                at[index] = None
        self._put(sorted(out), lambda index: len(self.entries[index].forms) - 1)
        return True

    def _put(self, indices: Sequence[int], form: Callable[[int], int]) -> None:
        """Put entries into a form, as many of them as go together.

        All at once; else those that the solver does not blame, and then the others; else each half by itself.
        """
        if not indices or self.left <= 0:
            return
        self._say(indices)
        trial = list(self.at)
        for index in indices:
            trial[index] = form(index)
        if self.attempt(trial) or len(indices) < 2:
            return
        guilty = self._among(indices, self.blame)
        middle = len(indices) // 2
        rest = [index for index in indices if index not in guilty] if guilty else indices[:middle]
        self._put(rest or indices[:middle], form)
        self._put(guilty if guilty and rest else indices[middle:], form)

    def grow(self) -> None:
        """Put entries nearer to what was asked for: to their nearest form, then those that cannot to the next one."""
        for level in range(max((len(entry.forms) for entry in self.entries), default=0)):
            wanted = [index for index, form in enumerate(self.at) if form is not None and form > level]
            later: list[int] = []
            while wanted and self.left > 0:
                self._say(wanted)
                trial = list(self.at)
                for index in wanted:
                    trial[index] = level
                if self.attempt(trial):
                    break
                guilty = (
                    self._among(wanted, self.blame) or self._among(wanted, self.beside) or wanted[len(wanted) // 2 :]
                )
                wanted = [index for index in wanted if index not in guilty]
                later += guilty
            again = [index for index in sorted(later) if (self.at[index] or 0) > level]
            if len(later) > 1:
                self._put(again, dict.fromkeys(again, level).__getitem__)

    def _say(self, indices: Sequence[int]) -> None:
        if self.progress:
            shown = ", ".join(self.entries[index].pin.yaml_text() for index in indices[:3])
            self.progress(f"trying {shown}{', ...' if len(indices) > 3 else ''}")

    def _among(self, indices: Sequence[int], names: frozenset[str]) -> list[int]:
        return [index for index in indices if self.entries[index].pin.name in names]


def _nearest(entry: ListedEntry, form: int, solution: Solution) -> int:
    """The nearest form of an entry that a solution satisfies; no further than the one that was asked for."""
    from cuenv.solve.io.solver import matches  # noqa: PLC0415 - the solver is heavy

    package = solution.package(entry.pin.name)
    if package is None:
        return form
    return next((index for index in range(form) if matches(entry.forms[index].match_spec(), package)), form)


def relax(
    entries: Sequence[ListedEntry],
    ask: Ask,
    records: Records,
    *,
    fixed: Sequence[Pin] = (),
    python: str = "",
    exact: bool = True,
    near: bool = True,
    solves: int | None = None,
    progress: Progress | None = None,
) -> Relaxed | None:
    """The forms of entries that the channels satisfy together; ``None`` where they do not without one that is needed.

    Args:
        entries: what is asked for.
        ask: solves.
        records: of what is asked for.
        fixed: what must stand as it is.
        python: the release X.Y that is meant, for the preference.
        exact: the entries may go together as they are.
        near: each is wanted in the nearest form; without, it is enough that it is there.
        solves: at most.
        progress: told what is being tried.
    """
    if any(entry.needed and not entry.forms for entry in entries):
        return None
    here = tuple(entry for entry in entries if entry.forms)
    left = solves or max(_FEWEST, min(_SOLVES, _WORK // max(1, len(here))))
    search = _Search(entries=here, fixed=tuple(fixed), ask=ask, progress=progress, left=left)
    if not (exact and any(len(entry.forms) > 1 for entry in here) and search.attempt([0] * len(here))):
        prefer = [found for entry in here if (found := records.best(entry.forms[0], python))]
        if not search.begin(prefer):
            return None
        if near:
            search.grow()
    if search.solution is None:
        return None
    forms = zip(here, search.at, strict=True)
    chosen = {entry.pin.name: None if form is None else entry.forms[form] for entry, form in forms}
    return Relaxed(
        pins=tuple(chosen.get(entry.pin.name) for entry in entries), solution=search.solution, cut=search.left <= 0
    )
