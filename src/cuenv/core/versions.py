"""Versions and the arithmetic of compute capabilities.

Sources: CUDA C++ Programming Guide (binary compatibility, architecture-specific and family-specific
features) and the compatibility table in torch/cuda/__init__.py of torch 2.11 to 2.15 for Tegra chips.

The values here are named tuples: they are compared and hashed by the ten thousand, and every command makes the classes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from packaging.version import InvalidVersion, Version

from cuenv.core.errors import UsageError
from cuenv.core.reading import describe
from cuenv.core.record import NamedTuple
from cuenv.core.regex import regex

if TYPE_CHECKING:  # it takes 15 ms
    from packaging.specifiers import SpecifierSet

_CAPABILITY = regex(r"([1-9]\d?)\.(\d)", re.ASCII)
_TARGET = regex(r"([1-9]\d?\.\d)([af]?)", re.ASCII)
_DRIVER = regex(r"\d{3,4}(\.\d{1,4}){0,3}", re.ASCII)
_CUDA_TAG = regex(r"cu(\d{1,2})(\d)")
_CUDA_SUFFIX = regex(r"\+cu(\d{1,2})(\d)$", re.ASCII)  # the CUDA release in the version of a PyTorch wheel: ``+cu121``
_NICKNAME = regex(
    r"(?:v(?P<plain>\d+(?:\.\d+)*)|cu(?:da)?[-_]?(?P<cuda>\d\d)\.?(?P<minor>\d?)"
    r"|(?:py|cp|python)[-_]?(?P<python>\d)\.?(?P<second>\d{0,2}))",
    re.IGNORECASE,
)
"""Other notations of releases in wheels, indexes and folders: v2.5, cu121, py312."""
_PREFIX = regex(r"=?\s*(\d+(?:\.\d+)*)(?:\.\*)?", re.ASCII)
_MOST_CHARACTERS = 200


class Capability(NamedTuple):
    """A compute capability ``major.minor``, such as 8.6."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    @staticmethod
    @lru_cache(maxsize=256)
    def parse(text: str) -> Capability:
        """Read ``X.Y``.

        Raises:
            ValueError: the text has another form.
        """
        found = _CAPABILITY.fullmatch(text)
        if not found:
            raise ValueError(f"expected 'X.Y', got {describe(text)}")
        return Capability(int(found[1]), int(found[2]))


# Compute capabilities of Tegra chips, on which desktop code of the same major version does not run (torch's own
# table, see the module docstring). 10.1 and 11.0 are one chip under two names (CUDA 12.8 and 13.0).
_TEGRA = frozenset(Capability.parse(text) for text in ("5.3", "6.2", "7.2", "8.7", "10.1"))
_THOR = frozenset({Capability(10, 1), Capability(11, 0)})


def is_tegra(capability: Capability) -> bool:
    """Whether a capability belongs to a Tegra chip (Jetson), which does not run desktop code of its major version."""
    return capability in _TEGRA


class Target(NamedTuple):
    """The target of compiled code: a capability, with ``a`` for exactly that one, ``f`` for its family, or nothing."""

    capability: Capability
    suffix: str = ""

    def __str__(self) -> str:
        return f"{self.capability}{self.suffix}"

    @staticmethod
    def parse(text: str) -> Target:
        """Read ``X.Y``, ``X.Ya`` or ``X.Yf``.

        Raises:
            ValueError: the text has another form.
        """
        found = _TARGET.fullmatch(text)
        if not found:
            raise ValueError(f"expected 'X.Y', 'X.Ya' or 'X.Yf', got {describe(text)}")
        return Target(Capability.parse(found[1]), found[2])

    def sass_runs_on(self, device: Capability) -> bool:
        """Whether machine code (a cubin) for this target runs on the device."""
        own = self.capability
        if own == device or (own in _THOR and device in _THOR):
            return True
        if self.suffix == "a" or own.major != device.major or device < own:
            return False
        return own not in _TEGRA and device not in _TEGRA

    def ptx_runs_on(self, device: Capability) -> bool:
        """Whether PTX for this target can be compiled for the device by a driver that knows its ISA."""
        if self.suffix:
            return self.sass_runs_on(device)
        return device >= self.capability


def target_for(device: Capability, able: Iterable[Capability]) -> Capability | None:
    """The target to compile for a device: the device itself, otherwise the nearest that runs on it."""
    return max((item for item in able if Target(item).sass_runs_on(device)), default=None)


class DeviceCode(NamedTuple):
    """The device code in a binary or in a whole build."""

    sass: tuple[Target, ...]  # targets with machine code
    ptx: tuple[Target, ...] = ()  # targets with PTX
    isa: Version | None = None  # the CUDA release of the PTX version; ``None`` without PTX


