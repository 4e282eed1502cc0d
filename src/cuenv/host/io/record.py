"""Recorded hosts: reading one that a person names.

A recorded host is a folder with ``host.json`` and raw captures beside it, or that file alone. The raw captures are
for a reader of a bug report; cuenv itself reads ``host.json`` only.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from cuenv.core.errors import CuenvError, InputError, OutsideError, UsageError
from cuenv.core.findings import Check, CheckResult, Finding
from cuenv.core.io.files import DATA, is_file, look, names_in, read_text, shown, why
from cuenv.core.record import dataclass, replace
from cuenv.core.regex import regex
from cuenv.host import host_json
from cuenv.host.facts import HostFacts

if TYPE_CHECKING:  # most runs read a host and probe nothing
    from cuenv.host.io.probe import Outside

SHIPPED = DATA / "hosts"
HOST_FILE = "host.json"
LIMIT = 4 * 1024 * 1024
"""Bytes that a host file may have."""


def shipped_names() -> tuple[str, ...]:
    """The names of the hosts that come with cuenv."""
    return tuple(sorted(path.stem for path in SHIPPED.glob("*.json")))


def read_host(name_or_path: str, stdin: Callable[[], str]) -> HostFacts:
    """Read a host that a person names.

    Args:
        name_or_path: a folder with ``host.json``, a file, ``-`` for standard input, or the name of a shipped host;
            something that exists on disk goes first.
        stdin: reads standard input to its end.

    Raises:
        InputError: the file, folder or stream cannot be read or is no host.
        UsageError: it is neither there nor a shipped name.
    """
    if name_or_path == "-":
        return facts_of(_bounded(stdin()), "standard input", "standard input")
    path = Path(name_or_path)
    if name_or_path and _exists(path):
        return _read_path(path)
    if "/" in name_or_path or name_or_path.endswith(".json"):
        raise InputError(f"cannot read {shown(name_or_path)}: no such file", hint="cuenv inspect --record DIR")
    names = shipped_names()
    if name_or_path in names:
        source = SHIPPED / f"{name_or_path}.json"
        return facts_of(read_text(source, limit=LIMIT), source.name, name_or_path)
    near = _nearest(name_or_path, names)
    raise UsageError(
        f"{name_or_path!r} is not a directory, a file or a host that ships with cuenv; cuenv ships: {', '.join(names)}",
        hint=f"cuenv resolve --host {near}" if near else "cuenv inspect --record DIR, on that machine",
    )


def _read_path(path: Path) -> HostFacts:
    if path.is_dir():
        folder, path = path, path / HOST_FILE
        if not _exists(path):
            raise InputError(
                f"{shown(folder)} holds no {HOST_FILE}",
                hint=f"cuenv inspect --record {shlex.quote(shown(folder / 'this-host'))}",
            )
    named_after = path.resolve().parent.name if path.name == HOST_FILE else path.stem
    return facts_of(read_text(path, limit=LIMIT), shown(path), named_after or str(path))


def facts_of(text: str, source: str, label: str) -> HostFacts:
    """What a text says of a host: today the JSON of `cuenv inspect`; what begins otherwise gets its reader here.

    Args:
        text: as a person has it.
        source: what to call it in an error.
        label: what to call the host when the text gives it no label of its own.

    Raises:
        InputError: the text is no host.
    """
    return host_json.parse(text, source, label)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except PermissionError:
        return True  # it cannot be looked at: reading it will say so
    except (OSError, ValueError):
        return False


def _bounded(text: str) -> str:
    if len(text) > LIMIT:
        raise InputError(
            f"standard input is larger than {LIMIT} characters, expected the JSON of a host",
            hint="cuenv inspect --json > node.json",
        )
    return text


def _nearest(name: str, names: tuple[str, ...]) -> str | None:
    from difflib import get_close_matches  # noqa: PLC0415 - only when something is wrong

    return next(iter(get_close_matches(name, names, n=1, cutoff=0.7)), None)


def record(
    folder: Path,
    facts: HostFacts,
    environ: Mapping[str, str],
    root: Path = Path("/"),
    outside: Outside | None = None,
) -> tuple[Path, ...]:
    """Write a recorded host.

    Args:
        folder: new, empty, or a recorded host, whose files are replaced.
        facts: the machine as it was probed.
        environ: for the words that must not be written (home, user), and PATH.
        root: below it lie ``/proc`` and ``/etc``.
        outside: starts nvidia-smi.

    Returns:
        The files written.

    Raises:
        InputError: the folder holds something else; it stays untouched.
        OutsideError: a file cannot be written.
    """
    from cuenv.core.io.writing import write_together  # noqa: PLC0415 - most runs write nothing
    from cuenv.host.io.probe import Outside as Probing  # noqa: PLC0415 - as above

    _refuse_foreign(folder)
    words = private(environ, os.uname().nodename)
    texts = _capture(environ, root, outside or Probing())
    texts = {name: words.scrub(text) for name, text in texts.items() if text.strip()}
    texts[HOST_FILE] = host_json.dump(scrub_facts(facts, words))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutsideError(f"cannot make the folder {shown(folder)}: {why(error)}", hint=look(folder, error)) from error
    files = [(folder / name, text) for name, text in sorted(texts.items())]
    write_together(files)
    return tuple(path for path, _ in files)


def _refuse_foreign(folder: Path) -> None:
    if is_file(folder):
        raise InputError(
            f"{shown(folder)} is a file, and a recorded host is a folder", hint="cuenv inspect --record my-host"
        )
    if not names_in(folder):
        return
    try:
        if not is_file(folder / HOST_FILE):
            raise InputError(f"it holds no {HOST_FILE}")
        host_json.parse(read_text(folder / HOST_FILE, limit=LIMIT), HOST_FILE, "")
    except CuenvError as error:
        raise InputError(
            f"{shown(folder)} is neither empty nor a recorded host, and nothing in it was touched: {error.message}",
            hint=f"cuenv inspect --record {shlex.quote(shown(folder / 'this-host'))}",
        ) from error


def _capture(environ: Mapping[str, str], root: Path, outside: Outside) -> dict[str, str]:
    from cuenv.host.io import nvml, system  # noqa: PLC0415 - most runs record nothing

    program = nvml.find_smi(environ, root)
    log = outside.run([program, "-q"], nvml.TIMEOUT, environ).out if program else ""
    return {
        "proc-driver-nvidia-version.txt": system.read(root, system.PROC_VERSION).text,
        "os-release.txt": system.read(root, "etc/os-release").text,
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
    """The words that must not stand in a record; empty ones are ignored."""

    home: str = ""
    user: str = ""
    host: str = ""

    def scrub(self, text: str) -> str:
        """The text with the words replaced by ``~``, ``USER`` and ``HOST``."""
        text = _UUID.sub("UUID", _BUILDER.sub("(builder)", text))
        if len(self.home) > 1:
            text = re.sub(re.escape(self.home.rstrip("/")) + r"(?![\w.-])", "~", text)
        if self.user and self.user != "root":
            text = re.sub(rf"(?<![\w.-]){re.escape(self.user)}(?![\w.-])", "USER", text)
        text = _HOMES.sub(r"\1USER", text)
        if self.host and self.host != "localhost":
            text = re.sub(rf"(?<![\w-]){re.escape(self.host)}(?![\w-])", "HOST", text)
        return text


def private(environ: Mapping[str, str], host: str) -> Private:
    """The private words of a process: its home, its user, the machine's name without its domain."""
    user = environ.get("USER") or environ.get("LOGNAME") or environ.get("HOME", "").rstrip("/").rpartition("/")[2]
    return Private(home=environ.get("HOME", ""), user=user, host=host.partition(".")[0])


def scrub_facts(facts: HostFacts, words: Private) -> HostFacts:
    """The facts with every free text and path scrubbed; versions, names of GPUs and the like stay.

    How much disk is free is no fact of the machine, and is left out.
    """
    scrub = words.scrub
    around = facts.environment
    return replace(
        facts,
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
    )


def scrub_report(told: CheckResult, words: Private) -> CheckResult:
    """A report with every free text scrubbed."""
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
    """The lines of ``nvidia-smi -q`` that a record may hold."""
    kept = []
    for line in text.splitlines():
        stripped = line.strip()
        key = stripped.partition(" : ")[0].strip()
        heading = stripped in _SECTIONS or re.fullmatch(r"GPU [0-9A-F:.]{7,16}", stripped)
        if heading or (" : " in stripped and key in _KEYS):
            kept.append(line.rstrip())
    return "\n".join(kept) + "\n" if kept else ""
