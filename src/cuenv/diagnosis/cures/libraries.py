"""Cures for shared libraries: those of CUDA and cuDNN, which copy is loaded, and which package provides one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from shlex import quote

from packaging.version import Version

from cuenv.core.record import replace
from cuenv.core.regex import regex
from cuenv.core.versions import version, version_or_none
from cuenv.diagnosis.cures.build import nvcc_on_path
from cuenv.diagnosis.cures.context import CureResult, LogContext, cure, torch_of
from cuenv.diagnosis.cures.managers import PIP
from cuenv.diagnosis.cures.names import PIP_REINSTALL, package_in, package_of_import, pip_requirement, provider
from cuenv.diagnosis.cures.solvers import pyg_requirement
from cuenv.diagnosis.cures.torch import companion_version, dgl, is_wheel, torchvision


@cure
def library_path(context: LogContext) -> CureResult:
    """Name system libraries on LD_LIBRARY_PATH, which precede those of the environment."""
    entries = context.facts.environment.library_path if context.facts else ()
    because = tuple(
        f"LD_LIBRARY_PATH names {entry.path}, which holds {', '.join(entry.libraries[:4])}" for entry in entries
    )
    return CureResult(because=because)


@cure
def other_libraries(context: LogContext) -> CureResult:
    """Suggest to unset LD_LIBRARY_PATH only if it is known to name CUDA libraries: the row has other reasons too."""
    found = library_path(context)
    return found if found.because else replace(found, command="")


@cure
def jax_library(context: LogContext) -> CureResult:
    """Suggest the wheel of a library that JAX finds too old."""
    found = re.search(r"Found (\w+) version [0-9]+, but JAX was built against version ([0-9]{4,6})", context.line)
    name = found[1] if found else next((name for name in _JAX_LIBRARIES if f"Outdated {name} " in context.line), "")
    if name not in _JAX_LIBRARIES:
        return CureResult(command="")
    wheel, scale, of_cuda_12 = _JAX_LIBRARIES[name]
    if not found:
        pin = ""
    else:
        number = int(found[2])
        scale = 10_000 if name == "cuDNN" and number >= 90_000 else scale
        major, minor = number // scale, number % scale // 100
        pin = f">={major}.{minor}.{number % 100},<{major + 1}"
        if (major, minor, number % 100) < of_cuda_12:
            wheel = wheel.replace("12", "11")
    if name == "cuDNN" and not pin:
        return CureResult(command="")
    remedy = (
        f"install a newer {name} for JAX in this environment; if "
        f"torch pins another {name}, use another environment for torch"
    )
    return CureResult(remedy=remedy, command=f"python -m pip install --upgrade {quote(wheel + pin)}")


_JAX_LIBRARIES = {
    "cuBLAS": ("nvidia-cublas-cu12", 10_000, (12, 0, 0)),
    "cuDNN": ("nvidia-cudnn-cu12", 1000, (8, 9, 0)),
    "cuFFT": ("nvidia-cufft-cu12", 1000, (11, 0, 0)),
    "cuSOLVER": ("nvidia-cusolver-cu12", 1000, (11, 4, 2)),
    "cuSPARSE": ("nvidia-cusparse-cu12", 1000, (12, 0, 0)),
}
"""NVIDIA's wheels of the libraries whose release jaxlib compares, what the major counts in the number of each, and the
first release for CUDA 12."""


def _cuda_of_file(context: LogContext) -> str:
    """Return the CUDA release in the file name of a library: the major from 11 on, and the whole release before.

    Most libraries have other numbers.
    """
    major = context.groups.get("major", "")
    found = re.search(rf"lib(cu\w+|nv\w+|nccl)\.so\.({major}(?:\.[0-9])?)\b", context.line) if major else None
    if found is None or found[1] not in ("cudart", "cublas", "cublasLt", "cupti", "nvrtc", "nvJitLink"):
        return ""
    return found[2] if int(major) < _FIRST_COMMON_NAME else major


_FIRST_COMMON_NAME = 11  # the first major release of CUDA whose releases share the file names of their libraries


def _runtime_sentences(context: LogContext, wanted: str, cuda: Version | None) -> Iterator[str]:
    """Yield what the file name of a runtime, torch's CUDA and LD_LIBRARY_PATH say."""
    level = "release" if "." in wanted else "major version"
    if wanted:
        whose = f"CUDA {wanted}" if level == "release" else f"every CUDA {wanted}.x"
        yield f"the runtime of {whose} has this file name"
    if cuda and wanted:
        same = wanted in (str(cuda), str(cuda.major))
        said = (
            f"which has this {level}, so its runtime is not on the search path" if same else f"which is another {level}"
        )
        yield f"torch here is built for CUDA {cuda}, {said}"
    for entry in context.facts.environment.library_path if context.facts else ():
        yield f"LD_LIBRARY_PATH names {entry.path}"


