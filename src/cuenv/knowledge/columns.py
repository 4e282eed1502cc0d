"""The columns of the tables: how each cell is read, strictly, and written back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from packaging.version import Version

from cuenv.core.reading import describe
from cuenv.core.versions import Capability, DeviceCode, arch_list, check_driver, parse_arch_list, version
from cuenv.knowledge.rows import NUMBERS, PLATFORMS, STACKS, Requirement

_KINDS = ("datacenter", "desktop-soc", "geforce", "jetson", "workstation")
_ROLES = ("cudatoolkit-dev", "cudnn", "nccl")


class _Needed:
    """The default of a column that has none."""


NEEDED = _Needed()


class CellError(ValueError):
    """A fault inside a cell, at an index such as ``[3]``."""

    def __init__(self, where: str, message: str) -> None:
        super().__init__(message)
        self.where = where


class Column(NamedTuple):
    """A column: its key in the file, its reader and writer, its default, and the field when that has another name."""

    key: str
    read: Callable[[Any], Any]
    write: Callable[[Any], Any]
    absent: Any = NEEDED
    named: str = ""

    @property
    def field(self) -> str:
        """The field of the row that the column fills."""
        return self.named or self.key


def _same(value: Any) -> Any:
    return value


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError(f"expected a string, got {describe(value)}")
    if not value or not value.isprintable():
        raise ValueError(f"expected printable text, got {describe(value)}")
    return value


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise ValueError(f"expected a whole number, got {describe(value)}")
    if not 0 <= value < 1_000_000:
        raise ValueError(f"expected a whole number from 0 to 999999, got {describe(value)}")
    return value


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError(f"expected true or false, got {describe(value)}")
    return value


def _parsed(parse: Callable[[str], Any], write: Callable[[Any], str] = str) -> Callable[[Any], Any]:
    @lru_cache(maxsize=1024)
    def once(text: str) -> Any:
        found = parse(text)
        if write(found) != text:  # "12.09" and " 12.9" would have more than one spelling
            raise ValueError(f"expected {write(found)!r}, got {describe(text)}")
        return found

    def read(value: Any) -> Any:
        return once(_text(value))

    return read


def _shaped(pattern: str, what: str) -> Callable[[Any], str]:
    shape = re.compile(pattern)

    def read(value: Any) -> str:
        if not shape.fullmatch(_text(value)):
            raise ValueError(f"expected {what}, got {describe(value)}")
        return str(value)

    return read


def _one_of(*words: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if _text(value) not in words:
            raise ValueError(f"expected one of {', '.join(words)}, got {describe(value)}")
        return str(value)

    return read


def _list(read: Callable[[Any], Any], *, empty: bool = False) -> Callable[[Any], tuple[Any, ...]]:
    @lru_cache(maxsize=512, typed=True)  # many rows hold the same list; typed: true is no 1
    def once(*value: Any) -> tuple[Any, ...]:
        return read_each(value)

    def read_all(value: Any) -> tuple[Any, ...]:
        if type(value) is not list:
            raise ValueError(f"expected a list, got {describe(value)}")
        if not value and not empty:
            raise ValueError("expected at least one entry, got an empty list")
        try:
            return once(*value)
        except TypeError:  # a mapping or a list within: no reader takes it
            return read_each(value)

    def read_each(value: Iterable[Any]) -> tuple[Any, ...]:
        found = []
        for index, item in enumerate(value):
            try:
                found.append(read(item))
            except ValueError as error:  # noqa: PERF203 - the index belongs into the message
                raise CellError(f"[{index}]", str(error)) from error
        if len(set(found)) != len(found):
            raise ValueError(f"expected every entry once, got a list of {len(found)}")
        return tuple(found)

    return read_all


def _strings(values: tuple[Any, ...]) -> list[str]:
    return [str(value) for value in values]


def _arch_text(value: Any) -> str:
    """An arch list as its text, which is empty for a CPU build; `device_code` reads it with the CUDA release."""
    return "" if value == "" else arch_list(_code(value))


def _requirement_text(value: Requirement) -> str:
    return str(value) if value.package else str(value.first)


def _requirement_of(text: str) -> Requirement:
    found = Requirement.parse(text)
    if " " in found.package:
        raise ValueError(f"expected '[package ]>=A,<B' or a release, got {describe(text)}")
    return found


_version: Callable[[Any], Version] = _parsed(version)
_capability: Callable[[Any], Capability] = _parsed(Capability.parse)
_requirement: Callable[[Any], Requirement] = _parsed(_requirement_of, _requirement_text)
_code: Callable[[Any], DeviceCode] = _parsed(lambda text: parse_arch_list(text, None), arch_list)
_driver = _parsed(check_driver)
_release = _shaped(r"\d+\.\d+\.\d+", "a release X.Y.Z")
day = _shaped(r"\d{4}-\d{2}-\d{2}", "a day YYYY-MM-DD")
"""Reads a day."""

# The readers and writers that the columns on extensions, states and recipes share.
parsed, shaped, several, one_of, strings, same = _parsed, _shaped, _list, _one_of, _strings, _same
text, flag, whole, release_number, capability = _text, _flag, _whole, _version, _capability


@lru_cache(maxsize=256)
def device_code(text: str, cuda: Version | None) -> DeviceCode:
    """The code of a build from its arch list; PTX is in the ISA of the build's own CUDA release."""
    return parse_arch_list(text, cuda)


