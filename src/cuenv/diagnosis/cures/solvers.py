"""Cures for solver errors: versions that exclude each other, do not exist, or need another Python."""

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
    cure,
    driver_cuda,
    in_docker_build,
    minimum_driver_verdict,
    newest_supported_cuda,
    resolve_command,
    text_with_code,
    torch_of,
)
from cuenv.diagnosis.cures.managers import PIP
from cuenv.diagnosis.cures.names import provider
from cuenv.knowledge.rows import PLATFORMS
from cuenv.resolver.wheels import INDEX

PYG_MODULES = frozenset({"torch_scatter", "torch_sparse", "torch_cluster", "torch_spline_conv", "pyg_lib"})
_PRINT_PYG_TAG = (
    "$(python -c \"import torch; v = torch.__version__.split('+')[0].split('.'); "
    "c = torch.version.cuda; print('.'.join(v[:2]) + '.0+' + ('cu' + c.replace('.', '') if c else 'cpu'))\")"
)
_PRINT_TRITON = (
    'python -c "import importlib.metadata as m; '
    "print(next(r for r in m.requires('torch') if r.startswith('triton')).split(';')[0])\""
)


@cure
def module(context: LogContext) -> CureResult:
    """Suggest the package of a missing module."""
    name = context.groups.get("module", "")
    if found := re.search(r"No package metadata was found for ([A-Za-z][\w.-]{1,60})\b", context.line):
        remedy = f"install {found[1]} in this Python"
        return CureResult(remedy=remedy, command=f"{PIP} install {found[1]}")
    if last := provider(context, "standard", name):
        because = (f"{name} was in the standard library up to Python {last}",)
        remedy = f"use an environment with Python {last}, or a release of the package that does not need {name}"
        return CureResult(because=because, remedy=remedy, command=f"conda create -n old-python python={last}")
    if _in_isolated_build(context):
        return _undeclared_import_cure(context, name)
    if name == "pip":
        of_system = in_docker_build(context) or "/usr/bin/python" in context.line
        command = "sudo apt-get update && sudo apt-get install -y python3-pip" if of_system else "python -m ensurepip"
        return CureResult(remedy="install pip in this Python", command=command)
    wanted = _wanted(context, name)
    if not wanted:
        return CureResult()
    if extra := re.search(rf"\b{re.escape(wanted)}(\[[a-z0-9_,-]{{1,40}}\])", context.line):
        wanted = f"'{wanted}{extra[1]}'"
    elif asked := re.search(rf"\b{re.escape(wanted)}((?:>=|==|~=)[0-9][\w.]{{0,20}})", context.line):
        wanted = f"'{wanted}{asked[1].rstrip('.')}'"
    remedy = f"install it in this Python: its package is {wanted.split()[-1].strip(chr(39))}"
    if name in PYG_MODULES:
        remedy = f"install the wheel of {name} for this torch, from the index of PyG"
    return CureResult(remedy=remedy, command=f"{PIP} install {wanted}")


_TOLD = regex(r"pip3? install (?:-U |--upgrade |-q )?([A-Za-z][\w.-]{1,40}[A-Za-z0-9])(?=[`'\"\s).,]|$)")
"""The packages that a message itself tells to install; a package that is nobody's own name on PyPI is not told so."""


def _wanted(context: LogContext, name: str) -> str:
    """Return what pip is to install: what the message tells to install, if it names several packages or no row does."""
    told = dict.fromkeys(_TOLD.findall(context.line))
    known = _requirement_for(context, name)
    return " ".join(told) if name in told and (len(told) > 1 or not known) else known


def _in_isolated_build(context: LogContext) -> bool:
    """Return whether a module is missing in the isolated build environment of pip or uv."""
    isolated, frame = context.mentions.get("isolated"), context.frame
    if frame is None:  # a cut log: only what the build itself imports can be missing in it
        return bool(isolated) and context.groups.get("module") in ("wheel", "setuptools", "numpy", "Cython", "torch")
    return bool(isolated and frame.file.endswith(("setup.py", "setuptools/build_meta.py")))


