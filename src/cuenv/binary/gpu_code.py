"""What each GPU gets of the device code in a file, and what scanning many files yields."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath
from shlex import quote
from typing import TYPE_CHECKING, Literal

from packaging.version import Version

from cuenv.binary.code import CodeObject, Entry, FileCode, Summary, by_section, summary
from cuenv.binary.data import BinaryError, BinaryFault
from cuenv.binary.io.binaries import Unlisted, files_below, may_be_binary, scan
from cuenv.core.errors import ExitCode, Progress
from cuenv.core.findings import counted, first_of
from cuenv.core.io.files import is_folder
from cuenv.core.record import dataclass
from cuenv.core.versions import Capability, DeviceCode, Jit, Native, Target, support_of, version
from cuenv.host.describe import host_line
from cuenv.host.facts import HostFacts
from cuenv.host.select import HostOptions, host_facts
from cuenv.knowledge.base import Knowledge

if TYPE_CHECKING:
    from cuenv.binary.documents import CodeObjects, ObjectPlace, ScanDocument, ScannedBinary, ScannedGpu, SectionObjects


Outcome = Literal["native", "jit", "partly", "nothing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuCode:
    """How the objects of a file support one GPU; each object counts once."""

    capability: Capability  # of the GPU
    objects: int  # how many there are
    native: int  # with machine code that runs on it
    jit: int  # with PTX alone that its driver compiles (or may compile, where the driver is not known)
    beyond: tuple[int, ...]  # indexes of those whose PTX the driver does not know
    missing: tuple[int, ...]  # indexes of those with nothing for it
    by: tuple[Target, ...]  # targets whose machine code or PTX is taken
    # the highest CUDA release that a driver must speak to compile the PTX; ``None`` when none is needed, or when the
    # tables do not know the ISA (``unknown_isa``)
    needs: Version | None = None
    driver: str | None = None  # the first driver that supports it
    unknown_isa: str | None = None  # an ISA that no row of the tables has

    @property
    def outcome(self) -> Outcome:
        """One word: ``native`` and ``jit`` are about the whole file, ``partly`` about some of its objects."""
        if self.native == self.objects:
            return "native"
        if self.native + self.jit == self.objects:
            return "jit"
        return "partly" if self.native + self.jit else "nothing"


@dataclass(frozen=True, slots=True)
class HostGpu:
    """A compute capability of a host, and the CUDA version of its driver (the lowest in a pool)."""

    capability: Capability
    level: Version | None


def host_gpus(facts: HostFacts) -> tuple[HostGpu, ...]:
    """The distinct capabilities of a host, lowest first."""
    found: dict[Capability, list[Version | None]] = {}
    for machine in facts.machines:
        level = machine.driver.cuda if machine.driver else None
        for capability in machine.capabilities:
            found.setdefault(capability, []).append(level)
    return tuple(
        HostGpu(capability, None if None in levels else min(item for item in levels if item))
        for capability, levels in sorted(found.items())
    )


def gpu_code(objects: tuple[CodeObject, ...], gpu: HostGpu, knowledge: Knowledge) -> GpuCode:
    """The code for a GPU in the objects of a file."""
    answers: dict[tuple[Entry, ...], _Answer] = {}
    native = jit = 0
    beyond: list[int] = []
    missing: list[int] = []
    for index, item in enumerate(objects):
        answer = answers.get(item.entries)
        if answer is None:
            answer = answers[item.entries] = _answer(item.entries, gpu.capability, knowledge)
        if answer.how == "native":
            native += 1
        elif answer.how == "nothing":
            missing.append(index)
        elif gpu.level is not None and answer.needs is not None and gpu.level < answer.needs:
            beyond.append(index)
        else:
            jit += 1
    needs = max((item.needs for item in answers.values() if item.needs), default=None)
    return GpuCode(
        capability=gpu.capability,
        objects=len(objects),
        native=native,
        jit=jit,
        beyond=tuple(beyond),
        missing=tuple(missing),
        by=tuple(sorted({item.by for item in answers.values() if item.by})),
        needs=needs,
        driver=knowledge.jit_driver(needs) if needs else None,
        unknown_isa=next((item.unknown for item in answers.values() if item.unknown), None),
    )


def release_of(isa: tuple[int, int], knowledge: Knowledge) -> Version | None:
    """The first CUDA release with this PTX ISA or a later one; ``None`` if it is newer than the tables."""
    wanted = version(f"{isa[0]}.{isa[1]}")
    return min((row.version for row in knowledge.cudas if row.isa and row.isa >= wanted), default=None)


@dataclass(frozen=True, slots=True)
class _Answer:
    how: Literal["native", "jit", "nothing"]
    by: Target | None = None
    needs: Version | None = None
    unknown: str | None = None


def _answer(entries: Iterable[Entry], device: Capability, knowledge: Knowledge) -> _Answer:
    useful = [entry for entry in entries if not entry.bare]
    sass = tuple(entry.target for entry in useful if entry.kind == "sass")
    ptx = tuple(entry.target for entry in useful if entry.kind == "ptx")
    service = support_of(DeviceCode(sass=sass, ptx=ptx), device)
    if isinstance(service, Native):
        return _Answer("native", service.target)
    if not isinstance(service, Jit):
        return _Answer("nothing")
    isa = min(entry.isa for entry in useful if entry.isa and entry.target == service.target)
    needs = release_of(isa, knowledge)
    return _Answer("jit", service.target, needs, None if needs else f"{isa[0]}.{isa[1]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedFile:
    """A file with device code (or a named file without any), and the code in it for each GPU of the host."""

    path: str
    code: FileCode
    gpus: tuple[GpuCode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A file or folder that could not be read."""

    path: str
    reason: str
    fault: BinaryFault
    named: bool  # it was asked for by name, and not only found below a folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanned:
    """The result of a scan: each file with GPU code, and how it supports the GPUs of a host."""

    facts: HostFacts  # the host
    files: tuple[ScannedFile, ...]  # those with device code, by path
    skipped: tuple[Skipped, ...]  # those that could not be read
    plain: int  # how many ELF files below the folders have no device code
    others: int  # how many further files there are

    @property
    def exit(self) -> ExitCode:
        """Input if a named path could not be read; negative if there is no code for a GPU, or a file is damaged."""
        if any(item.named for item in self.skipped):
            return ExitCode.INPUT
        nothing = any(gpu.outcome == "nothing" for item in self.files for gpu in item.gpus)
        broken = any(item.fault in ("damaged", "unreadable") for item in self.skipped)
        return ExitCode.NEGATIVE if nothing or broken else ExitCode.OK


