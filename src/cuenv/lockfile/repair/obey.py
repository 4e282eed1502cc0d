"""Obey: an environment file with the edits that the findings on it hold."""

from __future__ import annotations

from collections.abc import Iterable

from cuenv.core.findings import FileEdit, Finding
from cuenv.core.record import replace
from cuenv.core.regex import regex
from cuenv.lockfile.coverage import narrowed
from cuenv.resolver.requirements import OF_TORCH
from cuenv.solve.environment_spec import EnvironmentSpec, Pin, requirement_name
from cuenv.solve.match_spec import parse_spec
from cuenv.solve.pip_part import loosened


def obeyed(spec: EnvironmentSpec, findings: Iterable[Finding]) -> tuple[EnvironmentSpec, tuple[Pin, ...]]:
    """The environment with the edits of the errors among findings, and the pins that they ask for."""
    asked: list[Pin] = []
    for item in findings:
        for edit in item.edits if item.severity == "error" else ():
            if edit.pip:
                spec = _in_pip(spec, edit)
            else:
                spec, pins = _in_dependencies(spec, edit)
                asked += pins
    return spec, tuple(asked)


def loosening(spec: EnvironmentSpec, item: Finding) -> Finding:
    """What is said of a pip part, with an edit that gives up the release of the line that is named, else of all named.

    It stays as it is where it has such an edit, or no line that it names asks for a release.
    """
    if item.code != "CU510" or any(edit.pip for edit in item.edits):
        return item
    looser = {name: text for line in spec.pip if (name := _name(line)) and (text := loosened(line))}
    others = filter(None, map(requirement_name, " ".join(item.evidence).split()))
    named = [item.subject] if item.subject in looser else [name for name in dict.fromkeys(others) if name in looser]
    edit = FileEdit(how="write", entries=tuple(looser[name] for name in named), pip=True)
    return replace(item, edits=(edit,)) if named else item


def _in_dependencies(spec: EnvironmentSpec, edit: FileEdit) -> tuple[EnvironmentSpec, tuple[Pin, ...]]:
    if edit.how == "remove":
        left = (pin for pin in spec.pins if not {pin.yaml_text(), pin.name} & set(edit.entries))
        return replace(spec, pins=tuple(left)), ()
    pins = tuple(map(parse_spec, edit.entries))
    if edit.how == "add":
        return _bounded(spec, pins), pins
    if edit.near:
        releases = {pin.name: pin.version for pin in pins}
        moved = (
            replace(pin, version=releases[pin.name], build="") if pin.name in releases else pin for pin in spec.pins
        )
        return replace(spec, pins=tuple(moved)), ()
    fresh = {pin.name: pin for pin in pins}
    names = {edit.over, *fresh}
    # each stands where its name stood, and what is new at the end
    stays = (fresh.pop(pin.name, pin) for pin in spec.pins if pin.name in fresh or pin.name not in names)
    return replace(spec, pins=(*stays, *fresh.values())), pins


def _bounded(spec: EnvironmentSpec, pins: tuple[Pin, ...]) -> EnvironmentSpec:
    """An environment with further bounds; a release that is at odds with them is given up."""
    wanted = {pin.name: pin for pin in pins}
    free = tuple(
        replace(pin, version="", build="")
        if pin.name in wanted and not (_is_range(pin) and _is_range(wanted[pin.name]))
        else pin
        for pin in spec.pins
    )
    return narrowed(replace(spec, pins=free), pins)


def _is_range(pin: Pin) -> bool:
    return pin.version[:1] in tuple("<>!~")


def _in_pip(spec: EnvironmentSpec, edit: FileEdit) -> EnvironmentSpec:
    """The pip part after an edit; beside another torch, torchvision and torchaudio are those that are made for it."""
    lines = spec.pip
    for text in edit.entries:
        name = _name(text)
        if edit.how == "write":
            lines = tuple(_like(line, text) if name and name == _name(line) else line for line in lines)
            if name == "torch":
                lines = tuple((loosened(line) or line) if _name(line) in OF_TORCH else line for line in lines)
        else:
            new = (text,) if edit.how == "add" else ()
            gone = (text,) if name is None or not new else tuple(line for line in lines if name == _name(line))
            lines = (*new, *(line for line in lines if line not in gone))
    return replace(spec, pip=lines)


_PARTS = regex(r"\s*([\w.-]+)\s*(\[[^\]]*\])?[^;]*(;.*)?")  # the name, the extras and the condition of a requirement


def _like(line: str, text: str) -> str:
    """A requirement in the place of a line, with the extras and the condition of that, where it has none itself."""
    old, new = _PARTS.fullmatch(line), _PARTS.fullmatch(text)
    if old is None or new is None or new[2] or new[3] or "@" in text:
        return text
    return f"{new[1]}{old[2] or ''}{text.strip()[len(new[1]) :]}{f' {old[3]}' if old[3] else ''}"


def _name(line: str) -> str | None:
    """The package that a line of the pip part asks for; ``None`` of an option."""
    return None if line.startswith("-") else requirement_name(line) or None
