"""Torch, and what is built with it: torchvision, torchaudio, xformers, DGL.

A release of torch that the log names stays, where a wheel of it fits: only its CUDA build is another one. Where the
log does not name it, a command asks the environment itself, and else a new environment is chosen.
"""

from __future__ import annotations

import re
from shlex import quote

from packaging.version import Version

from cuenv.core.record import replace
from cuenv.core.regex import regex
from cuenv.core.versions import version_or_none
from cuenv.diagnosis.cures.context import (
    RESOLVE,
    CureResult,
    LogContext,
    cure,
    driver_cuda,
    resolve_command,
    rule_host,
    torch_of,
)
from cuenv.diagnosis.cures.managers import PIP
from cuenv.diagnosis.cures.solvers import pyg_requirement
from cuenv.knowledge.rows import TorchWheel
from cuenv.resolver.wheels import INDEX, runs_on


@cure
def dgl(context: LogContext) -> CureResult:
    """Suggest the DGL wheel for this torch; 2.4 is the last torch that DGL supports."""
    installed, cuda = torch_of(context)
    asked = context.groups.get("torch", "") or str(installed or "")
    release = ".".join(asked.split(".")[:2])
    if release not in ("2.1", "2.2", "2.3", "2.4"):
        return CureResult(remedy="install torch 2.4, the last that DGL has libraries for, or use another graph package")
    tag = f"cu{cuda.major}{cuda.minor}" if cuda else f"cu$({PRINT_CUDA_TAG})"
    index = f"https://data.dgl.ai/wheels/torch-{release}/{tag}/repo.html"
    command = f'{PIP} install --force-reinstall --no-deps dgl -f "{index}"'
    return CureResult(remedy=f"install DGL for torch {release} from its own index", command=command)


@cure
def functional_tensor(context: LogContext) -> CureResult:
    """Suggest a newer release for a module that torchvision removed; BasicSR needs an edit of its file."""
    if "pytorchvideo" in context.mentions.get("importing", ""):
        return CureResult(command=f"{PIP} install git+https://github.com/facebookresearch/pytorchvideo")
    return CureResult()


_PRINT_RELEASE = "python -c \"import torch; print(torch.__version__.split('+')[0])\""
PRINT_CUDA_TAG = "python -c \"import torch; print(torch.version.cuda.replace('.', ''))\""
_PRINT_TORCHVISION_MINOR = (
    "python -c \"import torch; a, b = torch.__version__.split('.')[:2]; print(int(b) + (15 if a == '2' else 1))\""
)
"""torchvision 0.16 belongs to torch 2.1, and 0.14 to torch 1.13 (pytorch/vision, README)."""


def is_wheel(context: LogContext) -> bool:
    """Return whether torch is a wheel: the environment, else the log, shows no conda package of it."""
    if context.prefix:
        return context.prefix.package("pytorch") is None
    return "pytorch" not in context.builds and "pytorch-cuda" not in context.builds


def fitting_wheel(context: LogContext) -> TorchWheel | None:
    """Return the wheel that runs on the host: of the installed release, or of the next one that has such a wheel.

    ``None`` where the release is not known, torch is not from pip, or neither driver nor GPU is known.
    """
    release, _ = torch_of(context)
    facts = rule_host(context)
    level = driver_cuda(context)
    if release is None or not is_wheel(context) or not (level or facts.capabilities):
        return None
    rows = [
        row for row in context.knowledge.wheels if row.cuda and "index" in row.comes and row.platform == facts.platform
    ]
    python, runs = context.mentions.get("python", ""), runs_on(facts, context.knowledge)
    asked = Version(release.public)
    for wanted in (asked, *sorted({row.version for row in rows if row.version > asked})):
        able = [row for row in rows if row.version == wanted and python in ("", *row.pythons) and runs(row)]
        if not able:
            continue
        below = [row for row in able if level and row.cuda and row.cuda <= level]
        plain = [row for row in able if "pypi" in row.comes]
        return below[-1] if below else able[0] if level else (plain or able)[0]
    return None


