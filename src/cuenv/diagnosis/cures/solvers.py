"""What solvers refuse: releases that do not go together, that no channel or index has, or for another Python."""

from __future__ import annotations

import re
from shlex import quote

from packaging.version import Version

from cuenv.core.record import replace
from cuenv.core.regex import regex
from cuenv.core.versions import version_or_none
from cuenv.diagnosis.cures.case import (
    Joined,
    LogContext,
    floor_verdict,
    in_image,
    join,
    level_of,
    newest_for,
    resolve_anew,
    torch_of,
    with_code,
)
from cuenv.diagnosis.cures.managers import PIP
from cuenv.diagnosis.cures.names import provider
from cuenv.knowledge.rows import PLATFORMS
from cuenv.resolver.wheels import INDEX

_OF_PYG = frozenset({"torch_scatter", "torch_sparse", "torch_cluster", "torch_spline_conv", "pyg_lib"})
_ASK_PYG = (
    "$(python -c \"import torch; v = torch.__version__.split('+')[0].split('.'); "
    "print(v[0] + '.' + v[1] + '.0+cu' + torch.version.cuda.replace('.', ''))\")"
)
_ASK_TRITON = (
    'python -c "import importlib.metadata as m; '
    "print(next(r for r in m.requires('torch') if r.startswith('triton')).split(';')[0])\""
)


@join
def module(case: LogContext) -> Joined:
    """How the package of a module is installed, where that is known."""
    name = case.told.get("module", "")
    if found := re.search(r"No package metadata was found for ([A-Za-z][\w.-]{1,60})\b", case.line):
        remedy = f"install {found[1]} in this Python"
        return Joined(remedy=remedy, command=f"{PIP} install {found[1]}")
    if last := provider(case, "standard", name):
        because = (f"{name} was in the standard library up to Python {last}",)
        remedy = f"use an environment with Python {last}, or a release of the package that does not need {name}"
        return Joined(because=because, remedy=remedy, command=f"conda create -n old-python python={last}")
    if _of_isolated_build(case):
        return _undeclared(case, name)
    if name == "pip":
        of_system = in_image(case) or "/usr/bin/python" in case.line
        command = "sudo apt-get update && sudo apt-get install -y python3-pip" if of_system else "python -m ensurepip"
        return Joined(remedy="install pip in this Python", command=command)
    wanted = _wanted(case, name)
    if not wanted:
        return Joined()
    if extra := re.search(rf"\b{re.escape(wanted)}(\[[a-z0-9_,-]{{1,40}}\])", case.line):
        wanted = f"'{wanted}{extra[1]}'"
    elif asked := re.search(rf"\b{re.escape(wanted)}((?:>=|==|~=)[0-9][\w.]{{0,20}})", case.line):
        wanted = f"'{wanted}{asked[1].rstrip('.')}'"
    remedy = f"install it in this Python: its package is {wanted.split()[-1].strip(chr(39))}"
    if name in _OF_PYG:
        remedy = f"install the wheel of {name} for this torch, from the index of PyG"
    return Joined(remedy=remedy, command=f"{PIP} install {wanted}")


def _of_isolated_build(case: LogContext) -> bool:
    """Whether what is missing is missing in the environment that pip or uv makes for a build."""
    told, place = case.mentions.get("isolated"), case.raised
    return bool(told and place and place.file.endswith(("setup.py", "setuptools/build_meta.py")))


def _undeclared(case: LogContext, name: str) -> Joined:
    """What a build imports and does not declare, in the environment that it is installed into."""
    says = f"a build has an environment of its own, which holds what the package declares alone, and not {name}"
    wanted = "pip setuptools wheel" if name == "pip" else _wanted(case, name)
    first = f"{PIP} install {wanted} && " if wanted else ""
    remedy = f"install {name} first, then the package with --no-build-isolation"
    return Joined(because=(says,), remedy=remedy, command=f"{first}{PIP} install --no-build-isolation PACKAGE")


def of_pyg(case: LogContext, name: str) -> str:
    """What pip is asked for to get an extension of PyG for the torch of the log, or for the one that is installed."""
    release, cuda = torch_of(case)
    known = f"{release.major}.{release.minor}.0+cu{cuda.major}{cuda.minor}" if release and cuda else ""
    return f'{name.replace("_", "-")} -f "https://data.pyg.org/whl/torch-{known or _ASK_PYG}.html"'


