"""Read the output of ``nvidia-smi``: the table, ``-q``, ``-L``, ``--query-gpu``, ``--version``, and ``-q -x``.

expat reads the XML without entities; a truncated document is read up to its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from xml.parsers.expat import ExpatError, ParserCreate

from cuenv.core.regex import regex
from cuenv.host.paste.reader import CUDA_RELEASE, DRIVER_VERSION, PastedFact, PasteReader, evidence_text, numbered_lines

MARKS = (
    *(
        "NVIDIA-SMI",
        "NVSMI LOG",
        "(UUID: GPU-",
        "driver_version",
        "Driver Version: ",
        "Driver Version   ",
        "DRIVER_VERSION version",
    ),
    *("MiB |", " MiB,", "NVML library version", "Kernel Module  ", "compute_cap"),
)
_HEADER = regex(r"NVIDIA-SMI +[1-9][0-9.]+ +(?:Driver|KMD) Version:")
_HEADED = (
    ("driver.version", regex(rf"(?:Driver|KMD) Version: *({DRIVER_VERSION})\b")),
    ("driver.cuda", regex(rf"CUDA (?:UMD )?Version: *({CUDA_RELEASE}\b(?!\.)|N/A|ERR!)")),
    ("wsl", regex(r"NVIDIA-SMI +([1-9][0-9.]+) +Driver Version: *(?!\1)[1-9]")),
)
_NAMING = (
    ("driver.version", regex(rf"(?:Driver|DRIVER|KMD) [Vv]ersion *: *({DRIVER_VERSION})\b")),
    ("driver.cuda", regex(rf"\bCUDA (?:UMD )?[Vv]ersion *: *({CUDA_RELEASE})\b")),
    ("gpu.name", regex(r"Product Name +: (\S.*)")),
    ("gpu.name", regex(r"(?:\bGPU (?P<about>[0-9]{1,2}): )(?P<value>\S.{1,60}?) \(UUID: GPU-")),
    ("driver.library", regex(r"NVML library version: ([1-9][0-9]{2}\.[0-9]{1,3}(?:\.[0-9]{1,3})?)\b")),
)
_ROW = regex(r"\| {1,6}([0-9]{1,2}) {1,4}(\S.{1,40}?) +(On|Off|N/A|WDDM|TCC|MCDM) *\|")
_MEMORY = regex(r"/ *([0-9]{3,8}) ?MiB *\|")
_NAMED = regex(r"(?:NVIDIA|Tesla|GeForce|Quadro|GRID|Graphics Device)\b.*")
_BRAND = "(?:NVIDIA|Tesla|GeForce|Quadro) "
_QUERIED = regex(
    rf"(?m)^(?:[^,\n]{{1,60}}, *){{0,3}}{_BRAND}[^,\n]{{2,60}}, *(?:{DRIVER_VERSION}|[0-9.]+)"
    rf"|^(?:[0-9]{{1,2}}, *)?{DRIVER_VERSION}, *{_BRAND}"
)
_WINDOWS = ("WDDM", "TCC", "MCDM")


def looks_like(text: str) -> bool:
    """Whether nvidia-smi printed the text, or the text names a driver or a GPU as nvidia-smi does."""
    return any(mark in text for mark in MARKS) or _QUERIED.search(text) is not None


def read(text: str) -> tuple[PastedFact, ...]:
    """Driver, the CUDA release that it shows, and GPUs."""
    return (*_lines(text), *_csv(text))


def _lines(text: str) -> Iterator[PastedFact]:
    gpu = last = ""
    log = _Log()
    for number, line in numbered_lines(text):
        says = evidence_text(line)
        if row := _ROW.search(line):
            gpu = last = row[1]
            yield PastedFact("gpu.name", row[2], number, says, gpu)
            if row[3] in _WINDOWS:
                yield PastedFact("system", "Windows", number, says)
        elif gpu and (memory := _MEMORY.search(line)):
            yield PastedFact("gpu.memory", memory[1], number, says, gpu)
            gpu = ""
        elif last and (mode := _MODE.search(line)):
            yield PastedFact("gpu.mig", mode[1], number, says, last)
        elif named := _NAMED_LINE.search(line):
            last = named[1]
        elif last and (slice_ := _SLICE.search(line)):
            yield PastedFact("gpu.mig", "Enabled", number, says, last)
            yield PastedFact("gpu.slice", slice_[1], number, says, last)
        yield from log.read(line, number, says)
        header = _HEADER.search(line)
        for fact, pattern in _HEADED if header else _NAMING:
            found = pattern.search(line)
            value = (found.groupdict().get("value") or next(filter(None, found.groups()), "")).strip() if found else ""
            if found and value:
                about = found.groupdict().get("about") or log.gpu or f"line {number}"
                yield PastedFact(fact, value, number, says, about if fact == "gpu.name" else "")


class _Log:
    """The GPU and the section to which a line of ``nvidia-smi -q`` belongs."""

    def __init__(self) -> None:
        self.gpu = ""
        self.section = ""

    def read(self, line: str, number: int, says: str) -> Iterator[PastedFact]:
        """The facts of a line that depend on its section: memory, MIG mode, PCI id."""
        if "NVSMI LOG" in line or line.startswith("Attached GPUs"):
            self.gpu = ""
        elif _HEADING.match(line):
            self.gpu = str(int(self.gpu) + 1) if self.gpu else "0"
        if not self.gpu:
            return
        section = _SECTION.match(line)
        self.section = section[1] if section else self.section
        for fact, of, pattern in _SECTIONED:
            found = pattern.match(line) if self.section == of else None
            if found:
                windows = fact == "system"
                yield PastedFact(fact, "Windows" if windows else found[1], number, says, "" if windows else self.gpu)


_HEADING = regex(r"GPU [0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-9]\s*$")
_SECTION = regex(r" {4}([A-Z][\w ()/-]{1,40}?)\s*$")
_SECTIONED = (
    ("gpu.memory", "FB Memory Usage", regex(r" {8}Total +: ([0-9]{3,8}) MiB")),
    ("gpu.mig", "MIG Mode", regex(r" {8}Current +: (Enabled|Disabled)")),
    ("system", "Driver Model", regex(r" {8}Current +: (WDDM|TCC|MCDM)\b")),
    ("gpu.pci", "PCI", regex(r" {8}Device Id +: 0x([0-9A-F]{8})\b")),
)
_MODE = regex(r"^\|\s+\|\s+\|\s+(Enabled|Disabled)\*? *\|")
_NAMED_LINE = regex(r"\bGPU ([0-9]{1,2}): .{1,80}\(UUID: GPU-")
_SLICE = regex(r"^\s+MIG ([1-9][0-9]?c?\.?[1-9]?g\.[0-9]{1,3}gb\S*) +Device")

_COLUMNS = {
    "name": "gpu.name",
    "gpu_name": "gpu.name",
    "driver_version": "driver.version",
    "kmd_version": "driver.version",
    "compute_cap": "gpu.capability",
    "memory.total": "gpu.memory",
    "pci.device_id": "gpu.pci",
    "mig.mode.current": "gpu.mig",
}
_VERSION = regex(DRIVER_VERSION)
_DEVICE = regex(r"0x([0-9A-F]{8})")
_ONOFF = regex(r"Enabled|Disabled")
_CAPABILITY = regex(r"[1-9][0-9]?\.[0-9]")
_MIB = regex(r"([0-9]{3,7}) ?(?:MiB)?")


def _csv(text: str) -> Iterator[PastedFact]:
    """The rows of ``--query-gpu``, by their header, otherwise by the format of their cells."""
    header: list[str] = []
    at = 0
    for number, line in numbered_lines(text):
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) < 2 or len(line) > 20_000:
            continue
        names = [cell.partition(" [")[0] for cell in cells]
        if len(set(names) & _COLUMNS.keys()) >= 2 and not any(_NAMED.match(cell) for cell in cells):
            header, at = names, number
            continue
        named = header and len(cells) == len(header)
        found = dict(_by_header(header, cells) if named else _by_shape(cells))
        if "gpu.name" not in found or (len(found) < 2 and not named):
            continue
        index = str(number - at - 1)
        for fact, value in found.items():
            yield PastedFact(fact, value, number, evidence_text(line), "" if fact.startswith("driver") else index)


def _by_header(header: list[str], cells: list[str]) -> Iterator[tuple[str, str]]:
    shapes = {
        "driver.version": _VERSION,
        "gpu.capability": _CAPABILITY,
        "gpu.memory": _MIB,
        "gpu.name": _NAMED,
        "gpu.pci": _DEVICE,
        "gpu.mig": _ONOFF,
    }
    for name, cell in zip(header, cells, strict=True):
        fact = _COLUMNS.get(name)
        shape = shapes[fact].fullmatch(cell) if fact else None
        if fact and shape:
            yield fact, shape[1] if shape.re.groups else cell


def _by_shape(cells: list[str]) -> Iterator[tuple[str, str]]:
    for cell in cells:
        if _NAMED.fullmatch(cell):
            yield "gpu.name", cell
        elif _VERSION.fullmatch(cell):
            yield "driver.version", cell
        elif _CAPABILITY.fullmatch(cell):
            yield "gpu.capability", cell
        elif cell.endswith("MiB") and (memory := _MIB.fullmatch(cell)):
            yield "gpu.memory", memory[1]


READER = PasteReader("nvidia-smi", MARKS, 90, looks_like, read)


_XML_MARKS = ("<nvidia_smi_log>", "nvsmi_device_v")
_PATHS = {
    "driver_version": ("driver.version", regex(rf"({DRIVER_VERSION})(?: \[.*)?")),
    "kmd_version": ("driver.version", regex(rf"({DRIVER_VERSION})")),
    "cuda_version": ("driver.cuda", regex(rf"({CUDA_RELEASE})(?: \[.*)?")),
    "cuda_umd_version": ("driver.cuda", regex(rf"({CUDA_RELEASE})")),
    "gpu/product_name": ("gpu.name", regex(r"(.{2,80})")),
    "gpu/fb_memory_usage/total": ("gpu.memory", regex(r"([0-9]{3,8}) MiB")),
    "gpu/mig_mode/current_mig": ("gpu.mig", regex(r"(Enabled|Disabled)")),
    "gpu/pci/pci_device_id": ("gpu.pci", regex(r"([0-9A-F]{8})")),
    "gpu/driver_model/current_dm": ("driver.model", regex(r"(WDDM|TCC|MCDM)")),
}
_DEEPEST = 64


def _looks_like_xml(text: str) -> bool:
    """Whether the text contains XML of nvidia-smi."""
    return "<nvidia_smi_log>" in text


def _read_xml(text: str) -> tuple[PastedFact, ...]:
    """Driver, the CUDA release that it shows, and GPUs."""
    begin = text.find("<nvidia_smi_log>")
    end = text.find("</nvidia_smi_log>", begin)
    if begin < 0:
        return ()
    first = text.count("\n", 0, begin)
    return tuple(_elements(text[begin : len(text) if end < 0 else end + len("</nvidia_smi_log>")], first))


def _elements(text: str, first: int) -> Iterator[PastedFact]:
    reading = _SmiElements(first)
    with suppress(ExpatError, _OddXmlError):  # the part before the error is kept, because pasted text may be truncated
        reading.parser.Parse(text.encode("utf-8", "replace"), True)
    return iter(reading.told)


class _OddXmlError(Exception):
    """The document contains something that nvidia-smi never writes."""


class _SmiElements:
    """Collects the facts in the elements of the XML."""

    def __init__(self, first: int) -> None:
        self.told: list[PastedFact] = []
        self.first = first
        self.path: list[str] = []
        self.text = ""
        self.gpu = -1
        self.parser = ParserCreate("utf-8")
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.data
        self.parser.StartDoctypeDeclHandler = self.refuse
        self.parser.EntityDeclHandler = self.refuse
        self.parser.ExternalEntityRefHandler = self.refuse

    def refuse(self, *_: object) -> int:
        raise _OddXmlError

    def start(self, name: str, _attributes: object) -> None:
        self.path.append(name)
        self.text = ""
        if len(self.path) > _DEEPEST:
            raise _OddXmlError
        if self.path[1:] == ["gpu"]:
            self.gpu += 1

    def data(self, text: str) -> None:
        self.text = (self.text + text)[:200]

    def end(self, name: str) -> None:
        fact, shape = _PATHS.get("/".join(self.path[1:]), ("", None))
        found = shape.fullmatch(self.text.strip()) if shape else None
        line = self.first + self.parser.CurrentLineNumber
        says = evidence_text(f"<{name}>{self.text.strip()}</{name}>")
        if fact == "driver.model" and found:
            self.told.append(PastedFact("system", "Windows", line, says))
        elif found:
            self.told.append(PastedFact(fact, found[1], line, says, str(self.gpu) if fact.startswith("gpu") else ""))
        self.path.pop()
        self.text = ""


XML = PasteReader("nvidia-smi -q -x", _XML_MARKS, 200, _looks_like_xml, _read_xml)
