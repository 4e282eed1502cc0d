"""What must hold in every installed environment.

Its records are correct, it has one copy of a package and one source of a library, and its CUDA runtime, compiler, cuDNN
and NCCL match the CUDA of its torch.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence

from packaging.version import Version

from cuenv.core.findings import Finding, Severity, first_of
from cuenv.core.regex import regex
from cuenv.core.versions import minor, version_or_none
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import Extension
from cuenv.prefix.cuda_files import NO_PACKAGE, CudaFiles, Header, InstalledCudaLibrary, family, runtime_soname
from cuenv.prefix.fixes import (
    conda_install,
    conda_install_specs,
    conda_install_with_torch,
    pip_command,
    pip_install,
    reinstall_wheel,
    restore_package,
)
from cuenv.prefix.inventory import Prefix, Site, Wheel, matching_wheel
from cuenv.prefix.lock_comparison import same_version
from cuenv.solve.environment_spec import normalise

_CRITICAL = frozenset({"torch", "torchvision", "torchaudio", "triton", "numpy"})
"""Packages of which a second copy breaks the extensions that were compiled against the first."""
_SHOWN = 5
_RECORD = regex(r"([A-Za-z0-9_][A-Za-z0-9._-]*)-([A-Za-z0-9._!+]+)-([A-Za-z0-9._]+)\.json")
"""The file name of a record in conda-meta: name, version, build."""


def numpy_findings(prefix: Prefix, torch: str | None, knowledge: Knowledge) -> Iterator[Finding]:
    """Report NumPy 2 beside a torch that was compiled for NumPy 1, where every exchange of arrays fails (CU216).

    Builds of conda-forge declare which NumPy they need, so they are not judged here.
    """
    package, wheel = prefix.package("pytorch"), prefix.wheel("torch")
    mind = package is not None and package.channel_name == "conda-forge" and (wheel is None or bool(wheel.conda))
    numpy = prefix.wheel("numpy")
    built, there = version_or_none(torch), version_or_none(numpy.version) if numpy else None
    row = next((row for row in knowledge.conflicts if row.package == "numpy"), None)
    if numpy is None or built is None or there is None or mind or row is None:
        return
    if built.release[:2] >= row.torch_below.release[:2] or there.release[:2] < row.first.release:
        return
    own = prefix.package("numpy")
    by_conda = own is not None and bool(numpy.conda) and not numpy.replaced
    message = (
        f"torch {torch} was compiled for NumPy 1, but numpy {numpy.version} is installed: "
        "torch.from_numpy and Tensor.numpy fail with 'Numpy is not available'"
    )
    fix = conda_install_specs(prefix, "numpy<2") if by_conda else pip_command(prefix, "install", "numpy<2")
    evidence = (f"{numpy.folder}/{numpy.dist_info}",)
    yield Finding(code="CU216", severity="error", subject="numpy", message=message, evidence=evidence, fix=fix)


def prefix_findings(
    prefix: Prefix, sites: Iterable[Site], knowledge: Knowledge, names: Mapping[str, str], torch: str | None = None
) -> Iterator[Finding]:
    """Report contradictions inside an environment (CU204 to CU208).

    Args:
        sites: folders outside of it from which its Python also imports.
        names: the names on PyPI of conda packages whose names differ.
        torch: the release that torch's own files name.
    """
    yield from _overwritten_by_pip(prefix, knowledge, names)
    yield from _duplicates(prefix, torch)
    yield from _damaged_records(prefix)
    yield from _outside_packages(prefix, sites)


def _overwritten_by_pip(prefix: Prefix, knowledge: Knowledge, names: Mapping[str, str]) -> Iterator[Finding]:
    """Report distributions that pip installed over a conda package, whose record in conda-meta is no longer true."""
    gone = {wheel.name: wheel for wheel in prefix.removed}
    conda = {names.get(item.name) or normalise(item.name): item for item in prefix.conda}
    seen: set[str] = set()
    for wheel in prefix.wheels:
        package = prefix.package(wheel.conda) if wheel.conda else conda.get(wheel.name)
        if package is None and wheel.name in gone:
            package = prefix.package(gone[wheel.name].conda or "")
        if package is None or (wheel.conda and not wheel.replaced):
            continue
        seen.add(wheel.name)
        how = "overwrote its files" if wheel.replaced else "removed its files" if wheel.name in gone else "is beside"
        out = [pip_command(prefix, "uninstall", "-y", wheel.name)]
        by = wheel.installer if wheel.installer and wheel.installer != "conda" else "pip"
        grave = wheel.name in _CRITICAL or knowledge.cuda_variant(package.name, package.channel_name) is not None
        yield Finding(
            code="CU204",
            severity="error" if grave else "warning",
            subject=wheel.name,
            message=f"{by} installed {wheel.name} {wheel.version} over conda's {package.name} {package.version} "
            f"{package.build} and {how}",
            evidence=(f"{wheel.folder}/{wheel.dist_info}", f"conda-meta says {package.url}"),
            fix=" && ".join([*out * (1 + (how == "is beside")), restore_package(package, prefix)]),
        )
    for wheel in prefix.removed:
        package = prefix.package(wheel.conda or "")
        if wheel.name not in seen and package:
            yield Finding(
                code="CU205",
                severity="error",
                subject=package.name,
                message=f"conda-meta says that {package.name} {package.version} is installed, but its "
                f"{wheel.dist_info} was removed",
                evidence=(f"{wheel.folder}/{wheel.dist_info}",),
                fix=restore_package(package, prefix),
            )


def _duplicates(prefix: Prefix, torch: str | None) -> Iterator[Finding]:
    """Report distributions with two dist-info folders, neither of them conda's.

    torch's own files say which release they are; for other distributions the newest is kept.
    """
    copies: dict[str, list[Wheel]] = {}
    for wheel in prefix.wheels:
        copies.setdefault(wheel.name, []).append(wheel)
    gone = {wheel.name for wheel in prefix.removed}
    for name, wheels in copies.items():
        if len(wheels) > 1 and name not in gone and not any(wheel.conda for wheel in wheels):
            versions = ", ".join(wheel.version for wheel in wheels)
            yield Finding(
                code="CU206",
                severity="error" if name in _CRITICAL else "warning",
                subject=name,
                message=f"{name} is installed {len(wheels)} times: {versions}",
                evidence=tuple(f"{wheel.folder}/{wheel.dist_info}" for wheel in wheels),
                fix=_keep_one_record(prefix, wheels, torch if name == "torch" else None),
            )


def _keep_one_record(prefix: Prefix, wheels: list[Wheel], files: str | None) -> str:
    """The command that removes the other dist-info folders, on which pip fails, and reinstalls the kept release."""
    stays = matching_wheel(wheels, files)
    others = [f"{wheel.folder}/{wheel.dist_info}" for wheel in wheels if wheel is not stays]
    return f"{shlex.join(['rm', '-r', *others])} && {reinstall_wheel(prefix, stays)}"


def _damaged_records(prefix: Prefix) -> Iterator[Finding]:
    for path, reason, forbidden in prefix.damaged:
        name = path.rpartition("/")[2]
        record = _RECORD.fullmatch(name) if "/conda-meta/" in path else None
        quoted = shlex.quote(path)
        mend = f"rm -r {quoted}"
        if forbidden:
            mend = f"chmod a+r {quoted}"
        elif record:
            mend = (
                f"mv {quoted} {shlex.quote(path + '.bad')} && {conda_install_specs(prefix, '='.join(record.groups()))}"
            )
        yield Finding(
            code="CU207",
            severity="error" if "/conda-meta/" in path else "warning",
            subject=name,
            message=f"a record of the environment is damaged: {reason}",
            fix=mend if path.isprintable() else None,
        )


def _outside_packages(prefix: Prefix, sites: Iterable[Site]) -> Iterator[Finding]:
    """Report packages that Python imports from outside of the environment."""
    own = {wheel.name for wheel in prefix.wheels}
    torch = prefix.wheel("torch")
    inside = f"the environment's {torch.version}" if torch else ""
    for site in sites:
        shadowed = sorted({wheel.name for wheel in site.wheels} & own)
        if site.torch and (site.first or not inside):
            there = f"torch {site.torch} of {site.path} ({site.via})"
            told = (
                f"Python imports {there} instead of {inside}"
                if inside
                else f"Python imports {there}, because the environment has no torch"
            )
            severity: Severity = "error" if inside else "warning" if site.first else "info"
            yield _site_finding(prefix, site, "torch", told, severity)
        elif site.first and shadowed:
            told = f"Python finds {first_of(shadowed, _SHOWN)} in {site.path} ({site.via}) before the environment's"
            grave: Severity = "error" if _CRITICAL & set(shadowed) else "warning"
            yield _site_finding(prefix, site, site.via, told, grave)


def _site_finding(prefix: Prefix, site: Site, subject: str, message: str, severity: Severity) -> Finding:
    evidence = tuple(f"{wheel.name} {wheel.version}: {wheel.folder}/{wheel.dist_info}" for wheel in site.wheels[:20])
    return Finding(
        code="CU208",
        severity=severity,
        subject=subject,
        message=message,
        evidence=evidence,
        fix=_ignore_site_command(prefix, site),
    )


def _ignore_site_command(prefix: Prefix, site: Site) -> str | None:
    if site.via == "PYTHONPATH":
        return "unset PYTHONPATH"
    if site.via != "user site":
        return None
    words = ["conda", "env", "config", "vars", "set", "-p", prefix.path, "PYTHONNOUSERSITE=1"]
    return shlex.join(words) if prefix.kind == "conda" else "export PYTHONNOUSERSITE=1"


_SHOWN_FILES = 4


def library_source_findings(found: CudaFiles, prefix: Prefix) -> Iterator[Finding]:
    """Report NVIDIA libraries with one SONAME that several packages installed (CU210).

    Beside conda's torch, a second set from pip was not chosen by any solver. Beside a torch from pip, conda's set may
    be there for its compiler; the check of linkage says which file is loaded.
    """
    groups: dict[tuple[str, ...], dict[str, list[InstalledCudaLibrary]]] = {}
    for soname, copies in _by_soname(found.libraries).items():
        sources = tuple(sorted({copy.source for copy in copies}))
        if len(sources) > 1:
            kinds = tuple(source if source in ("conda", "torch") else "wheels" for source in sources)
            groups.setdefault(kinds, {})[soname] = copies
    for sonames in groups.values():
        copies = [copy for group in sonames.values() for copy in group]
        over_conda = any(copy.source == "conda" for copy in copies)
        listed = list(sonames)
        fix = _uninstall_copies(copies, prefix) if over_conda and not found.by_pip else None
        yield Finding(
            code="CU210",
            severity="error" if fix else "warning",
            subject=", ".join(listed[:_SHOWN_FILES]),
            message=f"{first_of(listed, _SHOWN_FILES)} {'is' if len(listed) == 1 else 'are'} there from "
            f"{' and '.join(_source_names(copies))}: which one is loaded depends on the search order",
            evidence=tuple(f"{copy.label}: {copy.path}" for copy in copies),
            fix=fix or "cuenv check -v says which file wins (check linkage)",
        )
    yield from _shared_file_findings(found, prefix)


def _uninstall_copies(copies: list[InstalledCudaLibrary], prefix: Prefix) -> str | None:
    """The command that removes all copies but those of conda and torch: wheels, and folders that no package owns."""
    wheels = sorted({copy.source for copy in copies if prefix.wheel(copy.source)})
    roots = tuple(f"{site}/nvidia/" for site in prefix.site_packages)
    nobodys = [copy.path.rpartition("/lib/")[0] for copy in copies if copy.source == NO_PACKAGE]
    parts = [pip_command(prefix, "uninstall", "-y", *wheels)] if wheels else []
    if nobodys and all(folder.startswith(roots) for folder in nobodys):  # a link may lead anywhere
        parts.append(shlex.join(["rm", "-r", *sorted(set(nobodys))]))
    return " && ".join(parts) or None


def _by_soname(libraries: Iterable[InstalledCudaLibrary]) -> dict[str, list[InstalledCudaLibrary]]:
    """The libraries grouped by the name that the loader searches; usually that is the SONAME."""
    found: dict[str, list[InstalledCudaLibrary]] = {}
    for library in libraries:
        names = library.names or (library.soname,)
        found.setdefault(library.soname if library.soname in names else names[0], []).append(library)
    return found


def _source_names(copies: list[InstalledCudaLibrary]) -> list[str]:
    """The sources with their versions for a message, conda's first."""
    names = dict.fromkeys(" ".join(filter(None, (copy.source, copy.version))) for copy in copies)
    kept = sorted(names, key=lambda name: (not name.startswith("conda"), name))
    return [*kept[:_SHOWN_FILES], *([f"{len(kept) - _SHOWN_FILES} more"] if len(kept) > _SHOWN_FILES else [])]


