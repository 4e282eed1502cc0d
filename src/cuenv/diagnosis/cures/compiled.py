"""Compiled packages: device code for the GPU, symbols of another torch, a C library that is too old."""

from __future__ import annotations

import re

from packaging.version import Version

from cuenv.core.record import replace
from cuenv.core.regex import regex
from cuenv.core.versions import version_or_none
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
from cuenv.diagnosis.cures.names import PIP_ANEW, again, package_in, package_of, provider, straight
from cuenv.diagnosis.cures.torch import by_wheel
from cuenv.knowledge.rows import TorchBuild
from cuenv.resolver.candidates import Candidate
from cuenv.resolver.rules import Reason
from cuenv.resolver.rules.libraries import glibc_verdict
from cuenv.resolver.verdict import for_host
from cuenv.resolver.wheels import wheel_row

_FOREIGN = regex(r"(?:ggml|llama|flashinfer|onnx)[\w./-]*\.cuh?:|/(?!\S*(?:aten|c10|THC|torch))\S+/csrc/\S+\.cuh?:")
"""A source of GPU code that is no part of torch."""
_COMPILED_IN = frozenset({"ggml", "rs", "drivererror", "cudasuccess"})
"""Frameworks, and ways to speak of Rust and Caffe, whose GPU code is in the program itself."""
_PTXAS = regex(r"ptxas\b(?! application).*Unsupported \.version")
"""The program ptxas refuses the PTX; as a "ptxas application" the driver speaks."""
_NEWER_PTXAS = (
    "python -m pip install --upgrade nvidia-cuda-nvcc-cu12 && "
    "export PATH=$(python -c \"import sysconfig; print(sysconfig.get_path('purelib'))\")/nvidia/cuda_nvcc/bin:$PATH"
)
"""What jax-ml/jax#25718 ends with: the ptxas of NVIDIA's wheel in place of the system's."""


def _of_torch(case: LogContext) -> Joined:
    """The code that torch holds against the GPUs; what is no part of torch is built again for them."""
    if _FOREIGN.search(case.line) or case.frameworks & _COMPILED_IN:
        wanted = ";".join(map(str, capabilities(case))) or "the compute capability of the GPU"
        remedy = f"build or install the package of this file again, for {wanted} (TORCH_CUDA_ARCH_LIST, CUDAARCHS)"
        return Joined(remedy=remedy, command="")
    release, cuda = torch_of(case)
    found = capabilities(case)
    build = _build_of(case, release, cuda) if release and cuda else None
    because = []
    if found and build:
        verdict = asked_rule(case, "device-code", Candidate(build=build, cuda=cuda, python="3"))
        because.append(f"torch {build.version} for CUDA {cuda}: {with_code(verdict)}")
    elif found:
        because.append(f"the GPU has compute capability {', '.join(map(str, found))}")
    gpus = " ".join(f"--gpu {capability}" for capability in found) if case.told.get("sm") else ""
    host = case if not gpus or (case.facts and case.facts.detected) else replace(case, facts=host_of(case))
    return Joined(because=tuple(because), command=resolve_anew(host, gpus=gpus))


def _build_of(case: LogContext, release: Version, cuda: Version) -> TorchBuild | None:
    """The row of a torch whose device code is known: a wheel's, else that of the channel and platform."""
    package = case.prefix.package("pytorch") if case.prefix else None
    stack = package.channel_name if package else ""
    platform = host_of(case).platform
    wheel = wheel_row(release, "", cuda, platform, case.knowledge)
    if wheel.code and (release.local or (case.prefix and not package)):
        return wheel
    rows = [row for row in case.knowledge.torch if (row.version.public, row.cuda) == (release.public, cuda)]
    return max(
        (row for row in rows if row.code),
        key=lambda row: (row.platform == platform, row.stack == stack),
        default=None,
    )


def _libc(case: LogContext) -> Joined:
    """The C library of the host against the one that the line asks for."""
    wanted = version_or_none(case.told.get("glibc", ""))
    if case.facts is None or case.facts.libc is None or wanted is None:
        return Joined()
    reason = Reason("row", f"the file of this line needs glibc {wanted} or later")
    machines = [machine for machine in case.facts.machines if machine.libc]
    verdicts = [for_host(glibc_verdict(wanted, reason, machine.libc), machine) for machine in machines]
    return Joined(because=tuple(dict.fromkeys(map(with_code, verdicts))))


