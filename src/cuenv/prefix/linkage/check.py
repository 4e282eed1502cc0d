"""The check `linkage`: a model of the loader opens the libraries as Python would, and reports what it does not find."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import groupby

from packaging.version import Version

from cuenv.binary.data import BinaryError
from cuenv.binary.io.binaries import ElfFiles
from cuenv.binary.loader import Loaded, MissingLibrary, Process, Seen, candidates
from cuenv.core.findings import Check, Finding, Severity, first_of, judged, skipped
from cuenv.core.record import replace
from cuenv.core.regex import regex
from cuenv.core.urls import one_line
from cuenv.host.facts import THIS_MACHINE
from cuenv.knowledge.rows import MACHINES
from cuenv.prefix.checked import CheckedEnvironment
from cuenv.prefix.fixes import conda_install, conda_install_with_torch, pip_command, pip_install, reinstall_owner
from cuenv.prefix.io.linkage_plan import library_packages, linkage_plan, loader_facts, own_libraries
from cuenv.prefix.linkage.opening import (
    LinkageContext,
    NoSymbol,
    NoVersion,
    Opening,
    Root,
    SymbolCheck,
    SymbolFailure,
    Unreadable,
    demangled,
    is_driver_library,
    is_torch_symbol,
    open_all,
    stem_of,
)


def short_path(path: str, context: LinkageContext) -> str:
    """The path of a file for messages: relative to site-packages or to the environment if it lies in them."""
    text = posixpath.normpath(path)
    text = text.removeprefix(f"{context.prefix.path}/") if context.inside(text) else text
    text = re.sub(r"^lib(?:64)?/python3\.[0-9]+t?/site-packages/", "", text)
    return text if text.isprintable() else repr(text)


def more_files(askers: list[Loaded]) -> str:
    """The number of further files, as the end of a sentence; empty if there is only one file."""
    others = len({asker.path for asker in askers}) - 1
    return f" (and {others} more)" if others else ""


def more_names(names: list[str]) -> str:
    """The number of further names, as the end of a sentence; empty if there is only one name."""
    return f" (and {len(names) - 1} more)" if len(names) > 1 else ""


def rebuild_command(root: Root, context: LinkageContext) -> str | None:
    """The command that gets a build of an extension for the installed torch; ``None`` if its package is unknown."""
    if root.built:
        return f"rm -r {shlex.quote(posixpath.dirname(root.path))}"
    return context.rebuild(root.owner) if root.owner else None


def reinstall_command(path: str, context: LinkageContext) -> str | None:
    """The command that reinstalls the package of a file; ``None`` if no record lists the file."""
    return reinstall_owner(context.owner(path), context.prefix)


def install_command(name: str, context: LinkageContext) -> str | None:
    """The command that installs a library; ``None`` if the tables do not name its package."""
    package = context.packages.get(stem_of(name))
    if not package:
        return None
    if context.prefix.kind == "conda" and not package.startswith("nvidia-"):
        return conda_install(context.prefix, package)
    if package in context.pinned:
        return pip_install(context.prefix, f"{package}=={context.pinned[package]}")
    return pip_command(context.prefix, "install", "--force-reinstall", "--no-deps", "--upgrade", package)


def prefer_command(name: str, winner: Loaded, context: LinkageContext) -> str | None:
    """The command that makes the loader find another file."""
    if not context.inside(winner.path):
        return unset_command(winner)
    package = context.packages.get(stem_of(name), "")
    known = context.prefix.kind == "conda" and context.prefix.package(package)
    return conda_install_with_torch(context.prefix, package) if known else install_command(name, context)


def unset_command(winner: Loaded) -> str | None:
    """How to remove a library from the search; ``None`` if no variable added it."""
    if winner.via == "LD_LIBRARY_PATH":
        return f"unset LD_LIBRARY_PATH, or remove {winner.path.rsplit('/', 1)[0]} from it"
    return "unset LD_PRELOAD" if winner.via == "LD_PRELOAD" else None


def _escaped(finding: Finding) -> Finding:
    """The finding with unprintable characters escaped: names in binaries and folders can contain anything."""
    return replace(
        finding,
        subject=one_line(finding.subject),
        message=one_line(finding.message),
        evidence=tuple(map(one_line, finding.evidence)),
        fix=one_line(finding.fix) if finding.fix else None,
    )


_FOLDERS = 4
_COPIES = 6


def search_evidence(opening: Opening, item: MissingLibrary) -> tuple[str, ...]:
    """The folders in which the loader looked for a library, one line for each part of the search."""
    process = opening.process
    lines = []
    tried = candidates(item.name, item.asker, process.main, process.system)
    for via, group in groupby(tried, key=lambda candidate: candidate.via):
        folders = [posixpath.dirname(candidate.path) for candidate in group]
        plain = list(dict.fromkeys(folder for folder in folders if "glibc-hwcaps" not in folder))
        lines.append(f"looked in {via}: {first_of([*map(_printable_path, plain)], _FOLDERS)}")
    return tuple(lines)


def unreadable_candidate(opening: Opening, item: MissingLibrary) -> str | None:
    """A file in the search path that may not be read, which the loader skips; ``None`` without one."""
    process = opening.process
    tried = candidates(item.name, item.asker, process.main, process.system)
    seen = (process.look(candidate.path) for candidate in tried)
    return next((found.path for found in seen if found.kind == "denied" and found.identity != (0, 0)), None)


def other_releases(name: str, context: LinkageContext) -> tuple[str, ...]:
    """Libraries of the environment that differ only in the version in their name, such as ``libcudart.so.12``."""
    start = f"{stem_of(name)}.so."
    return tuple(sorted(other for other in context.own if other.startswith(start) and other != name))


def candidate_files(
    name: str, asker: Loaded, winner: Loaded, opening: Opening, context: LinkageContext
) -> tuple[str, ...]:
    """The files that the search could find, in its order, with the one that the loader takes first."""
    process = opening.process
    lines: list[str] = []
    seen: set[tuple[int, int]] = set()
    for candidate in candidates(name, asker, process.main, process.system):
        found = process.look(candidate.path)
        if found.kind == "elf" and found.identity not in seen:
            seen.add(found.identity)
            word = "wins" if found.path == winner.path else "skipped"
            lines.append(f"{word}: {_printable_path(found.path)} ({candidate.via})")
    for path in context.own.get(name, ()):
        if process.look(path).identity not in seen:
            lines.append(f"not searched from there: {_printable_path(path)}")
    return tuple(lines[:_COPIES])


def _printable_path(path: str) -> str:
    text = posixpath.normpath(path)
    return text if text.isprintable() else repr(text)


GLIBC = regex(r"GLIBC_([0-9]{1,3}(?:\.[0-9]{1,5}){1,2})")
_SHOWN = 3


def missing_findings(openings: Iterable[Opening], context: LinkageContext) -> Iterator[Finding]:
    """Report libraries that are not found (CU230) or cannot be loaded (CU231), and the driver's libraries (CU238)."""
    groups: dict[str, list[tuple[Opening, MissingLibrary]]] = {}
    for opening in (item for item in openings if not item.mended):
        if opening.opened.root is None:
            yield _unloadable_root(opening, context)
        for item in opening.opened.missing:
            groups.setdefault(item.name, []).append((opening, item))
    for name, cases in groups.items():
        if is_driver_library(name) and cases[0][1].broken is None:
            if context.driver:
                yield _no_driver(name, cases, context)
            continue
        yield _missing_library(name, cases, context)


