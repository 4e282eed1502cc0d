"""Which package provides what a log misses: a module of Python, a shared library, a header.

The names of modules and packages differ often enough that none is guessed: an unknown module may be one of the
program's own, and a package of that name on an index may be somebody else's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from cuenv.core.regex import regex
from cuenv.diagnosis.cures import (
    ASK_TAG,
    again,
    built_again,
    on_search_path,
    package_in,
    package_of,
    provider,
    straight,
)
from cuenv.diagnosis.managers import PIP
from cuenv.diagnosis.on_host import Joined, LogContext, torch_of
from cuenv.knowledge.guidance import Provider
from cuenv.knowledge.io.load import load_guidance
from cuenv.resolver.wheels import INDEX

_OF_PYG = frozenset({"torch_scatter", "torch_sparse", "torch_cluster", "torch_spline_conv", "pyg_lib"})
_ASK_PYG = (
    "$(python -c \"import torch; v = torch.__version__.split('+')[0].split('.'); "
    "print(v[0] + '.' + v[1] + '.0+cu' + torch.version.cuda.replace('.', ''))\")"
)
_REPOSITORY = regex(r"/compute/cuda/repos/([a-z]{1,10}[0-9]{1,4})/")
_ASK_TRITON = (
    'python -c "import importlib.metadata as m; '
    "print(next(r for r in m.requires('torch') if r.startswith('triton')).split(';')[0])\""
)
_LIBRARY = regex(r"lib([\w+.-]+?)\.so\b")


def module(case: LogContext) -> Joined:
    """How the package of a module is installed, where that is known."""
    name = case.told.get("module", "")
    if found := re.search(r"No package metadata was found for ([A-Za-z][\w.-]{1,60})\b", case.line):
        remedy = f"install {found[1]} into the Python that runs"
        return Joined(remedy=remedy, command=f"{PIP} install {found[1]}")
    if last := provider(case, "standard", name):
        because = (f"{name} was in the standard library up to Python {last}",)
        remedy = f"an environment with Python {last}, or a release of the package that does without {name}"
        return Joined(because=because, remedy=remedy, command=f"conda create -n old-python python={last}")
    wanted = _wanted(case, name)
    if not wanted:
        return Joined()
    if extra := re.search(rf"\b{re.escape(wanted)}(\[[a-z0-9_,-]{{1,40}}\])", case.line):
        wanted = f"'{wanted}{extra[1]}'"
    elif asked := re.search(rf"\b{re.escape(wanted)}((?:>=|==|~=)[0-9][\w.]{{0,20}})", case.line):
        wanted = f"'{wanted}{asked[1].rstrip('.')}'"
    remedy = f"install it into the Python that runs: its package is {wanted.split()[-1].strip(chr(39))}"
    if name in _OF_PYG:
        remedy = f"install the wheel of {name} for this torch, from the index of PyG"
    return Joined(remedy=remedy, command=f"{PIP} install {wanted}")


def _wanted(case: LogContext, name: str) -> str:
    release, cuda = torch_of(case)
    if name in _OF_PYG:
        known = f"{release.major}.{release.minor}.0+cu{cuda.major}{cuda.minor}" if release and cuda else ""
        return f'{name.replace("_", "-")} -f "https://data.pyg.org/whl/torch-{known or _ASK_PYG}.html"'
    if name == "spconv":
        return "spconv-cu118" if cuda and cuda.major == 11 else "spconv-cu120"
    if name in ("mmcv", "mmdet"):
        return f"openmim && mim install {name}"
    source = provider(case, "repository", name.lower().replace("_", "-"))
    found = f"--no-build-isolation {source}" if source else provider(case, "module", name)
    return found.format(major=cuda.major if cuda else 12)


def lacking(case: LogContext) -> Joined:
    """A package that pip's index does not have: where it is, as far as that is known."""
    name = case.told.get("package", "").lower().replace("_", "-")
    release, _ = torch_of(case)
    if not name and release and release.local:  # the index of PyTorch alone was searched, which lacks other packages
        remedy = "name the index of PyTorch beside the usual one, not in its place: --extra-index-url"
        return Joined(remedy=remedy, command=f"{PIP} install torch=={release} --extra-index-url {INDEX}{release.local}")
    if found := _LOCAL.search(case.line):
        because = (f"versions with +{found['tag']} are not on PyPI",)
        index = f"--index-url {INDEX}{found['tag']}" if name.startswith("torch") else f"-f {_OF_JAX}"
        return Joined(because=because, command=f"{PIP} install {found['asked']} {index}")
    if python := _last_python(case, name):
        asked = f"{name}=={python[0]}"
        because = (f"{asked} has wheels up to Python {python[1]}",)
        run = f"conda run -n old-python python -m pip install {asked}"
        command = f"conda create -y -n old-python -c conda-forge python={python[1]} pip && {run}"
        return Joined(because=because, remedy="an environment with a Python that has wheels of it", command=command)
    module = name.replace("-", "_")
    wanted = _wanted(case, module) if name else ""
    return Joined(command=f"{PIP} install {wanted}" if wanted and wanted != name else "")


