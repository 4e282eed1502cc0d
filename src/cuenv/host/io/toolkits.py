"""The CUDA toolkits, the host compilers and the torch on this machine.

A release is read from the toolkit's own files where they tell it; ``nvcc --version`` is run only where none does. torch
is read from its files, and never imported, which would take seconds.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from cuenv.core.io.files import is_file, is_folder, names_in
from cuenv.core.io.process import Run, which
from cuenv.core.reading import describe
from cuenv.core.record import dataclass
from cuenv.core.regex import regex
from cuenv.host.facts import Compiler, Evidence, FoundToolkit, FoundTorch, Gap
from cuenv.host.io.surroundings import read_small_file

TIMEOUT = 10.0
_NUMBER = r"[0-9]{1,2}\.[0-9]{1,2}(?:\.[0-9]{1,4})?"
_VERSION_TXT = regex(rf"CUDA Version ({_NUMBER})\b")
_NVCC = regex(r"release ([0-9]{1,2}\.[0-9]{1,2})\b")
_HEADER = regex(r"^#define\s+CUDART_VERSION\s+([0-9]{4,6})\b", re.MULTILINE)
_CONDA = regex(r"cuda-nvcc(?:-tools|-impl|_linux-[a-z0-9]+)?-([0-9]{1,2}\.[0-9]{1,2})\.[0-9.]+-[^-]*\.json")
_WRAPPED = regex(r"(/[^\s\"']{1,4096})/bin/nvcc\b")
_COMPILER = regex(r"[0-9]{1,3}(?:\.[0-9]{1,3}){0,2}")
_HEADERS = tuple(
    f"{folder}/cuda_runtime_api.h"
    for folder in ("include", "targets/x86_64-linux/include", "targets/sbsa-linux/include")
)
_COMPILERS = {
    "gcc": ("-dumpfullversion", "-dumpversion"),
    "g++": ("-dumpfullversion", "-dumpversion"),
    "clang": ("-dumpversion",),
}


@dataclass(frozen=True, slots=True)
class Tools:
    """Toolkits and compilers with their evidence and gaps."""

    toolkits: tuple[FoundToolkit, ...] = ()
    compilers: tuple[Compiler, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    gaps: tuple[Gap, ...] = ()


def find_toolkits(environ: Mapping[str, str], root: Path, run: Run, *, deep: bool) -> Tools:
    """The CUDA toolkits, each real folder once.

    ``CUDA_HOME`` goes before ``nvcc`` on PATH and that before ``/usr/local/cuda*``, the order in which PyTorch's
    extension builder looks.

    Args:
        environ: for CUDA_HOME, CUDA_PATH and PATH.
        root: below it lies ``usr/local``.
        run: starts ``nvcc --version``.
        deep: look everywhere; else only for the nvcc that PATH finds.
    """
    nvcc = which("nvcc", environ)
    first = toolkit_root(nvcc) if nvcc else None
    found: dict[str, FoundToolkit] = {}
    evidence: list[Evidence] = []
    gaps: list[Gap] = []
    for via, folder in _candidates(environ, root, first) if deep else (("PATH", first),):
        real = os.path.realpath(folder) if folder else None
        if real is None or real in found:
            continue
        if not is_folder(real):
            gaps.append(Gap("toolkits", via, f"{folder}: no such folder"))
            continue
        on_path = nvcc is not None and real == first
        release, source = _release(real, nvcc if on_path else None, environ, run)
        if release is None:
            gaps.append(Gap(f"toolkits[{len(found)}].release", source, "no file there names a release"))
        else:
            evidence.append(Evidence(f"toolkits[{len(found)}].release", source, release))
        found[real] = FoundToolkit(path=real, release=release, on_path=on_path, via=via)
    return Tools(toolkits=tuple(found.values()), evidence=tuple(evidence), gaps=tuple(gaps))


def _candidates(environ: Mapping[str, str], root: Path, first: str | None) -> Iterator[tuple[str, str | None]]:
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if environ.get(name):
            yield name, environ[name]
    yield "PATH", first
    for path in sorted((root / "usr/local").glob("cuda*")):
        if re.fullmatch(r"cuda(-[0-9.]+)?", path.name) and is_folder(path):
            yield "directory", str(path)


def toolkit_root(nvcc: str) -> str:
    """The root of the toolkit of an nvcc; a wrapper script is followed to its nvcc."""
    real = os.path.realpath(nvcc)
    named = parse_wrapper(read_small_file(Path("/"), real.lstrip("/")).text[:4096])
    return os.path.realpath(named) if named and is_folder(named) else str(Path(real).parent.parent)


def parse_wrapper(text: str) -> str | None:
    """The toolkit in a wrapper script of nvcc; ``None`` for other text."""
    found = _WRAPPED.search(text) if text.startswith("#!") else None
    return found[1] if found else None


def _release(folder: str, nvcc: str | None, environ: Mapping[str, str], run: Run) -> tuple[str | None, str]:
    program = nvcc or f"{folder}/bin/nvcc"
    told = release_in(folder, program)
    if told or not is_file(program):
        return told or (None, folder)
    return parse_nvcc(run([program, "--version"], TIMEOUT, environ).out), f"{program} --version"


def release_in(folder: str, nvcc: str | None = None) -> tuple[str, str] | None:
    """The release of a toolkit by its files, and the file that contains it; ``None`` if no file does.

    Args:
        folder: its root.
        nvcc: its compiler; headers alone make no toolkit.
    """
    base = Path(folder)
    for name, parse in (("version.json", parse_version_json), ("version.txt", parse_version_txt)):
        release = parse(read_small_file(base, name).text)
        if release:
            return release, f"{folder}/{name}"
    if is_folder(base / "conda-meta"):
        release = parse_conda_names(names_in(base / "conda-meta"))
        if release:
            return release, f"{folder}/conda-meta"
    for name in _HEADERS if is_file(nvcc or f"{folder}/bin/nvcc") else ():
        release = parse_header(read_small_file(base, name).text)
        if release:
            return release, f"{folder}/{name}"
    return None


def parse_version_json(text: str) -> str | None:
    """The release in a toolkit's ``version.json`` (since 11.1)."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    cuda = data.get("cuda") if isinstance(data, dict) else None
    value = cuda.get("version") if isinstance(cuda, dict) else None
    return value if isinstance(value, str) and re.fullmatch(_NUMBER, value) else None


