"""Cures for builds: the toolkit and the compilers for an extension."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from shlex import quote

from packaging.version import Version

from cuenv.core.findings import Finding
from cuenv.core.record import replace
from cuenv.core.regex import regex
from cuenv.core.versions import target_for, version
from cuenv.diagnosis.cures.context import (
    CureResult,
    LogContext,
    capabilities,
    cure,
    in_docker_build,
    resolve_command,
    rule_host,
    rule_verdict,
    text_with_code,
    torch_of,
)
from cuenv.diagnosis.cures.managers import PIP
from cuenv.host.facts import FoundToolkit
from cuenv.knowledge.rows import MACHINES, PLATFORMS, Cuda
from cuenv.resolver.candidates import bare_candidate
from cuenv.resolver.compose import HEADERS

_CMAKE_MESSAGE = regex(
    r"CMake|CMAKE_|CUDACXX|CUDA_TOOLKIT_ROOT_DIR|CUDAToolkit|Could NOT find CUDA|CUDA compiler identification|"
    r"default CUDA arch"
)
EXPORT_PATHS = " && export CPATH=$CONDA_PREFIX/include LIBRARY_PATH=$CONDA_PREFIX/lib CMAKE_PREFIX_PATH=$CONDA_PREFIX"
"""Compilers and a CMake of the system do not look into an environment by themselves."""
_PRINT_CAPABILITY = "python -c \"import torch; print('%d.%d' % torch.cuda.get_device_capability())\""


def install_toolchain(context: LogContext, cuda: Version) -> str:
    """Return the command that installs compiler and headers of a CUDA release; empty if there is none."""
    row = context.knowledge.cuda(cuda)
    if row is not None and row.conda_nvcc:
        return f"conda install{_in_prefix(context)} -c conda-forge cuda-version={cuda} cuda-nvcc {' '.join(HEADERS)}"
    if row is not None and row.labels:
        return f"conda install{_in_prefix(context)} -c nvidia/label/cuda-{row.labels[-1]} cuda-toolkit"
    return ""


def _in_prefix(context: LogContext) -> str:
    return f" -p {quote(context.prefix.path)}" if context.prefix else ""


@cure
def toolchain(context: LogContext) -> CureResult:
    """Suggest the compiler and headers of torch's CUDA, and say which nvcc exists."""
    _, cuda = torch_of(context)
    because = [*_toolkit_sentences(context)]
    if remedy := next((said for mark, said in _TOLD_A_DIRECTORY.items() if mark in context.line), ""):
        return CureResult(because=tuple(because), remedy=remedy, command="")
    if "fetched" in context.mentions:
        remedy = "install nvcc for the installed torch, and let the build use that torch: --no-build-isolation"
        build = f"{install_torch_toolkit()} && {PIP} install --no-build-isolation PACKAGE"
        return CureResult(because=(*because, _FETCHED), remedy=remedy, command=build)
    if command := _command_without_toolkit(context):
        remedy = (
            "install the CuPy wheel for the driver's CUDA version, which needs no compiler"
            if "cupy-" in command
            else ""
        )
        return CureResult(because=tuple(because), remedy=remedy, command=command)
    if context.prefix and context.prefix.kind == "conda":
        there = [name for name in ("cuda-nvcc", "cuda-nvcc-impl", "cudatoolkit-dev") if context.prefix.package(name)]
        lacking = [name for name in HEADERS if not context.prefix.package(name)]
        because.append(f"{context.prefix.path} holds {' and '.join(there) or 'no nvcc'}" + _missing_text(lacking))
        if there and not lacking:
            because.append("the files are installed, but builds do not look where conda-forge puts them")
            return CureResult(because=tuple(because), command=f"cuenv hook --prefix {quote(context.prefix.path)}")
    mentioned = context.frameworks | context.mentions.keys()
    if _NVCC_NOT_FOUND.search(context.line) and not mentioned & {"torch", "companions"}:
        remedy = (
            "in a container use a devel image of nvidia/cuda; elsewhere add the toolkit's "
            "bin directory to PATH (sudo has its own PATH), or install conda-forge's compiler"
        )
        alone = INSTALL_NVCC if "cicc" in context.line else _FIND_NVCC
        return CureResult(because=tuple(because), remedy=remedy, command="" if in_docker_build(context) else alone)
    if "asked" in context.groups and not mentioned & {"torch", "companions", "python"}:  # a program that make links
        package = "cuda-cudart-dev" if context.groups["asked"] == "cudart" else f"lib{context.groups['asked']}-dev"
        return CureResult(because=tuple(because), command=f"conda install -c conda-forge {package}{EXPORT_PATHS}")
    other = "torch" not in context.frameworks and context.frameworks & {"tensorflow", "jax"}
    if cuda is None and (other or ("make" in mentioned and not mentioned & {"building", "companions", "python"})):
        remedy = "set CUDA_HOME to a toolkit with nvcc and headers (a directory that contains include/cuda_runtime.h)"
        return CureResult(because=tuple(because), remedy=remedy, command="")
    elsewhere = " && export CUDA_HOME=$CONDA_PREFIX" if "/bin/nvcc" in context.line else ""
    if cuda is None:
        return CureResult(because=tuple(because), command=install_torch_toolkit() + elsewhere)
    because.append(f"torch is built for CUDA {cuda}")
    return CureResult(because=tuple(because), command=install_toolchain(context, cuda) or resolve_command(context))