@cure
def runtime(context: LogContext) -> CureResult:
    """Suggest the CUDA runtime library of the major version that a package needs."""
    release, cuda = torch_of(context)
    wanted = _cuda_of_file(context)
    same = cuda is not None and wanted in (str(cuda), str(cuda.major))
    have = version_or_none(context.packages.get("torchvision", ""))
    fitting = companion_version(context, "torchvision", release) if release and have else None
    if have and fitting and have.release[:2] != fitting.release[:2] and "torchvision" in context.line:
        return torchvision(context)
    because = [*_runtime_sentences(context, wanted, cuda)]
    if "libnvrtc.so: cannot" in context.line:
        remedy = "install the development files of NVRTC (cuda-nvrtc-dev): only they have the name without a release"
        return CureResult(because=tuple(because), remedy=remedy, command="")
    package = package_in(context.line) or package_of_import(context)
    if context.frameworks & {"ai.onnxruntime", "onnxruntime-java"}:
        remedy = "use the release of com.microsoft.onnxruntime:onnxruntime_gpu for the installed CUDA"
        return CureResult(because=(*because, "this is ONNX Runtime for Java, which pip cannot install"), remedy=remedy)
    if package in ("onnxruntime", "onnxruntime-gpu") or "onnxruntime" in context.line:
        if wanted.split(".")[0] in _OLD_MAJORS:
            remedy = (
                "install the CUDA toolkit and cuDNN that this old release of ONNX Runtime names in its requirements"
            )
            return CureResult(because=tuple(because), remedy=remedy, command="")
        if "libnvinfer" in context.line:
            remedy = (
                "install the TensorRT that this ONNX Runtime names; without its provider the one of CUDA does the work"
            )
            return CureResult(because=tuple(because), remedy=remedy, command="")
        because.append("ONNX Runtime is for CUDA 11 up to 1.18 on PyPI, and for CUDA 12 from 1.19 on")
        pin = (
            ">=1.19"
            if wanted == "11" or "libcufft.so.10" in context.line
            else "==1.18.*"
            if cuda and cuda.major == 11
            else "[cuda,cudnn]"
        )
        return CureResult(because=tuple(because), command=f"{PIP} install 'onnxruntime-gpu{pin}'")
    if same and is_wheel(context) and not context.prefix and not install_cuda_library(context):
        remedy = "add torch's CUDA libraries to the search path of other libraries"
        return CureResult(because=tuple(because), remedy=remedy, command=add_to_search_path())
    if package and package not in _WITHOUT_TORCH and wanted and not same:
        remedy = f"install the {package} build for torch's CUDA, or rebuild it against torch"
        pip = f"{PIP} install --force-reinstall --no-deps --no-cache-dir --no-build-isolation"
        return CureResult(because=tuple(because), remedy=remedy, command=f"{pip} {pip_requirement(context, package)}")
    remedy = "install the library in the environment and add its directory to the search path"
    if context.frameworks & JETSON:
        remedy = (
            "on a Jetson CUDA and cuDNN come with JetPack: install the wheel that was built for this JetPack, "
            "or start a container for its L4T release with --runtime nvidia"
        )
    command = install_cuda_library(context)
    return CureResult(because=tuple(because), remedy=remedy, command=command)


