"""Builds: the toolkit, the compilers and the headers that an extension is compiled with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from shlex import quote

from packaging.version import Version

from cuenv.core.findings import Finding
from cuenv.core.record import replace
from cuenv.core.regex import regex
from cuenv.core.versions import target_for, version
from cuenv.diagnosis.cures.case import (
    Joined,
    LogContext,
    asked_rule,
    capabilities,
    host_of,
    in_image,
    join,
    resolve_anew,
    torch_of,
    with_code,
)
from cuenv.diagnosis.cures.managers import PIP
from cuenv.diagnosis.cures.names import provider
from cuenv.host.facts import FoundToolkit
from cuenv.knowledge.guidance import Provider
from cuenv.knowledge.io.load import load_guidance
from cuenv.knowledge.rows import MACHINES, PLATFORMS, Cuda
from cuenv.resolver.candidates import bare_candidate
from cuenv.resolver.compose import HEADERS

_OF_CMAKE = regex(
    r"CMake|CMAKE_|CUDACXX|CUDA_TOOLKIT_ROOT_DIR|CUDAToolkit|Could NOT find CUDA|CUDA compiler identification|"
    r"default CUDA arch"
)
_FOUND_THERE = " && export CPATH=$CONDA_PREFIX/include LIBRARY_PATH=$CONDA_PREFIX/lib CMAKE_PREFIX_PATH=$CONDA_PREFIX"
"""Compilers and a CMake of the system do not look into an environment by themselves."""
_ASK_GPU = "python -c \"import torch; print('%d.%d' % torch.cuda.get_device_capability())\""


def install_toolchain(case: LogContext, cuda: Version) -> str:
    """The command that brings compiler and headers of a CUDA release into an environment; empty where none can."""
    row = case.knowledge.cuda(cuda)
    if row is not None and row.conda_nvcc:
        return f"conda install{_into(case)} -c conda-forge cuda-version={cuda} cuda-nvcc {' '.join(HEADERS)}"
    if row is not None and row.labels:
        return f"conda install{_into(case)} -c nvidia/label/cuda-{row.labels[-1]} cuda-toolkit"
    return ""


def _into(case: LogContext) -> str:
    return f" -p {quote(case.prefix.path)}" if case.prefix else ""


@join
def toolchain(case: LogContext) -> Joined:
    """Which nvcc there is, and the command for compiler and headers of torch's own CUDA."""
    _, cuda = torch_of(case)
    because = [*_toolkits(case)]
    if "missing: CUDA_INCLUDE_DIRS" in case.line:  # so CMake speaks, which found nvcc
        remedy = "install the headers beside this nvcc, or set CUDA_TOOLKIT_ROOT_DIR to a toolkit with cuda_runtime.h"
        return Joined(because=tuple(because), remedy=remedy, command="")
    if command := _without_toolkit(case):
        remedy = (
            "install the CuPy wheel for the driver's CUDA version, which needs no compiler"
            if "cupy-" in command
            else ""
        )
        return Joined(because=tuple(because), remedy=remedy, command=command)
    if case.prefix and case.prefix.kind == "conda":
        there = [name for name in ("cuda-nvcc", "cuda-nvcc-impl", "cudatoolkit-dev") if case.prefix.package(name)]
        lacking = [name for name in HEADERS if not case.prefix.package(name)]
        because.append(f"{case.prefix.path} holds {' and '.join(there) or 'no nvcc'}" + _without(lacking))
        if there and not lacking:
            because.append("the files are installed, but builds do not look where conda-forge puts them")
            return Joined(because=tuple(because), command=f"cuenv hook --prefix {quote(case.prefix.path)}")
    told = case.frameworks | case.mentions.keys()
    if _SHELL.search(case.line) and not told & {"torch", "companions"}:
        remedy = (
            "in a container use a devel image of nvidia/cuda; elsewhere add the toolkit's "
            "bin directory to PATH (sudo has its own PATH), or install conda-forge's compiler"
        )
        alone = _NVCC_ALONE if "cicc" in case.line else _NVCC_OF_PATH
        return Joined(because=tuple(because), remedy=remedy, command="" if in_image(case) else alone)
    if "asked" in case.told and not told & {"torch", "companions", "python"}:  # a program that make links
        package = "cuda-cudart-dev" if case.told["asked"] == "cudart" else f"lib{case.told['asked']}-dev"
        return Joined(because=tuple(because), command=f"conda install -c conda-forge {package}{_FOUND_THERE}")
    elsewhere = " && export CUDA_HOME=$CONDA_PREFIX" if "/bin/nvcc" in case.line else ""
    if cuda is None:
        return Joined(because=tuple(because), command=toolkit_of_torch() + elsewhere)
    because.append(f"torch is built for CUDA {cuda}")
    return Joined(because=tuple(because), command=install_toolchain(case, cuda) or resolve_anew(case))