class Native(NamedTuple):
    """The device runs this machine code."""

    target: Target


class Jit(NamedTuple):
    """The driver compiles this PTX on first use, if it supports CUDA ``needs`` or later."""

    target: Target
    needs: Version | None


Support: TypeAlias = Native | Jit | None  # how code runs on a device; ``None`` if it does not


def support_of(code: DeviceCode, device: Capability) -> Support:
    """How code runs on a device: natively, by JIT, or not at all."""
    native = [target for target in code.sass if target.sass_runs_on(device)]
    if native:
        return Native(max(native))
    jit = [target for target in code.ptx if target.ptx_runs_on(device)]
    if jit:
        return Jit(max(jit), code.isa)
    return None


def parse_arch_list(text: str, isa: Version | None) -> DeviceCode:
    """Read the notation of ``TORCH_CUDA_ARCH_LIST``: ``8.0;8.6;9.0a+PTX``.

    Raises:
        ValueError: a part has another form.
    """
    sass: list[Target] = []
    ptx: list[Target] = []
    for part in text.replace(" ", ";").split(";"):
        if not part:
            continue
        target = Target.parse(part.removesuffix("+PTX"))
        sass.append(target)
        if part.endswith("+PTX"):
            ptx.append(target)
    return DeviceCode(sass=tuple(sass), ptx=tuple(ptx), isa=isa if ptx else None)


@lru_cache(maxsize=256)
def arch_list(code: DeviceCode) -> str:
    """Write the notation of ``TORCH_CUDA_ARCH_LIST``."""
    return ";".join(f"{target}+PTX" if target in code.ptx else str(target) for target in code.sass)


class _Release(Version):
    """A version that keeps its text, because sentences name the same releases again and again."""

    __slots__ = ("_text",)
    _text: str

    def __str__(self) -> str:
        try:
            return self._text
        except AttributeError:
            self._text = super().__str__()
            return self._text


@lru_cache(maxsize=2048)
def version(text: str) -> Version:
    """Read a version according to PEP 440.

    Raises:
        ValueError: the text is not a version.
    """
    try:
        return _Release(text)
    except InvalidVersion as error:
        raise ValueError(f"expected a version, got {describe(text)}") from error


def version_or_none(text: str | None) -> Version | None:
    """Read a version; ``None`` if the text is not a version."""
    try:
        return version(text) if text else None
    except ValueError:
        return None


def cuda_in_local(text: str) -> Version | None:
    """The CUDA release in the local part of a version of torch: 12.4 for ``2.5.1+cu124``; ``None`` without one."""
    found = _CUDA_SUFFIX.search(text)
    return version(f"{found[1]}.{found[2]}") if found else None


def within(release: Version, first: Version | None, below: Version | None) -> bool:
    """Whether a release is at least ``first`` and below ``below``; ``None`` is no bound."""
    return (first is None or release >= first) and (below is None or release < below)


def minor(of: Version) -> Version:
    """The ``X.Y`` of a version."""
    return version(f"{of.major}.{of.minor}")


def check_driver(text: str) -> str:
    """Return the text of a valid driver version such as 535.129.03.

    The text is kept, because ``packaging`` would turn 550.144.03 into 550.144.3.

    Raises:
        ValueError: the text is not a driver version.
    """
    if not _DRIVER.fullmatch(text):
        raise ValueError(f"expected a driver version such as 535.129.03, got {describe(text)}")
    return text


@lru_cache(maxsize=1024)
def driver_key(text: str) -> tuple[int, ...]:
    """A driver version as numbers, for comparison."""
    return tuple(int(part) for part in text.split("."))


def reaches(driver: str, lowest: str) -> bool | None:
    """Whether a driver is at least another; ``None`` if it is a branch with drivers on both sides."""
    have, need = driver_key(driver), driver_key(lowest)
    if len(have) < len(need) and have == need[: len(have)]:
        return None if any(need[len(have) :]) else True
    return have >= need


_CONDITION = regex(r"\s*(==|!=|>=|<=|>|<)\s*v?(\d+(?:\.\d+)*)(\.\*)?\s*", re.ASCII)
"""A condition of pip on plain releases; packaging reads all others (``~=``, ``===``, pre-releases)."""
_PlainCondition: TypeAlias = tuple[str, tuple[int, ...], bool]
"""An operator, the numbers of a release, and whether they are a prefix."""