_OLD_MAJORS = ("9", "10")
_WITHOUT_TORCH = frozenset(
    [
        "bitsandbytes",
        "ctranslate2",
        "cupy",
        "cupy-backends",
        "faster-whisper",
        "jaxlib",
        "paddle",
        "tensorflow",
        "torch",
    ]
)
"""Packages that load the libraries of CUDA by themselves, whatever torch there is."""


@cure
def bitsandbytes(context: LogContext) -> CureResult:
    """Suggest the releases of bitsandbytes with the missing library; the nvcc on PATH does not matter."""
    text = context.groups.get("library", "")
    _, wanted = torch_of(context)
    if re.search(r"/bitsandbytes/bitsandbytes/libbitsandbytes", context.line) and "-packages/" not in context.line:
        says = "Python loads a source checkout in which the library was never built"
        command = "cmake -DCOMPUTE_BACKEND=cuda -S . && cmake --build . && python -m pip install ."
        return CureResult(because=(says,), remedy="build it in its source directory with CMake", command=command)
    if "override" in context.mentions:
        says = (
            f"BNB_CUDA_VERSION={context.mentions['override']} chooses this library instead of the one for torch's CUDA"
        )
        remedy = "let bitsandbytes choose the library itself"
        return CureResult(because=(says,), remedy=remedy, command="unset BNB_CUDA_VERSION")
    if not text and wanted is None:
        return CureResult()
    cuda = version(text) if text else wanted
    rows = [row for row in context.knowledge.extension("bitsandbytes") if "wheel" in row.comes and cuda in row.cuda]
    because = []
    package = context.prefix.package("bitsandbytes") or context.prefix.wheel("bitsandbytes") if context.prefix else None
    if package:
        because.append(f"installed is bitsandbytes {package.version}")
    release = nvcc_on_path(context)
    if release and release != cuda:
        because.append(f"nvcc {release} on PATH does not matter: bitsandbytes reads torch.version.cuda")
    first = min((row.first for row in rows if row.first), default=None)
    if first is None:
        return CureResult(because=(*because, f"the cuenv tables list no release with a library for CUDA {cuda}"))
    below = None if any(row.below is None for row in rows) else max(row.below for row in rows if row.below)
    because.append(f"bitsandbytes has a library for CUDA {cuda} since {first}{f' and below {below}' if below else ''}")
    releases = f"bitsandbytes>={first}{f',<{below}' if below else ''}"
    return CureResult(because=tuple(because), command=f"{PIP} install --upgrade --no-deps '{releases}'")


_LIBRARY_FILE = regex(r"lib([\w+.-]+?)\.so\b")


@cure
def library(context: LogContext) -> CureResult:
    """Suggest the system package that contains a shared library."""
    name = context.groups.get("file", "")
    name = name if name.startswith("lib") or not name else f"lib{name}.so"
    found = _LIBRARY_FILE.search(name)
    stem = found[1] if found else ""
    python = re.fullmatch(r"python(3\.[0-9]{1,2})m?", stem)
    if python:
        return CureResult(command=f"sudo apt-get install libpython{python[1]}")
    package = provider(context, "library", stem)
    if not package:
        return CureResult(command=install_cuda_library(context))
    remedy = f"install {package} (Debian, Ubuntu; others name it alike), or the library from conda-forge"
    return CureResult(remedy=remedy, command=f"sudo apt-get install {package}")


JETSON = frozenset({"jetpack", "jetson", "tegra"})  # what the log of a Jetson names


