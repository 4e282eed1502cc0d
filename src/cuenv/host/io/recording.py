"""Writing a recorded host, ``cuenv inspect --record DIR``: ``host.json`` and the machine's raw words beside it.

Nothing in it names the machine or its user: no host name, user name, serial or UUID.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from cuenv.core.errors import CuenvError, InputError, OutsideError
from cuenv.core.io.files import is_file, look, names_in, read_text, shown, why, write_together
from cuenv.host import host_json
from cuenv.host.facts import HostFacts
from cuenv.host.io import redaction as redact
from cuenv.host.io import smi, system
from cuenv.host.io.probe import SLASH, Outside
from cuenv.host.io.record import HOST_FILE, LIMIT


def record(
    folder: Path,
    facts: HostFacts,
    environ: Mapping[str, str],
    root: Path = SLASH,
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
    _refuse_foreign(folder)
    words = redact.private(environ, os.uname().nodename)
    texts = _capture(environ, root, outside or Outside())
    texts = {name: words.scrub(text) for name, text in texts.items() if text.strip()}
    texts[HOST_FILE] = host_json.dump(redact.scrub_facts(facts, words))
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
    program = smi.find_smi(environ, root)
    log = outside.run([program, "-q"], smi.TIMEOUT, environ).out if program else ""
    return {
        "proc-driver-nvidia-version.txt": system.read(root, system.PROC_VERSION).text,
        "os-release.txt": system.read(root, "etc/os-release").text,
        "nvidia-smi.txt": redact.parse_smi_log(log),
    }
