"""Hosts that a person names: recorded ones, files of many, and what other tools print.

A recorded host is a folder with ``host.json`` and raw captures beside it. The raw captures are for a reader of a bug
report; of such a folder cuenv itself reads ``host.json`` only.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from cuenv.core.errors import CuenvError, InputError, OutsideError, UsageError
from cuenv.core.findings import Check, CheckResult, Finding
from cuenv.core.io.files import DATA, is_file, ls_command, names_in, path_text, read_text, reason_of
from cuenv.core.reading import Faults
from cuenv.core.record import dataclass, replace
from cuenv.core.regex import regex
from cuenv.host import host_json
from cuenv.host.facts import HostFacts
from cuenv.host.request import pool
from cuenv.knowledge.base import Knowledge

if TYPE_CHECKING:  # most runs read a host, of their own machine or one that ships, and probe nothing
    from pathlib import Path

    from cuenv.host.io.probe import MachineAccess
    from cuenv.host.paste.all_hosts import PastedHosts, UnreadablePart

SHIPPED = f"{DATA}/hosts"
HOST_FILE = "host.json"
LIMIT = 256 * 1024 * 1024  # bytes that a file of hosts may have: some kilobytes for each


def shipped_names() -> tuple[str, ...]:
    """The names of the hosts that ship with cuenv."""
    return tuple(sorted(name.removesuffix(".json") for name in names_in(SHIPPED) if name.endswith(".json")))


def read_host(name_or_path: str, stdin: Callable[[], str], knowledge: Knowledge) -> HostFacts:
    """Read a host by name; several hosts in one text become a pool.

    Args:
        name_or_path: a recorded host (a folder with ``host.json``), a file with its JSON or with what other tools
            print of a host, ``-`` for standard input, or the name of a shipped host; what exists on disk goes first.
        stdin: reads standard input to its end.
        knowledge: the tables, for what names and drivers tell.

    Raises:
        InputError: the file, folder or stream cannot be read, is no host, or part of it is none.
        UsageError: it is neither there nor a shipped name.
        ValueError: its hosts do not share one platform.
    """
    if name_or_path in shipped_names() and not _exists(name_or_path):
        return _shipped(name_or_path)
    told = read_hosts(name_or_path, stdin, knowledge)
    refuse_broken(name_or_path, told.broken)
    return pool(told.hosts)


def read_hosts(name_or_path: str, stdin: Callable[[], str], knowledge: Knowledge) -> PastedHosts:
    """Read all hosts of a file or folder by name.

    Args:
        name_or_path: as `read_host` takes it; a folder without ``host.json`` is read file by file, and a host that
            tells no name is called by its file.
        stdin: reads standard input to its end.

    Raises:
        InputError: the file, folder or stream cannot be read, or tells of no host at all.
        UsageError: it is neither there nor a shipped name.
    """
    from pathlib import Path  # noqa: PLC0415 - not needed for a host that ships

    from cuenv.host.paste.all_hosts import PastedHosts, read_pasted_hosts  # noqa: PLC0415 - as above

    if name_or_path == "-":
        return read_pasted_hosts(stdin(), knowledge, "standard input")
    path = Path(name_or_path)
    if name_or_path and _exists(path):
        return _read_path(path, knowledge)
    if "/" in name_or_path or name_or_path.endswith(".json"):
        raise InputError(f"cannot read {path_text(name_or_path)}: no such file", hint="cuenv inspect --record DIR")
    names = shipped_names()
    if name_or_path in names:
        return PastedHosts((_shipped(name_or_path),))
    near = _nearest(name_or_path, names)
    raise UsageError(
        f"{name_or_path!r} is not a directory, a file or a host that ships with cuenv; cuenv ships: {', '.join(names)}",
        hint=f"cuenv resolve --host {near}" if near else "cuenv inspect --record DIR, on that machine",
    )


def _shipped(name: str) -> HostFacts:
    return host_json.parse(read_text(f"{SHIPPED}/{name}.json"), f"{name}.json", name)


def refuse_broken(name_or_path: str, broken: Iterable[UnreadablePart]) -> None:
    """Raise an error if parts of a text cannot be read.

    Raises:
        InputError: naming each by its line.
    """
    from cuenv.host.paste.all_hosts import HINT  # noqa: PLC0415 - not needed for a host that ships

    faults = Faults("standard input" if name_or_path == "-" else path_text(name_or_path))
    for item in broken:
        faults.add(f"{item.file} line {item.line}".strip(), item.says)
    faults.check(hint=HINT)


def _read_path(path: Path, knowledge: Knowledge) -> PastedHosts:
    from cuenv.host.paste.all_hosts import read_pasted_hosts  # noqa: PLC0415 - as above

    if path.is_dir():
        if not _exists(path / HOST_FILE):
            return _read_folder(path, knowledge)
        path /= HOST_FILE
    named_after = path.resolve().parent.name if path.name == HOST_FILE else path.stem
    return read_pasted_hosts(
        read_text(path, limit=LIMIT, lenient=True), knowledge, path_text(path), named_after or str(path)
    )


def _read_folder(folder: Path, knowledge: Knowledge) -> PastedHosts:
    from cuenv.host.paste.all_hosts import PastedHosts, UnreadablePart, read_pasted_hosts  # noqa: PLC0415 - as above

    hosts: list[HostFacts] = []
    broken: list[UnreadablePart] = []
    for name in sorted(names_in(folder)):
        path = folder / name
        if name.startswith(".") or not is_file(path):
            continue
        try:
            told = read_pasted_hosts(
                read_text(path, limit=LIMIT, lenient=True), knowledge, name, name.removesuffix(".json")
            )
        except InputError as error:
            broken.append(UnreadablePart(1, error.message.removeprefix(f"{name}: "), name))
            continue
        hosts += [
            replace(host, name=host.label) if len(told.hosts) == 1 and not host.name else host for host in told.hosts
        ]
        broken += [item._replace(file=name) for item in told.broken]
    if not hosts:
        raise InputError(
            f"{path_text(folder)} holds no {HOST_FILE}"
            + (f", and {broken[0].file}: {broken[0].says}" if broken else ""),
            hint=f"cuenv inspect --record {shlex.quote(path_text(folder / 'this-host'))}",
        )
    return PastedHosts(tuple(hosts), tuple(broken))


def _exists(path: str | Path) -> bool:
    try:
        os.stat(path)  # noqa: PTH116 - pathlib is loaded for few hosts
    except PermissionError:
        return True  # it cannot be looked at: reading it will say so
    except (OSError, ValueError):
        return False
    return True


def _nearest(name: str, names: tuple[str, ...]) -> str | None:
    from difflib import get_close_matches  # noqa: PLC0415 - only when something is wrong

    return next(iter(get_close_matches(name, names, n=1, cutoff=0.7)), None)


def record(
    folder: Path,
    facts: HostFacts,
    environ: Mapping[str, str],
    root: Path | None = None,
    outside: MachineAccess | None = None,
) -> tuple[Path, ...]:
    """Write a recorded host.

    Args:
        folder: new, empty, or a recorded host, whose files are replaced.
        environ: for the words that must not be written (home, user), and PATH.
        root: below it lie ``/proc`` and ``/etc``; that of the machine where none is given.
        outside: starts nvidia-smi.

    Returns:
        The files written.

    Raises:
        InputError: the folder holds something else; it stays untouched.
        OutsideError: a file cannot be written.
    """
    from pathlib import Path  # noqa: PLC0415 - most runs write nothing

    from cuenv.core.io.writing import write_together  # noqa: PLC0415 - as above
    from cuenv.host.io.probe import MachineAccess as Probing  # noqa: PLC0415 - as above

    _refuse_foreign(folder)
    words = private_words(environ, os.uname().nodename)
    texts = _capture(environ, root or Path("/"), outside or Probing())
    texts = {name: words.scrub(text) for name, text in texts.items() if text.strip()}
    texts[HOST_FILE] = host_json.dump(scrub_facts(facts, words))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"cannot make the folder {path_text(folder)}: {reason_of(error)}"
        raise OutsideError(message, hint=ls_command(folder, error)) from error
    files = [(folder / name, text) for name, text in sorted(texts.items())]
    write_together(files)
    return tuple(path for path, _ in files)


def _refuse_foreign(folder: Path) -> None:
    if is_file(folder):
        message = f"{path_text(folder)} is a file, but a recorded host is a folder"
        raise InputError(message, hint="cuenv inspect --record my-host")
    if not names_in(folder):
        return
    try:
        if not is_file(folder / HOST_FILE):
            raise InputError(f"it holds no {HOST_FILE}")
        host_json.parse(read_text(folder / HOST_FILE, limit=LIMIT), HOST_FILE, "")
    except CuenvError as error:
        raise InputError(
            f"{path_text(folder)} is neither empty nor a recorded host, so nothing in it was changed: {error.message}",
            hint=f"cuenv inspect --record {shlex.quote(path_text(folder / 'this-host'))}",
        ) from error


def _capture(environ: Mapping[str, str], root: Path, outside: MachineAccess) -> dict[str, str]:
    from cuenv.host.io import nvml, system  # noqa: PLC0415 - most runs record nothing
    from cuenv.host.io.surroundings import read_small_file  # noqa: PLC0415 - as above

    program = nvml.find_smi(environ, root)
    log = outside.run([program, "-q"], nvml.TIMEOUT, environ).out if program else ""
    return {
        "proc-driver-nvidia-version.txt": read_small_file(root, system.PROC_VERSION).text,
        "os-release.txt": read_small_file(root, "etc/os-release").text,
        "nvidia-smi.txt": parse_smi_log(log),
    }


_UUID = regex(r"\b(?:(?:GPU|MIG|PDI)-)?[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")
_BUILDER = regex(r"\([^()\s@]*@[^()\s]*\)")
_HOMES = regex(r"(/(?:home|Users)/)[^/\s:,'\"]+")

# What of `nvidia-smi -q` may be kept: what a resolver or a reader of a bug report needs. All else is dropped, since
# every new driver adds fields, and some of them are serials, UUIDs or names of processes.
_KEYS = frozenset(
    {
        "Driver Version",
        "KMD Version",
        "CUDA Version",
        "CUDA UMD Version",
        "Attached GPUs",
        "Product Name",
        "Product Brand",
        "Product Architecture",
        "Persistence Mode",
        "Addressing Mode",
        "Virtualization Mode",
        "Host VGPU Mode",
        "GSP Firmware Version",
        "Device Id",
        "Compute Mode",
        "Current",
        "Total",
    }
)
_SECTIONS = frozenset(
    {"MIG Mode", "GPU Virtualization Mode", "PCI", "FB Memory Usage", "BAR1 Memory Usage", "ECC Mode"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Private:
    """The words that must not be in a record."""

    home: str = ""
    user: str = ""
    host: str = ""

    def scrub(self, text: str) -> str:
        """The text with private words replaced by ``~``, ``USER`` and ``HOST``."""
        text = _UUID.sub("UUID", _BUILDER.sub("(builder)", text))
        if len(self.home) > 1:
            text = re.sub(re.escape(self.home.rstrip("/")) + r"(?![\w.-])", "~", text)
        if self.user and self.user != "root":
            text = re.sub(rf"(?<![\w.-]){re.escape(self.user)}(?![\w.-])", "USER", text)
        text = _HOMES.sub(r"\1USER", text)
        if self.host and self.host != "localhost":
            text = re.sub(rf"(?<![\w-]){re.escape(self.host)}(?![\w-])", "HOST", text)
        return text


def private_words(environ: Mapping[str, str], host: str) -> Private:
    """The private words of a process: its home, its user, and the machine's name without the domain."""
    user = environ.get("USER") or environ.get("LOGNAME") or environ.get("HOME", "").rstrip("/").rpartition("/")[2]
    return Private(home=environ.get("HOME", ""), user=user, host=host.partition(".")[0])