def install_cuda_library(context: LogContext) -> str:
    """Return the command that installs a missing CUDA library and adds it to the search path."""
    every = list(_CUDA_LIBRARY.finditer(context.line))
    absent = [one for one in every if context.line.startswith(_NOT_FOUND, one.end())]
    if not every:
        return ""
    stem, release = (absent or every)[0].groups()
    major = release.partition(".")[0]
    if context.frameworks & JETSON and major != "13":  # the wheels are for servers before CUDA 13
        return ""
    if stem.startswith("cudnn") and major in ("5", "6", "7"):
        return f"conda install -c conda-forge 'cudnn=7.6' && {_EXPORT_CONDA_LIB}" if major == "7" else ""
    wheel, suffixes = _CUDA_LIBRARIES.get(stem, ("", {}))
    if stem in ("cudart", "cublas", "cufft", "curand", "cusolver", "cusparse") and release in {*_OLD_TOOLKITS} - {
        *suffixes
    }:
        channel = "defaults" if release in ("8.0", "9.0") else "conda-forge"
        return f"conda install -c {channel} cudatoolkit={_OLD_TOOLKITS[release]} && {_EXPORT_CONDA_LIB}"
    if "-builtins" in context.line and major == "11" and release != major:  # of this very release, as old as it is
        return f"conda install -c conda-forge cudatoolkit={release} && {_EXPORT_CONDA_LIB}"
    if not wheel or major not in suffixes:
        return ""
    if "-builtins" in context.line and release != major:
        return f"{PIP} install '{wheel}{suffixes[major]}=={release}.*' && {add_to_search_path()}"
    _, cuda = torch_of(context)
    suffix = "-cu11" if cuda and cuda.major == 11 and major in ("1", "2", "10", "11") else suffixes[major]
    return f"{PIP} install {wheel}{suffix} && {add_to_search_path()}"


_CUDA_LIBRARY = regex(
    r"lib(cu[a-zA-Z]{2,10}|nv[a-zA-Z]{2,12}|nccl)(?:-builtins|64)?\.so\.([0-9]{1,2}(?:\.[0-9]{1,2})?)"
)
_EXPORT_CONDA_LIB = "export LD_LIBRARY_PATH=$CONDA_PREFIX/lib:$LD_LIBRARY_PATH"
_NOT_FOUND = (": cannot open", "' not found", " => not found", " not found", " is not found", "': ")
_WHEEL_SUFFIX = {"11": "-cu11", "12": "-cu12", "13": ""}
_CUDA_LIBRARIES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "cublas": ("nvidia-cublas", _WHEEL_SUFFIX),
    "cublasLt": ("nvidia-cublas", _WHEEL_SUFFIX),
    "cudart": ("nvidia-cuda-runtime", _WHEEL_SUFFIX),
    "cufft": ("nvidia-cufft", {"10": "-cu11", "11": "-cu12", "12": ""}),
    "cupti": ("nvidia-cuda-cupti", _WHEEL_SUFFIX),
    "curand": ("nvidia-curand", {"10": "-cu12"}),
    "cusolver": ("nvidia-cusolver", {"11": "-cu12", "12": ""}),
    "cusparse": ("nvidia-cusparse", {"11": "-cu11", "12": "-cu12"}),
    "cusparseLt": ("nvidia-cusparselt", {"0": "-cu12"}),
    "nccl": ("nvidia-nccl", {"2": "-cu12"}),
    "nvJitLink": ("nvidia-nvjitlink", {"12": "-cu12", "13": ""}),
    "nvToolsExt": ("nvidia-nvtx", {"1": "-cu12"}),
    "nvrtc": ("nvidia-cuda-nvrtc", _WHEEL_SUFFIX),
}
"""Libraries, and NVIDIA's wheels with them: the suffix of the name by the major version in the library's file name."""
_OLD_TOOLKITS = {"8.0": "8.0", "9.0": "9.0", "9.2": "9.2", "10": "10.2", "10.0": "10.0", "10.1": "10.1"}
"""Releases of CUDA before NVIDIA's wheels that conda has, by the number in the file names of their libraries."""