def _missing_library(name: str, cases: list[tuple[Opening, MissingLibrary]], context: LinkageContext) -> Finding:
    opening, item = next(((o, m) for o, m in cases if o.root.needed), cases[0])
    askers = [m.asker for _, m in cases]
    needed = f"{short_path(item.asker.path, context)} needs it{more_files(askers)}"
    severity: Severity = "error" if opening.root.needed else "warning"
    if item.broken is not None:
        text = (
            f"{name}: {short_path(item.broken.path, context)} is found first and cannot be loaded ({item.broken.why})"
        )
        return Finding(
            code="CU231",
            severity=severity,
            subject=name,
            message=f"{text}; {needed}",
            evidence=search_evidence(opening, item),
            fix=reinstall_command(item.broken.path, context),
        )
    lying, others = context.own.get(name, ()), other_releases(name, context)
    known, fix = "", install_command(name, context)
    barred = unreadable_candidate(opening, item)
    if barred:
        known = f"; {short_path(barred, context)} is not readable"
        fix = f"chmod a+r {shlex.quote(barred)}"
    elif lying:
        known = f"; {short_path(lying[0], context)} exists, but the loader does not look there"
        first = shlex.quote(posixpath.dirname(lying[0]))
        fix = f'export LD_LIBRARY_PATH={first}"${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"'
    elif others and opening.root.kind == "extension":
        known = f"; the environment has {others[0]}, which is another major version"
        fix = rebuild_command(opening.root, context)
    message = f"{name} is missing ({needed}), so {_consequence(opening.root)}{known}"
    evidence = search_evidence(opening, item)
    return Finding(code="CU230", severity=severity, subject=name, message=message, evidence=evidence, fix=fix)


