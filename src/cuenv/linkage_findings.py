"""Findings of what was opened: codes CU230 to CU238, one for each cause, however many files suffer from it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator

from packaging.version import Version

from cuenv.binary.loader import Loaded
from cuenv.binary.process import Missing
from cuenv.linkage import Ground, Opening, Root, is_driver, stem_of
from cuenv.linkage_search import copies, elsewhere, looked, other_releases
from cuenv.linkage_symbols import Failure, NoSymbol, NoVersion, Unreadable, is_torch, readable
from cuenv.report import Finding, Severity

_GLIBC = re.compile(r"GLIBC_([0-9]{1,3}(?:\.[0-9]{1,5}){1,2})")
_CPP = re.compile(r"(?:GLIBCXX|CXXABI|GCC)_[0-9.]+")
_SHOWN = 3


def missing_findings(openings: Iterable[Opening], ground: Ground) -> Iterator[Finding]:
    """Libraries that are found nowhere (CU230), that cannot be loaded (CU231), and the driver's own (CU238)."""
    groups: dict[str, list[tuple[Opening, Missing]]] = {}
    for opening in openings:
        if opening.opened.root is None:
            yield _no_root(opening, ground)
        for item in opening.opened.missing:
            groups.setdefault(item.name, []).append((opening, item))
    for name, cases in groups.items():
        if is_driver(name) and cases[0][1].broken is None:
            if ground.driver:
                yield _no_driver(name, cases, ground)
            continue
        yield _missing(name, cases, ground)


def _missing(name: str, cases: list[tuple[Opening, Missing]], ground: Ground) -> Finding:
    opening, item = next(((o, m) for o, m in cases if o.root.needed), cases[0])
    askers = [m.asker for _, m in cases]
    needed = f"{_short(item.asker.path, ground)} needs it{_more(askers)}"
    severity: Severity = "error" if opening.root.needed else "warning"
    if item.broken is not None:
        text = f"{name}: {_short(item.broken.path, ground)} is found first and cannot be loaded ({item.broken.why})"
        return Finding(
            code="CU231",
            severity=severity,
            subject=name,
            message=f"{text}; {needed}",
            evidence=looked(opening, item),
            fix=f"reinstall what brings {_short(item.broken.path, ground)}",
        )
    lying, others = elsewhere(name, ground), other_releases(name, ground)
    known, fix = "", _install(name, ground)
    if lying:
        known = f"; {_short(lying[0], ground)} lies where nothing looks"
        fix = f"put its folder into the search: LD_LIBRARY_PATH={lying[0].rsplit('/', 1)[0]}"
    elif others and opening.root.kind == "extension":
        known = f"; here is {others[0]}: it was built for another one"
        fix = _again(opening.root.owner, ground)
    return Finding(
        code="CU230",
        severity=severity,
        subject=name,
        message=f"{name} is missing: {needed}, so {_fails(opening.root)}{known}",
        evidence=looked(opening, item),
        fix=fix,
    )


def _no_root(opening: Opening, ground: Ground) -> Finding:
    seen = opening.opened.seen
    text = f"{_short(seen.path, ground)} cannot be loaded ({seen.why or 'no such file'}), so {_fails(opening.root)}"
    severity: Severity = "error" if opening.root.needed else "warning"
    return Finding(
        code="CU231",
        severity=severity,
        subject=opening.root.label,
        message=text,
        fix=_again(opening.root.owner, ground),
    )


def _no_driver(name: str, cases: list[tuple[Opening, Missing]], ground: Ground) -> Finding:
    opening, item = cases[0]
    text = f"{name} comes with the NVIDIA driver and is not where the loader looks; {_short(item.asker.path, ground)}"
    return Finding(
        code="CU238",
        severity="warning",
        subject=name,
        message=f"{text} needs it",
        evidence=looked(opening, item),
        fix="in a container: start it with --gpus all, and NVIDIA_DRIVER_CAPABILITIES=compute,utility",
    )


