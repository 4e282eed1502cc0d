"""Commands that cure, filled with what the log, the host and the environment tell.

A release of torch that the log names stays, where a wheel of it fits: only its CUDA build is another one. Where the
log does not name it, a command asks the environment itself, and else a new environment is chosen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from shlex import quote

from packaging.version import Version

from cuenv.core.record import replace
from cuenv.core.regex import regex
from cuenv.core.versions import version_or_none
from cuenv.diagnosis.managers import PIP
from cuenv.diagnosis.on_host import (
    RESOLVE,
    Joined,
    LogContext,
    capabilities,
    device_code,
    driver_floor,
    driver_level,
    floor_verdict,
    glibc,
    host_of,
    level_of,
    newest_for,
    resolve_anew,
    torch_of,
    with_code,
)
from cuenv.diagnosis.on_host_run import library_path
from cuenv.knowledge.io.load import load_guidance
from cuenv.knowledge.rows import PLATFORMS, TorchWheel
from cuenv.resolver.wheels import INDEX, runs_on

_ASK_RELEASE = "python -c \"import torch; print(torch.__version__.split('+')[0])\""
_ASK_CUDA = 'python -c "import torch; print(torch.version.cuda)"'
_ASK_CAPABILITY = "nvidia-smi --query-gpu=compute_cap --format=csv,noheader | sort -u | paste -sd ';'"
ASK_TAG = "python -c \"import torch; print(torch.version.cuda.replace('.', ''))\""
_ASK_PARTNER = (
    "python -c \"import torch; a, b = torch.__version__.split('.')[:2]; print(int(b) + (15 if a == '2' else 1))\""
)
"""torchvision 0.16 belongs to torch 2.1, and 0.14 to torch 1.13 (pytorch/vision, README)."""
_CONSTRAINT = regex(r"__cuda\W{0,4}(?:version=\W{0,3})?>=\W{0,2}([0-9]{2}(?:\.[0-9]{1,2})?)\b")
_INNER = regex(r"(?:^|/)(?:site|dist)-packages/([A-Za-z][\w.-]{1,60})/")
_BINARY = regex(r"(?<![-\w.])([A-Za-z][\w]{1,60}?)(?:_[0-9])?(?:_cuda|_C|_ext|_cpp)?(?:\.cpython-[\w-]+|\.abi3)?\.so\b")
_IN_TREE = regex(r"(?<![\w.])/(?!(?:\S+/)?(?:site|dist)-packages/)\S+\.so\b")
"""A compiled file that lies beside the sources of a program, and in no environment."""
_PARTS = {
    "amp": "apex",
    "fused-layer-norm": "apex",
    "fused-weight-gradient-mlp": "apex",
    "flash-attn-2": "flash-attn",
    "flash-attention": "flash-attn",
    "cupy-backends": "cupy",
    "jax": "jaxlib",
    "selective-scan": "mamba-ssm",
    "exllamav2-ext": "exllamav2",
    "awq-inference-engine": "autoawq-kernels",
    "autogptq-cuda": "auto-gptq",
    "autogptq-cuda-64": "auto-gptq",
    "autogptq-cuda-256": "auto-gptq",
    "exllama-kernels": "auto-gptq",
    "exllamav2-kernels": "auto-gptq",
    "transformer-engine-extensions": "transformer-engine",
    "-scatter": "torch-scatter",
    "-sparse": "torch-sparse",
    "-cluster": "torch-cluster",
}
"""Compiled modules that are named otherwise than their package."""
_PINNING = frozenset({"vllm", "xformers"})
"""Packages whose releases name the one torch that they were built with (Requires-Dist; xformers up to 0.0.33)."""
_OWN = frozenset({"torch", "nvidia", "pip", "setuptools", "triton", "importlib", "cuda", "wheel", "_C", "lib", "gnu"})


def provider(case: LogContext, kind: str, name: str) -> str:
    """What the table of providers has for a thing that is missing; empty where it does not know it."""
    return load_guidance(case.knowledge).gives(kind, name)


def is_wheel(case: LogContext) -> bool:
    """Whether torch is known to come from pip."""
    if case.prefix:
        return case.prefix.package("pytorch") is None
    return "pytorch" not in case.builds and "pytorch-cuda" not in case.builds


def fitting_wheel(case: LogContext) -> TorchWheel | None:
    """The wheel that runs on the host: of the release that is installed, else of the next that has one.

    ``None`` where the release is not known, torch is not from pip, or neither driver nor GPU is known.
    """
    release, _ = torch_of(case)
    facts = host_of(case)
    level = level_of(case)
    if release is None or not is_wheel(case) or not (level or facts.capabilities):
        return None
    rows = [
        row for row in case.knowledge.wheels if row.cuda and "index" in row.comes and row.platform == facts.platform
    ]
    python, runs = case.mentions.get("python", ""), runs_on(facts, case.knowledge)
    asked = Version(release.public)
    for wanted in (asked, *sorted({row.version for row in rows if row.version > asked})):
        able = [row for row in rows if row.version == wanted and python in ("", *row.pythons) and runs(row)]
        if not able:
            continue
        below = [row for row in able if level and row.cuda and row.cuda <= level]
        plain = [row for row in able if "pypi" in row.comes]
        return below[-1] if below else able[0] if level else (plain or able)[0]
    return None


def with_wheel(case: LogContext, row: TorchWheel) -> str:
    """The command that puts a wheel in the place of the torch that is installed, with its companions."""
    release, _ = torch_of(case)
    same = release is not None and Version(release.public) == row.version
    there = [name for name in _COMPANIONS if name in case.packages or name in case.mentions.get("companions", "")]
    companions = [_companion(case, name, row) if same else name for name in there]
    return " ".join([PIP, "install", f"torch=={row.name}", *companions, "--index-url", f"{INDEX}{row.build}"])


_COMPANIONS = ("torchvision", "torchaudio")
"""Packages whose binaries are built with those of torch: they change their CUDA build together."""


def _companion(case: LogContext, name: str, row: TorchWheel) -> str:
    """A companion of the same CUDA build: the release that is told, else the one that pins this torch."""
    found = version_or_none(case.packages.get(name, "")) or partner_of(case, name, row.version)
    return f"{name}=={found.public}+{row.build}" if found else name


def partner_of(case: LogContext, name: str, release: Version) -> Version | None:
    """The newest wheel of a companion that needs this release of torch."""
    rows = [item for item in case.knowledge.extension(name) if "wheel" in item.comes]
    able = [item for item in rows if item.torch and item.torch.admits(Version(release.public))]
    return max((one for item in able for one in item.releases), default=None)


def cuda_build_again(case: LogContext) -> str:
    """The command that puts a CUDA build of the very release in the place of a CPU build."""
    release, _ = torch_of(case)
    row = fitting_wheel(case)
    if _perhaps_of_conda(case):  # pip would leave half of a conda package behind
        return resolve_anew(case)
    if row:
        return with_wheel(case, row)
    if not is_wheel(case) or (case.facts and case.facts.gpus):
        return resolve_anew(case)
    if release is None:
        return f'release=$({_ASK_RELEASE}) && {PIP} uninstall -y torch && {PIP} install "torch==$release"'
    return f"{PIP} uninstall -y torch && {PIP} install torch=={release.public}"


def _perhaps_of_conda(case: LogContext) -> bool:
    """Whether the log shows an environment of conda, and nothing that says that pip brought its torch."""
    release, _ = torch_of(case)
    return not case.prefix and case.mentions.get("manager") == "conda" and not (release and release.local)


def toolkit_of_torch() -> str:
    """The command for nvcc and headers of torch's CUDA, which it asks of torch itself: nobody told it."""
    return f'conda install -c "nvidia/label/cuda-$({_ASK_CUDA}).0" cuda-toolkit'