def _last_python(case: LogContext, name: str) -> tuple[str, str] | None:
    """The release that is asked for and the last Python that has wheels of it, of TensorFlow and torch's companions."""
    found = re.search(rf"\b{re.escape(name)}==(([0-9]+)\.([0-9]+)[\w.]{{0,12}})", case.line.replace("_", "-"))
    if not name or found is None:
        return None
    asked, major, minor = found[1], int(found[2]), int(found[3])
    last = provider(case, "wheels", f"{name.removesuffix('-gpu')}:{major}.{minor}")
    if name == "torchvision" and not major:
        torch = (2, minor - 15) if minor >= 15 else (1, minor - 1)
        last = next((row.pythons[-1] for row in case.knowledge.wheels if row.version.release[:2] == torch), "")
    return (asked, last) if last and case.mentions.get("python", "3.99") != last else None


_LOCAL = regex(
    r"(?P<asked>(?:torch(?:vision|audio)|jaxlib)==[0-9][\w.]{1,20}\+(?P<tag>cu[0-9]{2,3}|cpu|cuda[\w.]{1,20}))"
)
_OF_JAX = "https://storage.googleapis.com/jax-releases/jax_cuda_releases.html"


def library(case: LogContext) -> Joined:
    """The package of the system that holds a shared library."""
    name = case.told.get("file", "")
    name = name if name.startswith("lib") or not name else f"lib{name}.so"
    found = _LIBRARY.search(name)
    stem = found[1] if found else ""
    python = re.fullmatch(r"python(3\.[0-9]{1,2})m?", stem)
    if python:
        return Joined(command=f"sudo apt-get install libpython{python[1]}")
    package = provider(case, "library", stem)
    if not package:
        return Joined(command=cuda_library(case))
    remedy = f"install {package} (Debian, Ubuntu; others name it alike), or the library from conda-forge"
    return Joined(remedy=remedy, command=f"sudo apt-get install {package}")


def cuda_library(case: LogContext) -> str:
    """The command that brings a library of CUDA which the line misses, with its folder on the search path."""
    every = list(_CUDA_LIBRARY.finditer(case.line))
    absent = [one for one in every if case.line.startswith(_ABSENT, one.end())]
    if not every:
        return ""
    stem, release = (absent or every)[0].groups()
    major = release.partition(".")[0]
    if stem.startswith("cudnn") and major in ("5", "6", "7"):
        return f"conda install -c conda-forge 'cudnn=7.6' && {_OF_CONDA}" if major == "7" else ""
    if stem in ("cudart", "cublas", "cufft", "curand", "cusolver", "cusparse") and release in _OLD:
        return f"conda install -c conda-forge cudatoolkit={_OLD[release]} && {_OF_CONDA}"
    if "-builtins" in case.line and major == "11" and release != major:  # of this very release, as old as it is
        return f"conda install -c conda-forge cudatoolkit={release} && {_OF_CONDA}"
    wheel, suffixes = _CUDA_LIBRARIES.get(stem, ("", {}))
    if not wheel or major not in suffixes:
        return ""
    if "-builtins" in case.line and release != major:
        return f"{PIP} install '{wheel}{suffixes[major]}=={release}.*' && {on_search_path()}"
    _, cuda = torch_of(case)
    suffix = "-cu11" if cuda and cuda.major == 11 and major in ("1", "2", "10", "11") else suffixes[major]
    return f"{PIP} install {wheel}{suffix} && {on_search_path()}"


