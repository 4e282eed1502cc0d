"""The torch that is already there, read from its files: it is never imported, which would take seconds."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from cuenv.core.io.files import is_file, names_in
from cuenv.core.io.process import Run, which
from cuenv.core.record import dataclass
from cuenv.core.regex import regex
from cuenv.host.facts import Evidence, FoundTorch, Gap
from cuenv.host.io.surroundings import read_small_file

ACTIVE = "active environment"
ON_PATH = "python on PATH"
TIMEOUT = 10.0

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
    if parse_conda_names(names_in(meta)):
        return "conda"
    return "unknown" if installer.reason else "pip"


def parse_installer(text: str) -> str | None:
    """``conda`` or ``pip`` by the INSTALLER file; other installers of wheels (uv, poetry) count as pip."""
    word = text.strip().lower()
    if not word:
        return None
    return "conda" if word in ("conda", "mamba") else "pip"


def parse_conda_names(names: Iterable[str]) -> bool:
    """Whether the file names in ``conda-meta`` contain a record of PyTorch."""
    return any(_CONDA_TORCH.fullmatch(name) for name in names)
