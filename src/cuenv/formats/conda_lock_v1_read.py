"""Reading ``conda-lock.yml``, version 1 (CEP 37), as cuenv and conda-lock write it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from cuenv.facts import VirtualPackage
from cuenv.formats.package_url import parse_package_url
from cuenv.formats.yaml_read import load
from cuenv.lockfile import Lock, LockedPackage, PipLocked, Solution
from cuenv.reading import Faults, Reader, describe
from cuenv.urls import index_url, short_channel, strip_credentials

VIRTUAL = "cuenv_virtual_packages_"
SOLVER = "cuenv_solver_"
"""Keys of ``custom_metadata``, followed by the platform."""

_PLATFORM = re.compile(r"[a-z]+-[a-z0-9_]+")
_MD5 = re.compile(r"[0-9a-f]{32}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def parse(text: str, source: str) -> Lock:
    """Read a lock that cuenv or conda-lock wrote.

    A requirement comes back as ``name constraint``, in the order of the names; ``size`` and ``constrains`` are not in
    the format.

    Args:
        text: the file.
        source: its name, for errors.

    Raises:
        InputError: all faults of the file at once, each with its place.
    """
    faults = Faults(source)
    data = load(text, source)
    if data is None:
        faults.add("", "the file is empty")
        faults.check(hint="cuenv lock")
    lock = _Parse(Reader(data, faults), faults).lock()
    faults.check(hint="cuenv lock")
    return lock


class _Parse:
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
        platforms = metadata.parsed_list("platforms", _platform, required=True)
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
        md5, sha256 = hashes.parsed("md5", _md5), hashes.parsed("sha256", _sha256)
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
                from cuenv.pip_part import normalise  # noqa: PLC0415 - most locks have no pip part

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
                package = _locked(name, version, url, platform, depends)
            except ValueError as error:
                self.faults.add(entry.at("url"), str(error))
                return
            self._add(replace(package, md5=md5, sha256=sha256, category=category), platform, entry)

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
            self.faults.add(entry.path, f"{describe(again.name)} stands twice for {platform}, with {what}")

    def _solution(self, platform: str, custom: dict[str, str]) -> Solution:
        virtual = []
        for text in custom.pop(VIRTUAL + platform, "").split():
            name, version, build = (*text.split("="), "", "")[:3]
            virtual.append(VirtualPackage(name, version, build))
        return Solution(
            platform=platform,
            packages=tuple(package for _, package in sorted(self.packages[platform].items())),
            virtual_packages=tuple(virtual),
            solver=custom.pop(SOLVER + platform, ""),
            pip=tuple(package for _, package in sorted(self.pip[platform].items())),
        )


def _hashes(package: LockedPackage | PipLocked) -> tuple[str | None, str | None]:
    return package.md5 if isinstance(package, LockedPackage) else None, package.sha256


def _requirement(name: str, constraint: str) -> str:
    return f"{name}{'' if constraint[:1] in '<>=!~' else ' '}{'' if constraint == '*' else constraint}".strip()


def _locked(name: str, version: str, url: str, platform: str, depends: Mapping[str, str]) -> LockedPackage:
    """A package without its hashes; the URL must be that of the package and the platform."""
    clean = strip_credentials(url)
    parts = parse_package_url(clean)
    if parts.name != name or parts.version.lower() != version.lower():
        wanted, found = f"{name} {version}", f"{parts.name} {parts.version}"
        raise ValueError(f"it is the URL of {describe(found)}, not of {describe(wanted)}")
    if parts.subdir not in (platform, "noarch"):
        raise ValueError(f"it is a package for {parts.subdir}, locked for {platform}")
    return LockedPackage(
        name=name,
        version=version,
        build=parts.build,
        subdir=parts.subdir,
        channel=parts.channel,
        url=clean,
        md5=None,
        sha256=None,
        depends=tuple(f"{key} {value}".strip() for key, value in depends.items()),
    )


def _platform(text: str) -> str:
    if not _PLATFORM.fullmatch(text):
        raise ValueError(f"expected a platform such as linux-64, got {describe(text)}")
    return text


def _md5(text: str) -> str:
    if not _MD5.fullmatch(text):
        raise ValueError(f"expected 32 hexadecimal digits, got {describe(text)}")
    return text


def _sha256(text: str) -> str:
    if not _SHA256.fullmatch(text):
        raise ValueError(f"expected 64 hexadecimal digits, got {describe(text)}")
    return text