_CUDA_LIBRARY = regex(
    r"lib(cu[a-zA-Z]{2,10}|nv[a-zA-Z]{2,12}|nccl)(?:-builtins|64)?\.so\.([0-9]{1,2}(?:\.[0-9]{1,2})?)"
)
_OF_CONDA = "export LD_LIBRARY_PATH=$CONDA_PREFIX/lib:$LD_LIBRARY_PATH"
_ABSENT = (": cannot open", " => not found", " not found", " is not found", "': ")
_BY_MAJOR = {"11": "-cu11", "12": "-cu12", "13": ""}
_CUDA_LIBRARIES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "cublas": ("nvidia-cublas", _BY_MAJOR),
    "cublasLt": ("nvidia-cublas", _BY_MAJOR),
    "cudart": ("nvidia-cuda-runtime", _BY_MAJOR),
    "cufft": ("nvidia-cufft", {"10": "-cu11", "11": "-cu12", "12": ""}),
    "cupti": ("nvidia-cuda-cupti", _BY_MAJOR),
    "curand": ("nvidia-curand", {"10": "-cu12"}),
    "cusolver": ("nvidia-cusolver", {"11": "-cu12", "12": ""}),
    "cusparse": ("nvidia-cusparse", {"11": "-cu11", "12": "-cu12"}),
    "cusparseLt": ("nvidia-cusparselt", {"0": "-cu12"}),
    "nccl": ("nvidia-nccl", {"2": "-cu12"}),
    "nvJitLink": ("nvidia-nvjitlink", {"12": "-cu12", "13": ""}),
    "nvToolsExt": ("nvidia-nvtx", {"1": "-cu12"}),
    "nvrtc": ("nvidia-cuda-nvrtc", _BY_MAJOR),
}
"""Libraries, and NVIDIA's wheels with them: the suffix of the name by the major version in the library's file name."""
_OLD = {"8.0": "8.0", "9.0": "9.0", "9.1": "9.1", "9.2": "9.2", "10": "10.2", "10.0": "10.0", "10.1": "10.1"}
"""Releases of CUDA before NVIDIA's wheels, by the number in the file names of their libraries."""


def extension(case: LogContext) -> Joined:
    """How a compiled module that is missing is built: its package again, or the folder of the program's sources."""
    name = case.told.get("module", "")
    if command := provider(case, "folder", name):
        return Joined(remedy="build it, in the folder of the program that has it", command=command)
    package = package_of(name)
    if package not in _COMPILED and not provider(case, "repository", package):
        return Joined()
    ready = "APEX_CPP_EXT=1 APEX_CUDA_EXT=1 " if package == "apex" else ""
    return Joined(remedy=f"install {package} with its compiled part", command=f"{ready}{_ANEW} {again(case, package)}")


_COMPILED = frozenset(
    [
        "causal-conv1d",
        "exllamav2",
        "flash-attn",
        "gsplat",
        "mamba-ssm",
        "torch-cluster",
        "torch-scatter",
        "torch-sparse",
    ]
)
"""Packages on PyPI whose compiled part belongs to one torch."""


_RING = "/usr/share/keyrings/nvidia-container-toolkit-keyring.gpg"
_TOOLKIT = "https://nvidia.github.io/libnvidia-container"
_TOOLKIT_KEY = f"curl -fsSL {_TOOLKIT}/gpgkey | sudo gpg --dearmor --yes -o {_RING}"
_TOOLKIT_LIST = (
    f"{_TOOLKIT_KEY} && curl -fsSL {_TOOLKIT}/stable/deb/nvidia-container-toolkit.list | "
    f"sed 's#deb https://#deb [signed-by={_RING}] https://#' | "
    "sudo tee /etc/apt/sources.list.d/nvidia-container-toolkit.list"
)


def apt_source_twice(case: LogContext) -> Joined:
    """The files that older guides of the container toolkit wrote; what others wrote is not known."""
    if "compute/cuda/repos" in case.line:
        return Joined(command=f"sudo rm -f {_IMAGE_LISTS} && sudo apt-get update")
    return Joined(command=f"{_OLD_LISTS} && sudo apt-get update" if "nvidia.github.io" in case.line else "")