def scrub_facts(facts: HostFacts, words: Private) -> HostFacts:
    """The facts without the name of the host and without private words in texts and paths.

    How much disk is free is no fact of the machine, and is left out.
    """
    own = Private(host=facts.name.partition(".")[0])

    def scrub(text: str) -> str:
        return own.scrub(words.scrub(text))

    around = facts.environment
    return replace(
        facts,
        name="",
        label=scrub(facts.label),
        asked_as=scrub(facts.asked_as),
        toolkits=tuple(replace(item, path=scrub(item.path)) for item in facts.toolkits),
        compilers=tuple(replace(item, path=scrub(item.path)) for item in facts.compilers),
        torch=tuple(replace(item, path=scrub(item.path)) for item in facts.torch),
        environment=replace(
            around,
            conda_prefix=around.conda_prefix and scrub(around.conda_prefix),
            virtual_env=around.virtual_env and scrub(around.virtual_env),
            library_path=tuple(replace(item, path=scrub(item.path)) for item in around.library_path),
            libcuda=around.libcuda and replace(around.libcuda, path=scrub(around.libcuda.path)),
        ),
        resources=replace(facts.resources, disk_mib=None),
        evidence=tuple(
            replace(item, source=scrub(item.source), text=scrub(item.text))
            for item in facts.evidence
            if item.fact != "resources.disk_mib"
        ),
        gaps=tuple(replace(item, source=scrub(item.source), reason=scrub(item.reason)) for item in facts.gaps),
        members=tuple(scrub_facts(member, words) for member in facts.members),
    )


