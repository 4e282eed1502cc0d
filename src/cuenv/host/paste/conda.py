"""What ``conda info`` and its kin print of the machine, and what ``conda list`` and ``pip list`` print of packages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cuenv.core.regex import regex
from cuenv.host.paste.told import LEVEL, DocumentReader, PasteReader, Told, numbered, searched, shown, textual

_NAME = r"(?P<about>[A-Za-z0-9][\w.-]{0,60})"

INFO_MARKS = (
    *("Pixi version", '"platform": "', "::__cuda", "::__glibc"),
    *("virtual packages", "Virtual packages", "__cuda=", '"__cuda"', "__glibc=", '"__glibc"', '"virtual_pkgs"'),
    *("__archspec=1=", "/linux-aarch64"),
)
_INFO = (
    ("driver.cuda", regex(rf"(?<!\w)__cuda={{1,2}}({LEVEL})\b(?!\.\d)")),
    ("driver.cuda", regex(rf'"__cuda", *"({LEVEL})"')),
    ("system", regex(r"(?<!\w)__(win)\b")),
    ("system", regex(r"(?<!\w)__(osx)\b")),
    ("kernel", regex(r"(?<!\w)__linux={1,2}([1-9][0-9]?\.[0-9]+\S{0,40}?)(?:=\w+)?$")),
    ("gpu.capability", regex(r"(?<!\w)__cuda_arch=([1-9][0-9]?\.[0-9])\b")),
    ("libc", regex(r"(?<!\w)__glibc={1,2}([0-9]\.[0-9]{1,2})\b")),
    ("libc", regex(r'"__glibc", *"([0-9]\.[0-9]{1,2})"')),
    ("platform", regex(r"^\s*\"?[Pp]latform\"? ?: \"?((?:linux|osx|win)-[a-z0-9]+)")),
    ("platform", regex(r"\bfeature:/?((?:linux|osx|win)-[a-z0-9]+)::__")),
    ("machine", regex(r"(?<!\w)__archspec=1=(aarch64|x86_64)\b")),
    ("platform", regex(r"^\s*(?:- |channel URLs : )https?://\S+/(linux-aarch64)$")),
)
_ASKED = regex(r"nothing provides|__(?:cuda|glibc)[^\s\w=]{0,2}=?[<>]|package .* requires|needed by|depends on")


def looks_like_info(text: str) -> bool:
    """Whether conda, mamba, micromamba or pixi printed what they detect of the machine."""
    return any(mark in text for mark in INFO_MARKS)


def read_info(text: str) -> tuple[Told, ...]:
    """The CUDA version and the C library that conda detects, and the platform; what a package asks for is no fact."""
    joined = _joined(text) if '"__' in text else text
    return tuple(item for item in searched(joined, _INFO) if not _ASKED.search(item.shows))


def _joined(text: str) -> str:
    """JSON of conda with each pair on the line of its name."""
    lines = text.split("\n")
    for index in range(len(lines) - 1):
        if lines[index].rstrip().endswith('",') and '"__' in lines[index]:
            lines[index] += " " + lines[index + 1].strip()
    return "\n".join(lines)


LIST_MARKS = ("# packages in environment at", "# Name  ", "Package   ", "---------- ---")
_ROW = regex(rf"^\s*{_NAME} +([0-9][\w.+!]*)(?: +([\w.]+))?(?: +([\w./:-]+))?\s*$")
_HEAD = regex(r"^\s*#? ?(?:Name|Package) {2,}Version\b|# packages in environment at")


def looks_like_list(text: str) -> bool:
    """Whether it is a list of installed packages."""
    return any(mark in text for mark in LIST_MARKS)


def read_list(text: str) -> tuple[Told, ...]:
    """The installed packages: release, build and channel."""
    return tuple(_rows(text))


def _rows(text: str) -> Iterator[Told]:
    inside = False
    for number, line in numbered(text):
        if _HEAD.search(line):
            inside = True
            continue
        if not inside or line.startswith(("#", "---")):
            continue
        row = _ROW.match(line)
        if row is None:
            inside = False
            continue
        words = " ".join(part for part in row.groups()[1:] if part)
        yield Told("package", words, number, shown(line), row["about"])


def looks_like_document(data: object) -> bool:
    """Whether conda, mamba or pixi printed it as JSON."""
    return isinstance(data, dict) and any(isinstance(data.get(key), list) for key in _VIRTUAL)


_VIRTUAL = ("virtual_pkgs", "virtual packages", "virtual_packages")


def read_document(data: Any, line: int) -> tuple[Told, ...]:
    """The CUDA version, the C library and the platform that they detect."""
    found = []
    for row in (item for key in _VIRTUAL for item in (data.get(key) if isinstance(data.get(key), list) else ())):
        words = row if isinstance(row, list) else textual(row).split("=")
        name, number = (*map(textual, words), "", "")[:2]
        fact, shape = _PACKAGES.get(name, ("", None))
        if shape and (seen := shape.fullmatch(number)):
            found.append(Told(fact, seen[0], line, shown(f"{name}={number}")))
        elif name == "__win":
            found.append(Told("system", "Windows", line, name))
        elif name == "__osx":
            found.append(Told("system", "macOS", line, name))
    platform = textual(data.get("platform"))
    return (*found, Told("platform", platform, line, shown(f"platform {platform}")))


_PACKAGES = {
    "__cuda": ("driver.cuda", regex(LEVEL)),
    "__cuda_arch": ("gpu.capability", regex(r"[1-9][0-9]?\.[0-9]")),
    "__glibc": ("libc", regex(r"[0-9]\.[0-9]{1,2}")),
    "__linux": ("kernel", regex(r"[0-9]+\.[0-9]+\S{0,60}")),
}


DOCUMENT = DocumentReader("conda info --json", looks_like_document, read_document)
INFO = PasteReader("conda info", INFO_MARKS, 12, looks_like_info, read_info)
LIST = PasteReader("a list of packages", LIST_MARKS, 500, looks_like_list, read_list, of_host=False)
