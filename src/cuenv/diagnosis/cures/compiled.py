"""Compiled packages: device code for the GPU, symbols of another torch, a C library that is too old."""

from __future__ import annotations

import re
from shlex import quote

from packaging.version import Version

from cuenv.core.record import replace
from cuenv.core.regex import regex
from cuenv.core.versions import version_or_none
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
from cuenv.diagnosis.cures.libraries import JETSON
from cuenv.diagnosis.cures.managers import PIP
from cuenv.diagnosis.cures.names import (
    PIP_REINSTALL,
    normalized_path,
    package_in,
    package_of,
    package_of_import,
    pip_requirement,
    provider,
)
from cuenv.diagnosis.cures.solvers import PYG_MODULES, pyg_requirement
from cuenv.diagnosis.cures.torch import is_wheel, release_for_torch, with_fitting_wheel
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
"""The program ptxas refuses the PTX; as a "ptxas application" the driver speaks."""
_NEWER_PTXAS = (
    "python -m pip install --upgrade nvidia-cuda-nvcc-cu12 && "
    "export PATH=$(python -c \"import sysconfig; print(sysconfig.get_path('purelib'))\")/nvidia/cuda_nvcc/bin:$PATH"
)
"""What jax-ml/jax#25718 ends with: the ptxas of NVIDIA's wheel in place of the system's."""


def _of_torch(context: LogContext) -> CureResult:
    """Compare the device code of torch with the GPUs; suggest a rebuild for code that is not part of torch."""
    if _FOREIGN.search(context.line) or context.frameworks & _COMPILED_IN:
        wanted = ";".join(map(str, capabilities(context))) or "the compute capability of the GPU"
        remedy = f"build or install the package of this file again, for {wanted} (TORCH_CUDA_ARCH_LIST, CUDAARCHS)"
        return CureResult(remedy=remedy, command="")
    if context.frameworks & JETSON:
        remedy = "install the torch that was built for this Jetson's JetPack, or start a container for its L4T release"
        return CureResult(remedy=remedy, command="")
    release, cuda = torch_of(context)
    found = capabilities(context)
    build = _build_of(context, release, cuda) if release and cuda else None
    because = []
    if found and build:
        verdict = rule_verdict(context, "device-code", Candidate(build=build, cuda=cuda, python="3"))
        because.append(f"torch {build.version} for CUDA {cuda}: {text_with_code(verdict)}")
    elif found:
        because.append(f"the GPU has compute capability {', '.join(map(str, found))}")
    gpus = " ".join(f"--gpu {capability}" for capability in found) if context.groups.get("sm") else ""
    host = (
        context
        if not gpus or (context.facts and context.facts.detected)
        else replace(context, facts=rule_host(context))
    )
    return CureResult(because=tuple(because), command=resolve_command(host, gpus=gpus))


def _build_of(context: LogContext, release: Version, cuda: Version) -> TorchBuild | None:
    """Return the row of a torch with known device code: of a wheel, or of the channel and platform."""
    package = context.prefix.package("pytorch") if context.prefix else None
    stack = package.channel_name if package else ""
    platform = rule_host(context).platform
    wheel = wheel_row(release, "", cuda, platform, context.knowledge)
    if wheel.code and (release.local or (context.prefix and not package)):
        return wheel
    rows = [row for row in context.knowledge.torch if (row.version.public, row.cuda) == (release.public, cuda)]
    return max(
        (row for row in rows if row.code), key=lambda row: (row.platform == platform, row.stack == stack), default=None
    )


def _libc(context: LogContext) -> CureResult:
    """Compare the C library of the host with the version that the line needs."""
    wanted = version_or_none(context.groups.get("glibc", ""))
    if context.facts is None or context.facts.libc is None or wanted is None:
        return CureResult()
    reason = Reason("row", f"the file of this line needs glibc {wanted} or later")
    machines = [machine for machine in context.facts.machines if machine.libc]
    verdicts = [for_host(glibc_verdict(wanted, reason, machine.libc), machine) for machine in machines]
    return CureResult(because=tuple(dict.fromkeys(map(text_with_code, verdicts))))


