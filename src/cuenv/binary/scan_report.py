"""Device code of files as lines for a terminal and as ``cuenv/scan/1``."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from cuenv.binary.code import CodeObject, FileCode, Summary, by_section, summary
from cuenv.binary.gpu_code import GpuCode, Scanned, ScannedFile, Skipped
from cuenv.core.findings import counted, first_of
from cuenv.core.versions import Capability
from cuenv.host.describe import host_line

if TYPE_CHECKING:  # types alone
    from cuenv.core.documents import CodeObjects, ObjectPlace, ScanDocument, ScannedBinary, ScannedGpu, SectionObjects

_SHOWN = 5


def lines(scanned: Scanned, *, verbose: bool = False) -> list[str]:
    """The host, each file with a line for each GPU, and the end: what is missing, skipped, and passed over."""
    found = [f"host    {host_line(scanned.facts)}"]
    for item in scanned.files:
        found += _file_lines(item, verbose=verbose)
    return found + _total(scanned.files) + _skipped(scanned.skipped) + _besides(scanned)


def _file_lines(item: ScannedFile, *, verbose: bool) -> list[str]:
    code = item.code
    found = [f"{item.path}: {_head(code)}"]
    if code.possible:
        found.append(
            f"        possible (relocatable, a device linker may have used it): {_held(summary(code.possible))}"
        )
    for section, objects in by_section(code.elsewhere or ()).items():
        found.append(f"        in {section}: {_held(summary(objects))}")
    return found + [f"        {line}" for gpu in item.gpus for line in _gpu_lines(gpu, code.objects, verbose=verbose)]


def _head(code: FileCode) -> str:
    if code.objects:
        return _held(summary(code.objects))
    if code.bare:
        return f"no kernel in {counted(code.bare, 'object')}" + ("" if code.elsewhere else "; --deep looks elsewhere")
    return "no loadable device code" if code.holds_code else "no device code"


def _held(held: Summary) -> str:
    parts = [counted(held.objects, "object")]
    if held.everywhere:
        parts.append(f"{' '.join(map(str, held.everywhere))} in {'all' if held.objects > 1 else 'it'}")
    if held.partial:
        some = (f"{target} in {count}" for target, count in held.partial.items())
        parts.append(" ".join(some) if len(held.partial) == 1 else ", ".join(some))
    for (target, isa), count in held.ptx.items():
        parts.append(f"PTX {target} (ISA {isa[0]}.{isa[1]})" + _partly(count, held))
    parts += [f"LTO-IR {target}" + _partly(count, held) for target, count in held.lto.items()]
    parts += [f"Tile IR {target}" + _partly(count, held) for target, count in held.tile.items()]
    return "; ".join(parts)


def _partly(count: int, held: Summary) -> str:
    return f" in {count}" if count < held.objects else ""


def _gpu_lines(gpu: GpuCode, objects: tuple[CodeObject, ...], *, verbose: bool) -> list[str]:
    needs = f", from driver {gpu.driver} on (CUDA {gpu.needs})" if gpu.driver else ""
    needs += f", PTX ISA {gpu.unknown_isa} is in no table" if gpu.unknown_isa else ""
    told = [
        (gpu.native, "native", ""),
        (gpu.jit, "JIT", needs),
        (len(gpu.beyond), "PTX too new for the driver", needs),
        (len(gpu.missing), "nothing", ""),
    ]
    parts = [f"{what}{_share(count, gpu)}{more}" for count, what, more in told if count]
    by = f" (by {' '.join(map(str, gpu.by))})" if gpu.by and verbose else ""
    found = [f"{gpu.capability}: {'; '.join(parts)}{by}"]
    if verbose:
        for word, indexes in (("nothing", gpu.missing), ("too new PTX", gpu.beyond)):
            found += [f"  {word} in object {index} at {objects[index].offset:#x}" for index in indexes]
    return found


def _share(count: int, gpu: GpuCode) -> str:
    return "" if count == gpu.objects else f" in {count} of {gpu.objects}"


def _total(files: tuple[ScannedFile, ...]) -> list[str]:
    """For each GPU the files that hold nothing for it."""
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
            found.append(f"error: nothing that runs on {capability} in {where}: {first_of(paths, _SHOWN)}")
        else:
            found.append(f"ok      {counted(count, 'file')} with code that runs on {capability}")
    return found


def _skipped(skipped: tuple[Skipped, ...]) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for item in skipped:
        reasons.setdefault(item.reason, []).append(item.path)
    return [
        f"skipped {paths[0]}: {reason}"
        if len(paths) == 1
        else f"skipped {len(paths)} files, such as {paths[0]}: {reason}"
        for reason, paths in reasons.items()
    ]


def _besides(scanned: Scanned) -> list[str]:
    told = []
    if scanned.plain:
        told.append(f"{counted(scanned.plain, 'ELF file')} without device code")
    if scanned.others:
        told.append(counted(scanned.others, "other file"))
    return [f"besides {', '.join(told)}"] if told else []


def text(path: str) -> str:
    """A path for JSON: bytes in it that are no UTF-8 are escaped."""
    return path.encode("utf-8", "backslashreplace").decode()


def file_plain(item: ScannedFile) -> ScannedBinary:
    """One file: what its loadable objects hold, the relocatable and further ones, and what each GPU gets."""
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
    """What objects hold together; ``everywhere`` and ``partial`` speak of machine code."""
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
    """What one GPU gets; objects are named by their index and their offset in the file."""
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


def plain(scanned: Scanned) -> ScanDocument:
    """A whole scan: the host, the files, what was skipped and why, and how many files were not of interest."""
    return {
        "schema": "cuenv/scan/1",
        "host": host_line(scanned.facts),
        "files": [file_plain(item) for item in scanned.files],
        "skipped": [{"path": text(item.path), "fault": item.fault, "reason": item.reason} for item in scanned.skipped],
        "without_device_code": scanned.plain,
        "other_files": scanned.others,
    }
