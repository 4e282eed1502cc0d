"""The JSON of `cuenv scan`; see `cuenv.core.documents`."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict


class PtxFields(TypedDict):
    """PTX of one architecture and version, and how many objects hold it."""

    arch: str
    isa: str
    objects: int


class CodeObjects(TypedDict):
    """The device code that objects hold together."""

    sass: list[str]  # architectures of machine code
    ptx: list[PtxFields]
    lto: list[str]
    tile: list[str]
    objects: int  # how many there are
    everywhere: list[str]  # machine code that every object has
    partial: dict[str, int]  # machine code that only some objects have, and how many


class SectionObjects(CodeObjects):
    """Device code in a section where none is expected."""

    section: str


class ObjectPlace(TypedDict):
    """An object by its place in the file."""

    object: int
    section: str
    offset: int


class ScannedGpu(TypedDict):
    """The device code in a file for one GPU."""

    capability: str
    outcome: Literal["native", "jit", "partly", "nothing"]
    native: int  # objects with machine code for it
    jit: int  # objects that the driver compiles
    beyond_driver: list[ObjectPlace]  # objects whose PTX is too new for the driver
    nothing: list[ObjectPlace]  # objects without code for it
    by: list[str]  # the targets that support it
    needs_cuda: str | None
    needs_driver: str | None
    unknown_isa: str | None  # the version of PTX that no table knows


class ScannedBinary(CodeObjects):
    """One file."""

    path: str
    machine: str  # the architecture of the file
    bare: int  # containers without a loader's entry
    possible: CodeObjects | None  # relocatable code, which a linker has to finish
    elsewhere: list[SectionObjects] | None  # with --deep: code outside of the usual sections
    gpus: list[ScannedGpu]


class SkippedFile(TypedDict):
    """A file that could not be read."""

    path: str
    fault: Literal["foreign", "unsupported", "damaged", "unreadable"]
    reason: str


class ScanDocument(TypedDict):
    """What `cuenv scan` found."""

    schema: Literal["cuenv/scan/1"]
    host: str
    files: list[ScannedBinary]
    skipped: list[SkippedFile]
    without_device_code: int  # how many ELF files have none
    other_files: int  # how many files are no ELF files
