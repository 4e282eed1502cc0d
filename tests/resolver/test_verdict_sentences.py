"""Every sentence of the rules, with its reasons and its remedy, as somebody reads it: ``verdicts.txt`` is to be read.

When a rule, a row or a sentence changes on purpose, this test with ``CUENV_WRITE_VERDICTS=1`` writes the file anew, and
its difference is what a reviewer looks at.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from cuenv.core.versions import Capability, DeviceCode, Target, version
from cuenv.host.facts import Driver, Evidence, Gap, Gpu, HostFacts, Libc
from cuenv.host.request import pool
from cuenv.knowledge.requirement import Requirement
from cuenv.resolver.candidates import Candidate
from cuenv.resolver.rules import RULES, Judge, Verdict
from given import base, candidate, case, machine

SENTENCES = Path(__file__).parents[1] / "verdicts.txt"

CPU = candidate("2.13.0", "cpu*")
CUDA118 = candidate("2.5.1", "cuda118*")
CUDA120 = candidate("2.5.1", "cuda120*", "12.2")
CUDA126 = candidate("2.7.1", "cuda126*")
CUDA129 = candidate("2.13.0", "cuda129*")
CUDA130 = candidate("2.13.0", "cuda130*")
LABELLED = candidate("2.5.1", "*cuda11.8*")
UNPROVEN = candidate("2.5.1", "*cuda12.1*")


def built(item: Candidate, **changes: Any) -> Candidate:
    return replace(item, build=item.build.replaced(**changes))


def at(item: Candidate, **changes: Any) -> Candidate:
    return replace(item, **changes)


# Builds as a lock or an overlay may hold them, which no row of the tables is.
NO_ISA = built(CUDA126, code=DeviceCode(sass=(Target(Capability(8, 0)),), ptx=(Target(Capability(8, 0)),)))
FUTURE_ISA = built(NO_ISA, code=(NO_ISA.build.code or DeviceCode(sass=()))._replace(isa=version("15.0")))
NO_CODE = built(CUDA129, code=None, cudnn=None, nccl=None, glibc=None)
UNHEARD = at(built(CUDA129, glibc=None, stack="pytorch"), cuda=version("12.7"))
OLD_MAJOR = at(CUDA118, cuda=version("10.1"))
OLDEST = at(CUDA118, cuda=version("8.0"))
NEWEST = at(CUDA130, cuda=version("14.0"))
BELOW_NVCC = at(CUDA120, cuda=version("11.8"))
OTHER_12 = at(CUDA126, cuda=version("12.9"))
CUDA128 = built(CUDA126, cuda=version("12.8"))
CUDA117 = candidate("2.0.1", "*cuda11.7*")
AT_28 = built(CUDA129, version=version("2.8"))
UNHEARD_LAYERS = at(CUDA129, cudnn=version("99.0"), nccl=version("99.0"))
OLDEST_BUILD = built(CUDA118, cuda=version("7.5"))
OTHER_13 = at(CUDA130, cuda=version("13.1"))
CPU_BESIDE = at(CPU, cuda=version("12.9"))
LOCKED = at(CUDA129, cudnn=version("9.10.1.4"), nccl=version("2.27.3"))
LOCKED_NEW = at(CUDA129, cudnn=version("9.11.0.98"), nccl=version("2.28.3"))
LOCKED_OLD = at(CUDA118, cudnn=version("7.0"), nccl=version("1.0"))
BARE_LAYERS = built(CUDA126, cudnn=Requirement(package="libcudnn", first=version("9.11"), below=version("10")))

BARE = replace(
    machine(),
    gaps=(
        Gap("driver", "nvml", "libnvidia-ml.so.1 was not found on the library paths"),
        Gap("kernel", "uname", "not asked"),
        Gap("gpus", "pci", "no NVIDIA device on the bus"),
    ),
)
BLIND = replace(
    machine(driver="535.129.03"),
    gpus=(
        Gpu(index=0, name="NVIDIA X1", capability=None),
        Gpu(index=1, name="", capability=None),
        Gpu(index=2, name="NVIDIA X1", capability=None),
    ),
)
NAMED = replace(
    machine(driver="535.129.03"),
    gpus=tuple(Gpu(index=index, name="RTX 4090", capability=Capability(8, 9)) for index in (0, 1)),
)
OVERRIDDEN = replace(
    machine("10.0", level="12.9"), evidence=(Evidence("driver.cuda", "override:CONDA_OVERRIDE_CUDA", "12.9"),)
)
LEVEL_ONLY = replace(machine(level="12.4"), detected=False)
MUTE = replace(machine("8.9"), driver=Driver(), evidence=())
MUSL = replace(machine("8.9", driver="580.65.06"), libc=Libc(family="musl", version=version("1.2.5")))
SEEN = replace(
    machine("8.0", driver="550.144.03", libc="2.17"),
    evidence=(
        Evidence("gpus", "nvml:name", "A100"),
        Evidence("driver.cuda", "nvml:cuda", "12.4"),
        Evidence("libc", "ldd", "2.17"),
        Evidence("platform", "uname", "linux-64"),
    ),
)
TWO = pool(
    [machine("8.6", driver="470.129.06", libc="2.17", label="one"), machine("9.0", driver="580.65.06", label="two")]
)
HALF = pool([machine("8.6", driver="535.129.03", label="one"), machine(driver="535.129.03", label="two", libc=None)])

BOTH_BARE = pool([machine("8.6", label="one"), machine(label="two"), machine(label="three")])

CASES: dict[str, tuple[HostFacts, tuple[Candidate, ...], dict[str, Any]]] = {
    "ordinary": (
        machine("8.9", driver="535.129.03"),
        (CUDA118, CUDA120, CUDA126, CUDA129, CUDA130, LABELLED, UNPROVEN, CPU),
        {},
    ),
    "no compiler": (machine("8.9", driver="535.129.03"), (CUDA118, CUDA129), {"dev": False}),
    "cpu": (BARE, (CPU, CUDA129), {"cpu": True}),
    "bare": (BARE, (CUDA129,), {}),
    "old driver, old C library": (machine("8.0", driver="470.129.06", libc="2.17"), (CUDA118, CUDA129, LABELLED), {}),
    "a new GPU with an old driver": (machine("12.0", driver="560.35.03"), (CUDA118, CUDA126, CUDA129), {}),
    "an old GPU with a new driver": (
        machine("6.1", driver="590.48.01"),
        (CUDA126, CUDA130, BARE_LAYERS, LOCKED, LOCKED_NEW),
        {},
    ),
    "two GPUs": (machine("7.0", "12.0", driver="575.57.08"), (CUDA118, CUDA129, LOCKED_NEW), {}),
    "no driver": (machine("8.9", libc=None), (CUDA129,), {}),
    "nothing known of the driver": (MUTE, (CUDA129, CUDA118), {}),
    "only a level": (LEVEL_ONLY, (CUDA129, CUDA130), {}),
    "a level and a GPU": (machine("9.0", level="12.4"), (CUDA118, CUDA126, CUDA130, OLD_MAJOR), {}),
    "a level before 11": (machine("7.0", level="10.0"), (OLD_MAJOR, CUDA118), {}),
    "only a branch": (machine("9.0", driver="525"), (CUDA129, CUDA130), {}),
    "a driver of CUDA 10": (machine("7.0", driver="418.39"), (OLD_MAJOR, CUDA118), {}),
    "a level within a major": (machine("8.0", level="11.2"), (CUDA118,), {}),
    "a level of CUDA 10.1": (machine("7.0", level="10.1"), (OLD_MAJOR,), {}),
    "the last branch of a GPU": (machine("6.1", "5.0", driver="580.65.06"), (CUDA130, CUDA126, LOCKED_NEW), {}),
    "two bare machines": (BOTH_BARE, (CUDA129,), {}),
    "a level that was set": (OVERRIDDEN, (CUDA126,), {"dev": False}),
    "an old GPU without a driver": (machine("6.1"), (CUDA126,), {}),
    "a level of nobody": (machine("9.0", level="99.0"), (CUDA129,), {}),
    "musl": (MUSL, (CUDA129, CPU), {}),
    "blind": (BLIND, (CUDA129,), {}),
    "named": (NAMED, (CUDA129,), {}),
    "evidence": (SEEN, (CUDA118, CUDA126, CUDA130), {}),
    "JIT": (machine("10.0", driver="575.57.08"), (CUDA126,), {"dev": False}),
    "JIT without a driver": (machine("10.0"), (CUDA126,), {"dev": False}),
    "JIT with a driver before the PTX": (machine("10.0", level="12.4"), (CUDA126,), {"dev": False}),
    "JIT of nobody knows what": (machine("10.0", driver="575.57.08"), (NO_ISA,), {}),
    "JIT of a release without driver": (machine("10.0", driver="575.57.08"), (FUTURE_ISA,), {}),
    "Tegra": (machine("8.7", "11.0", driver="580.65.06"), (CUDA129, CUDA130), {}),
    "a GPU of no row": (machine("13.0", driver="580.65.06"), (CUDA129, CUDA130, NEWEST), {}),
    "two machines": (TWO, (CUDA118, CUDA129, CUDA130, CUDA126), {}),
    "one machine without GPU": (HALF, (CUDA129,), {}),
    "another platform": (machine("9.0", driver="570.26", platform="linux-aarch64"), (CUDA129,), {}),
    "what no row is": (
        machine("7.5", driver="580.65.06"),
        (NO_CODE, UNHEARD, OLDEST, NEWEST, BELOW_NVCC, LOCKED_OLD, LOCKED_NEW),
        {},
    ),
    "a stack": (machine("8.9"), (CUDA129, LABELLED), {"stack": "pytorch", "dev": False}),
    "a torch": (machine("8.9"), (CUDA129, LABELLED), {"pytorch": "2.5", "dev": False}),
    "a toolkit": (machine("8.9"), (CUDA129, LABELLED), {"cuda": "12.9", "dev": False}),
    "a toolkit of another label": (machine("8.9"), (LABELLED,), {"cuda": "==11.8.1", "dev": False}),
    "a Python": (machine("8.9"), (CUDA129,), {"python": "3.9", "dev": False}),
    "a day": (machine("8.9"), (CUDA118, CUDA126, CUDA129, UNPROVEN), {"as_of": "2025-06-10", "dev": False}),
    "libraries": (
        machine("7.5", driver="580.65.06"),
        (CUDA118, CUDA129, CUDA130, CPU, CPU_BESIDE),
        {"packages": ("flash-attn", "deepspeed=0.18.8")},
    ),
    "libraries of pip": (
        machine("8.9", driver="580.65.06"),
        (CUDA118, CUDA129, CUDA130),
        {"pip": ("xformers==0.0.30", "deepspeed==0.14.1", "bitsandbytes<0.43", "ninja")},
    ),
    "libraries without a compiler": (
        machine("8.9", driver="580.65.06"),
        (CUDA118, CUDA129),
        {"pip": ("deepspeed==0.15.4", "flash-attn==2.5.0"), "dev": False},
    ),
    "a library that fails with offload": (
        machine("8.9", driver="580.65.06"),
        (CUDA129,),
        {"pip": ("deepspeed==0.14.1",), "offload": "cpu"},
    ),
    "libraries that suit": (
        machine("8.0", driver="580.65.06"),
        (CUDA118, CUDA126, CUDA129, LABELLED),
        {"pip": ("flash-attn", "bitsandbytes", "xformers"), "packages": ("torchvision",)},
    ),
    "libraries of the channels": (
        machine("8.9", driver="580.65.06"),
        (CUDA126, CUDA129, LABELLED),
        {"packages": ("torchaudio", "xformers", "flash-attn")},
    ),
    "one library of a channel": (machine("8.9"), (CUDA126, LABELLED), {"packages": ("bitsandbytes",)}),
    "libraries on an old GPU": (
        machine("6.1", driver="580.65.06"),
        (CUDA126, CUDA129),
        {"pip": ("bitsandbytes",)},
    ),
    "libraries of two ages": (
        machine("6.1", driver="580.65.06"),
        (CUDA118, CUDA126, CUDA129, CUDA130),
        {"pip": ("bitsandbytes==0.46.1", "bitsandbytes>=0.48,<0.49", "xformers==0.0.34")},
    ),
    "libraries that compile": (
        machine("8.0", driver="580.65.06"),
        (CUDA118, CUDA120, CUDA129, OTHER_12, OTHER_13),
        {"pip": ("deepspeed==0.15.4", "flash-attn==2.8.2", "bitsandbytes==0.38.1")},
    ),
    "libraries of dropped GPUs": (
        machine("6.1", driver="580.65.06"),
        (CUDA120, CUDA128),
        {"pip": ("bitsandbytes>=0.50",)},
    ),
    "libraries of another torch": (
        machine("8.0"),
        (CUDA118, CUDA126, CUDA129, AT_28),
        {"pip": ("flash-attn==2.8.0.post2", "flash-attn==2.6.3"), "dev": False},
    ),
    "a library of this torch": (machine("8.0"), (CUDA126, CUDA129), {"pip": ("torchvision==0.28.0",)}),
    "releases of no row": (machine("8.0"), (UNHEARD_LAYERS,), {}),
    "two GPUs that are too young": (machine("10.0", "12.0"), (CUDA118,), {}),
    "a GPU of a later minor": (machine("8.9"), (CUDA117, OLDEST_BUILD), {}),
    "a library of no row": (machine("8.9", driver="580.65.06"), (CUDA129,), {"pip": ("flash-attn==1.0",)}),
}


def lines(verdict: Verdict) -> Iterator[str]:
    yield f"{verdict.rule}: {verdict.outcome}: {verdict.because}"
    for reason in verdict.reasons:
        low = " (low confidence)" if reason.low else ""
        yield f"    {reason.kind}: {reason.says} [{', '.join(reason.sources)}]{low}"
    if verdict.remedy:
        remedy = verdict.remedy
        what = remedy.option or f"driver {'up to ' if remedy.upto else ''}{remedy.driver}"
        yield f"    remedy: {remedy.text} ({what})"


def told() -> str:
    """Each sentence once, by rule, with the cases and candidates that it was said of."""
    found: dict[tuple[int, str], dict[str, list[str]]] = {}
    order = {rule.name: index for index, rule in enumerate(RULES)}
    for name, (facts, items, wishes) in CASES.items():
        for item in items:
            for verdict in Judge(case(facts, **wishes)).verdicts(item):
                text = "\n".join(lines(verdict))
                cuda = f" on {item.cuda}" if item.cuda != item.build.cuda else ""
                said = found.setdefault((order[verdict.rule], text), {})
                said.setdefault(name, []).append(f"{item.build.version} {item.build.build}{cuda}")
    parts = []
    for rule in RULES:
        parts.append(f"== {rule.name}: {rule.title}\n")
        for (index, text), said in found.items():
            if RULES[index] is rule:
                of = "; ".join(f"{name}: {', '.join(items)}" for name, items in said.items())
                parts.append(f"{text}\n    of {of}\n")
    return "\n".join(parts)


def test_every_sentence_is_as_it_was_read() -> None:
    text = told()
    if os.environ.get("CUENV_WRITE_VERDICTS"):
        SENTENCES.write_text(text, encoding="utf-8")
    assert text == SENTENCES.read_text(encoding="utf-8")


def test_every_rule_says_each_thing_that_it_can_say() -> None:
    """The cases are many enough: each rule passes somewhere, and of the rules named here each that can say no, unknown
    or a warning does. A new rule is tried in `test_rules`, and needs no line here.
    """
    outcomes: dict[str, set[str]] = {rule.name: set() for rule in RULES}
    for facts, items, wishes in CASES.values():
        for item in items:
            for verdict in Judge(case(facts, **wishes)).verdicts(item):
                outcomes[verdict.rule].add(verdict.outcome)
    assert all("pass" in said for said in outcomes.values())
    assert {name for name, said in outcomes.items() if "reject" in said} >= {
        *("platform", "cpu", "gpu", "wish", "driver-gpu", "driver-floor", "device-code", "nvcc", "cudnn", "nccl"),
        *("glibc", "roles", "extensions"),
    }
    assert "reject" not in outcomes["driver-level"]
    assert {name for name, said in outcomes.items() if "unknown" in said} >= {
        *("gpu", "driver-gpu", "driver-floor", "device-code", "nvcc", "cudnn", "nccl", "glibc", "roles", "extensions"),
    }
    assert {name for name, said in outcomes.items() if "warn" in said} >= {
        *("device-code", "cudnn", "nccl", "extensions", "driver-level"),
    }
    assert base().edition
