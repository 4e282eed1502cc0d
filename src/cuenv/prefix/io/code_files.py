"""Which files of an environment hold device code: torch's own, and those of distributions that sit on torch."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cuenv.binary.data import BinaryError
from cuenv.binary.io.binaries import scan
from cuenv.core.io.files import is_file, names_in
from cuenv.host.io.system import read
from cuenv.prefix.device_code import TORCH, CodeFile
from cuenv.prefix.inventory import Prefix
from cuenv.prefix.io.distributions import files_of, find_torch_here, text_of

_TORCH_FILES = re.compile(r"lib(torch_cuda\w*|torch_nvshmem)\.so")
_ON_TORCH = re.compile(r"^Requires-Dist: *torch(?![\w-])", re.MULTILINE)
_DECLARED = re.compile(r"CF_TORCH_CUDA_ARCH_LIST=[\"']?([0-9a-z.;+ PTX]{1,400})")
_MOST = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeFiles:
    """The libraries with device code; those that cannot be read, with the reason; what the build says it holds."""

    files: tuple[CodeFile, ...]
    unreadable: tuple[tuple[str, str], ...]
    declared: str | None
    script: str


def find_code_files(prefix: Prefix, known: frozenset[str], environ: Mapping[str, str], cuda: str | None) -> CodeFiles:
    """Scan the libraries of torch and of what sits on it.

    Args:
        prefix: the environment.
        known: distributions that count although their metadata does not name torch.
        environ: for TORCH_EXTENSIONS_DIR and HOME: ops that were compiled on first use.
        cuda: torch's CUDA, which is in the name of that folder.
    """
    files: list[CodeFile] = []
    unreadable: list[tuple[str, str]] = []
    seen: set[str] = set()
    built = list(_built(prefix, environ, cuda))
    for library, number, path in [*_of_torch(prefix), *_of_wheels(prefix, known), *built]:
        real = os.path.realpath(path)
        if real in seen or not is_file(real):
            continue
        seen.add(real)
        try:
            code = scan(real)
        except BinaryError as error:
            if error.fault != "foreign":
                unreadable.append((path, error.reason))
            continue
        if code.holds_code:
            files.append(
                CodeFile(library=library, version=number, path=path, code=code, built=(library, number, path) in built)
            )
    declared, script = _declared(prefix)
    return CodeFiles(files=tuple(files), unreadable=tuple(unreadable), declared=declared, script=script)


def _of_torch(prefix: Prefix) -> Iterator[tuple[str, str | None, str]]:
    torch = find_torch_here(prefix)
    if torch is None:
        return
    folders = [torch.folder / "lib", *([Path(prefix.path) / "lib"] if prefix.kind == "conda" else [])]
    for folder in folders:
        for name in names_in(folder):
            if _TORCH_FILES.fullmatch(name):
                yield TORCH, torch.version, str(folder / name)


def _of_wheels(prefix: Prefix, known: frozenset[str]) -> Iterator[tuple[str, str | None, str]]:
    """The shared objects that a distribution's RECORD lists, where it sits on torch; never those of NVIDIA's own."""
    for wheel in prefix.wheels:
        if wheel.name == TORCH or wheel.name.startswith("nvidia-"):
            continue
        if wheel.name in known or _ON_TORCH.search(text_of(wheel, "METADATA")):
            shared = (name for name in files_of(wheel) if name.endswith(".so"))
            yield from ((wheel.name, wheel.version, f"{wheel.folder}/{name}") for name in shared)


def _built(prefix: Prefix, environ: Mapping[str, str], cuda: str | None) -> Iterator[tuple[str, str | None, str]]:
    """What torch compiled on first use for this Python and this CUDA; another machine may have done it."""
    python = (prefix.python or "").replace(".", "")
    given, home = environ.get("TORCH_EXTENSIONS_DIR"), environ.get("HOME")
    root = Path(given) if given else Path(home or "/nowhere") / ".cache/torch_extensions"
    folders = [root] if given else []
    if cuda and python:
        folders.append(root / f"py{python}_cu{cuda.replace('.', '')}")
    for folder in folders:
        for name in names_in(folder)[:_MOST]:
            if is_file(folder / name / f"{name}.so"):
                yield f"{name} (compiled on first use)", None, str(folder / name / f"{name}.so")


def _declared(prefix: Prefix) -> tuple[str | None, str]:
    folder = Path(prefix.path) / "etc/conda/activate.d"
    for name in names_in(folder)[:_MOST]:
        if name.endswith(".sh") and is_file(folder / name):
            found = _DECLARED.search(read(folder, name).text)
            if found:
                return found[1].strip(), name
    return None, ""