def _unloadable_root(opening: Opening, context: LinkageContext) -> Finding:
    seen = opening.opened.seen
    why = seen.why or "no such file"
    text = f"{short_path(seen.path, context)} cannot be loaded ({why}), so {_consequence(opening.root)}"
    severity: Severity = "error" if opening.root.needed else "warning"
    return Finding(
        code="CU231",
        severity=severity,
        subject=opening.root.label,
        message=text,
        fix=reinstall_command(seen.path, context) or rebuild_command(opening.root, context),
    )


def _no_driver(name: str, cases: list[tuple[Opening, MissingLibrary]], context: LinkageContext) -> Finding:
    opening, item = cases[0]
    text = (
        f"{name} comes with the NVIDIA driver, but the loader does not find it; {short_path(item.asker.path, context)}"
    )
    message = f"{text} needs it"
    fix = "in a container: start it with --gpus all, and NVIDIA_DRIVER_CAPABILITIES=compute,utility"
    evidence = search_evidence(opening, item)
    return Finding(code="CU238", severity="warning", subject=name, message=message, evidence=evidence, fix=fix)


def foreign_findings(openings: Iterable[Opening], context: LinkageContext) -> Iterator[Finding]:
    """Report libraries from outside that are loaded although the environment has its own (CU232)."""
    told: set[str] = set()
    for opening in openings:
        for item in opening.opened.new:
            for name, became in item.needed:
                if became is None or context.inside(became.path) or became.path in told:
                    continue
                if name in context.own and stem_of(name) in context.packages:
                    told.add(became.path)
                    yield _foreign(name, item, became, opening, context)


def _foreign(name: str, asker: Loaded, winner: Loaded, opening: Opening, context: LinkageContext) -> Finding:
    via, own = winner.via or "the executable", context.own[name]
    text = f"{name}: {winner.path} is loaded instead of the environment's {short_path(own[0], context)}, by {via}"
    return Finding(
        code="CU232",
        severity="warning",
        subject=name,
        message=text,
        evidence=(
            f"needed by {short_path(asker.path, context)}",
            *candidate_files(name, winner.loader or asker, winner, opening, context),
        ),
        fix=unset_command(winner),
    )


def glibc_findings(openings: Iterable[Opening], context: LinkageContext) -> Iterator[Finding]:
    """Report files that need a later glibc than the host has (CU234)."""
    if context.glibc is None:
        return
    lowest: dict[str, Version] = {}
    items = dict.fromkeys(
        item
        for opening in openings
        for item in opening.opened.new
        if context.inside(item.path) or (item is opening.opened.root and opening.root.kind != "python")
    )
    for item in items:
        versions = [
            Version(found[1])
            for needs in (item.elf.dynamic.needs.values() if item.elf.dynamic else ())
            for name, weak in needs
            if not weak and (found := GLIBC.fullmatch(name))
        ]
        if versions and max(versions) > context.glibc:
            lowest[item.path] = max(versions)
    if lowest:
        worst = max(lowest, key=lambda path: lowest[path])
        text = f"{short_path(worst, context)} needs glibc {lowest[worst]}, but the host has {context.glibc}"
        more = f"; {len(lowest)} files need a later one" if len(lowest) > 1 else ""
        message = text + more
        evidence = tuple(f"{short_path(path, context)}: GLIBC_{lowest[path]}" for path in list(lowest)[:_SHOWN])
        fix = f"create the environment for that host: cuenv resolve --glibc {context.glibc}"
        yield Finding(code="CU234", severity="error", subject="glibc", message=message, evidence=evidence, fix=fix)