def _version_column(key: str, absent: Any = NEEDED) -> Column:
    return Column(key, _version, str, absent)


COMMON = (
    Column("src", _list(_text), list, named="sources"),
    Column("low", _flag, _same, absent=False),
    Column("note", _text, _same, absent=""),
)
"""What every row but a source carries."""

SOURCE = (
    Column("id", _shaped(r"[a-z0-9][a-z0-9_]*", "a word of a-z, 0-9 and _"), _same),
    Column("title", _text, _same),
    Column("publisher", _text, _same),
    Column("locator", _text, _same),
    Column("url", _shaped(r"https://[!-~]+", "an address that begins with https://"), _same, absent=""),
    Column("read_on", day, _same),
)

TOOLKIT = (
    _version_column("version"),
    Column("driver", _driver, _same, absent=None),
    Column("branch", _whole, _same, absent=None),
    Column("hard", _flag, _same, absent=False),
)

CUDA = (
    _version_column("version"),
    _version_column("isa", absent=None),
    Column("targets", _list(_capability, empty=True), _strings, absent=()),
    Column("gcc_min", _whole, _same, absent=None),
    Column("gcc_max", _whole, _same, absent=None),
    Column("conda_gcc_max", _whole, _same, absent=None),
    Column("conda_nvcc", _flag, _same, absent=False),
    Column("labels", _list(_release, empty=True), list, absent=()),
    _version_column("glibc", absent=None),
)

BRANCH = (
    Column("number", _whole, _same),
    _version_column("cuda"),
    Column("base", _flag, _same, absent=False),
    Column("ends", _shaped(r"20[0-9]{2}-(0[1-9]|1[0-2])", "a month YYYY-MM"), _same, absent=""),
)

FLOOR = (Column("major", _whole, _same), Column("driver", _driver, _same))

GENERATION = (
    Column("capability", _capability, str),
    Column("architecture", _text, _same),
    Column("first_branch", _whole, _same, absent=None),
    Column("first_driver", _driver, _same, absent=None),
    Column("last_branch", _whole, _same, absent=None),
    _version_column("first_cuda", absent=None),
    _version_column("last_cuda", absent=None),
    Column("module", _one_of("any", "open", "proprietary"), _same, absent=None),
)

GPU = (
    Column("name", _text, _same),
    Column("aka", _list(_text, empty=True), list, absent=()),
    Column("capability", _capability, str),
    Column("architecture", _text, _same),
    Column("chip", _text, _same, absent=""),
    Column("kind", _one_of(*_KINDS), _same),
    Column("memory_gb", _list(_whole, empty=True), list, absent=()),
    Column("pci", _list(_shaped(r"[0-9a-f]{4}", "four hex digits in lower case"), empty=True), list, absent=()),
)