@join
def extension(case: LogContext) -> Joined:
    """How a compiled module that is missing is built: its package again, or the folder of the program's sources."""
    name = case.told.get("module", "")
    if command := provider(case, "folder", name):
        return Joined(remedy="build it in its directory in the program's sources", command=command)
    package = package_of(name)
    if package not in _COMPILED and not provider(case, "repository", package):
        return Joined()
    ready = "APEX_CPP_EXT=1 APEX_CUDA_EXT=1 " if package == "apex" else ""
    return Joined(
        remedy=f"install {package} with its compiled part", command=f"{ready}{PIP_ANEW} {again(case, package)}"
    )


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


@join
def symbol(case: LogContext) -> Joined:
    """The package whose file expects a symbol that is not there, built or installed again."""
    if re.search(r"undefined symbol: cu[A-Z]", case.line):
        return Joined(remedy="run where nvidia-smi shows a GPU: the driver provides the symbol")
    if "-packages/torch/" in straight(case.line):
        return built_again(case)
    package = package_in(case.line)
    if not package:
        return Joined()
    pip = f"{PIP} install --no-cache-dir --force-reinstall --no-deps --no-build-isolation"
    return Joined(
        remedy=f"reinstall {package} for the packages that are installed now", command=f"{pip} {again(case, package)}"
    )


_ASK_CAPABILITY = "nvidia-smi --query-gpu=compute_cap --format=csv,noheader | sort -u | paste -sd ';'"
_IN_TREE = regex(r"(?<![\w.])/(?!(?:\S+/)?(?:site|dist)-packages/)\S+\.so\b")
"""A compiled file that lies beside the sources of a program, and in no environment."""
_PINNING = frozenset({"vllm", "xformers"})
"""Packages whose releases name the one torch that they were built with (Requires-Dist; xformers up to 0.0.33)."""


@join
def ptxas(case: LogContext) -> Joined:
    """A newer ptxas, where XLA or Triton takes the one that it is told."""
    if case.frameworks & {"jax", "tensorflow"}:
        remedy = "put the ptxas of a newer CUDA first on PATH; XLA takes the one that it finds there"
        return Joined(remedy=remedy, command=_NEWER_PTXAS)
    return Joined()


@join
def kernel_of_package(case: LogContext) -> Joined:
    """A kernel that was written by hand, which torch.compile did not make."""
    if "triton.compiler.errors" not in case.line or "inductor" in case.mentions:
        return Joined()
    remedy = "the kernel is one of a package or of the program: install the release of Triton that it was written for"
    return Joined(remedy=remedy, command="")


@join
def device_code(case: LogContext) -> Joined:
    """No code for the GPU: in a package with kernels of its own, which is built again, else in torch."""
    if "jax" in case.frameworks and "PTX was compiled" in case.line:
        remedy = "install a newer driver, or a jaxlib whose CUDA is not newer than the driver's"
        return Joined(remedy=remedy, command="")
    if "onnxruntime" in f"{case.line} {case.raised.package if case.raised else ''}":
        return Joined(
            remedy="a build of onnxruntime that has code for this GPU: a newer CUDA, or a newer release", command=""
        )
    package = _with_kernels(case)
    if not package:
        return by_wheel(case, _of_torch(case))
    found = capabilities(case)
    gpu = f" ({', '.join(map(str, found))})" if found else ""
    says = f"the called kernel belongs to {package}, so another torch does not help"
    how, lowest = provider(case, "kernels", package), version_or_none(provider(case, "capability", package))
    if how.startswith(PIP):
        return Joined(
            because=(says,), remedy=f"install a newer {package}, whose wheel has code for more GPUs", command=how
        )
    if lowest and found and any((one.major, one.minor) < lowest.release for one in found):
        remedy = f"run the program without {package}, which supports only compute capability {lowest} and later"
        return Joined(because=(says,), remedy=remedy, command="")
    if how == "wheel":
        return Joined(
            because=(says,), remedy=f"install a release of {package} that has code for this GPU{gpu}", command=""
        )
    wanted = f'"{";".join(map(str, found))}"' if found else f'"$({_ASK_CAPABILITY})"'
    pip = f"{PIP} install --no-build-isolation --no-deps --no-cache-dir --force-reinstall --no-binary {package}"
    remedy = f"compile {package} again for this GPU{gpu}, with an nvcc that supports it and the installed torch"
    return Joined(
        because=(says,), remedy=remedy, command=f"{how.replace('{list}', wanted)} {pip} {again(case, package)}"
    )


