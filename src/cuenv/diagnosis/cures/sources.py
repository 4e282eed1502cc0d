"""Cures for what the sources of a build need: headers, libraries, names in them, and submodules."""

from __future__ import annotations

import re
from shlex import quote

from cuenv.core.regex import regex
from cuenv.core.versions import version
from cuenv.diagnosis.cures.build import EXPORT_PATHS, INSTALL_NVCC, install_toolchain
from cuenv.diagnosis.cures.context import CureResult, LogContext, cure, torch_of
from cuenv.diagnosis.cures.managers import PIP
from cuenv.diagnosis.cures.names import provider
from cuenv.knowledge.guidance import Provider
from cuenv.knowledge.io.load import load_guidance


@cure
def cmake_package(context: LogContext) -> CureResult:
    """Suggest the provider of a CMake package: torch, or a development package of the system."""
    name = context.groups.get("name", "")
    if name in ("Torch", "Caffe2", "TorchVision"):
        ask = "import torch; print(torch.utils.cmake_prefix_path)"
        remedy = "give CMake the directory of torch's CMake files"
        return CureResult(remedy=remedy, command=f'export CMAKE_PREFIX_PATH=$(python -c "{ask}")')
    if name == "pybind11":
        return CureResult(command=f"{PIP} install 'pybind11[global]'")
    package = provider(context, "cmake", name)
    return CureResult(command=f"sudo apt-get install -y {package}" if package else "")


@cure
def link(context: LogContext) -> CureResult:
    """Suggest the system package for linking with a library."""
    found = provider(context, "link", context.groups.get("name", "").removeprefix("lib"))
    return CureResult(command=f"sudo apt-get install {found}") if found else CureResult()


@cure
def link_symbol(context: LogContext) -> CureResult:
    """Name the library of a missing function of BLAS, LAPACK or CUDA."""
    name = context.groups.get("name", "")
    if _LAPACK.fullmatch(name):
        says = f"{name} is a function of BLAS or LAPACK"
        remedy = "install a BLAS with LAPACK (OpenBLAS or MKL), empty the build directory, and configure again"
        return CureResult(
            because=(says,), remedy=remedy, command="sudo apt-get install -y libopenblas-dev liblapack-dev"
        )
    if found := _OF_CUDA_LIBRARY.match(name):
        says = f"{name} is a function of lib{found[1] or 'cudart'}"
        remedy = f"add -l{found[1] or 'cudart'} and the directory of the toolkit's libraries to the link line"
        return CureResult(because=(says,), remedy=remedy)
    return CureResult()


_LAPACK = regex(r"cblas_[a-z]\w{2,20}|LAPACKE_\w{3,20}|[sdcz][a-z]{2,7}[0-9]?_")
_OF_CUDA_LIBRARY = regex(r"(cublasLt|cublas|cusparse|cusolver|cufft|curand|cudnn|nccl|nvrtc)[A-Z]\w|cuda[A-Z]\w")


def _name_length(row: Provider) -> int:
    return -len(row.name)


@cure
def header(context: LogContext) -> CureResult:
    """Suggest the system package that contains a header."""
    name = context.groups.get("header", "")
    held = [row for row in load_guidance(context.knowledge).providers if row.kind == "header"]
    package = next((row.gives for row in sorted(held, key=_name_length) if name.startswith(row.name)), "")
    if name in _TORCH_HEADERS and "early" in context.mentions:
        remedy = "use torch 1.0 or later, which brought this header, or a release of the sources for this torch"
        return CureResult(because=("this torch is older than 1.0",), remedy=remedy, command="")
    if name in _TORCH_HEADERS:
        remedy = "add torch's header directories to the compiler's search path: the build does not ask torch for them"
        return CureResult(remedy=remedy, command=_ADD_TORCH_HEADERS)
    if name.startswith(("torch/", "ATen/", "c10/", "THC/", "TH/")):
        return CureResult(
            remedy="install the torch that the sources were written for: the header is from another torch release"
        )
    if name.startswith(("cutlass/", "cute/", "cudnn_frontend")):
        return _submodule_cure(context)
    if in_python := provider(context, "include", name.split("/")[0] + "/"):
        folder = f'$(python -c "import {in_python}; print({in_python}.get_include())")'
        return CureResult(
            remedy=f"add the header directory of the Python package {in_python} to the compiler's search path",
            command=f'{PIP} install {in_python} && export CPATH="{folder}${{CPATH:+:$CPATH}}"',
        )
    if not package:
        return CureResult()
    remedy = f"install {package} (Debian, Ubuntu; others name it alike), or the headers from conda-forge"
    return CureResult(remedy=remedy, command=f"sudo apt-get install {package}")


_TORCH_HEADERS = frozenset({"torch/extension.h", "torch/torch.h", "torch/script.h", "ATen/ATen.h"})
_ADD_TORCH_HEADERS = (
    "export CPATH=$(python -c \"from torch.utils.cpp_extension import include_paths as p; print(':'.join(p()))\")"
    "${CPATH:+:$CPATH}"
)


@cure
def source_file(context: LogContext) -> CureResult:
    """Suggest git submodules for a file that is missing in a third-party folder."""
    return _submodule_cure(context) if _THIRD_PARTY.search(context.groups.get("name", "")) else CureResult()


def _submodule_cure(context: LogContext) -> CureResult:
    """Suggest fetching the submodules; an archive of the sources comes without them."""
    if "archive" in context.mentions:
        return CureResult(
            remedy="the sources are an archive without their submodules: take git clone --recursive", command=""
        )
    return CureResult(remedy=_FETCH_SUBMODULES, command="git submodule update --init --recursive")


_THIRD_PARTY = regex(r"(?i)(?:^|/)(?:3rd_?party|third[_-]?party|submodules?|externals?|extern|cutlass|_deps)(?:/|$)")


