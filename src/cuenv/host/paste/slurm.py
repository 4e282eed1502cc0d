"""Read the nodes of Slurm: ``scontrol show node``, ``sinfo -o '%N|%G|%f'`` and both as JSON.

The type of a gres is free text: with AutoDetect=nvml it is the name of the GPU, otherwise the administrator's choice.
Slurm knows no driver and no C library; some sites name the driver in the features of a node.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from cuenv.core.findings import counted
from cuenv.core.regex import regex
from cuenv.host.paste.reader import (
    DRIVER_VERSION,
    DocumentReader,
    PastedFact,
    PasteReader,
    as_text,
    evidence_text,
    numbered_lines,
)

MOST_NODES = 100_000  # the most nodes in one list
_MOST_GPUS = 1024  # the most GPUs of one node

MARKS = ("NodeName=", "NODELIST|", "|gpu:", "|(null)")
_FREE = regex(r"\s(?:Reason|Comment|Extra)=")
_OS = regex(r"\sOS=")
_FIELDS = {key: regex(rf"(?<=\s){key}=(\S*)") for key in ("Arch", "Gres", "State")}
_KERNEL = regex(r"Linux ([0-9]\S{2,80})")
_ROW = regex(
    r"^([A-Za-z0-9][\w.,\[\]-]{0,4000})\|((?:\(null\)|[a-z][\w.:()/, -]{0,2000}))"
    r"(?:\|(?P<features>[^|]{0,4000}))?(?:\||$)"
)
_FEATURES = regex(r"\s(?:ActiveFeatures|AvailableFeatures|Features)=(\S*)")
_DRIVER = regex(rf"(?i)(?:nvidia[-_.]?)?(?:drv|driver)[-_.:]?v?({DRIVER_VERSION}|[1-9][0-9]{{2}})")
"""A feature that names the driver, such as ``driver-535`` or ``nvidia_driver_550.54.15``."""
_GRES = regex(r"gpu(?::(?P<type>[A-Za-z][\w.+-]{0,100}))?(?::(?P<count>[0-9]{1,4}))?(?:\([^()]{0,200}\))?")
_PART = regex(r"[^,(]+(?:\([^)]*\))?")
_SLICES = regex(r"(?i)(.+?)[_-](?:mig[_-])?([1-9]g\.[0-9]{1,3}gb)")
_MACHINES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}


def looks_like(text: str) -> bool:
    """Whether scontrol or sinfo printed it."""
    return "NodeName=" in text or (
        "|" in text and any(_ROW.match(line) for _, line in numbered_lines(text) if "|" in line)
    )


def read(text: str) -> tuple[PastedFact, ...]:
    """The nodes with their GPUs."""
    return (*_scontrol_nodes(text), *_sinfo_rows(text))


def _scontrol_nodes(text: str) -> Iterator[PastedFact]:
    """The nodes of ``scontrol show node``; free text of an administrator that looks like a field is ignored."""
    nodes: list[tuple[int, list[str]]] = []
    for number, line in numbered_lines(text):
        if line.startswith("NodeName="):
            nodes.append((number, [line]))
        elif nodes and line[:1].isspace():
            nodes[-1][1].append(line)
    for first, lines in nodes:
        for name in expand_nodes(lines[0].partition("=")[2].split(" ", 1)[0]):
            yield from _scontrol_node("\n".join(lines), first, name)


def _scontrol_node(record: str, first: int, name: str) -> Iterator[PastedFact]:
    free = _FREE.search(record)
    record = record[: free.start()] if free else record
    system = _OS.search(record)
    front = record[: system.start()] if system else record
    for key, part in (("Arch", front), ("Gres", front), ("State", record)):
        found = _FIELDS[key].search(part)
        if found:
            yield from _field(key, found[1], first + part.count("\n", 0, found.start(1)), f"{name}: {found[0]}", name)
    features = _FEATURES.search(front)
    if features:
        line = first + front.count("\n", 0, features.start(1))
        yield from _driver_in_features(features[1], line, evidence_text(f"{name}: {features[0].strip()}"), name)
    kernel = _KERNEL.match(record, system.end()) if system else None
    if kernel:
        line = first + record.count("\n", 0, kernel.start())
        yield PastedFact("kernel", kernel[1], line, evidence_text(f"{name}: OS={kernel[0]}"), "", name)


def _sinfo_rows(text: str) -> Iterator[PastedFact]:
    for number, line in numbered_lines(text):
        row = _ROW.match(line) if "|" in line else None
        if row is None or row[1] == "NODELIST":
            continue
        for name in expand_nodes(row[1]):
            yield from _field("Gres", row[2], number, evidence_text(line), name)
            yield from _driver_in_features(row["features"] or "", number, evidence_text(line), name)


def _field(key: str, value: str, line: int, says: str, host: str) -> Iterator[PastedFact]:
    if key == "Arch":
        yield PastedFact("machine", _MACHINES.get(value, value), line, says, "", host)
    elif key == "State":
        yield PastedFact("state", value, line, says, "", host)
    else:
        yield from gpus_of(value, line, evidence_text(says), host)


def gpus_of(gres: str, line: int, says: str, host: str) -> Iterator[PastedFact]:
    """The GPUs in a gres such as ``gpu:a100:4(S:0-1)``, ``gpu:2`` or ``(null)``."""
    at = 0
    for part in _PART.findall(gres):
        found = _GRES.fullmatch(part.strip())
        if found is None:
            continue
        count = min(int(found["count"] or 1), _MOST_GPUS)
        name = (found["type"] or "").replace("_", " ")
        slices = _SLICES.fullmatch(found["type"] or "")
        if slices:
            name = f"{slices[1].replace('_', ' ')} MIG {slices[2]}"
        if not name and count:
            reason = f"line {line} counts {counted(count, 'GPU')} without a type"
            yield PastedFact("gap", reason, line, says, "gpus", host)
        for _ in range(count):
            yield PastedFact("gpu.name" if name else "gpu", name, line, says, str(at), host)
            at += 1
    if not at:
        yield PastedFact("gpus.none", gres or "(null)", line, says, "", host)


def _driver_in_features(features: str, line: int, says: str, host: str) -> Iterator[PastedFact]:
    for feature in features.split(","):
        if found := _DRIVER.fullmatch(feature.strip()):
            yield PastedFact("driver.version", found[1], line, says, "", host)


_GROUP = regex(r"\[([0-9,-]{1,4000})\]")
_SEPARATOR = regex(r",(?![^\[]*\])")


def expand_nodes(nodes: str) -> tuple[str, ...]:
    """The names in a list of nodes such as ``gpu[01-04,07],login1``; invalid parts stay unchanged."""
    found: list[str] = []
    for part in _SEPARATOR.split(nodes):
        pieces = _GROUP.split(part)
        choices = [_numbers(piece) if at % 2 else [piece] for at, piece in enumerate(pieces)]
        size = 1
        for choice in choices:
            size *= len(choice)
        if size > MOST_NODES - len(found):
            return (*found, part)
        found += ["".join(item) for item in product(*choices)] if part else []
    return tuple(found)


def _numbers(text: str) -> list[str]:
    found: list[str] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not dash or not first.isdigit() or not last.isdigit() or int(last) - int(first) > MOST_NODES:
            found.append(part)
            continue
        found += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return found


def looks_like_document(data: object) -> bool:
    """Whether ``scontrol`` or ``sinfo`` printed this JSON."""
    if not isinstance(data, dict):
        return False
    rows = data.get("nodes", data.get("sinfo"))
    return isinstance(rows, list) and all(isinstance(row, dict) for row in rows) and any("gres" in row for row in rows)


def read_document(data: Any, line: int) -> tuple[PastedFact, ...]:
    """The nodes of a document."""
    return tuple(item for row in data.get("nodes") or data.get("sinfo") or () for item in _json_node(row, line))


def _json_node(row: dict[str, Any], line: int) -> Iterator[PastedFact]:
    gres = row.get("gres")
    gres = gres.get("total") if isinstance(gres, dict) else gres
    listed = row.get("nodes")
    inner = listed.get("nodes") if isinstance(listed, dict) else None
    names = [row["name"]] if isinstance(row.get("name"), str) else inner if isinstance(inner, list) else []
    for name in (item for text in names if isinstance(text, str) for item in expand_nodes(text)):
        yield from gpus_of(as_text(gres), line, evidence_text(f"{name}: gres {as_text(gres) or '(null)'}"), name)
        told = row.get("active_features") or row.get("features")
        told = told.get("total") if isinstance(told, dict) else told
        features = ",".join(map(as_text, told)) if isinstance(told, list) else as_text(told)
        yield from _driver_in_features(features, line, evidence_text(f"{name}: features {features}"), name)
        machine = _MACHINES.get(as_text(row.get("architecture")))
        if machine:
            yield PastedFact("machine", machine, line, evidence_text(f"{name}: architecture {machine}"), "", name)
        kernel = _KERNEL.match(as_text(row.get("operating_system")))
        if kernel:
            yield PastedFact("kernel", kernel[1], line, evidence_text(f"{name}: {kernel[0]}"), "", name)
        states = row.get("state")
        state = "+".join(map(as_text, states)) if isinstance(states, list) else as_text(states)
        if state:
            yield PastedFact("state", state, line, evidence_text(f"{name}: state {state}"), "", name)


READER = PasteReader("Slurm", MARKS, 12, looks_like, read)
DOCUMENT = DocumentReader("Slurm's JSON", looks_like_document, read_document)