def install_wheel(context: LogContext, row: TorchWheel) -> str:
    """Return the command that replaces the installed torch and its companions by a wheel."""
    release, _ = torch_of(context)
    same = release is not None and Version(release.public) == row.version
    there = [name for name in _COMPANIONS if name in context.packages or name in context.mentions.get("companions", "")]
    companions = [_companion(context, name, row) if same else name for name in there]
    return " ".join([PIP, "install", f"torch=={row.name}", *companions, "--index-url", f"{INDEX}{row.build}"])


_COMPANIONS = ("torchvision", "torchaudio")
"""Packages whose binaries are built with those of torch: they change their CUDA build together."""


def _companion(context: LogContext, name: str, row: TorchWheel) -> str:
    """Return the companion package with the same CUDA build, of the logged version or the one that pins this torch."""
    found = version_or_none(context.packages.get(name, "")) or companion_version(context, name, row.version)
    return f"{name}=={found.public}+{row.build}" if found else name


def companion_version(context: LogContext, name: str, release: Version) -> Version | None:
    """Return the newest wheel of a companion package that needs this torch release."""
    rows = [item for item in context.knowledge.extension(name) if "wheel" in item.comes]
    able = [item for item in rows if item.torch and item.torch.admits(Version(release.public))]
    return max((one for item in able for one in item.releases), default=None)


def reinstall_cuda_build(context: LogContext) -> str:
    """Return the command that replaces a CPU build by the CUDA build of the same release."""
    release, _ = torch_of(context)
    row = fitting_wheel(context)
    if _may_be_conda(context):  # pip would leave half of a conda package behind
        return resolve_command(context)
    if row:
        return install_wheel(context, row)
    if not is_wheel(context) or (context.facts and context.facts.gpus):
        return resolve_command(context)
    if release is None:
        return f'release=$({_PRINT_RELEASE}) && {PIP} uninstall -y torch && {PIP} install "torch==$release"'
    return f"{PIP} uninstall -y torch && {PIP} install torch=={release.public}"


def _may_be_conda(context: LogContext) -> bool:
    """Return whether the log shows a conda environment, and no sign that pip installed its torch."""
    release, _ = torch_of(context)
    conda = context.mentions.get("manager") == "conda" or "file" in context.mentions
    return not context.prefix and conda and not (release and release.local)


def with_fitting_wheel(context: LogContext, found: CureResult) -> CureResult:
    """Replace the command for a whole new environment by one wheel, if a torch wheel runs on the host."""
    row = fitting_wheel(context) if found.command is None or found.command.startswith(RESOLVE) else None
    if row is None:
        return found
    remedy = f"install the build of torch {row.version} for CUDA {row.cuda}, which runs on this host"
    later = found.remedy.partition("; in the long run: ")[2]
    return replace(
        found, remedy=remedy + (f"; in the long run: {later}" if later else ""), command=install_wheel(context, row)
    )


@cure
def cpu_build(context: LogContext) -> CureResult:
    """Suggest the CUDA build of the same release instead of a CPU build."""
    release, _ = torch_of(context)
    because = (f"torch {release} of this environment is a CPU build",) if release else ()
    return CureResult(because=because, command=reinstall_cuda_build(context))


@cure
def xformers(context: LogContext) -> CureResult:
    """Suggest the xformers release for the installed torch, which pip chooses."""
    built, have = context.mentions.get("built", ""), str(torch_of(context)[0] or "")
    release = version_or_none(have)
    if release is None:
        return CureResult(command=f'{PIP} install "torch==$({_PRINT_RELEASE})" xformers')
    because = (f"xformers was built for torch {built}, and torch {have} is installed",) if built else ()
    if release.local == "cpu":
        pip_requirement = f"{PIP} uninstall -y torch && {PIP} install torch=={release.public} xformers"
        return CureResult(
            because=because, remedy="install the CUDA build of the same torch release", command=pip_requirement
        )
    known = companion_version(context, "xformers", release)
    wanted = f"xformers=={known}" if known else "xformers"
    option = "--index-url" if release >= _FIRST_XFORMERS else "--extra-index-url"
    index = f" {option} {INDEX}{release.local}" if (release.local or "").startswith("cu") else ""
    return CureResult(because=because, command=f"{PIP} install torch=={have} {wanted}{index}")