def foreign_findings(openings: Iterable[Opening], ground: Ground) -> Iterator[Finding]:
    """Libraries that win from outside although the environment has its own (CU232)."""
    told: set[str] = set()
    for opening in openings:
        for item in opening.opened.new:
            for name, became in item.needed:
                if became is None or ground.inside(became.path) or became.path in told:
                    continue
                if name in ground.own and stem_of(name) in ground.packages:
                    told.add(became.path)
                    yield _foreign(name, item, became, opening, ground)


def _foreign(name: str, asker: Loaded, winner: Loaded, opening: Opening, ground: Ground) -> Finding:
    via, own = winner.via or "the executable", ground.own[name]
    text = f"{name}: {winner.path} wins over the environment's own {_short(own[0], ground)}, by {via}"
    return Finding(
        code="CU232",
        severity="warning",
        subject=name,
        message=text,
        evidence=(
            f"needed by {_short(asker.path, ground)}",
            *copies(name, winner.loader or asker, winner, opening, ground),
        ),
        fix=_unset(via, winner),
    )


def symbol_findings(failures: Iterable[Failure], ground: Ground) -> Iterator[Finding]:
    """Versions and symbols that the winning files do not define (CU233, CU235, CU236); unreadable tables (CU237)."""
    versions: dict[tuple[str, str], list[NoVersion]] = {}
    symbols: dict[tuple[str, str], list[NoSymbol]] = {}
    for failure in failures:
        if isinstance(failure, Unreadable):
            text = f"{_short(failure.item.path, ground)} could not be read whole: {failure.reason}"
            yield Finding(code="CU237", severity="warning", subject=_short(failure.item.path, ground), message=text)
        elif isinstance(failure, NoVersion):
            if not (_GLIBC.fullmatch(failure.version) and ground.glibc):
                versions.setdefault((failure.winner.path, _kind(failure.version)), []).append(failure)
        elif is_torch(failure.symbol.name) and failure.winner is None:
            symbols.setdefault((failure.asker.path, "torch"), []).append(failure)
        else:
            symbols.setdefault((failure.asker.path, failure.symbol.file or ""), []).append(failure)
    for version_cases in versions.values():
        yield _version(version_cases, ground)
    for (_, kind), symbol_cases in symbols.items():
        yield _other_torch(symbol_cases, ground) if kind == "torch" else _symbol(symbol_cases, ground)


def _kind(version: str) -> str:
    return "c++" if _CPP.fullmatch(version) else ""


def _version(cases: list[NoVersion], ground: Ground) -> Finding:
    first = cases[0]
    names = sorted({case.version for case in cases}, key=_numbers)
    text = f"{first.file}: {_short(first.winner.path, ground)} wins, and it does not define {names[-1]}{_count(names)}"
    askers = [case.asker for case in cases]
    outside = not ground.inside(first.winner.path)
    return Finding(
        code="CU235" if _CPP.fullmatch(names[-1]) else "CU233",
        severity="error",
        subject=first.file,
        message=f"{text}, which {_short(first.asker.path, ground)} needs{_more(askers)}",
        evidence=(
            f"the loader will say: version `{first.version}' not found (required by {first.asker.path})",
            f"{first.winner.path} is found by {first.winner.via or 'the executable'}",
        ),
        fix=_replace(first.file, first.winner, ground) if outside else _install(first.file, ground),
    )


def _symbol(cases: list[NoSymbol], ground: Ground) -> Finding:
    first = cases[0]
    want, winner = first.symbol, first.winner
    names = [case.symbol.name for case in cases]
    version = f", version {want.version}" if want.version else ""
    said = f"{_short(first.asker.path, ground)}: undefined symbol: {want.name}{version}{_count(names)}"
    evidence = [f"undefined: {', '.join(names[:_SHOWN])}{_count(names[_SHOWN - 1 :])}"]
    fix = None
    if winner is not None and want.file:
        said += f"; {_short(winner.path, ground)} wins for {want.file} and does not define it"
        evidence.append(f"{winner.path} is found by {winner.via or 'the executable'}")
        fix = _replace(want.file, winner, ground)
    elif want.version is None:
        said += "; no library that it is loaded with defines it"
    return Finding(
        code="CU233",
        severity="error",
        subject=_short(first.asker.path, ground),
        message=said,
        evidence=tuple(evidence),
        fix=fix,
    )