def _undeclared_import_cure(context: LogContext, name: str) -> CureResult:
    """Suggest installing what a build imports but does not declare, and building without isolation."""
    says = f"a build has an environment of its own, which holds what the package declares alone, and not {name}"
    wanted = "pip setuptools wheel" if name == "pip" else _requirement_for(context, name)
    first = f"{PIP} install {wanted} && " if wanted else ""
    remedy = f"install {name} first, then the package with --no-build-isolation"
    return CureResult(because=(says,), remedy=remedy, command=f"{first}{PIP} install --no-build-isolation PACKAGE")


def pyg_requirement(context: LogContext, name: str) -> str:
    """Return the pip requirement for an extension of PyG, for the torch of the log or the installed one."""
    release, cuda = torch_of(context)
    known = f"{release.major}.{release.minor}.0+cu{cuda.major}{cuda.minor}" if release and cuda else ""
    return f'{name.replace("_", "-")} -f "https://data.pyg.org/whl/torch-{known or _PRINT_PYG_TAG}.html"'


def _requirement_for(context: LogContext, name: str) -> str:
    _, cuda = torch_of(context)
    if name in PYG_MODULES:
        return pyg_requirement(context, name)
    if name == "spconv":
        return "spconv-cu118" if cuda and cuda.major == 11 else "spconv-cu120"
    if name in ("mmcv", "mmdet"):
        return f"openmim && mim install {name}"
    source = provider(context, "repository", name.lower().replace("_", "-"))
    found = f"--no-build-isolation {source}" if source else provider(context, "module", name)
    return found.format(major=cuda.major if cuda else 12)


@cure
def lacking(context: LogContext) -> CureResult:
    """Suggest where a package is that pip's index does not have."""
    name = context.groups.get("package", "").lower().replace("_", "-")
    release, _ = torch_of(context)
    if not name and release and release.local:  # the index of PyTorch alone was searched, which lacks other packages
        remedy = "add PyTorch's index to the usual one instead of replacing it: --extra-index-url"
        return CureResult(
            remedy=remedy, command=f"{PIP} install torch=={release} --extra-index-url {INDEX}{release.local}"
        )
    if "indexed" not in context.mentions and (found := _LOCAL_VERSION.search(context.line)):
        because = (f"versions with +{found['tag']} are not on PyPI",)
        index = f"--index-url {INDEX}{found['tag']}" if name.startswith("torch") else f"-f {_JAX_INDEX}"
        remedy = "add the index that has the builds for this CUDA"
        return CureResult(because=because, remedy=remedy, command=f"{PIP} install {found['asked']} {index}")
    if python := _last_supported_python(context, name):
        asked = f"{name}=={python[0]}"
        because = (f"{asked} has wheels up to Python {python[1]}",)
        run = f"conda run -n old-python python -m pip install {asked}"
        command = f"conda create -y -n old-python -c conda-forge python={python[1]} pip && {run}"
        return CureResult(
            because=because, remedy="use an environment with a Python for which it has wheels", command=command
        )
    if ignored := _ignored_release(context):
        says = f"pip ignores the releases for other Pythons: {ignored[0]} needs Python {ignored[1]}"
        return replace(
            _python_env_cure(context, ignored[1]), because=(says,), remedy="use an environment with such a Python"
        )
    module = name.replace("-", "_")
    wanted = _requirement_for(context, module) if name else ""
    return CureResult(command=f"{PIP} install {wanted}" if wanted and wanted != name else "")


def _ignored_release(context: LogContext) -> tuple[str, str] | None:
    """Return a release that pip ignored, and the Pythons that it needs, or ``None``."""
    asked = re.search(r"==([0-9][\w.+!]{0,30})", context.line)
    found = re.findall(r"([0-9][\w.+!]{0,30}) Requires-Python ([^;]{2,60})", context.mentions.get("ignored", ""))
    able = [one for one in found if not asked or one[0] == asked[1]]
    return (able[-1][0], able[-1][1].strip()) if able else None


@cure
def stub(context: LogContext) -> CureResult:
    """Explain a stub of TensorRT, whose older releases are stubs too."""
    if not context.groups.get("name", "").startswith("tensorrt"):
        return CureResult()
    remedy = "take a Python and a platform that the release supports; a Jetson has TensorRT from JetPack"
    return CureResult(remedy=remedy, command="")