def _wanted(case: LogContext, name: str) -> str:
    _, cuda = torch_of(case)
    if name in _OF_PYG:
        return of_pyg(case, name)
    if name == "spconv":
        return "spconv-cu118" if cuda and cuda.major == 11 else "spconv-cu120"
    if name in ("mmcv", "mmdet"):
        return f"openmim && mim install {name}"
    source = provider(case, "repository", name.lower().replace("_", "-"))
    found = f"--no-build-isolation {source}" if source else provider(case, "module", name)
    return found.format(major=cuda.major if cuda else 12)


@join
def lacking(case: LogContext) -> Joined:
    """A package that pip's index does not have: where it is, as far as that is known."""
    name = case.told.get("package", "").lower().replace("_", "-")
    release, _ = torch_of(case)
    if not name and release and release.local:  # the index of PyTorch alone was searched, which lacks other packages
        remedy = "add PyTorch's index to the usual one instead of replacing it: --extra-index-url"
        return Joined(remedy=remedy, command=f"{PIP} install torch=={release} --extra-index-url {INDEX}{release.local}")
    if found := _LOCAL.search(case.line):
        because = (f"versions with +{found['tag']} are not on PyPI",)
        index = f"--index-url {INDEX}{found['tag']}" if name.startswith("torch") else f"-f {_OF_JAX}"
        remedy = "add the index that has the builds for this CUDA"
        return Joined(because=because, remedy=remedy, command=f"{PIP} install {found['asked']} {index}")
    if python := _last_python(case, name):
        asked = f"{name}=={python[0]}"
        because = (f"{asked} has wheels up to Python {python[1]}",)
        run = f"conda run -n old-python python -m pip install {asked}"
        command = f"conda create -y -n old-python -c conda-forge python={python[1]} pip && {run}"
        return Joined(
            because=because, remedy="use an environment with a Python for which it has wheels", command=command
        )
    if ignored := _ignored(case):
        says = f"pip ignores the releases for other Pythons: {ignored[0]} needs Python {ignored[1]}"
        return replace(_with_python(case, ignored[1]), because=(says,), remedy="use an environment with such a Python")
    module = name.replace("-", "_")
    wanted = _wanted(case, module) if name else ""
    return Joined(command=f"{PIP} install {wanted}" if wanted and wanted != name else "")


def _ignored(case: LogContext) -> tuple[str, str] | None:
    """The release that is asked for, else the last one, and the Pythons that it wants, where pip left it out."""
    asked = re.search(r"==([0-9][\w.+!]{0,30})", case.line)
    found = re.findall(r"([0-9][\w.+!]{0,30}) Requires-Python ([^;]{2,60})", case.mentions.get("ignored", ""))
    able = [one for one in found if not asked or one[0] == asked[1]]
    return (able[-1][0], able[-1][1].strip()) if able else None


@join
def stub(case: LogContext) -> Joined:
    """A stub of TensorRT: its older releases are stubs too."""
    if not case.told.get("name", "").startswith("tensorrt"):
        return Joined()
    remedy = "take a Python and a platform that the release supports; a Jetson has TensorRT from JetPack"
    return Joined(remedy=remedy, command="")


@join
def rust_script(case: LogContext) -> Joined:
    """What the build scripts of usual packages of Rust want of the system."""
    wanted = {"openssl-sys": "libssl-dev pkg-config", "prost-build": "protobuf-compiler", "alsa-sys": "libasound2-dev"}
    package = wanted.get(case.told.get("name", ""))
    return Joined(command=f"sudo apt-get install -y {package}" if package else None)


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
    r"(?P<asked>(?:torch(?:vision|audio)?|jaxlib)==[0-9][\w.]{1,20}\+(?P<tag>cu[0-9]{2,3}|cpu|cuda[\w.]{1,20}))"
)
_OF_JAX = "https://storage.googleapis.com/jax-releases/jax_cuda_releases.html"


@join
def package_pair(case: LogContext) -> Joined:
    """The release of a package that still has, or already has, the name that is asked for."""
    if case.told.get("package") == "triton" and case.raised and case.raised.package == "torch":
        return Joined(
            remedy="install the triton release that this torch requires", command=f'{PIP} install "$({_ASK_TRITON})"'
        )
    older = provider(case, "name", f"{case.told.get('package', '')}:{case.told.get('name', '')}")
    return Joined(command=f"{PIP} install {older}" if older else "")