def _other_torch(cases: list[NoSymbol], ground: Ground) -> Finding:
    first = cases[0]
    names = [case.symbol.name for case in cases]
    path = _short(first.asker.path, ground)
    text = f"{path} was built for another torch: {readable(names[0])}{_count(names)} is not in the torch that is here"
    return Finding(
        code="CU236",
        severity="error",
        subject=path,
        message=text,
        evidence=tuple(f"undefined symbol: {name}" for name in names[:_SHOWN]),
        fix=_again(_distribution(path), ground),
    )


def glibc_findings(openings: Iterable[Opening], ground: Ground) -> Iterator[Finding]:
    """Files that need a later glibc than the host has (CU234)."""
    if ground.glibc is None:
        return
    lowest: dict[str, Version] = {}
    items = dict.fromkeys(item for opening in openings for item in opening.opened.new if ground.inside(item.path))
    for item in items:
        versions = [
            Version(found[1])
            for need in (item.elf.dynamic.needs if item.elf.dynamic else ())
            for name, weak in need.versions
            if not weak and (found := _GLIBC.fullmatch(name))
        ]
        if versions and max(versions) > ground.glibc:
            lowest[item.path] = max(versions)
    if lowest:
        worst = max(lowest, key=lambda path: lowest[path])
        text = f"{_short(worst, ground)} needs glibc {lowest[worst]}, the host has {ground.glibc}"
        more = f"; {len(lowest)} files need a later one" if len(lowest) > 1 else ""
        yield Finding(
            code="CU234",
            severity="error",
            subject="glibc",
            message=text + more,
            evidence=tuple(f"{_short(path, ground)}: GLIBC_{lowest[path]}" for path in list(lowest)[:_SHOWN]),
            fix=f"make the environment for that host: cuenv resolve --glibc {ground.glibc}",
        )


def _short(path: str, ground: Ground) -> str:
    text = posixpath.normpath(path)
    text = text.removeprefix(f"{ground.prefix}/") if ground.inside(text) else text
    text = re.sub(r"^lib(?:64)?/python3\.[0-9]+t?/site-packages/", "", text)
    return text if text.isprintable() else repr(text)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"[0-9]{1,9}", version))


def _more(askers: list[Loaded]) -> str:
    others = len({asker.path for asker in askers}) - 1
    return f" (and {others} more)" if others else ""


def _count(names: list[str]) -> str:
    return f" (and {len(names) - 1} more)" if len(names) > 1 else ""


def _fails(root: Root) -> str:
    if root.kind == "torch":
        return "`import torch` fails" if root.needed else f"what torch opens as {root.label} fails"
    return f"opening {root.label} fails"


def _distribution(path: str) -> str:
    return path.split("/", 1)[0].split(".", 1)[0].replace("_", "-")


def _again(owner: str, ground: Ground) -> str | None:
    """What brings a build of a distribution for the torch that is here."""
    if not owner:
        return None
    if owner in ground.installed:
        return f"conda install -p {ground.prefix} --force-reinstall {owner}"
    return f"python -m pip install --force-reinstall --no-deps --no-build-isolation --no-cache-dir {owner}"


def _install(name: str, ground: Ground) -> str | None:
    package = ground.packages.get(stem_of(name))
    if not package:
        return None
    if ground.conda:
        return f"conda install -p {ground.prefix} {package}"
    return f"python -m pip install --force-reinstall --no-deps --upgrade {package}"


def _replace(name: str, winner: Loaded, ground: Ground) -> str | None:
    """What makes another file win."""
    return _install(name, ground) if ground.inside(winner.path) else _unset(winner.via, winner)


def _unset(via: str, winner: Loaded) -> str | None:
    if via == "LD_LIBRARY_PATH":
        return f"unset LD_LIBRARY_PATH, or take {winner.path.rsplit('/', 1)[0]} out of it"
    return "unset LD_PRELOAD" if via == "LD_PRELOAD" else None
