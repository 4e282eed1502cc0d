"""CUDA toolkits and host compilers on this machine.

A release is read from the toolkit's own files where they tell it; ``nvcc --version`` is run only where none does.
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
from cuenv.host.facts import Compiler, Evidence, FoundToolkit, Gap
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