@cure
def cuda_part(context: LogContext) -> CureResult:
    """Suggest a rebuild of a package that was built without GPU code."""
    text = f"{context.line} {context.mentions.get('importing', '')}"
    _, cuda = torch_of(context)
    if "spconv" in text or "cumm" in text:
        if cuda is None:
            return CureResult(command="")
        wheel = {10: "spconv-cu102", 11: "spconv-cu118"}.get(cuda.major, "spconv-cu120")
        return CureResult(command=f"{PIP} uninstall -y spconv && {PIP} install {wheel}")
    if "ctranslate2" in text.lower():
        remedy = "PyPI's x86-64 wheel has CUDA, but its aarch64 wheel does not: on aarch64, build it from source"
        here = context.facts is not None and context.facts.platform == "linux-aarch64"
        return CureResult(
            remedy=remedy, command="" if here else f"{PIP} install --force-reinstall --no-deps ctranslate2"
        )
    if "dgl" in text:
        found = dgl(context)
        remedy = "install DGL's CUDA build for this torch and CUDA, from the index that dgl.ai names"
        return found if found.command else CureResult(remedy=remedy, command="")
    own = context.frame.package if context.frame else ""
    if own.startswith("torch_"):
        return CureResult(command=f"{PIP} install --force-reinstall --no-deps {pyg_requirement(context, own)}")
    if "ReadyEvent" in text:
        command = f"HOROVOD_GPU_OPERATIONS=NCCL {PIP_REINSTALL} {pip_requirement(context, 'horovod')}"
        return CureResult(remedy="build Horovod again with NCCL for its operations on GPUs", command=command)
    if "xgboost" in text.lower():
        remedy = "install a build with CUDA: PyPI's x86-64 wheel, or with conda the package py-xgboost-gpu"
        return CureResult(remedy=remedy, command=f"{PIP} install --force-reinstall --no-deps xgboost")
    package = next((name for name in ("apex", "detectron2", "mmcv") if name in text.lower()), "")
    if package == "mmcv" or ": implementation for device " in text:  # so speaks mmcv alone
        return CureResult(
            command=f"MMCV_WITH_OPS=1 FORCE_CUDA=1 {PIP_REINSTALL} --no-binary mmcv {pip_requirement(context, 'mmcv')}"
        )
    ready = "APEX_CPP_EXT=1 APEX_CUDA_EXT=1" if package == "apex" else "FORCE_CUDA=1"
    return (
        CureResult(command=f"{ready} {PIP_REINSTALL} {pip_requirement(context, package)}") if package else CureResult()
    )


@cure
def mmcv(context: LogContext) -> CureResult:
    """Suggest the mmcv releases that a program takes: mmcv-full has the kernels before release 2."""
    told = context.groups
    if "low" not in told:
        return CureResult()
    high = f"<{told['below']}" if "below" in told else f"<={told['last']}"
    name = "mmcv-full" if high.lstrip("<=").startswith("1.") else "mmcv"
    wanted = f"{name}>={told['low']},{high}"
    return CureResult(command=f"{PIP} install openmim && mim install {quote(wanted)}")


@cure
def onnxruntime(context: LogContext) -> CureResult:
    """Suggest onnxruntime-gpu with its CUDA instead of onnxruntime, which hides it."""
    _, cuda = torch_of(context)
    pin = "==1.18.*" if cuda and cuda.major == 11 else "[cuda,cudnn]"
    pip = f"{PIP} uninstall -y onnxruntime onnxruntime-gpu && {PIP} install 'onnxruntime-gpu{pin}'"
    return CureResult(command=pip)


@cure
def numba(context: LogContext) -> CureResult:
    """Suggest the libNVVM for Numba: of the conda toolkit, or numba-cuda with pip."""
    _, cuda = torch_of(context)
    if cuda is None or cuda.major < 12:
        return CureResult(command="conda install -c conda-forge cudatoolkit=11.8") if cuda else CureResult()
    if context.prefix and context.prefix.kind == "conda":
        return CureResult()
    return CureResult(command=f"{PIP} install 'numba-cuda[cu{cuda.major}]'")


