"""CUDA toolkits and host compilers on this machine.

A release is read from the toolkit's own files where it can be; ``nvcc --version`` is run only where no file tells.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from cuenv.facts import Compiler, Evidence, FoundToolkit, Gap
from cuenv.world.process import Completed, which
from cuenv.world.system import read

Run = Callable[[Sequence[str], float, Mapping[str, str]], Completed]

TIMEOUT = 10.0
_NUMBER = r"[0-9]{1,2}\.[0-9]{1,2}(?:\.[0-9]{1,4})?"
_VERSION = re.compile(_NUMBER)
_VERSION_TXT = re.compile(rf"CUDA Version ({_NUMBER})")
_NVCC = re.compile(r"release ([0-9]{1,2}\.[0-9]{1,2})\b")
_HEADER = re.compile(r"^#define\s+CUDART_VERSION\s+([0-9]{4,6})\b", re.MULTILINE)
_CONDA = re.compile(r"cuda-nvcc(?:_linux-[a-z0-9]+|-tools)?-([0-9]{1,2}\.[0-9]{1,2})\.[0-9.]+-[^/]*\.json")
_WRAPPED = re.compile(r"(/[^\s\"']{1,4096})/bin/nvcc\b")
_COMPILER = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){0,2}")
_HEADERS = (
    "include/cuda_runtime_api.h",
    "targets/x86_64-linux/include/cuda_runtime_api.h",
    "targets/sbsa-linux/include/cuda_runtime_api.h",
)
_COMPILERS = {
    "gcc": ("-dumpfullversion", "-dumpversion"),
    "g++": ("-dumpfullversion", "-dumpversion"),
    "clang": ("-dumpversion",),
}