_SHELL = regex(
    r"\b(?:nvcc|cicc)\W{0,12}: (?:[Cc]ommand |executable file )?not found|command not found: nvcc|"
    r"configure: error: .*nvcc"
)
_NVCC_ALONE = (
    "conda install -c conda-forge cuda-nvcc cuda-cudart-dev libcublas-dev && "
    "export CUDA_HOME=$CONDA_PREFIX CUDACXX=$CONDA_PREFIX/bin/nvcc"
)
_NVCC_OF_PATH = f"export PATH=/usr/local/cuda/bin:$PATH; command -v nvcc || {{ {_NVCC_ALONE}; }}"


def _without_toolkit(case: LogContext) -> str:
    """What helps where no toolkit of torch is wanted: CMake asks for an nvcc, CUDA_HOME has a colon, cuDNN lacks."""
    header = case.told.get("header", "")
    if re.search(r" matching version|Cuda Configuration Error", case.line):  # TensorFlow, in folders that it is told
        part = header.split(".")[0] if header.startswith(("cudnn", "nccl")) else "cuda-toolkit"
        return f"conda install -c conda-forge {part} && export TF_CUDA_PATHS=/usr/local/cuda,$CONDA_PREFIX"
    if header.startswith("cudnn") or "CUDNN" in case.line or "cudnn_" in case.line:
        return f"conda install -c conda-forge cudnn{_FOUND_THERE}"
    if header.startswith("nccl"):
        return f"conda install -c conda-forge nccl{_FOUND_THERE}"
    if (
        "nvcc command " in case.line or "cupy" in case.frameworks
    ):  # so CuPy tells what it found: its wheels want no compiler
        _, cuda = torch_of(case)
        return f"{PIP} install cupy-cuda{cuda.major if cuda else 12}x"
    if re.search(r"(?:^|[\s'\"]):/\S*cuda", case.line):
        return "export CUDA_HOME=/usr/local/cuda"
    if _OF_CMAKE.search(case.line):
        nvcc = "export CUDACXX=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)"
        return f"{nvcc} && export PATH=$(dirname $CUDACXX):$PATH"
    return ""


@join
def post_link(case: LogContext) -> Joined:
    """A toolkit without a script, where that of ``cudatoolkit-dev`` failed."""
    if case.told.get("name") != "cudatoolkit-dev":
        return Joined(remedy="read the script's output below the line", command="")
    release = version(".".join(case.told["version"].split(".")[:2]))
    command = install_toolchain(case, release)
    remedy = f"install the CUDA {release} toolkit from packages that need no script" if command else ""
    return Joined(remedy=remedy, command=command or None)


@join
def nvcc_test(case: LogContext) -> Joined:
    """The nvcc of the toolkit itself, where CMake met none that works."""
    if re.search(r"_CMAKE_CUDA_WHOLE_FLAG|CMakeTestCUDACompiler|working CUDA arch", case.line):
        return Joined()
    remedy = (
        "set CUDACXX to the toolkit's nvcc, empty the build directory, and build again; if "
        "CMake rejects that nvcc too, compile an empty file with it to see why"
    )
    return Joined(remedy=remedy, command="export CUDACXX=/usr/local/cuda/bin/nvcc PATH=/usr/local/cuda/bin:$PATH")