_OUTCOME_TEXT = 25  # files between two words about how far it is


def scan_paths(
    paths: Sequence[str], options: HostOptions, knowledge: Knowledge, *, deep: bool = False, say: Progress | None = None
) -> Scanned:
    """Scan files, and folders with all that is below them.

    Args:
        deep: also look for code outside of the usual sections.

    Raises:
        BinaryError: none of the paths can be read.
        UsageError: an option names nothing that exists.
    """
    facts = host_facts(options, knowledge)
    gpus = host_gpus(facts)
    files: dict[str, ScannedFile] = {}
    skipped: list[Skipped] = []
    plain = others = 0
    first: BinaryError | None = None
    for number, (path, named) in enumerate(_expand_folders(paths)):
        if say is not None and (number % _OUTCOME_TEXT == 0 or named):
            say(f"scanning: {number} files, {len(files)} with device code")
        if isinstance(path, Unlisted):
            skipped.append(Skipped(path=path.path, reason=path.reason, fault="unreadable", named=named))
        elif not named and not may_be_binary(path):
            others += 1
        elif path not in files:
            try:
                code = scan(path, deep=deep)
            except BinaryError as error:
                first = first or error
                if not named and error.fault == "foreign":
                    others += 1
                else:
                    skipped.append(Skipped(path=path, reason=error.reason, fault=error.fault, named=named))
                continue
            if named or code.holds_code:
                served = tuple(gpu_code(code.objects, gpu, knowledge) for gpu in gpus) if code.objects else ()
                files[path] = ScannedFile(path=path, code=code, gpus=served)
            else:
                plain += 1
    if first and not files and not plain and not others and all(item.named for item in skipped):
        raise _with_hint(first, paths[0])
    return Scanned(
        facts=facts,
        files=tuple(item for _, item in sorted(files.items())),
        skipped=tuple(sorted(skipped, key=lambda item: item.path)),
        plain=plain,
        others=others,
    )


