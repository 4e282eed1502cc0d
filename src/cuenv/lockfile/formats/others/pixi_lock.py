"""``pixi.lock``: environments of conda and pip packages for several platforms; read from version 4 on.

It is written in two versions. Version 7 names a platform and its virtual packages, and pixi takes the lock where they
are those of the manifest. Version 6 knows subdirs alone; it is what other readers than pixi understand.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from cuenv.core.errors import UsageError
from cuenv.core.findings import Finding
from cuenv.core.reading import Faults, Reader, describe, md5_hash, sha256_hash
from cuenv.core.record import NamedTuple, replace
from cuenv.core.regex import regex
from cuenv.core.urls import blanked, channel_url, index_url, short_channel, strip_credentials
from cuenv.core.yaml_read import load
from cuenv.core.yaml_write import is_word, quote
from cuenv.host.facts import VirtualPackage
from cuenv.lockfile.formats import LockPart, LockReader
from cuenv.solve.environment_spec import normalise, requirement_name
from cuenv.solve.model import Lock, LockedPackage, PipLocked, Solution, parse_package_url
from cuenv.solve.pip_part import provided

_VERSIONS = (4, 5, 6, 7)
MANIFEST, LOCK = "pixi.toml", "pixi.lock"
_WITHOUT_PLATFORMS = 6  # the version that knows subdirs alone
_DEFAULT = "default"  # the environment that pixi takes when none is named
_NAME = regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_ARCHIVES = (".conda", ".tar.bz2")
_MIRRORED = frozenset({"conda-forge", "nvidia", "pytorch"})
_TORCH = frozenset({"pytorch", "torch"})
_SHOWN = 8
_DIRECT = "direct+"  # how the place of a file begins that the manifest names by its URL


def _read(text: str, source: str, part: LockPart) -> Lock:
    faults = Faults(source)
    document = Reader(load(text, source), faults)
    version = document.get("version", int, required=True)
    faults.check(hint="pixi lock")
    if version not in _VERSIONS:
        faults.add("version", f"a pixi.lock of version {version}; cuenv reads the versions {_VERSIONS[0]} to 7")
        faults.check(hint="pixi lock" if version is not None and version < _VERSIONS[0] else None)
    return _PixiLock(document, faults, source).lock(part)


class _PixiLock:
    """Reads one document, and collects its faults."""

    def __init__(self, document: Reader, faults: Faults, source: str) -> None:
        self.document = document
        self.faults = faults
        self.source = source
        self.entries: dict[str, Reader] = {}
        self.platforms: dict[str, tuple[str, tuple[VirtualPackage, ...]]] = {}

    def lock(self, part: LockPart) -> Lock:
        for row in self.document.readers("platforms"):
            name = row.text("name")
            virtual = tuple(map(_virtual, row.texts("virtual-packages")))
            self.platforms[name] = (row.get("subdir", str) or name, virtual)
        for row in self.document.readers("packages"):
            for kind in ("conda", "pypi"):
                place = row.get(kind, str) or None
                if place is None and row.get("kind", str) == kind:  # up to version 5 a package names its kind by itself
                    place = row.get("url", str) or row.get("path", str)
                if place is not None:
                    self.entries.setdefault(place, row)
        environments = self.document.get("environments", dict, required=True) or {}
        names = [name for name in environments if isinstance(name, str) and _NAME.fullmatch(name)]
        if len(names) < len(environments):
            self.faults.add("environments", "a name is not one of letters, digits, '.', '_' and '-'")
        if not names:
            self.faults.add("environments", "the file has no environment")
        self.faults.check(hint="pixi lock")
        chosen = self._chosen(names, environments, part)
        reader = Reader(environments[chosen], self.faults, f"environments.{chosen}")
        channels = tuple(short_channel(item.text("url")) for item in reader.readers("channels"))
        solutions = tuple(self._solutions(reader))
        self.faults.check(hint="pixi lock")
        remarks = tuple(self._remarks(chosen, environments, solutions))
        solutions = tuple(replace(item, remarks=(*item.remarks, *remarks)) for item in solutions)
        several = f" of {len(names)}" if len(names) > 1 else ""
        said = f"environment {chosen}{several}"
        return Lock(channels=channels, sources=(), solutions=solutions, part=said)

    def _chosen(self, names: list[str], environments: Mapping[str, object], part: LockPart) -> str:
        if part.environment:
            if part.environment not in names:
                shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
                message = f"{self.source} has no environment {describe(part.environment)}; it has {shown}"
                raise UsageError(message, hint=f"cuenv check {shlex.quote(self.source)} --environment {names[0]}")
            return part.environment
        if _DEFAULT in names:
            return _DEFAULT
        return next((name for name in names if self._has_torch(environments[name])), names[0])

    def _has_torch(self, environment: object) -> bool:
        listed = environment.get("packages") if isinstance(environment, dict) else None
        rows = [row for rows in _values(listed) if isinstance(rows, list) for row in rows]
        return any(self._name(place) in _TORCH for row in rows for place in _values(row) if isinstance(place, str))

    def _name(self, place: str) -> str:
        row = self.entries.get(place)
        named = row.get("name", str) if row else None
        try:
            return normalise(named) if named else parse_package_url(strip_credentials(place)).name
        except ValueError:
            return ""

    def _remarks(
        self, chosen: str, environments: Mapping[str, object], read: tuple[Solution, ...]
    ) -> Iterator[Finding]:
        """Other environments hold torch, and the one that was read does not."""
        others = [name for name in environments if name != chosen and self._has_torch(environments[name])]
        if not others or any(_has_torch(item) for item in read):
            return
        shown = ", ".join(others[:_SHOWN]) + (", ..." if len(others) > _SHOWN else "")
        message = (
            f"the environment {chosen} has no PyTorch; {len(others)} of {len(environments)} environments have "
            f"it: {shown}"
        )
        fix = f"cuenv check {shlex.quote(self.source)} --environment {others[0]}"
        yield Finding(code="CU115", severity="warning", subject=chosen, message=message, fix=fix)

    def _solutions(self, environment: Reader) -> Iterator[Solution]:
        packages = environment.get("packages", dict, required=True) or {}
        variants: dict[str, list[str]] = {}
        for name in packages:
            if isinstance(name, str) and _NAME.fullmatch(name):
                variants.setdefault(self.platforms.get(name, (name, ()))[0], []).append(name)
            else:
                self.faults.add(environment.at("packages"), f"expected the name of a platform, got {describe(name)}")
        for platform, names in variants.items():
            with_cuda = (name for name in names if any(item.name == "__cuda" for item in self._virtual(name)))
            chosen = next(with_cuda, names[0])
            listed = Reader(packages, self.faults, environment.at("packages")).readers(chosen)
            made = self._solution(platform, self._virtual(chosen), listed)
            yield replace(made, remarks=(*made.remarks, _of_several(platform, names, chosen))) if names[1:] else made

    def _virtual(self, name: str) -> tuple[VirtualPackage, ...]:
        return self.platforms.get(name, ("", ()))[1]

    def _solution(self, platform: str, virtual: tuple[VirtualPackage, ...], listed: Iterator[Reader]) -> Solution:
        conda: dict[str, LockedPackage] = {}
        pip: dict[str, PipLocked] = {}
        sources = []
        for row in listed:
            url, wheel, built = row.get("conda", str), row.get("pypi", str), row.get("conda_source", str)
            if url is not None and ("://" in url or url.endswith(_ARCHIVES)):
                package = self._conda(url, row)
                if package:
                    conda[package.name] = package
            elif wheel is not None:
                one = self._pypi(wheel, row)
                if one:
                    pip[one.name] = one
            elif url is not None or built is not None:
                sources.append(url or built or "")
            else:
                self.faults.add(row.path, "expected conda or pypi, got neither")
        return Solution(
            platform=platform,
            packages=tuple(item for _, item in sorted(conda.items())),
            virtual_packages=virtual,
            pip=tuple(item for _, item in sorted(pip.items())),
            remarks=(_from_source(sources),) if sources else (),
        )

    def _entry(self, place: str, row: Reader) -> Reader | None:
        found = self.entries.get(place)
        if found is None:
            self.faults.add(row.path, f"the list of packages lacks {describe(place)}")
        return found

    def _conda(self, url: str, row: Reader) -> LockedPackage | None:
        entry = self._entry(url, row)
        clean = strip_credentials(url)
        try:
            parts = parse_package_url(clean)
        except ValueError as error:
            self.faults.add(row.path, str(error))
            return None
        if entry is None:
            return None
        return LockedPackage(
            name=parts.name,
            version=parts.version,
            build=parts.build,
            subdir=parts.subdir,
            channel=_canonical(parts.channel),
            url=clean,
            md5=entry.parsed("md5", md5_hash),
            sha256=entry.parsed("sha256", sha256_hash),
            size=entry.get("size", int),
            depends=entry.texts("depends"),
            constrains=entry.texts("constrains"),
        )

    def _pypi(self, place: str, row: Reader) -> PipLocked | None:
        entry = self._entry(place, row)
        name = entry.text("name") if entry else ""
        if entry is None or not name:
            return None
        return PipLocked(
            name=normalise(name),
            version=entry.get("version", str) or "",
            url=index_url(place.removeprefix(_DIRECT)),
            sha256=entry.parsed("sha256", sha256_hash),
            direct="://" not in place or place.startswith(("git+", _DIRECT)),
            depends=tuple(text for text in entry.texts("requires_dist") if requirement_name(text)),
        )


def _canonical(channel: str) -> str:
    """A channel at another host that has the name of a known one is read as a mirror of it."""
    name = channel.rpartition("/")[2]
    return channel_url(name) if name in _MIRRORED else channel


def _values(value: object) -> list[object]:
    return [*value.values()] if isinstance(value, dict) else []


def _has_torch(solution: Solution) -> bool:
    names = {item.name for item in solution.packages} | {item.name for item in solution.pip}
    return not names.isdisjoint(_TORCH)


def _virtual(text: str) -> VirtualPackage:
    name, version, build = (*text.split("="), "0", "0")[:3]
    return VirtualPackage(name, version, build)


def _of_several(platform: str, names: list[str], chosen: str) -> Finding:
    message = f"the file has {len(names)} variants of {platform}; {chosen} was checked, not " + ", ".join(
        name for name in names if name != chosen
    )
    return Finding(code="CU115", severity="info", subject="platform", message=message)


def _from_source(places: list[str]) -> Finding:
    shown = ", ".join(describe(strip_credentials(place)) for place in places[:_SHOWN])
    more = ", ..." if len(places) > _SHOWN else ""
    message = (
        f"pixi builds {len(places)} packages from their sources, which were not checked: {shown}{more}"
        if len(places) > 1
        else f"pixi builds {shown} from its source, which was not checked"
    )
    return Finding(code="CU115", severity="info", subject="packages", message=message)


READER = LockReader(
    file=LOCK,
    content=regex(r"(?m)^environments:\s*$"),
    read=_read,
    lint=regex(r"pixi\.lock"),
    program="pixi",
    again="pixi lock",
    parts=("--environment",),
    installs=True,
)


def install_command(folder: Path) -> str:
    """What makes the environment of the files in a folder."""
    place = "" if folder == Path() else f" --manifest-path {shlex.quote(str(folder / MANIFEST))}"
    return f"pixi install --locked{place}"


class PixiPlatform(NamedTuple):
    """A platform of a pixi workspace."""

    name: str
    subdir: str
    # what it declares beside pixi's defaults, as ``__cuda=12.2``, in the order of the manifest
    virtual: tuple[str, ...] = ()


class PixiEnvironment(NamedTuple):
    """An environment of a pixi workspace, solved."""

    name: str
    channels: tuple[str, ...]
    solved: tuple[tuple[PixiPlatform, Solution], ...]  # its platforms, each with the answer
    indexes: tuple[str, ...] = ()  # of packages for pip, in their order; none where there are no such packages
    links: tuple[str, ...] = ()  # pages with files for pip


_TRAILING = regex(r"(?:^|_)(\d+)$")  # a build number where pixi finds it by itself
_NUMBER = regex(r"^(\d+)_|_(\d+)_(?:cpython|cp\d+t?|pypy\w*)$")
_FREE_THREADING = regex(r"_cp3\d+t$")


def render(
    environments: Iterable[PixiEnvironment], names: Mapping[str, str], *, head: tuple[str, ...], version: int = 7
) -> str:
    """Write the lock: the same bytes for the same values.

    Args:
        names: conda names and names on PyPI, where they differ.
        version: one of `cuenv.solve.LOCK_VERSIONS`.
    """
    made = sorted(environments, key=lambda item: item.name)
    platforms = {place.name: place for item in made for place, _ in item.solved}
    lines = [*(f"# {blanked(text)}".rstrip() for text in head), f"version: {version}"]
    if version > _WITHOUT_PLATFORMS:
        lines.append("platforms:")
        for _, place in sorted(platforms.items()):
            lines += [f"- name: {_text(place.name)}", f"  subdir: {_text(place.subdir)}"]
            lines += _list("virtual-packages", place.virtual, "  ")
    lines.append("environments:")
    for item in made:
        lines += _environment(item, version)
    conda = {one.url: one for item in made for _, answer in item.solved for one in answer.packages}
    from_pip = [(one, answer, item) for item in made for _, answer in item.solved for one in answer.pip]
    wheels = {_place(one): (one, answer, of) for one, answer, of in from_pip}
    by_pip = {one.name for one, _, _ in from_pip}
    lines.append("packages:" if conda or wheels else "packages: []")
    for _, package in sorted(conda.items()):
        lines += _conda_row(package, _purls(package, names, by_pip))
    for url, (one, answer, of) in sorted(wheels.items()):
        lines += _pypi_row(url, one, answer, names, of.indexes)
    return "\n".join(lines) + "\n"


def _environment(item: PixiEnvironment, version: int) -> Iterator[str]:
    yield f"  {item.name}:"
    yield "    channels:"
    yield from (f"    - url: {_text(strip_credentials(url).rstrip('/') + '/')}" for url in item.channels)
    yield from _list("indexes", item.indexes, "    ")
    if item.links:
        yield "    find-links:"
        yield from (f"    - {'url' if '://' in text else 'path'}: {_text(text)}" for text in item.links)
    yield "    packages:"
    for place, answer in sorted(item.solved, key=lambda pair: pair[0].name):
        rows = [f"      - conda: {_text(strip_credentials(url))}" for url in sorted(one.url for one in answer.packages)]
        rows += [f"      - pypi: {_text(text)}" for text in sorted(map(_place, answer.pip))]
        yield f"      {place.name if version > _WITHOUT_PLATFORMS else place.subdir}:{'' if rows else ' []'}"
        yield from rows


def _text(text: str) -> str:
    """A string as pixi writes it, without quotes wherever YAML allows."""
    if _PLAIN.fullmatch(text) and not is_word(text):
        return text
    return quote(text) if "'" in text or not text.isprintable() or not text.isascii() else f"'{text}'"


_PLAIN = regex(
    r"(?:[A-Za-z_]|[0-9]+(?:[a-df-z]|\.[0-9]+\.)|[0-9]+e[0-9]*[a-z])"
    r"(?:[A-Za-z0-9_./+=<>!~*,|()\[\];'\"%@&$^-]|:(?=[^ ])| +(?=[^ #]))*"
)


def _list(key: str, items: Iterable[str], indent: str) -> list[str]:
    rows = [f"{indent}- {_text(item)}" for item in items]
    return [f"{indent}{key}:", *rows] if rows else []


def _place(item: PipLocked) -> str:
    url = index_url(item.url)
    return f"{_DIRECT}{url}" if item.direct else url


def _conda_row(package: LockedPackage, purls: tuple[str, ...]) -> Iterator[str]:
    """A record: pixi reads out of the file's name what is not written here."""
    yield f"- conda: {_text(strip_credentials(package.url))}"
    found = None if _TRAILING.search(package.build) else _NUMBER.search(package.build)
    number = int(found[1] or found[2]) if found else 0
    if number:
        yield f"  build_number: {number}"
    on_python = any(text.split(" ", 1)[0] == "python" for text in package.depends)
    if package.subdir == "noarch" and "py" not in package.build and on_python:
        yield "  noarch: python"
    for kind, value in (("sha256", package.sha256), ("md5", package.md5)):
        if value:
            yield f"  {kind}: {_text(value)}"
    yield from _list("depends", package.depends, "  ")
    yield from _list("constrains", package.constrains, "  ")
    yield from _list("purls", purls, "  ") or ["  purls: []"]
    if package.size:
        yield f"  size: {package.size}"
    if package.name == "python" and _FREE_THREADING.search(package.build):
        yield f"  python_site_packages_path: lib/python{'.'.join(package.version.split('.')[:2])}t/site-packages"


def _purls(package: LockedPackage, names: Mapping[str, str], by_pip: set[str]) -> tuple[str, ...]:
    """The distributions of PyPI that a conda package brings; not one that pip puts over it."""
    there = provided((package,), names)
    return tuple(f"pkg:pypi/{item.name}@{item.version}" for item in there if item.name not in by_pip)


def _pypi_row(
    place: str, item: PipLocked, answer: Solution, names: Mapping[str, str], indexes: tuple[str, ...]
) -> Iterator[str]:
    yield f"- pypi: {_text(place)}"
    yield f"  name: {_text(item.name)}"
    yield f"  version: {_text(item.version)}"
    if item.sha256:
        yield f"  sha256: {_text(item.sha256)}"
    there = {one.name for one in answer.pip} | {one.name for one in provided(answer.packages, names)}
    yield from _list("requires_dist", (text for text in item.depends if requirement_name(text) in there), "  ")
    if not item.direct and indexes:
        yield f"  index: {_text(indexes[0])}"