@join
def mismatch(case: LogContext) -> Joined:
    """An nvcc of another CUDA than torch's."""
    _, cuda = torch_of(case)
    have, want = case.told.get("nvcc", ""), case.told.get("torch", "") or case.mentions.get("cuda") or str(cuda or "")
    because = [*_toolkits(case)]
    if case.raised and re.search(r"overlay/lib/python|/builds-v[0-9]", case.raised.file):
        says = "the torch that refuses is not the installed one: pip fetched it for the build alone"
        remedy = "let the build use the torch that is installed: --no-build-isolation"
        return Joined(because=(says,), remedy=remedy, command=f"{PIP} install --no-build-isolation PACKAGE")
    cuda = version(want) if want else cuda
    if have and want and have.partition(".")[0] == want.partition(".")[0]:
        because.append(f"{have} and {want} have one major version, which torch accepts for builds")
    elif have and want:
        because.append(
            f"{have} and {want} have different major versions; torch cannot load extensions that nvcc {have} built"
        )
    command = install_toolchain(case, cuda) if cuda else toolkit_of_torch()
    if command and not case.prefix:  # another nvcc may stand in CUDA_HOME
        command += " && export CUDA_HOME=$CONDA_PREFIX"
    return Joined(because=tuple(because), command=command or resolve_anew(case))


def other_major(case: LogContext) -> Iterator[Finding]:
    """What the engine says of the nvcc of a log beside its torch, whatever else the log shows."""
    _, cuda = torch_of(case)
    told = case.mentions.get("nvcc", "")
    if not cuda or not told:
        return
    from cuenv.resolver.health import nvcc_findings  # noqa: PLC0415 - few logs tell both

    host = host_of(case)
    toolkit = FoundToolkit(path="", release=told, on_path=True, via="the log")
    yield from nvcc_findings(replace(host, toolkits=(toolkit,)), bare_candidate(cuda, host.platform))


@join
def cuda_target(case: LogContext) -> Joined:
    """The development package of a library of the toolkit, by its name at conda-forge."""
    name = case.told.get("name", "").removesuffix("_static")
    part = next(
        (word for word in ("cublas", "cufft", "curand", "cusolver", "cusparse", "cudart", "nvrtc") if word in name), ""
    )
    if not part or "links to target" in case.line:  # so older CMake files of a project ask, whatever is installed
        return Joined()
    package = f"cuda-{part}-dev" if part in ("cudart", "nvrtc") else f"lib{part}-dev"
    return Joined(command=f"conda install -c conda-forge {package}")


@join
def nvcc_targets(case: LogContext) -> Joined:
    """A target that nvcc does not know: which toolkits do, and the list for the GPUs of the host."""
    if "nvrtc" in case.line.lower():
        remedy = "install a newer torch build: its NVRTC is older than the GPU"
        return Joined(remedy=remedy, command=resolve_anew(case))
    if "_No CUDA devices" in case.line:
        remedy = "set the architectures: CMake asked for the machine's GPU, but none is visible, as in docker build"
        return Joined(remedy=remedy, command="export CUDAARCHS=all-major")
    asked = case.told.get("compute", "")
    because = [*_toolkits(case)]
    rows = [row for row in case.knowledge.cudas if asked and _knows(row, asked)]
    latest = max((row.version for row in rows), default=None)
    newest = max(row.version for row in case.knowledge.cudas)
    if latest:
        first = min(row.version for row in rows)
        because.append(f"{asked} is known to nvcc {first} " + ("and later" if latest == newest else f"to {latest}"))
    release = nvcc_on_path(case)
    row = case.knowledge.cuda(release) if release else None
    if release and row and capabilities(case):
        verdict = asked_rule(case, "nvcc", bare_candidate(release, host_of(case).platform))
        because.append(with_code(verdict))
        if verdict.outcome == "pass":
            targets = sorted({target for one in capabilities(case) if (target := target_for(one, row.targets))})
            because.append(f"for the GPUs here nvcc {row.version} compiles {', '.join(map(str, targets))}")
            return Joined(
                because=tuple(because), command=f'export TORCH_CUDA_ARCH_LIST="{";".join(map(str, targets))}"'
            )
    _, cuda = torch_of(case)
    own = next((row.version for row in rows if row.version == cuda), None)
    if latest is None or (release is not None and release > latest):
        here = capabilities(case)
        wanted = ";".join(map(str, here)) or f"$({_ASK_GPU})"
        said = f"compute capability {asked} was removed from this nvcc" if asked else "the build names no architecture"
        because.append(f"build for the installed GPU: {said}")
        return Joined(because=tuple(because), command=f'export TORCH_CUDA_ARCH_LIST="{wanted}"')
    if cuda is not None and own is None and cuda < min(row.version for row in rows):
        because.append(f"torch is built for CUDA {cuda}, whose nvcc does not know it: another nvcc alone does not help")
        return Joined(because=tuple(because), remedy=_NEWER_TORCH, command=resolve_anew(case))
    dropped = latest < newest and release is None  # by the nvcc that is there, which is newer than all that know it
    able = [row.version for row in rows if install_toolchain(case, row.version)] or [rows[-1].version]
    taken = own or (max(able) if dropped else min(able))
    remedy = f"use an nvcc that supports compute capability {asked}; CUDA {taken} is " + (
        "that of torch" if own else f"the {'last' if dropped else 'first'} that does"
    )
    return Joined(because=tuple(because), remedy=remedy, command=install_toolchain(case, taken))