@cure
def rust_script(context: LogContext) -> CureResult:
    """Suggest the system packages that the build scripts of common Rust crates need."""
    wanted = {"openssl-sys": "libssl-dev pkg-config", "prost-build": "protobuf-compiler", "alsa-sys": "libasound2-dev"}
    package = wanted.get(context.groups.get("name", ""))
    said = context.mentions.get("panic", "")
    because = (f"it says: {said}",) if said else ()
    return CureResult(because=because, command=f"sudo apt-get install -y {package}" if package else None)


@cure
def rust_refused(context: LogContext) -> CureResult:
    """The old cast of tokenizers, which Rust 1.73 and newer refuse unless they are told to allow it."""
    if "casting `&T`" not in context.line:
        return CureResult()
    remedy = "let the compiler accept the cast, or take a newer release of the package"
    return CureResult(remedy=remedy, command='export RUSTFLAGS="-A invalid_reference_casting"')


def _last_supported_python(context: LogContext, name: str) -> tuple[str, str] | None:
    """Return the requested release and the last Python with wheels of it, for TensorFlow and torch."""
    found = re.search(rf"\b{re.escape(name)}==(([0-9]+)\.([0-9]+)[\w.]{{0,12}})", context.line.replace("_", "-"))
    if not name or found is None:
        return None
    asked, major, minor = found[1], int(found[2]), int(found[3])
    last = provider(context, "wheels", f"{name.removesuffix('-gpu')}:{major}.{minor}")
    if name == "torchvision" and not major:
        torch = (2, minor - 15) if minor >= 15 else (1, minor - 1)
        last = next((row.pythons[-1] for row in context.knowledge.wheels if row.version.release[:2] == torch), "")
    return (asked, last) if last and context.mentions.get("python", "3.99") != last else None


_LOCAL_VERSION = regex(
    r"(?P<asked>(?:torch(?:vision|audio)?|jaxlib)==[0-9][\w.]{1,20}\+(?P<tag>cu[0-9]{2,3}|cpu|cuda[\w.]{1,20}))"
)
_JAX_INDEX = "https://storage.googleapis.com/jax-releases/jax_cuda_releases.html"


@cure
def package_pair(context: LogContext) -> CureResult:
    """Suggest the release of a package that still has, or already has, the missing name."""
    if context.groups.get("package") == "triton" and context.frame and context.frame.package == "torch":
        return CureResult(
            remedy="install the triton release that this torch requires", command=f'{PIP} install "$({_PRINT_TRITON})"'
        )
    package, name = context.groups.get("package", ""), context.groups.get("name", "")
    names = (name, name.partition(".")[0])
    older = next(filter(None, (provider(context, "name", f"{package}:{one}") for one in names)), "")
    return CureResult(command=f"{PIP} install {older}" if older else "")


@cure
def argument(context: LogContext) -> CureResult:
    """Suggest the release of the package whose function knows, or no longer gets, an argument."""
    found = _UNEXPECTED.search(context.line)
    function, name = (found[1], found[2]) if found else ("", "")
    wanted = provider(context, "argument", f"{function}:{name}") or provider(context, "argument", function)
    return CureResult(command=f"{PIP} install {wanted}" if wanted else "")


_UNEXPECTED = regex(r"(\w{2,60})(?:\.__init__)?\(\) got an unexpected keyword argument '(\w{1,60})'")
_CONSTRAINT = regex(r"__cuda\W{0,4}(?:version=\W{0,3})?>=\W{0,2}([0-9]{2}(?:\.[0-9]{1,2})?)\b")