def scrub_report(told: CheckResult, words: Private) -> CheckResult:
    """A report without private words."""
    scrub = words.scrub

    def finding(one: Finding) -> Finding:
        return replace(
            one,
            subject=scrub(one.subject),
            message=scrub(one.message),
            evidence=tuple(map(scrub, one.evidence)),
            fix=one.fix and scrub(one.fix),
        )

    def check(one: Check) -> Check:
        return replace(one, says=scrub(one.says), findings=tuple(map(finding, one.findings)))

    report = told.report
    return replace(
        told,
        report=replace(
            report,
            title=scrub(report.title),
            findings=tuple(map(finding, report.findings)),
            looked_at=tuple(map(scrub, report.looked_at)),
        ),
        host=scrub(told.host),
        file=told.file and scrub(told.file),
        checks=tuple(map(check, told.checks)),
    )


def parse_smi_log(text: str) -> str:
    """The lines of ``nvidia-smi -q`` that a record may contain."""
    kept = []
    for line in text.splitlines():
        stripped = line.strip()
        key = stripped.partition(" : ")[0].strip()
        heading = stripped in _SECTIONS or re.fullmatch(r"GPU [0-9A-F:.]{7,16}", stripped)
        if heading or (" : " in stripped and key in _KEYS):
            kept.append(line.rstrip())
    return "\n".join(kept) + "\n" if kept else ""