def straight(text: str) -> str:
    """A text whose paths go up nowhere."""
    return re.sub(r"[^/\s]+/\.\./", "", text)


def package_in(text: str) -> str:
    """The package that a line speaks of: the folder in site-packages, else the name of the binary."""
    text = straight(text)
    for name in _INNER.findall(text):
        if name.split(".")[0] not in _OWN:
            return package_of(name)
    for name in _BINARY.findall(text):
        if not name.startswith(("lib", "_")) and name not in _OWN:
            return package_of(name)
    return ""


def package_of(name: str) -> str:
    """The package of a compiled module or of a folder of modules."""
    name = re.sub(r"[_-](?:[0-9]_)?(?:cuda|C)$", "", name).replace("_", "-").lower()
    return _PARTS.get(name, name)


def again(case: LogContext, package: str) -> str:
    """A package as pip is asked for it again: of the release that the log tells, else of the one that is installed.

    Without a release pip would take the newest one, which may belong to another torch. What PyPI does not have comes
    from its sources: a package of the same name there may be somebody else's.
    """
    if source := provider(case, "repository", package):
        return source
    release = case.packages.get(package, "")
    if release:
        return quote(f"{package}=={release}")
    pattern = re.sub(r"[-_.]", ".", package) + ("(-full)?" if package == "mmcv" else "")
    return f"\"$({PIP} freeze | grep -i -m1 -E '^{pattern}[ =]')\""


def named(case: LogContext) -> Iterator[tuple[str, str]]:
    """What the words in capitals of a command stand for, where the log names it."""
    package = (
        package_in(case.line) or case.mentions.get("building", "") or package_in(case.mentions.get("importing", ""))
    )
    release = case.packages.get(package, "")
    if package:
        yield "PACKAGE", f"{package}=={release}" if release else package
    for word, name in (("IMAGE", "image"), ("TRAIN.py", "script")):
        if case.mentions.get(name):
            yield word, case.mentions[name]


# -- joins


def with_torch(join: Callable[[LogContext], Joined]) -> Callable[[LogContext], Joined]:
    """A join that would choose a whole environment anew, with the wheel of the torch at hand where one runs."""

    def joined(case: LogContext) -> Joined:
        found = join(case)
        row = fitting_wheel(case) if found.command is None or found.command.startswith(RESOLVE) else None
        if row is None:
            return found
        remedy = f"install the build of torch {row.version} for CUDA {row.cuda}, which runs on this host"
        later = found.remedy.partition("; in the long run: ")[2]
        return replace(
            found, remedy=remedy + (f"; in the long run: {later}" if later else ""), command=with_wheel(case, row)
        )

    return joined


def kernels(case: LogContext) -> Joined:
    """No code for the GPU: in a package with kernels of its own, which is built again, else in torch."""
    package = _with_kernels(case)
    if not package:
        return with_torch(device_code)(case)
    found = capabilities(case)
    gpu = f" ({', '.join(map(str, found))})" if found else ""
    says = f"the kernel that was called belongs to {package} and not to torch, so another torch does not help"
    how, lowest = provider(case, "kernels", package), version_or_none(provider(case, "capability", package))
    if how.startswith(PIP):
        return Joined(
            because=(says,), remedy=f"install a newer {package}, whose wheel has code for more GPUs", command=how
        )
    if lowest and found and any((one.major, one.minor) < lowest.release for one in found):
        remedy = f"{package} is compiled for compute capability {lowest} and later alone: run the program without it"
        return Joined(because=(says,), remedy=remedy, command="")
    if how == "wheel":
        return Joined(
            because=(says,), remedy=f"install a release of {package} that has code for this GPU{gpu}", command=""
        )
    wanted = f'"{";".join(map(str, found))}"' if found else f'"$({_ASK_CAPABILITY})"'
    pip = f"{PIP} install --no-build-isolation --no-deps --no-cache-dir --force-reinstall --no-binary {package}"
    remedy = f"compile {package} again for this GPU{gpu}, with an nvcc that knows it and the torch that is there"
    return Joined(
        because=(says,), remedy=remedy, command=f"{how.replace('{list}', wanted)} {pip} {again(case, package)}"
    )


def _with_kernels(case: LogContext) -> str:
    """The package with kernels of its own whose code the line, or the last frame of the traceback, tells."""
    names = [*_FOLDER.findall(case.line), case.raised.package if case.raised else ""]
    return next((name for name in map(package_of, names) if name and provider(case, "kernels", name)), "")


_FOLDER = regex(r"(?:^|[\s/(])([A-Za-z][\w-]{1,40})(?=/)")


def cpu_build(case: LogContext) -> Joined:
    """A CPU build in whose place the CUDA build of the same release belongs."""
    release, _ = torch_of(case)
    because = (f"torch {release} of this environment is a CPU build",) if release else ()
    return Joined(because=because, command=cuda_build_again(case))


def xformers(case: LogContext) -> Joined:
    """The torch that xformers was built for beside the one that is there: pip chooses the release that fits."""
    built, have = case.mentions.get("built", ""), str(torch_of(case)[0] or "")
    release = version_or_none(have)
    if release is None:
        return Joined(command=f'{PIP} install "torch==$({_ASK_RELEASE})" xformers')
    because = (f"xformers was built for torch {built}, and torch {have} is installed",) if built else ()
    if release.local == "cpu":
        again = f"{PIP} uninstall -y torch && {PIP} install torch=={release.public} xformers"
        return Joined(because=because, remedy="the CUDA build of the same release of torch", command=again)
    index = f" --index-url {INDEX}{release.local}" if (release.local or "").startswith("cu") else ""
    return Joined(because=because, command=f"{PIP} install torch=={have} xformers{index}")


