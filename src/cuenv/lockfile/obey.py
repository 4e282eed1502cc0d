"""Obey: an environment file as the findings on it say that it should be."""

from __future__ import annotations

from collections.abc import Iterable

from cuenv.core.findings import Finding
from cuenv.core.record import replace
from cuenv.core.regex import regex
from cuenv.lockfile.coverage import narrowed
from cuenv.solve.environment_spec import EnvironmentSpec, Pin, requirement_name
from cuenv.solve.match_spec import parse_spec
from cuenv.solve.pip_part import loosened

_ADD = regex(r"add to dependencies: (.+)")
_ADD_PIP = regex(r"add to the pip part: (.+)")
_WRITE_PIP = regex(r"(?:in the pip part, write (.+)|write (.+) in the pip part)")
_WRITE = regex(r"write (\S+)(?: .*)?")
_TAKE = regex(r"take (.+?) out of the (dependencies|pip part)")
_BOUND = regex(r"pin (\S+) to a release that meets (\S+), and resolve again")
_PARTNER = regex(r"take (\S+), which is made for this torch")
_WHEEL = regex(r"(?:install .*, or )?with pip: (\S+)(?: from (--extra-index-url \S+))?")
_PAIRS = ("torchvision", "torchaudio")
_RANGE = regex(r"[A-Za-z0-9._-]+(?:\[[^\]]*\])?\s*(.*)")


def obeyed(spec: EnvironmentSpec, findings: Iterable[Finding]) -> tuple[EnvironmentSpec, tuple[Pin, ...]]:
    """The environment with what the errors among findings say that mends them, and the pins that they ask for."""
    asked: list[Pin] = []
    for item in findings:
        if item.severity == "error" and item.fix:
            spec, pins = _one(spec, item.fix)
            asked += pins
    return spec, tuple(asked)


def _one(spec: EnvironmentSpec, fix: str) -> tuple[EnvironmentSpec, tuple[Pin, ...]]:
    if found := _TAKE.fullmatch(fix):
        return _without(spec, found[1], pip=found[2] == "pip part"), ()
    if found := _ADD_PIP.fullmatch(fix):
        name = "" if found[1].startswith("-") else requirement_name(found[1])
        lines = (text for text in spec.pip if text != found[1] and not (name and requirement_name(text) == name))
        return replace(spec, pip=(found[1], *lines)), ()
    if found := _WRITE_PIP.fullmatch(fix):
        return _with_requirement(spec, found[1] or found[2]), ()
    if found := _PARTNER.fullmatch(fix):
        return _with_partner(spec, found[1]), ()
    if found := _WHEEL.fullmatch(fix):
        return _with_wheel(spec, found[1], found[2]), ()
    if found := _ADD.fullmatch(fix):
        pins = _pins(found[1].replace(" and ", ", "))
        return _bounded(spec, pins), pins
    if found := _BOUND.fullmatch(fix):
        condition = _RANGE.fullmatch(found[2])
        pins = _pins(f"{found[1]}{condition[1]}") if condition and condition[1] else ()
        return _bounded(spec, pins), pins
    if found := _WRITE.fullmatch(fix):
        pins = _pins(found[1])
        rest = [pin for pin in spec.pins if pin.name not in {item.name for item in pins}]
        return (replace(spec, pins=(*rest, *pins)), pins) if pins else (spec, ())
    return spec, ()


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


def _pins(text: str) -> tuple[Pin, ...]:
    """The conda requirements of a fix, joined by ``, ``; none where one of them cannot be read."""
    try:
        return tuple(map(parse_spec, text.split(", ")))
    except ValueError:
        return ()


def _without(spec: EnvironmentSpec, entry: str, *, pip: bool) -> EnvironmentSpec:
    if pip:
        return replace(spec, pip=tuple(text for text in spec.pip if text != entry))
    return replace(spec, pins=tuple(pin for pin in spec.pins if entry not in (pin.yaml_text(), pin.name)))


def _with_partner(spec: EnvironmentSpec, text: str) -> EnvironmentSpec:
    """The release of a library that is made for the torch of a file; where it is not there, the nearest will do."""
    (wanted, *_) = _pins(text) or (None,)
    if wanted and spec.pin(wanted.name):
        moved = (
            replace(pin, version=wanted.version, build="") if pin.name == wanted.name else pin for pin in spec.pins
        )
        return replace(spec, pins=tuple(moved))
    return _with_requirement(spec, text)


def _with_wheel(spec: EnvironmentSpec, text: str, index: str | None) -> EnvironmentSpec:
    """Another wheel of torch; torchvision and torchaudio are those of that release, which their requirements say."""
    free = tuple(
        (loosened(line) or line) if requirement_name(line) in _PAIRS and not line.startswith("-") else line
        for line in spec.pip
    )
    moved = _with_requirement(replace(spec, pip=free), text)
    return replace(moved, pip=tuple(dict.fromkeys((*([index] if index else []), *moved.pip))))


def _with_requirement(spec: EnvironmentSpec, text: str) -> EnvironmentSpec:
    name = requirement_name(text)
    return replace(spec, pip=tuple(text if requirement_name(line) == name else line for line in spec.pip))
