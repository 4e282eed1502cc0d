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
_SOLVES, _FEWEST, _WORK = 60, 20, 4000
"""Solves for one set of entries at most and at least, and how many entries times solves are enough."""
_AGAIN = 8
"""Entries that were left out and are asked for once more."""


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
    """

    pins: tuple[Pin | None, ...]
    solution: Solution


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
        """The weakest form of every entry, less entries that the solver blames and that can be left out."""
        at: list[int | None] = [len(entry.forms) - 1 for entry in self.entries]
        out: list[int] = []
        while not self.attempt(at, prefer):
            guilty = [
                index
                for index, entry in enumerate(self.entries)
                if at[index] is not None and not entry.needed and entry.pin.name in self.blame
            ]
            if not guilty:
                return False
            out.append(guilty[-1])
            at[guilty[-1]] = None
        for index in out[:_AGAIN] if len(out) > 1 else ():  # what came later may have been the only obstacle
            trial = list(self.at)
            trial[index] = len(self.entries[index].forms) - 1
            self.attempt(trial)
        return True

    def grow(self, indices: Sequence[int]) -> None:
        """Put entries that are away from their nearest form back: all together, less those that the solver blames."""
        wanted = [index for index in indices if self.at[index]]
        later: list[int] = []
        while wanted and self.left > 0:
            if self.progress:
                shown = ", ".join(self.entries[index].pin.yaml_text() for index in wanted[:3])
                self.progress(f"trying {shown}{', ...' if len(wanted) > 3 else ''}")
            trial = list(self.at)
            for index in wanted:
                trial[index] = 0
            if self.attempt(trial):
                break
            guilty = self._among(wanted, self.blame) or self._among(wanted, self.beside) or wanted[len(wanted) // 2 :]
            wanted = [index for index in wanted if index not in guilty]
            later += guilty
        for index in later:
            self._one(index)

    def _among(self, indices: Sequence[int], names: frozenset[str]) -> list[int]:
        return [index for index in indices if self.entries[index].pin.name in names]

    def _one(self, index: int) -> None:
        """Put one entry back as near as can be."""
        for form in range(self.at[index] or 0):
            trial = list(self.at)
            trial[index] = form
            if self.attempt(trial):
                return


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
    progress: Progress | None = None,
) -> Relaxed | None:
    """The forms of entries that the channels satisfy together; ``None`` where they do not without one that is needed.

    Args:
        entries: what is asked for.
        ask: solves.
        records: of what is asked for.
        fixed: what must stand as it is.
        python: the release X.Y that is meant, for the preference.
        progress: told what is being tried.
    """
    if any(entry.needed and not entry.forms for entry in entries):
        return None
    here = tuple(entry for entry in entries if entry.forms)
    left = max(_FEWEST, min(_SOLVES, _WORK // max(1, len(here))))
    search = _Search(entries=here, fixed=tuple(fixed), ask=ask, progress=progress, left=left)
    if not search.attempt([0] * len(here)):
        prefer = [found for entry in here if (found := records.best(entry.forms[0], python))]
        if not search.begin(prefer):
            return None
        search.grow(range(len(here)))
    if search.solution is None:
        return None
    forms = zip(here, search.at, strict=True)
    chosen = {entry.pin.name: None if form is None else entry.forms[form] for entry, form in forms}
    return Relaxed(pins=tuple(chosen.get(entry.pin.name) for entry in entries), solution=search.solution)