def torchvision(case: LogContext) -> Joined:
    """The torchvision of the torch that is there, from the same place."""
    release, _ = torch_of(case)
    if not is_wheel(case):
        return Joined()
    if release is None:
        command = f'{PIP} install --force-reinstall --no-deps "torchvision==0.$({_ASK_PARTNER}).*"'
        return Joined(command=f"{command} --index-url {INDEX}cu$({ASK_TAG})")
    known = partner_of(case, "torchvision", release)
    partner = str(known) if known else f"0.{release.minor + (15 if release.major > 1 else 1)}.*"
    index = f" --index-url {INDEX}{release.local}" if (release.local or "").startswith("cu") else ""
    have = case.packages.get("torchvision", "")
    because = (f"torch {release} belongs with torchvision {partner}" + (f", and {have} is installed" if have else ""),)
    command = f"{PIP} install --force-reinstall --no-deps 'torchvision=={partner}'{index}"
    return Joined(because=because, command=command)


_WHEEL = regex(
    r"(?P<file>\S{1,200}-cp3(?P<minor>[0-9]{1,2})-\S{1,40}-(?P<system>[a-z]\w{3,60})\.whl) is not a supported wheel"
)


def distribution(case: LogContext) -> Joined:
    """A release that pip does not find: what the tables know of the wheels of torch."""
    asked = version_or_none(case.told.get("asked", ""))
    if wheel := _WHEEL.search(case.line):
        python = f"3.{wheel['minor']}"
        name = f"py{python.replace('.', '')}"
        because = (f"the file is for Python {python}, and for {wheel['system']}",)
        values = {"asked": "this wheel"}
        run = f"conda run -n {name} python -m pip install {quote(wheel['file'])}"
        command = f"conda create -y -n {name} -c conda-forge python={python} pip && {run}"
        return Joined(because=because, command=command, values=values)
    if asked is None:
        newest = max((row for row in case.knowledge.wheels if row.cuda), key=lambda row: row.version)
        pythons = newest.pythons
        because = (f"torch {newest.version} has wheels for Python {pythons[0]} to {pythons[-1]}, on 64-bit systems",)
        environment = f"conda create -y -n torch -c conda-forge python={pythons[-2]} pip && conda run -n torch"
        return Joined(
            because=because, command=f"{environment} python -m pip install torch", values={"asked": "this release"}
        )
    rows = [row for row in case.knowledge.wheels if row.version == Version(asked.public)]
    if not rows:
        return Joined(because=(f"the cuenv tables list no wheel of torch {asked.public}",))
    local = asked.local or ""
    if "installation candidates" in case.line:  # of Poetry, which has the index of the project already
        python = rows[-1].pythons[-2:][0]
        because = (f"torch {asked.public} has wheels for Python {rows[-1].pythons[0]} to {rows[-1].pythons[-1]}",)
        return Joined(because=because, command=f"poetry env use python{python} && poetry install")
    if local.startswith("cu") and any(row.build == local for row in rows):
        row = next(row for row in rows if row.build == local)
        because = (f"torch {asked} is on PyTorch's own index, and not on PyPI",)
        looked = case.mentions.get("index") in {local, "torch_stable"} and "python" not in case.mentions
        if case.mentions.get("python", row.pythons[0]) in row.pythons and not looked:
            return Joined(because=because, command=f"{PIP} install torch=={asked} --index-url {INDEX}{local}")
    pythons = rows[-1].pythons
    python = case.mentions.get("python", "")
    because = (
        f"torch {asked.public} has wheels for Python {pythons[0]} to {pythons[-1]}"
        + (f", not for {python}" if python and python not in pythons else ""),
    )
    index = f" --index-url {INDEX}{local}" if re.match("cu[0-9]|cpu$", local) else ""
    environment = f"conda create -y -n torch -c conda-forge python={pythons[-1]} pip && conda run -n torch"
    return Joined(because=because, command=f"{environment} python -m pip install torch=={asked}{index}")


def cuda_constraint(case: LogContext) -> Joined:
    """What a package asks of ``__cuda`` against the driver: what runs by minor-version compatibility may be told so."""
    if "for which no candidates were found" in case.line:
        says = "pixi solves for a driver only where the project says that its machines have one"
        remedy = "name the CUDA version of the driver among the system requirements of the project"
        return Joined(
            because=(says,),
            remedy=remedy,
            command=f"pixi workspace system-requirements add cuda {level_of(case) or 12}",
        )
    if "nothing provides __cuda needed" in case.line:
        remedy = "on a machine without a driver, tell the solver the CUDA version of the driver that will run it"
        return Joined(remedy=remedy, command=f"export CONDA_OVERRIDE_CUDA={level_of(case) or '12.0'}")
    if "Virtual package '__cuda'" in case.line:
        remedy = "where the machine shall only install, tell pixi the CUDA version of the driver that will run it"
        return Joined(remedy=remedy, command=f"CONDA_OVERRIDE_CUDA={level_of(case) or '12.0'} pixi install")
    found = _CONSTRAINT.search(case.line)
    asked = version_or_none(found[1]) if found else None
    if asked is None or asked.major not in {row.major for row in case.knowledge.floors}:
        return Joined()
    level = level_of(case)
    command = f"export CONDA_OVERRIDE_CUDA={found[1]}" if found else ""
    remedy = f"tell conda that the driver runs CUDA {asked}, and repeat the command"
    rest = case.line.replace(found[0] if found else "", "")
    if level is None and (seen := re.search(r"__cuda {0,2}[=-]? ?([0-9]{1,2}\.[0-9])", rest)):
        says = f"the solver sees a driver that supports CUDA {seen[1]}, and the package asks for {asked}"
        return Joined(because=(says,), remedy=f"take a build for CUDA {seen[1]}, or update the driver", command="")
    if level is None:
        floor = next(row.driver for row in case.knowledge.floors if row.major == asked.major)
        says = f"the package asks for __cuda {asked}, which is true where the driver is {floor} or later"
        return Joined(because=(says,), remedy=remedy, command=command)
    verdict = floor_verdict(case, asked)
    if level.major == asked.major and verdict.outcome != "reject":
        because = (
            f"the driver supports CUDA {level}, and the package asks for {asked}",
            f"machine code of every CUDA {asked.major}.x runs on this driver by minor-version compatibility",
        )
        return Joined(because=because, remedy=remedy, command=command)
    runs = newest_for(case)
    says = f"the driver supports CUDA {level}, and the package asks for {asked}"
    return Joined(because=(says, with_code(verdict)), command=resolve_anew(case, *([f"--cuda {runs}"] if runs else [])))


def libstdcxx(case: LogContext) -> Joined:
    """The first GCC whose libstdc++ has the symbols that are asked for."""
    needed = re.sub(r"^GLIBCXX_", "", case.told.get("needed", ""))
    if re.search(
        r"(?<![\w.])/(?!usr/|lib|\S*(?:conda|forge|envs)\S*libstdc)\S+/libstdc\+\+[^\n]+(?:conda|envs)", case.line
    ):
        remedy = "let the libstdc++ of the environment go before the one that LD_LIBRARY_PATH leads to"
        return Joined(remedy=remedy, command="export LD_LIBRARY_PATH=$CONDA_PREFIX/lib:$LD_LIBRARY_PATH")
    first = provider(case, "libstdcxx", needed)
    if not first:
        return Joined()
    where = f" -p {quote(case.prefix.path)}" if case.prefix else ""
    return Joined(
        because=(f"GLIBCXX_{needed} came with the libstdc++ of GCC {first}",),
        command=f"conda install{where} -c conda-forge 'libstdcxx-ng>={first}'",
    )