TORCH = (
    Column("stack", _one_of(*STACKS), _same),
    _version_column("version"),
    _version_column("cuda", absent=None),
    Column("build", _text, _same),
    Column("platform", _one_of(*PLATFORMS), _same),
    Column("pythons", _list(_shaped(r"\d\.\d{1,2}", "a Python minor X.Y")), list),
    Column("arch_list", _arch_text, arch_list, absent=None, named="code"),
    _version_column("glibc", absent=None),
    Column("cudnn", _requirement, _requirement_text, absent=None),
    Column("nccl", _requirement, _requirement_text, absent=None),
    Column("seen", day, _same, absent=None),
)

LAYER = (
    Column("library", _one_of("cudnn", "nccl"), _same),
    _version_column("first", absent=None),
    _version_column("below", absent=None),
    Column("serves_from", _capability, str),
    Column("cuda", _whole, _same, absent=None),
    _version_column("glibc", absent=None),
)

COMPONENT = (
    Column("name", _text, _same),
    Column("role", _one_of(*_ROLES), _same, absent=""),
    Column("headers", _list(_text, empty=True), list, absent=()),
)

TWIN = (
    Column("package", _text, _same),
    Column("channel", _text, _same),
    Column("guard", _text, _same),
    Column("any_cuda", _text, _same),
    Column("essential", _flag, _same),
)

LABEL = (_version_column("cuda"), Column("build", _text, _same), Column("label", _release, _same))

ENDING = (
    Column("package", _text, _same),
    Column("channel", _text, _same),
    Column("versions", _list(_text), list),
    Column("says", _text, _same),
    Column("instead", _text, _same),
)


WAYS = ("conda-forge", "pytorch", "source", "wheel")
"""The ways in which an extension comes: two conda channels, pip's source package, pip's wheel."""
MATCHES = ("exact", "major", "toolkit")
WHEN = ("offload",)


def _span(text: str) -> Requirement:
    """A range ``>=A,<B``, or one release."""
    found = Requirement.parse(text)
    if found.package:
        raise ValueError(f"expected '>=A,<B' or a release, got {text!r}")
    return found


def span_text(value: Requirement) -> str:
    """A range as its cell holds it, one release by its number."""
    exact = value.first is not None and value.below is not None and value.below == version(f"{value.first}.1")
    return str(value.first) if exact else str(value)


_read_span: Any = parsed(_span, span_text)

EXTENSION = (
    Column("package", text, same),
    Column("comes", several(one_of(*WAYS)), list),
    Column("releases", several(release_number, empty=True), strings, absent=()),
    Column("first", release_number, str, absent=None),
    Column("below", release_number, str, absent=None),
    Column("torch", _read_span, span_text, absent=None),
    Column("cuda", several(release_number, empty=True), strings, absent=()),
    Column("match", one_of(*MATCHES), same, absent="exact"),
    Column("platforms", several(one_of(*PLATFORMS), empty=True), list, absent=()),
    Column("serves_from", capability, str, absent=None),
    Column("nvcc", _read_span, span_text, absent=None),
    Column("checks", flag, same, absent=False),
    Column("tolerates", several(release_number, empty=True), strings, absent=()),
    Column("headers", several(text, empty=True), list, absent=()),
    Column("tools", several(one_of("gxx", "ninja"), empty=True), list, absent=()),
)

REGRESSION = (
    Column("package", text, same),
    Column("releases", several(release_number), strings),
    Column("when", one_of(*WHEN), same),
    Column("says", text, same),
    Column("issue", text, same),
    Column("mended", release_number, str),
)


FEATURE = (
    Column("capability", capability, str),
    Column("chip", text, same, absent=""),
    Column("tensor", several(one_of(*NUMBERS), empty=True), list),
    Column("bf16", flag, same, absent=False),
    Column("fp64", whole, same, absent=None),
)

STATE = (Column("about", text, same), Column("says", text, same))