_FIRST_XFORMERS = Version("2.1")  # the first torch for which PyTorch's indexes have xformers; before, PyPI alone has it


def release_for_torch(context: LogContext, package: str) -> CureResult:
    """Let pip search the release of a companion package that requires the installed torch."""
    if not is_wheel(context):
        return CureResult(remedy=f"install the {package} that the channel built for this torch", command="")
    kept = f'"torch==$({_PRINT_RELEASE})"'
    index = f"--extra-index-url {INDEX}cu$({PRINT_CUDA_TAG})"
    remedy = f"install the {package} release that requires this torch"
    return CureResult(remedy=remedy, command=f"{PIP} install {package} {kept} {index}")


@cure
def torchvision(context: LogContext) -> CureResult:
    """Suggest the torchvision of the installed torch, from the same index."""
    release, _ = torch_of(context)
    if not is_wheel(context):
        return CureResult()
    if release is None:
        command = f'{PIP} install --force-reinstall --no-deps "torchvision==0.$({_PRINT_TORCHVISION_MINOR}).*"'
        return CureResult(command=f"{command} --index-url {INDEX}cu$({PRINT_CUDA_TAG})")
    known = companion_version(context, "torchvision", release)
    partner = str(known) if known else f"0.{release.minor + (15 if release.major > 1 else 1)}.*"
    index = f" --index-url {INDEX}{release.local}" if (release.local or "").startswith("cu") else ""
    have = context.packages.get("torchvision", "")
    because = (f"torch {release} belongs with torchvision {partner}" + (f", and {have} is installed" if have else ""),)
    command = f"{PIP} install --force-reinstall --no-deps 'torchvision=={partner}'{index}"
    return CureResult(because=because, command=command)


_WHEEL = regex(
    r"(?P<file>\S{1,200}-cp3(?P<minor>[0-9]{1,2})-\S{1,40}-(?P<system>[a-z]\w{3,60})\.whl) is not a supported wheel"
)


@cure
def distribution(context: LogContext) -> CureResult:
    """Suggest the wheels in the tables for a torch release that pip does not find."""
    asked = version_or_none(context.groups.get("asked", ""))
    if wheel := _WHEEL.search(context.line):
        python = f"3.{wheel['minor']}"
        name = f"py{python.replace('.', '')}"
        because = (f"the file is for Python {python} on {wheel['system']}",)
        values = {"asked": "this wheel"}
        run = f"conda run -n {name} python -m pip install {quote(wheel['file'])}"
        command = f"conda create -y -n {name} -c conda-forge python={python} pip && {run}"
        return CureResult(because=because, command=command, values=values)
    if asked is None:
        newest = max((row for row in context.knowledge.wheels if row.cuda), key=lambda row: row.version)
        pythons = newest.pythons
        because = (f"torch {newest.version} has wheels for Python {pythons[0]} to {pythons[-1]}, on 64-bit systems",)
        environment = f"conda create -y -n torch -c conda-forge python={pythons[-2]} pip && conda run -n torch"
        return CureResult(
            because=because, command=f"{environment} python -m pip install torch", values={"asked": "this release"}
        )
    rows = [row for row in context.knowledge.wheels if row.version == Version(asked.public)]
    if not rows:
        return CureResult(because=(f"the cuenv tables list no wheel of torch {asked.public}",))
    oldest = version_or_none(context.mentions.get("oldest", ""))
    local = (asked.local or "").replace(".", "")
    if local != (asked.local or ""):
        asked = Version(f"{asked.public}+{local}")
    if "installation candidates" in context.line:  # of Poetry, which has the index of the project already
        python = rows[-1].pythons[-2:][0]
        because = (f"torch {asked.public} has wheels for Python {rows[-1].pythons[0]} to {rows[-1].pythons[-1]}",)
        return CureResult(because=because, command=f"poetry env use python{python} && poetry install")
    if local.startswith("cu") and any(row.build == local for row in rows):
        row = next(row for row in rows if row.build == local)
        because = (f"torch {asked} is on PyTorch's own index, not on PyPI",)
        looked = context.mentions.get("index") in {local, "torch_stable"} or context.mentions.get("versions") == "none"
        looked = (
            looked and "python" not in context.mentions
        )  # every index has some torch for a Python that is not too new
        looked = looked or bool(oldest and oldest > Version(asked.public))
        if context.mentions.get("python", row.pythons[0]) in row.pythons and not looked:
            return CureResult(because=because, command=f"{PIP} install torch=={asked} --index-url {INDEX}{local}")
    pythons = rows[-1].pythons
    python = context.mentions.get("python", "")
    if oldest and oldest > Version(asked.public) and not python:
        says = (
            f"the oldest torch that the index has for this Python is {oldest}: torch {asked.public} is for older ones"
        )
        wheels = f"torch {asked.public} has wheels for Python {pythons[0]} to {pythons[-1]}"
        index = f" --index-url {INDEX}{local}" if re.match("cu[0-9]|cpu$", local) else ""
        environment = f"conda create -y -n torch -c conda-forge python={pythons[-2:][0]} pip && conda run -n torch"
        pip = f"{environment} python -m pip install torch=={asked}{index}"
        return CureResult(because=(says, wheels), command=pip)
    because = (
        f"torch {asked.public} has wheels for Python {pythons[0]} to {pythons[-1]}"
        + (f", not for {python}" if python and python not in pythons else ""),
    )
    index = f" --index-url {INDEX}{local}" if re.match("cu[0-9]|cpu$", local) else ""
    environment = f"conda create -y -n torch -c conda-forge python={pythons[-1]} pip && conda run -n torch"
    return CureResult(because=because, command=f"{environment} python -m pip install torch=={asked}{index}")


