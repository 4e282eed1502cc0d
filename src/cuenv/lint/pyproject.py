"""Lint of ``pyproject.toml``: the torch that a project requests, and the index from which uv takes it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from cuenv.core.findings import FileEdit, Finding, PipFix, WheelFix
from cuenv.core.record import NamedTuple, replace
from cuenv.core.regex import regex
from cuenv.core.urls import redact
from cuenv.knowledge.base import Knowledge
from cuenv.lint import Lint, Machine
from cuenv.lint.environment_file import has_login, login_finding
from cuenv.lint.pip import no_torch_finding
from cuenv.lockfile.file_check import judge_file, names_nothing
from cuenv.lockfile.formats.others.uv_lock import toml_document
from cuenv.lockfile.setups import compiles, name_on_index
from cuenv.resolver.asked_torch import places_on_linux, torch_asked
from cuenv.resolver.policy import spec_findings
from cuenv.resolver.torch_findings import asked_torch_not_in_tables
from cuenv.solve.environment_spec import EnvironmentSpec, Pin, normalise, requirement_name

_TORCH = "torch"
_TORCH_URL = "torch @ "
_MACHINE_OF_PLATFORM = {"linux-aarch64": "aarch64"}
_DEFAULT_MACHINE = "x86_64"
_PYTORCH_INDEX = "download.pytorch.org/whl/"


class _RequirementList(NamedTuple):
    """Requirements of a project that are installed together."""

    kind: str  # ``extra`` or ``group``; empty for the dependencies of the project
    key: str  # that of the list in its table
    lines: tuple[str, ...]  # of this list alone


def pyproject_lints(text: str, source: str, machine: Machine, knowledge: Knowledge) -> Iterator[Lint]:
    """Mistakes in the torch of a project: its release, libraries and index, and its GPU code on a host.

    Each extra and each group that has a torch, or something for that of the project, is judged beside the dependencies.
    """
    document = toml_document(text, source, "uv lock")
    project, uv = _table_at(document, "project"), _table_at(document, "tool", "uv")
    for url in _index_urls(uv):
        if has_login(url):
            yield Lint(finding=login_finding(redact(url), "index"), at=max(text.find(url), 0))
    here = _MACHINE_OF_PLATFORM.get(machine.facts.platform if machine.facts else "", _DEFAULT_MACHINE)
    base, *others = _requirement_lists(document, here)
    named = [item for item in (base, *others) if torch_asked(item.lines)]
    overrides = _linux_requirements(uv.get("override-dependencies"), here)
    forced = {requirement_name(line) for line in overrides}
    pins = (Pin(name="python", version=python),) if (python := _string_or_empty(project.get("requires-python"))) else ()
    found: dict[_RequirementList, list[Finding]] = {}
    empty = True
    for part in (base, *others):
        own = torch_asked(part.lines) is not None
        lines = (*(line for line in base.lines if not (own and part.kind and requirement_name(line) == _TORCH)),)
        lines += part.lines if part.kind else ()
        if named and not torch_asked(lines):
            continue
        # uv takes what is overridden whatever a package requires, so that it contradicts nothing.
        lines = tuple(line for line in lines if requirement_name(line) not in forced)
        lines += tuple(line for line in overrides if requirement_name(line) == _TORCH)
        places = tuple(_torch_indexes(uv, part))
        if any(line.startswith(_TORCH_URL) for line in places):
            lines = tuple(line for line in lines if requirement_name(line) != _TORCH)
        spec = EnvironmentSpec(name="", channels=(), pins=pins, pip=(*places, *lines), project=True)
        judged = own or not part.kind or not named  # else it brings no other torch than the project itself
        found[part] = [
            replace(item, fix=_uv_fix(item), edits=())
            for item in _list_findings(spec, machine if judged else Machine(), knowledge)
        ]
        empty &= names_nothing(spec, knowledge) and not found[part]
    seen: set[str] = set()
    for part, told in _findings_by_list(found, {part for part in found if part.kind and torch_asked(part.lines)}):
        for finding in (item for item in told if item.message not in seen):
            seen.add(finding.message)
            yield Lint(finding=finding, at=_position_of(finding, text, (part, base)))
    yield from _build_isolation_lints((base, *others), uv, text, knowledge)
    dynamic = "dependencies" in _strings_in(project.get("dynamic"))
    if machine.gpus and empty and (dynamic or any(part.lines for part in found)):
        message = "the project's dependencies are not in this file, so cuenv did not check its torch"
        moved = Finding(code="CU327", severity="info", subject="dynamic", message=message, unknown=True)
        key = re.search(r"(?m)^dynamic\b" if dynamic else r"(?m)^dependencies\b|^\[project\]", text)
        finding = moved if dynamic else no_torch_finding("the project")
        yield Lint(finding=finding, at=key.start() if key else 0)


def _findings_by_list(
    found: Mapping[_RequirementList, list[Finding]], chosen: Collection[_RequirementList]
) -> Iterator[tuple[_RequirementList, list[Finding]]]:
    """The findings on each list; of extras with their own torch one that runs is enough.

    What all of them have in common, or would be mended alike, is said of the first.

    Args:
        found: on each list.
        chosen: the lists with a torch of their own.
    """
    fits = [
        part
        for part in found
        if torch_asked(part.lines) and not any(item.code == "CU103" or _is_host_error(item) for item in found[part])
    ]
    told: set[tuple[str, str | None]] = set()
    for part, findings in found.items():
        # who installs an extra for the CPU or for another maker's GPUs means that
        mine = [item for item in findings if not (part.kind and item.code == "CU103")]
        if part in chosen and fits:
            runs = f"the {fits[0].kind} {fits[0].key}" if fits[0].kind else "the project without it"
            mine = [_as_optional(item, part, runs) if _is_host_error(item) else item for item in mine]
        elif part in chosen:
            mine = [item for item in mine if not (_is_host_error(item) and (item.code, item.fix) in told)]
        told |= {(item.code, item.fix) for item in mine}
        yield part, mine


def _is_host_error(finding: Finding) -> bool:
    """Whether a finding is an error about the host, and not about the file itself."""
    return finding.severity == "error" and finding.code.startswith("CU4")


def _as_optional(finding: Finding, part: _RequirementList, runs: str) -> Finding:
    """A finding on a torch that nobody has to install, because another one of the project runs."""
    message = f"{part.kind} {part.key}: {finding.message}; {runs} runs there"
    return replace(finding, severity="info", message=message, fix=None)


def _build_isolation_lints(
    parts: Iterable[_RequirementList], uv: Mapping[str, Any], text: str, knowledge: Knowledge
) -> Iterator[Lint]:
    """Packages whose setup imports torch, which uv and pip build in an environment without torch."""
    apart = {normalise(name) for name in _strings_in(uv.get("no-build-isolation-package"))}
    for key in ("extra-build-dependencies", "sources"):
        apart |= {normalise(name) for name in _table_at(uv, key)}
    if uv.get("no-build-isolation") is True:
        return
    for part in parts:
        for line in part.lines:
            name = name_on_index(line)
            if not name or name in apart or not compiles(name, knowledge):
                continue
            apart.add(name)
            finding = Finding(
                code="CU521",
                severity="warning",
                subject=name,
                message=f"{line} is built from source, and its setup.py imports torch, which is not in the environment "
                "in which uv and pip build a package",
                fix=f'write no-build-isolation-package = ["{name}"] in [tool.uv]; with pip install torch first, then '
                f"{name} with --no-build-isolation",
            )
            yield Lint(finding=finding, at=max(_find_requirement(text, part, line), 0))


def _list_findings(spec: EnvironmentSpec, machine: Machine, knowledge: Knowledge) -> Iterator[Finding]:
    yield from spec_findings(spec, knowledge)
    if machine.facts:
        yield from judge_file(spec, machine.facts, knowledge, alone=True)
    else:
        unlisted = asked_torch_not_in_tables(spec, knowledge)
        yield from (unlisted,) if unlisted else ()


def _requirement_lists(document: Mapping[str, Any], machine: str) -> Iterator[_RequirementList]:
    project = _table_at(document, "project")
    yield _RequirementList("", "dependencies", _linux_requirements(project.get("dependencies"), machine))
    for name, rows in _table_at(project, "optional-dependencies").items():
        yield _RequirementList("extra", name, _linux_requirements(rows, machine))
    for name, rows in _table_at(document, "dependency-groups").items():
        yield _RequirementList("group", name, _linux_requirements(rows, machine))
    yield _RequirementList(
        "group",
        "dev-dependencies",
        _linux_requirements(_table_at(document, "tool", "uv").get("dev-dependencies"), machine),
    )


def _linux_requirements(rows: object, machine: str) -> tuple[str, ...]:
    """The requirements of a list that apply on Linux on a machine, without their markers."""
    return tuple(
        bare.strip()
        for text in _strings_in(rows)
        for bare, _, marker in [text.partition(";")]
        if any(place == machine for place, _ in places_on_linux(marker))
    )


def _strings_in(rows: object) -> list[str]:
    return [item for item in rows if isinstance(item, str)] if isinstance(rows, list) else []


def _string_or_empty(value: object) -> str:
    return value if isinstance(value, str) else ""


def _table_at(document: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    found: object = document
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, dict) else {}


def _tables_in(value: object) -> list[dict[str, Any]]:
    return [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, dict)]


def _index_urls(uv: Mapping[str, Any]) -> list[str]:
    further = uv.get("extra-index-url")
    return [
        *(url for row in _tables_in(uv.get("index")) if (url := _string_or_empty(row.get("url")))),
        *filter(None, [_string_or_empty(uv.get("index-url"))]),
        *_strings_in(further if isinstance(further, list) else [further]),
    ]


def _torch_indexes(uv: Mapping[str, Any], part: _RequirementList) -> Iterator[str]:
    """The index from which uv takes torch, as options of pip.

    An index that is named for torch is the only one. Of the others uv takes the first that has torch, so that one of
    PyTorch's own is the only one as well, unless the project asks for the best match of all.
    """
    rows = {_string_or_empty(row.get("name")): row for row in _tables_in(uv.get("index"))}
    for row in _tables_in(_table_at(uv, "sources").get(_TORCH)):
        here = (
            _string_or_empty(row.get(part.kind)) == part.key
            if part.kind in row
            else not {"extra", "group"}.intersection(row)
        )
        index = rows.get(_string_or_empty(row.get("index")))
        if here and any(
            machine == _DEFAULT_MACHINE
            for machine, _ in places_on_linux(
                _string_or_empty(row.get("marker")), part.key if part.kind == "extra" else ""
            )
        ):
            if index:
                yield f"--index-url {_string_or_empty(index.get('url'))}"
            elif url := _string_or_empty(row.get("url")):
                yield f"{_TORCH_URL}{url}"
            else:
                yield f"{_TORCH_URL}{_string_or_empty(row.get('git')) or 'file:' + _string_or_empty(row.get('path'))}"
            return
    every = [
        url
        for url in _index_urls(uv)
        if not any(row.get("explicit") and row.get("url") == url for row in rows.values())
    ]
    first = next((url for url in every if _PYTORCH_INDEX in url), "")
    best = _string_or_empty(uv.get("index-strategy")).startswith("unsafe-best")
    for url in every if best or not first else [first]:
        yield f"{'--extra-index-url' if best else '--index-url'} {url}"


_INDEX_OPTION = regex(r"--(?:extra-)?index-url (\S+)")


def _uv_fix(finding: Finding) -> str | None:
    """The fix of a finding in terms of ``[tool.uv]``."""
    fix = finding.fix
    if finding.mended_by_edits:
        return ", and ".join(map(_uv_edit, finding.edits)) or None
    if isinstance(fix, WheelFix):
        return fix.worded(f"{' '.join(fix.requirements)}{fix.note} from {_uv_index(fix.url)}")
    return " ".join(fix.requirements) if isinstance(fix, PipFix) else fix


def _uv_edit(edit: FileEdit) -> str:
    entry = edit.entries[0]
    if edit.how == "write" and entry.startswith("python="):
        return f'write requires-python = "=={entry.removeprefix("python=")}.*"'
    index = _INDEX_OPTION.fullmatch(entry)
    return f"name {_uv_index(index[1])}" if index and edit.how == "add" else edit.for_command


def _uv_index(url: str) -> str:
    return f"the index {url} in [[tool.uv.index]], and that index for torch in [tool.uv.sources]"


def _position_of(finding: Finding, text: str, parts: tuple[_RequirementList, ...]) -> int:
    """The place of the first requirement that a finding is about, otherwise of its subject, otherwise of torch."""
    names = finding.subject.split(", ")
    tests: tuple[Callable[[str], bool], ...] = (
        *((lambda line, text=text: line == text) for text in finding.about),
        lambda line: requirement_name(line) in names,
        lambda line: requirement_name(line) == _TORCH,
    )
    for test in tests:
        for part in parts:
            for line in part.lines:
                if test(line) and (at := _find_requirement(text, part, line)) >= 0:
                    return at
    found = re.search(r"(?m)^dependencies\b|^\[project\]", text)
    return found.start() if found else 0


def _find_requirement(text: str, part: _RequirementList, line: str) -> int:
    """The index of a requirement after the key of its list; -1 if it is written in another way."""
    key = re.search(rf"(?m)^[ \t]*[\"']?{re.escape(part.key)}[\"']?[ \t]*=", text)
    start = key.end() if key else 0
    found = re.compile(rf"[\"'][ \t]*{re.escape(line)}[ \t]*[\"';]").search(text, start)
    return found.start() if found else -1
