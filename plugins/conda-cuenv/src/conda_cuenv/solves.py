"""A warning after a solve that chose CPU builds on a machine with an NVIDIA GPU."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from conda_cuenv.program import line, say

WITH_GPU = frozenset({"pytorch", "jaxlib", "tensorflow", "libxgboost", "lightgbm", "onnxruntime"})
"""Packages that conda-forge builds for the CPU and for CUDA under one name, and that people install for the GPU."""
_ASKED_FOR = frozenset({"cpuonly", "pytorch-cpu", "tensorflow-cpu", "jaxlib-cpu", "py-xgboost-cpu", "onnxruntime-cpu"})
"""Packages that stand for a CPU build: who asks for one wants it."""
_CPU = re.compile(r"(?:^|_)cpu(?:_|$)")

_wanted: set[str] = set()
_said: set[str] = set()


def remember(specs: Iterable[Any]) -> None:
    """Keep which packages were asked for as CPU builds."""
    for spec in specs:
        name = str(getattr(spec, "name", ""))
        if name in _ASKED_FOR:
            _wanted.update(WITH_GPU)
        elif "cpu" in str(_field(spec, "build") or ""):
            _wanted.add(name)


def _field(spec: Any, name: str) -> Any:
    """A part of a MatchSpec, which is ``None`` or absent where it asks for nothing."""
    try:
        return spec.get_raw_value(name)
    except (AttributeError, KeyError):
        return None


def warn_of_cpu(link: Iterable[Any]) -> None:
    """Say which CPU builds are about to be installed, when conda sees a CUDA driver."""
    records = list(link)
    if any(record.name in _ASKED_FOR for record in records):
        return
    found = [one for one in _cpu_builds(records) if one not in _said]
    if not found:
        return
    cuda = driver_cuda()
    if not cuda or _silent():
        return
    _said.update(found)
    kind = "CPU builds" if len(found) > 1 else "a CPU build"
    name = line(found[0].split(" ")[0])
    say(
        f"\ncuenv: conda chose {', '.join(map(line, found))}: {kind}, although this machine has an NVIDIA GPU "
        f"(__cuda {cuda}).\n"
        f"       conda shows what keeps the CUDA build out when you ask for it: '{name}=*=*cuda*'. "
        "'conda cuenv resolve' chooses PyTorch and CUDA that run here.\n",
        sys.stderr,
    )


def _cpu_builds(records: Iterable[Any]) -> Iterator[str]:
    for record in records:
        if record.name in WITH_GPU and record.name not in _wanted and _CPU.search(str(record.build)):
            yield f"{record.name} {record.version} {record.build}"


def driver_cuda() -> str:
    """The version of conda's virtual package ``__cuda``; empty without it."""
    from conda.base.context import context  # noqa: PLC0415 - loaded by conda

    manager = context.plugin_manager
    if hasattr(manager, "get_virtual_package_records"):
        found = manager.get_virtual_package_records()
    else:  # before conda 24.9
        found = manager.get_virtual_packages()
    for one in found:
        if one.name.lstrip("_") == "cuda":
            return str(one.version or "")
    return ""


def _silent() -> bool:
    from conda.base.context import context  # noqa: PLC0415 - loaded by conda

    return bool(context.quiet or context.json)