def nccl_error(case: LogContext) -> Joined:
    """What NCCL itself says below ``Last error:``."""
    said = case.mentions.get("nccl", "")
    if not said:
        return Joined()
    because = (f"NCCL says: {said}",)
    if re.search(r"[Nn]o route to host|[Cc]onnection (?:refused|reset|timed out)|socket|[Ii]nterface|connect to", said):
        return Joined(
            because=because,
            remedy="let NCCL use the network interface over which the nodes reach each other",
            command="export NCCL_SOCKET_IFNAME=$(ip -o -4 route show to default | awk '{print $5; exit}')",
        )
    return Joined(because=because)


def on_search_path() -> str:
    """The command that puts the libraries of NVIDIA's wheels, and of torch, on the search path."""
    folders = "glob.glob(root + '/nvidia/*/lib') + [root + '/torch/lib']"
    found = f"root = sysconfig.get_path('purelib'); print(':'.join({folders}))"
    return f'export LD_LIBRARY_PATH=$(python -c "import glob, sysconfig; {found}"):$LD_LIBRARY_PATH'


def cudnn(case: LogContext) -> Joined:
    """The cuDNN that torch brings; CTranslate2 has releases for each (README of SYSTRAN/faster-whisper)."""
    release, cuda = torch_of(case)
    asked = "9" if re.search(r"libcudnn\w*\.so\.9", case.line) else "8"
    if "undefined symbol" in case.line:
        remedy = "another cuDNN of the same name is loaded first: take it off the search path"
        return Joined(remedy=remedy, command="unset LD_LIBRARY_PATH")
    if release is None:
        return Joined(command=_cudnn_beside(asked, cuda))
    mine = "9" if (release.major, release.minor) >= (2, 4) else "8"
    if mine == asked and is_wheel(case):
        because = (f"torch {release} brings cuDNN {mine}, so this library is there and not on the search path",)
        remedy = "let other libraries of the environment find the cuDNN of torch"
        return Joined(because=because, remedy=remedy, command=on_search_path())
    because = (f"torch {release} brings cuDNN {mine}, and cuDNN {asked} is asked for",)
    if "ctranslate2" not in case.packages and "ctranslate2" not in f"{case.line} {case.mentions.get('importing', '')}":
        return Joined(because=because, command=_cudnn_beside(asked, cuda))
    if mine == "9":
        return Joined(because=because, command=f"{PIP} install 'ctranslate2>=4.5'")
    pin = "3.24.0" if cuda and cuda.major < 12 else "4.4.0"
    remedy = "take the CTranslate2 that was built for this cuDNN and this CUDA"
    return Joined(because=because, remedy=remedy, command=f"{PIP} install ctranslate2=={pin}")


def cudnn_compiled(case: LogContext) -> Joined:
    """The cuDNN that TensorFlow or JAX was built with, or a later one of its major; torch brings its own."""
    if early := re.search(r"but source was compiled with ([0-9])([0-9])[0-9]{2}\b", case.line):  # before TensorFlow 1.5
        return Joined(remedy=f"install cuDNN {early[1]}.{early[2]}, which this TensorFlow was built with", command="")
    found = re.search(r"but source was compiled with:? ?([0-9]{1,2})\.([0-9]{1,2})", case.line)
    if not found:
        return library_path(case)
    if int(found[1]) < _OLDEST_WHEEL:
        return Joined(command=f"conda install -c conda-forge 'cudnn>={found[1]}.{found[2]},<{int(found[1]) + 1}'")
    old = int(found[1]) == 8 and int(found[2]) < _CUDNN_12
    remedy = f"put a cuDNN {found[1]}.{found[2]} or later of its major on the search path"
    pin = f">={found[1]}.{found[2]},<{int(found[1]) + 1}"
    return Joined(remedy=remedy, command=_cudnn_beside(found[1], Version("11" if old else "12"), pin))


_OLDEST_WHEEL = 8
"""The first cuDNN that is a wheel; earlier ones are packages of conda."""
_CUDNN_12 = 9
"""From 8.9 on TensorFlow and JAX take the cuDNN for CUDA 12 (the tested build configurations of TensorFlow)."""


def _cudnn_beside(major: str, cuda: Version | None, pin: str = "") -> str:
    """A cuDNN in a folder of its own: in the environment it would take the place of the one that torch pins."""
    suffix = "cu11" if cuda and cuda.major == 11 else "cu12"
    folder = f"~/cudnn{major}"
    wheel = f"{PIP} install --no-deps --target {folder} 'nvidia-cudnn-{suffix}{pin or f'=={major}.*'}'"
    return f"{wheel} && export LD_LIBRARY_PATH={folder}/nvidia/cudnn/lib:$LD_LIBRARY_PATH"


def from_source(case: LogContext) -> Joined:
    """A package whose wheel asks for a newer C library than there is: what is built here asks for no newer one."""
    found = glibc(case)
    package = package_in(case.line)
    if not package or package.startswith(("nvidia", "torch")):
        return found
    forced = "FLASH_ATTENTION_FORCE_BUILD=TRUE " if package == "flash-attn" else ""  # its setup.py takes a wheel else
    pip = f"{forced}{PIP} install --no-build-isolation --no-deps --no-cache-dir --force-reinstall"
    command = f"{pip} --no-binary {package} {again(case, package)}"
    return replace(
        found, remedy=f"build {package} on this system, where it takes the glibc that is there", command=command
    )


def built_again(case: LogContext) -> Joined:
    """An extension for the torch that is there: its own release, whatever newer one there is.

    A file of torch itself is of another release than its neighbours; one beside the sources of a program is built
    there.
    """
    if "-packages/torch/" in straight(case.line):
        remedy = "install the same release of torch again, with the libraries that it pins"
        if case.mentions.get("manager") == "conda" or re.search(r"conda|/envs/", case.line):
            return Joined(
                remedy=f"{remedy}, by conda or pip as it was installed; a new environment is surest", command=""
            )
        return Joined(remedy=remedy, command=f"{PIP} install --no-cache-dir --force-reinstall {again(case, 'torch')}")
    if _IN_TREE.search(case.line):
        return Joined(remedy="remove its build folder, and build it again where its setup.py lies")
    if "THPVariableClass" in case.line:  # of libtorch_python.so, which import torch alone loads
        remedy = "write import torch before the import of the extension; if it stands there, build the extension again"
        return Joined(remedy=remedy)
    told = case.told.get("package", "")
    package = package_of(told) if told else package_in(case.line) or package_in(case.mentions.get("importing", ""))
    if not package:
        return Joined()
    if package in _PINNING:
        remedy = f"let pip install the torch that this release of {package} names, for which its wheel was built"
        return Joined(remedy=remedy, command=f"{PIP} install {again(case, package)}")
    pip = f"{PIP} install --no-build-isolation --no-cache-dir --force-reinstall --no-deps"
    return Joined(command=f"{pip} {again(case, package)}")


