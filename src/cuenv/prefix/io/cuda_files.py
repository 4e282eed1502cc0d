"""Read the CUDA of an environment from its files: SONAMEs, NEEDED entries, headers and RECORD files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from packaging.version import Version

from cuenv.binary.data import BinaryError
from cuenv.binary.io.binaries import linkage, scan
from cuenv.core.io.files import is_file, names_in, text_at
from cuenv.core.record import dataclass
from cuenv.core.regex import regex
from cuenv.core.versions import minor, version, version_or_none
from cuenv.prefix.cuda_files import NO_PACKAGE, CudaFiles, Header, InstalledCudaLibrary, family
from cuenv.prefix.device_code import TORCH, CodeFile
from cuenv.prefix.inventory import Prefix, Wheel, matching_wheel
from cuenv.prefix.io.conda_meta import InstalledTorch, built_extensions, files_of, find_torch, text_of

_TORCH_LIBRARIES = regex(r"lib(torch_cuda\w*|torch_cpu|torch_nvshmem|c10_cuda|torch_global_deps)\.so")
_REQUIRES = regex(r"^Requires-Dist: *(nvidia-[a-z0-9-]+) *\(?==([^;,)\s]{1,40})\)? *(?:;(.*))?$", re.MULTILINE)
_HERE = regex(r"""platform_system *== *["'](\w+)["'](?: and platform_machine *== *["'](\w+)["'])?""")
_DEFINES = {
    "cudnn": ("cudnn_version.h", re.compile(r"^#define +CUDNN_(MAJOR|MINOR|PATCHLEVEL) +(\d{1,4})", re.MULTILINE)),
    "nccl": ("nccl.h", re.compile(r"^#define +NCCL_(MAJOR|MINOR|PATCH) +(\d{1,4})", re.MULTILINE)),
}
_PACKAGES = {
    "cudart": ("cuda-cudart", "cudatoolkit"),
    "cudnn": ("libcudnn", "cudnn"),
    "nccl": ("nccl",),
    "nvcc": ("cuda-nvcc", "cuda-nvcc-tools", "cuda-toolkit", "cuda-compiler", "cudatoolkit-dev"),
}


def read_cuda_files(prefix: Prefix, known: Iterable[str] = ()) -> CudaFiles:
    """What the files of an environment say about CUDA.

    Args:
        known: names of libraries that use PyTorch, whose versions are included.
    """
    torch = find_torch(prefix)
    cuda = version_or_none(torch.cuda) if torch else None
    owners = _owners(prefix)
    wheels = [wheel for wheel in prefix.wheels if wheel.name == "torch"]
    wheel = matching_wheel(wheels, torch.version if torch else None) if wheels else None
    by_pip = wheel is not None and (wheel.conda is None or wheel.replaced)
    versions = {item.name: item.version for item in prefix.conda} | {item.name: item.version for item in prefix.wheels}
    return CudaFiles(
        torch=torch.version if torch else None,
        cuda=minor(cuda) if cuda else None,
        by_pip=by_pip,
        needed=tuple(_needed_sonames(prefix, torch)),
        requires=tuple(_pinned_wheels(wheel)) if wheel and by_pip else (),
        libraries=tuple(_libraries(prefix, torch, owners)),
        shared=tuple((path, names) for path, names in sorted(owners.items()) if len(names) > 1 and is_file(path)),
        headers=tuple(_headers(prefix)),
        nvcc=_nvcc(prefix),
        extensions=tuple(sorted((name, versions[name]) for name in set(known) if name in versions)),
    )


def _owners(prefix: Prefix) -> dict[str, tuple[str, ...]]:
    """The NVIDIA libraries that wheels list in their RECORD, each with the names of these wheels."""
    found: dict[str, tuple[str, ...]] = {}
    for wheel in prefix.wheels:
        if not wheel.name.startswith("nvidia-"):
            continue
        for name in files_of(wheel):
            if name.startswith("nvidia/") and family(name.rpartition("/")[2]):
                path = os.path.realpath(f"{wheel.folder}/{name}")
                found[path] = (*found.get(path, ()), wheel.name)
    return found