def _shared_file_findings(found: CudaFiles, prefix: Prefix) -> Iterator[Finding]:
    """Report files that several wheels list: the wheel installed last has overwritten the file of the other."""
    claims: dict[tuple[str, ...], list[str]] = {}
    for path, wheels in found.shared:
        claims.setdefault(wheels, []).append(path)
    for wheels, paths in claims.items():
        more = f" and {len(paths) - 1} more files" if len(paths) > 1 else ""
        yield Finding(
            code="CU210",
            severity="error",
            subject=", ".join(wheels),
            message=f"{' and '.join(wheels)} both contain {paths[0]}{more}: the one installed last overwrote the other",
            evidence=tuple(paths[:20]),
            fix=_keep_one_source(found, prefix, wheels),
        )


def _keep_one_source(found: CudaFiles, prefix: Prefix, wheels: tuple[str, ...]) -> str:
    """The command that removes both wheels and installs the one that torch pins, otherwise the last by name."""
    pinned = dict(found.requires)
    keep = next((name for name in wheels if name in pinned), wheels[-1])
    wheel = prefix.wheel(keep)
    number = pinned.get(keep) or (wheel.version if wheel else "")
    out = pip_command(prefix, "uninstall", "-y", *wheels)
    return f"{out} && {pip_install(prefix, f'{keep}=={number}' if number else keep)}"


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
            message = f"torch {found.torch} was built with CUDA {found.cuda}, but {library.label} is older"
            evidence = (library.path,)
            yield Finding(code="CU211", severity="warning", subject=library.soname, message=message, evidence=evidence)


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
        message = f"torch {found.torch} pins {name} {number}, but {mine} is installed{more}"
        evidence = tuple(f"{name} {mine}, but pinned {number}" for name, number, mine in rows)
        fix = pip_install(prefix, *(f"{name}=={number}" for name, number, _ in rows))
        yield Finding(code=code, severity="warning", subject=name, message=message, evidence=evidence, fix=fix)


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
