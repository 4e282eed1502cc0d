"""The device code of the libraries of an environment, as `cuenv scan` reads it, against each GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cuenv.binary.gpu_code import GpuCode, ScannedFile
from cuenv.core.findings import counted
from cuenv.core.versions import Capability
from cuenv.host.facts import HostFacts
from cuenv.report.components import devices
from cuenv.report.picture import GridCell, GridRow, Mark, Picture, grid

_MARKS: Mapping[str, tuple[Mark, str]] = {
    "native": ("ok", "native"),
    "jit": ("jit", "by JIT"),
    "partly": ("part", "in a part"),
    "nothing": ("no", "nothing"),
}
_MOST = 60


def libraries(files: Sequence[ScannedFile], facts: HostFacts, prefix: str) -> Picture | None:
    """The picture of the code that each file has for each GPU; ``None`` without files or GPUs."""
    heads = devices(facts)
    held = [item for item in files if item.gpus]
    if not heads or not held:
        return None
    order = {"nothing": 0, "partly": 1, "jit": 2, "native": 3}
    held.sort(key=lambda item: (min(order[gpu.outcome] for gpu in item.gpus), _short(item.path, prefix)))
    rows = [(_short(item.path, prefix), item, {gpu.capability: gpu for gpu in item.gpus}) for item in held]
    drawn = grid(
        [(name or "GPU", f"capability {device}") for device, name in heads],
        [
            GridRow(
                path.rpartition("/")[2],
                counted(len(item.code.objects), "object"),
                tuple(_cell(path, found.get(device), device) for device, _ in heads),
            )
            for path, item, found in rows[:_MOST]
        ],
        least=130,
    )
    bad = [path for path, item, _ in rows if any(gpu.outcome == "nothing" for gpu in item.gpus)]
    more = f" The picture shows the first {_MOST}; the table has all." if len(rows) > _MOST else ""
    return Picture(
        name="libraries",
        title="Device code in each library",
        desc=f"{counted(len(rows), 'file')} with device code; {len(bad)} without code for a GPU"
        + (f": {', '.join(bad[:3])}" if bad else "")
        + f".{more}",
        width=drawn.width,
        height=drawn.height,
        body=drawn.body,
        columns=("file", "objects", *(f"{name} ({device})" if name else str(device) for device, name in heads)),
        rows=tuple(
            (path, str(len(item.code.objects)), *(_words(found.get(device)) for device, _ in heads))
            for path, item, found in rows
        ),
        legend=(
            "● native: machine code in every object. ◐ by JIT: PTX that the driver compiles. ▲ partly: some objects "
            f"have no code for this GPU. ✕ no code that runs on this GPU.{more}"
        ),
    )


def _short(path: str, prefix: str) -> str:
    return path.removeprefix(prefix.rstrip("/") + "/")


def _words(gpu: GpuCode | None) -> str:
    if gpu is None:
        return "unknown"
    word = _MARKS[gpu.outcome][1]
    able = gpu.native + gpu.jit
    return word if gpu.outcome in ("native", "nothing") else f"{word}: {able} of {gpu.objects}"


def _cell(path: str, gpu: GpuCode | None, device: Capability) -> GridCell:
    mark: Mark = _MARKS[gpu.outcome][0] if gpu else "unknown"
    return GridCell(mark, _words(gpu), f"{path} on compute capability {device}: {_words(gpu)}")
