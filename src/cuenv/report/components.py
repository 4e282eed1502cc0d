"""Which component limits an environment: the driver, PyTorch, cuDNN, NCCL, nvcc and extensions against each GPU."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from cuenv.binary.gpu_code import GpuCode, ScannedFile
from cuenv.core.findings import ComponentSupport, How, counted
from cuenv.core.record import replace
from cuenv.core.versions import Capability
from cuenv.host.describe import short_name
from cuenv.host.facts import HostFacts
from cuenv.host.request import Request
from cuenv.lockfile.coverage import RANK, support_alone, weakest
from cuenv.report.picture import WORDS, GridCell, GridRow, Mark, Picture, grid, listed
from cuenv.resolver.candidates import Candidate
from cuenv.resolver.rules import Context

MARKS: dict[How, Mark] = {"native": "ok", "jit": "jit", "no": "no", "unknown": "unknown"}
_DRIVER_RULES = ("driver-gpu", "driver-floor")
LEGEND = (
    "● native: machine code for this GPU. ◐ by JIT: the driver compiles PTX at the first start. "
    "✕ not supported. ? unknown: the tables do not say."
)


def devices(facts: HostFacts) -> tuple[tuple[Capability, str], ...]:
    """The compute capabilities of a host with the names of their GPUs."""
    found: dict[Capability, list[str]] = {capability: [] for capability in facts.capabilities}
    for gpu in facts.gpus:
        if gpu.capability:
            found[gpu.capability].append(short_name(gpu))
    return tuple((capability, listed(filter(None, names), 2)) for capability, names in found.items())


def components_of(candidate: Candidate, case: Context) -> list[ComponentSupport]:
    """How the components of a candidate that is not locked support each GPU of a host."""
    parts = [("device-code", "torch", f"pytorch {candidate.build.version} {candidate.build.build}".rstrip())]
    parts += [
        (name, shown, f"{asked or release or 'any release'}")
        for name, shown, asked, release in (
            ("cudnn", "cuDNN", candidate.build.cudnn, candidate.cudnn),
            ("nccl", "NCCL", candidate.build.nccl, candidate.nccl),
        )
    ]
    if case.request.dev:
        parts.append(("nvcc", "nvcc", f"CUDA {candidate.compiler or candidate.cuda}"))
    return [_component(*part, candidate, case) for part in parts] if case.facts.capabilities else []


def _component(rule: str, component: str, package: str, candidate: Candidate, case: Context) -> ComponentSupport:
    facts = case.facts
    judged = [
        one
        for device in facts.capabilities
        for one in support_alone((rule,), candidate, device, facts, case.knowledge, request=case.request)
    ]
    worst = min(judged, key=lambda item: RANK[item[1]])[2]
    support = tuple((device, how) for device, how, _ in judged)
    return ComponentSupport(rule=rule, name=component, package=package, support=support, because=worst.because)


def extensions_of(candidate: Candidate, libraries: Iterable[str], case: Context) -> Iterator[ComponentSupport]:
    """How libraries that use PyTorch support each GPU, as requirements of pip: ``flash-attn==2.8``."""
    for text in libraries:
        request = Request(dev=True, pip=(text,))
        yield _component("extensions", text.partition("==")[0], text, candidate, replace(case, request=request))


def driver_of(candidate: Candidate, case: Context) -> ComponentSupport | None:
    """How the driver supports each GPU with the CUDA release of a candidate."""
    facts = case.facts
    if candidate.cuda is None or not facts.capabilities:
        return None
    both = [_component(rule, "driver", "", candidate, case) for rule in _DRIVER_RULES]
    support = tuple(
        (device, min((dict(one.support)[device] for one in both), key=lambda how: RANK[how]))
        for device in facts.capabilities
    )
    driver = facts.driver
    named = f"{driver.version}" if driver and driver.version else "unknown"
    because = min(both, key=lambda one: min(RANK[how] for _, how in one.support)).because
    return ComponentSupport(rule="driver", name="driver", package=named, support=support, because=because)


def component_grid(components: Sequence[ComponentSupport], facts: HostFacts) -> Picture | None:
    """The picture of components and GPUs; ``None`` without GPUs or components."""
    heads = devices(facts)
    if not heads or not components:
        return None
    rows = []
    for component in components:
        cells = tuple(_cell(component, device, name) for device, name in heads)
        rows.append(GridRow(_name(component.name), component.package, cells))
    drawn = grid([(name or "GPU", f"capability {device}") for device, name in heads], rows, least=118)
    return Picture(
        name="components",
        title="What each component supports on each GPU",
        desc=_desc(components),
        width=drawn.width,
        height=drawn.height,
        body=drawn.body,
        columns=("component", "package", *(f"{name} ({device})" if name else str(device) for device, name in heads)),
        rows=tuple(
            (_name(component.name), component.package, *(_word(component, device) for device, _ in heads))
            for component in components
        ),
        legend=LEGEND,
    )


def _name(component: str) -> str:
    return {"torch": "PyTorch", "driver": "driver"}.get(component, component)


def _word(component: ComponentSupport, device: Capability) -> str:
    how = dict(component.support).get(device, "unknown")
    return "supported" if how == "native" and component.rule in ("driver", "extensions") else WORDS[MARKS[how]]


def _cell(component: ComponentSupport, device: Capability, name: str) -> GridCell:
    how = dict(component.support).get(device, "unknown")
    gpu = f"{name} (compute capability {device})" if name else f"compute capability {device}"
    return GridCell(
        MARKS[how],
        _word(component, device),
        f"{_name(component.name)} {component.package} on {gpu}: {_word(component, device)}",
    )


def limit(components: Sequence[ComponentSupport], facts: HostFacts) -> str:
    """A sentence on the component that limits the environment."""
    names = dict(devices(facts))
    cut = weakest(tuple(components))
    if cut:
        listed_gpus = listed(f"{names.get(device) or 'compute capability'} ({device})" for device in cut.cut)
        return f"{_told(cut)} is the limiting component: it does not support {listed_gpus}."
    open_ = [component for component in components if any(how == "unknown" for _, how in component.support)]
    if open_ and open_[0].rule == "driver":
        return f"Whether the driver supports every GPU is not known: {open_[0].because}."
    if open_:
        return f"The tables do not say whether {listed(_name(item.name) for item in open_)} supports every GPU."
    slow = [component for component in components if any(how == "jit" for _, how in component.support)]
    if slow:
        return (
            f"Every component supports every GPU. {listed(_name(item.name) for item in slow)} runs by JIT on at "
            "least one GPU: the first start takes longer."
        )
    return "Every component supports every GPU."


def _told(component: ComponentSupport) -> str:
    if component.rule == "driver":
        return f"The driver {component.package}"
    return f"{_name(component.name)} ({component.package})"


def _desc(components: Sequence[ComponentSupport]) -> str:
    parts = []
    for word, how in (("not supported", "no"), ("unknown", "unknown"), ("by JIT", "jit")):
        for component in components:
            found = [str(device) for device, each in component.support if each == how]
            if found:
                parts.append(f"{_name(component.name)} is {word} on compute capability {', '.join(found)}")
    return (
        f"{'. '.join(parts)}. " * bool(parts)
        + f"{counted(len(components), 'component')} against {counted(len(components[0].support), 'kind')} of GPUs."
    )


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
                tuple(_library_cell(path, found.get(device), device) for device, _ in heads),
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


def _library_cell(path: str, gpu: GpuCode | None, device: Capability) -> GridCell:
    mark: Mark = _MARKS[gpu.outcome][0] if gpu else "unknown"
    return GridCell(mark, _words(gpu), f"{path} on compute capability {device}: {_words(gpu)}")
