"""The host that an environment file of ours was decided for, as the command in its head names it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from cuenv.core.errors import CuenvError
from cuenv.core.io.files import read_text
from cuenv.host.facts import HostFacts
from cuenv.host.overrides import ARCH, CUDA, GLIBC
from cuenv.host.select import HostOptions, host_facts
from cuenv.knowledge.base import Knowledge
from cuenv.solve.environment_spec import WRITTEN_BY

_HEAD = 16384
"""Characters of a file in which its head is looked for."""
_LOCK_IT = re.compile(r"^#   (cuenv lock ([A-Za-z0-9._/-]+)((?: --[a-z]+ [A-Za-z0-9._/][A-Za-z0-9._/-]*)*))$")
"""What cuenv writes, and nothing that a shell would read as more than words, nor a file that is standard input."""
_FIELDS = {"--gpu": "gpus", "--host": "hosts", "--driver": "driver", "--glibc": "glibc", "--platform": "platform"}


def lock_words(text: str) -> tuple[str, ...]:
    """The command that the head of an environment file of ours gives, in words; none in any other file."""
    if not text.startswith(WRITTEN_BY):
        return ()
    for line in text[:_HEAD].splitlines():
        if not line.startswith("#"):
            break
        said = _LOCK_IT.fullmatch(line.rstrip())
        if said and set(said[3].split()[::2]) <= set(_FIELDS):
            return tuple(said[1].split())
    return ()


def options_in(text: str, environ: Mapping[str, str]) -> HostOptions | None:
    """The host options of that command; ``None`` where there are none."""
    words = lock_words(text)[3:]
    if not words:
        return None
    found: dict[str, list[str]] = {}
    for option, value in zip(words[::2], words[1::2], strict=True):
        found.setdefault(_FIELDS[option], []).append(value)
    return HostOptions(
        hosts=tuple(found.get("hosts", ())),
        gpus=tuple(found.get("gpus", ())),
        driver=next(iter(found.get("driver", ())), None),
        glibc=next(iter(found.get("glibc", ())), None),
        platform=next(iter(found.get("platform", ())), None),
        environ=environ,
    )


def host_for(
    path: Path, options: HostOptions, knowledge: Knowledge, platforms: tuple[str, ...] = ()
) -> tuple[HostFacts, str]:
    """The host to lock a file for: of the options or of conda's variables, else as its head names it, else this one.

    Args:
        path: the environment file.
        options: as they were typed.
        knowledge: the tables.
        platforms: of the file: a head that names none means the first.

    Returns:
        the host, and the options of the head that named it; empty where something else did.

    Raises:
        UsageError: an option or a variable names nothing that exists.
        InputError: a recorded host cannot be read.
    """
    if options.given or any(name in options.environ for name in (CUDA, ARCH)):
        return host_facts(options, knowledge), ""
    try:
        text = read_text(path)
    except CuenvError:
        return host_facts(options, knowledge), ""
    named = options_in(text, options.environ)
    if named is None:
        return host_facts(options, knowledge), ""
    try:
        libc = None if GLIBC in options.environ else named.glibc  # a variable is newer than the head
        platform = named.platform or next(iter(platforms), None)
        facts = host_facts(replace(named, glibc=libc, platform=platform), knowledge)
    except CuenvError:  # it names a recorded host that is not here
        return host_facts(options, knowledge), ""
    label = f"the host that {path.name} names"
    return (facts if named.hosts else replace(facts, label=label)), shlex.join(lock_words(text)[3:])