@cure
def cuda_constraint(context: LogContext) -> CureResult:
    """Compare the ``__cuda`` version that a package needs with the driver; minor-version compatibility may suffice."""
    if "for which no candidates were found" in context.line:
        says = "pixi solves for a driver only if the project says that its machines have one"
        remedy = "add the driver's CUDA version to the project's system requirements"
        return CureResult(
            because=(says,),
            remedy=remedy,
            command=f"pixi workspace system-requirements add cuda {driver_cuda(context) or 12}",
        )
    if "nothing provides __cuda needed" in context.line:
        remedy = "on a machine without a driver, tell the solver the CUDA version of the driver that will run it"
        return CureResult(remedy=remedy, command=f"export CONDA_OVERRIDE_CUDA={driver_cuda(context) or '12.0'}")
    if "Virtual package '__cuda'" in context.line:
        remedy = "if this machine only installs, tell pixi the CUDA version of the driver that will run it"
        return CureResult(remedy=remedy, command=f"CONDA_OVERRIDE_CUDA={driver_cuda(context) or '12.0'} pixi install")
    found = _CONSTRAINT.search(context.line)
    asked = version_or_none(found[1]) if found else None
    if asked is None or asked.major not in {row.major for row in context.knowledge.floors}:
        return CureResult()
    level = driver_cuda(context)
    command = f"export CONDA_OVERRIDE_CUDA={found[1]}" if found else ""
    remedy = f"tell conda that the driver runs CUDA {asked}, and repeat the command"
    rest = context.line.replace(found[0] if found else "", "")
    if level is None and (seen := re.search(r"__cuda {0,2}[=-]? ?([0-9]{1,2}\.[0-9])", rest)):
        says = f"the solver sees a driver that supports CUDA {seen[1]}, and the package asks for {asked}"
        return CureResult(because=(says,), remedy=f"take a build for CUDA {seen[1]}, or update the driver", command="")
    if level is None:
        floor = next(row.driver for row in context.knowledge.floors if row.major == asked.major)
        says = f"the package needs __cuda {asked}, that is, driver {floor} or later"
        return CureResult(because=(says,), remedy=remedy, command=command)
    verdict = minimum_driver_verdict(context, asked)
    if level.major == asked.major and verdict.outcome != "reject":
        because = (
            f"the driver supports CUDA {level}, and the package asks for {asked}",
            f"machine code of every CUDA {asked.major}.x runs on this driver by minor-version compatibility",
        )
        return CureResult(because=because, remedy=remedy, command=command)
    runs = newest_supported_cuda(context)
    says = f"the driver supports CUDA {level}, and the package asks for {asked}"
    return CureResult(
        because=(says, text_with_code(verdict)), command=resolve_command(context, *([f"--cuda {runs}"] if runs else []))
    )


@cure
def conda_file(context: LogContext) -> CureResult:
    """Suggest a repair of the file that conda read, if there is one."""
    name = context.mentions.get("file", "environment.yml" if "ResolvePackageNotFound" in context.line else "")
    usual, platform = PLATFORMS[0], context.facts.platform if context.facts else PLATFORMS[0]
    says = f"the log is from {platform}, for which many packages of {usual} were never built"
    tree = context.mentions.get("tree", "")
    because = ((says,) if platform != usual else ()) + ((f"it says: {tree}",) if tree else ())
    if "listed" in context.mentions:
        says = "lines that end with =pypi_0 are pip packages in a conda list: no conda channel has them"
        remedy = (
            "remove those lines from the file and install the packages "
            "with pip, or correct the file with cuenv lock --repair"
        )
        because = (*because, says)
        if not name:
            return CureResult(because=because, remedy=remedy)
    if name:
        asked = f" --platform {platform}" if platform != usual else ""
        return CureResult(because=because, command=f"cuenv lock {quote(name)} --repair{asked} -o environment.new.yml")
    if "dependencies for platform" in context.line:  # so conda-build speaks, of a recipe
        remedy = "name the channel that has them (-c conda-forge), or loosen what the recipe asks for"
        return CureResult(because=because, remedy=remedy, command="")
    if "no candidates were found" in context.line:
        remedy = "add the channel that has it, mostly conda-forge, or request another version"
        return CureResult(because=because, remedy=remedy)
    other = re.search(r"nothing provides (?:requested )?([a-z_][\w.-]{1,60})", context.line)
    if other and not re.match(r"_|py?torch|torch|cuda|cudnn|nccl|tensorflow|jax|libcu|nvidia|python", other[1]):
        remedy = f"name the channel that has {other[1]} in that version, or take a newer build of what needs it"
        return CureResult(because=because, remedy=remedy)
    if platform == usual and (
        "torch" in context.mentions or "companions" in context.mentions or "torch" in context.line
    ):
        remedy = "let cuenv write a torch and a CUDA that fit together, and add the other packages to that file"
        return CureResult(because=because, remedy=remedy, command=resolve_command(context))
    return replace(_conda_request_cure(context), because=because)