@lru_cache(maxsize=1024)
def _parse_plain(condition: str) -> tuple[_PlainCondition, ...] | None:
    """The parts of a condition on plain releases; ``None`` if only packaging can read it."""
    found = [_CONDITION.fullmatch(part) for part in condition.split(",") if part.strip()]
    plain = [(part[1], tuple(map(int, part[2].split("."))), bool(part[3])) for part in found if part]
    if len(plain) < len(found) or any(prefix and how not in ("==", "!=") for how, _, prefix in plain):
        return None
    return tuple(plain)


@lru_cache(maxsize=512)
def _specifiers(condition: str) -> SpecifierSet:
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415 - 15 ms that most runs do not need

    return SpecifierSet(condition)


def satisfies(release: Version, condition: str) -> bool:
    """Whether a release satisfies a condition of pip, with pre-releases allowed.

    Raises:
        ValueError: the text is not such a condition.
    """
    plain = _parse_plain(condition)
    if plain is None or release.is_prerelease or release.is_postrelease or release.local or release.epoch:
        return _specifiers(condition).contains(release, prereleases=True)
    return all(_holds(release.release, *part) for part in plain)


def _holds(have: tuple[int, ...], how: str, named: tuple[int, ...], prefix: bool) -> bool:
    short = len(named) - len(have)
    mine = have + (0,) * short
    if prefix:
        return (mine[: len(named)] == named) is (how == "==")
    need = named + (0,) * -short
    if how in ("==", "!="):
        return (mine == need) is (how == "==")
    if how in (">=", "<="):
        return mine >= need if how == ">=" else mine <= need
    return mine > need if how == ">" else mine < need


def releases_named(condition: str) -> tuple[str, ...]:
    """The releases in a condition as they are written, prefixes with ``.*``.

    Raises:
        ValueError: the text is not such a condition.
    """
    plain = _parse_plain(condition)
    if plain is None:
        return tuple(item.version for item in _specifiers(condition))
    return tuple(f"{'.'.join(map(str, named))}{'.*' if prefix else ''}" for _, named, prefix in plain)


class VersionSpec(NamedTuple):
    """A requested version: a prefix (``2.5``), an exact version (``==2.5.1``) or a range."""

    text: str
    prefix: tuple[int, ...] | None

    def admits(self, candidate: Version) -> bool:
        """Whether the version satisfies the spec."""
        if self.prefix is not None:
            release = candidate.release + (0,) * len(self.prefix)
            return release[: len(self.prefix)] == self.prefix
        return satisfies(candidate, self.text)

    def __str__(self) -> str:
        return self.text


def _refuse_nicknames(text: str, what: str) -> None:
    """Refuse the notations of PyTorch's wheels and indexes, which are not versions of conda.

    Raises:
        UsageError: the text is such a notation; the hint has the right options.
    """
    release, mark, build = text.lstrip("=v ").partition("+")
    option = what if what.startswith("--") else f"--{what.rsplit(maxsplit=1)[-1]}"
    if mark:
        cuda = _CUDA_TAG.fullmatch(build)
        asked = f"--cuda {cuda[1]}.{cuda[2]}" if cuda else "--cpu" if build == "cpu" else ""
        says = f"which means {'CUDA ' + asked.split()[1] if cuda else 'a CPU build' if asked else 'another build'}"
        shown = repr(build)[1:-1]
        raise UsageError(
            f"{what}: {text!r} has the suffix +{shown} of PyTorch's own wheels, {says}; conda versions have no suffix",
            hint=" ".join(filter(None, ("cuenv resolve", option, release, asked))),
        )
    nick = _NICKNAME.fullmatch(text)
    if nick:
        parts = (nick["plain"], nick["cuda"], nick["minor"], nick["python"], nick["second"])
        meant = ".".join(filter(None, parts))
        message = f"{what}: {text!r} is not a version; did you mean {meant}?"
        raise UsageError(message, hint=f"cuenv resolve {option} {meant}")


def parse_version_spec(text: str, *, what: str) -> VersionSpec:
    """Read a version spec: ``2.5`` and ``2.5.*`` are prefixes, ``==2.5.1`` is exact, ``>=2.4,<2.6`` a range."""
    stripped = text.strip() if len(text) <= _MOST_CHARACTERS else ""  # int() refuses thousands of digits
    prefix = _PREFIX.fullmatch(stripped)
    if prefix:
        return VersionSpec(prefix[1], tuple(int(part) for part in prefix[1].split(".")))
    _refuse_nicknames(stripped, what)
    try:
        releases_named(stripped or "?")
    except ValueError as error:
        message = f"{what}: {text[:_MOST_CHARACTERS]!r} is not a version spec"
        hint = "write a prefix (2.5), an exact version (==2.5.1) or a range ('>=2.4,<2.6')"
        raise UsageError(message, hint=hint) from error
    return VersionSpec(stripped, None)
