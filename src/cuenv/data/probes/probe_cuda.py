"""torch reaches the GPUs, and what each of them is; else why it reaches none."""

from __future__ import annotations

import warnings
from typing import Any

from _told import Observed, answer, load, reason

GIB = 1024.0**3


def look(told: Observed) -> None:
    torch = load("torch")
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        there = torch.cuda.is_available()
    told.facts["build"] = torch.version.cuda
    told.facts["count"] = torch.cuda.device_count() if there else 0
    if not there:
        told.facts["why"] = why_not(torch, [str(item.message) for item in heard])
        return
    for index in range(torch.cuda.device_count()):
        name = "cuda:%d" % index
        try:
            told.done.append(name + " " + described(torch, index))
        except Exception as error:  # noqa: BLE001 - one GPU of many may be lost
            told.fail(name, reason(error))


def why_not(torch: Any, heard: list[str]) -> str:
    if torch.version.cuda is None:
        return "it is a build without CUDA"
    try:
        torch.cuda.init()
    except Exception as error:  # noqa: BLE001 - its message is what is wanted
        return str(error) or reason(error)
    return heard[0] if heard else "torch.cuda.is_available() is False"


def described(torch: Any, index: int) -> str:
    found = torch.cuda.get_device_properties(index)
    free, total = torch.cuda.mem_get_info(index)
    memory = "%.1f of %.1f GiB free" % (free / GIB, total / GIB)
    return "%s (%d.%d), %s" % (found.name, found.major, found.minor, memory)


if __name__ == "__main__":
    answer(look)
