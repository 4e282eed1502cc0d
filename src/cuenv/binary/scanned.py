"""What scanning files for device code yields."""

from __future__ import annotations

from dataclasses import dataclass

from cuenv.binary.code import FileCode
from cuenv.binary.data import BinaryFault
from cuenv.binary.gpu_code import GpuCode
from cuenv.errors import ExitCode
from cuenv.facts import HostFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedFile:
    """A file with device code (or one that was named and has none), and what each GPU of the host gets of it."""

    path: str
    code: FileCode
    gpus: tuple[GpuCode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A file or folder that could not be read.

    Attributes:
        named: it was asked for by name, and not only found below a folder.
    """

    path: str
    reason: str
    fault: BinaryFault
    named: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanned:
    """What was scanned.

    Attributes:
        facts: the host.
        files: those with device code, by path.
        skipped: those that could not be read.
        plain: how many ELF files below the folders have no device code.
        others: how many further files there are.
    """

    facts: HostFacts
    files: tuple[ScannedFile, ...]
    skipped: tuple[Skipped, ...]
    plain: int
    others: int

    @property
    def exit(self) -> ExitCode:
        """Input when a named path could not be read; negative when a GPU gets nothing, or a file is damaged."""
        if any(item.named for item in self.skipped):
            return ExitCode.INPUT
        nothing = any(gpu.outcome == "nothing" for item in self.files for gpu in item.gpus)
        broken = any(item.fault in ("damaged", "unreadable") for item in self.skipped)
        return ExitCode.NEGATIVE if nothing or broken else ExitCode.OK