_CONSTRAINT = regex(r"__cuda\W{0,4}(?:version=\W{0,3})?>=\W{0,2}([0-9]{2}(?:\.[0-9]{1,2})?)\b")


@join
def cuda_constraint(case: LogContext) -> Joined:
    """What a package asks of ``__cuda`` against the driver: what runs by minor-version compatibility may be told so."""
    if "for which no candidates were found" in case.line:
        says = "pixi solves for a driver only if the project says that its machines have one"
        remedy = "add the driver's CUDA version to the project's system requirements"
        return Joined(
            because=(says,),
            remedy=remedy,
            command=f"pixi workspace system-requirements add cuda {level_of(case) or 12}",
        )
    if "nothing provides __cuda needed" in case.line:
        remedy = "on a machine without a driver, tell the solver the CUDA version of the driver that will run it"
        return Joined(remedy=remedy, command=f"export CONDA_OVERRIDE_CUDA={level_of(case) or '12.0'}")
    if "Virtual package '__cuda'" in case.line:
        remedy = "if this machine only installs, tell pixi the CUDA version of the driver that will run it"
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
        says = f"the package needs __cuda {asked}, that is, driver {floor} or later"
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


@join
def conda_file(case: LogContext) -> Joined:
    """The file that conda was given; without one, and without a file of that name, there is nothing to repair."""
    name = case.mentions.get("file", "environment.yml" if "ResolvePackageNotFound" in case.line else "")
    usual, platform = PLATFORMS[0], case.facts.platform if case.facts else PLATFORMS[0]
    says = f"the log is from {platform}, for which many packages of {usual} were never built"
    tree = case.mentions.get("tree", "")
    because = ((says,) if platform != usual else ()) + ((f"it says: {tree}",) if tree else ())
    if "listed" in case.mentions:
        says = "lines that end with =pypi_0 are pip packages in a conda list: no conda channel has them"
        remedy = (
            "remove those lines from the file and install the packages "
            "with pip, or correct the file with cuenv lock --repair"
        )
        because = (*because, says)
        if not name:
            return Joined(because=because, remedy=remedy)
    if name:
        asked = f" --platform {platform}" if platform != usual else ""
        return Joined(because=because, command=f"cuenv lock {quote(name)} --repair{asked} -o environment.new.yml")
    if "dependencies for platform" in case.line:  # so conda-build speaks, of a recipe
        remedy = "name the channel that has them (-c conda-forge), or loosen what the recipe asks for"
        return Joined(because=because, remedy=remedy, command="")
    if "no candidates were found" in case.line:
        remedy = "add the channel that has it, mostly conda-forge, or request another version"
        return Joined(because=because, remedy=remedy)
    other = re.search(r"nothing provides (?:requested )?([a-z_][\w.-]{1,60})", case.line)
    if other and not re.match(r"_|py?torch|torch|cuda|cudnn|nccl|tensorflow|jax|libcu|nvidia|python", other[1]):
        remedy = f"name the channel that has {other[1]} in that version, or take a newer build of what needs it"
        return Joined(because=because, remedy=remedy)
    if platform == usual and ("torch" in case.mentions or "companions" in case.mentions or "torch" in case.line):
        remedy = "let cuenv write a torch and a CUDA that fit together, and add the other packages to that file"
        return Joined(because=because, remedy=remedy, command=resolve_anew(case))
    return replace(_asked_of_conda(case), because=because)


def _asked_of_conda(case: LogContext) -> Joined:
    """What helps where no file was given and torch is not asked for: the newer solver, or an environment of its own."""
    if "held" not in case.mentions and re.search(
        r"(?<!LibMamba)(?<!Rattler)UnsatisfiableError|(?:each other|your (?:system|CUDA driver)|in conflict)\b",
        case.line,
    ):
        remedy = (
            "solve with libmamba, which names the two requirements that exclude each other; "
            "the classic solver gives up and lists system versions that do fit"
        )
        return Joined(remedy=remedy, command=_LIBMAMBA)
    asked = case.mentions.get("asked", "")
    words = [word.strip("\"'") for word in asked.split() if word not in ("-y", "--yes")]
    if words and not re.search(r"not available|NotFound|nothing provides|perhaps a typo", case.line):
        remedy = "install it in its own environment, where nothing else pins versions, or request fewer packages"
        return Joined(remedy=remedy, command=f"conda create -n apart {' '.join(map(quote, words))}")
    remedy = (
        "request fewer or looser versions; or write what you need "
        "in environment.yml, which cuenv lock --repair corrects"
    )
    return Joined(remedy=remedy)


