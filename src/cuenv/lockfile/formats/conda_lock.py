"""``conda-lock.yml``, version 1 (CEP 37): read by conda-lock, micromamba and conda-lockfiles.

Two things that the format has no place for are kept in ``custom_metadata``, per platform: the virtual packages that
the solver was told of, and the solver. A requirement keeps its build (``2.5.1 cuda*``), which conda-lock drops.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from cuenv.core.errors import InputError
from cuenv.core.reading import Faults, Reader, describe, md5_hash, sha256_hash, sha256_of
from cuenv.core.regex import regex
from cuenv.core.urls import index_url, short_channel, strip_credentials
from cuenv.core.yaml_read import load
from cuenv.core.yaml_write import quote
from cuenv.host.facts import VirtualPackage
from cuenv.lockfile.formats import ASIDE, LockedFile, LockFormat, LockReader, aside_record, recorded_aside
from cuenv.solve.environment_spec import EnvironmentSpec, Pin, check_platform, requirement_name, together
from cuenv.solve.match_spec import parse_spec, split_name
from cuenv.solve.model import CREATED_BY, Lock, LockedPackage, PipLocked, SetAside, Solution, parse_package_url

_TIMESTAMP = 1577854800000  # the first of January 2020; conda-lock gives it to every virtual package
_ANACONDA = frozenset({"pkgs/main", "pkgs/r", "pkgs/msys2"})
_REQUIREMENT = regex(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^\]]*)\])?\s*([<>=!~][^;@]*)?")


def content_hash(spec: EnvironmentSpec, platform: str, virtual_packages: tuple[VirtualPackage, ...]) -> str:
    """The hash of one platform, as hex.

    Args:
        virtual_packages: those that conda-lock would read from a ``virtual-packages.yml``.
    """
    conda = {pin.name: _conda(pin) for pin in spec.pins}
    if spec.pip:
        conda["pip"] = _row("pip", "conda", "*")
    pip = {row["name"]: row for row in map(_pip_input, spec.pip)}
    content = {
        "channels": [
            json.dumps({"url": url, "used_env_vars": []}, separators=(",", ":"), ensure_ascii=False)
            for url in map(strip_credentials, spec.channels)
            if url != "nodefaults"
        ],
        "specs": sorted([*conda.values(), *pip.values()], key=lambda row: (row["manager"], row["name"])),
        "virtual_package_hash": {
            "noarch": {"info": {"subdir": "noarch"}, "packages": {}},
            platform: {
                "info": {"subdir": platform},
                "packages": dict(_virtual(package, platform) for package in virtual_packages),
            },
        },
    }
    return sha256_of(json.dumps(content, sort_keys=True).encode())


def _row(name: str, manager: str, version: str, **more: Any) -> dict[str, Any]:
    row = {"name": name, "manager": manager, "category": "main", "extras": [], "version": version}
    return {**row, "build": None, "conda_channel": None, "hash": None, **more}


def _conda(pin: Pin) -> dict[str, Any]:
    """What conda's own reader makes of `Pin.yaml_text`."""
    version = pin.version
    if "[" not in pin.yaml_text():
        version = version.removeprefix("==")
        bare = version and version[0] not in "<>=!~" and not set(version) & set("*,|")
        if pin.build:
            version = version or "*"
        elif bare and version == pin.version:
            version += ".*"
    return _row(pin.name, "conda", version, build=pin.build or None, conda_channel=_channel(pin.channel))


def _channel(text: str) -> str | None:
    """The canonical name of a channel: its path, whatever the host; Anaconda's own are ``defaults``."""
    name = strip_credentials(text).rstrip("/")
    name = name.partition("://")[2].partition("/")[2] if "://" in name else name
    return "defaults" if name in _ANACONDA else name or None


def _pip_input(requirement: str) -> dict[str, Any]:
    text, _, digest = requirement.partition(" --hash=")
    found = _REQUIREMENT.fullmatch(text.strip())
    if not found:
        return _row(requirement, "pip", "*")
    parts = sorted(part.replace(" ", "") for part in (found[3] or "").split(",") if part.strip())
    extras = sorted({extra.strip() for extra in (found[2] or "").split(",")} - {""})
    name = re.sub(r"[-_.]+", "-", found[1]).lower()
    return _row(name, "pip", ",".join(parts) or "*", extras=extras, hash=digest or None)


def _virtual(package: VirtualPackage, platform: str) -> tuple[str, dict[str, Any]]:
    """The record of a virtual package in conda-lock's imitation of a channel, by its file name."""
    name_of_build = "" if package.build == "0" else package.build
    build = f"{name_of_build}_0" if name_of_build else "0"
    return f"{package.name}-{package.version}-{build}.tar.bz2", {
        "name": package.name,
        "version": package.version,
        "build_string": name_of_build,
        "build_number": 0,
        "build": build,
        "noarch": "",
        "depends": [],
        "timestamp": _TIMESTAMP,
        "package_type": "virtual_system",
        "subdir": platform,
    }