def parse_version_txt(text: str) -> str | None:
    """The release in a toolkit's ``version.txt`` (up to 11.0): ``CUDA Version 10.1.243``."""
    found = _VERSION_TXT.search(text)
    return found[1] if found else None


def parse_header(text: str) -> str | None:
    """The release in ``cuda_runtime_api.h``: 12.6 for CUDART_VERSION 12060."""
    found = _HEADER.search(text)
    return f"{int(found[1]) // 1000}.{int(found[1]) % 1000 // 10}" if found else None


def parse_conda_names(names: Iterable[str]) -> str | None:
    """The release of the nvcc package among the file names of ``conda-meta``."""
    matches = (_CONDA.fullmatch(name) for name in sorted(names))
    return next((match[1] for match in matches if match), None)


def parse_nvcc(text: str) -> str | None:
    """The release in the output of ``nvcc --version``."""
    found = _NVCC.search(text)
    return found[1] if found else None


def find_compilers(environ: Mapping[str, str], run: Run) -> Tools:
    """The host compilers on PATH."""
    found: list[Compiler] = []
    evidence: list[Evidence] = []
    gaps: list[Gap] = []
    for name, question in _COMPILERS.items():
        path = which(name, environ)
        if path is None:
            continue
        done = run([path, *question], TIMEOUT, environ)
        number = parse_compiler(done.out)
        source = f"{path} {' '.join(question)}"
        if number is None:
            gaps.append(Gap(f"compilers.{name}", source, done.reason or f"unusable answer {describe(done.out)}"))
            continue
        evidence.append(Evidence(f"compilers[{len(found)}]", source, number))
        found.append(Compiler(name=name, path=path, version=number))
    return Tools(compilers=tuple(found), evidence=tuple(evidence), gaps=tuple(gaps))


def parse_compiler(text: str) -> str | None:
    """The version in the output of ``gcc -dumpfullversion`` or ``clang -dumpversion``."""
    words = text.split()
    return words[0] if words and _COMPILER.fullmatch(words[0]) else None


ACTIVE = "active environment"
ON_PATH = "python on PATH"

_ASSIGNED = regex(
    r"^(__version__|cuda)(?:[ \t]*:[^=\n]{1,60})?[ \t]*=[ \t]*(None|'[^'\n]*'|\"[^\"\n]*\")", re.MULTILINE
)
_TEXT = regex(r"[\w.+!-]{1,64}", re.ASCII)
_CONDA_TORCH = regex(r"pytorch(?:-gpu|-cpu)?-[0-9][^/]*\.json")


@dataclass(frozen=True, slots=True)
class TorchFiles:
    """The installations of torch with their evidence and gaps."""

    torch: tuple[FoundTorch, ...]
    evidence: tuple[Evidence, ...]
    gaps: tuple[Gap, ...]


