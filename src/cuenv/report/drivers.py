"""The driver on the line of branches: what the environment needs, what each GPU allows, and where support ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cuenv.core.record import NamedTuple
from cuenv.core.versions import driver_key
from cuenv.host.facts import HostFacts
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import Branch, Row
from cuenv.report.components import devices
from cuenv.report.picture import Picture, box, listed, rule, said, shortened, width_of
from cuenv.resolver.candidates import Candidate
from cuenv.resolver.effective_driver import with_effective_driver

_ACROSS = 52
_DOWN = 40
_TOP = 74


class _Bar(NamedTuple):
    """A range of branches."""

    label: str
    below: str
    # first, last: numbers of branches; no last: still so
    first: int
    last: int | None
    kind: str
    word: str  # what stands in it
    begins: str
    rows: tuple[Row, ...]  # of the tables that say so


def drivers(candidate: Candidate | None, lowest: str | None, facts: HostFacts, knowledge: Knowledge) -> Picture | None:
    """The picture of driver branches, from the oldest relevant one to the newest in the tables.

    Args:
        candidate: the environment; ``None`` for the GPUs alone.
    """
    facts = with_effective_driver(facts, knowledge)
    here = _drivers(facts, knowledge)
    bars = [*_of_environment(candidate, lowest, knowledge), *_of_gpus(facts, knowledge)]
    if not bars:
        return None
    known = sorted(knowledge.branches, key=lambda row: row.number)
    marks = [number for _, _, number in here] + [bar.first for bar in bars if bar.kind != "bar"]
    marks += [bar.last for bar in bars if bar.last]
    oldest = min(marks, default=known[0].number)
    shown = [row for row in known if row.number >= oldest]
    shown = [row for row in known if row.number < oldest][-1:] + shown
    left = min(270, int(max(1.1 * width_of(text) for bar in bars for text in (bar.label, bar.below))) + 20)
    body = [*_axis(shown, left, len(bars)), *(_range(bar, at, shown, left) for at, bar in enumerate(bars))]
    body += _lines(here, shown, left, len(bars))
    body += (_bar_words(bar, at, shown, left) for at, bar in enumerate(bars))  # over the line
    return Picture(
        name="driver",
        title="The driver, and what the environment and the GPUs need",
        desc=_desc(here, bars, lowest),
        width=left + len(shown) * _ACROSS + 30,
        height=_TOP + len(bars) * _DOWN + 34,
        body="".join(body),
        columns=("what", "from", "to", "source"),
        rows=tuple(_rows(here, bars, shown, knowledge)),
        legend=(
            "Columns are driver branches with the newest CUDA release that each supports. Below a branch is the month "
            "in which NVIDIA's data-center support for it ends, if the tables list it. The dashed line is the driver "
            "of the host."
        ),
    )


def _drivers(facts: HostFacts, knowledge: Knowledge) -> list[tuple[str, str, int]]:
    """The drivers of the host: their versions, machines and branches."""
    found: dict[str, list[str]] = {}
    for machine in facts.machines:
        if machine.driver and machine.driver.version:
            found.setdefault(machine.driver.version, []).append(machine.label)
    listing = []
    for version, names in sorted(found.items(), key=lambda item: driver_key(item[0])):
        branch = knowledge.branch_of(version)
        if branch:
            listing.append((version, listed(names), branch.number))
    return listing


def _of_environment(candidate: Candidate | None, lowest: str | None, knowledge: Knowledge) -> Iterator[_Bar]:
    if candidate is None or candidate.cuda is None or lowest is None:
        return
    cuda = candidate.cuda
    level, floor = knowledge.branch_for(cuda), knowledge.minimum_driver(cuda)
    first = driver_key(lowest)[0]
    rows: tuple[Row, ...] = (floor,) if floor else ()
    if level and level.number > first:
        below = level.number - 1
        yield _Bar(f"CUDA {cuda} runs", "minimum driver", first, below, "part", f"from {lowest}", lowest, rows)
        yield _Bar(
            f"CUDA {cuda} in full",
            "PTX is compiled too",
            level.number,
            None,
            "span",
            "native",
            str(level.number),
            (level,),
        )
    else:
        both = (*rows, level) if level else rows
        yield _Bar(f"CUDA {cuda} in full", "minimum driver", first, None, "span", f"from {lowest}", lowest, both)


def _of_gpus(facts: HostFacts, knowledge: Knowledge) -> Iterator[_Bar]:
    for capability, name in devices(facts):
        row = knowledge.compute_capability(capability)
        if row:
            begins = knowledge.first_driver_of(row) or "not listed"
            word = f"until branch {row.last_branch}" if row.last_branch else "no last branch is known"
            label = name or "GPU"
            yield _Bar(
                label,
                f"compute capability {capability}",
                row.first_branch or 0,
                row.last_branch,
                "bar",
                word,
                begins,
                (row,),
            )


def _place(number: int, shown: Sequence[Branch], left: int) -> float:
    """The left edge of a branch; for a number between two branches, that of the next one."""
    return left + sum(row.number < number for row in shown) * _ACROSS


def _axis(shown: Sequence[Branch], left: int, bars: int) -> Iterator[str]:
    bottom = _TOP + bars * _DOWN + 6
    yield said(left - 12, 18, "driver branch", "s", "end")
    yield said(left - 12, 36, "supports CUDA", "s", "end")
    if any(row.ends for row in shown):
        yield said(left - 12, bottom + 16, "support ends", "s", "end")
    for at, row in enumerate(shown):
        x = left + at * _ACROSS
        if at % 2:
            yield box(x, 4, _ACROSS, bottom + 20, "band", round_by=0)
        middle = x + _ACROSS / 2
        yield said(middle, 18, str(row.number), "h", "middle")
        yield said(middle, 36, str(row.cuda), "s", "middle")
        yield said(middle, bottom + 16, row.ends, "s", "middle")
    yield rule(left, _TOP - 4, left + len(shown) * _ACROSS, _TOP - 4, "axis")


def _ends(bar: _Bar, shown: Sequence[Branch], left: int) -> tuple[float, float]:
    """The start and end of a range."""
    end = _place(bar.last + 1, shown, left) if bar.last else left + len(shown) * _ACROSS
    return max(_place(bar.first, shown, left), left), end


def _range(bar: _Bar, at: int, shown: Sequence[Branch], left: int) -> str:
    begin, end = _ends(bar, shown, left)
    tip = f"{bar.label}: {bar.word}, from {bar.begins}"
    return box(begin + 2, _TOP + at * _DOWN + 4, end - begin - 4, _DOWN - 12, bar.kind, tip)


def _bar_words(bar: _Bar, at: int, shown: Sequence[Branch], left: int) -> str:
    y = _TOP + at * _DOWN
    begin, end = _ends(bar, shown, left)
    inside = width_of(bar.word, 12) <= end - begin - 14  # a short range has its word beside it
    x, room = (begin + 9, end - begin) if inside else (end + 5, left + len(shown) * _ACROSS + 28 - end)
    word = shortened(bar.word, room, 12)
    return (
        said(left - 12, y + 14, shortened(bar.label, left - 14), "h", "end")
        + said(left - 12, y + 29, shortened(bar.below, left - 14, 12), "s", "end")
        + said(x, y + 22, word, "c halo")
    )


def _lines(here: Sequence[tuple[str, str, int]], shown: Sequence[Branch], left: int, bars: int) -> Iterator[str]:
    for version, _, number in here:
        x = _place(number, shown, left) + _ACROSS / 2
        wide = width_of(version, 12) + 14
        begin = min(max(x - wide / 2, left), left + len(shown) * _ACROSS + 28 - wide)
        yield rule(x, 64, x, _TOP + bars * _DOWN + 4, "here")
        yield box(begin, 44, wide, 20, "tag", f"the driver {version}")
        yield said(begin + wide / 2, 58, version, "c", "middle")


def _desc(here: Sequence[tuple[str, str, int]], bars: Sequence[_Bar], lowest: str | None) -> str:
    parts = [f"The host has driver {listed(version for version, _, _ in here)}" if here else "The driver is not known"]
    parts += [f"the environment needs driver {lowest} or later"] if lowest else []
    parts += [f"{bar.label}: {bar.word}" for bar in bars if bar.kind == "bar"]
    return f"{'. '.join(f'{part[0].upper()}{part[1:]}' for part in parts)}."


def _rows(
    here: Sequence[tuple[str, str, int]], bars: Sequence[_Bar], shown: Sequence[Branch], knowledge: Knowledge
) -> Iterator[tuple[str, ...]]:
    for version, names, number in here:
        yield f"driver of {names}", version, "", f"branch {number}"
    for bar in bars:
        to = f"branch {bar.last}" if bar.last else "newest"
        yield f"{bar.label} ({bar.below})", bar.begins, to, _titles(bar.rows, knowledge)
    for row in shown:
        ends = f"support ends {row.ends}" if row.ends else ""
        yield f"branch {row.number} supports CUDA {row.cuda}", str(row.number), ends, _titles((row,), knowledge)


def _titles(rows: Iterable[Row], knowledge: Knowledge) -> str:
    found = dict.fromkeys(knowledge.sources[item].title for row in rows for item in row.sources)
    low = " (low confidence)" if any(row.low for row in rows) else ""
    return f"{'; '.join(found)}{low}"