@join
def nvcc_crashed(case: LogContext) -> Joined:
    """The newest nvcc of the major of torch's CUDA, in which faults of older ones are mended."""
    _, cuda = torch_of(case)
    release = nvcc_on_path(case)
    major = (cuda or release or Version("0")).major
    able = [row.version for row in case.knowledge.cudas if row.version.major == major]
    newest = max((one for one in able if install_toolchain(case, one)), default=None)
    if newest is None or (release is not None and release >= newest):
        return Joined()
    return Joined(because=tuple(_toolkits(case)), command=install_toolchain(case, newest))


_NEWER_TORCH = "install a torch built for a CUDA that supports the GPU, and nvcc of that CUDA version"


def _knows(row: Cuda, asked: str) -> bool:
    return any(str(target) == asked.rstrip("af") for target in row.targets)


@join
def host_compiler(case: LogContext) -> Joined:
    """The host's gcc against what nvcc accepts."""
    told = case.told.get("gcc")
    compilers = case.facts.compilers if case.facts else ()
    because = [f"{item.name} {item.version} at {item.path}" for item in compilers if item.name in ("gcc", "g++")]
    if not told:
        _, cuda = torch_of(case)
        row = case.knowledge.cuda(cuda) if cuda and "internal compiler error" in case.line else None
        if row is None or row.gcc_max is None:
            return Joined(because=tuple(because))
        told = str(row.gcc_max)
    because.append(f"this nvcc supports gcc up to {told}")
    if int(told) < _OLDEST_GXX:
        return Joined(because=tuple(because), remedy=f"install gcc-{told} and g++-{told} of the system", command="")
    platform = case.facts.platform if case.facts else PLATFORMS[0]
    command = f"conda install{_into(case)} -c conda-forge 'gxx_{platform}={told}.*'"
    named = "" if _into(case) else _CCBIN.format(machine=MACHINES[platform])
    return Joined(because=tuple(because), command=command + named)


_CCBIN = ' && export NVCC_PREPEND_FLAGS="-ccbin $CONDA_PREFIX/bin/{machine}-conda-linux-gnu-g++"'
"""An nvcc takes the g++ of PATH, and the one of conda-forge has another name."""
_OLDEST_GXX = 7
"""The first g++ of conda-forge."""


@join
def param_packs(case: LogContext) -> Joined:
    """The gcc for an nvcc before 11.6; one that fails at an older gcc is of a CUDA before 11."""
    found = case.told.get("found", "")
    if found.isdigit() and int(found) < _FIRST_UNREAD:
        remedy = f"use a newer toolkit or an older gcc: gcc {found} is too new for this toolkit"
        return Joined(remedy=remedy, command="")
    return host_compiler(case)


_FIRST_UNREAD = 11
"""The gcc whose headers no nvcc before 11.6 reads."""


