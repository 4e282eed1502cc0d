"""What ``conda list`` and ``conda list --export`` print, read as the environment that it lists.

People commit it under the name ``requirements.txt``, and conda makes an environment of an export (``conda create
--file``). An export names no channels: builds show some of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from cuenv.core.record import NamedTuple
from cuenv.core.regex import regex
from cuenv.solve.environment_spec import EnvironmentSpec
from cuenv.solve.match_spec import parse_spec

_EXPORTED = regex(r"(?P<name>[A-Za-z0-9_.-]+)=(?P<number>[^=\s]+)=(?P<build>[^=\s]+)")
_TABLED = regex(
    r"(?P<name>[A-Za-z0-9_.-]+)[ \t]+(?P<number>\d\S*)[ \t]+(?P<build>[A-Za-z0-9_.<>]+)(?:[ \t]+(?P<channel>\S+))?"
)
_TABLE = regex(r"# packages in environment at |# Name +Version +Build")
_PLATFORM = regex(r"# platform: ([a-z0-9-]+)")
_OF_PYTORCH = regex(r"py\d\.\d+_(?:cuda\d|cpu_)\S*")
_HEAD = 40  # lines in which the first package stands


class _Listed(NamedTuple):
    """One line: the package, and the channel where the line names it."""

    name: str
    number: str
    build: str
    channel: str

    @property
    def of_folder(self) -> bool:
        """Whether it is a folder of that machine, in development."""
        return self.build.startswith("<")

    @property
    def by_pip(self) -> bool:
        return self.build.startswith("pypi") or self.channel == "pypi"


def listed_environment(text: str) -> tuple[EnvironmentSpec, str] | None:
    """The environment that an output of ``conda list`` lists, and what it is; ``None`` for another text."""
    lines = [line.strip() for line in text.lstrip("\ufeff").splitlines()]
    head = [line for line in lines[:_HEAD] if line and not line.startswith("#")]
    table = any(_TABLE.match(line) for line in lines[:_HEAD])
    form = _TABLED if table else _EXPORTED
    if not head or not all(map(form.fullmatch, head)):
        return None
    found = (line.groupdict() for line in map(form.fullmatch, lines) if line)
    items = [_Listed(one["name"].lower(), one["number"], one["build"], one.get("channel") or "") for one in found]
    platform = next((named[1] for line in lines[:_HEAD] if (named := _PLATFORM.fullmatch(line))), "")
    texts = [f"{item.name}={item.number}={item.build}" for item in items if not (item.by_pip or item.of_folder)]
    spec = EnvironmentSpec(
        name="",
        channels=tuple(dict.fromkeys(_channels(items, table=table))),
        pins=tuple(map(parse_spec, texts)),
        platforms=(platform,) if platform else (),
        pip=tuple(f"{item.name}=={item.number}" for item in items if item.by_pip),
    )
    return spec, "conda list" if table else "conda list --export"


def _channels(items: list[_Listed], *, table: bool) -> Iterator[str]:
    """Where the packages come from, in the order of the usual recipes; of an export, as far as builds show it."""
    named = {item.channel for item in items if item.channel not in ("", "pypi", "<unknown>")}
    by_name = {item.name: item for item in items}
    torch = by_name.get("pytorch")
    if not table:
        named |= {"pytorch"} if torch and _OF_PYTORCH.fullmatch(torch.build) else set()
        named |= {"nvidia"} if "pytorch-cuda" in by_name else set()
        forge = any("conda_forge" in item.build or item.name == "python_abi" for item in items)
        named |= {"conda-forge"} if forge else set()
    first = [name for name in ("pytorch", "nvidia", "conda-forge") if name in named]
    yield from (*first, *sorted(named.difference(first)))
    if "conda-forge" not in named or (table and any(not item.channel for item in items)):
        yield "defaults"
