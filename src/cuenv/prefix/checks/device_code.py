"""Device code: torch's libraries and those that sit on torch, against each GPU of the host."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from cuenv.binary.gpu_code import host_gpus
from cuenv.core.findings import Check, Finding, judged, skipped
from cuenv.core.versions import parse_arch_list, version
from cuenv.prefix.checks import Subject
from cuenv.prefix.device_code import (
    TORCH,
    CodeFile,
    bitsandbytes_choice,
    bitsandbytes_finding,
    bitsandbytes_libraries,
    code_findings,
    declared_finding,
    other_bitsandbytes,
)
from cuenv.prefix.fixes import bring_again
from cuenv.prefix.runtime_policy import number_of

_BNB = "bitsandbytes"


def check(subject: Subject) -> Check:
    """What each GPU gets of each library: native code, PTX, or nothing."""
    from cuenv.prefix.io.code_files import find_code_files  # noqa: PLC0415 - as the other checks

    installed = subject.cuda_files
    known = frozenset(row.package for row in subject.knowledge.extensions)
    cuda = str(installed.cuda) if installed.cuda else None
    found = find_code_files(subject.prefix, known, subject.environ, cuda)
    gpus = host_gpus(subject.facts)
    loaded, findings = _bitsandbytes(subject, found.files)
    files = [file for file in found.files if file.library != _BNB or loaded is None or file.name == loaded]
    judgements = code_findings(files, gpus, subject.knowledge, subject.prefix)
    findings += [_other_library(item, subject, found.files) for item in judgements]
    findings += _unreadable(found.unreadable, subject)
    if found.declared:
        findings += _declared(found.declared, found.script, [file for file in files if file.library == TORCH])
    if not files and not findings:
        return skipped("device_code", "no library with device code for a GPU")
    libraries = ", ".join(dict.fromkeys(f"{file.library} {file.version or ''}".rstrip() for file in files))
    devices = ", ".join(str(gpu.capability) for gpu in gpus)
    told = f"for {devices}" if gpus else "no GPU to judge for: name it with --gpu"
    return judged("device_code", f"{len(files)} libraries{f' of {libraries}' if libraries else ''}; {told}", findings)


def _bitsandbytes(subject: Subject, files: tuple[CodeFile, ...]) -> tuple[str | None, list[Finding]]:
    """The file of its set that bitsandbytes loads, or the finding that there is none; ``None`` where all count."""
    installed = subject.cuda_files
    there = bitsandbytes_libraries(file.name for file in files if file.library == _BNB)
    number = dict(installed.extensions).get(_BNB)
    if installed.cuda is None or number is None or not there:
        return None, []
    asked = subject.environ.get("BNB_CUDA_VERSION", "")
    own = version(f"{asked[:2]}.{asked[2:]}") if re.fullmatch(r"[0-9]{3}", asked) else installed.cuda
    taken = bitsandbytes_choice(there, own, number_of(number), subject.knowledge.extension(_BNB))
    return (there[taken], []) if taken else ("", [bitsandbytes_finding(there, own, number, subject.prefix)])


def _other_library(finding: Finding, subject: Subject, files: tuple[CodeFile, ...]) -> Finding:
    """A finding on bitsandbytes with the variable that takes another library of its set, where one serves."""
    cuda = subject.cuda_files.cuda
    if not finding.subject.startswith(f"{_BNB} on ") or finding.severity == "info" or cuda is None:
        return finding
    own = [file for file in files if file.library == _BNB]
    return replace(finding, fix=other_bitsandbytes(own, cuda, host_gpus(subject.facts), subject.knowledge))


def _declared(text: str, script: str, torch: list[CodeFile]) -> Iterator[Finding]:
    try:
        declared = parse_arch_list(text, None).sass
    except ValueError:
        return
    yield from declared_finding(declared, torch, script)


def _unreadable(found: tuple[tuple[str, str], ...], subject: Subject) -> Iterator[Finding]:
    for path, reason in found:
        yield Finding(
            code="CU294",
            severity="warning",
            subject=path.rpartition("/")[2],
            message=f"{path} cannot be read as a library: {reason}",
            fix=bring_again(subject.owner(path), subject.prefix),
        )
