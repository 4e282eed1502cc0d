"""Whether the CUDA runtime, the compiler, cuDNN and NCCL of an environment match the CUDA of its torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from packaging.version import Version

from cuenv.core.findings import Finding, Severity
from cuenv.core.versions import minor, version_or_none
from cuenv.knowledge.rows import Extension
from cuenv.prefix.cuda_files import CudaFiles, Header, InstalledCudaLibrary, family, runtime_soname
from cuenv.prefix.fixes import (
    conda_install,
    conda_install_specs,
    conda_install_with_torch,
    pip_command,
    pip_install,
    restore_package,
)
from cuenv.prefix.inventory import Prefix
from cuenv.prefix.lock_comparison import same_version

_CODES = {"cudnn": "CU213", "nccl": "CU214"}
_OTHERS = "CU211"
_NAMES = {"cudart": "the CUDA runtime", "cudnn": "cuDNN", "nccl": "NCCL"}
_NVIDIA = ("nvidia-cudnn", "nvidia-nccl")


def runtime_findings(
    found: CudaFiles, prefix: Prefix, rows: Iterable[Extension], packages: Mapping[str, str]
) -> Iterator[Finding]:
    """Compare the CUDA of an environment with the torch in it (CU211 to CU214).

    Args:
        found: the CUDA files of the environment, whose torch is a CUDA build.
        rows: the libraries that compile with nvcc.
        packages: the package of each library, by the stem of its file name (``libcudart``).
    """
    yield from _missing_libraries(found, prefix, packages)
    yield from _older_runtime(found)
    yield from _pin_differences(found, prefix)
    yield from _newer_headers(found, prefix)
    yield from compiler_findings(found, prefix, rows)


def _missing_libraries(found: CudaFiles, prefix: Prefix, packages: Mapping[str, str]) -> Iterator[Finding]:
    """Report NVIDIA libraries that torch needs and that are missing, or installed in another major version.

    The loader accepts a file with the needed name, or a library that it has already loaded with that SONAME.
    """
    there = {name for library in found.libraries for name in (library.soname, *library.names)}
    asked = found.needed
    if found.cuda and not any(family(name) == "cudart" for name in asked):
        asked = (*asked, runtime_soname(found.cuda)) if _of_family("cudart", found) else asked
    lacking = [name for name in asked if name not in there]
    none = [name for name in lacking if not _of_family(family(name) or name, found)]
    together = [none] if len(none) > 1 else []  # they have one cause, and one command brings them all
    for names in (*together, *([name] for name in lacking if name not in none or not together)):
        kinds = [family(name) or name for name in names]
        others = _of_family(kinds[0], found) if names != none else []
        many = f"{len(names)} NVIDIA libraries that the environment does not have: {', '.join(names)}"
        has = f"has {', '.join(other.label for other in others)}" if others else "does not have it"
        needs = many if len(names) > 1 else f"{names[0]}, but the environment {has}"
        elsewhere = not others and prefix.kind == "python"
        brings = list(dict.fromkeys(packages.get(f"lib{kind}", "") for kind in kinds))
        yield Finding(
            code=_OTHERS if len(names) > 1 else _CODES.get(kinds[0], _OTHERS),
            severity="info" if elsewhere else "error",
            subject=", ".join(names),
            message=f"torch {found.torch} (CUDA {found.cuda}) needs {needs}",
            evidence=tuple(other.path for other in others),
            fix=None if elsewhere else _install_libraries(brings, found, prefix, wrong=bool(others)),
        )


def _install_libraries(names: Sequence[str], found: CudaFiles, prefix: Prefix, *, wrong: bool = False) -> str:
    """The command that installs libraries: the wheels that torch pins, or conda's packages for the installed torch.

    Args:
        names: the packages of the libraries; an empty name where the tables have none.
        wrong: whether another release of the library is installed.
    """
    if found.by_pip:
        pinned = {name: f"{name}=={number}" for name, number in found.requires}
        wanted = [pinned[name] for name in names if name in pinned]
        complete = wanted if len(wanted) == len(names) else list(pinned.values())
        return pip_install(prefix, *(complete or [f"torch=={found.torch}"]), index=found.torch or "")
    known = [name for name in names if name]
    if len(names) > 1 or wrong or not known:
        return conda_install_with_torch(prefix, *known)
    return conda_install(prefix, known[0])


def _of_family(kind: str, found: CudaFiles) -> list[InstalledCudaLibrary]:
    return [library for library in found.libraries if family(library.soname) == kind]


def _older_runtime(found: CudaFiles) -> Iterator[Finding]:
    """Report a CUDA runtime that is older than the CUDA release that torch was built with."""
    for library in _of_family("cudart", found):
        release = version_or_none(library.version)
        if found.cuda and release and release.major == found.cuda.major and minor(release) < found.cuda:
            yield Finding(
                code="CU211",
                severity="warning",
                subject=library.soname,
                message=f"torch {found.torch} was built with CUDA {found.cuda}, but {library.label} is older",
                evidence=(library.path,),
            )


def _pin_differences(found: CudaFiles, prefix: Prefix) -> Iterator[Finding]:
    """Report NVIDIA wheels in another version than torch's METADATA pins."""
    have = {wheel.name: wheel.version for wheel in prefix.wheels} if found.by_pip else {}
    other: dict[str, list[tuple[str, str, str]]] = {}
    for name, number in found.requires:
        mine = have.get(name)
        if mine is not None and not same_version(mine, number):
            kind = next((item.removeprefix("nvidia-") for item in _NVIDIA if name.startswith(item)), "")
            other.setdefault(_CODES.get(kind, _OTHERS), []).append((name, number, mine))
    for code, rows in other.items():
        name, number, mine = rows[0]
        more = f"; {len(rows) - 1} more of NVIDIA's wheels differ from its pins" if len(rows) > 1 else ""
        yield Finding(
            code=code,
            severity="warning",
            subject=name,
            message=f"torch {found.torch} pins {name} {number}, but {mine} is installed{more}",
            evidence=tuple(f"{name} {mine}, but pinned {number}" for name, number, mine in rows),
            fix=pip_install(prefix, *(f"{name}=={number}" for name, number, _ in rows)),
        )


