"""A host in words: for the head of a file, for a report, and as options for another machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from cuenv.core.record import replace
from cuenv.core.urls import one_line
from cuenv.host.facts import Driver, Gpu, HostFacts, Surroundings, Switch


def host_options(facts: HostFacts) -> tuple[str, ...]:
    """The options that describe a host on any other machine; a pool is described by its hosts."""
    if facts.members and all(member.detected for member in facts.members):
        names = dict.fromkeys(member.asked_as or member.label for member in facts.members)
        hosts = [part for name in names for part in ("--host", name)]
        return (*hosts, *_overriding(facts.members[0]))
    options: list[str] = []
    for capability in facts.capabilities:
        options += ["--gpu", str(capability)]
    if facts.driver and facts.driver.version and facts.gpus:
        options += ["--driver", facts.driver.version]
    if facts.libc and facts.libc.family == "glibc":
        options += ["--glibc", str(facts.libc.version)]
    if facts.platform != "linux-64":
        options += ["--platform", facts.platform]
    return tuple(options)


def _overriding(member: HostFacts) -> list[str]:
    """The options that override facts of recorded hosts."""
    driver = member.driver.version if member.driver else None
    libc = str(member.libc.version) if member.libc else None
    said = (
        ("driver.version", "--driver", driver),
        ("libc", "--glibc", libc),
        ("platform", "--platform", member.platform),
    )
    options: list[str] = []
    for fact, option, value in said:
        known = member.evidence_for(fact)
        options += [option, value] if known and value and known.source == f"override:{option}" else []
    return options


def host_line(facts: HostFacts) -> str:
    """A host in one line: its label, driver, GPUs."""
    driver = facts.driver
    if driver and driver.version:
        level = f" (supports CUDA {driver.cuda})" if driver.cuda else ""
        text = f"driver {driver.version}{level}"
    elif driver and driver.cuda:
        text = f"a driver that supports CUDA {driver.cuda}"
    else:
        text = "unknown driver"
    return f"{facts.label}: {text}, {gpu_text(facts)}, {facts.platform}"


def gpu_text(facts: HostFacts) -> str:
    """The GPUs with counts: ``8 x A800-SXM4-80GB (8.0)``."""
    counts: dict[str, int] = {}
    for gpu in facts.gpus:
        name = short_name(gpu)
        capability = str(gpu.capability) if gpu.capability else "compute capability unknown"
        text = f"{name} ({capability})" if name and name != capability else f"GPU {capability}"
        counts[text] = counts.get(text, 0) + 1
    parts = [f"{count} x {text}" if count > 1 else text for text, count in counts.items()]
    return " + ".join(parts) if parts else "unknown GPU" if facts.untold else "no NVIDIA GPU"


def short_name(gpu: Gpu) -> str:
    """The name of a GPU without vendor and brand: ``RTX 4090``."""
    short = gpu.name.removeprefix("NVIDIA ").removeprefix("GeForce ")
    return gpu.name if short.startswith(".") else short


_WIDTH = 11
OFFERS = "the highest CUDA version that the driver supports, not an installed toolkit"


def host_lines(facts: HostFacts, abilities: Iterable[str] = ()) -> tuple[str, ...]:
    """The description of a machine, or of a pool and each of its machines.

    Args:
        abilities: what the tables say that its GPUs can do, a line for each kind.
    """
    out = [f"{facts.label} ({facts.platform})"]
    for title, texts in _layers(facts):
        out.extend(_block(title, texts))
        if title == "GPUs":
            out.extend(_block("features", abilities))
    for member in facts.members:
        out.append("")
        out.extend(host_lines(member))
    return tuple(map(one_line, out))


def evidence_lines(facts: HostFacts) -> tuple[str, ...]:
    """Every fact with its source."""
    out: list[str] = []
    for host in facts.machines:
        out += ["", f"{host.label}: source of each fact"]
        out += [f"  {item.fact}: {item.text} ({item.source})" for item in host.evidence]
    return tuple(map(one_line, out))


def _block(title: str, texts: Iterable[str]) -> Iterator[str]:
    for index, text in enumerate(texts):
        yield f"  {title if index == 0 else '':<{_WIDTH}} {text}".rstrip()


def _layers(facts: HostFacts) -> Iterator[tuple[str, list[str]]]:
    pooled = bool(facts.members)
    yield "driver", _driver(facts)
    yield "GPUs", _gpus(facts)
    yield "C library", _libc(facts)
    if facts.kernel:
        yield "kernel", [facts.kernel + (" (WSL2)" if facts.environment.wsl else "")]
    if not pooled:
        layers = (
            ("toolkits", facts.toolkits, _toolkits),
            ("compilers", facts.compilers, _compilers),
            ("torch", facts.torch, _torch),
            ("environment", facts.environment != Surroundings(), _around),
        )
        for title, there, texts in layers:
            if there or facts.detected:  # where nobody looked, nothing is said
                yield title, texts(facts)
        yield "resources", _resources(facts)
        pretended = [item for item in facts.evidence if item.source.startswith("override:")]
        if pretended:
            yield "overridden", [f"{item.source.partition(':')[2]}: {item.text}" for item in pretended]
        if facts.gaps:
            yield "not known", [f"{gap.fact}: {gap.source}: {gap.reason}" for gap in facts.gaps]


def _driver(facts: HostFacts) -> list[str]:
    driver = facts.driver
    if driver is None:
        return ["not found, so no CUDA program can run here"] if facts.detected else ["not known"]
    name = driver.version or "of unknown version"
    if driver.cuda is None:
        first = f"{name}; its CUDA version is unknown"
    else:
        first = f"{name} supports CUDA {driver.cuda}: {OFFERS}"
    out = [first, *_module(driver)]
    cut = facts.evidence_for("driver.version") or facts.evidence_for("driver.cuda")
    if cut and len({member.driver for member in facts.members}) > 1:
        out.append(f"the lowest driver of the pool is on {cut.source}")
    return out


def _module(driver: Driver) -> Iterator[str]:
    if driver.kernel_module is None:
        return
    kind = f" ({driver.module_kind})" if driver.module_kind else ""
    if driver.version in (None, driver.kernel_module):
        yield f"kernel module {driver.kernel_module}{kind}, matches the driver library"
    else:
        yield (
            f"kernel module {driver.kernel_module}{kind}, DIFFERS from the driver library: reboot, or reload the module"
        )


def _gpus(facts: HostFacts) -> list[str]:
    if not facts.gpus:
        if facts.untold:
            return ["not known"]
        counted = facts.evidence_for("gpus")
        if facts.driver is None:
            told = facts.detected or counted
            return ["none found" if told else "not known"]
        return [
            "not found: the driver works and lists no device" if counted else "unknown: the driver could not list them"
        ]
    alike = groupby(enumerate(facts.gpus), key=lambda pair: (replace(pair[1], index=0), pair[1].index - pair[0]))
    groups = [[gpu for _, gpu in group] for _, group in alike]
    rows = [_gpu_row(group) for group in groups]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    out = ["  ".join(f"{text:<{width}}" for text, width in zip(row[:3], widths, strict=True)) + row[3] for row in rows]
    distinct = [str(capability) for capability in facts.capabilities]
    if len(distinct) > 1:
        out.append(f"packages need code for {', '.join(distinct[:-1])} and {distinct[-1]}")
    return out


def _gpu_row(group: list[Gpu]) -> tuple[str, str, str, str]:
    first, last = group[0], group[-1]
    index = str(first.index) if len(group) == 1 else f"{first.index}-{last.index}"
    capability = f"compute capability {first.capability}" if first.capability else "compute capability unknown"
    memory = f"  {first.memory_mib} MiB{' each' if len(group) > 1 else ''}" if first.memory_mib else ""
    return index, one_line(first.name) or "unnamed", capability, memory + "".join(f"  {text}" for text in _modes(first))


def _modes(gpu: Gpu) -> Iterator[str]:
    if gpu.ecc:
        yield f"ECC {_switch(gpu.ecc)}"
    if gpu.mig:
        names = ", ".join(item.profile or "unnamed" for item in gpu.mig.instances)
        yield f"MIG {_switch(gpu.mig.mode)}" + (f" ({names or 'no instance'})" if gpu.mig.mode.on else "")


def _switch(mode: Switch) -> str:
    words = {True: "on", False: "off"}
    return words[mode.on] if mode.on == mode.pending else f"{words[mode.on]}, {words[mode.pending]} after a reset"


def _libc(facts: HostFacts) -> list[str]:
    if facts.libc is None:
        return ["not known"]
    text = f"{facts.libc.family} {facts.libc.version}"
    if facts.libc.family != "glibc":
        return [f"{text}; conda packages need glibc"]
    evidence = facts.evidence_for("libc")
    differ = len({member.libc for member in facts.members}) > 1
    cut = f", the lowest of the pool (on {evidence.source})" if evidence and differ else ""
    return [f"{text}{cut}; packages that need this glibc or an older one run"]


def _toolkits(facts: HostFacts) -> list[str]:
    out = []
    for item in facts.toolkits:
        nvcc = ", its nvcc is first on PATH and builds extensions" if item.on_path else f", found by {item.via}"
        out.append(f"CUDA {item.release or 'of unknown release'} in {item.path}{nvcc}")
        level = str(facts.driver.cuda) if facts.driver and facts.driver.cuda else ""
        release = ".".join((item.release or "").split(".")[:2])
        if item.path.startswith("/usr/local/cuda") and level and release not in ("", level):
            out.append(
                f"micromamba reads __cuda={release} from /usr/local/cuda, and conda reads "
                f"{level} from the driver; CONDA_OVERRIDE_CUDA={level} sets both"
            )
    return out or ["not found; a conda environment contains its own"]


def _compilers(facts: HostFacts) -> list[str]:
    return [f"{item.name} {item.version} ({item.path})" for item in facts.compilers] or ["none found"]


def _torch(facts: HostFacts) -> list[str]:
    return [
        f"{item.version} for {f'CUDA {item.cuda}' if item.cuda else 'CPU'} by {item.origin}, {item.where} ({item.path})"
        for item in facts.torch
    ] or ["none found"]


def _around(facts: HostFacts) -> list[str]:
    around = facts.environment
    out = []
    if around.container:
        out.append(f"inside a container ({around.container}), which uses the driver of the host")
    if around.wsl:
        out.append("WSL2, which uses the Windows driver; its version numbers differ from those of Linux drivers")
    if around.conda_prefix:
        out.append(f"active conda environment {around.conda_prefix}")
    if around.virtual_env:
        out.append(f"active virtual environment {around.virtual_env}")
    if around.driver_capabilities is not None:
        out.append(f"NVIDIA_DRIVER_CAPABILITIES={around.driver_capabilities}")
    if around.libcuda and around.libcuda.forward:
        driver = around.libcuda.version or "an unknown driver"
        out.append(f"programs load the forward-compatibility libcuda of {driver} ({around.libcuda.path})")
    for entry in around.library_path:
        names = ", ".join(entry.libraries)
        out.append(f"LD_LIBRARY_PATH {entry.path} contains {names}, loaded before the environment's own")
    return out or ["no container, no active environment, no CUDA library on LD_LIBRARY_PATH"]


def _resources(facts: HostFacts) -> list[str]:
    have = facts.resources
    amounts = (("memory", have.memory_mib), ("shared memory", have.shm_mib), ("free disk here", have.disk_mib))
    known = [f"{what} {_gib(mib)}" for what, mib in amounts if mib is not None]
    return [", ".join(known)] if known else []


def _gib(mib: int) -> str:
    return f"{mib / 1024:.1f} GiB" if mib >= 1024 else f"{mib} MiB"