def _with_kernels(case: LogContext) -> str:
    """The package with kernels of its own whose code the line, or the last frame of the traceback, tells."""
    names = [*_FOLDER.findall(case.line), case.raised.package if case.raised else ""]
    return next((name for name in map(package_of, names) if name and provider(case, "kernels", name)), "")


_FOLDER = regex(r"(?:^|[\s/(])([A-Za-z][\w-]{1,40})(?=/)")


@join
def glibc(case: LogContext) -> Joined:
    """A package whose wheel asks for a newer C library than there is: what is built here asks for no newer one."""
    found = _libc(case)
    package = package_in(case.line)
    if not package or package.startswith(("nvidia", "torch")):
        return found
    forced = "FLASH_ATTENTION_FORCE_BUILD=TRUE " if package == "flash-attn" else ""  # its setup.py takes a wheel else
    pip = f"{forced}{PIP} install --no-build-isolation --no-deps --no-cache-dir --force-reinstall"
    command = f"{pip} --no-binary {package} {again(case, package)}"
    return replace(found, remedy=f"build {package} on this system, so that it uses this glibc", command=command)


@join
def built_again(case: LogContext) -> Joined:
    """An extension for the torch that is there: its own release, whatever newer one there is.

    A file of torch itself is of another release than its neighbours; one beside the sources of a program is built
    there.
    """
    if "-packages/torch/" in straight(case.line):
        remedy = "reinstall the same torch release with the libraries that it pins"
        if case.mentions.get("manager") == "conda" or re.search(r"conda|/envs/", case.line):
            return Joined(
                remedy=f"{remedy}, by conda or pip as it was installed; a new environment is surest", command=""
            )
        return Joined(remedy=remedy, command=f"{PIP} install --no-cache-dir --force-reinstall {again(case, 'torch')}")
    if "libtorch_hip" in case.line:
        remedy = "install torch and the package that is imported from one index: this package is its build for AMD GPUs"
        return Joined(because=("libtorch_hip.so is a part of torch for ROCm alone",), remedy=remedy, command="")
    if _IN_TREE.search(case.line):
        return Joined(remedy="remove its build directory, and build it again in the directory of its setup.py")
    if "THPVariableClass" in case.line:  # of libtorch_python.so, which import torch alone loads
        remedy = "write import torch before the import of the extension; if it stands there, build the extension again"
        return Joined(remedy=remedy)
    package = case.told.get("package", "")
    package = (
        package_of(package) if package else package_in(case.line) or package_in(case.mentions.get("importing", ""))
    )
    if not package:
        return Joined()
    if package in _PINNING:
        remedy = f"let pip install the torch that this {package} release requires and was built for"
        return Joined(remedy=remedy, command=f"{PIP} install {again(case, package)}")
    pip = f"{PIP} install --no-build-isolation --no-cache-dir --force-reinstall --no-deps"
    return Joined(command=f"{pip} {again(case, package)}")


@join
def arch_list(case: LogContext) -> Joined:
    """The compute capabilities of the GPUs that the log tells; tiny-cuda-nn has a variable of its own, without dots."""
    found = case.facts.capabilities if case.facts else ()
    if "Unknown compute capability" in case.line:
        wanted = ";".join(str(one).replace(".", "") for one in found)
        ask = "$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n1 | tr -d .)"
        ask = "80;86;90" if in_image(case) else ask  # where an image is built no GPU is in sight
        return Joined(command=f'export TCNN_CUDA_ARCHITECTURES="{wanted or ask}"')
    return Joined(command=f'export TORCH_CUDA_ARCH_LIST="{";".join(map(str, found))}"') if found else Joined()


@join
def isolation(case: LogContext) -> Joined:
    """A build that must see the torch of its environment, as the program that manages the environment is told so."""
    package = case.mentions.get("failed") or case.mentions.get("building") or "PACKAGE"
    if case.mentions.get("manager") == "pixi":
        remedy = f"name {package} in pixi.toml under [pypi-options]: no-build-isolation; torch is a conda package there"
        return Joined(remedy=remedy, command="")
    if "pre-compile ops" in case.line:  # so DeepSpeed alone speaks
        return Joined(command=f"{PIP} install --no-build-isolation deepspeed")
    return Joined()
