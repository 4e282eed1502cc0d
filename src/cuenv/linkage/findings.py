"""Findings of the search for libraries: CU230 to CU232, CU234, CU238, one for each cause, however many files suffer."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator

from packaging.version import Version

from cuenv.binary.loader import Loaded
from cuenv.binary.process import Missing
from cuenv.linkage.opening import Ground, Opening, Root, is_driver, stem_of
from cuenv.linkage.search import copies, elsewhere, forbidden, looked, other_releases
from cuenv.linkage.text import again, install, more, short, unset, unspoiled
from cuenv.report import Finding, Severity

GLIBC = re.compile(r"GLIBC_([0-9]{1,3}(?:\.[0-9]{1,5}){1,2})")
_SHOWN = 3


def missing_findings(openings: Iterable[Opening], ground: Ground) -> Iterator[Finding]:
    """Libraries that are found nowhere (CU230), that cannot be loaded (CU231), and the driver's own (CU238)."""
    groups: dict[str, list[tuple[Opening, Missing]]] = {}
    for opening in (item for item in openings if not item.mended):
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
    needed = f"{short(item.asker.path, ground)} needs it{more(askers)}"
    severity: Severity = "error" if opening.root.needed else "warning"
    if item.broken is not None:
        text = f"{name}: {short(item.broken.path, ground)} is found first and cannot be loaded ({item.broken.why})"
        return Finding(
            code="CU231",
            severity=severity,
            subject=name,
            message=f"{text}; {needed}",
            evidence=looked(opening, item),
            fix=unspoiled(item.broken.path, ground),
        )
    lying, others = elsewhere(name, ground), other_releases(name, ground)
    known, fix = "", install(name, ground)
    barred = forbidden(opening, item)
    if barred:
        known = f"; {short(barred, ground)} may not be read"
        fix = f"chmod a+r {shlex.quote(barred)}"
    elif lying:
        known = f"; {short(lying[0], ground)} lies where nothing looks"
        first = shlex.quote(posixpath.dirname(lying[0]))
        fix = f'export LD_LIBRARY_PATH={first}"${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"'
    elif others and opening.root.kind == "extension":
        known = f"; here is {others[0]}: it was built for another one"
        fix = again(opening.root, ground)
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
    text = f"{short(seen.path, ground)} cannot be loaded ({seen.why or 'no such file'}), so {_fails(opening.root)}"
    severity: Severity = "error" if opening.root.needed else "warning"
    return Finding(
        code="CU231",
        severity=severity,
        subject=opening.root.label,
        message=text,
        fix=unspoiled(seen.path, ground) or again(opening.root, ground),
    )


def _no_driver(name: str, cases: list[tuple[Opening, Missing]], ground: Ground) -> Finding:
    opening, item = cases[0]
    text = f"{name} comes with the NVIDIA driver and is not where the loader looks; {short(item.asker.path, ground)}"
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
    text = f"{name}: {winner.path} wins over the environment's own {short(own[0], ground)}, by {via}"
    return Finding(
        code="CU232",
        severity="warning",
        subject=name,
        message=text,
        evidence=(
            f"needed by {short(asker.path, ground)}",
            *copies(name, winner.loader or asker, winner, opening, ground),
        ),
        fix=unset(via, winner),
    )


def glibc_findings(openings: Iterable[Opening], ground: Ground) -> Iterator[Finding]:
    """Files that need a later glibc than the host has (CU234)."""
    if ground.glibc is None:
        return
    lowest: dict[str, Version] = {}
    items = dict.fromkeys(
        item
        for opening in openings
        for item in opening.opened.new
        if ground.inside(item.path) or (item is opening.opened.root and opening.root.kind != "python")
    )
    for item in items:
        versions = [
            Version(found[1])
            for need in (item.elf.dynamic.needs if item.elf.dynamic else ())
            for name, weak in need.versions
            if not weak and (found := GLIBC.fullmatch(name))
        ]
        if versions and max(versions) > ground.glibc:
            lowest[item.path] = max(versions)
    if lowest:
        worst = max(lowest, key=lambda path: lowest[path])
        text = f"{short(worst, ground)} needs glibc {lowest[worst]}, the host has {ground.glibc}"
        more = f"; {len(lowest)} files need a later one" if len(lowest) > 1 else ""
        yield Finding(
            code="CU234",
            severity="error",
            subject="glibc",
            message=text + more,
            evidence=tuple(f"{short(path, ground)}: GLIBC_{lowest[path]}" for path in list(lowest)[:_SHOWN]),
            fix=f"make the environment for that host: cuenv resolve --glibc {ground.glibc}",
        )


def _fails(root: Root) -> str:
    if root.kind == "torch":
        return "`import torch` fails" if root.needed else f"what torch opens as {root.label} fails"
    return f"opening {root.label} fails"