@join
def torch_headers(case: LogContext) -> Joined:
    """What does not suit the headers of torch: an nvcc of another CUDA, an older -std, else the gcc."""
    said = case.line.partition(" error: ")[2]
    _, cuda = torch_of(case)
    if name := re.search(r"\b(?:cuda|cublas|cusparse|cusolver|cudnn|nccl|nvtx)[A-Z]\w{1,50}", said):
        says = f"{name[0]} is a part of CUDA: torch was built with another release of it"
        return Joined(because=(says,), command=(install_toolchain(case, cuda) if cuda else "") or toolkit_of_torch())
    if re.search(r"_v\W|not a member of .?std\b|has no member|torch::enumtype", said):
        return Joined(remedy="set -std=c++17: the headers of torch 2.1 and newer need C++17")
    nvcc = nvcc_on_path(case) or cuda
    row = case.knowledge.cuda(nvcc) if nvcc else None
    gcc = min(row.gcc_max or _COMMON_GXX, _COMMON_GXX) if row else _COMMON_GXX
    platform = case.facts.platform if case.facts else PLATFORMS[0]
    return Joined(
        because=tuple(_toolkits(case)), command=f"conda install{_into(case)} -c conda-forge 'gxx_{platform}={gcc}.*'"
    )


_COMMON_GXX = 10
"""The g++ that torch 1.5 to 2.4 and every nvcc from 11.1 on take."""


def _toolkits(case: LogContext) -> Iterable[str]:
    for toolkit in case.facts.toolkits if case.facts else ():
        where = "on PATH" if toolkit.on_path else f"found by {toolkit.via}"
        yield f"toolkit {toolkit.release or 'of unknown release'} at {toolkit.path}, {where}"


def nvcc_on_path(case: LogContext) -> Version | None:
    """The X.Y of the nvcc that PATH finds first."""
    found: FoundToolkit | None = next(
        (item for item in (case.facts.toolkits if case.facts else ()) if item.on_path and item.release), None
    )
    if found is None or found.release is None:
        told = case.mentions.get("nvcc", "")
        return version(told) if told and not (case.facts and case.facts.detected) else None
    return version(".".join(found.release.split(".")[:2]))


def _without(lacking: Iterable[str]) -> str:
    names = " ".join(lacking)
    return f", and lacks {names}" if names else ", and every header package"


@join
def cmake_package(case: LogContext) -> Joined:
    """What provides the CMake files of a package: torch itself, or a development package of the system."""
    name = case.told.get("name", "")
    if name in ("Torch", "Caffe2", "TorchVision"):
        ask = "import torch; print(torch.utils.cmake_prefix_path)"
        remedy = "give CMake the directory of torch's CMake files"
        return Joined(remedy=remedy, command=f'export CMAKE_PREFIX_PATH=$(python -c "{ask}")')
    if name == "pybind11":
        return Joined(command=f"{PIP} install 'pybind11[global]'")
    package = provider(case, "cmake", name)
    return Joined(command=f"sudo apt-get install -y {package}" if package else "")


@join
def link(case: LogContext) -> Joined:
    """The package of the system for linking with a library."""
    found = provider(case, "link", case.told.get("name", ""))
    return Joined(command=f"sudo apt-get install {found}") if found else Joined()


def _longest(row: Provider) -> int:
    return -len(row.name)


@join
def header(case: LogContext) -> Joined:
    """The package of the system that holds a header."""
    name = case.told.get("header", "")
    held = [row for row in load_guidance(case.knowledge).providers if row.kind == "header"]
    package = next((row.gives for row in sorted(held, key=_longest) if name.startswith(row.name)), "")
    if name in _OF_EVERY_TORCH:
        remedy = "add torch's header directories to the compiler's search path: the build does not ask torch for them"
        return Joined(remedy=remedy, command=_HEADERS_OF_TORCH)
    if name.startswith(("torch/", "ATen/", "c10/", "THC/", "TH/")):
        return Joined(
            remedy="install the torch that the sources were written for: the header is from another torch release"
        )
    if name.startswith(("cutlass/", "cute/", "cudnn_frontend")):
        return _submodules(case)
    if in_python := provider(case, "include", name.split("/")[0] + "/"):
        folder = f'$(python -c "import {in_python}; print({in_python}.get_include())")'
        return Joined(
            remedy=f"add the header directory of the Python package {in_python} to the compiler's search path",
            command=f'{PIP} install {in_python} && export CPATH="{folder}${{CPATH:+:$CPATH}}"',
        )
    if not package:
        return Joined()
    remedy = f"install {package} (Debian, Ubuntu; others name it alike), or the headers from conda-forge"
    return Joined(remedy=remedy, command=f"sudo apt-get install {package}")