_OLD_LISTS = "sudo rm -f " + " ".join(
    f"/etc/apt/sources.list.d/{name}.list"
    for name in ("libnvidia-container", "nvidia-docker", "nvidia-container-runtime")
)


def image_not_found(case: LogContext) -> Joined:
    """What tries a GPU in a container, where the tag of the old guide is gone."""
    asked = re.match(r"docker: Error response", case.line) and re.search(r"nvidia/cuda:[\w.]*-?base", case.line)
    return Joined(command="docker run --rm --gpus all ubuntu nvidia-smi" if asked else "")


_IMAGE_LISTS = "/etc/apt/sources.list.d/cuda.list /etc/apt/sources.list.d/nvidia-ml.list"
"""What the images of CUDA before April 2022 have."""


def apt_no_release(case: LogContext) -> Joined:
    """What takes an address out of apt's lists at which nothing is, where it is known which file names it."""
    found = re.search(r"The repository 'https?://([^'\s]+)", case.line)
    url, update = found[1] if found else "", "sudo apt-get update"
    if "nvidia.github.io" in url:
        remedy = "take the address of the NVIDIA Container Toolkit that is for all releases of the system"
        return Joined(remedy=remedy, command=f"{_OLD_LISTS}; {_TOOLKIT_LIST} && {update}")
    if found := re.search(r"ppa\.launchpad\w*\.net/([\w.+-]+)/([\w.+-]+)/", url):
        return Joined(command=f"sudo add-apt-repository -y --remove ppa:{found[1]}/{found[2]} && {update}")
    if "compute/machine-learning/" in url:
        return Joined(command=f"sudo rm -f {_IMAGE_LISTS} && {update}")
    if url.endswith("compute/cuda/repos//"):
        lists = "$(grep -rlF 'compute/cuda/repos//' /etc/apt/sources.list.d)"
        return Joined(command=f"sudo sed -i '\\|compute/cuda/repos//|d' {lists} && {update}")
    return Joined()


def apt_package(case: LogContext) -> Joined:
    """A package of the system under its name of today; what NVIDIA has is found in NVIDIA's repository alone."""
    name = case.told.get("name", "")
    if name.startswith(("nvidia-container", "nvidia-docker", "libnvidia-container")):
        remedy = "add the repository of the NVIDIA Container Toolkit first"
        return Joined(remedy=remedy, command=f"{_TOOLKIT_LIST} && sudo apt-get update")
    if "nvidia" in name or name.startswith(("cuda", "libcudnn", "libnccl", "libnvinfer", "tensorrt", "datacenter-gpu")):
        return Joined(remedy="add the repository of NVIDIA first: the package cuda-keyring does it")
    renamed = provider(case, "renamed", name)
    if not renamed and "has no installation candidate" in case.line:  # the lists are there, and name no release of it
        return Joined(remedy=f"{name} is not in the repositories of this release of the system: take what replaced it")
    wanted = renamed or name
    return Joined(command=f"sudo apt-get update && sudo apt-get install -y {wanted}" if wanted else "")


def apt_refused(case: LogContext) -> Joined:
    """What apt itself could not do: without root it does nothing, and lists of packages that are old are fetched."""
    if re.search(r"Permission denied|are you root", case.line):
        return Joined(remedy="run apt as root: put sudo before the command")
    if re.search(r"[Cc]ould not get lock|is another process using it", case.line):
        return Joined(remedy="wait until the other apt or dpkg has ended, which the line may name, and try again")
    if re.search(r"Failed to fetch|404 +Not Found|Hash Sum mismatch|some archives", case.line):
        return Joined(remedy="fetch the lists of packages again", command="sudo apt-get update")
    return Joined()


def cmake_package(case: LogContext) -> Joined:
    """What provides the CMake files of a package: torch itself, or a development package of the system."""
    name = case.told.get("name", "")
    if name in ("Torch", "Caffe2", "TorchVision"):
        ask = "import torch; print(torch.utils.cmake_prefix_path)"
        remedy = "give CMake the folder that torch itself names"
        return Joined(remedy=remedy, command=f'export CMAKE_PREFIX_PATH=$(python -c "{ask}")')
    if name == "pybind11":
        return Joined(command=f"{PIP} install 'pybind11[global]'")
    package = provider(case, "cmake", name)
    return Joined(command=f"sudo apt-get install -y {package}" if package else "")