_TOLD_A_DIRECTORY = {
    "missing: CUDA_INCLUDE_DIRS": (  # so CMake speaks, which found nvcc
        "install the headers beside this nvcc, or set CUDA_TOOLKIT_ROOT_DIR to a toolkit with cuda_runtime.h"
    ),
    "third_party/gpus/": (
        "give Bazel the directory with include and lib: --repo_env=LOCAL_CUDNN_PATH=DIR (LOCAL_CUDA_PATH=DIR)"
    ),
}
"""What to do for a build that looks in no directory but those that it is told, by a part of its message."""
_NVCC_NOT_FOUND = regex(
    r"\b(?:nvcc|cicc)\W{0,12}: (?:[Cc]ommand |executable file )?not found|command not found: nvcc|"
    r"configure: error: .*(?:nvcc|cuda)"
)
INSTALL_NVCC = (
    "conda install -c conda-forge cuda-nvcc cuda-cudart-dev libcublas-dev && "
    "export CUDA_HOME=$CONDA_PREFIX CUDACXX=$CONDA_PREFIX/bin/nvcc"
)
_FIND_NVCC = f"export PATH=/usr/local/cuda/bin:$PATH; command -v nvcc || {{ {INSTALL_NVCC}; }}"


def _command_without_toolkit(context: LogContext) -> str:
    """Return the command for a log that needs no toolkit of torch's CUDA, such as cuDNN for CMake."""
    header = context.groups.get("header", "")
    if re.search(r" matching version|Cuda Configuration Error", context.line):  # TensorFlow, in folders that it is told
        part = header.split(".")[0] if header.startswith(("cudnn", "nccl")) else "cuda-toolkit"
        return f"conda install -c conda-forge {part} && export TF_CUDA_PATHS=/usr/local/cuda,$CONDA_PREFIX"
    if header.startswith("cudnn") or "CUDNN" in context.line or "cudnn_" in context.line:
        return f"conda install -c conda-forge cudnn{EXPORT_PATHS}"
    if header.startswith("nccl"):
        return f"conda install -c conda-forge nccl{EXPORT_PATHS}"
    if (
        "nvcc command " in context.line or "cupy" in context.frameworks
    ):  # so CuPy tells what it found: its wheels want no compiler
        _, cuda = torch_of(context)
        return f"{PIP} install cupy-cuda{cuda.major if cuda else 12}x"
    if re.search(r"(?:^|[\s'\"]):/\S*cuda", context.line):
        return "export CUDA_HOME=/usr/local/cuda"
    if _CMAKE_MESSAGE.search(context.line):
        nvcc = "export CUDACXX=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)"
        return f"{nvcc} && export PATH=$(dirname $CUDACXX):$PATH"
    return ""


@cure
def post_link(context: LogContext) -> CureResult:
    """Suggest a toolkit without a post-link script, if that of ``cudatoolkit-dev`` failed."""
    if context.groups.get("name") != "cudatoolkit-dev":
        return CureResult(remedy="read the script's output below the line", command="")
    release = version(".".join(context.groups["version"].split(".")[:2]))
    command = install_toolchain(context, release)
    remedy = f"install the CUDA {release} toolkit from packages that need no script" if command else ""
    return CureResult(remedy=remedy, command=command or None)


@cure
def nvcc_test(context: LogContext) -> CureResult:
    """Suggest the nvcc of the toolkit, if CMake found none that works."""
    if re.search(r"_CMAKE_CUDA_WHOLE_FLAG|CMakeTestCUDACompiler|working CUDA arch", context.line):
        return CureResult()
    remedy = (
        "set CUDACXX to the toolkit's nvcc, empty the build directory, and build again; if "
        "CMake rejects that nvcc too, compile an empty file with it to see why"
    )
    return CureResult(remedy=remedy, command="export CUDACXX=/usr/local/cuda/bin/nvcc PATH=/usr/local/cuda/bin:$PATH")


