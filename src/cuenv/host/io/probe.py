"""Looking at this machine: every source in its order, each fact with its evidence, each failure with its reason."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from packaging.version import Version

from cuenv.core.io import process
from cuenv.core.record import dataclass, field, replace
from cuenv.core.urls import one_line
from cuenv.core.versions import Capability
from cuenv.host.facts import LONGEST_NAME, Driver, Evidence, Gap, HostFacts, Surroundings
from cuenv.host.io import system
from cuenv.host.io.observation import ProbeResult, merge, name_capabilities, name_devices
from cuenv.host.io.surroundings import surroundings

SLASH = Path("/")


def _nvml(library: Path | None) -> ProbeResult:
    from cuenv.host.io import nvml  # noqa: PLC0415 - pynvml is heavy, and most machines that resolve have no driver

    return nvml.see_by_nvml(library)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineAccess:
    """How a probe accesses the machine besides files and variables; tests replace it."""

    run: process.Run = process.run  # starts a program
    # asks NVML; gets the path of the library when the loader would not find it
    nvml: Callable[[Path | None], ProbeResult] = _nvml
    # system name, as ``Linux``, and machine, as ``x86_64``
    uname: tuple[str, str] = field(default_factory=lambda: (os.uname().sysname, os.uname().machine))
    node: str = field(default_factory=lambda: os.uname().nodename)  # the host name of this machine
    confstr: Callable[[str], str | None] = os.confstr  # asks the C library about itself
    space: system.Space = system.disk_space  # asks a file system for all and free bytes


def probe(
    environ: Mapping[str, str],
    root: Path = SLASH,
    *,
    level_of: Callable[[str], Version | None] = lambda _: None,
    name_to_capability: Callable[[str], Capability | None] = lambda _: None,
    device_to_name: Callable[[str], str | None] = lambda _: None,
    deep: bool = False,
    outside: MachineAccess | None = None,
) -> HostFacts:
    """Probe this machine, without ``CONDA_OVERRIDE_*`` and CUDA_VISIBLE_DEVICES.

    Args:
        root: below it lie ``/proc``, ``/sys``, ``/etc``, ``/usr``.
        level_of: the CUDA release that a driver speaks, by the knowledge base, for a driver that could not be asked.
        name_to_capability: the capability of a GPU by its name, for a source that does not tell it.
        device_to_name: the product with a PCI device id, for a GPU that no driver tells, or only by a name that says
            nothing.
        deep: also look for all toolkits, the compilers and the torch that is there, which starts programs, and for
            free disk; without it only for the nvcc on PATH.

    Raises:
        UsageError: cuenv does not run on this kind of machine.
    """
    ask = outside or MachineAccess()
    facts = surroundings(root, ask.uname, ask.confstr)
    found = _driver(environ, root, ask, level_of)
    if found.driver is None and not found.gpus:
        idle = system.idle_devices(root, device_to_name, name_to_capability)
        found = replace(found, gaps=(*found.gaps, *idle))
    seen = name_capabilities(name_devices(found, device_to_name, name_to_capability), name_to_capability)
    around, noted = _around(environ, root, facts.kernel)
    measured = _measured(root, ask, deep=deep)
    facts = replace(
        facts,
        detected=True,
        name=_name(environ, ask.node),
        driver=seen.driver,
        gpus=seen.gpus or (),
        environment=around,
        resources=measured.resources,
        evidence=(*facts.evidence, *seen.evidence, *noted, *measured.evidence),
        gaps=(*seen.gaps, *facts.gaps, *measured.gaps),
    )
    return _with_tools(facts, environ, root, ask, deep=deep)


def _name(environ: Mapping[str, str], node: str) -> str:
    """The name of this node in Slurm, otherwise the host name."""
    return one_line(environ.get("SLURMD_NODENAME") or node)[:LONGEST_NAME]


def _driver(
    environ: Mapping[str, str], root: Path, ask: MachineAccess, level_of: Callable[[str], Version | None]
) -> ProbeResult:
    """The driver and GPUs by NVML, then nvidia-smi, then the kernel."""
    kernel_side = system.see_by_kernel(root)
    library = system.find_library(system.NVML, environ, root)
    if library is None and not system.has_driver(root):
        seen = [ProbeResult(gaps=(Gap("driver", "nvml", f"{system.NVML} is on no library path"),))]
    else:
        seen = [ask.nvml(library.path if library and library.hidden else None)]
    if not seen[0].complete:
        from cuenv.host.io import nvml  # noqa: PLC0415 - only where NVML leaves something open

        seen.append(nvml.see_by_smi(environ, root, ask.run))
    found = merge((*seen, kernel_side))
    if found.driver is None and not found.gpus:
        return found
    return _complete(found, system.library_version(environ, root), level_of)


def _complete(
    found: ProbeResult, linked: tuple[str, str] | None, level_of: Callable[[str], Version | None]
) -> ProbeResult:
    """Add the driver version by the library or the kernel module, and its CUDA version by the tables."""
    driver, evidence = found.driver or Driver(), list(found.evidence)
    if driver.version is None and linked:
        driver = replace(driver, version=linked[0])
        evidence.append(Evidence("driver.version", "file name", linked[1]))
    elif driver.version is None and driver.kernel_module:
        driver = replace(driver, version=driver.kernel_module)
        text = f"{driver.kernel_module}, taken from the kernel module"
        evidence.append(Evidence("driver.version", f"/{system.PROC_VERSION}", text))
    if driver.cuda is None and driver.version is not None:
        cuda = level_of(driver.version)
        if cuda is not None:
            driver = replace(driver, cuda=cuda)
            evidence.append(Evidence("driver.cuda", "knowledge base", f"driver {driver.version} supports CUDA {cuda}"))
    return replace(found, driver=driver, evidence=tuple(evidence))


def _around(environ: Mapping[str, str], root: Path, kernel: str | None) -> tuple[Surroundings, Iterable[Evidence]]:
    container = system.container(root, environ)
    wsl = system.wsl(root, kernel)
    paths = system.library_path(environ)
    around = Surroundings(
        container=container.text if container else None,
        wsl=wsl is not None,
        conda_prefix=environ.get("CONDA_PREFIX") or None,
        virtual_env=environ.get("VIRTUAL_ENV") or None,
        library_path=paths,
        driver_capabilities=environ.get("NVIDIA_DRIVER_CAPABILITIES") if container else None,
        device_nodes=system.device_nodes(root),
        libcuda=system.find_libcuda(environ, root) if system.has_driver(root) else None,
    )
    named = [
        Evidence(f"environment.{fact}", variable, environ[variable])
        for fact, variable in (
            ("conda_prefix", "CONDA_PREFIX"),
            ("virtual_env", "VIRTUAL_ENV"),
            ("driver_capabilities", "NVIDIA_DRIVER_CAPABILITIES" if container else ""),
        )
        if environ.get(variable)
    ]
    if around.libcuda:
        named.append(Evidence("environment.libcuda", around.libcuda.via, around.libcuda.path))
    listed = [
        Evidence(f"environment.library_path[{index}]", "LD_LIBRARY_PATH", f"{entry.path}: {', '.join(entry.libraries)}")
        for index, entry in enumerate(paths)
    ]
    return around, [*(item for item in (container, wsl) if item), *named, *listed]


def _measured(root: Path, ask: MachineAccess, *, deep: bool) -> system.Measured:
    found = system.measure(root, ask.space)
    if not deep:
        return found
    disk = system.free_disk(ask.space)
    return replace(
        found,
        resources=replace(found.resources, disk_mib=disk.resources.disk_mib),
        evidence=(*found.evidence, *disk.evidence),
        gaps=(*found.gaps, *disk.gaps),
    )


def _unasked(_argv: Sequence[str], _timeout: float, _environ: Mapping[str, str]) -> process.Completed:
    """Stands in for a program that is not run, because the nvcc on PATH may belong to an environment."""
    return process.Completed(code=None, reason="only files were read, nothing was executed")


def _with_tools(
    facts: HostFacts, environ: Mapping[str, str], root: Path, ask: MachineAccess, *, deep: bool
) -> HostFacts:
    if not deep and process.which("nvcc", environ) is None:
        return facts
    from cuenv.host.io import toolkits  # noqa: PLC0415 - only where there is something to find

    found = toolkits.find_toolkits(environ, root, ask.run if deep else _unasked, deep=deep)
    facts = replace(facts, toolkits=found.toolkits)
    evidence, gaps = [*facts.evidence, *found.evidence], [*facts.gaps, *found.gaps]
    if deep:
        compilers = toolkits.find_compilers(environ, ask.run)
        torch = toolkits.find_torch(environ, ask.run)
        facts = replace(facts, compilers=compilers.compilers, torch=torch.torch)
        evidence += [*compilers.evidence, *torch.evidence]
        gaps += [*compilers.gaps, *torch.gaps]
    return replace(facts, evidence=tuple(evidence), gaps=tuple(gaps))
