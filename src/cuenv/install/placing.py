"""Where the files of conda packages come to lie, judged before anything is linked.

What an installer puts into an environment is said by ``info/paths.json`` (before that: ``info/files``), not by the
names in the archive: both are judged here, together with every link, as the kernel would follow it, in the unpacked
package and in the environment. Nothing may lead out of either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from cuenv.core.reading import describe
from cuenv.core.record import dataclass
from cuenv.core.regex import regex

Kind = Literal["file", "link", "folder"]
Parts = tuple[str, ...]
_State = tuple[Parts, Parts, int]  # where a path has come to, what is left of it, and the links that were followed

INDEX, PATHS, LINK = "info/index.json", "info/paths.json", "info/link.json"
FILES, HAS_PREFIX, NO_LINK = "info/files", "info/has_prefix", "info/no_link"
TOLD = (INDEX, PATHS, LINK, FILES, HAS_PREFIX, NO_LINK)
"""The files of a package that say what an installer does with the others."""
MARKER = ".cuenv-unfinished"  # stands in an environment that is being made

_FOLLOWED = 40  # links that the kernel follows in one path
_STATES = 20_000
CLOBBERED = "__clobbers__"  # the folder where rattler keeps what one package brings in the place of another's
_OWN = regex(rf"conda-meta(?:/[^/]*\.json|/history|/cuenv)?|{re.escape(MARKER)}|{CLOBBERED}(?:/.*)?", re.DOTALL)
"""What the installer itself writes into an environment."""
_COMMAND = regex(r"[^\s/=\x00-\x1f\x7f][^/=\x00-\x1f\x7f]{0,200}")
_DOTTED = regex(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One entry of a package."""

    kind: Kind
    target: str = ""  # of a link, as it is written


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """A package as an installer sees it."""

    name: str  # of its archive
    members: Mapping[str, Member]  # by path, folders without a slash at the end
    announced: tuple[tuple[str, Kind], ...]  # path and kind of everything that is to be linked, in order
    entry_points: tuple[str, ...] = ()  # as ``info/link.json`` has them; empty unless the package is ``noarch: python``
    noarch_python: bool = False  # whether its paths depend on the environment's Python


def plain(path: str) -> bool:
    """Whether a path is relative, does not leave its folder, and is normalised."""
    return bool(path) and "\0" not in path and all(part not in ("", ".", "..") for part in path.split("/"))


def package_problem(contents: Contents) -> str:
    """What is wrong with one package; empty if nothing is."""
    return next(_problems(contents), "")


def _problems(contents: Contents) -> Iterator[str]:
    members = contents.members
    way = _link_resolver([members])
    files = {place for place, item in members.items() if item.kind == "file"}
    for place, item in members.items():
        if way.through(place):
            yield f"{describe(place)} is behind a link of the package"
        if not files.isdisjoint(_above(place)):
            yield f"{describe(place)} is below a file of the package"
        if item.kind == "link" and way.link_leaves(place, item.target):
            yield f"{describe(place)} links to {describe(item.target)}, outside the environment"
    for place, kind in contents.announced:
        yield from _wrong_announcement(place, kind, members)
    for text in contents.entry_points:
        if command_of(text) is None:
            yield f"its entry point {describe(text)} is not valid"


def _wrong_announcement(place: str, kind: Kind, members: Mapping[str, Member]) -> Iterator[str]:
    if not plain(place):
        yield f"it announces {describe(place)}, which is not a path inside an environment"
        return
    if _OWN.fullmatch(place):
        yield f"it announces {describe(place)}, which installers write themselves"
    found = members.get(place)
    if kind == "folder":
        if found and found.kind != "folder":
            yield f"it announces the folder {describe(place)}, which is a {found.kind} in it"
        elif not found and not any(name.startswith(f"{place}/") for name in members):
            yield f"it announces the folder {describe(place)}, but does not contain it"
    elif found is None or found.kind == "folder":
        yield f"it announces {describe(place)}, but does not contain it"
    elif kind == "link" and found.kind != "link":
        yield f"it announces the link {describe(place)}, which is a file in it"


def command_of(text: str) -> str | None:
    """The command of an entry point ``command = module:function``; ``None`` for other text."""
    command, mark, code = text.partition("=")
    module, colon, function = code.strip().partition(":")
    command = command.strip()
    good = mark and colon and _COMMAND.fullmatch(command) and command not in (".", "..")
    return command if good and _DOTTED.fullmatch(module.strip()) and _DOTTED.fullmatch(function.strip()) else None


