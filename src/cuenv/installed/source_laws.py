"""The same CUDA library from two sources: conda and wheels, or two wheels; grouped by SONAME."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

from cuenv.installed.cuda_files import NOBODY, CudaFiles, CudaLibrary
from cuenv.installed.mending import pip_command, pip_exactly
from cuenv.installed.prefix import Prefix
from cuenv.report import Finding

_SHOWN = 4


def two_sources(found: CudaFiles, prefix: Prefix) -> Iterator[Finding]:
    """Libraries that the loader knows by one name, and that more than one package brought.

    Beside a torch of conda a second set from pip is what no solver chose. Beside a torch from pip conda's set may be
    there for its compiler: which file wins is then for the loader to say.
    """
    groups: dict[tuple[str, ...], dict[str, list[CudaLibrary]]] = {}
    for soname, copies in _by_soname(found.libraries).items():
        sources = tuple(sorted({copy.source for copy in copies}))
        if len(sources) > 1:
            groups.setdefault(tuple(map(_kind, sources)), {})[soname] = copies
    for sonames in groups.values():
        copies = [copy for group in sonames.values() for copy in group]
        over_conda = any(copy.source == "conda" for copy in copies)
        listed = list(sonames)
        more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
        fix = _without(copies, prefix) if over_conda and not found.by_pip else None
        yield Finding(
            code="CU210",
            severity="error" if fix else "warning",
            subject=", ".join(listed[:_SHOWN]),
            message=f"{', '.join(listed[:_SHOWN])}{more} {'is' if len(listed) == 1 else 'are'} there from "
            f"{' and '.join(_sources(copies))}: which one is loaded depends on the order of search",
            evidence=tuple(f"{copy.shown}: {copy.path}" for copy in copies),
            fix=fix or "cuenv check -v says which file wins (check linkage)",
        )
    yield from _same_file(found, prefix)


def _without(copies: list[CudaLibrary], prefix: Prefix) -> str | None:
    """What takes out everything but conda's and torch's own: wheels by pip, and folders that no package owns."""
    wheels = sorted({copy.source for copy in copies if prefix.wheel(copy.source)})
    roots = tuple(f"{site}/nvidia/" for site in prefix.site_packages)
    nobodys = [copy.path.rpartition("/lib/")[0] for copy in copies if copy.source == NOBODY]
    parts = [pip_command(prefix, "uninstall", "-y", *wheels)] if wheels else []
    if nobodys and all(folder.startswith(roots) for folder in nobodys):  # a link may lead anywhere
        parts.append(shlex.join(["rm", "-r", *sorted(set(nobodys))]))
    return " && ".join(parts) or None


def _by_soname(libraries: Iterable[CudaLibrary]) -> dict[str, list[CudaLibrary]]:
    """The copies that a search by name may meet: what lies under another name alone is not found by its SONAME."""
    found: dict[str, list[CudaLibrary]] = {}
    for library in libraries:
        names = library.names or (library.soname,)
        found.setdefault(library.soname if library.soname in names else names[0], []).append(library)
    return found


def _kind(source: str) -> str:
    return source if source in ("conda", "torch") else "wheels"


def _sources(copies: list[CudaLibrary]) -> list[str]:
    """The sources in words, conda's before the wheels."""
    names = dict.fromkeys(" ".join(filter(None, (copy.source, copy.version))) for copy in copies)
    kept = sorted(names, key=lambda name: (not name.startswith("conda"), name))
    return [*kept[:_SHOWN], *([f"{len(kept) - _SHOWN} more"] if len(kept) > _SHOWN else [])]


def _same_file(found: CudaFiles, prefix: Prefix) -> Iterator[Finding]:
    """Files that two wheels claim: the last one to be installed wrote over the other, and both say they are there."""
    claims: dict[tuple[str, ...], list[str]] = {}
    for path, wheels in found.shared:
        claims.setdefault(wheels, []).append(path)
    for wheels, paths in claims.items():
        more = f" and {len(paths) - 1} more files" if len(paths) > 1 else ""
        yield Finding(
            code="CU210",
            severity="error",
            subject=", ".join(wheels),
            message=f"{' and '.join(wheels)} both hold {paths[0]}{more}: the last one installed wrote over the other",
            evidence=tuple(paths[:20]),
            fix=_keep_one(found, prefix, wheels),
        )


def _keep_one(found: CudaFiles, prefix: Prefix, wheels: tuple[str, ...]) -> str:
    """Take both out and put back the one that torch asks for, else the last by name."""
    pinned = dict(found.requires)
    keep = next((name for name in wheels if name in pinned), wheels[-1])
    wheel = prefix.wheel(keep)
    number = pinned.get(keep) or (wheel.version if wheel else "")
    out = pip_command(prefix, "uninstall", "-y", *wheels)
    return f"{out} && {pip_exactly(prefix, f'{keep}=={number}' if number else keep)}"