def _with_hint(error: BinaryError, path: str) -> BinaryError:
    """The error with a command that helps: for a file of another kind, scanning its folder."""
    if error.fault == "foreign":
        error.hint = f"cuenv scan {quote(str(PurePath(path).parent))}"
    return error


def _expand_folders(paths: Sequence[str]) -> Iterator[tuple[str | Unlisted, bool]]:
    """Each file and whether it was named; a folder that cannot be read counts as named if it was."""
    for path in dict.fromkeys(paths):
        if is_folder(path):
            for found in files_below(path):
                yield found, isinstance(found, Unlisted) and found.path == path
        else:
            yield path, True


_SHOWN = 5


def scan_lines(scanned: Scanned, *, verbose: bool = False) -> list[str]:
    """The host, a line for each file and GPU, and a summary of missing, skipped and ignored files."""
    found = [f"host    {host_line(scanned.facts)}"]
    for item in scanned.files:
        found += _file_lines(item, verbose=verbose)
    return found + _missing_lines(scanned.files) + _skipped_lines(scanned.skipped) + _other_lines(scanned)


def _file_lines(item: ScannedFile, *, verbose: bool) -> list[str]:
    code = item.code
    found = [f"{item.path}: {_head_line(code)}"]
    if code.possible:
        found.append(
            f"        possible (relocatable, a device linker may have used it): {_content_text(summary(code.possible))}"
        )
    for section, objects in by_section(code.elsewhere or ()).items():
        found.append(f"        in {section}: {_content_text(summary(objects))}")
    return found + [f"        {line}" for gpu in item.gpus for line in _gpu_lines(gpu, code.objects, verbose=verbose)]


def _head_line(code: FileCode) -> str:
    if code.objects:
        return _content_text(summary(code.objects))
    if code.bare:
        return f"no kernel in {counted(code.bare, 'object')}" + ("" if code.elsewhere else "; --deep looks elsewhere")
    return "no loadable device code" if code.holds_code else "no device code"


def _content_text(held: Summary) -> str:
    parts = [counted(held.objects, "object")]
    if held.everywhere:
        parts.append(f"{' '.join(map(str, held.everywhere))} in {'all' if held.objects > 1 else 'it'}")
    if held.partial:
        some = (f"{target} in {count}" for target, count in held.partial.items())
        parts.append(" ".join(some) if len(held.partial) == 1 else ", ".join(some))
    for (target, isa), count in held.ptx.items():
        parts.append(f"PTX {target} (ISA {isa[0]}.{isa[1]})" + _partial_text(count, held))
    parts += [f"LTO-IR {target}" + _partial_text(count, held) for target, count in held.lto.items()]
    parts += [f"Tile IR {target}" + _partial_text(count, held) for target, count in held.tile.items()]
    return "; ".join(parts)


def _partial_text(count: int, held: Summary) -> str:
    return f" in {count}" if count < held.objects else ""


def _gpu_lines(gpu: GpuCode, objects: tuple[CodeObject, ...], *, verbose: bool) -> list[str]:
    needs = f", from driver {gpu.driver} on (CUDA {gpu.needs})" if gpu.driver else ""
    needs += f", the tables do not list PTX ISA {gpu.unknown_isa}" if gpu.unknown_isa else ""
    told = [
        (gpu.native, "native", ""),
        (gpu.jit, "JIT", needs),
        (len(gpu.beyond), "PTX too new for the driver", needs),
        (len(gpu.missing), "nothing", ""),
    ]
    share = {count: "" if count == gpu.objects else f" in {count} of {gpu.objects}" for count, *_ in told}
    parts = [f"{what}{share[count]}{more}" for count, what, more in told if count]
    by = f" (by {' '.join(map(str, gpu.by))})" if gpu.by and verbose else ""
    found = [f"{gpu.capability}: {'; '.join(parts)}{by}"]
    if verbose:
        for word, indexes in (("nothing", gpu.missing), ("too new PTX", gpu.beyond)):
            found += [f"  {word} in object {index} at {objects[index].offset:#x}" for index in indexes]
    return found


