"""Proving: what an entry that a repair has lost is at odds with, shown by solves."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

from cuenv.core.findings import first_of
from cuenv.core.record import replace
from cuenv.core.regex import regex
from cuenv.core.urls import short_channel
from cuenv.lockfile.repair.drafts import torch_of
from cuenv.lockfile.repair.relax import Ask
from cuenv.solve.environment_spec import EnvironmentSpec, Pin
from cuenv.solve.model import Choice, Solved, Unsatisfiable, names_cuda

if TYPE_CHECKING:  # the solver is heavy
    from cuenv.solve.io.records import RecordIndex

_SHOWN = 4  # entries that are looked at, or named, as those with which another one conflicts
_LACKS = regex(r"─ ([A-Za-z0-9_][\w.-]*) ([^\n]*?), for which no candidates were found")

ReadIndex = Callable[[Sequence[str], Sequence[str]], "RecordIndex"]  # reads the records of some names in some channels


def odds(spec: EnvironmentSpec, name: str, ask: Ask, index: ReadIndex, bound: Collection[str] = ()) -> str:
    """What a package conflicts with.

    Args:
        spec: the environment that lost it.
        name: of the package.
        ask: solves on the channels of the environment.
        index: reads records.
        bound: names of pins that the environment needs beside its torch.
    """
    lost, torch, python = Pin(name=name), torch_of(spec), spec.pin("python")
    homes: list[Choice] = [((Pin(name=pin.name, channel=pin.channel),), ()) for pin in spec.pins if pin.channel]
    none, core = f"no release of {name} that the channels have", [pin for pin in (torch, python) if pin]
    alone = ask([lost], homes)
    if isinstance(alone, Unsatisfiable) and torch and torch.channel and isinstance(ask([lost], ()), Solved):
        return f"{none} goes with a torch of the channel {torch.channel}"
    if isinstance(alone, Unsatisfiable):
        return f"{none} can be installed: {_lacking(alone, spec, index)}"
    texts = list(map(_shown, core))
    if torch and isinstance(ask([lost, torch], homes), Unsatisfiable):
        build = f"*{'cu' if names_cuda(torch.build) else 'cpu'}*" if torch.build else ""
        anew = replace(torch, version="", build=build)
        nowhere = anew != torch and isinstance(ask([lost, anew], homes), Unsatisfiable)
        return f"{none} goes with {f'any {anew.yaml_text()}' if nowhere else texts[0]}"
    needs = [pin for pin in spec.pins if pin.name in bound and pin not in core and pin.version]
    first = [torch] if torch else []
    if needs and isinstance(ask([lost, *first, *needs], homes), Unsatisfiable):
        alone_at_odds = (pin for pin in needs if isinstance(ask([lost, *first, pin], homes), Unsatisfiable))
        guilty = next(alone_at_odds, None)
        named = [guilty] if guilty else needs
        with_ = first_of(list(map(_shown, named)), _SHOWN)
        return f"{none} goes with {with_}{f', which {texts[0]} needs' if torch else ''}"
    if python and isinstance(ask([lost, python], homes), Unsatisfiable):
        return f"{none} goes with {texts[-1]}"
    if isinstance(ask([lost, *core], homes), Unsatisfiable):
        return f"{none} goes with {' and '.join(texts)} together"
    others = [Pin(name=pin.name, channel=pin.channel) for pin in spec.pins if pin not in core and pin.name[:2] != "__"]
    beside = f" beside {' and '.join(texts)}" if texts else ""
    with_core = partial(_with, ask, [lost, *core])
    if others and isinstance(with_core(others, ()), Solved):  # their releases are what it conflicts with
        others = [pin for pin in spec.pins if pin not in core and pin.version and pin.name[:2] != "__"]
        others.sort(key=lambda pin: "<" not in pin.version)  # a bound first, then a release that is merely near
    return _among(lost, others, with_core, homes, beside=beside, pair=ask)


def _with(ask: Ask, core: Sequence[Pin], pins: Sequence[Pin], choices: Sequence[Choice]) -> Solved | Unsatisfiable:
    return ask([*core, *pins], choices)


def _among(lost: Pin, others: Sequence[Pin], ask: Ask, homes: Sequence[Choice], *, beside: str, pair: Ask) -> str:
    """Which of the other entries a package conflicts with: beside torch and Python, or by itself."""
    found = ask([], [((pin,), ()) for pin in others])
    out = [pin for pin, place in zip(others, found.taken, strict=True) if place] if isinstance(found, Solved) else []
    for other in out[:_SHOWN]:
        if isinstance(ask([other], homes), Unsatisfiable):
            text = _shown(other) if other.version else f"any release of {other.name}"
            alone = beside and isinstance(pair([lost, other], homes), Unsatisfiable)
            return f"no release of {lost.name} that the channels have goes with {text}{'' if alone else beside}"
    if not out:
        return f"no file with {lost.name} that locks was found"
    names = first_of(list(map(_shown, out)), _SHOWN)
    return f"{lost.name} can be installed{beside} without {names}, and cannot be with all of them"


def _shown(pin: Pin) -> str:
    return replace(pin, channel="").yaml_text()


def _lacking(answer: Unsatisfiable, spec: EnvironmentSpec, index: ReadIndex) -> str:
    """What a package requires that no channel has; what a channel hides is there."""
    lacks, channels = list[str](), spec.channels or ("defaults",)
    for name, asked in dict.fromkeys(_LACKS.findall(answer.text)):
        records = index([name], channels)
        if not any(records.has(Pin(name=name, version=asked, channel=short_channel(item))) for item in channels):
            lacks.append(f"{name} {asked}".strip(" *"))
    return f"the channels have no {', '.join(lacks[:_SHOWN])}" if lacks else "what it requires does not go together"
