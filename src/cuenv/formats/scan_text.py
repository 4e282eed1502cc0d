"""Device code of files as lines for a terminal."""

from __future__ import annotations

from collections import Counter

from cuenv.binary.code import CodeObject, FileCode, Summary, by_section, summary
from cuenv.binary.gpu_code import GpuCode
from cuenv.binary.scanned import Scanned, ScannedFile, Skipped
from cuenv.host_text import host_line
from cuenv.versions import Capability

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
        return f"no kernel in {_many(code.bare, 'object')}" + ("" if code.elsewhere else "; --deep looks elsewhere")
    return "no loadable device code" if code.holds_code else "no device code"


def _held(held: Summary) -> str:
    parts = [_many(held.objects, "object")]
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


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


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
        more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
        if paths:
            where = f"{len(paths)} of {_many(count, 'file')}"
            found.append(f"error   nothing that runs on {capability} in {where}: {', '.join(paths[:_SHOWN])}{more}")
        else:
            found.append(f"ok      {_many(count, 'file')} with code that runs on {capability}")
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
        told.append(f"{_many(scanned.plain, 'ELF file')} without device code")
    if scanned.others:
        told.append(_many(scanned.others, "other file"))
    return [f"besides {', '.join(told)}"] if told else []