def _consequence(root: Root) -> str:
    if root.kind == "torch":
        return "`import torch` fails" if root.needed else f"what torch opens as {root.label} fails"
    return f"opening {root.label} fails"


_CPP = regex(r"(?:GLIBCXX|CXXABI|GCC)_[0-9.]+")
_SHOWN_SYMBOLS = 3


def symbol_findings(failures: Iterable[SymbolFailure], context: LinkageContext) -> Iterator[Finding]:
    """Report versions and symbols that the loaded files do not define (CU233, CU235, CU236) or hide (CU237)."""
    versions: dict[tuple[str, bool], list[NoVersion]] = {}
    symbols: dict[tuple[str, str], list[NoSymbol]] = {}
    for failure in failures:
        if isinstance(failure, Unreadable):
            text = f"{short_path(failure.item.path, context)} could not be read completely: {failure.reason}"
            yield Finding(
                code="CU237", severity="warning", subject=short_path(failure.item.path, context), message=text
            )
        elif isinstance(failure, NoVersion):
            if not (GLIBC.fullmatch(failure.version) and context.glibc):
                of_cpp = _CPP.fullmatch(failure.version) is not None
                versions.setdefault((failure.winner.path, of_cpp), []).append(failure)
        elif is_torch_symbol(failure.symbol.name) and failure.winner is None:
            symbols.setdefault((failure.asker.path, "torch"), []).append(failure)
        else:
            symbols.setdefault((failure.asker.path, failure.symbol.file or ""), []).append(failure)
    for version_cases in versions.values():
        yield _missing_version(version_cases, context)
    for (_, kind), symbol_cases in symbols.items():
        yield _other_torch(symbol_cases, context) if kind == "torch" else _missing_symbol(symbol_cases, context)


def _missing_version(cases: list[NoVersion], context: LinkageContext) -> Finding:
    first = cases[0]
    names = sorted({case.version for case in cases}, key=_version_key)
    lacks = f"it does not define {names[-1]}{more_names(names)}"
    text = f"{first.file}: {short_path(first.winner.path, context)} is loaded, but {lacks}"
    askers = [case.asker for case in cases]
    return Finding(
        code="CU235" if _CPP.fullmatch(names[-1]) else "CU233",
        severity="error",
        subject=first.file,
        message=f"{text}, which {short_path(first.asker.path, context)} needs{more_files(askers)}",
        evidence=(
            f"the loader will report: version `{first.version}' not found (required by {first.asker.path})",
            f"{first.winner.path} is found by {first.winner.via or 'the executable'}",
        ),
        fix=prefer_command(first.file, first.winner, context),
    )


def _missing_symbol(cases: list[NoSymbol], context: LinkageContext) -> Finding:
    first = cases[0]
    want, winner = first.symbol, first.winner
    names = [case.symbol.name for case in cases]
    version = f", version {want.version}" if want.version else ""
    said = f"{short_path(first.asker.path, context)}: undefined symbol: {want.name}{version}{more_names(names)}"
    evidence = [f"undefined: {', '.join(names[:_SHOWN_SYMBOLS])}{more_names(names[_SHOWN_SYMBOLS - 1 :])}"]
    fix = None
    if winner is not None and want.file:
        said += f"; {short_path(winner.path, context)} is loaded for {want.file} but does not define it"
        evidence.append(f"{winner.path} is found by {winner.via or 'the executable'}")
        fix = prefer_command(want.file, winner, context)
    elif want.version is None:
        said += "; the libraries loaded with it do not define it"
    return Finding(
        code="CU233",
        severity="error",
        subject=short_path(first.asker.path, context),
        message=said,
        evidence=tuple(evidence),
        fix=fix,
    )