def python_header(case: LogContext) -> Joined:
    """The -dev package of the Python that is used."""
    python = case.mentions.get("python", "")
    return Joined(command=f"sudo apt-get install python{python}-dev") if python else Joined()


def arch_list(case: LogContext) -> Joined:
    """The compute capabilities of the GPUs that the log tells; tiny-cuda-nn has a variable of its own, without dots."""
    found = case.facts.capabilities if case.facts else ()
    if "Unknown compute capability" in case.line:
        wanted = ";".join(str(one).replace(".", "") for one in found)
        ask = "$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n1 | tr -d .)"
        ask = "80;86;90" if in_image(case) else ask  # where an image is built no GPU is in sight
        return Joined(command=f'export TCNN_CUDA_ARCHITECTURES="{wanted or ask}"')
    return Joined(command=f'export TORCH_CUDA_ARCH_LIST="{";".join(map(str, found))}"') if found else Joined()


def in_image(case: LogContext) -> bool:
    """Whether the log is of an image that docker builds."""
    return "docker" in case.frameworks or bool(re.match(r"#[0-9]{1,4} [0-9.]{1,9} ", case.line))


def companion(case: LogContext) -> Joined:
    """The library beside torch that was built for another CUDA."""
    if "torchaudio" not in case.line:
        return torchvision(case)
    release, _ = torch_of(case)
    wanted = release.public if release else f"$({_ASK_RELEASE})"
    tag = release.local if release and (release.local or "").startswith("cu") else f"cu$({ASK_TAG})"
    command = f'{PIP} install --force-reinstall --no-deps "torchaudio=={wanted}" --index-url {INDEX}{tag}'
    return Joined(command=command)


def conda_file(case: LogContext) -> Joined:
    """The file that conda was given; without one, and without a file of that name, there is nothing to repair."""
    name = case.mentions.get("file", "environment.yml" if "ResolvePackageNotFound" in case.line else "")
    usual, platform = PLATFORMS[0], case.facts.platform if case.facts else PLATFORMS[0]
    says = f"the log is from {platform}, for which many packages of {usual} were never built"
    because = (says,) if platform != usual else ()
    if name:
        asked = f" --platform {platform}" if because else ""
        return Joined(because=because, command=f"cuenv lock {quote(name)} --repair{asked} -o environment.new.yml")
    if "no candidates were found" in case.line:
        remedy = "name the channel that has it, mostly conda-forge, beside the others; else ask for another version"
        return Joined(because=because, remedy=remedy)
    other = re.search(r"nothing provides ([a-z][\w.-]{1,60})", case.line)
    if other and not re.match(r"_|py?torch|torch|cuda|cudnn|nccl|tensorflow|jax|libcu|nvidia|python", other[1]):
        remedy = f"name the channel that has {other[1]} in that version, or take a newer build of what needs it"
        return Joined(because=because, remedy=remedy)
    if not because and ("torch" in case.mentions or "companions" in case.mentions or "torch" in case.line):
        remedy = "let cuenv write the torch and the CUDA that belong together, and add the other packages to that file"
        return Joined(remedy=remedy, command=resolve_anew(case))
    remedy = (
        "ask for fewer or looser versions; or write what you need into environment.yml: cuenv lock --repair mends it"
    )
    return Joined(because=because, remedy=remedy)


def pip_conflict(case: LogContext) -> Joined:
    """A torchvision or torchaudio of another torch: the one for the torch that is asked for, or is there.

    Of other packages that are there already, those releases that the others want.
    """
    release = version_or_none(case.mentions.get("requested", "") or case.mentions.get("torch", ""))
    names = case.mentions.get("clashings", "").split()
    if release is None or not names:
        others = sorted({text.rstrip(",") for text in case.mentions.get("wanteds", "").split()})
        if not others or any(re.match(r"torch(?:vision|audio)?[^\w.-]", text) for text in others):
            return Joined()
        remedy = "install the releases that the others want; where two want different ones, update the older of the two"
        return Joined(remedy=remedy, command=f"{PIP} install {' '.join(map(quote, others))}")
    partners = {name: partner_of(case, name, release) for name in names}
    if None in partners.values():
        return Joined()
    local = f"+{release.local}" if (release.local or "").startswith("cu") else ""
    because = tuple(f"torch {release.public} belongs with {name} {found}" for name, found in partners.items())
    wanted = " ".join(f"{name}=={found}{local}" for name, found in partners.items())
    index = f" --index-url {INDEX}{release.local}" if local else ""
    remedy = f"install the {' and '.join(names)} of this torch, and write it so where the other one was asked for"
    return Joined(because=because, remedy=remedy, command=f"{PIP} install torch=={release} {wanted}{index}")


def apt_dependencies(case: LogContext) -> Joined:
    """What apt itself proposes, where an earlier installation was left half done."""
    if case.mentions.get("newer"):
        asked = case.mentions["newer"]
        says = f"the packages want glibc {asked}: their repository is for a newer release of the distribution than this"
        return Joined(
            because=(says,), remedy="name the repository of this very release in its place, and run apt update"
        )
    if case.mentions.get("hint") not in ("fix-broken", "-f") and "dpkg: dependency problems" not in case.line:
        if "toolkit" not in case.mentions:
            return Joined()
        name = case.mentions["toolkit"].replace("cuda", "cuda-toolkit")
        remedy = f"the package cuda brings a driver of its own beside the one that is there: {name} brings none"
        return Joined(remedy=remedy, command=f"sudo apt-get install -y {name}")
    remedy = (
        "let apt end the installation that was left half done; where it cannot, keep one source of the packages that "
        "the lines below name, and remove those of the other"
    )
    return Joined(remedy=remedy, command="sudo apt-get --fix-broken install -y")


def fork(case: LogContext) -> Joined:
    """The variable by which vLLM starts its workers."""
    return (
        Joined(command="export VLLM_WORKER_MULTIPROC_METHOD=spawn")
        if "vllm" in f"{case.line} {case.mentions.get('importing', '')}".lower()
        else Joined()
    )


def peers(case: LogContext) -> Joined:
    """What NCCL shares between GPUs, where it is NCCL that fails."""
    return Joined(command="export NCCL_P2P_DISABLE=1") if "NCCL" in case.line else Joined()