@cure
def companion(context: LogContext) -> CureResult:
    """Suggest the companion library that was built for the CUDA of torch."""
    if other := re.search(r"\band (torch_(?:scatter|sparse|cluster|spline_conv))\b", context.line):
        return CureResult(command=f"{PIP} install --force-reinstall --no-deps {pyg_requirement(context, other[1])}")
    if "torchaudio" not in context.line:
        return torchvision(context)
    release, _ = torch_of(context)
    wanted = release.public if release else f"$({_PRINT_RELEASE})"
    tag = release.local if release and (release.local or "").startswith("cu") else f"cu$({PRINT_CUDA_TAG})"
    command = f'{PIP} install --force-reinstall --no-deps "torchaudio=={wanted}" --index-url {INDEX}{tag}'
    return CureResult(command=command)


@cure
def pip_conflict(context: LogContext) -> CureResult:
    """Suggest the torchvision and torchaudio for the requested or installed torch.

    Of other packages that are there already, those releases that the others want.
    """
    release = version_or_none(context.mentions.get("requested", "") or context.mentions.get("torch", ""))
    names = context.mentions.get("clashings", "").split()
    if release is None or not names:
        others = sorted({text.rstrip(",") for text in context.mentions.get("wanteds", "").split()})
        if not others or any(re.match(r"torch(?:vision|audio)?[^\w.-]", text) for text in others):
            return CureResult()
        remedy = (
            "install the releases that the other packages need; if two need different ones, update the older of the two"
        )
        return CureResult(remedy=remedy, command=f"{PIP} install {' '.join(map(quote, others))}")
    partners = {name: companion_version(context, name, release) for name in names}
    if None in partners.values():
        return CureResult()
    local = f"+{release.local}" if (release.local or "").startswith("cu") else ""
    because = tuple(f"torch {release.public} belongs with {name} {found}" for name, found in partners.items())
    wanted = " ".join(f"{name}=={found}{local}" for name, found in partners.items())
    index = f" --index-url {INDEX}{release.local}" if local else ""
    remedy = f"install the {' and '.join(names)} for this torch, and correct the file that requested another one"
    return CureResult(because=because, remedy=remedy, command=f"{PIP} install torch=={release} {wanted}{index}")