def _libraries(
    prefix: Prefix, torch: InstalledTorch | None, owners: Mapping[str, tuple[str, ...]]
) -> Iterator[InstalledCudaLibrary]:
    versions = {wheel.name: wheel.version for wheel in prefix.wheels}
    names: dict[str, list[tuple[str, str]]] = {}
    for folder, source in _folders(prefix, torch):
        for name in names_in(folder):
            path = os.path.realpath(folder / name)
            if family(name) and is_file(path):
                names.setdefault(path, []).append((name, source))
    for path, called in names.items():
        dynamic = linkage(Path(path))
        if dynamic is None:
            continue
        first, source = called[0]
        owner = owners.get(path, (source,))[-1]
        known = versions.get(owner) or (_conda_version(prefix, family(first) or "") if owner == "conda" else None)
        yield InstalledCudaLibrary(
            path=path,
            soname=dynamic.soname or first,
            source=owner,
            version=known,
            names=tuple(dict.fromkeys(name for name, _ in called)),
        )


def _folders(prefix: Prefix, torch: InstalledTorch | None) -> Iterator[tuple[Path, str]]:
    """The folders with NVIDIA's libraries, and the source of files that no wheel lists."""
    base = Path(prefix.path)
    if prefix.kind == "conda":
        yield base / "lib", "conda"
        for target in names_in(base / "targets"):
            yield base / "targets" / target / "lib", "conda"
    for site in prefix.site_packages:
        for name in names_in(Path(site) / "nvidia"):
            yield Path(site) / "nvidia" / name / "lib", NO_PACKAGE
    if torch:
        yield torch.folder / "lib", "torch"


def _conda_version(prefix: Prefix, kind: str) -> str | None:
    """The version of the conda package that contains a library."""
    packages = (prefix.package(name) for name in _PACKAGES.get(kind, ()))
    return next((package.version for package in packages if package), None)


def _needed_sonames(prefix: Prefix, torch: InstalledTorch | None) -> Iterator[str]:
    """The SONAMEs of NVIDIA's libraries that torch's libraries need, each once."""
    if torch is None:
        return
    told: dict[str, None] = {}
    for folder in (torch.folder / "lib", Path(prefix.path) / "lib"):
        if folder == Path(prefix.path) / "lib" and prefix.kind != "conda":
            continue
        for name in names_in(folder):
            dynamic = linkage(folder / name) if _TORCH_LIBRARIES.fullmatch(name) else None
            told.update(dict.fromkeys(item for item in (dynamic.needed if dynamic else ()) if family(item)))
    yield from told


def _pinned_wheels(wheel: Wheel) -> Iterator[tuple[str, str]]:
    """The NVIDIA wheels that torch's METADATA pins on this platform, with their versions."""
    holds: dict[str, bool] = {"": True}
    for name, number, marker in _REQUIRES.findall(text_of(wheel, "METADATA")):
        if marker not in holds:
            holds[marker] = _marker_holds(marker)
        if holds[marker]:
            yield name, number


def _marker_holds(marker: str) -> bool:
    """Whether a marker is true here; torch's markers have one form, for which the parser need not be loaded."""
    found = _HERE.fullmatch(marker.strip())
    if found:
        return found[1] == "Linux" and found[2] in (None, os.uname().machine)
    from packaging.markers import InvalidMarker, Marker  # noqa: PLC0415 - only for other markers than torch's

    try:
        return Marker(marker.strip()).evaluate({"extra": ""})
    except InvalidMarker:
        return False


def _headers(prefix: Prefix) -> Iterator[Header]:
    base = Path(prefix.path)
    folders = [base / "include", *(base / "targets" / name / "include" for name in names_in(base / "targets"))]
    folders = folders if prefix.kind == "conda" else []
    for site in prefix.site_packages:
        folders += [Path(site) / "nvidia" / name / "include" for name in names_in(Path(site) / "nvidia")]
    for kind, (name, pattern) in _DEFINES.items():
        for folder in folders:
            numbers = dict(pattern.findall(text_at(folder / name)))
            last = numbers.get("PATCHLEVEL", numbers.get("PATCH", "0"))
            if "MAJOR" in numbers and "MINOR" in numbers:
                told = version(f"{numbers['MAJOR']}.{numbers['MINOR']}.{last}")
                yield Header(family=kind, version=told, path=str(folder / name))