def cudnn_start(case: LogContext) -> Joined:
    """A cuDNN that does not start: TensorFlow takes all memory of the GPU first, and leaves none to it."""
    if "SymbolNotFound" in case.line:  # the first call of CUDA fails, before cuDNN
        remedy = (
            "compare the driver (nvidia-smi) with the CUDA of the framework; in a container look which libcuda it has"
        )
        return Joined(remedy=remedy, command="")
    if re.search(r"\(External\)|ExternalError|/paddle/", case.line):  # Paddle finds its libraries by that variable
        remedy = "free GPU memory; then compare the cuDNN on LD_LIBRARY_PATH with the one that Paddle was built with"
        return Joined(remedy=remedy, command="")
    if "jax" in case.frameworks or "/xla/" in case.line:
        remedy = "let JAX take memory as it needs it; else look for another cuDNN on LD_LIBRARY_PATH"
        return Joined(remedy=remedy, command="export XLA_PYTHON_CLIENT_PREALLOCATE=false")
    if "tensorflow" in case.frameworks or "tensorflow" in case.line:
        remedy = "let TensorFlow take memory as it needs it; else look for another cuDNN on LD_LIBRARY_PATH"
        return Joined(remedy=remedy, command="export TF_FORCE_GPU_ALLOW_GROWTH=true")
    return library_path(case)


def tensorflow(case: LogContext) -> Joined:
    """The wheels of NVIDIA that TensorFlow names since 2.14, for Python 3.9 and later; before, it brings no library."""
    release = version_or_none(case.packages.get("tensorflow", "") or case.packages.get("tensorflow-gpu", ""))
    python = version_or_none(case.mentions.get("python", ""))
    if not (release and release < Version("2.14")) and not (python and python < Version("3.9")):
        return Joined()
    remedy = (
        "install the CUDA toolkit and the cuDNN that this release of TensorFlow was built with (tensorflow.org/install/"
        "source, tested build configurations); only 2.14 and later name them as packages, by tensorflow[and-cuda]"
    )
    return Joined(remedy=remedy, command="")


def two_cublas(case: LogContext) -> Joined:
    """What tells two copies of cuBLAS, a symbol or a value that is refused; else it is mostly the memory."""
    found = library_path(case)
    if found.because or re.search(r"undefined symbol|not defined in file|INVALID_VALUE|NOT_SUPPORTED", case.line):
        return found
    remedy = (
        "look for an index out of range (CUDA_LAUNCH_BLOCKING=1) and at the free memory (nvidia-smi); then unset "
        "LD_LIBRARY_PATH"
    )
    return replace(found, remedy=remedy, command="")


def container_driver(case: LogContext) -> Joined:
    """A docker that started before the driver was updated, or a device file that nobody made."""
    if "mount error" in case.line:
        remedy = "docker holds files of the driver that was there before: start it anew"
        return Joined(remedy=remedy, command="sudo systemctl restart docker")
    if "/dev/nvidia-uvm" in case.line:
        remedy = "make the device files of the driver, which the first CUDA program makes else"
        return Joined(remedy=remedy, command="sudo nvidia-modprobe -u -c=0")
    return Joined()


def asked_release(case: LogContext) -> Joined:
    """The releases that the message itself asks for; another torch is another matter."""
    package = case.told.get("package", "")
    found = re.search(rf"\b{re.escape(package)} ?\(?((?:>=|==|<=|~=|!=|>|<) ?[0-9][\w.,<>=! *-]{{0,40}})", case.line)
    if not package or not found or package.lower().startswith(("torch", "python", "cuda", "nvidia")):
        return Joined()
    wanted = re.match(r"(?:(?:>=|==|<=|~=|!=|>|<) ?[0-9][0-9a-z.*]*,? ?)+", found[1])
    return (
        Joined(command=f"{PIP} install {quote(package + wanted[0].replace(' ', '').strip(',.'))}")
        if wanted
        else Joined()
    )


def sources(case: LogContext) -> Joined:
    """Sources of another repository that git did not fetch with the program's own."""
    if not re.search(r"submodules?/|third_?party/|extern(?:al)?/", case.line):
        return Joined()
    remedy = "fetch the submodules of the repository, and install again"
    return Joined(remedy=remedy, command="git submodule update --init --recursive")


def toolkit(case: LogContext) -> Joined:
    """The container toolkit alone, where Singularity or Apptainer calls it and no docker is there to be told."""
    if not case.line.startswith("FATAL:"):
        return Joined()
    remedy = "install nvidia-container-toolkit on the host, or use --nv alone (use nvidia-container-cli = no)"
    return Joined(remedy=remedy, command="sudo apt-get install -y nvidia-container-toolkit")


def nvidia_runtime(case: LogContext) -> Joined:
    """A container without NVIDIA's runtime: on a node of Kubernetes, or one that somebody started."""
    if case.facts and case.facts.environment.wsl:
        remedy = "update the NVIDIA driver of Windows, whose libraries WSL mounts"
        return Joined(remedy=remedy, command="")
    if "docker" in case.frameworks:
        return Joined(command=f"{_RUNTIME}=docker --set-as-default && sudo systemctl restart docker")
    return Joined()


_RUNTIME = "sudo nvidia-ctk runtime configure --runtime"


def module_build(case: LogContext) -> Joined:
    """The module of the driver: where the headers are there and it does not compile, only a newer driver helps."""
    if re.search(r"headers for kernel [\w.+-]+\.(?:fc|el)[0-9]", case.line):
        return Joined(command="sudo dnf install kernel-devel-$(uname -r) && sudo dkms autoinstall")
    if re.search(r"[Uu]nable to load the kernel module|failed to load", case.line):  # it was built
        remedy = (
            "the module was built, and the kernel does not take it: Secure Boot refuses it (mokutil --sb-state), or "
            "nouveau has the GPU (lsmod | grep nouveau)"
        )
        return Joined(remedy=remedy)
    if re.search(r"(?i)\b(?:c|gc)c version check failed|compiler version check failed", case.line):
        remedy = (
            "the kernel was compiled with another gcc: let the module be built with this one (the installer has the "
            "option --no-cc-version-check), or take the gcc of the kernel"
        )
        return Joined(remedy=remedy, command="export IGNORE_CC_MISMATCH=1")
    if re.search(
        r"headers|not found in directory|/lib/modules/\S+: No such|kernel source|Module nvidia\S{0,20} not found",
        case.line,
    ):
        return Joined(command="sudo apt-get install linux-headers-$(uname -r) && sudo dkms autoinstall")
    remedy = "install a newer release of the driver, which knows this kernel, or start the older kernel"
    return Joined(
        remedy=remedy, command=next((command for words, command in _NEWER_DRIVER if re.search(words, case.line)), "")
    )


_NEWER_DRIVER = (
    (r"-(?:generic|lowlatency|azure|aws|gcp|oem)\b", "sudo apt-get update && sudo ubuntu-drivers install"),
    (r"\.fc[0-9]{2}\b", "sudo dnf upgrade --refresh -y '*nvidia*'"),
    (r"-(?:arch|zen)[0-9]", "sudo pacman -Syu"),
    (r"-amd64\b", "sudo apt-get update && sudo apt-get install -y linux-headers-amd64 nvidia-driver"),
)
"""How a system whose kernel has such a name brings its newest driver."""


