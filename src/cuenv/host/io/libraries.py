"""Shared libraries by name: where the driver's library lies, and which CUDA libraries LD_LIBRARY_PATH puts in front."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cuenv.core.io.files import names_in
from cuenv.host.facts import LibraryPath

NVML = "libnvidia-ml.so.1"
CUDA = "libcuda.so.1"

_DEFAULTS = (
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "lib64",
    "lib",
)
# Where drivers lie that did not tell the loader: WSL2, container hosts that mount the driver, NixOS.
_HIDDEN = ("usr/lib/wsl/lib", "usr/local/nvidia/lib64", "run/opengl-driver/lib")
_NUMBERED = re.compile(r"\.so\.([0-9]{3,4}(?:\.[0-9]{1,4}){1,3})")
_CUDA_LIBRARY = re.compile(
    r"(lib(?:cudart|cublas|cublasLt|cudnn(?:_[a-z_]+)?|nccl|cusparse|cusparseLt|cusolver|cufft|curand|nvrtc"
    r"|nvJitLink|cupti|nvToolsExt|cuda|nvidia-ml))\.so(\.[0-9.]+)?"
)
_COMPAT = frozenset({"compat", "cuda-compat"})
_CACHE_LIMIT = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Library:
    """A library file; ``hidden`` when the loader does not search its folder by itself."""

    path: Path
    hidden: bool = False


def find_library(name: str, environ: Mapping[str, str], root: Path) -> Library | None:
    """Where a driver library lies, in the loader's order, without running ldconfig; ``None`` when it is nowhere."""
    entries = [Path(entry) for entry in environ.get("LD_LIBRARY_PATH", "").split(":") if entry]
    cached = [root / path.lstrip("/") for path in parse_cache(_cache(root), name)]
    defaults = [root / folder / name for folder in _DEFAULTS]
    for path in (*(entry / name for entry in entries), *cached, *defaults):
        if os.path.lexists(path):
            return Library(path)
    for folder in _HIDDEN:
        if os.path.lexists(root / folder / name):
            return Library(root / folder / name, hidden=True)
    return None


def _cache(root: Path) -> bytes:
    try:
        with (root / "etc/ld.so.cache").open("rb") as stream:
            return stream.read(_CACHE_LIMIT)
    except OSError:
        return b""


def parse_cache(data: bytes, name: str) -> tuple[str, ...]:
    """The paths that the loader's cache holds for a library, in its order."""
    found = re.findall(rb"/[^\0]{0,4096}/" + re.escape(name.encode()) + rb"(?=\0)", data)
    return tuple(dict.fromkeys(os.fsdecode(path) for path in found))


def parse_number(file_name: str) -> str | None:
    """The driver version in the name of a driver library: ``libcuda.so.535.129.03`` is of 535.129.03."""
    found = _NUMBERED.search(file_name)
    return found[1] if found and found.end() == len(file_name) else None


def is_forward(path: Path) -> bool:
    """Whether a driver library is one of a forward-compatibility package, as in ``/usr/local/cuda-12.8/compat``."""
    return not _COMPAT.isdisjoint({path.parent.name, Path(os.path.realpath(path)).parent.name})


def library_version(environ: Mapping[str, str], root: Path) -> tuple[str, str] | None:
    """The version of the driver's user-mode libraries by what their links point to, and the words for evidence.

    A forward-compatibility package is of another driver than the machine's.
    """
    for name in (NVML, CUDA):
        found = find_library(name, environ, root)
        target = os.path.realpath(found.path) if found else ""
        number = parse_number(target)
        if found and number and not is_forward(found.path):
            return number, f"{found.path} is {Path(target).name}"
    return None


def parse_names(names: Iterable[str]) -> tuple[str, ...]:
    """The CUDA libraries among file names, each once, without their endings."""
    matches = (_CUDA_LIBRARY.fullmatch(name) for name in names)
    return tuple(sorted({match[1] for match in matches if match}))


def library_path(environ: Mapping[str, str]) -> tuple[LibraryPath, ...]:
    """The entries of LD_LIBRARY_PATH that hold CUDA libraries, in its order."""
    found = []
    for entry in dict.fromkeys(environ.get("LD_LIBRARY_PATH", "").split(":")):
        names = parse_names(names_in(entry)) if entry else ()
        if names:
            found.append(LibraryPath(path=entry, libraries=names))
    return tuple(found)
