"""Read ``conda info`` and similar output on the machine, and the packages of ``conda list`` and ``pip list``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cuenv.core.regex import regex
from cuenv.host.paste.reader import (
    CUDA_RELEASE,
    DocumentReader,
    PastedFact,
    PasteReader,
    as_text,
    evidence_text,
    numbered_lines,
    search_lines,
)

_NAME = r"(?P<about>[A-Za-z0-9][\w.-]{0,60})"

INFO_MARKS = (
    *("Pixi version", '"platform": "', "::__cuda", "::__glibc"),
    *("virtual packages", "Virtual packages", "__cuda=", '"__cuda"', "__glibc=", '"__glibc"', '"virtual_pkgs"'),
    *("__archspec=1=", "/linux-aarch64"),
)
_INFO = (
    ("driver.cuda", regex(rf"(?<!\w)__cuda={{1,2}}({CUDA_RELEASE})\b(?!\.\d)")),
    ("driver.cuda", regex(rf'"__cuda", *"({CUDA_RELEASE})"')),
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
_REQUIREMENT = regex(r"nothing provides|__(?:cuda|glibc)[^\s\w=]{0,2}=?[<>]|package .* requires|needed by|depends on")


def looks_like_info(text: str) -> bool:
    """Whether conda, mamba, micromamba or pixi printed the virtual packages of the machine."""
    return any(mark in text for mark in INFO_MARKS)


def read_info(text: str) -> tuple[PastedFact, ...]:
    """The CUDA version, the C library and the platform that conda detects; requirements of packages are ignored."""
    joined = _join_pairs(text) if '"__' in text else text
    return tuple(item for item in search_lines(joined, _INFO) if not _REQUIREMENT.search(item.shows))


def _join_pairs(text: str) -> str:
    """The JSON of conda with each name and its value on one line."""
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


def read_list(text: str) -> tuple[PastedFact, ...]:
    """The installed packages: release, build and channel."""
    return tuple(_rows(text))


def _rows(text: str) -> Iterator[PastedFact]:
    inside = False
    for number, line in numbered_lines(text):
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
        yield PastedFact("package", words, number, evidence_text(line), row["about"])


def looks_like_document(data: object) -> bool:
    """Whether conda, mamba or pixi printed it as JSON."""
    return isinstance(data, dict) and any(isinstance(data.get(key), list) for key in _VIRTUAL)


_VIRTUAL = ("virtual_pkgs", "virtual packages", "virtual_packages")


def read_document(data: Any, line: int) -> tuple[PastedFact, ...]:
    """The CUDA version, the C library and the platform in the document."""
    found = []
    for row in (item for key in _VIRTUAL for item in (data.get(key) if isinstance(data.get(key), list) else ())):
        words = row if isinstance(row, list) else as_text(row).split("=")
        name, number = (*map(as_text, words), "", "")[:2]
        fact, shape = _PACKAGES.get(name, ("", None))
        if shape and (seen := shape.fullmatch(number)):
            found.append(PastedFact(fact, seen[0], line, evidence_text(f"{name}={number}")))
        elif name == "__win":
            found.append(PastedFact("system", "Windows", line, name))
        elif name == "__osx":
            found.append(PastedFact("system", "macOS", line, name))
    platform = as_text(data.get("platform"))
    return (*found, PastedFact("platform", platform, line, evidence_text(f"platform {platform}")))


_PACKAGES = {
    "__cuda": ("driver.cuda", regex(CUDA_RELEASE)),
    "__cuda_arch": ("gpu.capability", regex(r"[1-9][0-9]?\.[0-9]")),
    "__glibc": ("libc", regex(r"[0-9]\.[0-9]{1,2}")),
    "__linux": ("kernel", regex(r"[0-9]+\.[0-9]+\S{0,60}")),
}


DOCUMENT = DocumentReader("conda info --json", looks_like_document, read_document)
INFO = PasteReader("conda info", INFO_MARKS, 12, looks_like_info, read_info)
LIST = PasteReader("a list of packages", LIST_MARKS, 500, looks_like_list, read_list, of_host=False)