_FETCHED = "the torch of this build is not the installed one: pip fetched it for the build alone"


@cure
def mismatch(context: LogContext) -> CureResult:
    """Suggest the nvcc of torch's CUDA instead of the one in the log."""
    _, cuda = torch_of(context)
    have, want = (
        context.groups.get("nvcc", ""),
        context.groups.get("torch", "") or context.mentions.get("cuda") or str(cuda or ""),
    )
    because = [*_toolkit_sentences(context)]
    file = context.frame.file if context.frame else context.mentions.get("fetched", "")
    if re.search(r"overlay/lib/python|/builds-v[0-9]", file):
        remedy = "let the build use the torch that is installed: --no-build-isolation"
        return CureResult(because=(_FETCHED,), remedy=remedy, command=f"{PIP} install --no-build-isolation PACKAGE")
    cuda = version(want) if want else cuda
    if have and want and have.partition(".")[0] == want.partition(".")[0]:
        because.append(f"{have} and {want} have one major version, which torch accepts for builds")
    elif have and want:
        because.append(
            f"{have} and {want} have different major versions; torch cannot load extensions that nvcc {have} built"
        )
    command = install_toolchain(context, cuda) if cuda else install_torch_toolkit()
    if command and not context.prefix:  # another nvcc may stand in CUDA_HOME
        command += " && export CUDA_HOME=$CONDA_PREFIX"
    return CureResult(because=tuple(because), command=command or resolve_command(context))


def other_major_findings(context: LogContext) -> Iterator[Finding]:
    """Yield the findings of the rules on the nvcc and the torch of a log, whatever else the log shows."""
    _, cuda = torch_of(context)
    nvcc = context.mentions.get("nvcc", "")
    if not cuda or not nvcc:
        return
    from cuenv.resolver.health import nvcc_findings  # noqa: PLC0415 - few logs tell both

    host = rule_host(context)
    toolkit = FoundToolkit(path="", release=nvcc, on_path=True, via="the log")
    yield from nvcc_findings(replace(host, toolkits=(toolkit,)), bare_candidate(cuda, host.platform))


@cure
def cuda_target(context: LogContext) -> CureResult:
    """Suggest the conda-forge development package of a toolkit library."""
    name = context.groups.get("name", "").removesuffix("_static")
    part = next(
        (word for word in ("cublas", "cufft", "curand", "cusolver", "cusparse", "cudart", "nvrtc") if word in name), ""
    )
    if not part or "links to target" in context.line:  # so older CMake files of a project ask, whatever is installed
        return CureResult()
    package = f"cuda-{part}-dev" if part in ("cudart", "nvrtc") else f"lib{part}-dev"
    if release := context.mentions.get("system-toolkit"):
        return CureResult(
            command=f"sudo apt-get install -y {package.removesuffix('-dev')}-dev-{release.replace('.', '-')}"
        )
    return CureResult(command=f"conda install -c conda-forge {package}")