@cure
def libstdcxx(context: LogContext) -> CureResult:
    """Name the first GCC whose libstdc++ has the requested symbols."""
    needed = re.sub(r"^GLIBCXX_", "", context.groups.get("needed", ""))
    if re.search(
        r"(?<![\w.])/(?!usr/|lib|\S*(?:conda|forge|envs)\S*libstdc)\S+/libstdc\+\+[^\n]+(?:conda|envs)", context.line
    ):
        remedy = "put the environment's libstdc++ before the one on LD_LIBRARY_PATH"
        return CureResult(remedy=remedy, command="export LD_LIBRARY_PATH=$CONDA_PREFIX/lib:$LD_LIBRARY_PATH")
    first = provider(context, "libstdcxx", needed)
    if not first:
        return CureResult()
    where = f" -p {quote(context.prefix.path)}" if context.prefix else ""
    return CureResult(
        because=(f"GLIBCXX_{needed} came with the libstdc++ of GCC {first}",),
        command=f"conda install{where} -c conda-forge 'libstdcxx-ng>={first}'",
    )


@cure
def libstdcxx_of_conda(context: LogContext) -> CureResult:
    """Suggest the newest libstdc++ of conda-forge, if the library lies in a conda environment."""
    conda = re.search(r"conda|/envs/|forge", context.line)
    return CureResult(command="conda install -c conda-forge libstdcxx-ng" if conda else "")


def add_to_search_path() -> str:
    """Return the command that adds the libraries of NVIDIA's wheels and of torch to the search path."""
    folders = "glob.glob(root + '/nvidia/*/lib') + [root + '/torch/lib']"
    found = f"root = sysconfig.get_path('purelib'); print(':'.join({folders}))"
    return f'export LD_LIBRARY_PATH=$(python -c "import glob, sysconfig; {found}"):$LD_LIBRARY_PATH'


@cure
def cudnn(context: LogContext) -> CureResult:
    """Suggest the cuDNN of torch, or a CTranslate2 release for it (README of SYSTRAN/faster-whisper)."""
    release, cuda = torch_of(context)
    asked = "9" if re.search(r"libcudnn\w*\.so\.9", context.line) else "8"
    if release is None and "-packages/torch/" in context.mentions.get("importing", ""):
        remedy = "install the cuDNN of torch itself, which torch finds beside its own directory"
        return CureResult(remedy=remedy, command=f"{PIP} install 'nvidia-cudnn-cu12=={asked}.*'")
    if release is None:
        return CureResult(command=_install_cudnn_elsewhere(asked, cuda))
    mine = "9" if (release.major, release.minor) >= (2, 4) else "8"
    if mine == asked and is_wheel(context):
        because = (f"torch {release} includes cuDNN {mine}, so this library is installed but not on the search path",)
        remedy = "add torch's cuDNN to the search path of other libraries"
        return CureResult(because=because, remedy=remedy, command=add_to_search_path())
    because = (f"torch {release} includes cuDNN {mine}, but cuDNN {asked} is needed",)
    if (
        "ctranslate2" not in context.packages
        and "ctranslate2" not in f"{context.line} {context.mentions.get('importing', '')}"
    ):
        return CureResult(because=because, command=_install_cudnn_elsewhere(asked, cuda))
    if mine == "9":
        return CureResult(because=because, command=f"{PIP} install 'ctranslate2>=4.5'")
    pin = "3.24.0" if cuda and cuda.major < 12 else "4.4.0"
    remedy = "install the CTranslate2 that was built for this cuDNN and CUDA"
    return CureResult(because=because, remedy=remedy, command=f"{PIP} install ctranslate2=={pin}")


@cure
def cudnn_compiled(context: LogContext) -> CureResult:
    """Suggest the cuDNN that TensorFlow or JAX was built with, or a later one of its major."""
    if early := re.search(
        r"but source was compiled with ([0-9])([0-9])[0-9]{2}\b", context.line
    ):  # before TensorFlow 1.5
        return CureResult(
            remedy=f"install cuDNN {early[1]}.{early[2]}, which this TensorFlow was built with", command=""
        )
    found = re.search(r"but source was compiled with:? ?([0-9]{1,2})\.([0-9]{1,2})", context.line)
    if not found:
        return library_path(context)
    if int(found[1]) < _OLDEST_WHEEL:
        return CureResult(command=f"conda install -c conda-forge 'cudnn>={found[1]}.{found[2]},<{int(found[1]) + 1}'")
    old = int(found[1]) == 8 and int(found[2]) < _CUDNN_12
    remedy = f"add cuDNN {found[1]}.{found[2]} or later, of the same major version, to the search path"
    pin = f">={found[1]}.{found[2]},<{int(found[1]) + 1}"
    return CureResult(remedy=remedy, command=_install_cudnn_elsewhere(found[1], Version("11" if old else "12"), pin))