VIRTUAL = "cuenv_virtual_packages_"
SOLVER = "cuenv_solver_"  # keys of ``custom_metadata``, followed by the platform


def parse(text: str, source: str) -> Lock:
    """Read a lock that cuenv or conda-lock wrote.

    A requirement comes back as ``name constraint``, in the order of the names; ``size`` and ``constrains`` are not in
    the format.

    Raises:
        InputError: all faults of the file at once, each with its place.
    """
    faults = Faults(source)
    data = load(text, source)
    if data is None:
        faults.add("", "the file is empty")
        faults.check(hint="cuenv lock")
    lock = _LockParser(Reader(data, faults), faults).lock()
    faults.check(hint="cuenv lock")
    return lock


class _LockParser:
    """Reads one document, and collects its faults."""

    def __init__(self, reader: Reader, faults: Faults) -> None:
        self.reader = reader
        self.faults = faults
        self.packages: dict[str, dict[str, LockedPackage]] = {}
        self.pip: dict[str, dict[str, PipLocked]] = {}

    def lock(self) -> Lock:
        version = self.reader.get("version", int, 1)
        if version != 1:
            self.faults.add("version", f"expected 1, got {version}; this is another kind of lock")
        metadata = Reader(self.reader.raw("metadata"), self.faults, "metadata")
        channels = tuple(self._channels(metadata))
        platforms = metadata.parsed_list("platforms", check_platform, required=True)
        sources = metadata.texts("sources", required=True)
        custom = self._strings(metadata, "custom_metadata")
        self._strings(metadata, "content_hash", required=True)
        for key in ("time_metadata", "git_metadata", "inputs_metadata"):
            metadata.get(key, dict)
        metadata.done()
        self.packages = {platform: {} for platform in platforms}
        self.pip = {platform: {} for platform in platforms}
        for entry in self.reader.readers("package", required=True):
            self._package(entry)
        self.reader.done()
        solutions = tuple(self._solution(platform, custom) for platform in self.packages)
        return Lock(channels=channels, sources=sources, solutions=solutions, metadata=custom)

    def _channels(self, metadata: Reader) -> Iterable[str]:
        for index, item in enumerate(metadata.get("channels", list, required=True) or ()):
            if isinstance(item, str):
                yield short_channel(item)
                continue
            channel = Reader(item, self.faults, f"metadata.channels[{index}]")
            yield short_channel(channel.text("url"))
            channel.texts("used_env_vars")
            channel.done()

    def _strings(self, reader: Reader, key: str, *, required: bool = False) -> dict[str, str]:
        found = {}
        for name, value in (reader.get(key, dict, required=required) or {}).items():
            if type(name) is str and type(value) is str:
                found[name] = value
            else:
                place = f"{reader.at(key)}[{describe(name)}]"
                self.faults.add(place, f"expected a string for a string, got {describe(value)}")
        return found

    def _package(self, entry: Reader) -> None:
        name, version, platform = entry.text("name"), entry.text("version"), entry.text("platform")
        manager, url = entry.text("manager"), entry.text("url")
        depends = self._strings(entry, "dependencies")
        hashes = Reader(entry.raw("hash"), self.faults, entry.at("hash"))
        md5, sha256 = hashes.parsed("md5", md5_hash), hashes.parsed("sha256", sha256_hash)
        hashes.done()
        optional = entry.get("optional", bool, required=True)  # CEP 37 wants it; last, it shows an entry cut short
        category = entry.get("category", str) or "main"
        if optional and category == "main":
            category = "optional"  # whoever goes by that alone leaves it out
        for key, kind in (("build", str), ("source", dict)):
            entry.get(key, kind)
        entry.done()
        if manager in ("pip", "pypi"):
            if platform in self.pip:
                from cuenv.solve.environment_spec import normalise  # noqa: PLC0415 - most locks have no pip part

                clean = index_url(url)
                needs = tuple(_requirement(key, value) for key, value in depends.items())
                found = PipLocked(
                    name=normalise(name), version=version, url=clean, sha256=sha256, depends=needs, category=category
                )
                first = self.pip[platform].setdefault(found.name, found)
                self._same(first, found, platform, entry)
        elif manager != "conda":
            self.faults.add(entry.at("manager"), f"expected 'conda' or 'pip', got {describe(manager)}")
        elif platform not in self.packages:
            self.faults.add(entry.at("platform"), f"{describe(platform)} is not among metadata.platforms")
        elif not name.startswith("__"):
            try:
                needs = tuple(f"{key} {value}".strip() for key, value in depends.items())
                more = {"depends": needs, "md5": md5, "sha256": sha256, "category": category}
                package = _locked(name, version, url, platform, **more)
            except ValueError as error:
                self.faults.add(entry.at("url"), str(error))
                return
            self._add(package, platform, entry)

    def _add(self, package: LockedPackage, platform: str, entry: Reader) -> None:
        if not (package.md5 or package.sha256):
            self.faults.add(entry.at("hash"), "expected md5 or sha256, got neither")
        before = self.packages[platform].setdefault(package.name, package)
        self._same(before, package, platform, entry)

    def _same(
        self, first: LockedPackage | PipLocked, again: LockedPackage | PipLocked, platform: str, entry: Reader
    ) -> None:
        """conda-lock lists a package once for each of its categories; an installer may take any of them."""
        what = "two URLs" if first.url != again.url else "two versions" if first.version != again.version else ""
        if not what and _hashes(first) != _hashes(again):
            what = "two hashes"
        if what:
            self.faults.add(entry.path, f"{describe(again.name)} appears twice for {platform}, with {what}")

    def _solution(self, platform: str, custom: dict[str, str]) -> Solution:
        virtual = []
        for text in custom.pop(VIRTUAL + platform, "").split():
            name, version, build = (*text.split("="), "", "")[:3]
            virtual.append(VirtualPackage(name, version, build))
        aside, options = self._aside(custom, f"{ASIDE}_{platform}")
        return Solution(
            platform=platform,
            aside=aside,
            options=options,
            packages=tuple(package for _, package in sorted(self.packages[platform].items())),
            virtual_packages=tuple(virtual),
            solver=custom.pop(SOLVER + platform, ""),
            pip=tuple(package for _, package in sorted(self.pip[platform].items())),
        )

    def _aside(self, custom: dict[str, str], key: str) -> tuple[tuple[SetAside, ...], tuple[str, ...]]:
        try:
            return recorded_aside(custom.pop(key, "{}"))
        except ValueError as error:
            self.faults.add(f"metadata.custom_metadata.{key}", str(error))
            return (), ()