@cure
def nvcc_targets(context: LogContext) -> CureResult:
    """Suggest a toolkit that supports a target, or the arch list for the GPUs of the host."""
    if "nvrtc" in context.line.lower():
        remedy = "install a newer torch build: its NVRTC is older than the GPU"
        return CureResult(remedy=remedy, command=resolve_command(context))
    if "_No CUDA devices" in context.line:
        remedy = "set the architectures: CMake asked for the machine's GPU, but none is visible, as in docker build"
        return CureResult(remedy=remedy, command="export CUDAARCHS=all-major")
    asked = context.groups.get("compute", "")
    because = [*_toolkit_sentences(context)]
    rows = [row for row in context.knowledge.cudas if asked and _compiles_for(row, asked)]
    latest = max((row.version for row in rows), default=None)
    newest = max(row.version for row in context.knowledge.cudas)
    if latest:
        first = min(row.version for row in rows)
        because.append(f"nvcc {first} " + ("and later" if latest == newest else f"to {latest}") + f" support {asked}")
    release = nvcc_on_path(context)
    row = context.knowledge.cuda(release) if release else None
    if release and row and capabilities(context):
        verdict = rule_verdict(context, "nvcc", bare_candidate(release, rule_host(context).platform))
        because.append(text_with_code(verdict))
        if verdict.outcome == "pass":
            targets = sorted({target for one in capabilities(context) if (target := target_for(one, row.targets))})
            because.append(f"for the GPUs here nvcc {row.version} compiles {', '.join(map(str, targets))}")
            return CureResult(
                because=tuple(because), command=f'export TORCH_CUDA_ARCH_LIST="{";".join(map(str, targets))}"'
            )
    _, cuda = torch_of(context)
    if "make" in context.mentions and not {"building", "python"} & context.mentions.keys() and cuda is None:
        remedy = (
            "take the architecture out of the list of the build (the Makefile, CUDA_ARCH_BIN of OpenCV, "
            "CMAKE_CUDA_ARCHITECTURES) if no GPU here needs it; else use an nvcc that knows it"
        )
        return CureResult(because=tuple(because), remedy=remedy, command="")
    own = next((row.version for row in rows if row.version == cuda), None)
    dropped = latest is not None and latest < newest and release is None  # by an nvcc newer than all that know it
    here = capabilities(context)
    removed = latest is None or (release is not None and release > latest)
    if removed or (dropped and "extension" in context.mentions and asked not in map(str, here)):
        wanted = ";".join(map(str, here)) or f"$({_PRINT_CAPABILITY})"
        said = f"compute capability {asked} was removed from this nvcc" if asked else "the build names no architecture"
        because.append(f"build for the installed GPU: {said}")
        return CureResult(because=tuple(because), command=f'export TORCH_CUDA_ARCH_LIST="{wanted}"')
    if cuda is not None and own is None and cuda < min(row.version for row in rows):
        because.append(f"torch is built for CUDA {cuda}, whose nvcc does not know it: another nvcc alone does not help")
        return CureResult(because=tuple(because), remedy=_NEWER_TORCH, command=resolve_command(context))
    able = [row.version for row in rows if install_toolchain(context, row.version)] or [rows[-1].version]
    taken = own or (max(able) if dropped else min(able))
    remedy = f"use an nvcc that supports compute capability {asked}; CUDA {taken} is " + (
        "that of torch" if own else f"the {'last' if dropped else 'first'} that does"
    )
    return CureResult(because=tuple(because), remedy=remedy, command=install_toolchain(context, taken))


@cure
def cmake_architectures(context: LogContext) -> CureResult:
    """Suggest every major architecture where CMake sees no GPU to ask."""
    if "no NVIDIA GPU was detected" not in context.line:
        return CureResult()
    remedy = "name the architectures to build for: CMake was told to ask the GPU of this machine, and sees none"
    return CureResult(remedy=remedy, command="export CUDAARCHS=all-major")


@cure
def nvcc_option(context: LogContext) -> CureResult:
    """Explain an option of the host's compiler, which no nvcc knows."""
    if not re.fullmatch(
        r"-(?:f(?!atbin|orward|mad|tz)|m(?!axrreg|inimal)|W(?!error)|pthread|std=gnu).*",
        context.groups.get("option", ""),
    ):
        return CureResult()
    remedy = (
        "pass the option to the host's compiler alone: -Xcompiler OPTION, or in the list of cxx of extra_compile_args"
    )
    return CureResult(remedy=remedy, command="")


@cure
def compute_cap(context: LogContext) -> CureResult:
    """The compute capability of the GPU of the log, for build scripts that ask nvidia-smi."""
    here = capabilities(context)
    return CureResult(command=f"export CUDA_COMPUTE_CAP={str(here[0]).replace('.', '')}") if here else CureResult()


@cure
def nvcc_crashed(context: LogContext) -> CureResult:
    """Suggest the newest nvcc of the CUDA major of torch, which has bug fixes."""
    _, cuda = torch_of(context)
    release = nvcc_on_path(context)
    major = (cuda or release or Version("0")).major
    able = [row.version for row in context.knowledge.cudas if row.version.major == major]
    newest = max((one for one in able if install_toolchain(context, one)), default=None)
    if newest is None or (release is not None and release >= newest):
        return CureResult()
    return CureResult(because=tuple(_toolkit_sentences(context)), command=install_toolchain(context, newest))


_NEWER_TORCH = "install a torch built for a CUDA that supports the GPU, and nvcc of that CUDA version"


def _compiles_for(row: Cuda, asked: str) -> bool:
    return any(str(target) == asked.rstrip("af") for target in row.targets)