_OLDEST_WHEEL = 8  # the first cuDNN that is a wheel; earlier ones are packages of conda
_CUDNN_12 = 9
"""From 8.9 on TensorFlow and JAX take the cuDNN for CUDA 12 (the tested build configurations of TensorFlow)."""


def _install_cudnn_elsewhere(major: str, cuda: Version | None, pin: str = "") -> str:
    """Return the command that installs a cuDNN outside of the environment, where torch pins another."""
    suffix = "cu11" if cuda and cuda.major == 11 else "cu12"
    folder = f"~/cudnn{major}"
    wheel = f"{PIP} install --no-deps --target {folder} 'nvidia-cudnn-{suffix}{pin or f'=={major}.*'}'"
    return f"{wheel} && export LD_LIBRARY_PATH={folder}/nvidia/cudnn/lib:$LD_LIBRARY_PATH"


@cure
def cudnn_start(context: LogContext) -> CureResult:
    """Suggest a fix for a cuDNN that cannot start, which often lacks memory because TensorFlow took it all."""
    if "SymbolNotFound" in context.line:  # the first call of CUDA fails, before cuDNN
        remedy = "compare the driver (nvidia-smi) with the framework's CUDA; in a container, check which libcuda it has"
        return CureResult(remedy=remedy, command="")
    if re.search(r"\(External\)|ExternalError|/paddle/", context.line):  # Paddle finds its libraries by that variable
        remedy = "free GPU memory; then compare the cuDNN on LD_LIBRARY_PATH with the one that Paddle was built with"
        return CureResult(remedy=remedy, command="")
    if "jax" in context.frameworks or "/xla/" in context.line or "XlaRuntimeError" in context.line:
        remedy = "let JAX allocate memory on demand; otherwise look for another cuDNN on LD_LIBRARY_PATH"
        return CureResult(remedy=remedy, command="export XLA_PYTHON_CLIENT_PREALLOCATE=false")
    if "tensorflow" in context.frameworks or "tensorflow" in context.line:
        remedy = "let TensorFlow allocate memory on demand; otherwise look for another cuDNN on LD_LIBRARY_PATH"
        return CureResult(remedy=remedy, command="export TF_FORCE_GPU_ALLOW_GROWTH=true")
    return other_libraries(context)


@cure
def tensorflow(context: LogContext) -> CureResult:
    """Suggest the wheels of NVIDIA that TensorFlow 2.14 and later names, for Python 3.9 and later."""
    release = version_or_none(context.packages.get("tensorflow", "") or context.packages.get("tensorflow-gpu", ""))
    python = version_or_none(context.mentions.get("python", ""))
    if not (release and release < Version("2.14")) and not (python and python < Version("3.9")):
        return CureResult()
    remedy = (
        "install the CUDA toolkit and the cuDNN that this release of TensorFlow was built with (tensorflow.org/install/"
        "source, tested build configurations); only 2.14 and later name them as packages, by tensorflow[and-cuda]"
    )
    return CureResult(remedy=remedy, command="")


@cure
def two_cublas(context: LogContext) -> CureResult:
    """Explain two copies of cuBLAS, if a symbol or a value shows them; otherwise memory is the usual cause."""
    found = library_path(context)
    if found.because or re.search(r"undefined symbol|not defined in file|INVALID_VALUE|NOT_SUPPORTED", context.line):
        return found
    remedy = (
        "look for an index out of range (CUDA_LAUNCH_BLOCKING=1) and at the free memory (nvidia-smi); then unset "
        "LD_LIBRARY_PATH"
    )
    return replace(found, remedy=remedy, command="")
