"""The environment as a value: pins with their reasons, ready for ``environment.yml`` and for the solver."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import product

from cuenv.core.reading import describe
from cuenv.core.record import dataclass, field
from cuenv.core.regex import regex
from cuenv.core.urls import short_channel

LISTS = (".txt", ".in")  # how the name of a list of requirements for pip ends
WRITTEN_BY = "# Written by cuenv"
"""How a file of ours begins: such a one may be written anew, any other is kept aside or left alone."""
ADVICE = "Add a package: cuenv resolve --with PACKAGE, which stays when this file is written again, or a line below."
"""How to change an environment file of ours."""
NVCC = ("cuda-nvcc", "cuda-toolkit", "cuda-compiler", "cuda", "cudatoolkit-dev")
"""Packages that bring nvcc, with the headers that it needs."""
RELEASE = regex(r"={0,2}(\d+(?:\.\d+)*)(?:\.\*)?")
"""The version of a pin that names one release, or one series of releases."""

NUMBERS = regex(r"\d+(?:\.\d+)*")  # the numbers of a release, wherever they stand

_NAME = regex(r"[^/ :#]+")
_PLATFORM = regex(r"(linux|osx|win|freebsd|emscripten|wasi|zos)-[a-z0-9_]+")
_SHORT = regex(r"[0-9]+(\.[0-9]+)?")


def normalise(name: str) -> str:
    """The name of a distribution as PyPI compares it: lower case, runs of ``-``, ``_`` and ``.`` are one ``-``."""
    return re.sub(r"[-_.]+", "-", name).lower()


def requirement_name(text: str) -> str:
    """The normalised name at the beginning of a requirement of pip; empty when there is none."""
    found = re.match(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", text.strip())
    return normalise(found[0]) if found else ""


_INDEX = regex(r"\s*(-i|--index-url|--extra-index-url|-f|--find-links)(?:=|\s+)(\S+)\s*")


def index_option(text: str) -> tuple[str, str] | None:
    """An option of pip that names an index or a page of files, and its place; ``None`` for another line."""
    found = _INDEX.fullmatch(text)
    return (found[1], found[2]) if found else None


def names_index(text: str) -> bool:
    """Whether a line of a pip part is an option with an index or a page of files that has a URL."""
    option = index_option(text)
    return option is not None and option[1].startswith(("https://", "http://"))


def check_name(text: str) -> str:
    """The name of an environment, as conda takes it.

    Raises:
        ValueError: it is none.
    """
    if not _NAME.fullmatch(text) or not text.isprintable():
        raise ValueError(f"expected a name without '/', ' ', ':' and '#', got {describe(text)}")
    return text


def check_platform(text: str) -> str:
    """A platform as it is written.

    Raises:
        ValueError: conda has none of such a name.
    """
    if not _PLATFORM.fullmatch(text):
        raise ValueError(f"expected a platform such as linux-64, got {describe(text)}")
    return text


def together(conditions: Iterable[str]) -> str:
    """One condition on the version that demands all of several; empty ones demand nothing.

    ``|`` binds weaker than ``,``: what is demanded besides must hold in each of the alternatives.
    """
    alternatives = [condition.split("|") for condition in dict.fromkeys(conditions) if condition]
    return "|".join(",".join(dict.fromkeys(",".join(terms).split(","))) for terms in product(*alternatives))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One requirement on a conda package."""

    name: str
    # in the subset that conda, micromamba and conda-lock read alike: ``2.7.1``, ``2.7.*``, ``>=9,<9.11``; empty for
    # any. As in the file, a bare release is exact beside a build (``=2.7.1=cuda*``) and a prefix without one (``=3.12``
    # is 3.12.*; ``==3.12`` is exact)
    version: str = ""
    build: str = ""  # glob over the build string; empty for any
    channel: str = ""  # the channel it must come from (``nvidia/label/cuda-11.8.0``); empty for any
    why: tuple[str, ...] = ()  # the reasons, one sentence each, for the comment above it
    role: str = ""  # which of the four roles it fills; empty for none

    def yaml_text(self) -> str:
        """As it stands in ``environment.yml``: ``conda-forge::pytorch=2.7.1=cuda129*``."""
        head = f"{self.channel}::{self.name}" if self.channel else self.name
        several = "," in self.version or "|" in self.version
        if self.build:
            exact = self.version.removeprefix("==")
            if several or exact[:1] in tuple("<>=!~"):
                # Only brackets hold a range and a build in a way that all clients read alike.
                return f"{head}[version='{self.version}',build='{self.build}']"
            return f"{head}={exact or '*'}={self.build}"
        if not self.version:
            return head
        if self.version[0] in "<>=!~":
            return f"{head}{self.version}"
        return f"{head} {self.version}" if several else f"{head}={self.version}"

    @property
    def ambiguous(self) -> bool:
        """Whether ``yaml_text`` is an exact version to conda and a prefix to some clients: ``pytorch=2.7=cuda*``."""
        return "*" in self.build and _SHORT.fullmatch(self.version.removeprefix("==")) is not None

    def exact_text(self) -> str:
        """As ``yaml_text``, with a version that is exact to every client: ``pytorch==2.7=cuda*``."""
        return self.yaml_text().replace(f"{self.name}=", f"{self.name}==", 1) if self.ambiguous else self.yaml_text()

    def condition(self) -> str:
        """The version as a strict condition that means the same: ``==2.7.1``, ``3.12.*``; empty for any."""
        if self.version in ("", "*"):
            return ""
        bare = self.version[0] not in "<>=!~" and not any(mark in self.version for mark in "*,|")
        if not bare:
            return self.version
        # In environment.yml `name=3.12` is the prefix 3.12.*; `name=2.7.1=build` is exact.
        return f"=={self.version}" if self.build else f"{self.version}.*"

    def match_spec(self) -> str:
        """As a strict match spec for the solver: ``conda-forge::pytorch[version='==2.7.1',build='cuda129*']``."""
        head = f"{self.channel}::{self.name}" if self.channel else self.name
        parts = (("version", self.condition()), ("build", self.build))
        inner = ",".join(f"{key}='{value}'" for key, value in parts if value)
        return f"{head}[{inner}]" if inner else head


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentSpec:
    """What goes into ``environment.yml``."""

    name: str
    channels: tuple[str, ...]  # in order of priority, strict
    pins: tuple[Pin, ...]
    platforms: tuple[str, ...] = ()
    pip: tuple[str, ...] = ()  # the lines of the pip part, with those of the lists that it names in their place
    constraints: tuple[str, ...] = ()  # conditions on what pip installs, of the lists that it names
    # the lines that name those lists (``-c FILE``), for who writes the environment again
    constrained: tuple[str, ...] = ()
    unread: tuple[tuple[str, str], ...] = ()  # lines that name a list that was not read, each with the reason
    listed: tuple[str, ...] = ()  # the pip part as it stands in the file, where it names lists; else empty
    # literals; conda stores them as they are and expands nothing
    variables: Mapping[str, str] = field(default_factory=dict)
    header: tuple[str, ...] = ()  # comment lines at the top: what was decided and why
    ours: bool = False  # whether cuenv wrote it, and so promises one channel for CUDA
    prefix: str = ""  # the folder of the environment that the file was exported from; empty for none
    nodefaults: bool = False  # whether the file forbids that conda adds its default channels
    # whether the name of the file says that it is for machines without a GPU: ``environment_cpu.yml``
    of_cpu: bool = False
    project: bool = False  # whether it stands for a Python project, which uv installs as well as pip

    def pin(self, name: str) -> Pin | None:
        """The pin of a package."""
        return next((pin for pin in self.pins if pin.name == name), None)

    @property
    def for_pip_alone(self) -> bool:
        """Whether conda brings Python and pip alone: all else is a list of requirements."""
        return bool(self.pip) and {pin.name for pin in self.pins} <= {"python", "pip"} and not self.variables

    @property
    def reached(self) -> tuple[str, ...]:
        """The channels that conda reads for the file: those that it lists, else the default ones, and `with_named`."""
        return with_named(self.channels or ("defaults",), self.pins)


def with_named(channels: Sequence[str], pins: Iterable[Pin]) -> tuple[str, ...]:
    """Channels, and behind them those that single pins name: conda adds them for all packages."""
    listed = set(map(short_channel, channels))
    named = (pin.channel for pin in pins if pin.channel and short_channel(pin.channel) not in listed)
    return (*channels, *dict.fromkeys(named))
