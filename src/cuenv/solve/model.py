"""A solved environment, and the lock that keeps it: the product of ``cuenv lock``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from packaging.version import Version

from cuenv.core.findings import Finding
from cuenv.core.reading import sha256_of
from cuenv.core.record import dataclass, field
from cuenv.core.regex import VARIABLE, regex
from cuenv.core.urls import short_channel
from cuenv.core.versions import version
from cuenv.host.facts import VirtualPackage
from cuenv.solve.environment_spec import EnvironmentSpec, Pin

_GLIBC = regex(r"__glibc\b.*?>=\s*([0-9]{1,4}(?:\.[0-9]{1,4})*)")
_CUDA_WORD = regex(r"(?<!no)(cuda|gpu)|(?:^|_)(cu)(?=\d{2,3}(?:_|$))")
_CPU_WORD = regex(r"(?:^|[_*])cpu")
_WHEEL = regex(r"(manylinux(?:_\d{1,3}_\d{1,3}|1|2010|2014))_\w+?(?=[.-]|$)")
_LEGACY = {"manylinux1": "2.5", "manylinux2010": "2.12", "manylinux2014": "2.17"}

CREATED_BY = "cuenv"
_BUILD_CUDA = regex(r"cuda_?(\d{2})(\d)(?!\d)|cuda(\d{2})\.(\d)")


def build_cuda(build: str) -> Version | None:
    """The CUDA release in a build string: ``cuda129_mkl_...`` or ``py3.10_cuda11.8_cudnn8.7.0_0``."""
    found = _BUILD_CUDA.search(build)
    if not found:
        return None
    major, small = (found[1], found[2]) if found[1] else (found[3], found[4])
    return version(f"{major}.{small}")


def names_cuda(build: str) -> str:
    """The word by which a build string says that it is a CUDA build: ``cuda``, ``gpu`` or ``cu``; else empty."""
    found = _CUDA_WORD.search(build)
    return found[1] or found[2] if found else ""


def names_cpu(build: str) -> bool:
    """Whether a build string, or a pattern of one, is of a CPU build: ``cpu_py312_0``, ``h0_0_cpu``, ``*cpu*``."""
    return _CPU_WORD.search(build) is not None and not names_cuda(build)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedPackage:
    """One conda package, exactly."""

    name: str
    version: str
    build: str
    subdir: str
    # base of its URL without subdir, canonical and without credentials (``https://conda.anaconda.org/conda-forge``)
    channel: str
    url: str
    md5: str | None
    sha256: str | None
    size: int | None = None  # bytes of the archive; ``None`` when the channel does not say
    depends: tuple[str, ...] = ()  # dependency specs as the record has them, build strings included
    constrains: tuple[str, ...] = ()  # the record's ``constrains``; a lock file of version 1 cannot carry them
    # in a lock of conda-lock's, where installers leave some out (``dev``); always ``main`` in ours
    category: str = "main"

    @property
    def channel_name(self) -> str:
        """The channel as people write it: ``conda-forge``, ``nvidia/label/cuda-11.8.0``."""
        return short_channel(self.channel)

    @property
    def glibc(self) -> Version | None:
        """The lowest glibc that its record asks for; ``None`` where it asks for none."""
        asked = [version(found[1]) for text in self.depends if (found := _GLIBC.match(text))]
        return max(asked, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipLocked:
    """One package that pip installs over the conda part, exactly."""

    name: str  # normalised as PyPI does it: ``huggingface-hub``
    version: str
    # of the one file that is installed; without credentials. A list of pins names an index, which ends with ``/``, or
    # nothing
    url: str
    sha256: str | None  # of that file; ``None`` when the lock that was read has none
    size: int | None = None  # bytes of the file; ``None`` when the index does not say
    # the day (UTC) of the upload of that file, right after the index was asked; empty where it tells none
    uploaded: str = ""
    direct: bool = False  # whether the requirement itself named the URL
    # what it requires on this platform, as ``name>=1,<2``, conda's packages included; sorted
    depends: tuple[str, ...] = ()
    category: str = "main"  # as of a conda package

    @property
    def from_source(self) -> bool:
        """Whether it is a source distribution, whose setup runs where it is installed; not where no file is named."""
        return bool(self.url) and not self.url.lower().endswith((".whl", "/"))

    @property
    def glibc(self) -> Version | None:
        """The lowest glibc that its wheel is for, by the file's name; ``None`` where that says nothing."""
        tags = _WHEEL.findall(self.url.rpartition("/")[2])
        oldest = (_LEGACY.get(tag) or tag.removeprefix("manylinux_").replace("_", ".") for tag in tags)
        return min(map(version, oldest), default=None)  # a file with several tags runs where one of them fits


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """A requirement of the pip part that is not locked: pip installs it after all else."""

    text: str  # as pip reads it, without credentials
    why: str  # the reason, a main clause
    # whether its setup needs torch, so that pip must build it in the environment (``--no-build-isolation``)
    build: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SolveRequest:
    """What is asked of the solver."""

    spec: EnvironmentSpec
    channels: tuple[str, ...]
    platform: str
    virtual_packages: tuple[VirtualPackage, ...]
    prefer: tuple[LockedPackage, ...] = ()  # packages of an existing lock that stay while they satisfy the rest
    frozen: tuple[LockedPackage, ...] = ()  # packages that may stand in the answer in no other version and build


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """What the solver answered for one platform, sorted by name."""

    platform: str
    packages: tuple[LockedPackage, ...] = ()
    virtual_packages: tuple[VirtualPackage, ...] = ()
    solver: str = ""
    pip: tuple[PipLocked, ...] = ()  # what pip adds to the conda packages, sorted by name
    aside: tuple[SetAside, ...] = ()  # what pip adds after that, and no hash pins
    options: tuple[str, ...] = ()  # where pip finds that, as a list of requirements says it: ``--extra-index-url URL``
    python: str = ""  # the Python that the packages for pip were chosen for, where no conda package brings one
    # packages, by name and version, whose records tell no day, where only builds of a day were asked for
    undated: tuple[str, ...] = ()
    # what is to be said of reading it: the part that was read, packages that have no file for it
    remarks: tuple[Finding, ...] = ()

    def package(self, name: str) -> LockedPackage | None:
        """The package of that name."""
        return next((package for package in self.packages if package.name == name), None)

    @property
    def glibcs(self) -> tuple[tuple[str, Version], ...]:
        """The packages of both parts that ask for a glibc, by name, each with the lowest that it takes."""
        asked = [(item.name, item.glibc) for item in self.packages] + [(item.name, item.glibc) for item in self.pip]
        return tuple((name, lowest) for name, lowest in asked if lowest)