@cure
def cuda_name(context: LogContext) -> CureResult:
    """Suggest a CUDA release that still has, or already has, a missing name."""
    said = context.line.rpartition(" error: ")[2]
    if old := _OLD_WARP_FUNCTION.search(said):
        says = f"{old[1]} exists only for compute capability 3.0 to 6.2; {old[1]}_sync, from CUDA 9 on, works on all"
        return CureResult(because=(says,), remedy="use a newer release of the source, or build only for such a GPU")
    if re.search(r"(?:operator|function) from .(?:__)?half|more than one operator|class \"__half\"", context.line) and (
        "half" in context.line or "THC" in context.line
    ):
        says = "CUDA 9 and newer define operators and conversions for half, which sources for older releases define too"
        remedy = "leave out those of CUDA; if errors remain, the sources are too old for this CUDA"
        return CureResult(because=(says,), remedy=remedy, command=f"export {_NO_HALF}")
    _, cuda = torch_of(context)
    for name in re.findall(r"[A-Za-z_]\w{6,60}", said):
        if since := provider(context, "since", name):
            own = install_toolchain(context, cuda) if cuda and cuda >= version(since) else ""
            says = f"{name} is in the headers of CUDA {since} and newer, but the build finds older ones"
            remedy = "build with a newer toolkit: put its bin directory first on PATH, and empty the build directory"
            return CureResult(because=(says,), remedy=remedy, command=own if cuda else INSTALL_NVCC)
        if until := provider(context, "until", name):
            says = f"{name} is in the headers of CUDA up to {until}, but the build finds newer ones"
            remedy = f"take a release of the source for CUDA {version(until).major + 1}, or build with CUDA {until}"
            return CureResult(because=(says,), remedy=remedy, command=install_toolchain(context, version(until)))
    return _undeclared_name_cure(context, said)


def _undeclared_name_cure(context: LogContext, said: str) -> CureResult:
    """Suggest the include for a name of C++ or Thrust that other headers no longer bring with them."""
    words = _QUOTED.findall(said)
    scope = next((f"{word}::" for word in words if word in ("std", "thrust")), "")
    full = [f"{scope}{word.rpartition('::')[2]}" if scope else word for word in words if f"{word}::" != scope]
    header, name = next(((found, name) for name in full if (found := provider(context, "declared", name))), ("", ""))
    if not header:
        return CureResult()
    says = f"{name} is declared in <{header}>, which this file does not include; other headers no longer bring it"
    file = _SOURCE_FILE.search(context.line)
    gone = file is None or _UNPACKED.search(file[1])  # where pip unpacked it for this build alone
    command = "" if file is None or gone else f"sed -i '1i #include <{header}>' {quote(file[1])}"
    remedy = f"add #include <{header}> at the top of the file, or take a newer release of the source"
    return CureResult(because=(says,), remedy=remedy, command=command)


_QUOTED = regex("[\"'`\u2018\u2019]([A-Za-z_][\\w:]{2,60})[\"'\u2018\u2019]")
_UNPACKED = regex(r"/(?:pip-[\w-]{3,20}|builds-v[0-9]|git-v[0-9])")
_SOURCE_FILE = regex(r"(?:^|[\s|>])([\w./~+-]{1,240}\.(?:c|cc|cpp|cxx|cu|cuh|h|hh|hpp|inl))[:(][0-9]")
_HALF = "-D__CUDA_NO_HALF_OPERATORS__ -D__CUDA_NO_HALF_CONVERSIONS__"
_NO_HALF = f'NVCC_APPEND_FLAGS="{_HALF}" TORCH_NVCC_FLAGS="{_HALF}"'
_OLD_WARP_FUNCTION = regex(r"\b(__(?:shfl(?:_up|_down|_xor)?|ballot|any|all))\b")


@cure
def cmake_unset(context: LogContext) -> CureResult:
    """Suggest the conda package of cuDNN or NCCL, if the CMake variables in the log name one of them."""
    words = context.mentions.get("cmake", "")
    name = next((name for name in ("cudnn", "nccl") if name in words.lower()), "")
    because = (f"it says: {words}",) if words else ()
    if "CUDA_CUDA_LIBRARY" in words:
        remedy = "libcuda.so comes with the driver; without one give CMake the toolkit's stub, in the build directory"
        stub = "${CUDA_HOME:-/usr/local/cuda}/lib64/stubs/libcuda.so"
        return CureResult(because=because, remedy=remedy, command=f"cmake -DCUDA_CUDA_LIBRARY={stub} .")
    return CureResult(because=because, command=f"conda install -c conda-forge {name}{EXPORT_PATHS}" if name else "")


@cure
def python_header(context: LogContext) -> CureResult:
    """Suggest the -dev package of the Python in use."""
    python = context.mentions.get("python", "")
    return CureResult(command=f"sudo apt-get install python{python}-dev") if python else CureResult()


@cure
def repository(context: LogContext) -> CureResult:
    """Suggest the https address of a GitHub repository."""
    for address in ("git@github.com:", "git://github.com/"):
        if address in context.line:
            remedy = "make git use https for GitHub, and fetch again"
            command = f'git config --global url."https://github.com/".insteadOf {address}'
            return CureResult(remedy=remedy, command=command)
    return CureResult()


_FETCH_SUBMODULES = "fetch the repository's submodules in the revisions that it names, and build again"


@cure
def sources(context: LogContext) -> CureResult:
    """Suggest git submodules for sources that git did not fetch."""
    if not re.search(r"submodules?/|third_?party/|extern(?:al)?/", context.line):
        return CureResult()
    return CureResult(remedy=_FETCH_SUBMODULES, command="git submodule update --init --recursive")
