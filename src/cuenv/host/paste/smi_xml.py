"""What ``nvidia-smi -q -x`` prints, read by expat without any entity; one that is cut is read as far as it goes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from xml.parsers.expat import ExpatError, ParserCreate

from cuenv.core.regex import regex
from cuenv.host.paste.told import DRIVER, LEVEL, PasteReader, Told, shown

MARKS = ("<nvidia_smi_log>", "nvsmi_device_v")
_PATHS = {
    "driver_version": ("driver.version", regex(rf"({DRIVER})(?: \[.*)?")),
    "kmd_version": ("driver.version", regex(rf"({DRIVER})")),
    "cuda_version": ("driver.cuda", regex(rf"({LEVEL})(?: \[.*)?")),
    "cuda_umd_version": ("driver.cuda", regex(rf"({LEVEL})")),
    "gpu/product_name": ("gpu.name", regex(r"(.{2,80})")),
    "gpu/fb_memory_usage/total": ("gpu.memory", regex(r"([0-9]{3,8}) MiB")),
    "gpu/mig_mode/current_mig": ("gpu.mig", regex(r"(Enabled|Disabled)")),
    "gpu/pci/pci_device_id": ("gpu.pci", regex(r"([0-9A-F]{8})")),
    "gpu/driver_model/current_dm": ("driver.model", regex(r"(WDDM|TCC|MCDM)")),
}
_DEEPEST = 64


def looks_like(text: str) -> bool:
    """Whether nvidia-smi printed it as XML."""
    return "<nvidia_smi_log>" in text


def read(text: str) -> tuple[Told, ...]:
    """Driver, the CUDA release that it shows, and GPUs."""
    begin = text.find("<nvidia_smi_log>")
    end = text.find("</nvidia_smi_log>", begin)
    if begin < 0:
        return ()
    first = text.count("\n", 0, begin)
    return tuple(_elements(text[begin : len(text) if end < 0 else end + len("</nvidia_smi_log>")], first))


def _elements(text: str, first: int) -> Iterator[Told]:
    reading = _SmiElements(first)
    with suppress(ExpatError, _OddXmlError):  # what came before counts: a paste may be cut anywhere
        reading.parser.Parse(text.encode("utf-8", "replace"), True)
    return iter(reading.told)


class _OddXmlError(Exception):
    """The document declares or uses what nvidia-smi never writes."""


class _SmiElements:
    """The texts of the elements that tell something."""

    def __init__(self, first: int) -> None:
        self.told: list[Told] = []
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
        says = shown(f"<{name}>{self.text.strip()}</{name}>")
        if fact == "driver.model" and found:
            self.told.append(Told("system", "Windows", line, says))
        elif found:
            self.told.append(Told(fact, found[1], line, says, str(self.gpu) if fact.startswith("gpu") else ""))
        self.path.pop()
        self.text = ""


READER = PasteReader("nvidia-smi -q -x", MARKS, 200, looks_like, read)