Choice: TypeAlias = tuple[tuple[Pin, ...], ...]
"""Alternatives, what is wanted most first: of each the pins that it brings; none where nothing need be there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Solved:
    """What the solver answered, and the place of the alternative that it took of each choice."""

    solution: Solution
    taken: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsatisfiable:
    """No packages satisfy the requirements, and why the solver says so."""

    platform: str
    missing: tuple[str, ...]  # requirements of the environment that no record of the channels satisfies
    text: str  # the solver's own words, whole
    as_of: str = ""  # the day as of which the channels were read; empty for today


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """The lock of an environment for one or more platforms."""

    channels: tuple[str, ...]
    sources: tuple[str, ...]  # the environment files, relative to the lock
    solutions: tuple[Solution, ...]
    # string to string, kept in ``custom_metadata`` (CEP 37); keys of ours begin with ``cuenv_``
    metadata: Mapping[str, str] = field(default_factory=dict)
    # whose format it is, where it is neither conda-lock's nor an explicit file: ``uv``, ``pixi``, ``pip``
    program: str = ""
    part: str = ""  # what was read of a file that holds more, for people
    again: str = ""  # the command by which that program makes it anew

    @property
    def pip(self) -> tuple[str, ...]:
        """``name==version`` of what pip adds on any platform, sorted."""
        return tuple(sorted({f"{item.name}=={item.version}" for one in self.solutions for item in one.pip}))

    @property
    def allowed(self) -> frozenset[str]:
        """The codes of findings that ``--allow`` allowed when it was made."""
        return frozenset(self.metadata.get("cuenv_allowed", "").split())

    @property
    def variables(self) -> Mapping[str, str]:
        """What activation of the environment sets.

        Raises:
            ValueError: the record is not as cuenv writes it.
        """
        try:
            found = json.loads(self.metadata.get(VARIABLES, "{}"))
        except RecursionError as error:
            raise ValueError(f"{VARIABLES}: too deep") from error
        good = isinstance(found, dict) and all(
            VARIABLE.fullmatch(name) and isinstance(text, str) and text.isprintable() for name, text in found.items()
        )
        if not good:
            raise ValueError(f"{VARIABLES}: expected an object of printable texts by name of variable")
        return dict(found)

    def solution(self, platform: str) -> Solution | None:
        """The solution for a platform."""
        return next((item for item in self.solutions if item.platform == platform), None)


def digest(*parts: str) -> str:
    """SHA-256 over texts, with their lengths, as hex."""
    whole = [part.encode() for part in parts]
    return sha256_of(b"".join(b"%d:%b" % (len(data), data) for data in whole))


VARIABLES = "cuenv_variables"
"""The key of `Lock.metadata` that keeps the variables of the environment file, which the format has no place for."""
OF_CPU = "cuenv_of_cpu"
"""The key of `Lock.metadata` under which the packages stand whose CPU builds the environment file asks for."""
AS_OF = "cuenv_as_of"  # the key of `Lock.metadata` that keeps the day as of which channels and indexes were read
_LEAST = ("cuenv_minimum_", "cuenv_served_")
"""How the keys of `Lock.metadata` begin that say which hosts a lock runs on."""


def content_digest(solutions: Sequence[Solution], metadata: Mapping[str, str] | None = None) -> str:
    """Digest over what is locked, by which a later edit by hand is seen.

    Args:
        metadata: of the lock; what it says of the least host and of variables counts as well.
    """
    rows = [
        [solution.platform, package.url, package.md5 or "", package.sha256 or ""]
        for solution in solutions
        for package in solution.packages
    ]
    by_pip = [(item.platform, pip) for item in solutions for pip in item.pip]
    rows += [["pip", platform, pip.name, pip.version, pip.url, pip.sha256 or ""] for platform, pip in by_pip]
    rows += [["aside", item.platform, one.text, str(one.build)] for item in solutions for one in item.aside]
    rows += [["aside", item.platform, text] for item in solutions for text in item.options]
    # every installer takes all of ours: a category is only ever written into a lock by hand
    categories = [(item.platform, one.url, one.category) for item in solutions for one in item.packages]
    categories += [(platform, one.url, one.category) for platform, one in by_pip]
    rows += [["category", *one] for one in categories if one[2] != "main"]
    counted = (*_LEAST, VARIABLES, AS_OF, OF_CPU)
    rows += [["host", name, text] for name, text in (metadata or {}).items() if name.startswith(counted)]
    return digest(json.dumps(sorted(rows)))


_URL = regex(r"([a-z][a-z0-9+.-]*://[^\s#]+|/[^\s#]+)/([a-z0-9_-]+)/([^/\s#]+?)(\.conda|\.tar\.bz2)")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageUrl:
    """The parts of a package's URL."""

    channel: str  # everything before the subdir
    subdir: str
    name: str
    version: str
    build: str


def parse_package_url(url: str) -> PackageUrl:
    """Read ``CHANNEL/SUBDIR/NAME-VERSION-BUILD.conda`` (or ``.tar.bz2``).

    Raises:
        ValueError: the text has another form.
    """
    found = _URL.fullmatch(url) if url.isprintable() else None
    parts = _decoded(found[3]).rsplit("-", 2) if found else []
    if not found or len(parts) != 3 or not all(parts):
        raise ValueError(f"expected the URL of a package, .../SUBDIR/NAME-VERSION-BUILD.conda, got {ascii(url)[:200]}")
    name, version, build = parts
    return PackageUrl(channel=found[1], subdir=found[2], name=name, version=version, build=build)


def _decoded(text: str) -> str:
    if "%" not in text:
        return text
    from urllib.parse import unquote  # noqa: PLC0415 - few URLs need it

    return unquote(text)