def _newer_headers(found: CudaFiles, prefix: Prefix) -> Iterator[Finding]:
    """Report headers that are newer than their library: code may compile and then lack a function at run time."""
    for header in found.headers:
        releases = {
            release: item for item in _of_family(header.family, found) if (release := version_or_none(item.version))
        }
        newest = max(releases, default=None)
        if newest and header.version.release[:2] > newest.release[:2]:
            yield Finding(
                code=_CODES.get(header.family, _OTHERS),
                severity="warning",
                subject=header.family,
                message=f"the header of {_NAMES[header.family]} is of {header.version}, the library of {newest}: "
                "what is compiled here may need what the library does not have",
                evidence=(header.path, releases[newest].path),
                fix=_same_release_command(header, prefix) if prefix.kind == "conda" else None,
            )


def _same_release_command(header: Header, prefix: Prefix) -> str:
    names = ("libcudnn", "cudnn") if header.family == "cudnn" else (header.family,)
    name = next((item for item in names if prefix.package(item)), names[0])
    library, holders = prefix.package(name), map(prefix.package, (f"{name}-dev", "cudnn"))
    newer = any(holder and version_or_none(holder.version) == header.version for holder in holders)
    if library and not newer:  # the header is not that of its own package
        return restore_package(library, prefix)
    return conda_install_specs(prefix, f"{name}={minor(header.version)}.*")


def compiler_findings(found: CudaFiles, prefix: Prefix, rows: Iterable[Extension]) -> Iterator[Finding]:
    """Report an nvcc of another CUDA release than torch's, if torch or an installed library refuses it (CU212)."""
    if found.nvcc is None or found.cuda is None:
        return
    nvcc, path, same = minor(found.nvcc[0]), found.nvcc[1], _same_nvcc_command(found.cuda, prefix)
    if nvcc.major != found.cuda.major:
        text = (
            f"nvcc is from CUDA {nvcc}, but torch was built with CUDA {found.cuda}; torch refuses to build "
            "extensions with another CUDA major version"
        )
        yield _nvcc_finding("error", "nvcc", text, path, same)
        return
    refused = False
    installed = dict(found.extensions)
    for row in rows:
        release = version_or_none(installed.get(row.package))
        if row.nvcc and release and row.covers(release) and row.refuses(found.cuda, nvcc):
            refused = True
            text = f"{row.package} {release} refuses nvcc {nvcc} with a torch built with CUDA {found.cuda}"
            yield _nvcc_finding("error", row.package, text, path, same)
    if nvcc != found.cuda and not refused:
        text = (
            f"nvcc is from CUDA {nvcc}, but torch was built with CUDA {found.cuda}; torch only warns of "
            "another minor version"
        )
        yield _nvcc_finding("info", "nvcc", text, path, None)


def _same_nvcc_command(cuda: Version, prefix: Prefix) -> str:
    """How to get the nvcc of torch's CUDA release; there is a wheel with nvcc since CUDA 13."""
    if prefix.kind == "conda":
        return conda_install_specs(prefix, f"cuda-nvcc={cuda}")
    if cuda.major >= 13:
        return pip_command(prefix, "install", f"nvidia-cuda-nvcc=={cuda}.*")
    return f"install a CUDA {cuda} toolkit and export CUDA_HOME=DIR"


def _nvcc_finding(severity: Severity, subject: str, text: str, path: str, fix: str | None) -> Finding:
    return Finding(code="CU212", severity=severity, subject=subject, message=text, evidence=(path,), fix=fix)


def runtime_summary(found: CudaFiles) -> str:
    """The versions of torch, the runtime, cuDNN, NCCL and nvcc in one line."""
    parts = []
    for kind in ("cudart", "cudnn", "nccl"):
        copies = list(dict.fromkeys(library.label for library in _of_family(kind, found)))
        parts.append(", ".join(copies) if copies else f"no {_NAMES[kind].removeprefix('the ')}")
    parts.append(f"nvcc {found.nvcc[0]}" if found.nvcc else "no nvcc")
    return f"torch {found.torch} with CUDA {found.cuda}: {', '.join(parts)}"
