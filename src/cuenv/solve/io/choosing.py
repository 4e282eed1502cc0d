"""One solve that chooses: of each choice the first alternative that goes with the rest. Import this module lazily.

A choice is a package that nobody has made: its newest version requires what is wanted most, an older one requires less.
The solver takes the newest that it can, and learns from each conflict, so that one solve does the work of many. Records
are kept in memory, so that the next solve need not read them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TypeAlias

from rattler import Channel, ChannelPriority, Gateway, MatchSpec, PackageName, PackageRecord, RepoDataRecord
from rattler import solve as _solve
from rattler.exceptions import SolverError
from rattler.package import BuildString

from cuenv.core.urls import printable, redact
from cuenv.solve.environment_spec import Pin
from cuenv.solve.io.channels import FolderRecords, Source, channels_of, rattler_errors, record_day
from cuenv.solve.io.solver import SOLVER, locked_package, match_spec_or_none, parse_spec, virtual_package
from cuenv.solve.io.sources import Sources
from cuenv.solve.model import Choice, LockedPackage, Solution, Solved, SolveRequest, Unsatisfiable

_SECONDS = 20  # a busy machine is slower by far, and without an answer an entry is given up
_NOWHERE = "https://choices.invalid"
_NAME = "cuenv-choice-"
_OF_PYTHON = frozenset({"python", "python_abi"})  # what compiled packages require of the one Python they are made for
_Minors: TypeAlias = frozenset[str] | None


class _Lockable:
    """What a lock can hold of channels that are folders: of each package the records of one channel.

    That is the channel which a pin names, else the first that has it. Where the platform and noarch have one file name
    (cuda-compiler 12.6.0 of the channel nvidia), the record of the platform counts: rattler refuses both in one source.
    """

    def __init__(
        self, parts: Sequence[tuple[str, FolderRecords]], homes: Mapping[str, str], cutoff: datetime | None
    ) -> None:
        self._parts, self._homes, self._cutoff = parts, homes, cutoff
        self._found: dict[str, list[RepoDataRecord]] = {}
        self._minors: dict[str, list[_Minors]] = {}
        self._admitted: dict[str, _Minors] = {}
        self._pythons: dict[str, _Minors] = {}
        self._matching: dict[str, list[tuple[RepoDataRecord, _Minors]]] = {}
        self.packages: dict[str, LockedPackage] = {}
        """What a lock keeps of records that were chosen, by URL: each is chosen in most solves."""
        self._beside: dict[tuple[_Minors, str], list[RepoDataRecord]] = {}

    def records(self, name: str) -> list[RepoDataRecord]:
        """Those of one package, of every subdir."""
        if name not in self._found:
            self._found[name] = self._of(name)
        return self._found[name]

    def beside(self, pythons: _Minors, text: str) -> list[RepoDataRecord]:
        """The records that match a spec, or all of a name, without those that go with none of some minors of Python."""
        key = pythons, text
        if key not in self._beside:
            pairs = self._matched(text)
            self._beside[key] = [
                item for item, minors in pairs if minors is None or pythons is None or minors & pythons
            ]
        return self._beside[key]

    def pythons(self, pin: Pin) -> _Minors:
        """The minors of Python with which a pin goes; ``None`` where it goes with any."""
        text = _text(pin)
        if text not in self._pythons:
            found = [None] if pin.name.startswith("__") else [minors for _, minors in self._matched(text)]
            self._pythons[text] = None if None in found else frozenset[str]().union(*filter(None, found))
        return self._pythons[text]

    def _matched(self, text: str) -> list[tuple[RepoDataRecord, _Minors]]:
        if text not in self._matching:
            spec = MatchSpec(text)
            name = spec.name.normalized
            if name not in self._minors:
                self._minors[name] = [self._minors_of(item) for item in self.records(name)]
            pairs = zip(self.records(name), self._minors[name], strict=True)
            self._matching[text] = [pair for pair in pairs if text == name or spec.matches(pair[0])]
        return self._matching[text]

    def _minors_of(self, record: RepoDataRecord) -> _Minors:
        """The minors of Python with which a package goes, or which it is."""
        if record.name.normalized == "python":
            return frozenset({".".join(str(record.version).split(".")[:2])})
        found: _Minors = None
        for text in record.depends:
            admitted = self._admitted_by(text) if text.startswith("python") else None
            found = admitted if found is None else found if admitted is None else found & admitted
        return found

    def _admitted_by(self, text: str) -> _Minors:
        """The minors of Python that a requirement leaves; ``None`` where it is one of another package, or of any."""
        if text not in self._admitted:
            spec = match_spec_or_none(text)
            named = spec is not None and spec.name.normalized in _OF_PYTHON
            found = [minors for _, minors in self._matched(text)] if named else [None]
            self._admitted[text] = None if None in found else frozenset[str]().union(*filter(None, found))
        return self._admitted[text]

    def _of(self, name: str) -> list[RepoDataRecord]:
        home = self._homes.get(name, "")
        found: dict[str, RepoDataRecord] = {}
        for channel, memory in self._parts:
            records = memory.records(name) if home in ("", channel) else ()
            if records:
                home = channel
                found = {item.file_name: item for item in filter(self._takes, records)} | found
        return list(found.values())

    def _takes(self, item: RepoDataRecord) -> bool:
        cutoff = self._cutoff
        return bool(item.sha256 or item.md5) and (cutoff is None or (record_day(item) or cutoff) <= cutoff)

    def names(self) -> set[str]:
        """All names."""
        return {name for _, memory in self._parts for name in memory.package_names(memory.subdir)}


class _Choices:
    """The packages that nobody has made, and what a lock can hold of folders, as a source for rattler.

    Each source and each platform costs the solver a call for each name: one of each is the least. What it would have to
    leave out in any case is not shown to it: other releases of what must be there, and packages for another Python.
    """

    def __init__(
        self, choices: Sequence[Choice], there: _Lockable, platform: str, must: Sequence[Pin], pythons: _Minors
    ) -> None:
        self._there, self._platform, self._pythons = there, platform, pythons
        self._texts = {pin.name: _text(pin) for pin in must}
        self._made = {
            f"{_NAME}{number}": [
                _choice_record(f"{_NAME}{number}", len(choice) - place, pins) for place, pins in enumerate(choice)
            ]
            for number, choice in enumerate(choices)
        }

    async def fetch_package_records(self, platform: object, name: PackageName) -> list[RepoDataRecord]:
        """Those of one name, for rattler; those without a platform as well."""
        if str(platform) != self._platform:
            return []
        text = name.normalized
        made = self._made.get(text)
        return self._there.beside(self._pythons, self._texts.get(text, text)) if made is None else made

    def package_names(self, platform: object) -> list[str]:
        """All names, for rattler."""
        return sorted({*self._made, *self._there.names()}) if str(platform) == self._platform else []


@lru_cache(maxsize=8)
def _lockable(
    parts: tuple[tuple[str, FolderRecords], ...], homes: tuple[tuple[str, str], ...], cutoff: datetime | None
) -> _Lockable:
    return _Lockable(parts, dict(homes), cutoff)


def choose(
    request: SolveRequest, choices: Sequence[Choice], sources: Sources, *, seconds: float = _SECONDS
) -> Solved | Unsatisfiable:
    """Solve for one platform, with an alternative of each choice. Records that a lock cannot hold are left out.

    Args:
        request: what must be in any case.
        choices: what may be chosen of.
        seconds: after which there is no answer.
    """
    channels = channels_of(sources.reaching(request.channels))
    channels.keeps_records = True
    pins = [*request.spec.pins, *(pin for choice in choices for pins in choice for pin in pins)]
    homes = {pin.name: sources.urls((pin.channel,))[0] for pin in reversed(pins) if pin.channel}
    for pin in pins:
        parse_spec(pin)
    virtual = [virtual_package(item) for item in request.virtual_packages]
    with rattler_errors("the solver failed"):
        parts = channels.open(request.channels, request.platform)
        folders = tuple(
            (part.channel, memory) for part in parts if isinstance(memory := channels.handle(part), FolderRecords)
        )
        online = [part.source for part in parts if isinstance(part.source, Channel)]
        # What must be there is required by a package as well: the solver decides first what is asked for directly. On
        # the network, a channel that is named must be: only so does it count before the priority of channels.
        direct = [pin for pin in request.spec.pins if pin.channel and online]
        asked = (*choices, (tuple(pin for pin in request.spec.pins if pin not in direct),))
        specs = [*map(parse_spec, direct), *(MatchSpec(f"{_NAME}{number}") for number in range(len(asked)))]
        there = _lockable(folders, tuple(sorted(homes.items())), channels.cutoff)
        must = () if online else request.spec.pins
        pythons = None if online else _pythons(there, request.spec.pins, choices)
        if pythons is not None and not pythons:
            text = "no Python goes with all that must be there"
            return Unsatisfiable(platform=request.platform, missing=(), text=text)

        async def question(gateway: Gateway, _: list[Source]) -> list[RepoDataRecord]:
            return await _solve(
                [_Choices(asked, there, request.platform, must, pythons), *dict.fromkeys(online)],
                specs,
                gateway=gateway,
                platforms=[request.platform, *(["noarch"] if online else [])],  # type: ignore[list-item] # any subdir
                virtual_packages=virtual,
                channel_priority=ChannelPriority.Strict,
                channel_relations="disabled",
                timeout=timedelta(seconds=seconds),
            )

        try:
            records = channels.ask(parts, question)
        except SolverError as error:
            return Unsatisfiable(platform=request.platform, missing=(), text=printable(redact(str(error))).strip())
    taken = [0] * len(asked)
    packages = []
    for record in records:
        name = record.name.normalized
        if name.startswith(_NAME):
            number = int(name.removeprefix(_NAME))
            taken[number] = len(asked[number]) - int(str(record.version))
        else:
            package = there.packages.get(record.url)
            if package is None:
                package = there.packages[record.url] = locked_package(record, request.platform, channels.sources)
            packages.append(package)
    solution = Solution(
        platform=request.platform,
        packages=tuple(sorted(packages, key=lambda item: item.name)),
        virtual_packages=request.virtual_packages,
        solver=SOLVER,
    )
    return Solved(solution=solution, taken=tuple(taken[:-1]))


def _pythons(there: _Lockable, must: Sequence[Pin], choices: Sequence[Choice]) -> _Minors:
    """The minors of Python with which all goes that must be there; ``None`` where any does, or something is nowhere."""
    found = [there.pythons(pin) for pin in must]
    if frozenset() in found:
        return None
    for choice in choices:
        named = [there.pythons(pin) for pins in choice for pin in pins if pin.name == "python"]
        found += [frozenset[str]().union(*filter(None, named))] if len(named) == len(choice) else []
    admitted = [item for item in found if item is not None]
    return frozenset.intersection(*admitted) if admitted else None


def _text(pin: Pin) -> str:
    """A pin as a spec, whatever channel it names."""
    return pin.match_spec().rpartition("::")[2]


def _choice_record(name: str, number: int, pins: Iterable[Pin]) -> RepoDataRecord:
    """A package that requires pins, whatever channel they name."""
    depends = list(map(_text, pins))
    record = PackageRecord(
        name, str(number), BuildString.new_unchecked("0"), 0, "noarch", depends=depends, sha256=bytes(32)
    )
    file = f"{name}-{number}-0.conda"
    return RepoDataRecord(record, file, f"{_NOWHERE}/noarch/{file}", _NOWHERE)
