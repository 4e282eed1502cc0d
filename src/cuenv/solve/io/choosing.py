"""One solve that chooses: of each choice the first alternative that goes with the rest. Import this module lazily.

A choice is a package that nobody has made: its newest version requires what is wanted most, an older one requires less.
The solver takes the newest that it can, and learns from each conflict, so that one solve does the work of many. Records
are kept in memory, so that the next solve need not read them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache

from rattler import Channel, ChannelPriority, Gateway, MatchSpec, PackageName, PackageRecord, RepoDataRecord
from rattler import solve as _solve
from rattler.exceptions import SolverError
from rattler.package import BuildString

from cuenv.core.urls import printable, redact
from cuenv.solve.environment_spec import Pin
from cuenv.solve.io.channels import FolderRecords, Source, channels_of, rattler_errors, record_day
from cuenv.solve.io.solver import SOLVER, locked_package, parse_spec, virtual_package
from cuenv.solve.io.sources import Sources
from cuenv.solve.model import Choice, Solution, Solved, SolveRequest, Unsatisfiable

_SECONDS = 10
_NOWHERE = "https://choices.invalid"
_NAME = "cuenv-choice-"


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

    def records(self, name: str) -> list[RepoDataRecord]:
        """Those of one package, of every subdir."""
        if name not in self._found:
            self._found[name] = self._of(name)
        return self._found[name]

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

    Each source and each platform costs the solver a call for each name: one of each is the least.
    """

    def __init__(self, choices: Sequence[Choice], there: _Lockable, platform: str) -> None:
        self._there, self._platform = there, platform
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
        return self._made[text] if text in self._made else self._there.records(text)

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

        async def question(gateway: Gateway, _: list[Source]) -> list[RepoDataRecord]:
            return await _solve(
                [_Choices(asked, there, request.platform), *dict.fromkeys(online)],
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
            packages.append(locked_package(record, request.platform, channels.sources))
    solution = Solution(
        platform=request.platform,
        packages=tuple(sorted(packages, key=lambda item: item.name)),
        virtual_packages=request.virtual_packages,
        solver=SOLVER,
    )
    return Solved(solution=solution, taken=tuple(taken[:-1]))


def _choice_record(name: str, number: int, pins: Iterable[Pin]) -> RepoDataRecord:
    """A package that requires pins, whatever channel they name."""
    depends = [pin.match_spec().rpartition("::")[2] for pin in pins]
    record = PackageRecord(
        name, str(number), BuildString.new_unchecked("0"), 0, "noarch", depends=depends, sha256=bytes(32)
    )
    file = f"{name}-{number}-0.conda"
    return RepoDataRecord(record, file, f"{_NOWHERE}/noarch/{file}", _NOWHERE)