def _other_torch(cases: list[NoSymbol], context: LinkageContext) -> Finding:
    first = cases[0]
    names = [case.symbol.name for case in cases]
    path = short_path(first.asker.path, context)
    undefined = f"{demangled(names[0])}{more_names(names)}"
    text = f"{path} was built for another torch: {undefined} is not defined by the installed torch"
    return Finding(
        code="CU236",
        severity="error",
        subject=path,
        message=text,
        evidence=tuple(f"undefined symbol: {name}" for name in names[:_SHOWN_SYMBOLS]),
        fix=rebuild_command(first.root, context),
    )


def _version_key(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"[0-9]{1,9}", version))


def check_linkage(env: CheckedEnvironment) -> Check:
    """Model how the loader opens each library; report missing, shadowed and wrong libraries, and undefined symbols."""
    machine = MACHINES.get(env.facts.platform)
    if machine is None:
        return skipped("linkage", f"cuenv does not know the loader of {env.facts.platform}")
    try:
        return _check(env, machine)
    except BinaryError as error:
        text = f"the search for libraries was given up: {error.reason}"
        found = Finding(code="CU237", severity="error", subject="files", message=text)
        return judged("linkage", "not checked completely", [found])


def _check(env: CheckedEnvironment, machine: str) -> Check:
    prefix, facts = env.prefix, env.facts
    packages = library_packages(prefix)
    with closing(ElfFiles(machine)) as files:
        plan = linkage_plan(prefix, env.environ, files.look, frozenset(packages))
        if plan.torch is None and not plan.roots:
            return skipped("linkage", "neither torch, nor an extension of it, nor a CUDA library is installed")
        python = files.look(plan.python) if plan.python else None
        if python and python.kind == "other":
            return judged(
                "linkage",
                "not checked: the environment is for another architecture",
                [_other_architecture(python, machine)],
            )
        interpreter = python.elf.interpreter if python and python.elf else None
        system, notes = loader_facts(env.environ, machine, interpreter=interpreter)
        here = facts.label == THIS_MACHINE
        context = LinkageContext(
            prefix=prefix,
            own=own_libraries(prefix),
            packages=packages,
            pinned=dict(env.cuda_files.requires),
            owner=env.owner,
            rebuild=env.rebuild,
            glibc=facts.libc.version if facts.libc and facts.libc.family == "glibc" else None,
            driver=here and facts.driver is not None,
        )
        openings = tuple(open_all(Process(system, files.look), plan))
        symbols = SymbolCheck(files.data, context)
        failures = [failure for opening in openings for failure in symbols.failures(opening)]
        findings = [
            *missing_findings(openings, context),
            *foreign_findings(openings, context),
            *glibc_findings(openings, context),
            *symbol_findings(failures, context),
            *_unread_findings(files, notes),
        ]
        return judged("linkage", _summary(openings, files, here), map(_escaped, findings))


def _other_architecture(python: Seen, machine: str) -> Finding:
    text = f"{python.path} is {python.why}, the host is {machine}"
    fix = "name the host that the environment is for: --platform, --host"
    return Finding(code="CU231", severity="error", subject="python", message=text, fix=fix)


def _unread_findings(files: ElfFiles, notes: tuple[str, ...]) -> list[Finding]:
    told = [f"{path}: {reason}" for path, reason in files.refused.items()] + list(notes)
    if not told:
        return []
    text = f"{len(told)} files could not be read, the first: {told[0]}"
    return [Finding(code="CU237", severity="warning", subject="files", message=text, evidence=tuple(told[:5]))]


def _summary(openings: tuple[Opening, ...], files: ElfFiles, here: bool) -> str:
    objects = {item.path for opening in openings for item in (*opening.process.objects, *opening.opened.new)}
    opened = sum(not opening.mended for opening in openings)
    text = f"{opened} files opened in the loader model, {len(objects)} objects loaded, {files.count} binaries read"
    return text if here else f"{text}; libraries outside the environment were read on this machine"