def cuda_part(case: LogContext) -> Joined:
    """The package that was built without its GPU code, built with it; in whose folder, where no line names it."""
    text = f"{case.line} {case.mentions.get('importing', '')}"
    _, cuda = torch_of(case)
    if "spconv" in text or "cumm" in text:
        wheel = {10: "spconv-cu102", 11: "spconv-cu118"}.get(cuda.major if cuda else 12, "spconv-cu120")
        return Joined(command=f"{PIP} uninstall -y spconv && {PIP} install {wheel}")
    if "ctranslate2" in text.lower():
        remedy = "the wheel of PyPI for x86-64 has CUDA, that for aarch64 has none: there it is built from its sources"
        return Joined(remedy=remedy, command=f"{PIP} install --force-reinstall --no-deps ctranslate2")
    package = next((name for name in ("apex", "detectron2", "mmcv") if name in text.lower()), "")
    if package == "mmcv" or ": implementation for device " in text:  # so speaks mmcv alone
        return Joined(command=f"MMCV_WITH_OPS=1 FORCE_CUDA=1 {_ANEW} --no-binary mmcv {again(case, 'mmcv')}")
    ready = "APEX_CPP_EXT=1 APEX_CUDA_EXT=1" if package == "apex" else "FORCE_CUDA=1"
    return Joined(command=f"{ready} {_ANEW} {again(case, package)}") if package else Joined()


_ANEW = f"{PIP} install --no-build-isolation --no-cache-dir --force-reinstall --no-deps"


def dgl(case: LogContext) -> Joined:
    """The wheel of DGL for this torch; the last release that DGL serves is 2.4."""
    told, cuda = torch_of(case)
    asked = case.told.get("torch", "") or str(told or "")
    release = ".".join(asked.split(".")[:2])
    if release not in ("2.1", "2.2", "2.3", "2.4"):
        return Joined(remedy="DGL has libraries up to torch 2.4: install that torch, or another package for graphs")
    tag = f"cu{cuda.major}{cuda.minor}" if cuda else f"cu$({ASK_TAG})"
    index = f"https://data.dgl.ai/wheels/torch-{release}/{tag}/repo.html"
    command = f'{PIP} install --force-reinstall --no-deps dgl -f "{index}"'
    return Joined(remedy=f"install the DGL for torch {release}, from its own index", command=command)


def onnxruntime(case: LogContext) -> Joined:
    """onnxruntime-gpu with the CUDA that it needs, in the place of onnxruntime, which hides it."""
    _, cuda = torch_of(case)
    pin = "==1.18.*" if cuda and cuda.major == 11 else "[cuda,cudnn]"
    pip = f"{PIP} uninstall -y onnxruntime onnxruntime-gpu && {PIP} install 'onnxruntime-gpu{pin}'"
    return Joined(command=pip)


def package_pair(case: LogContext) -> Joined:
    """The release of a package that still has, or already has, the name that is asked for."""
    if case.told.get("package") == "triton" and case.raised and case.raised.package == "torch":
        return Joined(
            remedy="install the release of triton that this torch names", command=f'{PIP} install "$({_ASK_TRITON})"'
        )
    older = provider(case, "name", f"{case.told.get('package', '')}:{case.told.get('name', '')}")
    return Joined(command=f"{PIP} install {older}" if older else "")


def functional_tensor(case: LogContext) -> Joined:
    """The file of BasicSR that names the module which torchvision removed, corrected; others have a newer release."""
    if "pytorchvideo" in case.mentions.get("importing", ""):
        return Joined(command=f"{PIP} install git+https://github.com/facebookresearch/pytorchvideo")
    return Joined()


def link(case: LogContext) -> Joined:
    """The package of the system for linking with a library."""
    found = provider(case, "link", case.told.get("name", ""))
    return Joined(command=f"sudo apt-get install {found}") if found else Joined()