def _hashes(package: LockedPackage | PipLocked) -> tuple[str | None, str | None]:
    return package.md5 if isinstance(package, LockedPackage) else None, package.sha256


def _requirement(name: str, constraint: str) -> str:
    return f"{name}{'' if constraint[:1] in '<>=!~' else ' '}{'' if constraint == '*' else constraint}".strip()


def _locked(name: str, version: str, url: str, platform: str, **more: Any) -> LockedPackage:
    """A package with what more is known of it; the URL must be that of the package and the platform."""
    clean = strip_credentials(url)
    parts = parse_package_url(clean)
    if parts.name != name or parts.version.lower() != version.lower():
        wanted, found = f"{name} {version}", f"{parts.name} {parts.version}"
        raise ValueError(f"it is the URL of {describe(found)}, not of {describe(wanted)}")
    if parts.subdir not in (platform, "noarch"):
        raise ValueError(f"it is a package for {parts.subdir}, but locked for {platform}")
    return LockedPackage(
        name=name, version=version, build=parts.build, subdir=parts.subdir, channel=parts.channel, url=clean, **more
    )


_OWN = "# A lock written by cuenv"
"""How every lock of ours begins."""
_HEAD = """\
# A lock written by cuenv: exact packages with their hashes. Do not edit it; change the environment file and lock again.
# Install it with one of
#   micromamba create -n NAME -f conda-lock.yml
#   conda-lock install -n NAME conda-lock.yml
"""


def render(lock: Lock, spec: EnvironmentSpec) -> str:
    """Write the lock: the same bytes for the same values.

    Args:
        lock: what was solved; ``created_by`` in its metadata names the writer.
        spec: the environment file that was locked, for the content hash.

    Raises:
        InputError: a package without md5, which conda-lock refuses.
    """
    solutions = sorted(lock.solutions, key=lambda solution: solution.platform)
    _refuse_without_md5(solutions)
    hashes = {item.platform: content_hash(spec, item.platform, item.virtual_packages) for item in solutions}
    entries = [
        (one.name, item.platform, "", _package(one, item.platform)) for item in solutions for one in item.packages
    ]
    entries += [(one.name, item.platform, "pip", _pip(one, item.platform)) for item in solutions for one in item.pip]
    lines = [
        _HEAD + "version: 1",
        "metadata:",
        *_mapping("content_hash", hashes),
        *_list("channels", (f"url: {quote(strip_credentials(url))}\n      used_env_vars: []" for url in lock.channels)),
        *_list("platforms", (quote(item.platform) for item in solutions)),
        *_list("sources", map(quote, lock.sources)),
        *_mapping("custom_metadata", _metadata(lock, solutions)),
        "package:" if entries else "package: []",
    ]
    for _, _, _, text in sorted(entries, key=lambda entry: entry[:3]):
        lines += text
    return "\n".join(lines) + "\n"


