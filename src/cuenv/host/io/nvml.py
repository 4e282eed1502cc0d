"""NVML through nvidia-ml-py: what the driver says about itself and its GPUs.

Every call that fails becomes a gap with NVML's own reason; the others still count. Branches look at the error's
value, since its class and text differ between releases.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from packaging.version import Version

from cuenv.core.io.process import Completed, Run, run, which
from cuenv.core.reading import describe
from cuenv.core.regex import regex
from cuenv.core.versions import Capability, check_driver, version
from cuenv.host.facts import Driver, Evidence, Gap, Gpu, Mig, MigInstance, Switch
from cuenv.host.io.observation import ProbeResult, cuda_of_level, has_no_name

T = TypeVar("T")

NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
_MOST_INSTANCES = 64  # more MIG instances than any GPU holds: a count above it is no count
_MEANING = {
    NOT_SUPPORTED: "this GPU or driver does not support this query",
    NO_PERMISSION: "device permissions or a cgroup forbid this query",
    9: "the kernel module is not loaded, or this container was not given the GPUs",
    12: "the driver's library cannot be loaded; a container needs NVIDIA_DRIVER_CAPABILITIES=compute,utility",
    13: "the driver is too old for this query",
    15: "the GPU is lost (fell off the bus); it needs a reset or a reboot",
    18: "the library and the loaded kernel module belong to different drivers; reboot, or reload the module",
}


def see_by_nvml(library: Path | None = None) -> ProbeResult:
    """Ask NVML about the driver and every GPU.

    Zero devices are a fact; a device whose use is forbidden to this process (NVML error 4, as in a batch job that got
    some GPUs of a node) is a gap and not one of its GPUs; any other unreachable device stays in the set, unknown.

    Args:
        library: loaded first, for places that the loader does not search by itself.
    """
    import pynvml  # noqa: PLC0415 - 25 ms that a machine without a driver does not need

    if library is not None:
        _preload(library)
    return _Questions(pynvml).all()


def _preload(library: Path) -> None:
    import ctypes  # noqa: PLC0415 - pynvml has loaded it

    with contextlib.suppress(OSError):  # NVML itself will say that it cannot be loaded
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


class _Questions:
    """Asks NVML one fact after the other, and collects evidence and gaps."""

    def __init__(self, nvml: ModuleType) -> None:
        self.nvml = nvml
        self.evidence: list[Evidence] = []
        self.gaps: list[Gap] = []
        self.devices: dict[int, str] = {}

    def all(self) -> ProbeResult:
        try:
            self.nvml.nvmlInit()
        except self.nvml.NVMLError as error:
            return ProbeResult(gaps=(Gap("driver", "nvml:nvmlInit", _reason(error)),))
        try:
            driver = Driver(
                version=self.ask("driver.version", "nvmlSystemGetDriverVersion", read=check_driver),
                cuda=self.ask("driver.cuda", "nvmlSystemGetCudaDriverVersion", read=cuda_of_level),
            )
            count = self.ask("gpus", "nvmlDeviceGetCount", read=int)
            gpus = None if count is None else self.gpus(count)
        finally:
            with contextlib.suppress(self.nvml.NVMLError):
                self.nvml.nvmlShutdown()
        evidence, gaps = tuple(self.evidence), tuple(self.gaps)
        return ProbeResult(driver=driver, gpus=gpus, devices=self.devices, evidence=evidence, gaps=gaps)

    def ask(self, fact: str, call: str, *arguments: object, read: Callable[[Any], T], absent: str = "") -> T | None:
        """The answer of one call as ``read`` understands it (ValueError when not), else ``None`` and a gap.

        ``absent`` is what "not supported" means where a GPU may lack the thing asked for: that is no gap.
        """
        try:
            answer = getattr(self.nvml, call)(*arguments)
            found = read(answer)
        except self.nvml.NVMLError as error:
            if absent and error.value == NOT_SUPPORTED:
                self.evidence.append(Evidence(fact, f"nvml:{call}", absent))
                return None
            self.gaps.append(Gap(fact, f"nvml:{call}", _reason(error)))
        except ValueError as error:
            self.gaps.append(Gap(fact, f"nvml:{call}", f"unusable answer: {error}"))
        else:
            self.evidence.append(Evidence(fact, f"nvml:{call}", str(answer if type(answer) is int else found)))
            return found
        return None

    def gpus(self, count: int) -> tuple[Gpu, ...]:
        found = (self.gpu(index) for index in range(count))
        return tuple(gpu for gpu in found if gpu is not None)

    def gpu(self, index: int) -> Gpu | None:
        fact = f"gpus[{index}]"
        try:
            handle = self.nvml.nvmlDeviceGetHandleByIndex(index)
        except self.nvml.NVMLError as error:
            self.gaps.append(Gap(fact, "nvml:nvmlDeviceGetHandleByIndex", _reason(error)))
            return None if error.value == NO_PERMISSION else Gpu(index=index, name="", capability=None)
        name = self.ask(f"{fact}.name", "nvmlDeviceGetName", handle, read=str) or ""
        if has_no_name(name):
            device = self.ask(f"{fact}.device", "nvmlDeviceGetPciInfo", handle, read=_read_device)
            self.devices |= {index: device} if device else {}
        return Gpu(
            index=index,
            name=name,
            capability=self.ask(
                f"{fact}.capability", "nvmlDeviceGetCudaComputeCapability", handle, read=_read_capability
            ),
            memory_mib=self.ask(f"{fact}.memory_mib", "nvmlDeviceGetMemoryInfo", handle, read=_read_memory),
            mig=self.mig(fact, handle),
            ecc=self.ask(f"{fact}.ecc", "nvmlDeviceGetEccMode", handle, read=_read_switch, absent="it has no ECC mode"),
        )

    def mig(self, fact: str, handle: Any) -> Mig | None:
        mode = self.ask(f"{fact}.mig", "nvmlDeviceGetMigMode", handle, read=_read_switch, absent="it has no MIG mode")
        if mode is None or not mode.on:
            return None if mode is None else Mig(mode=mode)
        most = self.ask(f"{fact}.mig.most", "nvmlDeviceGetMaxMigDeviceCount", handle, read=_read_count) or 0
        found = (self.instance(f"{fact}.mig.instances[{index}]", handle, index) for index in range(most))
        return Mig(mode=mode, instances=tuple(item for item in found if item is not None))

    def instance(self, fact: str, handle: Any, index: int) -> MigInstance | None:
        """The instance in one of the places that a GPU has for them; an empty place is none."""
        call = "nvmlDeviceGetMigDeviceHandleByIndex"
        try:
            own = self.nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except self.nvml.NVMLError as error:
            if error.value != NOT_FOUND:
                self.gaps.append(Gap(fact, f"nvml:{call}", _reason(error)))
            return None
        name = self.ask(fact, "nvmlDeviceGetName", own, read=str) or ""
        memory = self.ask(f"{fact}.memory_mib", "nvmlDeviceGetMemoryInfo", own, read=_read_memory)
        return MigInstance(profile=name.rpartition("MIG ")[2], memory_mib=memory)


def _read_capability(answer: tuple[int, int]) -> Capability:
    return Capability.parse(f"{answer[0]}.{answer[1]}")


def _read_device(answer: Any) -> str:
    return f"0x{int(answer.pciDeviceId):08x}"


def _read_memory(answer: Any) -> int:
    return int(answer.total) // (1024 * 1024)


def _read_switch(answer: Any) -> Switch:
    now, pending = answer
    if not {now, pending} <= {0, 1}:
        raise ValueError(f"invalid modes {now}, {pending}")
    return Switch(on=bool(now), pending=bool(pending))


def _read_count(answer: int) -> int:
    if not 0 <= answer <= _MOST_INSTANCES:
        raise ValueError(f"invalid number of instances {answer}")
    return answer


def _reason(error: Any) -> str:
    """NVML's message, its number with its meaning, and the error of the loader."""
    words = f"{str(error).rstrip('.')} (NVML error {error.value})"
    meaning = _MEANING.get(error.value)
    loader = error.__context__ if isinstance(error.__context__, OSError) else None
    parts = [words, meaning, None if loader is None else describe(str(loader))]
    return ": ".join(part for part in parts if part)


