"""Device code of files as ``cuenv/scan/1``."""

from __future__ import annotations

from typing import Any

from cuenv.binary.code import CodeObject, by_section, summary
from cuenv.binary.gpu_code import GpuCode
from cuenv.binary.scanned import Scanned, ScannedFile
from cuenv.host_text import host_line


def text(path: str) -> str:
    """A path for JSON: bytes in it that are no UTF-8 are escaped."""
    return path.encode("utf-8", "backslashreplace").decode()


def file_plain(item: ScannedFile) -> dict[str, Any]:
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


def objects_plain(objects: tuple[CodeObject, ...]) -> dict[str, Any]:
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


def _elsewhere(objects: tuple[CodeObject, ...]) -> list[dict[str, Any]]:
    return [{"section": section, **objects_plain(found)} for section, found in by_section(objects).items()]


def gpu_plain(gpu: GpuCode, objects: tuple[CodeObject, ...]) -> dict[str, Any]:
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


def _where(index: int, objects: tuple[CodeObject, ...]) -> dict[str, Any]:
    return {"object": index, "section": objects[index].section, "offset": objects[index].offset}


def plain(scanned: Scanned) -> dict[str, Any]:
    """A whole scan: the host, the files, what was skipped and why, and how many files were not of interest."""
    return {
        "schema": "cuenv/scan/1",
        "host": host_line(scanned.facts),
        "files": [file_plain(item) for item in scanned.files],
        "skipped": [{"path": text(item.path), "fault": item.fault, "reason": item.reason} for item in scanned.skipped],
        "without_device_code": scanned.plain,
        "other_files": scanned.others,
    }