@cure
def extension(context: LogContext) -> CureResult:
    """Suggest a rebuild of the package of a missing compiled module, or the folder of its sources."""
    name = context.groups.get("module", "")
    if command := provider(context, "folder", name):
        return CureResult(remedy="build it in its directory in the program's sources", command=command)
    package = package_of(name)
    if package not in _COMPILED and not provider(context, "repository", package):
        return CureResult()
    ready = "APEX_CPP_EXT=1 APEX_CUDA_EXT=1 " if package == "apex" else ""
    return CureResult(
        remedy=f"install {package} with its compiled part",
        command=f"{ready}{PIP_REINSTALL} {pip_requirement(context, package)}",
    )


_COMPILED = frozenset(
    [
        "auto-gptq",
        "autoawq-kernels",
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


@cure
def symbol(context: LogContext) -> CureResult:
    """Suggest a rebuild of the package whose file expects a missing symbol."""
    if re.search(r"undefined symbol: cu[A-Z]", context.line):
        return CureResult(remedy="run where nvidia-smi shows a GPU: the driver provides the symbol")
    if "-packages/torch/" in normalized_path(context.line):
        return built_again(context)
    package = package_in(context.line)
    if not package:
        return CureResult()
    pip = f"{PIP} install --no-cache-dir --force-reinstall --no-deps --no-build-isolation"
    return CureResult(
        remedy=f"reinstall {package} for the packages that are installed now",
        command=f"{pip} {pip_requirement(context, package)}",
    )


_ASK_CAPABILITY = "nvidia-smi --query-gpu=compute_cap --format=csv,noheader | sort -u | paste -sd ';'"
_IN_TREE = regex(r"(?<![\w.])/(?!(?:\S+/)?(?:site|dist)-packages/)\S+\.so\b")
"""A compiled file that lies beside the sources of a program, and in no environment."""
_PINNING = frozenset({"vllm", "xformers"})
"""Packages whose releases name the one torch that they were built with (Requires-Dist; xformers up to 0.0.33)."""


@cure
def ptxas(context: LogContext) -> CureResult:
    """Suggest a newer ptxas, which XLA or Triton uses if a variable names it."""
    if context.frameworks & {"jax", "tensorflow"}:
        remedy = "put the ptxas of a newer CUDA first on PATH; XLA takes the one that it finds there"
        return CureResult(remedy=remedy, command=_NEWER_PTXAS)
    return CureResult()


@cure
def kernel_of_package(context: LogContext) -> CureResult:
    """Suggest the fix for a hand-written kernel, which torch.compile did not make."""
    own = "triton.compiler.errors" in context.line or "PassManager" in context.line
    if not own or "inductor" in context.mentions:
        return CureResult()
    remedy = "the kernel is one of a package or of the program: install the release of Triton that it was written for"
    return CureResult(remedy=remedy, command="")


@cure
def device_code(context: LogContext) -> CureResult:
    """Suggest code for the GPU: in a package with its own kernels, or in torch."""
    if "jax" in context.frameworks and "PTX was compiled" in context.line:
        remedy = "install a newer driver, or a jaxlib whose CUDA is not newer than the driver's"
        return CureResult(remedy=remedy, command="")
    if "onnxruntime" in f"{context.line} {context.frame.package if context.frame else ''}":
        return CureResult(
            remedy="a build of onnxruntime that has code for this GPU: a newer CUDA, or a newer release", command=""
        )
    if "numba" in context.frameworks and "cuLink" in context.line:
        return _of_numba(context)
    package, caller = _with_kernels(context)
    if not package and (own := _other_caller(context)):
        remedy = (
            f"if the last line of the traceback calls a kernel of {own}, compile {own} again with TORCH_CUDA_ARCH_LIST "
            "for this GPU; otherwise install a build of torch that covers it"
        )
        return CureResult(because=(f"it was raised in {own}",), remedy=remedy, command="")
    if not package:
        return with_fitting_wheel(context, _of_torch(context))
    found = capabilities(context)
    gpu = f" ({', '.join(map(str, found))})" if found else ""
    says = f"the called kernel belongs to {package}, so another torch does not help"
    if caller:
        says = f"it was raised in {package}, which has kernels of its own: most often one of them lacks the code"
    how, lowest = provider(context, "kernels", package), version_or_none(provider(context, "capability", package))
    if how.startswith(PIP):
        return CureResult(
            because=(says,), remedy=f"install a newer {package}, whose wheel has code for more GPUs", command=how
        )
    if lowest and found and any((one.major, one.minor) < lowest.release for one in found):
        remedy = f"run the program without {package}, which supports only compute capability {lowest} and later"
        return CureResult(because=(says,), remedy=remedy, command="")
    if how == "wheel":
        return CureResult(
            because=(says,), remedy=f"install a release of {package} that has code for this GPU{gpu}", command=""
        )
    wanted = f'"{";".join(map(str, found))}"' if found else f'"$({_ASK_CAPABILITY})"'
    pip = f"{PIP} install --no-build-isolation --no-deps --no-cache-dir --force-reinstall --no-binary {package}"
    remedy = f"compile {package} again for this GPU{gpu}, with an nvcc that supports it and the installed torch"
    return CureResult(
        because=(says,),
        remedy=remedy,
        command=f"{how.replace('{list}', wanted)} {pip} {pip_requirement(context, package)}",
    )


def _of_numba(context: LogContext) -> CureResult:
    """Suggest the toolkit of the CUDA release whose PTX is the newest that the driver reads, which the log names."""
    release = version_or_none(context.mentions.get("ptx", ""))
    fits = [row.version for row in context.knowledge.cudas if release is not None and row.isa == release]
    if not fits:
        remedy = "install in Numba's environment a CUDA toolkit that is not newer than the driver's CUDA version"
        return CureResult(remedy=remedy, command="")
    cuda = min(fits)
    because = (f"the driver reads PTX up to {release}, which is that of CUDA {cuda}",)
    remedy = f"let Numba compile with the toolkit of CUDA {cuda}, or install a newer driver"
    wanted = f"cudatoolkit={cuda}" if cuda.major < _WITHOUT_CUDATOOLKIT else f"cuda-version={cuda} cuda-nvcc cuda-nvrtc"
    if context.mentions.get("manager", "conda") != "conda":
        return CureResult(because=because, remedy=remedy, command="")
    return CureResult(because=because, remedy=remedy, command=f"conda install -c conda-forge {wanted}")


_WITHOUT_CUDATOOLKIT = 12
"""The first major release of CUDA that conda-forge divides into packages of its own names."""


def _other_caller(context: LogContext) -> str:
    """Return the package, not torch, whose line names a compiled part and raised the exception."""
    frame = context.frame
    return package_of(frame.package) if frame and frame.built and frame.package and frame.package != "torch" else ""


def _with_kernels(context: LogContext) -> tuple[str, bool]:
    """Return the package with its own kernels that the line or the last frame names, and whether only a frame does."""
    own = _FOLDER.findall(context.line)
    names = [*own, context.frame.package if context.frame else ""]
    found = next((name for name in map(package_of, names) if name and provider(context, "kernels", name)), "")
    return found, found not in map(package_of, own)


_FOLDER = regex(r"(?:^|[\s/(])([A-Za-z][\w-]{1,40})(?=/)")


@cure
def glibc(context: LogContext) -> CureResult:
    """Suggest a local build of a package whose wheel needs a newer glibc."""
    found = _libc(context)
    package = package_in(context.line)
    if not package and re.search(r"-packages/(?!torch|nvidia)[^\s)]+\.so\b", context.line):
        return replace(found, command="")
    if not package or re.match(r"nvidia|torch(?:vision|audio|text)?$", package):
        of_torch = re.search(r"torch|nvidia|cuda", context.line) or {"torch", "companions"} & context.mentions.keys()
        return found if of_torch or "torch" in context.frameworks else replace(found, command="")
    forced = "FLASH_ATTENTION_FORCE_BUILD=TRUE " if package == "flash-attn" else ""  # its setup.py takes a wheel else
    pip = f"{forced}{PIP} install --no-build-isolation --no-deps --no-cache-dir --force-reinstall"
    command = f"{pip} --no-binary {package} {pip_requirement(context, package)}"
    return replace(found, remedy=f"build {package} on this system, so that it uses this glibc", command=command)


def _of_pyg(context: LogContext, package: str) -> CureResult:
    """Suggest the build of an extension of PyG for the installed torch, which is of conda or of pip."""
    if not is_wheel(context):
        remedy = f"install {package} for conda's torch: the wheels of PyG are for the torch of pip"
        conda = f"conda install -c conda-forge {package.replace('torch-', 'pytorch_').replace('-', '_')}"
        return CureResult(remedy=remedy, command=conda if package.startswith("torch-") else "")
    remedy = f"install the wheel of {package} for this torch, from the index of PyG"
    wheel = pyg_requirement(context, package.replace("-", "_"))
    return CureResult(remedy=remedy, command=f"{PIP} install --no-cache-dir --force-reinstall --no-deps {wheel}")


@cure
def built_again(context: LogContext) -> CureResult:
    """Suggest a rebuild of an extension for the installed torch, in its own release.

    A file of torch itself is of another release than its neighbours; one beside the sources of a program is built
    there.
    """
    if "-packages/torch/" in normalized_path(context.line):
        remedy = (
            "remove other copies of torch's libraries (in LD_LIBRARY_PATH, in /usr/local/lib), and "
            "reinstall the same torch release with the libraries that it pins"
        )
        if context.mentions.get("manager") == "conda" or re.search(r"conda|/envs/", context.line):
            return CureResult(
                remedy=f"{remedy}, by conda or pip as it was installed; a new environment is surest", command=""
            )
        return CureResult(
            remedy=remedy, command=f"{PIP} install --no-cache-dir --force-reinstall {pip_requirement(context, 'torch')}"
        )
    if "libtorch_hip" in context.line:
        remedy = "install torch and the package that is imported from one index: this package is its build for AMD GPUs"
        return CureResult(because=("libtorch_hip.so is a part of torch for ROCm alone",), remedy=remedy, command="")
    if _IN_TREE.search(context.line):
        return CureResult(remedy="remove its build directory, and build it again in the directory of its setup.py")
    if "THPVariableClass" in context.line:  # of libtorch_python.so, which import torch alone loads
        remedy = "write import torch before the import of the extension; if it stands there, build the extension again"
        return CureResult(remedy=remedy)
    package = context.groups.get("package", "")
    package = package_of(package) if package else package_in(context.line) or package_of_import(context)
    if not package:
        return CureResult()
    if package.replace("-", "_") in PYG_MODULES:
        return _of_pyg(context, package)
    if package in _PINNING:
        remedy = f"let pip install the torch that this {package} release requires and was built for"
        return CureResult(remedy=remedy, command=f"{PIP} install {pip_requirement(context, package)}")
    if package in ("torchvision", "torchaudio", "torchtext"):
        return release_for_torch(context, package)
    pip = f"{PIP} install --no-build-isolation --no-cache-dir --force-reinstall --no-deps"
    return CureResult(command=f"{pip} {pip_requirement(context, package)}")


@cure
def arch_list(context: LogContext) -> CureResult:
    """Suggest the compute capabilities of the GPUs in the log; tiny-cuda-nn has its own variable."""
    found = context.facts.capabilities if context.facts else ()
    target = context.groups.get("sm", "")
    if target.endswith(("a", "f")) and not found:  # nvidia-smi prints no such letter
        return CureResult(command=f'export TORCH_CUDA_ARCH_LIST="{capabilities(context)[0]}{target[-1]}"')
    if "Unknown compute capability" in context.line:
        wanted = ";".join(str(one).replace(".", "") for one in found)
        ask = "$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n1 | tr -d .)"
        ask = "80;86;90" if in_docker_build(context) else ask  # where an image is built no GPU is in sight
        return CureResult(command=f'export TCNN_CUDA_ARCHITECTURES="{wanted or ask}"')
    return CureResult(command=f'export TORCH_CUDA_ARCH_LIST="{";".join(map(str, found))}"') if found else CureResult()


@cure
def isolation(context: LogContext) -> CureResult:
    """Suggest a build without isolation, so that it finds torch, in the command of the package manager."""
    package = context.mentions.get("failed") or context.mentions.get("building") or "PACKAGE"
    if context.mentions.get("manager") == "pixi":
        remedy = f"name {package} in pixi.toml under [pypi-options]: no-build-isolation; torch is a conda package there"
        return CureResult(remedy=remedy, command="")
    if "pre-compile ops" in context.line:  # so DeepSpeed alone speaks
        return CureResult(command=f"{PIP} install --no-build-isolation deepspeed")
    if package == "PACKAGE" and (sources := context.mentions.get("sources")):
        return CureResult(command=f"{PIP} install --no-build-isolation -e {quote(sources)}")
    return CureResult()
