"""Linkage as the loader does it: which file wins for every library, and whether it defines what is needed of it."""

from __future__ import annotations

from contextlib import closing

from cuenv.binary.data import BinaryError
from cuenv.binary.io.binaries import ElfFiles
from cuenv.binary.loader import Seen
from cuenv.binary.process import Process
from cuenv.core.findings import Check, Finding, judged, skipped
from cuenv.host.facts import THIS_MACHINE
from cuenv.prefix.checks import Subject
from cuenv.prefix.io.linkage_plan import library_packages, linkage_plan, own_libraries
from cuenv.prefix.io.loader import loader_facts
from cuenv.prefix.linkage.findings import foreign_findings, glibc_findings, missing_findings, printable, symbol_findings
from cuenv.prefix.linkage.opening import LinkageContext, Opening, open_all
from cuenv.prefix.linkage.symbols import SymbolCheck

_MACHINES = {"linux-64": "x86_64", "linux-aarch64": "aarch64"}


def check(subject: Subject) -> Check:
    """Open everything as Python would, on paper: missing, shadowed and wrong libraries, symbols that nobody defines."""
    machine = _MACHINES.get(subject.facts.platform)
    if machine is None:
        return skipped("linkage", f"nothing is known of the loader of {subject.facts.platform}")
    try:
        return _check(subject, machine)
    except BinaryError as error:
        text = f"the search for libraries was given up: {error.reason}"
        found = Finding(code="CU237", severity="error", subject="files", message=text)
        return judged("linkage", "not looked at to the end", [found])


def _check(subject: Subject, machine: str) -> Check:
    prefix, facts = subject.prefix, subject.facts
    packages = library_packages(prefix)
    with closing(ElfFiles(machine)) as files:
        plan = linkage_plan(prefix, subject.environ, files.look, frozenset(packages))
        if plan.torch is None and not plan.roots:
            return skipped("linkage", "no torch, no extension of it and no CUDA library is installed")
        python = files.look(plan.python) if plan.python else None
        if python and python.kind == "other":
            return judged("linkage", "not looked at: the environment is for another machine", [_other(python, machine)])
        interpreter = python.elf.interpreter if python and python.elf else None
        system, notes = loader_facts(subject.environ, machine, interpreter=interpreter)
        here = facts.label == THIS_MACHINE
        ground = LinkageContext(
            home=prefix,
            own=own_libraries(prefix),
            packages=packages,
            pinned=dict(subject.cuda_files.requires),
            owner=subject.owner,
            fitting=subject.fitting,
            glibc=facts.libc.version if facts.libc and facts.libc.family == "glibc" else None,
            driver=here and facts.driver is not None,
        )
        openings = tuple(open_all(Process(system, files.look), plan))
        symbols = SymbolCheck(files.data, ground)
        failures = [failure for opening in openings for failure in symbols.failures(opening)]
        findings = [
            *missing_findings(openings, ground),
            *foreign_findings(openings, ground),
            *glibc_findings(openings, ground),
            *symbol_findings(failures, ground),
            *_unread(files, notes),
        ]
        return judged("linkage", _says(openings, files, here), map(printable, findings))


def _other(python: Seen, machine: str) -> Finding:
    text = f"{python.path} is {python.why}, the host is {machine}"
    fix = "name the host that the environment is for: --platform, --host"
    return Finding(code="CU231", severity="error", subject="python", message=text, fix=fix)


def _unread(files: ElfFiles, notes: tuple[str, ...]) -> list[Finding]:
    told = [f"{path}: {reason}" for path, reason in files.refused.items()] + list(notes)
    if not told:
        return []
    text = f"{len(told)} files could not be looked at, the first: {told[0]}"
    return [Finding(code="CU237", severity="warning", subject="files", message=text, evidence=tuple(told[:5]))]


def _says(openings: tuple[Opening, ...], files: ElfFiles, here: bool) -> str:
    objects = {item.path for opening in openings for item in (*opening.process.objects, *opening.opened.new)}
    opened = sum(not opening.mended for opening in openings)
    text = f"{opened} files opened on paper, {len(objects)} objects loaded, {files.count} binaries read"
    return text if here else f"{text}; what lies outside of the environment is this machine's"