def _conda_request_cure(context: LogContext) -> CureResult:
    """Suggest the libmamba solver or a new environment for a request without a file and without torch."""
    if "held" not in context.mentions and re.search(
        r"(?<!LibMamba)(?<!Rattler)UnsatisfiableError|(?:each other|your (?:system|CUDA driver)|in conflict)\b",
        context.line,
    ):
        remedy = (
            "solve with libmamba, which names the two requirements that exclude each other; "
            "the classic solver gives up and lists system versions that do fit"
        )
        return CureResult(remedy=remedy, command=_USE_LIBMAMBA)
    asked = context.mentions.get("asked", "")
    words = [word.strip("\"'") for word in asked.split() if word not in ("-y", "--yes")]
    if words and not re.search(r"not available|NotFound|nothing provides|perhaps a typo", context.line):
        remedy = "install it in its own environment, where nothing else pins versions, or request fewer packages"
        return CureResult(remedy=remedy, command=f"conda create -n apart {' '.join(map(quote, words))}")
    remedy = (
        "request fewer or looser versions; or write what you need "
        "in environment.yml, which cuenv lock --repair corrects"
    )
    return CureResult(remedy=remedy)


_USE_LIBMAMBA = (
    "conda update -y -n base conda && conda install -y -n base conda-libmamba-solver && "
    "conda config --set solver libmamba"
)


@cure
def asked_release(context: LogContext) -> CureResult:
    """Suggest the releases that the message names, except of torch."""
    package = context.groups.get("package", "")
    found = re.search(rf"\b{re.escape(package)} ?\(?((?:>=|==|<=|~=|!=|>|<) ?[0-9][\w.,<>=! *-]{{0,40}})", context.line)
    if not package or not found or package.lower().startswith(("torch", "pytorch", "python", "cuda", "nvidia")):
        return CureResult()
    wanted = re.match(r"(?:(?:>=|==|<=|~=|!=|>|<) ?[0-9][0-9a-z.*]*,? ?)+", found[1])
    if wanted:
        return CureResult(command=f"{PIP} install {quote(package + wanted[0].replace(' ', '').strip(',.'))}")
    return CureResult()


@cure
def uv_hint(context: LogContext) -> CureResult:
    """Suggest what uv proposes if its first index lacks the release, and quote its explanation."""
    found, tree = _uv_hint_cure(context), context.mentions.get("tree", "")
    local = _LOCAL_TORCH.search(tree)
    if local and not found.command and _is_built(context, local) and "indexed" not in context.mentions:
        says = f"versions with +{local['tag']} are only on PyTorch's index for {local['tag']}"
        index = f"export UV_EXTRA_INDEX_URL={INDEX}{local['tag']} UV_INDEX_STRATEGY=unsafe-best-match"
        found = CureResult(because=(says,), remedy="add that index to the usual one", command=index)
    return replace(found, because=(f"it says: {tree}", *found.because)) if tree else found


_LOCAL_TORCH = regex(
    r"(?:only the following versions of torch(?:vision|audio)? are available: [^+]* and "
    r".*(?:depends on|requires?)|there is no version of) "
    r"(?P<name>torch(?:vision|audio)?)==(?P<asked>[0-9.]+)\+(?P<tag>cu[0-9]{2,3}|cpu)\b"
)


def _is_built(context: LogContext, asked: re.Match[str]) -> bool:
    """Return whether the tables have wheels of a torch for a CUDA; they know no release of its companions."""
    rows = [row for row in context.knowledge.wheels if row.version.public == asked["asked"]]
    tags = {f"cu{row.cuda.major}{row.cuda.minor}" if row.cuda else "cpu" for row in rows}
    return asked["name"] != "torch" or not rows or asked["tag"] in {*tags, "cpu"}


