"""Scan files and folders for device code, and tell what each GPU of a host gets of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from cuenv.binary.data import BinaryError
from cuenv.binary.gpu_code import Scanned, ScannedFile, Skipped, gpu_code, host_gpus
from cuenv.binary.io.binaries import Unlisted, files_below, may_be_binary, scan
from cuenv.core.io.files import is_folder
from cuenv.host.select import HostOptions, host_facts
from cuenv.knowledge.base import Knowledge

_TOLD = 25
"""Files between two words about how far it is."""


def scan_paths(
    paths: Sequence[str],
    options: HostOptions,
    knowledge: Knowledge,
    *,
    deep: bool = False,
    say: Callable[[str], None] | None = None,
) -> Scanned:
    """Scan files, and folders with all that is below them.

    Args:
        paths: files and folders.
        options: the host; this machine when none is named.
        knowledge: the tables, which know the CUDA release of a PTX ISA.
        deep: also look for code outside of the usual sections.
        say: called now and then with how far it is.

    Raises:
        BinaryError: none of the paths can be read.
        UsageError: an option names nothing that exists.
    """
    facts = host_facts(options, knowledge)
    gpus = host_gpus(facts)
    files: dict[str, ScannedFile] = {}
    skipped: list[Skipped] = []
    plain = others = 0
    first: BinaryError | None = None
    for number, (path, named) in enumerate(_every(paths)):
        if say is not None and (number % _TOLD == 0 or named):
            say(f"scanning: {number} files, {len(files)} with device code")
        if isinstance(path, Unlisted):
            skipped.append(Skipped(path=path.path, reason=path.reason, fault="unreadable", named=named))
        elif not named and not may_be_binary(path):
            others += 1
        elif path not in files:
            try:
                code = scan(path, deep=deep)
            except BinaryError as error:
                first = first or error
                if not named and error.fault == "foreign":
                    others += 1
                else:
                    skipped.append(Skipped(path=path, reason=error.reason, fault=error.fault, named=named))
                continue
            if named or code.holds_code:
                served = tuple(gpu_code(code.objects, gpu, knowledge) for gpu in gpus) if code.objects else ()
                files[path] = ScannedFile(path=path, code=code, gpus=served)
            else:
                plain += 1
    if first and not files and not plain and not others and all(item.named for item in skipped):
        raise first
    return Scanned(
        facts=facts,
        files=tuple(item for _, item in sorted(files.items())),
        skipped=tuple(sorted(skipped, key=lambda item: item.path)),
        plain=plain,
        others=others,
    )


def _every(paths: Sequence[str]) -> Iterator[tuple[str | Unlisted, bool]]:
    """Each file with whether it was named; a folder that is closed counts as named when it was."""
    for path in dict.fromkeys(paths):
        if is_folder(path):
            for found in files_below(path):
                yield found, isinstance(found, Unlisted) and found.path == path
        else:
            yield path, True