def requirement(case: LogContext) -> Joined:
    """The check of an image, which may be skipped where the driver has the minimum of the CUDA major."""
    found = driver_level(case)
    if found.command or (level_of(case) is None and "unsatisfied condition" in case.line):
        return found
    return replace(found, command="docker run --gpus all -e NVIDIA_DISABLE_REQUIRE=true IMAGE")


def variable(case: LogContext) -> Joined:
    """Who sets a variable that the program misses: MPI, Slurm, or the user."""
    name = case.told.get("name", "")
    for start, launcher in _LAUNCHERS.items():
        if name.startswith(start):
            remedy = f"start the program with {launcher}, which sets {name}, or with the option for another launcher"
            return Joined(remedy=remedy)
    value = _VALUES.get(name)
    return Joined(command=f"export {name}={value}" if value else "")


_LAUNCHERS = {"OMPI_": "mpirun of Open MPI", "PMI_": "mpirun of MPICH", "SLURM_": "srun in a job of Slurm"}
_VALUES = {"CUDA_VISIBLE_DEVICES": "0", "NODE_RANK": "0"}
"""What a variable holds on one machine."""


def shared_memory(case: LogContext) -> Joined:
    """What helps in a container that runs already, whose image nobody names; or who may not write to the folder."""
    if "Permission denied" in case.line:
        return Joined(remedy="let all users write to /dev/shm", command="sudo chmod 1777 /dev/shm")
    return Joined() if "image" in case.mentions else Joined(command="export NCCL_SHM_DISABLE=1")


def driver_module(case: LogContext) -> Joined:
    """The module of the driver, built for the kernel that runs; WSL and containers have none of their own."""
    if "image" in case.mentions or (case.facts and (case.facts.environment.wsl or case.facts.environment.container)):
        return Joined(remedy="the driver belongs to the host: look there whether nvidia-smi works")
    return Joined(command="sudo dkms autoinstall && sudo reboot")


def uv_hint(case: LogContext) -> Joined:
    """What uv proposes where its first index has a package and not the release; and what it found, in its words."""
    found, tree = _uv_hint(case), case.mentions.get("tree")
    return replace(found, because=(f"it says: {tree}", *found.because)) if tree else found


def _uv_hint(case: LogContext) -> Joined:
    asked, python = version_or_none(case.mentions.get("unusable", "")), case.mentions.get("python", "")
    rows = [row for row in case.knowledge.wheels if asked and row.version == Version(asked.public)]
    if rows and python and python not in rows[-1].pythons:
        pythons = rows[-1].pythons
        says = f"torch {rows[-1].version} has wheels for Python {pythons[0]} to {pythons[-1]}, not for {python}"
        remedy = "make the environment with a Python that this torch has wheels for, and install again"
        return Joined(because=(says,), remedy=remedy, command=f"uv venv --python {pythons[-1]}")
    if (index := case.mentions.get("lone")) and case.mentions.get("manager") == "uv":
        says = "the index of PyTorch took the place of PyPI, and has torch and what torch needs alone"
        return Joined(because=(says,), command=f"uv add torch --index {INDEX}{index}")
    if case.mentions.get("hint") not in ("unsafe-best-match", "--extra-index-url"):
        return Joined()
    says = "uv takes all releases of a package from the first index that has it"
    return Joined(because=(says,), command="export UV_INDEX_STRATEGY=unsafe-best-match")


def solver_glibc(case: LogContext) -> Joined:
    """The C library for which pixi shall solve: that of the machine, where the log tells it."""
    libc = case.facts.libc if case.facts else None
    if "tags" in case.line or case.mentions.get("manager") not in ("pixi", None) or "__glibc" not in case.line:
        return Joined()
    if libc is None or "Virtual package" not in case.line:
        return Joined()
    remedy = f"let pixi solve for glibc {libc.version}: it takes older releases, where there are any"
    return Joined(remedy=remedy, command=f"pixi workspace system-requirements add glibc {libc.version}")


def dnf_dependencies(case: LogContext) -> Joined:
    """Packages of the kernel that are older than the kernel that is there; a repository that brings what lacks."""
    if "kernel" in case.line:
        remedy = "bring the kernel and its packages to one release, and start it; a mirror may be some hours behind"
        return Joined(remedy=remedy, command="sudo dnf upgrade --refresh -y 'kernel*'")
    if re.search(r"nothing provides dkms\b", case.line) and re.search(r"\.(?:el|rhel)[0-9]", case.line):
        return Joined(command="sudo dnf install -y epel-release")
    return Joined()


def dnf_modular(case: LogContext) -> Joined:
    """The stream of NVIDIA's own repository; RPM Fusion brings the driver without one."""
    if "rpmfusion" in case.line or "xorg-x11-drv-nvidia" in case.line:
        return Joined(command="sudo dnf module disable -y nvidia-driver")
    if "cuda-" in case.line:
        stream = "sudo dnf module enable -y nvidia-driver:open-dkms"
        return Joined(command=f"sudo dnf module reset -y nvidia-driver && {stream}")
    return Joined()


def uv_wheel(case: LogContext) -> Joined:
    """An older release, where the C library is too old for the wheel; an index without the wheel is another matter."""
    told = case.told
    if case.mentions.get("hint") != "manylinux" or not told.get("package"):
        return Joined()
    return Joined(command=f"uv add '{told['package']}<{told['version']}'")


def other_python(case: LogContext) -> Joined:
    """An environment with the newest Python that the message takes."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # noqa: PLC0415 - for this message alone

    found = re.search(r"not in '([^'\n]{1,60})'", case.line)
    try:
        wanted = SpecifierSet(found[1]) if found else None
    except InvalidSpecifier:
        wanted = None
    able = [minor for minor in range(14, 6, -1) if wanted and f"3.{minor}.9" in wanted]
    if not able:
        return Joined()
    python = f"3.{next((minor for minor in able if minor <= _COMMON), able[0])}"
    if case.mentions.get("manager") == "uv":
        return Joined(command=f"uv venv --python {python}")
    name = f"py{python.replace('.', '')}"
    return Joined(command=f"conda create -y -n {name} python={python} && conda activate {name}")


_COMMON = 12
"""The minor release of Python for which nearly every package has wheels."""


_LAST_WITH = {
    "tp_print": "3.8",
    "longintrepr.h": "3.10",
    "PyFrameObject": "3.10",
    "_frame": "3.10",
    "ob_digit": "3.11",
}
"""The last Python with a field or a header of its C interface."""


def python_too_new(case: LogContext) -> Joined:
    """A setuptools that knows this Python, where the old one was met; the last Python of a field in C."""
    if "ImpImporter" in case.line:
        return Joined(command=f"{PIP} install --upgrade pip setuptools")
    last = next((python for name, python in _LAST_WITH.items() if name in case.line), "")
    if not last:
        return Joined()
    return Joined(
        because=(f"the sources are written for Python {last} and older",),
        command=f"conda create -n old-python python={last}",
    )


def own_environment(case: LogContext) -> Joined:
    """An environment of the user's own, of the kind that was refused."""
    if re.search(r"(?<!Environment)NotWritableError: ", case.line):
        remedy = "let conda keep its packages in a folder of your own"
        return Joined(remedy=remedy, command="export CONDA_PKGS_DIRS=~/.conda/pkgs")
    conda = re.search(r"EnvironmentNotWritable|NoWritable|target environment", case.line)
    return Joined(
        command="conda create -y -n mine python pip && conda activate mine"
        if conda
        else "python3 -m venv ~/venv && . ~/venv/bin/activate"
    )