FIELDS = ("name", "compute_cap", "memory.total", "driver_version")
TIMEOUT = 20.0  # seconds: with persistence mode off the driver wakes every GPU of a node first

# "CUDA Version: 12.2"; drivers of the 610 branch were seen to print "CUDA UMD Version: 13.3".
_BANNER = regex(r"CUDA (?:UMD )?Version\s*:\s*([0-9]{1,2}\.[0-9]{1,2})\b")
_UNKNOWN_FIELD = regex(r'Field "([a-z_.]{1,40})" is not a valid field to query')
_WSL = "usr/lib/wsl/lib/nvidia-smi"
_MAX_LINES = 4096


def find_smi(environ: Mapping[str, str], root: Path) -> str | None:
    """The path of nvidia-smi: on PATH, or in WSL's own folder."""
    found = which("nvidia-smi", environ)
    hidden = root / _WSL
    return found or (str(hidden) if hidden.is_file() else None)


def see_by_smi(environ: Mapping[str, str], root: Path, run_: Run = run) -> ProbeResult:
    """Ask nvidia-smi for the driver and the GPUs.

    One that is too old for a field is asked again without it: the capability then comes from the table of names.
    """
    program = find_smi(environ, root)
    if program is None:
        return ProbeResult(gaps=(Gap("driver", "nvidia-smi", "not on PATH"),))
    fields, gaps = list(FIELDS), []
    done = _query(program, fields, environ, run_)
    refused = parse_refusal(done.out + done.err)
    while refused in fields:
        if refused == "driver_version":  # deprecated from 610 on
            fields[fields.index(refused)] = "kmd_version"
        else:
            gaps.append(Gap("gpus", "nvidia-smi", f"too old to know the field {refused}"))
            fields.remove(refused)
        done = _query(program, fields, environ, run_)
        refused = parse_refusal(done.out + done.err)
    if done.reason is not None and not parse_none(done.out + done.err):
        said = _words(done)
        return ProbeResult(gaps=(*gaps, Gap("driver", "nvidia-smi", f"{done.reason}{said}")))
    seen = parse_query(done.out + done.err, fields)
    banner = run_([program], TIMEOUT, environ)
    cuda = parse_banner(banner.out)
    if cuda is None:
        gaps.append(Gap("driver.cuda", "nvidia-smi", "its banner contains no CUDA version"))
    if seen.gpus:
        gaps.append(Gap("gpus.modes", "nvidia-smi", "only NVML reports MIG and ECC"))
    known = seen.driver.version if seen.driver else None
    level = () if cuda is None else (Evidence("driver.cuda", "nvidia-smi", f"CUDA Version: {cuda}"),)
    return ProbeResult(
        driver=Driver(version=known, cuda=cuda) if known or cuda else None,
        gpus=seen.gpus,
        evidence=(*seen.evidence, *level),
        gaps=(*gaps, *seen.gaps),
    )