def find_torch(environ: Mapping[str, str], run: Run) -> TorchFiles:
    """The torch of the active environment, and that of ``python`` on PATH if it is another."""
    found: list[FoundTorch] = []
    evidence: list[Evidence] = []
    gaps: list[Gap] = []
    seen: set[str] = set()
    for where, prefix in _prefixes(environ, run):
        real = os.path.realpath(prefix)
        if real in seen:
            continue
        seen.add(real)
        for folder in _packages(prefix, environ):
            answer = read_small_file(folder, "torch/version.py")
            if answer.reason == "no such file":
                continue
            source = f"{folder}/torch/version.py"
            torch = parse_version_py(answer.text)
            if torch is None:
                gaps.append(Gap("torch", source, answer.reason or "it names no version"))
                continue
            version, cuda = torch
            origin = _origin(Path(prefix), folder, version)
            evidence.append(Evidence(f"torch[{len(found)}]", source, f"{version}, CUDA {cuda or 'none'}"))
            found.append(FoundTorch(where=where, path=prefix, version=version, cuda=cuda, origin=origin))
            break
    return TorchFiles(tuple(found), tuple(evidence), tuple(gaps))


def _prefixes(environ: Mapping[str, str], run: Run) -> Iterator[tuple[str, str]]:
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if environ.get(name):
            yield ACTIVE, environ[name]
    python = which("python", environ) or which("python3", environ)
    if python is None:
        return
    if read_small_file(Path("/"), python.lstrip("/")).text.startswith("#!"):  # a shim of pyenv or the like
        answer = run([python, "-I", "-c", "import sys; print(sys.prefix)"], TIMEOUT, environ).out.strip()
        if answer.startswith("/") and answer.isprintable():
            yield ON_PATH, answer
    else:
        yield ON_PATH, python_prefix(python)


def python_prefix(python: str) -> str:
    """The prefix of an interpreter: that of its venv, otherwise the folder of the real file."""
    prefix = str(Path(python).parent.parent)
    if is_file(f"{prefix}/pyvenv.cfg"):
        return prefix
    return str(Path(os.path.realpath(python)).parent.parent)


def _packages(prefix: str, environ: Mapping[str, str]) -> Iterator[Path]:
    """The folders that may contain torch, in Python's order."""
    base = Path(prefix)
    names = sorted(path.name for path in base.glob("lib/python3.*"))
    real = Path(os.path.realpath(base / "bin/python3")).name
    for name in [real] if real in names else names:
        if environ.get("HOME") and not is_file(f"{prefix}/pyvenv.cfg"):
            yield Path(environ["HOME"]) / ".local/lib" / name / "site-packages"
        yield base / "lib" / name / "site-packages"
        yield base / "lib64" / name / "site-packages"
        yield base / "local/lib" / name / "dist-packages"
    yield base / "lib/python3/dist-packages"


def parse_version_py(text: str) -> tuple[str, str | None] | None:
    """The version and CUDA release in ``torch/version.py``; ``None`` without a version."""
    values: dict[str, str] = {}
    for name, value in _ASSIGNED.findall(text):
        values[name] = "" if value == "None" else value[1:-1]
    version, cuda = values.get("__version__", ""), values.get("cuda", "")
    if not _TEXT.fullmatch(version):
        return None
    return version, cuda if _TEXT.fullmatch(cuda) else None


def _origin(prefix: Path, folder: Path, version: str) -> str:
    """The installer of torch, by its INSTALLER file or conda's records.

    PyPI's wheels name their CUDA (``+cu130``) in ``torch/version.py`` but not in their metadata.
    """
    installer = read_small_file(folder, f"torch-{version}.dist-info/INSTALLER")
    if installer.reason:
        installer = read_small_file(folder, f"torch-{version.partition('+')[0]}.dist-info/INSTALLER")
    known = parse_installer(installer.text)
    if known:
        return known
    meta = prefix / "conda-meta"
    if has_torch_record(names_in(meta)):
        return "conda"
    return "unknown" if installer.reason else "pip"


def parse_installer(text: str) -> str | None:
    """``conda`` or ``pip`` by the INSTALLER file; other installers of wheels (uv, poetry) count as pip."""
    word = text.strip().lower()
    if not word:
        return None
    return "conda" if word in ("conda", "mamba") else "pip"


def has_torch_record(names: Iterable[str]) -> bool:
    """Whether the file names in ``conda-meta`` contain a record of PyTorch."""
    return any(_CONDA_TORCH.fullmatch(name) for name in names)