def _uv_hint_cure(context: LogContext) -> CureResult:
    asked, python = version_or_none(context.mentions.get("unusable", "")), context.mentions.get("python", "")
    rows = [row for row in context.knowledge.wheels if asked and row.version == Version(asked.public)]
    if rows and python and python not in rows[-1].pythons:
        pythons = rows[-1].pythons
        says = f"torch {rows[-1].version} has wheels for Python {pythons[0]} to {pythons[-1]}, not for {python}"
        remedy = "create the environment with a Python for which this torch has wheels, and install again"
        return CureResult(because=(says,), remedy=remedy, command=f"uv venv --python {pythons[-1]}")
    if (index := context.mentions.get("lone")) and context.mentions.get("manager") == "uv":
        says = "PyTorch's index replaced PyPI, but has only torch and its dependencies"
        return CureResult(
            because=(says,), command=f"uv add {context.mentions.get('added', 'torch')} --index {INDEX}{index}"
        )
    if context.mentions.get("hint") not in ("unsafe-best-match", "--extra-index-url"):
        return CureResult()
    says = "uv uses only the first index that has a package"
    return CureResult(because=(says,), command="export UV_INDEX_STRATEGY=unsafe-best-match")


@cure
def solver_glibc(context: LogContext) -> CureResult:
    """Suggest the glibc of the machine for pixi's solve, if the log names it."""
    libc = context.facts.libc if context.facts else None
    if "tags" in context.line or context.mentions.get("manager") not in ("pixi", None) or "__glibc" not in context.line:
        return CureResult()
    if libc is None or "Virtual package" not in context.line:
        return CureResult()
    remedy = f"let pixi solve for glibc {libc.version}, with older releases if they exist"
    return CureResult(remedy=remedy, command=f"pixi workspace system-requirements add glibc {libc.version}")


@cure
def uv_wheel(context: LogContext) -> CureResult:
    """Suggest an older release if glibc is too old for the wheel."""
    groups = context.groups
    if context.mentions.get("hint") != "manylinux" or not groups.get("package"):
        return CureResult()
    return CureResult(command=f"uv add '{groups['package']}<{groups['version']}'")


@cure
def strict_priority(context: LogContext) -> CureResult:
    """Suggest the setting of pixi where pixi solves."""
    if context.mentions.get("manager") != "pixi" and "due to strict" not in context.line:  # the words of its solver
        return CureResult()
    remedy = (
        "put the channel that has the needed versions first in the manifest, or set channel-priority to disabled there"
    )
    return CureResult(remedy=remedy, command="")


@cure
def other_python(context: LogContext) -> CureResult:
    """Suggest an environment with the newest Python that the message allows."""
    found = re.search(r"(?:not in '|requirement: `)([^'`\n]{1,60})['`]", context.line)
    values = {} if "package" in context.groups else {"package": "the project"}
    return replace(_python_env_cure(context, found[1] if found else ""), values=values)


def _python_env_cure(context: LogContext, range_: str) -> CureResult:
    """Suggest an environment with a Python in a range, preferably one with most wheels."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # noqa: PLC0415 - for few messages

    try:
        wanted = SpecifierSet(range_) if range_ else None
    except InvalidSpecifier:
        wanted = None
    able = [minor for minor in range(14, 6, -1) if wanted and f"3.{minor}.9" in wanted]
    if not able:
        return CureResult()
    python = f"3.{next((minor for minor in able if minor <= _COMMON), able[0])}"
    if context.mentions.get("manager") == "uv":
        return CureResult(command=f"uv venv --python {python}")
    name = f"py{python.replace('.', '')}"
    return CureResult(command=f"conda create -y -n {name} python={python} && conda activate {name}")


_COMMON = 12  # the minor release of Python for which nearly every package has wheels
_LAST_WITH = {"tp_print": "3.8", "longintrepr.h": "3.10", "PyFrameObject": "3.10", "_frame": "3.10", "ob_digit": "3.11"}
"""The last Python with a field or a header of its C interface."""


@cure
def python_too_new(context: LogContext) -> CureResult:
    """Suggest a setuptools that supports this Python, or an older Python for removed C fields."""
    if "ImpImporter" in context.line:
        return CureResult(command=f"{PIP} install --upgrade pip setuptools")
    last = next((python for name, python in _LAST_WITH.items() if name in context.line), "")
    if not last:
        return CureResult()
    return CureResult(
        because=(f"the sources are written for Python {last} and older",),
        command=f"conda create -n old-python python={last}",
    )
