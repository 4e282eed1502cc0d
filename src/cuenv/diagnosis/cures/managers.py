"""Commands for the package manager of the log's environment (uv, pixi, Poetry, dnf) and for its user."""

from __future__ import annotations

import re
from collections.abc import Callable
from shlex import quote

from cuenv.core.regex import regex
from cuenv.diagnosis.cures.context import LogContext, torch_of

PIP = "python -m pip"
_PIPS = {"uv": "uv pip", "pixi": "pixi run python -m pip", "poetry": "poetry run python -m pip"}
_CACHES = {"uv": "uv cache clean", "pixi": "pixi clean cache --yes", "poetry": "poetry cache clear --all -n ."}
_CONDA = regex(r"conda install (?:-c \S+ )*(?P<what>[^&|]+?)(?: && export(?: \w+=\$CONDA_PREFIX\S*)+)?")
_GXX = regex(r"gxx_linux-\w+=([0-9]{1,2})\.\*")
_LABEL = regex(r"nvidia/label/cuda-([0-9]{1,2})\.([0-9]{1,2})\.")
_VERSION = regex(r"cuda-version=([0-9]{1,2})\.([0-9]{1,2})\b")
_ASK = "python -c \"import torch; print(torch.version.cuda.replace('.', '-'))\""
_SYSTEM = frozenset({"system", "uv", "poetry"})
"""Package managers without conda: compilers and libraries come from the system."""


def for_manager(context: LogContext, command: str) -> str:
    """Return a pip or conda command for the package manager of the log; empty if it has no such command."""
    manager = context.mentions.get("manager", "")
    if context.prefix:
        return re.sub(rf"^{PIP}|(?<=[&(] ){PIP}", f"{quote(context.prefix.path)}/bin/{PIP}", command)
    if manager == "nix":
        return ""
    if manager in _PIPS:
        command = _CACHES.get(manager, command) if "cache purge" in command else command.replace(PIP, _PIPS[manager])
    if manager == "pixi":
        command = re.sub(r"^conda install (?:-c conda-forge )?", "pixi add ", command)
    if manager in _SYSTEM and (found := _CONDA.fullmatch(command)):
        command = next((said(context, command) for word, said in _OF_SYSTEM.items() if word in found["what"]), "")
    if "apt-get" in command and (_RPM.search(context.line) or "transaction" in context.mentions):
        command = _with_dnf(command)
    return command.replace("sudo ", "") if "root" in context.mentions else command


_RPM = regex(r"\.(?:el|fc|amzn)[0-9]|\b(?:dnf|yum)\b|\.rpm\b")  # signs of a system with RPM packages
_OF_RPM = {
    "build-essential": "gcc-c++ make",
    "linux-headers-$(uname -r)": "kernel-devel-$(uname -r)",
    "python3-dev": "python3-devel",
    "libaio-dev": "libaio-devel",
    "dkms": "dkms",
    "git": "git",
    "cmake": "cmake",
    "ninja-build": "ninja-build",
    "pciutils": "pciutils",
    "libssl-dev": "openssl-devel",
    "pkg-config": "pkgconf-pkg-config",
    "swig": "swig",
    "gfortran": "gcc-gfortran",
    "protobuf-compiler": "protobuf-compiler",
    "wget": "wget",
    "curl": "curl",
    "unzip": "unzip",
    "make": "make",
    "patchelf": "patchelf",
}
"""Debian packages and their names in Fedora and Red Hat."""


def _with_dnf(command: str) -> str:
    """Return an apt command as a dnf command; empty if the dnf name of a package is unknown."""
    steps = [step for step in command.split(" && ") if step != "sudo apt-get update"]
    said = []
    for step in steps:
        found = re.fullmatch(r"sudo apt-get install (?:-y )?((?:[\w.+-]+(?:\$\(uname -r\))? ?)+)", step)
        names = found[1].replace("$(uname -r)", "@").split() if found else []
        meant = [_OF_RPM.get(name.replace("@", "$(uname -r)")) for name in names]
        if "apt" in step and (not meant or None in meant):
            return ""
        said.append("sudo dnf install -y " + " ".join(filter(None, meant)) if found else step)
    return " && ".join(said)


def _compiler(context: LogContext, command: str) -> str:
    del context
    major = _GXX.search(command)
    if "sysroot" in command:
        return ""
    if major is None:
        return "sudo apt-get update && sudo apt-get install -y build-essential"
    number = major[1]
    return f"sudo apt-get install -y g++-{number} && export CC=gcc-{number} CXX=g++-{number} CUDAHOSTCXX=g++-{number}"


def _toolkit(context: LogContext, command: str) -> str:
    """Return the command that installs the CUDA toolkit from NVIDIA's apt repository."""
    found = _LABEL.search(command) or _VERSION.search(command)
    _, cuda = torch_of(context)
    release = f"{found[1]}-{found[2]}" if found else f"{cuda.major}-{cuda.minor}" if cuda else f"$({_ASK})"
    home = "/usr/local/cuda-" + release.replace("-", ".") if "$" not in release else "/usr/local/cuda"
    return f"sudo apt-get install -y cuda-toolkit-{release} && export CUDA_HOME={home} PATH={home}/bin:$PATH"


def _libaio(context: LogContext, command: str) -> str:
    del context, command
    return "sudo apt-get install -y libaio-dev"


def _cudnn(context: LogContext, command: str) -> str:
    del command
    if re.search(r"libcudnn\w*\.so\.[5-8]\b", context.line):  # the repository of a new system has cuDNN 9 alone
        return ""
    _, cuda = torch_of(context)
    return f"sudo apt-get install -y libcudnn9-dev-cuda-{cuda.major if cuda else 12}"


def _nccl(context: LogContext, command: str) -> str:
    del context, command
    return "sudo apt-get install -y libnccl-dev"


_OF_SYSTEM: dict[str, Callable[[LogContext, str], str]] = {
    "c-compiler": _compiler,
    "gxx_linux": _compiler,
    "cuda-toolkit": _toolkit,
    "cuda-nvcc": _toolkit,
    "libaio": _libaio,
    "cudnn": _cudnn,
    "nccl": _nccl,
}
"""Conda packages that have a counterpart in Debian and Ubuntu."""