_OF_EVERY_TORCH = frozenset({"torch/extension.h", "torch/torch.h", "torch/script.h", "ATen/ATen.h"})
_HEADERS_OF_TORCH = (
    "export CPATH=$(python -c \"from torch.utils.cpp_extension import include_paths as p; print(':'.join(p()))\")"
    "${CPATH:+:$CPATH}"
)


@join
def source_file(case: LogContext) -> Joined:
    """Folders in which repositories keep those of others are fetched with git."""
    return _submodules(case) if _OF_OTHERS.search(case.told.get("name", "")) else Joined()


def _submodules(case: LogContext) -> Joined:
    """The repositories of others that a repository holds; an archive of it comes without them, and git cannot help."""
    if "archive" in case.mentions:
        return Joined(
            remedy="the sources are an archive without their submodules: take git clone --recursive", command=""
        )
    return Joined(remedy=_SUBMODULES, command="git submodule update --init --recursive")


_OF_OTHERS = regex(r"(?i)(?:^|/)(?:3rd_?party|third[_-]?party|submodules?|externals?|extern|cutlass|_deps)(?:/|$)")


@join
def cuda_name(case: LogContext) -> Joined:
    """A name that CUDA got after the release that compiles, or lost before it."""
    said = case.line.rpartition(" error: ")[2]
    if old := _WITHOUT_SYNC.search(said):
        says = f"{old[1]} exists only for compute capability 3.0 to 6.2; {old[1]}_sync, from CUDA 9 on, works on all"
        return Joined(because=(says,), remedy="use a newer release of the source, or build only for such a GPU")
    _, cuda = torch_of(case)
    for name in re.findall(r"[A-Za-z_]\w{6,60}", said):
        if since := provider(case, "since", name):
            own = install_toolchain(case, cuda) if cuda and cuda >= version(since) else ""
            says = f"{name} is in the headers of CUDA {since} and newer, but the build finds older ones"
            remedy = "build with a newer toolkit: put its bin directory first on PATH, and empty the build directory"
            return Joined(because=(says,), remedy=remedy, command=own if cuda else _NVCC_ALONE)
        if until := provider(case, "until", name):
            says = f"{name} is in the headers of CUDA up to {until}, but the build finds newer ones"
            remedy = f"take a release of the source for CUDA {version(until).major + 1}, or build with CUDA {until}"
            return Joined(because=(says,), remedy=remedy, command=install_toolchain(case, version(until)))
    return Joined()


_WITHOUT_SYNC = regex(r"\b(__(?:shfl(?:_up|_down|_xor)?|ballot|any|all))\b")


@join
def cmake_unset(case: LogContext) -> Joined:
    """What CMake wants told of cuDNN and NCCL, as far as its variables tell that it is one of them."""
    words = case.mentions.get("cmake", "")
    name = next((name for name in ("cudnn", "nccl") if name in words.lower()), "")
    because = (f"it says: {words}",) if words else ()
    return Joined(because=because, command=f"conda install -c conda-forge {name}{_FOUND_THERE}" if name else "")


_ASK_CUDA = 'python -c "import torch; print(torch.version.cuda)"'


def toolkit_of_torch() -> str:
    """The command for nvcc and headers of torch's CUDA, which it asks of torch itself: nobody told it."""
    return f'conda install -c "nvidia/label/cuda-$({_ASK_CUDA}).0" cuda-toolkit'


@join
def python_header(case: LogContext) -> Joined:
    """The -dev package of the Python that is used."""
    python = case.mentions.get("python", "")
    return Joined(command=f"sudo apt-get install python{python}-dev") if python else Joined()


@join
def repository(case: LogContext) -> Joined:
    """The address by which everybody may fetch a repository of GitHub."""
    for address in ("git@github.com:", "git://github.com/"):
        if address in case.line:
            remedy = "make git use https for GitHub, and fetch again"
            command = f'git config --global url."https://github.com/".insteadOf {address}'
            return Joined(remedy=remedy, command=command)
    return Joined()


_SUBMODULES = "fetch the repository's submodules in the revisions that it names, and build again"


@join
def sources(case: LogContext) -> Joined:
    """Sources of another repository that git did not fetch with the program's own."""
    if not re.search(r"submodules?/|third_?party/|extern(?:al)?/", case.line):
        return Joined()
    return Joined(remedy=_SUBMODULES, command="git submodule update --init --recursive")