def _query(program: str, fields: Sequence[str], environ: Mapping[str, str], run_: Run) -> Completed:
    return run_([program, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"], TIMEOUT, environ)


def _words(done: Completed) -> str:
    lines = [line.strip() for line in (done.out + "\n" + done.err).splitlines() if line.strip()]
    return f": {describe(lines[0])}" if lines else ""


def parse_refusal(text: str) -> str | None:
    """The field that an old nvidia-smi refuses; ``None`` for other output."""
    found = _UNKNOWN_FIELD.search(text)
    return found[1] if found else None


def parse_none(text: str) -> bool:
    """Whether nvidia-smi reports a working driver without devices."""
    return "No devices were found" in text


def parse_banner(text: str) -> Version | None:
    """The CUDA release in the banner of ``nvidia-smi``; ``None`` without one."""
    found = _BANNER.search(text)
    return version(found[1]) if found else None


def parse_query(text: str, fields: Sequence[str]) -> ProbeResult:
    """Read the rows of ``--format=csv,noheader,nounits``; an unusable row or field becomes a gap."""
    gpus: list[Gpu] = []
    evidence: list[Evidence] = []
    gaps: list[Gap] = []
    drivers: dict[str, None] = {}
    lines = [line for line in text.splitlines() if line.strip() and not parse_none(line)]
    for line in lines[:_MAX_LINES]:
        values = [value.strip() for value in line.split(",")]
        if len(values) != len(fields):
            gaps.append(Gap("gpus", "nvidia-smi", f"unusable row {describe(line)}"))
            continue
        row = dict(zip(fields, values, strict=True))
        gpu = _gpu(row, len(gpus), gaps)
        gpus.append(gpu)
        evidence.append(Evidence(f"gpus[{gpu.index}]", "nvidia-smi", line.strip()))
        answer = row.get("driver_version", row.get("kmd_version", ""))
        with_version = answer.partition(" [Deprecated")[0]  # as drivers from 610 on say it in their other outputs
        try:
            drivers[check_driver(with_version)] = None
        except ValueError:
            gaps.append(Gap("driver.version", "nvidia-smi", f"unusable answer {describe(answer)}"))
    found = next(iter(drivers), None)
    if found is not None:
        evidence.append(Evidence("driver.version", "nvidia-smi", found))
    count = Evidence("gpus", "nvidia-smi", f"{len(gpus)} rows" if lines else "No devices were found")
    readable = bool(gpus) or parse_none(text)
    return ProbeResult(
        driver=None if found is None else Driver(version=found),
        gpus=tuple(gpus) if readable else None,
        evidence=(*evidence, count) if readable else tuple(evidence),
        gaps=tuple(gaps),
    )


def _gpu(row: Mapping[str, str], position: int, gaps: list[Gap]) -> Gpu:
    name = row.get("name", "")
    memory = row.get("memory.total", "")
    capability = None
    if "compute_cap" in row:
        try:
            capability = Capability.parse(row["compute_cap"])
        except ValueError:
            answer = describe(row["compute_cap"])
            gaps.append(Gap(f"gpus[{position}].capability", "nvidia-smi", f"unusable answer {answer}"))
    return Gpu(
        index=position,
        name="" if name.startswith("[") else name,
        capability=capability,
        memory_mib=int(memory) if memory.isascii() and memory.isdigit() and len(memory) < 12 else None,
    )
