"""torch.compile of a small function, on a GPU where Triton drives one, else on the CPU."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from typing import Any

from _told import Observed, Skip, answer, gpus, load

BOUND = 1e-4
UNSUPPORTED = re.compile(r"Python 3\.\d+\+? not yet supported|not supported on Python 3")
"""What a torch says on a Python that is too new for it."""


def look(told: Observed) -> None:
    torch = load("torch")
    if not hasattr(torch, "compile"):
        raise Skip("this torch has no torch.compile")
    device = chosen(told, torch)
    torch.manual_seed(0)
    x, y = torch.randn(64, 64, device=device), torch.randn(64, 64, device=device)
    try:
        got = torch.compile(small, fullgraph=True)(x, y)
    except RuntimeError as failure:
        if UNSUPPORTED.search(str(failure)):
            raise Skip(str(failure)) from None
        raise
    error = float((got - small(x, y)).abs().max())
    if error <= BOUND:
        told.done.append("compiled and run on " + device)
    else:
        told.fail(device, "the compiled function returns another result; it differs by %.2g" % error)


def chosen(told: Observed, torch: Any) -> str:
    """The device to compile for."""
    devices: list[str] = gpus(torch)
    for device in devices:
        if torch.cuda.get_device_capability(device) < (7, 0):
            told.skipped.append(device + " is below capability 7.0, which Triton needs")
        elif importlib.util.find_spec("triton") is None:
            told.skipped.append(device + ": triton is not installed")
            break
        else:
            return device
    compiler = os.environ.get("CXX", "").split()[:1] or [name for name in ("g++", "c++") if shutil.which(name)]
    if not compiler or shutil.which(compiler[0]) is None:
        raise Skip("; ".join([*told.skipped, "torch.compile on the CPU needs a C++ compiler, and there is none"]))
    return "cpu"


def small(x: Any, y: Any) -> Any:
    return (x.sin() * y + x).sum(dim=-1)


if __name__ == "__main__":
    answer(look)