@cure
def host_compiler(context: LogContext) -> CureResult:
    """Compare the host's gcc with the newest that nvcc supports."""
    gcc = context.groups.get("gcc")
    compilers = context.facts.compilers if context.facts else ()
    because = [f"{item.name} {item.version} at {item.path}" for item in compilers if item.name in ("gcc", "g++")]
    if not gcc:
        _, cuda = torch_of(context)
        row = context.knowledge.cuda(cuda) if cuda and "internal compiler error" in context.line else None
        if row is None or row.gcc_max is None:
            return CureResult(because=tuple(because))
        gcc = str(row.gcc_max)
    because.append(f"this nvcc supports gcc up to {gcc}")
    if int(gcc) < _OLDEST_GXX:
        return CureResult(because=tuple(because), remedy=f"install gcc-{gcc} and g++-{gcc} of the system", command="")
    platform = context.facts.platform if context.facts else PLATFORMS[0]
    command = f"conda install{_in_prefix(context)} -c conda-forge 'gxx_{platform}={gcc}.*'"
    named = "" if _in_prefix(context) else _CCBIN.format(machine=MACHINES[platform])
    return CureResult(because=tuple(because), command=command + named)


_CCBIN = ' && export NVCC_PREPEND_FLAGS="-ccbin $CONDA_PREFIX/bin/{machine}-conda-linux-gnu-g++"'
"""An nvcc takes the g++ of PATH, and the one of conda-forge has another name."""
_OLDEST_GXX = 7  # the first g++ of conda-forge


@cure
def param_packs(context: LogContext) -> CureResult:
    """Suggest a gcc for an nvcc before 11.6; with an older gcc the nvcc is before 11."""
    found = context.groups.get("found", "")
    if "__float128" in context.line:  # which nvcc before 9 knows only to be absent
        remedy = "compile with -std=c++11, not gnu++11 (in CMake: CMAKE_CXX_EXTENSIONS=OFF), or use CUDA 9 or later"
        return CureResult(remedy=remedy, command="")
    if found.isdigit() and int(found) < _FIRST_UNREAD:
        remedy = f"use a newer toolkit or an older gcc: gcc {found} is too new for this toolkit"
        return CureResult(remedy=remedy, command="")
    return host_compiler(context)


_FIRST_UNREAD = 11  # the gcc whose headers no nvcc before 11.6 reads


@cure
def torch_headers(context: LogContext) -> CureResult:
    """Suggest the nvcc of torch's CUDA, a newer ``-std``, or another gcc for the headers of torch."""
    said = context.line.partition(" error: ")[2]
    _, cuda = torch_of(context)
    if name := re.search(r"\b(?:cuda|cublas|cusparse|cusolver|cudnn|nccl|nvtx)[A-Z]\w{1,50}", said):
        says = f"{name[0]} is a part of CUDA: torch was built with another release of it"
        return CureResult(
            because=(says,), command=(install_toolchain(context, cuda) if cuda else "") or install_torch_toolkit()
        )
    if re.search(r"_v\W|not a member of .?std\b|has no member|torch::enumtype", said):
        return CureResult(remedy="set -std=c++17: the headers of torch 2.1 and newer need C++17")
    nvcc = nvcc_on_path(context) or cuda
    row = context.knowledge.cuda(nvcc) if nvcc else None
    gcc = min(row.gcc_max or _COMMON_GXX, _COMMON_GXX) if row else _COMMON_GXX
    platform = context.facts.platform if context.facts else PLATFORMS[0]
    return CureResult(
        because=tuple(_toolkit_sentences(context)),
        command=f"conda install{_in_prefix(context)} -c conda-forge 'gxx_{platform}={gcc}.*'",
    )


_COMMON_GXX = 10  # the g++ that torch 1.5 to 2.4 and every nvcc from 11.1 on take


def _toolkit_sentences(context: LogContext) -> Iterable[str]:
    for toolkit in context.facts.toolkits if context.facts else ():
        where = "on PATH" if toolkit.on_path else f"found by {toolkit.via}"
        yield f"toolkit {toolkit.release or 'of unknown release'} at {toolkit.path}, {where}"


def nvcc_on_path(context: LogContext) -> Version | None:
    """Return the CUDA version X.Y of the first nvcc on PATH, or ``None``."""
    found: FoundToolkit | None = next(
        (item for item in (context.facts.toolkits if context.facts else ()) if item.on_path and item.release), None
    )
    if found is None or found.release is None:
        nvcc = context.mentions.get("nvcc", "")
        return version(nvcc) if nvcc and not (context.facts and context.facts.detected) else None
    return version(".".join(found.release.split(".")[:2]))


def _missing_text(lacking: Iterable[str]) -> str:
    names = " ".join(lacking)
    return f", and lacks {names}" if names else ", and every header package"


_PRINT_CUDA = 'python -c "import torch; print(torch.version.cuda)"'


def install_torch_toolkit() -> str:
    """Return the command that installs nvcc and headers; it asks torch for its CUDA version, which the log lacks."""
    return f'conda install -c "nvidia/label/cuda-$({_PRINT_CUDA}).0" cuda-toolkit'
