"""Lint files: recognise their kind, find mistakes, and correct those that need no decision."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from cuenv.core.errors import InputError, UsageError
from cuenv.core.findings import OPEN, CheckResult, Finding, Report, allowed
from cuenv.core.io.files import exists, first_bytes, is_file, names_in, path_text, read_text
from cuenv.core.io.writing import write_atomically
from cuenv.core.reading import lines_of
from cuenv.core.record import dataclass, replace
from cuenv.core.regex import regex
from cuenv.core.render import finding_json
from cuenv.knowledge.base import Knowledge
from cuenv.lint import KINDS, Lint, Machine, apply_edits, fix_text, line_and_column, sorted_lints
from cuenv.lockfile.files import LOCK_NAME, default_environment_file, is_requirements
from cuenv.lockfile.formats import mended_there, parse_lock, reader_of, readers, stranger
from cuenv.solve.environment_spec import WRITTEN_BY

if TYPE_CHECKING:  # types alone
    from cuenv.lint.documents import LintDocument, LintedFile
    from cuenv.lint.shell import ListReader

LIMIT = 16 * 1024 * 1024  # bytes of a file that is linted

_NAMES = (
    ("environment.yml", re.compile(r"(environment|env|conda)([._-].*)?\.ya?ml")),
    ("pyproject.toml", re.compile(r"pyproject\.toml")),
    ("Dockerfile", re.compile(r"(dockerfile|containerfile)([._-].*)?|.*\.(dockerfile|containerfile)", re.IGNORECASE)),
    (
        "ds_config",
        re.compile(r"(ds|deepspeed|zero).*\.json|.*(ds_?config|deepspeed|zero[123_-]).*\.json", re.IGNORECASE),
    ),
    ("shell", re.compile(r".*\.(sh|bash|zsh)|\.?(bashrc|zshrc|profile|bash_profile|bash_login|zprofile|zshenv|envrc)")),
)
_DEPENDENCIES = regex(r"(?m)^dependencies:")
_CONTENTS = (
    ("environment.yml", _DEPENDENCIES),
    ("Dockerfile", re.compile(r"(?mi)^FROM\s+\S+")),
    ("ds_config", re.compile(r'"(zero_optimization|train_micro_batch_size_per_gpu|train_batch_size)"')),
    ("shell", re.compile(r"\A#!.*\b(ba|z|da|k)?sh\b")),
)
_PACKAGE_LIST = regex(r"(?m)^# platform: [a-z0-9-]+\s*$|\Aversion: \d+\s*$")
"""What ``conda list -e`` and ``pixi.lock`` say."""
_PIP_FILE_NAME = regex(r"requirement|constraint")
_PIP_SYNTAX = regex(r"(?m)^(?:-[rcef]|--[a-z])[a-z-]*[ =]|^[A-Za-z0-9._-]+(?:\[[^\]]*\])?[ \t]*(?:[=~<>!]=|[<>]|@)")
"""What pip alone writes: an option, or a bound behind a name."""
_EXACT_NAME = regex(r"(environment|env|conda)\.ya?ml|dockerfile|containerfile", re.IGNORECASE)
_EXPECTED_TEXT = {
    "environment.yml": re.compile(r"(?m)^['\"]?(dependencies|channels)['\"]?[ \t]*:|\A\s*\{"),
    "Dockerfile": re.compile(r"(?mi)^[ \t]*(FROM|RUN|ARG|COPY)[ \t]"),
    "pyproject.toml": re.compile(r"(?m)^\[(?:project|dependency-groups)\b"),
}
"""What stands in a file of a kind, also in a broken one."""


@dataclass(frozen=True, kw_only=True)
class Linted:
    """A file and the findings on it."""

    path: Path
    kind: str
    text: str  # the text that was read
    lints: tuple[Lint, ...]
    fixed_text: str  # the text with every edit applied
    remaining: tuple[Lint, ...]  # the findings on the fixed text

    def result(self, *, fixed: bool) -> CheckResult:
        """The findings with line and column; with ``fixed`` those on the fixed text."""
        text, lints = (self.fixed_text, self.remaining) if fixed else (self.text, self.lints)
        found = (replace(item.finding, at=line_and_column(text, item.at), fixable=bool(item.edits)) for item in lints)
        report = Report(title=str(self.path), findings=tuple(found), looked_at=(self.kind,))
        return CheckResult(report=report, file=str(self.path))

    @property
    def patch(self) -> str:
        """The input of ``patch -p0`` that corrects the file; empty if nothing changes."""
        import difflib  # noqa: PLC0415 - only with --diff

        path = str(self.path)
        lines = difflib.unified_diff(lines_of(self.text), lines_of(self.fixed_text), path, path)
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def lint_json(results: Iterable[CheckResult]) -> LintDocument:
    """The findings as JSON, schema ``cuenv/lint/1``."""
    files: list[LintedFile] = [
        {
            "path": told.file,
            "kind": told.report.looked_at[0],
            "findings": [
                {**finding_json(item), "line": at[0], "column": at[1], "fixable": item.fixable}
                for item in told.report.findings
                for at in [item.at or (1, 1)]
            ],
        }
        for told in results
    ]
    return {"schema": "cuenv/lint/1", "files": files}


def files_in_folder(folder: Path) -> tuple[Path, ...]:
    """The files of a folder with a known name, and the file that its lock was made from."""
    known = tuple(
        folder / name
        for name in names_in(folder)
        if is_file(folder / name)
        and (
            (_kind_by_name(name) not in (None, "shell") and not _is_other_kind(folder / name))
            or (_PIP_FILE_NAME.search(name) and _is_requirements_file(folder / name))
        )
    )
    source = default_environment_file(folder)
    if source not in known and is_file(source):
        known = (*known, source)
    if not known:
        named = "this folder" if folder == Path() else path_text(folder)
        raise UsageError(
            f"{named} contains no environment.yml, conda-lock.yml, requirements.txt, pyproject.toml, Dockerfile or "
            "ds_config*.json",
            hint="cuenv lint FILE ...",
        )
    return known


def lint(path: Path, kind: str | None, machine: Machine, knowledge: Knowledge) -> Linted:
    """Lint a file.

    Args:
        kind: one of `KINDS`; by name and content when ``None``.
    """
    text = _read(path)
    kind = kind or _kind_of(path.name, text)
    if kind is None and path.suffix in (".yml", ".yaml") and _is_broken(text):
        kind = "environment.yml"  # that it is no YAML comes before what it is
    other = stranger(text, str(path)) if kind is None else None
    if kind is None and other is None and _is_unhashed_list(path, text):
        kind = "requirements.txt"
    if kind is None:
        listed = not other and (_PACKAGE_LIST.search(text) or (_is_lock(text) and not _is_unpinned_list(text, path)))
        other = ("a lock", f"cuenv check {shlex.quote(str(path))}") if listed else other
        if other:
            raise InputError(f"{path} is {other[0]}, which lint does not read", hint=_with_lock_beside(path, other[1]))
        guess = "requirements.txt" if path.suffix == ".txt" else "environment.yml"
        instead = f"cuenv lint --as {guess} {shlex.quote(str(path))}"
        known = f"(known are {', '.join(KINDS)})"
        raise UsageError(f"{path} is not a known kind of file by its name or content {known}", hint=instead)
    rules = _rules_for(kind, str(path), machine, knowledge)
    lints = sorted_lints(text, rules(text))
    after = fix_text(text, rules)
    remaining = lints if after == text else sorted_lints(after, rules(after))
    return Linted(path=path, kind=kind, text=text, lints=lints, fixed_text=after, remaining=remaining)


def _with_lock_beside(path: Path, command: str) -> str:
    """A command that makes a lock of a file and checks it; where the lock lies there, only the check."""
    _, joint, lock = command.partition(" lock && cuenv check ")
    there = path.parent / lock
    return f"cuenv check {shlex.quote(str(there))}" if joint and is_file(there) else command


def save(linted: Linted) -> None:
    """Write the fixed text to the file, unless nothing changed or the file changed meanwhile.

    Raises:
        InputError: it is another one than was read.
        OutsideError: it cannot be written; the old one stays.
    """
    if linted.fixed_text == linted.text:
        return
    if _read(linted.path) != linted.text:
        hint = f"cuenv lint --fix {shlex.quote(str(linted.path))}"
        raise InputError(f"{linted.path} changed while it was linted", hint=hint)
    write_atomically(linted.path, linted.fixed_text)


def _read(path: Path) -> str:
    """The text with its own line ends and its byte order mark."""
    text = read_text(path, limit=LIMIT)
    raw = first_bytes(path, 3)
    return f"\ufeff{text}" if raw == b"\xef\xbb\xbf" else text


def _kind_by_name(name: str) -> str | None:
    if any(item.lint.fullmatch(name) for item in readers() if item.lint):
        return LOCK_NAME
    return next((kind for kind, pattern in _NAMES if pattern.fullmatch(name)), None)


def _kind_of(name: str, text: str) -> str | None:
    """The kind of a file: by an exact name alone, otherwise by name and content."""
    kind = _kind_by_name(name)
    known = _EXPECTED_TEXT.get(kind or "")
    if known and not _EXACT_NAME.fullmatch(name) and text.strip() and not known.search(text[:200_000]):
        return _kind_by_content(text)
    if kind == "environment.yml" and _is_foreign_yaml(text):
        return None
    return kind or _kind_by_content(text)


def _is_foreign_yaml(text: str) -> bool:
    """Whether a YAML mapping has no key of conda, such as an Azure ML environment of the same name."""
    from cuenv.core.yaml_read import load  # noqa: PLC0415 - only for a file that has no list of requirements

    if not text.strip() or _DEPENDENCIES.search(text):
        return False
    try:
        tree = load(text, "")
    except InputError:
        return False  # linting says what is wrong
    return isinstance(tree, dict) and tree.keys().isdisjoint(
        ("name", "channels", "dependencies", "prefix", "variables")
    )


def _is_other_kind(path: Path) -> bool:
    """Whether a file contains something else than its name suggests, such as a workflow."""
    if _kind_by_name(path.name) not in _EXPECTED_TEXT:
        return False
    try:
        return _kind_of(path.name, _read(path)) is None
    except InputError:
        return False  # linting says what is wrong


def _kind_by_content(text: str) -> str | None:
    start = text[:200_000]
    reader = reader_of(text)
    if reader.lint and reader.content.search(start):
        return LOCK_NAME
    return next((kind for kind, pattern in _CONTENTS if pattern.search(start)), None)


def _is_broken(text: str) -> bool:
    """Whether a text is not valid YAML; valid YAML that cuenv does not read is another kind of file."""
    from cuenv.core.yaml_read import load  # noqa: PLC0415 - few files are of no known kind

    try:
        load(text, "")
    except InputError as error:
        return error.__cause__ is not None  # what the parser of YAML says
    return False


def _is_lock(text: str) -> bool:
    """Whether a text is a lock, which ``cuenv check`` reads and lint does not."""
    known = (item.content for item in readers() if not item.lint)
    return any(pattern.search(text) for pattern in (*known, _PACKAGE_LIST))


def _is_requirements_file(path: Path) -> bool:
    """Whether a file with the name of a requirements file is one that cuenv has not written."""
    try:
        text = _read(path)
    except InputError:
        return False
    return not text.startswith(WRITTEN_BY) and _is_unhashed_list(path, text)


def _is_unhashed_list(path: Path, text: str) -> bool:
    """Whether a file is a list of requirements without hashes; one with hashes is a lock."""
    if path.suffix != ".txt" or "--hash=" in text or _PACKAGE_LIST.search(text) or text.startswith("@EXPLICIT"):
        return False
    named = _PIP_FILE_NAME.search(path.name) or _PIP_FILE_NAME.search(path.absolute().parent.name)
    return named is not None or (is_requirements(text) and _PIP_SYNTAX.search(text) is not None)


def _is_unpinned_list(text: str, path: Path) -> bool:
    """Whether a list of requirements leaves releases to pip, so that ``cuenv check`` refuses it."""
    if path.suffix != ".txt" or not is_requirements(text):
        return False
    try:
        lock = parse_lock(text, "")
    except InputError:
        return True
    return any(remark.code == OPEN for solution in lock.solutions for remark in solution.remarks)


def _rules_for(kind: str, source: str, machine: Machine, knowledge: Knowledge) -> Callable[[str], Iterable[Lint]]:
    """The rules for a kind of file; a file that cannot be read is a finding, so that others are still linted."""
    look = _RULES[kind]

    def rules(text: str) -> Iterator[Lint]:
        try:
            yield from look(text, source, machine, knowledge)
        except InputError as error:
            yield _unreadable_lint(error, text, source)

    return rules


def _unreadable_lint(error: InputError, text: str, source: str) -> Lint:
    """The error as one line; the message of a finding has the name of the file already."""
    first, *each = error.message.removeprefix(f"{source}: ").split("\n")
    message = f"{first}: {'; '.join(item.strip() for item in each)}" if each else first
    starts = [0, *(found.end() for found in re.finditer("\n", text))]
    at = starts[min(error.line, len(starts)) - 1] if error.line else 0
    fix = None if (error.hint or "").startswith("cuenv lint ") else error.hint  # that is what is being done
    return Lint(finding=Finding(code="CU300", severity="error", subject="file", message=message, fix=fix), at=at)


def _environment_lints(text: str, source: str, machine: Machine, knowledge: Knowledge) -> Iterator[Lint]:
    from cuenv.lint.environment_file import environment_lints, number_lints  # noqa: PLC0415 - as above
    from cuenv.lint.positions import parse_yaml  # noqa: PLC0415 - as above
    from cuenv.lockfile.requirement_files import with_lists  # noqa: PLC0415 - as above
    from cuenv.resolver.policy import with_file_in_fix  # noqa: PLC0415 - as above
    from cuenv.solve import environment_yml  # noqa: PLC0415 - each kind loads its own reader

    tree = parse_yaml(text, source)
    if tree is None or tree.kind != "map":
        environment_yml.parse(text, source)  # says what is wrong
        return
    spec = None
    try:
        # `python: 3.10` has a rule of its own: what it means is read, so that it hides no other finding.
        spec, _ = environment_yml.parse(apply_edits(text, number_lints(tree)), source)
    except InputError as error:
        yield _unreadable_lint(error, text, source)
    folder = Path(source).parent if is_file(source) else None
    spec = with_lists(spec, folder) if spec and folder else spec
    for item in environment_lints(text, tree, spec, knowledge, machine, folder=folder):
        yield from (replace(item, finding=finding) for finding in with_file_in_fix([item.finding], source))


def _lock_lints(text: str, source: str, _: Machine, knowledge: Knowledge) -> Iterator[Lint]:
    """Findings of the policy for locks, each at its package, without edits."""
    from cuenv.lockfile.check import named_platform  # noqa: PLC0415 - as above
    from cuenv.lockfile.pip_findings import pip_findings  # noqa: PLC0415 - as above
    from cuenv.resolver.solution_policy import edit_findings, lock_findings  # noqa: PLC0415 - as above

    lock = parse_lock(text, source)
    found = [*edit_findings(lock)]
    for solution in lock.solutions:
        one = [*lock_findings(solution.packages, solution.platform, knowledge), *pip_findings(solution, lock.program)]
        found += (named_platform(item, solution.platform) for item in one) if solution in lock.solutions[1:] else one
    for finding in allowed((mended_there(item, lock) for item in found), lock.allowed):
        name = re.escape(finding.subject.split(", ")[0])
        entry = re.search(rf"(?m)^\s*(?:- )?['\"]?name['\"]?: ['\"]?{name}['\"]?\s*$", text)
        yield Lint(finding=finding, at=entry.start() if entry else 0)


def _deepspeed_lints(text: str, source: str, machine: Machine, knowledge: Knowledge) -> Iterator[Lint]:
    from cuenv.knowledge.io.load import load_guidance  # noqa: PLC0415 - as above
    from cuenv.lint.ds_config import ds_config_lints, json_lints  # noqa: PLC0415 - as above
    from cuenv.lint.positions import parse_json  # noqa: PLC0415 - as above

    found = parse_json(text, source)
    if found.tree.kind != "map":
        raise InputError(f"{source}: a configuration of DeepSpeed is a mapping")
    yield from json_lints(found.comments, found.commas, found.duplicates)
    yield from ds_config_lints(found.tree, load_guidance(knowledge).ds_keys, machine)


_CUENV_CHECK = regex(r"(?:^|[\s/])cuenv\s+check\s")
"""A build that checks what it installed: the files that it installs from need no look of their own."""


def _list_lints(text: str, source: str, machine: Machine, knowledge: Knowledge) -> Iterator[Lint]:
    from cuenv.lint.pip import requirement_lints  # noqa: PLC0415 - as above

    yield from requirement_lints(text, Path(source).parent if is_file(source) else None, machine, knowledge)


def _project_lints(text: str, source: str, machine: Machine, knowledge: Knowledge) -> Iterator[Lint]:
    from cuenv.lint.pyproject import pyproject_lints  # noqa: PLC0415 - as above

    return pyproject_lints(text, source, machine, knowledge)


def _image_lints(text: str, source: str, machine: Machine, knowledge: Knowledge) -> Iterator[Lint]:
    from cuenv.lint.dockerfile import dockerfile_lints, parse  # noqa: PLC0415 - as above

    found = parse(text, source)
    checks = any(item.name == "RUN" and _CUENV_CHECK.search(item.text) for item in found)
    for item in dockerfile_lints(found, machine, knowledge, _list_reader(source)):
        if not checks or item.finding.code != "CU327":
            yield item


def _list_reader(source: str) -> ListReader:
    """The reader of requirements files that commands name, in the folder of the file or of its project.

    Where both have one of that name, nobody knows which is meant, and none is read.
    """
    from cuenv.lockfile.requirement_files import with_lists  # noqa: PLC0415 - as above
    from cuenv.solve.environment_spec import EnvironmentSpec  # noqa: PLC0415 - as above

    def lines(name: str) -> tuple[str, ...] | None:
        elsewhere = name.startswith(("/", "~"))  # in the image, and not on this machine
        if elsewhere or not is_file(source) or any(mark in name for mark in "$*?"):
            return None
        folder = Path(source).absolute().parent
        above = [item for item in (folder, *folder.parents) if exists(item / ".git")][:1]
        there = [item for item in dict.fromkeys((folder, *above)) if is_file(item / name.removeprefix("./"))]
        if len(there) != 1:
            return None
        spec = with_lists(EnvironmentSpec(name="", channels=(), pins=(), pip=(f"-r {name}",)), there[0])
        return None if spec.unread else spec.pip

    return lines


def _script_lints(text: str, source: str, machine: Machine, knowledge: Knowledge) -> Iterator[Lint]:
    from cuenv.lint import commands, pip, shell  # noqa: PLC0415 - as above

    bare = shell.without_comments(text)
    run = shell.ShellCommands(text=bare, at=0)
    yield from commands.command_lints(bare, 0, machine, None, knowledge)
    yield from pip.environment_file_lints(bare, 0, {})
    lists = _list_reader(source)
    yield from pip.unread_lints((run,), lists) if commands.names_cuda(bare) else ()
    yield from pip.wheel_lints((run,), "", None, machine, knowledge, own="", empty=False, lists=lists)
    for asked in shell.install_commands([run]):
        yield from commands.install_lints(asked, machine, knowledge, compat=False)


_RULES: dict[str, Callable[[str, str, Machine, Knowledge], Iterator[Lint]]] = {
    "environment.yml": _environment_lints,
    "conda-lock.yml": _lock_lints,
    "requirements.txt": _list_lints,
    "pyproject.toml": _project_lints,
    "Dockerfile": _image_lints,
    "ds_config": _deepspeed_lints,
    "shell": _script_lints,
}
