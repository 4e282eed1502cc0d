"""What every run may ask of this machine: platform, kernel, C library, the day, and nothing that takes long to load."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from cuenv.core.errors import UsageError
from cuenv.core.reading import describe
from cuenv.core.record import dataclass
from cuenv.core.regex import regex
from cuenv.core.versions import version
from cuenv.host.facts import THIS_MACHINE, Evidence, Gap, HostFacts, Libc

if TYPE_CHECKING:
    from pathlib import Path


OSRELEASE = "proc/sys/kernel/osrelease"
_LIMIT = 64 * 1024
_GLIBC = regex(r"glibc ([0-9]{1,3}\.[0-9]{1,3}(?:\.[0-9]{1,3})?)")
_RELEASE = regex(r"[\w.+~-]{1,128}", re.ASCII)
_MACHINES = {"x86_64": "linux-64", "amd64": "linux-64", "aarch64": "linux-aarch64", "arm64": "linux-aarch64"}


def surroundings(
    root: str | Path = "/", uname: tuple[str, str] | None = None, confstr: Callable[[str], str | None] = os.confstr
) -> HostFacts:
    """The platform, kernel and C library of this machine.

    Args:
        root: below it lies ``/proc``.
        uname: system name, as ``Linux``, and machine, as ``x86_64``; those of this machine where none are given.
        confstr: asks the C library about itself.

    Raises:
        UsageError: cuenv does not run on this kind of machine.
    """
    names = uname or (os.uname().sysname, os.uname().machine)
    platform = platform_of(*names)
    release = kernel(root)
    family = libc(confstr)
    evidence = [Evidence("platform", "uname", " ".join(names))]
    if isinstance(release, str):
        evidence.append(Evidence("kernel", f"/{OSRELEASE}", release))
    if isinstance(family, Libc):
        evidence.append(Evidence("libc", "confstr:CS_GNU_LIBC_VERSION", f"{family.family} {family.version}"))
    return HostFacts(
        label=THIS_MACHINE,
        platform=platform,
        kernel=release if isinstance(release, str) else None,
        libc=family if isinstance(family, Libc) else None,
        evidence=tuple(evidence),
        gaps=tuple(item for item in (release, family) if isinstance(item, Gap)),
    )


@dataclass(frozen=True, slots=True)
class FileText:
    """The text of a small file, or why it cannot be read."""

    text: str
    reason: str | None = None


def read_small_file(root: str | Path, name: str) -> FileText:
    """Read a small text file below ``root``; a missing or forbidden file is a reason, not an error."""
    try:
        with open(os.path.join(root, name), "rb") as stream:  # noqa: PTH118, PTH123 - pathlib is not loaded for it
            return FileText(stream.read(_LIMIT).decode("utf-8", "replace"))
    except FileNotFoundError:
        return FileText("", "no such file")
    except OSError as error:
        return FileText("", error.strerror or type(error).__name__)


def parse_kernel(text: str) -> str | None:
    """The kernel release in the output of ``uname -r``; ``None`` for other text."""
    stripped = text.strip()
    return stripped if _RELEASE.fullmatch(stripped) else None


def kernel(root: str | Path) -> str | Gap:
    """The release of the running kernel, or a gap."""
    answer = read_small_file(root, OSRELEASE)
    found = parse_kernel(answer.text)
    return found or Gap("kernel", f"/{OSRELEASE}", answer.reason or f"unusable answer {describe(answer.text)}")


def parse_glibc(text: str) -> Libc | None:
    """The C library in ``glibc 2.35``, the output of ``getconf GNU_LIBC_VERSION``."""
    found = _GLIBC.fullmatch(text.strip())
    return Libc(family="glibc", version=version(found[1])) if found else None


def libc(confstr: Callable[[str], str | None]) -> Libc | Gap:
    """The glibc of this process, or a gap."""
    try:
        text = confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):
        return Gap("libc", "confstr:CS_GNU_LIBC_VERSION", "the C library is not glibc, which conda's packages need")
    return parse_glibc(text) or Gap("libc", "confstr:CS_GNU_LIBC_VERSION", f"unusable answer {describe(text)}")


def platform_of(system: str, machine: str) -> str:
    """The conda platform for a system and machine of ``uname``.

    Raises:
        UsageError: cuenv does not run there.
    """
    found = _MACHINES.get(machine.lower()) if system == "Linux" else None
    if found is None:
        here = f"{describe(system)} on {describe(machine)}"
        message = f"cuenv inspects Linux and WSL2 machines (x86_64 or aarch64); this is {here}"
        raise UsageError(message, hint="cuenv resolve --gpu 8.6 --driver 535 --platform linux-64")
    return found


def today() -> str:
    """The current day in UTC: ``YYYY-MM-DD``."""
    import datetime as dt  # noqa: PLC0415 - most runs name no day

    return dt.datetime.now(tz=dt.timezone.utc).date().isoformat()


def is_day(text: str) -> bool:
    """Whether a text is a valid day ``YYYY-MM-DD``."""
    import datetime as dt  # noqa: PLC0415 - as above

    try:
        return dt.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
