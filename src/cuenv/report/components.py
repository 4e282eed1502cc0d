"""Which component limits an environment: the driver, PyTorch, cuDNN, NCCL, nvcc and extensions against each GPU."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cuenv.core.findings import How, LayerCoverage
from cuenv.core.record import replace
from cuenv.core.render import counted
from cuenv.core.versions import Capability
from cuenv.host.describe import short_name
from cuenv.host.facts import HostFacts
from cuenv.host.request import Request
from cuenv.lockfile.coverage import RANK, served_alone, weakest
from cuenv.report.drawing import GridCell, GridRow, grid
from cuenv.report.picture import WORDS, Mark, Picture, listed
from cuenv.resolver.candidates import Candidate
from cuenv.resolver.rules import Context

MARKS: dict[How, Mark] = {"native": "ok", "jit": "jit", "no": "no", "unknown": "unknown"}
_DRIVER_RULES = ("driver-gpu", "driver-floor")
LEGEND = (
    "● native: machine code for this GPU. ◐ by JIT: the driver compiles PTX at the first start. "
    "✕ not supported. ? unknown: no row of the tables says it."
)


def devices(facts: HostFacts) -> tuple[tuple[Capability, str], ...]:
    """Each compute capability of a host with the names of its GPUs."""
    found: dict[Capability, list[str]] = {capability: [] for capability in facts.capabilities}
    for gpu in facts.gpus:
        if gpu.capability:
            found[gpu.capability].append(short_name(gpu))
    return tuple((capability, listed(filter(None, names), 2)) for capability, names in found.items())


def layers_of(candidate: Candidate, case: Context) -> list[LayerCoverage]:
    """How the parts of a candidate that is not locked yet serve each GPU of a host."""
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
    return [_layer(*part, candidate, case) for part in parts] if case.facts.capabilities else []


def _layer(rule: str, layer: str, package: str, candidate: Candidate, case: Context) -> LayerCoverage:
    facts = case.facts
    judged = [
        served_alone(rule, candidate, device, facts, case.knowledge, request=case.request)
        for device in facts.capabilities
    ]
    worst = min(judged, key=lambda item: RANK[item[1]])[2]
    served = tuple((device, how) for device, how, _ in judged)
    return LayerCoverage(rule=rule, layer=layer, package=package, served=served, because=worst.because)


def extensions_of(candidate: Candidate, libraries: Iterable[str], case: Context) -> Iterator[LayerCoverage]:
    """How libraries that sit on PyTorch serve each GPU, as requirements of pip: ``flash-attn==2.8``."""
    for text in libraries:
        request = Request(dev=True, pip=(text,))
        yield _layer("extensions", text.partition("==")[0], text, candidate, replace(case, request=request))


def driver_of(candidate: Candidate, case: Context) -> LayerCoverage | None:
    """How the driver serves each GPU with the CUDA release of a candidate."""
    facts = case.facts
    if candidate.cuda is None or not facts.capabilities:
        return None
    both = [_layer(rule, "driver", "", candidate, case) for rule in _DRIVER_RULES]
    served = tuple(
        (device, min((dict(one.served)[device] for one in both), key=lambda how: RANK[how]))
        for device in facts.capabilities
    )
    driver = facts.driver
    named = f"{driver.version}" if driver and driver.version else "unknown"
    because = min(both, key=lambda one: min(RANK[how] for _, how in one.served)).because
    return LayerCoverage(rule="driver", layer="driver", package=named, served=served, because=because)


def components(layers: Sequence[LayerCoverage], facts: HostFacts) -> Picture | None:
    """The components against each GPU; ``None`` where there is no GPU or nothing that uses one."""
    heads = devices(facts)
    if not heads or not layers:
        return None
    rows = []
    for layer in layers:
        cells = tuple(_cell(layer, device, name) for device, name in heads)
        rows.append(GridRow(_name(layer.layer), layer.package, cells))
    drawn = grid([(name or "GPU", f"capability {device}") for device, name in heads], rows, least=118)
    return Picture(
        name="components",
        title="What each component supports on each GPU",
        desc=_desc(layers),
        width=drawn.width,
        height=drawn.height,
        body=drawn.body,
        columns=("component", "package", *(f"{name} ({device})" if name else str(device) for device, name in heads)),
        rows=tuple(
            (_name(layer.layer), layer.package, *(_word(layer, device) for device, _ in heads)) for layer in layers
        ),
        legend=LEGEND,
    )


def _name(layer: str) -> str:
    return {"torch": "PyTorch", "driver": "driver"}.get(layer, layer)


def _word(layer: LayerCoverage, device: Capability) -> str:
    how = dict(layer.served).get(device, "unknown")
    return "supported" if how == "native" and layer.rule in ("driver", "extensions") else WORDS[MARKS[how]]


def _cell(layer: LayerCoverage, device: Capability, name: str) -> GridCell:
    how = dict(layer.served).get(device, "unknown")
    gpu = f"{name} (compute capability {device})" if name else f"compute capability {device}"
    return GridCell(
        MARKS[how], _word(layer, device), f"{_name(layer.layer)} {layer.package} on {gpu}: {_word(layer, device)}"
    )


def limit(layers: Sequence[LayerCoverage], facts: HostFacts) -> str:
    """The component that limits the environment, in one sentence."""
    names = dict(devices(facts))
    cut = weakest(tuple(layers))
    if cut:
        listed_gpus = listed(f"{names.get(device) or 'compute capability'} ({device})" for device in cut.cut)
        return f"{_told(cut)} is the limiting component: it does not support {listed_gpus}."
    open_ = [layer for layer in layers if any(how == "unknown" for _, how in layer.served)]
    if open_ and open_[0].rule == "driver":
        return f"Whether the driver supports every GPU is not known: {open_[0].because}."
    if open_:
        return f"The tables do not say whether {listed(_name(layer.layer) for layer in open_)} supports every GPU."
    slow = [layer for layer in layers if any(how == "jit" for _, how in layer.served)]
    if slow:
        return (
            f"Every component supports every GPU. {listed(_name(layer.layer) for layer in slow)} runs by JIT on at "
            "least one GPU: the first start takes longer."
        )
    return "Every component supports every GPU."


def _told(layer: LayerCoverage) -> str:
    return f"The driver {layer.package}" if layer.rule == "driver" else f"{_name(layer.layer)} ({layer.package})"


def _desc(layers: Sequence[LayerCoverage]) -> str:
    parts = []
    for word, how in (("not supported", "no"), ("unknown", "unknown"), ("by JIT", "jit")):
        for layer in layers:
            found = [str(device) for device, each in layer.served if each == how]
            if found:
                parts.append(f"{_name(layer.layer)} is {word} on compute capability {', '.join(found)}")
    return (
        f"{'. '.join(parts)}. " * bool(parts)
        + f"{counted(len(layers), 'component')} against {counted(len(layers[0].served), 'kind')} of GPUs."
    )