def _refuse_without_md5(solutions: Iterable[Solution]) -> None:
    names = sorted({package.name for item in solutions for package in item.packages if not package.md5})
    if names:
        raise InputError(
            f"conda-lock.yml needs an md5 for {len(names)} packages, but their channel has only sha256: "
            + ", ".join(names),
            hint="the explicit file conda-<platform>.lock can contain them",
        )


def _metadata(lock: Lock, solutions: Iterable[Solution]) -> dict[str, str]:
    found = {"created_by": CREATED_BY, **lock.metadata}
    for item in solutions:
        found[VIRTUAL + item.platform] = " ".join(map(str, item.virtual_packages))
        found[SOLVER + item.platform] = item.solver
        if item.aside:
            found[f"{ASIDE}_{item.platform}"] = aside_record(item)
    return dict(sorted(found.items()))


def _mapping(key: str, items: Mapping[str, str]) -> list[str]:
    rows = [f"    {quote(name)}: {quote(value)}" for name, value in items.items()]
    return [f"  {key}:", *rows] if rows else [f"  {key}: {{}}"]


def _list(key: str, items: Iterable[str]) -> list[str]:
    rows = [f"    - {item}" for item in items]
    return [f"  {key}:", *rows] if rows else [f"  {key}: []"]


def _package(package: LockedPackage, platform: str) -> list[str]:
    hashes = {"md5": package.md5, "sha256": package.sha256}
    return [
        f"- name: {quote(package.name)}",
        f"  version: {quote(package.version)}",
        '  manager: "conda"',
        f"  platform: {quote(platform)}",
        *_mapping("dependencies", _dependencies(package.depends)),
        f"  url: {quote(strip_credentials(package.url))}",
        "  hash:",
        *(f"    {kind}: {quote(value)}" for kind, value in hashes.items() if value),
        '  category: "main"',
        "  optional: false",
    ]


def _pip(package: PipLocked, platform: str) -> list[str]:
    depends = {name: text[len(name) :].strip() or "*" for text in package.depends for name in (requirement_name(text),)}
    return [
        f"- name: {quote(package.name)}",
        f"  version: {quote(package.version)}",
        '  manager: "pip"',
        f"  platform: {quote(platform)}",
        *_mapping("dependencies", depends),
        f"  url: {quote(index_url(package.url))}",
        *(["  hash:", f"    sha256: {quote(package.sha256)}"] if package.sha256 else ["  hash: {}"]),
        '  category: "main"',
        "  optional: false",
    ]


def _dependencies(depends: Iterable[str]) -> dict[str, str]:
    """Requirements by name, as the record words them; several on one name become one that holds all."""
    grouped: dict[str, dict[str, None]] = {}
    for text in depends:
        name, rest = split_name(text)
        grouped.setdefault(name, {})[rest] = None
    return {name: _join(name, [text for text in texts if text]) for name, texts in sorted(grouped.items())}


def _join(name: str, constraints: list[str]) -> str:
    if len(constraints) < 2:
        return "".join(constraints)
    try:
        pins = [parse_spec(f"{name} {text}") for text in constraints]
    except ValueError:
        return constraints[-1]  # a record that conda itself cannot read; conda-lock keeps the last one
    version = together(pin.condition() for pin in pins) or "*"
    builds = [pin.build for pin in pins if pin.build]
    return f"{version} {builds[-1]}" if builds else version


def _write(file: LockedFile) -> str:
    return render(file.lock, file.spec)


def _install(file: LockedFile) -> Iterable[tuple[str, str]]:
    path = shlex.quote(str(FORMAT.path(file.folder, file.solution.platform)))
    yield "cuenv", f"cuenv install{'' if path == FORMAT.file else f' {path}'} -n {file.name}"
    yield "micromamba", f"micromamba create -n {file.name} -f {path}"
    yield "conda-lock", f"conda-lock install -n {file.name} {path}"


FORMAT = LockFormat(
    file="conda-lock.yml",
    order=1,
    purpose="for micromamba, conda-lock, cuenv check",
    write=_write,
    install=_install,
    own=_OWN,
)
READER = LockReader(
    file=FORMAT.file,
    content=regex(r"(?m)^(version: 1|package:)\s*$[\s\S]*^metadata:|^metadata:[\s\S]*^package:"),
    read=lambda text, source, _: parse(text, source),
    lint=regex(r"(.*[.-])?conda-lock\.ya?ml"),
)
