"""``uv.lock``, version 1: the packages of a Python project, or of a workspace, for every platform and Python."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from cuenv.core.errors import InputError, UsageError
from cuenv.core.findings import Finding, first_of
from cuenv.core.io.files import load_toml
from cuenv.core.reading import Faults, Reader, describe, sha256_hash
from cuenv.core.record import NamedTuple, dataclass, field, replace
from cuenv.core.regex import regex
from cuenv.core.urls import index_url, one_line
from cuenv.knowledge.rows import PLATFORMS
from cuenv.lockfile.formats import LockPart, LockReader
from cuenv.lockfile.wheel_target import NamedFile, WheelTarget, best_python, file_name, pythons
from cuenv.solve.environment_spec import normalise
from cuenv.solve.model import Lock, PipLocked, Solution

_VERSION = 1
_USUAL_GROUP = "dev"  # the dependency group that uv installs when it is told of none
EVERY = "all"  # how a project says that all of its groups are installed by default
_LOCAL = ("editable", "virtual", "directory")
_TORCH = "torch"
_SHOWN = 8
_MOST_TRIED = 40  # extras and groups that are searched for torch, where what is installed by default has none
_AGAIN = "uv lock"


_TOML_LINE = regex(r"\(at line (\d+), column \d+\)\Z")  # in the words of tomllib


def toml_document(text: str, source: str, again: str) -> dict[str, Any]:
    """A TOML file."""
    try:
        return load_toml(text)
    except ValueError as error:
        line = _TOML_LINE.search(str(error))
        message = f"{source}: {one_line(str(error))[:200]}"
        raise InputError(message, hint=again, line=int(line[1]) if line else 0) from error


class _Edge(NamedTuple):
    """A requirement of one package on another."""

    name: str
    version: str | None
    source: object  # as the file writes it, where it is needed to tell packages of one name apart
    extras: tuple[str, ...]
    marker: str


@dataclass(frozen=True, kw_only=True)
class _Package:
    """One entry of the file."""

    name: str
    version: str
    source: Mapping[str, Any]
    forks: tuple[str, ...]
    needs: tuple[_Edge, ...]
    extras: Mapping[str, tuple[_Edge, ...]]
    groups: Mapping[str, tuple[_Edge, ...]]
    wheels: tuple[tuple[str, NamedFile], ...]
    sdist: NamedFile | None

    @property
    def place(self) -> str:
        """Where a package of the project itself lies; empty for one of an index."""
        found = next((self.source[kind] for kind in _LOCAL if kind in self.source), "")
        return found if isinstance(found, str) else ""


def _read(text: str, source: str, part: LockPart) -> Lock:
    faults = Faults(source)
    document = Reader(toml_document(text, source, _AGAIN), faults)
    number = document.get("version", int, required=True)
    if number != _VERSION and not faults.items:
        faults.add("version", f"a uv.lock of version {number}; cuenv reads version {_VERSION}")
    faults.check(hint="uv export --format pylock.toml --output-file pylock.toml")
    requires = document.get("requires-python", str) or ""
    packages = tuple(_package(item, faults) for item in document.readers("package"))
    manifest = document.reader("manifest")
    members = manifest.texts("members") if manifest else ()
    asked = tuple(_edge(item) for item in manifest.readers("requirements")) if manifest else ()
    try:
        minors = pythons(requires)
    except ValueError as error:
        faults.add("requires-python", str(error))
        minors = []
    faults.check(hint=_AGAIN)
    if not packages:
        faults.add("", "the file lists no package")
    if not minors:
        faults.add("requires-python", f"cuenv knows no Python that {describe(requires)} admits")
    exclusive = tuple(_exclusive(row) for row in document.get("conflicts", list) or () if isinstance(row, list))
    project = _Project(packages=packages, members=members, asked=asked, exclusive=exclusive, source=source)
    if not asked and not project.roots():
        faults.add("", "the file names no project, so it is unknown which of its packages are installed")
    faults.check(hint=_AGAIN)
    try:
        return project.lock(part, minors)
    except ValueError as error:
        raise InputError(f"{source}: {error}", hint=_AGAIN) from error


def _exclusive(rows: list[object]) -> frozenset[str]:
    """Extras and groups of which a project can have one only, as ``extra NAME`` and ``group NAME``."""
    found = set()
    for row in rows:
        for kind in ("extra", "group"):
            name = row.get(kind) if isinstance(row, dict) else None
            if isinstance(name, str):
                found.add(f"{kind} {normalise(name)}")
    return frozenset(found)


def _package(reader: Reader, faults: Faults) -> _Package:
    name = normalise(reader.text("name"))
    wheels = []
    for row in reader.readers("wheels"):
        url = row.get("url", str) or row.get("path", str) or row.get("filename", str) or ""
        name_of_file = row.get("filename", str) or file_name(url)
        wheels.append((name_of_file, NamedFile(url, _digest(row, faults), _size(row))))
    sdist = reader.reader("sdist")
    where = (sdist.get("url", str) or sdist.get("path", str) or "") if sdist else ""
    return _Package(
        name=name,
        version=reader.get("version", str) or "",
        source=reader.get("source", dict) or {},
        forks=reader.texts("resolution-markers"),
        needs=tuple(map(_edge, reader.readers("dependencies"))),
        extras=_lists(reader, "optional-dependencies"),
        groups=_lists(reader, "dev-dependencies") or _lists(reader, "dependency-groups"),
        wheels=tuple(wheels),
        sdist=NamedFile(where, _digest(sdist, faults), _size(sdist)) if sdist else None,
    )


def _digest(row: Reader, faults: Faults) -> str | None:
    found = row.get("hash", str)
    if found is None:
        return None
    kind, _, text = found.partition(":")
    if kind != "sha256":
        return None
    try:
        return sha256_hash(text)
    except ValueError as error:
        faults.add(row.at("hash"), str(error))
        return None


def _edge(row: Reader) -> _Edge:
    extras = row.raw("extra") if row.raw("extra") is not None else row.raw("extras")
    listed = extras if isinstance(extras, list) else [extras]
    return _Edge(
        name=normalise(row.text("name")),
        version=row.get("version", str),
        source=row.raw("source"),
        extras=tuple(normalise(item) for item in listed if isinstance(item, str)),
        marker=row.get("marker", str) or "",
    )


def _size(row: Reader) -> int | None:
    size = row.raw("size")
    return size if type(size) is int else None


def _lists(reader: Reader, key: str) -> dict[str, tuple[_Edge, ...]]:
    section = reader.reader(key)
    names = reader.get(key, dict) or {}
    return {normalise(name): tuple(map(_edge, section.readers(name))) for name in names if section}


@dataclass(frozen=True, kw_only=True)
class _Chosen:
    """Extras and groups of the project."""

    extras: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Project:
    """The packages of a file, and those of them that the project itself is."""

    packages: tuple[_Package, ...]
    members: tuple[str, ...]
    asked: tuple[_Edge, ...]
    exclusive: tuple[frozenset[str], ...]
    source: str
    only: str = ""
    by_name: dict[str, list[_Package]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for item in self.packages:
            self.by_name.setdefault(item.name, []).append(item)

    def roots(self) -> tuple[_Package, ...]:
        """The project, or one member of it; of a workspace whose root is not a package, all of its members."""
        if self.only:
            return tuple(self.by_name.get(self.only, ()))
        whole = tuple(item for item in self.packages if item.place == ".")
        if whole or self.asked:
            return whole
        members = set(map(normalise, self.members))
        named = tuple(item for item in self.packages if item.name in members)
        return named or tuple(item for item in self.packages if item.place)

    def lock(self, part: LockPart, minors: list[str]) -> Lock:
        roots = self.roots()
        known_extras = sorted({name for item in roots for name in item.extras})
        known_groups = sorted({name for item in roots for name in item.groups})
        extras = tuple(map(normalise, part.extras))
        asked_groups = tuple(map(normalise, part.groups))
        for option, names, known in (("extra", extras, known_extras), ("group", asked_groups, known_groups)):
            for name in names:
                if name not in known:
                    there = f"it has {', '.join(known[:_SHOWN])}" if known else "it has none"
                    message = f"{self.source} has no {option} {describe(name)}; {there}"
                    raise UsageError(message, hint=f"cuenv check {shlex.quote(self.source)}")
        usual = (_USUAL_GROUP,) if part.usual is None else tuple(map(normalise, part.usual))
        named = [*(f"extra {name}" for name in extras), *(f"group {name}" for name in asked_groups)]
        for several in self.exclusive:
            both = [item for item in dict.fromkeys(named) if item in several]
            if len(both) > 1:
                message = f"{self.source} has {' and '.join(both[:2])} only one at a time"
                raise UsageError(message, hint=f"cuenv check {shlex.quote(self.source)} --{both[0]}")
        left = {item for several in self.exclusive if not several.isdisjoint(named) for item in several}
        by_default = [name for name in known_groups if name in usual or EVERY in usual]
        groups = (*(name for name in by_default if f"group {name}" not in left), *asked_groups)
        chosen = _Chosen(extras=extras, groups=tuple(dict.fromkeys(groups)))
        python = part.python or self._python(chosen, minors)
        solutions = tuple(self._solution(WheelTarget(platform, python), chosen) for platform in PLATFORMS)
        return Lock(channels=(), sources=(), solutions=solutions, part=_said(chosen, python, part))

    def _python(self, chosen: _Chosen, minors: list[str]) -> str:
        def judged(minor: str) -> tuple[bool, int]:
            target = WheelTarget(PLATFORMS[0], minor)
            found = self._installed(target, chosen)
            lacking = sum(bool(item.wheels) and target.best(item.wheels) is None for item in found)
            return all(item.name != _TORCH for item in found), lacking

        return best_python(minors, judged)

    def _solution(self, target: WheelTarget, chosen: _Chosen) -> Solution:
        pip: dict[str, PipLocked] = {}
        lacking: dict[str, list[str]] = {}
        for item in self._installed(target, chosen):
            wheel = target.best(item.wheels)
            if item.place:
                continue  # the project itself
            if wheel is None and item.wheels and item.sdist is None:
                lacking[one_line(f"{item.name} {item.version}")] = [name for name, _ in item.wheels]
            file = wheel or item.sdist or NamedFile(_where(item.source), None)
            pip[item.name] = PipLocked(
                name=item.name,
                version=item.version,
                url=index_url(file.url),
                sha256=file.sha256,
                size=file.size,
                direct="registry" not in item.source,
                depends=tuple(edge.name for edge in item.needs if target.meets(edge.marker)),
            )
        remarks = [*no_wheels(lacking, target, self.source, by_uv=True)]
        if _TORCH not in pip:
            remarks += self._elsewhere(target, chosen)
        return Solution(
            platform=target.platform,
            pip=tuple(found for _, found in sorted(pip.items())),
            python=target.python,
            remarks=tuple(remarks),
        )

    def _elsewhere(self, target: WheelTarget, chosen: _Chosen) -> Iterator[Finding]:
        """The extras and groups of the project that have torch, where what was read has none."""
        roots = self.roots()
        tries = [
            *(("--extra", name, _Chosen(extras=(name,))) for item in roots for name in item.extras),
            *(("--group", name, _Chosen(groups=(name,))) for item in roots for name in item.groups),
        ]
        found: dict[str, str] = {}
        for option, name, other in tries[:_MOST_TRIED]:
            if name not in (*chosen.extras, *chosen.groups):
                torch = next((item for item in self._installed(target, other) if item.name == _TORCH), None)
                if torch:
                    found[f"{option} {name}"] = torch.version
        if found:
            names = sorted(found, key=lambda item: found[item].endswith("+cpu"))
            message = (
                "the part of the lock that was read has no PyTorch; with one of these options it has: "
                + one_line(", ".join(names[:_SHOWN]))
            )
            fix = f"cuenv check {shlex.quote(self.source)} {names[0]}"
            yield Finding(code="CU115", severity="warning", subject=_TORCH, message=message, fix=fix)
        else:
            yield from self._of_members(target)

    def _of_members(self, target: WheelTarget) -> Iterator[Finding]:
        """The first member of a workspace that has torch, where neither its root has it nor an extra of the root."""
        here = {item.name for item in self.roots()}
        others = [name for name in map(normalise, self.members) if name not in here]
        for name in others[:_MOST_TRIED]:
            member = replace(self, only=name, by_name={})
            for extra in ("", *(extra for item in member.roots() for extra in item.extras)):
                chosen = _Chosen(extras=(extra,) if extra else ())
                if any(item.name == _TORCH for item in member._installed(target, chosen)):  # noqa: SLF001 - its own class
                    option = f"--extra {extra}" if extra else ""
                    export = shlex.join(
                        ["uv", "export", "--frozen", "--package", name, *option.split(), "--format", "pylock.toml"]
                    )
                    message = (
                        f"the part of the lock that was read has no PyTorch; {name}, another member of the workspace, "
                        f"has it{f' with {option}' if option else ''}"
                    )
                    fix = f"{export} --output-file pylock.toml && cuenv check pylock.toml"
                    yield Finding(code="CU115", severity="warning", subject=_TORCH, message=message, fix=fix)
                    return

    def _installed(self, target: WheelTarget, chosen: _Chosen) -> list[_Package]:
        """The packages that uv would install, in the order in which they are met."""
        exclusive = frozenset(
            f"{kind}-{len(item.name)}-{item.name}-{name}"
            for item in self.roots()
            for kind, names in (("extra", chosen.extras), ("group", chosen.groups))
            for name in names
        )
        return self._walk(target, chosen, exclusive | frozenset(chosen.extras))

    def _walk(self, target: WheelTarget, chosen: _Chosen, extras: frozenset[str]) -> list[_Package]:
        met: dict[int, _Package] = {}
        done: set[tuple[int, str]] = set()
        todo: list[tuple[_Package, str]] = []

        def follow(edges: Iterable[_Edge]) -> None:
            for edge in edges:
                if not target.meets(edge.marker, extras):
                    continue
                for found in self._found(edge, target):
                    todo.extend((found, name) for name in ("", *edge.extras))

        follow(self.asked)
        for root in self.roots():
            todo.append((root, ""))
            todo += [(root, name) for name in chosen.extras if name in root.extras]
            for group in chosen.groups:
                follow(root.groups.get(group, ()))
        while todo:
            item, extra = todo.pop()
            if (id(item), extra) in done:
                continue
            done.add((id(item), extra))
            met[id(item)] = item
            follow(item.extras.get(extra, ()) if extra else item.needs)
        return sorted(met.values(), key=lambda item: (item.name, item.version))

    def _found(self, edge: _Edge, target: WheelTarget) -> list[_Package]:
        """The package that an edge means, of all that have the name."""
        same = self.by_name.get(edge.name, [])
        tests: tuple[Callable[[_Package], bool], ...] = (
            lambda item: edge.version in (None, item.version),
            lambda item: edge.source in (None, item.source),
            lambda item: not item.forks or any(target.meets(marker) for marker in item.forks),
        )
        for test in tests:
            same = [item for item in same if test(item)] if len(same) > 1 else same
        return same[:1]


def _where(source: Mapping[str, Any]) -> str:
    """Where a package comes from that has neither wheel nor archive."""
    for kind in ("url", "path"):
        if isinstance(source.get(kind), str):
            return str(source[kind])
    return f"git+{source['git']}" if isinstance(source.get("git"), str) else ""


def no_wheels(lacking: Mapping[str, list[str]], target: WheelTarget, source: str, *, by_uv: bool) -> Iterator[Finding]:
    """Packages of the lock that nothing can install there, in one finding.

    Args:
        lacking: their names and releases, each with the names of its wheels.
        by_uv: it is a file of uv, which can be told the platforms that it is to lock for.
    """
    if not lacking:
        return
    every = [WheelTarget(target.platform, minor) for minor in pythons("")]
    other = next(
        (one.python for one in every if all(one.best((name, name) for name in names) for names in lacking.values())), ""
    )
    machine = target.environment["platform_machine"]
    anew = (
        f"add \"sys_platform == 'linux' and platform_machine == '{machine}'\" to required-environments in [tool.uv], "
        f"and: {_AGAIN}"
    )
    where = f"{target.platform} and Python {target.python}" if other else target.platform
    message = f"pip: the lock has neither a wheel for {where} nor a source of {first_of([*lacking], _SHOWN)}"
    fix = f"cuenv check {shlex.quote(source)} --python {other}" if other else anew if by_uv else None
    subject = ", ".join(name.partition(" ")[0] for name in lacking)
    yield Finding(code="CU106", severity="error", subject=subject, message=message, fix=fix)


def _said(chosen: _Chosen, python: str, part: LockPart) -> str:
    """What was read, for people."""
    words = [f"Python {python}" + (f" of {part.python_from}" if part.python and not part.typed_python else "")]
    for what, names in (("extra", chosen.extras), ("group", chosen.groups)):
        if names:
            words.append(f"{what}{'s' if len(names) > 1 else ''} {', '.join(names)}")
    return ", ".join(words)


READER = LockReader(
    file="uv.lock",
    content=regex(r"(?m)^version[ \t]*=[ \t]*\d+[ \t]*$(?=[\s\S]{0,20000}?^requires-python[ \t]*=)"),
    read=_read,
    lint=regex(r"uv\.lock|.*\.py\.lock"),
    program="uv",
    again=_AGAIN,
    parts=("--extra", "--group", "--python"),
    limit=16 * 1024 * 1024,
)
