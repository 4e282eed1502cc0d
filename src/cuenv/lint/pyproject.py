"""Lint of ``pyproject.toml``: the torch that a project asks for, and the index that uv takes it from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cuenv.core.findings import Finding
from cuenv.core.record import NamedTuple, replace
from cuenv.core.regex import regex
from cuenv.core.urls import redact
from cuenv.knowledge.base import Knowledge
from cuenv.lint import Lint, Machine, of_commands
from cuenv.lint.environment_file import login_finding, with_login
from cuenv.lockfile.file_check import judge_file
from cuenv.lockfile.formats.others.uv_lock import toml_document
from cuenv.resolver.asked_torch import places_on_linux, torch_asked, unlisted_finding
from cuenv.resolver.policy import spec_findings
from cuenv.solve.environment_spec import EnvironmentSpec, Pin, requirement_name

_TORCH = "torch"
_BUILT = "torch @ "
_MACHINE = "x86_64"
_OWN = "download.pytorch.org/whl/"


class _List(NamedTuple):
    """Requirements of a project that are installed together.

    Attributes:
        kind: ``extra`` or ``group``; empty for the dependencies of the project.
        key: that of the list in its table.
        lines: of this list alone.
    """

    kind: str
    key: str
    lines: tuple[str, ...]


def pyproject_lints(text: str, source: str, machine: Machine, knowledge: Knowledge) -> Iterator[Lint]:
    """What is wrong with the torch of a project: its release, its libraries, its index, and on a host its GPU code.

    Each extra and each group that has a torch, or something for that of the project, is judged beside the dependencies.

    Args:
        text: the file.
        source: its name, for errors.
        machine: what it is for.
        knowledge: the tables.

    Raises:
        InputError: it is not TOML.
    """
    document = toml_document(text, source, "uv lock")
    project, uv = _table(document, "project"), _table(document, "tool", "uv")
    for url in _urls(uv):
        if with_login(url):
            yield Lint(finding=login_finding(redact(url), "index"), at=max(text.find(url), 0))
    base, *others = _lists(document)
    named = [item for item in (base, *others) if torch_asked(item.lines)]
    seen: set[str] = set()
    for part in (base, *others):
        own = torch_asked(part.lines) is not None
        lines = (*(line for line in base.lines if not (own and part.kind and requirement_name(line) == _TORCH)),)
        lines += part.lines if part.kind else ()
        if named and not torch_asked(lines):
            continue
        pins = (Pin(name="python", version=python),) if (python := _text(project.get("requires-python"))) else ()
        places = tuple(_indexes(uv, part))
        if any(line.startswith(_BUILT) for line in places):
            lines = tuple(line for line in lines if requirement_name(line) != _TORCH)
        spec = EnvironmentSpec(name="", channels=(), pins=pins, pip=(*places, *lines))
        judged = own or not part.kind or not named  # else it brings no other torch than the project itself
        for found in _found(spec, machine if judged else Machine(), knowledge):
            if part.kind and found.code == "CU103":
                continue  # who installs an extra for the CPU or for another maker's GPUs means that
            finding = replace(found, message=_in_words(found.message))
            if finding.message not in seen:
                seen.add(finding.message)
                at = _place(finding, text, (part, base))
                yield Lint(finding=replace(finding, fix=_of_uv(of_commands(finding)), edits=()), at=at)
    if machine.facts and machine.facts.gpus and not named and "dependencies" in _texts(project.get("dynamic")):
        key = re.search(r"(?m)^dynamic\b", text)
        message = "the dependencies of the project are not in this file, so whether it brings a torch was not checked"
        finding = Finding(code="CU327", severity="info", subject="dynamic", message=message, unknown=True)
        yield Lint(finding=finding, at=key.start() if key else 0)


def _found(spec: EnvironmentSpec, machine: Machine, knowledge: Knowledge) -> Iterator[Finding]:
    yield from spec_findings(spec, knowledge)
    if machine.facts:
        yield from judge_file(spec, machine.facts, knowledge, alone=True)
    else:
        unlisted = unlisted_finding(spec, knowledge)
        yield from (unlisted,) if unlisted else ()


def _lists(document: Mapping[str, Any]) -> Iterator[_List]:
    project = _table(document, "project")
    yield _List("", "dependencies", _lines(project.get("dependencies")))
    for name, rows in _table(project, "optional-dependencies").items():
        yield _List("extra", name, _lines(rows))
    for name, rows in _table(document, "dependency-groups").items():
        yield _List("group", name, _lines(rows))
    yield _List("group", "dev-dependencies", _lines(_table(document, "tool", "uv").get("dev-dependencies")))


def _lines(rows: object) -> tuple[str, ...]:
    """The requirements of a list that hold on Linux, without their markers."""
    return tuple(
        bare.strip() for text in _texts(rows) for bare, _, marker in [text.partition(";")] if places_on_linux(marker)
    )


def _texts(rows: object) -> list[str]:
    return [item for item in rows if isinstance(item, str)] if isinstance(rows, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _table(document: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    found: object = document
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, dict) else {}


def _rows(value: object) -> list[dict[str, Any]]:
    return [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, dict)]


def _urls(uv: Mapping[str, Any]) -> list[str]:
    further = uv.get("extra-index-url")
    return [
        *(url for row in _rows(uv.get("index")) if (url := _text(row.get("url")))),
        *filter(None, [_text(uv.get("index-url"))]),
        *_texts(further if isinstance(further, list) else [further]),
    ]


def _indexes(uv: Mapping[str, Any], part: _List) -> Iterator[str]:
    """The place where uv looks for torch, as pip would be told of it.

    An index that is named for torch is the only one. Of the others uv takes the first that has torch, so that one of
    PyTorch's own is the only one as well, unless the project asks for the best match of all.
    """
    rows = {_text(row.get("name")): row for row in _rows(uv.get("index"))}
    for row in _rows(_table(uv, "sources").get(_TORCH)):
        here = _text(row.get(part.kind)) == part.key if part.kind in row else not {"extra", "group"}.intersection(row)
        index = rows.get(_text(row.get("index")))
        if here and any(
            machine == _MACHINE
            for machine, _ in places_on_linux(_text(row.get("marker")), part.key if part.kind == "extra" else "")
        ):
            if index:
                yield f"--index-url {_text(index.get('url'))}"
            elif url := _text(row.get("url")):
                yield f"{_BUILT}{url}"
            else:
                yield f"{_BUILT}{_text(row.get('git')) or 'file:' + _text(row.get('path'))}"
            return
    every = [
        url for url in _urls(uv) if not any(row.get("explicit") and row.get("url") == url for row in rows.values())
    ]
    first = next((url for url in every if _OWN in url), "")
    best = _text(uv.get("index-strategy")).startswith("unsafe-best")
    for url in every if best or not first else [first]:
        yield f"{'--extra-index-url' if best else '--index-url'} {url}"


def _in_words(message: str) -> str:
    """What is said of pip holds for uv as well, which most projects are installed with."""
    for of_pip, both in (("pip takes torch", "uv and pip take torch"), ("the file asks pip for", "the file asks for")):
        message = message.replace(of_pip, both, 1)
    return message


_PYTHON = regex(r"write python=([0-9.]+)")
_OF_PIP = regex(r"--(?:extra-)?index-url (\S+)")


def _of_uv(fix: str | None) -> str | None:
    """What mends a finding in the words of a project: an index is named once, and torch is taken from it."""
    fix = fix and _PYTHON.sub(r'write requires-python = "==\1.*"', fix)
    if fix is None or not _OF_PIP.search(fix):
        return fix and fix.removeprefix("with pip: ")
    at = fix.replace("with pip: ", "").replace("add --", "name --")
    return _OF_PIP.sub(r"the index \1 in [[tool.uv.index]], and that index for torch in [tool.uv.sources]", at)


def _place(finding: Finding, text: str, parts: tuple[_List, ...]) -> int:
    """The requirement that the message names, else that of its subject, else torch, in its list."""
    message, names = finding.message, finding.subject.split(", ")
    tests: tuple[Callable[[str], bool], ...] = (
        lambda line: message.startswith(line) or f" {line} " in message,
        lambda line: requirement_name(line) in names,
        lambda line: requirement_name(line) == _TORCH,
    )
    for test in tests:
        for part in parts:
            for line in part.lines:
                if test(line) and (at := _position(text, part, line)) >= 0:
                    return at
    found = re.search(r"(?m)^dependencies\b|^\[project\]", text)
    return found.start() if found else 0


def _position(text: str, part: _List, line: str) -> int:
    """Where a requirement stands, behind the key of its list; -1 where it is written in another way."""
    key = re.search(rf"(?m)^[ \t]*[\"']?{re.escape(part.key)}[\"']?[ \t]*=", text)
    start = key.end() if key else 0
    found = re.compile(rf"[\"'][ \t]*{re.escape(line)}[ \t]*[\"';]").search(text, start)
    return found.start() if found else -1
