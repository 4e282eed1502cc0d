"""nvidia-smi: the same driver through its command, for machines where NVML cannot be loaded from Python."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from packaging.version import Version

from cuenv.core.io.process import Completed, Run, run, which
from cuenv.core.reading import describe
from cuenv.core.versions import Capability, check_driver, version
from cuenv.host.facts import Driver, Evidence, Gap, Gpu
from cuenv.host.io.observation import ProbeResult

FIELDS = ("name", "compute_cap", "memory.total", "driver_version")
TIMEOUT = 20.0
"""Seconds: with persistence mode off the driver wakes every GPU of a node first."""

# "CUDA Version: 12.2"; drivers of the 610 branch were seen to print "CUDA UMD Version: 13.3".
_BANNER = re.compile(r"CUDA (?:UMD )?Version\s*:\s*([0-9]{1,2}\.[0-9]{1,2})\b")
_UNKNOWN_FIELD = re.compile(r'Field "([a-z_.]{1,40})" is not a valid field to query')
_WSL = "usr/lib/wsl/lib/nvidia-smi"
_MAX_LINES = 4096


def find_smi(environ: Mapping[str, str], root: Path) -> str | None:
    """Where nvidia-smi lies: on PATH, or in WSL's own folder."""
    found = which("nvidia-smi", environ)
    hidden = root / _WSL
    return found or (str(hidden) if hidden.is_file() else None)


def see(environ: Mapping[str, str], root: Path, run_: Run = run) -> ProbeResult:
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
        gaps.append(Gap("driver.cuda", "nvidia-smi", "its banner names no CUDA version"))
    if seen.gpus:
        gaps.append(Gap("gpus.modes", "nvidia-smi", "MIG and ECC are asked of NVML alone"))
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
    """The field that an old nvidia-smi refuses, or ``None``."""
    found = _UNKNOWN_FIELD.search(text)
    return found[1] if found else None


def parse_none(text: str) -> bool:
    """Whether nvidia-smi says that the driver works and has no device."""
    return "No devices were found" in text


def parse_banner(text: str) -> Version | None:
    """The CUDA release in the banner of a plain ``nvidia-smi``; ``None`` when it says N/A or nothing."""
    found = _BANNER.search(text)
    return version(found[1]) if found else None


def parse_query(text: str, fields: Sequence[str]) -> ProbeResult:
    """Read the rows of ``--format=csv,noheader,nounits``; a row or field that is unusable is a gap."""
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