def _nvcc(prefix: Prefix) -> tuple[Version, str] | None:
    """The release of the environment's nvcc, by its package, and its path."""
    found: list[tuple[str, str]] = []
    path = f"{prefix.path}/bin/nvcc"
    if is_file(path):
        packages = (prefix.package(name) for name in _PACKAGES["nvcc"])
        found += [(package.version, path) for package in packages if package]
    for wheel in prefix.wheels:
        if wheel.name.startswith("nvidia-cuda-nvcc"):
            places = (f"{wheel.folder}/nvidia/{name}/bin/nvcc" for name in names_in(f"{wheel.folder}/nvidia"))
            found += [(wheel.version, place) for place in places if is_file(place)]
    for text, place in found:
        try:
            return version(text), place
        except ValueError:  # noqa: PERF203 - the next may be a version
            continue
    return None


_TORCH_FILES = regex(r"lib(torch_cuda\w*|torch_nvshmem)\.so")
_ON_TORCH = regex(r"^Requires-Dist: *torch(?![\w-])", re.MULTILINE)
_DECLARED = regex(r"CF_TORCH_CUDA_ARCH_LIST=[\"']?([0-9a-z.;+ PTX]{1,400})")
_MOST = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeFiles:
    """The libraries with device code, unreadable ones with the reason, and the targets that a script declares."""

    files: tuple[CodeFile, ...]
    unreadable: tuple[tuple[str, str], ...]
    declared: str | None
    script: str


def find_code_files(prefix: Prefix, known: frozenset[str], environ: Mapping[str, str], cuda: str | None) -> CodeFiles:
    """Scan the libraries of torch and of the extensions for device code.

    Args:
        known: distributions to scan although their metadata does not name torch.
        environ: TORCH_EXTENSIONS_DIR and HOME name the folder of extensions that were compiled on first use.
        cuda: torch's CUDA release, which is part of the name of that folder.
    """
    files: list[CodeFile] = []
    unreadable: list[tuple[str, str]] = []
    seen: set[str] = set()
    built = [
        (f"{Path(path).stem} (compiled on first use)", None, path) for path in built_extensions(prefix, environ, cuda)
    ]
    for library, number, path in [*_torch_code(prefix), *_wheel_code(prefix, known), *built]:
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
    declared, script = _declared_targets(prefix)
    return CodeFiles(files=tuple(files), unreadable=tuple(unreadable), declared=declared, script=script)


def _torch_code(prefix: Prefix) -> Iterator[tuple[str, str | None, str]]:
    torch = find_torch(prefix)
    if torch is None:
        return
    folders = [torch.folder / "lib", *([Path(prefix.path) / "lib"] if prefix.kind == "conda" else [])]
    for folder in folders:
        for name in names_in(folder):
            if _TORCH_FILES.fullmatch(name):
                yield TORCH, torch.version, str(folder / name)


def _wheel_code(prefix: Prefix, known: frozenset[str]) -> Iterator[tuple[str, str | None, str]]:
    """The shared objects of the distributions that use PyTorch, except NVIDIA's."""
    for wheel in prefix.wheels:
        if wheel.name == TORCH or wheel.name.startswith("nvidia-"):
            continue
        if wheel.name in known or _ON_TORCH.search(text_of(wheel, "METADATA")):
            shared = (name for name in files_of(wheel) if name.endswith(".so"))
            yield from ((wheel.name, wheel.version, f"{wheel.folder}/{name}") for name in shared)


def _declared_targets(prefix: Prefix) -> tuple[str | None, str]:
    folder = Path(prefix.path) / "etc/conda/activate.d"
    for name in names_in(folder)[:_MOST]:
        found = _DECLARED.search(text_at(folder / name)) if name.endswith(".sh") else None
        if found:
            return found[1].strip(), name
    return None, ""
