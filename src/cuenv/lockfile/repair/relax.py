"""Relax: as much of what a file asks for as the channels can satisfy together, each entry as near to it as can be.

Each entry has forms, from what is written to the bare name. What can stay at all is found first, then how near to what
is written it can stand; both by solves that choose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from cuenv.core.errors import Progress
from cuenv.core.io.exclusive import run_parallel
from cuenv.core.record import dataclass, replace
from cuenv.core.regex import regex
from cuenv.solve.environment_spec import RELEASE, Pin
from cuenv.solve.model import Choice, Solution, Solved, Unsatisfiable, names_cpu, names_cuda

_YEAR = 1990
"""From here on the first number of a release is a year (``ca-certificates 2022.4.26``), and ends no compatibility."""
SWAPS = 5  # entries that are tried in place of others
_NEARER = 4  # how often the rest is looked at again for what is nearer


class Records(Protocol):
    """What the channels have of some packages."""

    def has(self, pin: Pin) -> bool:
        """Whether a record satisfies a pin."""


Ask = Callable[[Sequence[Pin], Sequence[Choice]], Solved | Unsatisfiable]
"""Solves for pins, with one alternative of each choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedEntry:
    """One entry of a file."""

    pin: Pin  # as it is written
    forms: tuple[Pin, ...]  # what may stand for it, nearest first; only such as a record satisfies
    needed: bool = False  # whether the environment is not what was meant without it


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxed:
    """The entries of an environment file, relaxed until the channels satisfy them."""

    pins: tuple[Pin | None, ...]  # for each entry what stands for it; ``None`` where it had to go
    solution: Solution  # of these pins


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
    found = RELEASE.fullmatch(pin.version)
    if found is None:
        yield from ((pin.condition() if pin.build else pin.version), "") if pin.version else ("",)
        return
    number = found[1]
    parts = number.split(".")
    yield number if pin.build else pin.version
    if len(parts) > 2:
        yield f"{parts[0]}.{parts[1]}.*"
    if len(parts) > 1 and int(parts[0]) < _YEAR:
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


_BLAMED = regex(r"(?:Cannot solve the request because of: |[├└]─ )([A-Za-z0-9_][\w.-]*) ")


def blamed(answer: Unsatisfiable) -> frozenset[str]:
    """The entries that the solver names as those that do not go together."""
    found = (_BLAMED.match(line) for line in answer.text.splitlines())
    return frozenset(match[1].lower() for match in found if match)


def relax(
    entries: Sequence[ListedEntry],
    ask: Ask,
    *,
    fixed: Sequence[Pin] = (),
    first: frozenset[str] = frozenset(),
    near: bool = True,
    swaps: int = SWAPS,
    progress: Progress | None = None,
) -> Relaxed | None:
    """The forms of entries that the channels satisfy together; ``None`` where they do not without one that is needed.

    Args:
        entries: what is asked for.
        ask: solves.
        fixed: what must stand as it is.
        first: names of entries that are near before the others are.
        near: each is wanted in the nearest form; without, it is enough that it is there.
        swaps: how many entries that have no place are tried in place of others.
        progress: told what is being tried.
    """
    if any(entry.needed and not entry.forms for entry in entries):
        return None
    here = [entry for entry in entries if entry.forms]
    if progress:
        progress(f"choosing what can stay: {', '.join(entry.pin.yaml_text() for entry in here[:3])}, ...")
    found = _most(here, ask, fixed, swaps)
    if found is None:
        return None
    kept = [entry for entry in here if _there(entry, found)]
    at = {entry: len(entry.forms) - 1 for entry in kept}  # a file may list a name twice
    if near:

        def beside(pins: Sequence[Pin], choices: Sequence[Choice]) -> Solved | Unsatisfiable:
            return ask([*fixed, *pins], choices)

        if any(entry.pin.name in first for entry in kept):
            found = _nearer(kept, at, beside, found, first)
        found = _nearer(kept, at, beside, found, frozenset(entry.pin.name for entry in kept))
    chosen = {entry: entry.forms[at[entry]] for entry in kept}
    return Relaxed(pins=tuple(chosen.get(entry) for entry in entries), solution=found)


def _most(entries: Sequence[ListedEntry], ask: Ask, fixed: Sequence[Pin], swaps: int) -> Solution | None:
    """A solution with all entries that are needed, and with as many of the others as were found to go together."""
    must = [*fixed, *(entry.forms[-1] for entry in entries if entry.needed)]
    free = [entry.forms[-1] for entry in entries if not entry.needed]
    found = ask(must, [((form,), ()) for form in free])
    if isinstance(found, Unsatisfiable):
        return None
    best = found
    out = [form for form, place in zip(free, found.taken, strict=True) if place]
    tried = (
        [form for form in out if best.solution.package(form.name) is None][:swaps] if 1 < len(out) < len(free) else []
    )
    alone = run_parallel(lambda form: ask([*must, form], ()), tried, busy=True)  # quicker than all
    able = [form for form, answer in zip(tried, alone, strict=True) if isinstance(answer, Solved)]
    choices = [((form,), ()) for form in free]
    for other in run_parallel(lambda form: ask([*must, form], choices), able, busy=True):
        if isinstance(other, Solved) and sum(other.taken) < sum(best.taken):
            best = other
    return best.solution


def _nearer(
    entries: Sequence[ListedEntry], at: dict[ListedEntry, int], ask: Ask, solution: Solution, names: frozenset[str]
) -> Solution:
    """A solution in which entries of some names are as near as they can be beside the rest; ``at`` says how near."""
    for _ in range(_NEARER):
        before = dict(at)
        for entry in entries:
            at[entry] = _nearest(entry, at[entry], solution)
        moving = [entry for entry in entries if entry.pin.name in names and at[entry]]
        rest = [entry.forms[at[entry]] for entry in entries if entry not in moving]
        choices = [tuple((form,) for form in entry.forms[: at[entry] + 1]) for entry in moving]
        found = ask(rest, choices) if moving else None
        if not isinstance(found, Solved):
            break
        solution = found.solution
        at.update(zip(moving, found.taken, strict=True))
        if at == before:
            break
    return solution


def _there(entry: ListedEntry, solution: Solution) -> bool:
    """Whether a solution has an entry in one of its forms."""
    from cuenv.solve.io.solver import matches  # noqa: PLC0415 - the solver is heavy

    package = solution.package(entry.pin.name)
    return package is not None and matches(entry.forms[-1].match_spec(), package)


def _nearest(entry: ListedEntry, form: int, solution: Solution) -> int:
    """The nearest form of an entry that a solution satisfies; no further than the one that was asked for."""
    from cuenv.solve.io.solver import matches  # noqa: PLC0415 - the solver is heavy

    package = solution.package(entry.pin.name)
    if package is None:
        return form
    return next((index for index in range(form) if matches(entry.forms[index].match_spec(), package)), form)