def apt_key(case: LogContext) -> Joined:
    """The key of NVIDIA's repository that the line names; other repositories have other keys."""
    if "nvidia.github.io" in case.line or "DDCAE044F796ECB0" in case.line:
        return Joined(command=f"{_TOOLKIT_KEY} && sudo chmod 644 {_RING}")
    if "A4B469963BF863CC" not in case.line and not _REPOSITORY.search(case.line):
        return Joined()
    found = _REPOSITORY.search(case.line)
    system = found[1] if found else "$(. /etc/os-release; echo $ID$VERSION_ID | tr -d .)"
    package = f"https://developer.download.nvidia.com/compute/cuda/repos/{system}/x86_64/cuda-keyring_1.1-1_all.deb"
    return Joined(command=f"curl -fsSLO {package} && sudo dpkg -i cuda-keyring_1.1-1_all.deb")


def repository(case: LogContext) -> Joined:
    """The address by which everybody may fetch a repository of GitHub."""
    for address in ("git@github.com:", "git://github.com/"):
        if address in case.line:
            remedy = "let git use https for the repositories of GitHub, and fetch again"
            command = f'git config --global url."https://github.com/".insteadOf {address}'
            return Joined(remedy=remedy, command=command)
    return Joined()


def symbol(case: LogContext) -> Joined:
    """The package whose file expects a symbol that is not there, built or installed again."""
    if re.search(r"undefined symbol: cu[A-Z]", case.line):
        return Joined(remedy="the symbol is the driver's: run where nvidia-smi shows a GPU")
    if "-packages/torch/" in straight(case.line):
        return built_again(case)
    package = package_in(case.line)
    if not package:
        return Joined()
    pip = f"{PIP} install --no-cache-dir --force-reinstall --no-deps --no-build-isolation"
    return Joined(
        remedy=f"install {package} again, for what is installed beside it", command=f"{pip} {again(case, package)}"
    )


def _longest(row: Provider) -> int:
    return -len(row.name)


def header(case: LogContext) -> Joined:
    """The package of the system that holds a header."""
    name = case.told.get("header", "")
    held = [row for row in load_guidance(case.knowledge).providers if row.kind == "header"]
    package = next((row.gives for row in sorted(held, key=_longest) if name.startswith(row.name)), "")
    if name.startswith(("torch/", "ATen/", "c10/", "THC/", "TH/")):
        return Joined(
            remedy="the header is of another release of torch: take the torch that the sources were written for"
        )
    if in_python := provider(case, "include", name.split("/")[0] + "/"):
        folder = f'$(python -c "import {in_python}; print({in_python}.get_include())")'
        return Joined(
            remedy=f"the package {in_python} of Python holds the header: let the compiler look there",
            command=f'{PIP} install {in_python} && export CPATH="{folder}${{CPATH:+:$CPATH}}"',
        )
    if not package:
        return Joined()
    remedy = f"install {package} (Debian, Ubuntu; others name it alike), or the headers from conda-forge"
    return Joined(remedy=remedy, command=f"sudo apt-get install {package}")


def numba(case: LogContext) -> Joined:
    """The libNVVM that Numba looks for: in conda with the toolkit, by pip with numba-cuda."""
    _, cuda = torch_of(case)
    if cuda is None or cuda.major < 12:
        return Joined(command="conda install -c conda-forge cudatoolkit=11.8") if cuda else Joined()
    if case.prefix and case.prefix.kind == "conda":
        return Joined()
    return Joined(command=f"{PIP} install 'numba-cuda[cu{cuda.major}]'")


JOINS: dict[str, Callable[[LogContext], Joined]] = {
    "apt_key": apt_key,
    "apt_no_release": apt_no_release,
    "apt_package": apt_package,
    "apt_refused": apt_refused,
    "apt_source_twice": apt_source_twice,
    "cmake_package": cmake_package,
    "cuda_part": cuda_part,
    "dgl": dgl,
    "extension": extension,
    "functional_tensor": functional_tensor,
    "image_not_found": image_not_found,
    "header": header,
    "lacking": lacking,
    "library": library,
    "link": link,
    "module": module,
    "numba": numba,
    "onnxruntime": onnxruntime,
    "package_pair": package_pair,
    "repository": repository,
    "symbol": symbol,
}
"""The joins of this module by the names that rows give."""
