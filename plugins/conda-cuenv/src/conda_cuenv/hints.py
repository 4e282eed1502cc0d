"""Next steps for errors of conda that are about CUDA."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_KINDS = frozenset(
    {"UnsatisfiableError", "PackagesNotFoundError", "ResolvePackageNotFound", "SpecsConfigurationConflictError"}
)
"""Errors of a solve, or classes that those of other solvers inherit."""
_ABOUT = re.compile(
    r"(?<![\w-])(?:__cuda(?:_arch)?|cuda-version|cudatoolkit|pytorch-cuda|pytorch-gpu|cudnn|libcudnn|cuda-[a-z-]+)(?![\w-])"
)
_ASKED = re.compile(
    r"(?<![\w-])(?:__cuda|cuda-version|cudatoolkit|pytorch-cuda|cuda-toolkit)"
    r"(?:\[version=['\"]?)?[ =<>~!]*(\d+(?:\.\d+)?)"
)
_VIRTUAL = re.compile(r"(?<![\w-])__cuda(?:_arch)?(?![\w-])")
_INSPECT = (
    "See which driver and GPUs __cuda stands for here: conda cuenv inspect. On a machine without GPU, set "
    "CONDA_OVERRIDE_CUDA to the CUDA version of the machine that the environment is for"
)
_MOST = 200_000
"""Characters of a message that are read."""


def hints(error: Any) -> Iterator[tuple[str, str]]:
    """Code and text of each next step; nothing for errors that are not about CUDA."""
    if not any(kind.__name__ in _KINDS for kind in type(error).__mro__):
        return
    text = str(error)[:_MOST]
    if not _ABOUT.search(text):
        return
    asked = _ASKED.search(text)
    if asked:
        cuda = asked[1] if "." in asked[1] else f"{asked[1]}.0"
        yield (
            "cuenv_why_not",
            f"See why CUDA {cuda} does or does not run on this machine: conda cuenv why-not cuda={cuda}",
        )
    yield "cuenv_resolve", "Let cuenv choose PyTorch and CUDA that run on this machine: conda cuenv resolve"
    if _VIRTUAL.search(text):
        yield "cuenv_inspect", _INSPECT