def registry(case: LogContext) -> Joined:
    """The registry that wants an account."""
    if not re.search(r"toomanyrequests|unauthorized", case.line):
        return Joined()
    found = re.search(r"\b((?:nvcr|ghcr|quay)\.io|[\w.-]{1,60}\.azurecr\.io)\b", case.line)
    return Joined(command=f"docker login {found[1]}" if found else "docker login")


def disk(case: LogContext) -> Joined:
    """The folder of temporary files elsewhere, where pip or a compiler fills it; docker's disk, where it builds."""
    if "slurmstepd" in case.line or "pyxis" in case.line:
        return Joined(
            remedy="let enroot unpack on a large disk: ENROOT_TEMP_PATH and ENROOT_CACHE_PATH name its folders"
        )
    if in_image(case):
        return Joined(command="docker builder prune -f")
    if re.search(
        r"install packages due to|pip|tmp|/include/|error while writing generated|when writing output", case.line
    ):
        return Joined(command="mkdir -p ~/tmp && export TMPDIR=~/tmp PIP_NO_CACHE_DIR=1")
    return Joined()


def certificate(case: LogContext) -> Joined:
    """A certificate that has expired is not of this machine: only its clock may be."""
    if "has expired" not in case.line:
        return Joined()
    remedy = "compare the clock of this machine (date); where it is right, the server has to renew its certificate"
    return Joined(remedy=remedy, command="")


def download(case: LogContext) -> Joined:
    """What the tool of the line offers against a slow network, or a download that was cut."""
    if _UNNAMED.search(case.line):  # no patience finds a host that has no address
        return Joined(command="")
    if re.search(r"\b404\b", case.line):
        remedy = (
            "the server has no such file: compare the address with the page of its publisher, who may have moved it"
        )
        return Joined(remedy=remedy, command="")
    return Joined(command=next((command for words, command in _DOWNLOADS if re.search(words, case.line)), ""))


_UNNAMED = regex(
    r"Name or service not known|[Nn]ame resolution|Failed to resolve|getaddrinfo|Could not resolve|"
    r"Network is unreachable"
)
_DOWNLOADS = (
    (r"UV_HTTP_TIMEOUT", "export UV_HTTP_TIMEOUT=600"),
    (r"pip\._vendor|pythonhosted|/simple/|download\.pytorch\.org.*[Tt]imed out", "export PIP_DEFAULT_TIMEOUT=120"),
    (
        r"/pkgs/|InvalidArchiveE|ChecksumMismatch|(?:CondaVerification|Safety)Error|libmamba|did not match Content-",
        "conda clean --packages --tarballs -y",
    ),
    (r"CondaHTTPError.*(?:CONNECTION FAILED|000)", "conda config --set remote_read_timeout_secs 600"),
    (r"RPC failed", "git config --global http.postBuffer 524288000"),
)


def isolation(case: LogContext) -> Joined:
    """A build that must see the torch of its environment, as the program that manages the environment is told so."""
    package = case.mentions.get("failed") or case.mentions.get("building") or "PACKAGE"
    if case.mentions.get("manager") == "pixi":
        remedy = f"name {package} in pixi.toml under [pypi-options]: no-build-isolation; torch is a conda package there"
        return Joined(remedy=remedy, command="")
    if "pre-compile ops" in case.line:  # so DeepSpeed alone speaks
        return Joined(command=f"{PIP} install --no-build-isolation deepspeed")
    return Joined()


def host_memory(case: LogContext) -> Joined:
    """A pip that ends while it fetches a large wheel keeps the wheel in memory for its cache."""
    if re.search(r"\b(?:Error|exit) code: -9", case.line):
        remedy = "let pip do without its cache and start again, or give the machine or container more memory"
        return Joined(remedy=remedy, command="export PIP_NO_CACHE_DIR=1")
    of_pip = case.raised is not None and case.raised.package == "pip"
    fetched = case.mentions.get("building") and not {"script", "importing"} & case.mentions.keys()
    if not of_pip and not (fetched and case.line.strip() == "Killed"):
        return Joined()
    remedy = "let pip do without its cache, or give the machine or container more memory"
    return Joined(remedy=remedy, command=f"{PIP} install --no-cache-dir {case.mentions.get('building') or 'torch'}")


JOINS: dict[str, Callable[[LogContext], Joined]] = {
    "host_memory": host_memory,
    "isolation": isolation,
    "apt_dependencies": apt_dependencies,
    "arch_list": arch_list,
    "asked_release": asked_release,
    "container_driver": container_driver,
    "sources": sources,
    "two_cublas": two_cublas,
    "built_again": built_again,
    "companion": companion,
    "conda_file": conda_file,
    "dnf_dependencies": dnf_dependencies,
    "dnf_modular": dnf_modular,
    "certificate": certificate,
    "disk": disk,
    "download": download,
    "driver_module": driver_module,
    "fork": fork,
    "nccl_shm": shared_memory,
    "other_python": other_python,
    "own_environment": own_environment,
    "peers": peers,
    "pip_conflict": pip_conflict,
    "python_too_new": python_too_new,
    "registry": registry,
    "solver_glibc": solver_glibc,
    "requirement": requirement,
    "uv_hint": uv_hint,
    "uv_wheel": uv_wheel,
    "variable": variable,
    "cpu_build": cpu_build,
    "device_code": kernels,
    "driver_floor": with_torch(driver_floor),
    "cuda_constraint": cuda_constraint,
    "cudnn": cudnn,
    "cudnn_compiled": cudnn_compiled,
    "cudnn_start": cudnn_start,
    "nvidia_runtime": nvidia_runtime,
    "module_build": module_build,
    "distribution": distribution,
    "glibc": from_source,
    "libstdcxx": libstdcxx,
    "nccl_error": nccl_error,
    "python_header": python_header,
    "tensorflow": tensorflow,
    "toolkit": toolkit,
    "torchvision": torchvision,
    "xformers": xformers,
}
"""The joins of this module by the names that rows give; those that change torch go before their namesakes."""
