"""Findings of versions and symbols that nobody defines: CU233, CU235, CU236, and CU237 where they cannot be read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from cuenv.linkage.findings import GLIBC
from cuenv.linkage.opening import Ground
from cuenv.linkage.symbols import Failure, NoSymbol, NoVersion, Unreadable, is_torch, readable
from cuenv.linkage.text import again, count, more, replace, short
from cuenv.report import Finding

_CPP = re.compile(r"(?:GLIBCXX|CXXABI|GCC)_[0-9.]+")
_SHOWN = 3


def symbol_findings(failures: Iterable[Failure], ground: Ground) -> Iterator[Finding]:
    """Versions and symbols that the winning files do not define (CU233, CU235, CU236); unreadable tables (CU237)."""
    versions: dict[tuple[str, str], list[NoVersion]] = {}
    symbols: dict[tuple[str, str], list[NoSymbol]] = {}
    for failure in failures:
        if isinstance(failure, Unreadable):
            text = f"{short(failure.item.path, ground)} could not be read whole: {failure.reason}"
            yield Finding(code="CU237", severity="warning", subject=short(failure.item.path, ground), message=text)
        elif isinstance(failure, NoVersion):
            if not (GLIBC.fullmatch(failure.version) and ground.glibc):
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
    text = f"{first.file}: {short(first.winner.path, ground)} wins, and it does not define {names[-1]}{count(names)}"
    askers = [case.asker for case in cases]
    return Finding(
        code="CU235" if _CPP.fullmatch(names[-1]) else "CU233",
        severity="error",
        subject=first.file,
        message=f"{text}, which {short(first.asker.path, ground)} needs{more(askers)}",
        evidence=(
            f"the loader will say: version `{first.version}' not found (required by {first.asker.path})",
            f"{first.winner.path} is found by {first.winner.via or 'the executable'}",
        ),
        fix=replace(first.file, first.winner, ground),
    )


def _symbol(cases: list[NoSymbol], ground: Ground) -> Finding:
    first = cases[0]
    want, winner = first.symbol, first.winner
    names = [case.symbol.name for case in cases]
    version = f", version {want.version}" if want.version else ""
    said = f"{short(first.asker.path, ground)}: undefined symbol: {want.name}{version}{count(names)}"
    evidence = [f"undefined: {', '.join(names[:_SHOWN])}{count(names[_SHOWN - 1 :])}"]
    fix = None
    if winner is not None and want.file:
        said += f"; {short(winner.path, ground)} wins for {want.file} and does not define it"
        evidence.append(f"{winner.path} is found by {winner.via or 'the executable'}")
        fix = replace(want.file, winner, ground)
    elif want.version is None:
        said += "; no library that it is loaded with defines it"
    return Finding(
        code="CU233",
        severity="error",
        subject=short(first.asker.path, ground),
        message=said,
        evidence=tuple(evidence),
        fix=fix,
    )


def _other_torch(cases: list[NoSymbol], ground: Ground) -> Finding:
    first = cases[0]
    names = [case.symbol.name for case in cases]
    path = short(first.asker.path, ground)
    text = f"{path} was built for another torch: {readable(names[0])}{count(names)} is not in the torch that is here"
    return Finding(
        code="CU236",
        severity="error",
        subject=path,
        message=text,
        evidence=tuple(f"undefined symbol: {name}" for name in names[:_SHOWN]),
        fix=again(first.root, ground),
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"[0-9]{1,9}", version))