def _missing_lines(files: tuple[ScannedFile, ...]) -> list[str]:
    """For each GPU the files that have no code for it."""
    nothing: dict[Capability, list[str]] = {}
    judged: Counter[Capability] = Counter()
    for item in files:
        for gpu in item.gpus:
            judged[gpu.capability] += 1
            if gpu.outcome == "nothing":
                nothing.setdefault(gpu.capability, []).append(item.path)
    found = []
    for capability, count in sorted(judged.items()):
        paths = nothing.get(capability, [])
        if paths:
            where = f"{len(paths)} of {counted(count, 'file')}"
            found.append(f"error: no code that runs on {capability} in {where}: {first_of(paths, _SHOWN)}")
        else:
            found.append(f"ok      {counted(count, 'file')} with code that runs on {capability}")
    return found


def _skipped_lines(skipped: tuple[Skipped, ...]) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for item in skipped:
        reasons.setdefault(item.reason, []).append(item.path)
    return [
        f"skipped {paths[0]}: {reason}"
        if len(paths) == 1
        else f"skipped {len(paths)} files, such as {paths[0]}: {reason}"
        for reason, paths in reasons.items()
    ]


def _other_lines(scanned: Scanned) -> list[str]:
    told = []
    if scanned.plain:
        told.append(f"{counted(scanned.plain, 'ELF file')} without device code")
    if scanned.others:
        told.append(f"{counted(scanned.others, 'file')} of other kinds")
    if not (scanned.files or scanned.skipped):
        return [f"no GPU code was found in {' and '.join(told) or 'an empty folder'}"]
    return [f"besides {', '.join(told)}"] if told else []


def text(path: str) -> str:
    """A path for JSON, with bytes that are not UTF-8 escaped."""
    return path.encode("utf-8", "backslashreplace").decode()


def file_plain(item: ScannedFile) -> ScannedBinary:
    """A file as JSON: the code in its objects, and the code for each GPU."""
    code = item.code
    return {
        "path": text(item.path),
        "machine": code.machine,
        **objects_plain(code.objects),
        "bare": code.bare,
        "possible": objects_plain(code.possible) if code.possible else None,
        "elsewhere": None if code.elsewhere is None else _elsewhere(code.elsewhere),
        "gpus": [gpu_plain(gpu, code.objects) for gpu in item.gpus],
    }


def objects_plain(objects: tuple[CodeObject, ...]) -> CodeObjects:
    """The code of several objects as JSON; ``everywhere`` and ``partial`` are about machine code."""
    held = summary(objects)
    return {
        "sass": [str(target) for target in held.sass],
        "ptx": [
            {"arch": str(target), "isa": f"{isa[0]}.{isa[1]}", "objects": count}
            for (target, isa), count in held.ptx.items()
        ],
        "lto": [str(target) for target in held.lto],
        "tile": [str(target) for target in held.tile],
        "objects": held.objects,
        "everywhere": [str(target) for target in held.everywhere],
        "partial": {str(target): count for target, count in held.partial.items()},
    }


def _elsewhere(objects: tuple[CodeObject, ...]) -> list[SectionObjects]:
    return [{"section": section, **objects_plain(found)} for section, found in by_section(objects).items()]


def gpu_plain(gpu: GpuCode, objects: tuple[CodeObject, ...]) -> ScannedGpu:
    """The code for one GPU as JSON; objects have their index and their offset in the file."""
    return {
        "capability": str(gpu.capability),
        "outcome": gpu.outcome,
        "native": gpu.native,
        "jit": gpu.jit,
        "beyond_driver": [_where(index, objects) for index in gpu.beyond],
        "nothing": [_where(index, objects) for index in gpu.missing],
        "by": [str(target) for target in gpu.by],
        "needs_cuda": str(gpu.needs) if gpu.needs else None,
        "needs_driver": gpu.driver,
        "unknown_isa": gpu.unknown_isa,
    }


def _where(index: int, objects: tuple[CodeObject, ...]) -> ObjectPlace:
    return {"object": index, "section": objects[index].section, "offset": objects[index].offset}


def scan_plain(scanned: Scanned) -> ScanDocument:
    """A scan as JSON: the host, the files, what was skipped and why, and the number of other files."""
    return {
        "schema": "cuenv/scan/1",
        "host": host_line(scanned.facts),
        "files": [file_plain(item) for item in scanned.files],
        "skipped": [{"path": text(item.path), "fault": item.fault, "reason": item.reason} for item in scanned.skipped],
        "without_device_code": scanned.plain,
        "other_files": scanned.others,
    }