_LIBMAMBA = (
    "conda update -y -n base conda && conda install -y -n base conda-libmamba-solver && "
    "conda config --set solver libmamba"
)


@join
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


@join
def uv_hint(case: LogContext) -> Joined:
    """What uv proposes where its first index has a package and not the release; and what it found, in its words."""
    found, tree = _uv_hint(case), case.mentions.get("tree", "")
    local = _LOCAL_TORCH.search(tree)
    if local and not found.command:
        says = f"versions with +{local['tag']} are only on PyTorch's index for {local['tag']}"
        index = f"export UV_EXTRA_INDEX_URL={INDEX}{local['tag']} UV_INDEX_STRATEGY=unsafe-best-match"
        found = Joined(because=(says,), remedy="add that index to the usual one", command=index)
    return replace(found, because=(f"it says: {tree}", *found.because)) if tree else found


_LOCAL_TORCH = regex(
    r"only the following versions of torch(?:vision|audio)? are available: [^+]* and "
    r".*(?:depends on|requires?) torch(?:vision|audio)?==[0-9.]+\+(?P<tag>cu[0-9]{2,3}|cpu)\b"
)


def _uv_hint(case: LogContext) -> Joined:
    asked, python = version_or_none(case.mentions.get("unusable", "")), case.mentions.get("python", "")
    rows = [row for row in case.knowledge.wheels if asked and row.version == Version(asked.public)]
    if rows and python and python not in rows[-1].pythons:
        pythons = rows[-1].pythons
        says = f"torch {rows[-1].version} has wheels for Python {pythons[0]} to {pythons[-1]}, not for {python}"
        remedy = "create the environment with a Python for which this torch has wheels, and install again"
        return Joined(because=(says,), remedy=remedy, command=f"uv venv --python {pythons[-1]}")
    if (index := case.mentions.get("lone")) and case.mentions.get("manager") == "uv":
        says = "PyTorch's index replaced PyPI, but has only torch and its dependencies"
        return Joined(because=(says,), command=f"uv add torch --index {INDEX}{index}")
    if case.mentions.get("hint") not in ("unsafe-best-match", "--extra-index-url"):
        return Joined()
    says = "uv uses only the first index that has a package"
    return Joined(because=(says,), command="export UV_INDEX_STRATEGY=unsafe-best-match")


@join
def solver_glibc(case: LogContext) -> Joined:
    """The C library for which pixi shall solve: that of the machine, where the log tells it."""
    libc = case.facts.libc if case.facts else None
    if "tags" in case.line or case.mentions.get("manager") not in ("pixi", None) or "__glibc" not in case.line:
        return Joined()
    if libc is None or "Virtual package" not in case.line:
        return Joined()
    remedy = f"let pixi solve for glibc {libc.version}, with older releases if they exist"
    return Joined(remedy=remedy, command=f"pixi workspace system-requirements add glibc {libc.version}")


@join
def uv_wheel(case: LogContext) -> Joined:
    """An older release, where the C library is too old for the wheel; an index without the wheel is another matter."""
    told = case.told
    if case.mentions.get("hint") != "manylinux" or not told.get("package"):
        return Joined()
    return Joined(command=f"uv add '{told['package']}<{told['version']}'")


@join
def other_python(case: LogContext) -> Joined:
    """An environment with the newest Python that the message takes."""
    found = re.search(r"(?:not in '|requirement: `)([^'`\n]{1,60})['`]", case.line)
    values = {} if "package" in case.told else {"package": "the project"}
    return replace(_with_python(case, found[1] if found else ""), values=values)


def _with_python(case: LogContext, range_: str) -> Joined:
    """An environment with a Python within a range, one for which most packages have wheels where it is in it."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # noqa: PLC0415 - for few messages

    try:
        wanted = SpecifierSet(range_) if range_ else None
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


@join
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