def places(contents: Contents, python: str) -> dict[str, Member]:
    """The paths of a package's files in an environment.

    Args:
        contents: one in which nothing is wrong.
        python: ``3.12``, the environment's Python; empty when it has none.
    """
    found = {}
    for place, kind in contents.announced:
        member = contents.members.get(place)
        moved = _moved(place, python) if contents.noarch_python else place
        found[moved] = member if member and kind != "folder" else Member(kind="folder")
    for text in contents.entry_points if contents.noarch_python else ():
        found[f"bin/{command_of(text)}"] = Member(kind="file")
    return found


def _moved(place: str, python: str) -> str:
    top, slash, rest = place.partition("/")
    known = {"site-packages": f"lib/python{python}/site-packages", "python-scripts": "bin"}
    return f"{known.get(top, top)}{slash}{rest}"


def environment_problem(packages: Iterable[tuple[str, Mapping[str, Member]]]) -> tuple[str, str] | None:
    """The first package, by its name, whose places lead out of the environment through links of any package, and how.

    Packages may bring the same path, and a path through a link of another one, as long as it stays inside, whichever
    is linked first.
    """
    each = tuple(packages)
    way = _link_resolver(there for _, there in each)
    found = ((name, _wrong_among(place, item, way)) for name, there in each for place, item in there.items())
    return next(((name, wrong) for name, wrong in found if wrong), None)


def _link_resolver(each: Iterable[Mapping[str, Member]]) -> _LinkResolver:
    links: dict[str, tuple[str, ...]] = {}
    solid: set[str] = set()
    for there in each:
        for place, item in there.items():
            if item.kind == "link":
                links[place] = tuple(dict.fromkeys((*links.get(place, ()), item.target)))
            else:
                solid.add(place)
        for above in {place.rpartition("/")[0] for place in there}:
            solid.update(_above(f"{above}/"))
    return _LinkResolver(links, solid)


def _wrong_among(place: str, item: Member, way: _LinkResolver) -> str:
    if _OWN.fullmatch(place):
        return f"it contains {describe(place)}, which installers write themselves"
    if way.through(place) and any(end is None or _OWN.fullmatch(end) for end in way.ends(place)):
        return f"{describe(place)} leads elsewhere through a link of another package"
    if item.kind == "link" and way.link_leaves(place, item.target):
        return f"{describe(place)} links to {describe(item.target)}, outside the environment"
    return ""


def _above(place: str) -> Iterator[str]:
    while "/" in place:
        place = place.rpartition("/")[0]
        yield place


class _LinkResolver:
    """Follows paths through links as the kernel does: each link is resolved before the next part."""

    def __init__(self, links: Mapping[str, tuple[str, ...]], solid: set[str]) -> None:
        self._links = links
        self._solid = solid
        self._behind: dict[str, bool] = {}

    def through(self, place: str) -> bool:
        """Whether a folder in the path is a link."""
        folder = place.rpartition("/")[0]
        if not folder:
            return False
        if folder not in self._behind:
            self._behind[folder] = folder in self._links or self.through(folder)
        return self._behind[folder]

    def link_leaves(self, place: str, target: str) -> bool:
        """Whether a link may lead out of the root."""
        if not target or target.startswith("/") or "\0" in target:
            return True
        return None in self.ends("/".join((*place.split("/")[:-1], target)))

    def ends(self, path: str) -> tuple[str | None, ...]:
        """The possible ends of a path; ``None`` is outside, or unknown after too many links."""
        return tuple(None if end is None else "/".join(end) for end in self._ends(tuple(path.split("/"))))

    def _ends(self, parts: Parts) -> Iterator[Parts | None]:
        seen: set[_State] = set()
        todo: list[_State] = [((), parts, 0)]
        while todo:
            state = todo.pop()
            if state in seen:
                continue
            seen.add(state)
            if not state[1]:
                yield state[0]
            elif len(seen) > _STATES:
                yield None
                return
            else:
                onward = tuple(self._onward(*state))
                if None in onward:
                    yield None
                    return
                todo.extend(item for item in onward if item)

    def _onward(self, here: Parts, left: Parts, followed: int) -> Iterator[_State | None]:
        """The position after the next part of a path; ``None`` is outside."""
        part, rest = left[0], left[1:]
        name = "/".join((*here, part))
        targets = () if part in ("", ".", "..") else self._links.get(name, ())
        for target in targets:
            if not target or target.startswith("/"):
                yield None
            elif followed < _FOLLOWED:  # else nothing opens it: there is no such place
                yield here, (*target.split("/"), *rest), followed + 1
        if part in ("", "."):
            yield here, rest, followed
        elif part == "..":
            yield (here[:-1], rest, followed) if here else None
        elif not targets or name in self._solid:
            yield (*here, part), rest, followed
