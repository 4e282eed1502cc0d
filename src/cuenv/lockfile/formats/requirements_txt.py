"""``requirements-<platform>.lock.txt``: the pip part with hashes, as ``pip install --require-hashes`` reads it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from cuenv.core.record import replace
from cuenv.core.urls import blanked, index_url, redact
from cuenv.lockfile.formats import PLATFORM, LockedFile, LockFormat
from cuenv.solve.environment_spec import EnvironmentSpec
from cuenv.solve.model import PipLocked, Solution

UNLOCKED = "CU501"
"""Allowing this code leaves the pip part out of the lock."""


def lines(packages: Iterable[PipLocked]) -> tuple[str, ...]:
    """One requirement for each package: ``name==version --hash=sha256:...``, or ``name @ URL`` where one was asked."""
    return tuple(
        (f"{item.name} @ {index_url(item.url)}" if item.direct else f"{item.name}=={item.version}")
        + (f" --hash=sha256:{item.sha256}" if item.sha256 else "")
        for item in sorted(packages, key=lambda item: item.name)
    )


def render(packages: Iterable[PipLocked], *, head: tuple[str, ...]) -> str:
    """Write the file.

    Args:
        packages: of one platform.
        head: lines for the comment at the top.
    """
    comments = (f"# {blanked(text)}".rstrip() for text in head)
    return "\n".join([*comments, *lines(packages)]) + "\n"


def requirement_differences(there: set[str], packages: Iterable[PipLocked]) -> Iterator[str]:
    """Locked packages that requirements lack, and requirements that the lock does not hold."""
    for item in packages:
        forms = {lines([replace(item, direct=direct)])[0] for direct in (False, True)}
        if there.isdisjoint(forms):
            yield item.name
        there = there - forms
    yield from (ascii(line)[1:60] for line in there)


def pip_command(platform: str, folder: Path | None = None) -> str:
    """The one command that installs the pip part, in the environment."""
    file = FORMAT.path(folder or Path(), platform)
    return f"python -m pip install --require-hashes --no-deps -r {shlex.quote(str(file))}"


def pip_head(spec: EnvironmentSpec, solution: Solution) -> tuple[str, ...]:
    """What the head of a conda file says of the pip part, which an explicit file cannot hold."""
    if spec.pip and not solution.pip:
        wished = redact(", ".join(spec.pip))
        return (f"Not locked (--allow {UNLOCKED}): what pip adds: {wished}. To lock that as well: cuenv lock",)
    if not solution.pip:
        return ()
    names = ", ".join(f"{item.name} {item.version}" for item in solution.pip)
    return (
        f"The pip part adds {len(solution.pip)}: {names}",
        f"An explicit file cannot contain them; install them in the environment with: {pip_command(solution.platform)}",
    )


def content_lines(text: str) -> set[str]:
    """The lines of a file without comments."""
    stripped = (line.strip() for line in text.removeprefix("\ufeff").splitlines())
    return {line for line in stripped if line and not line.startswith("#")}


def _write(file: LockedFile) -> str:
    head = (file.origin, f"Install: {pip_command(file.solution.platform)}")
    return render(file.solution.pip, head=head)


def _differences(file: LockedFile, text: str) -> Iterable[str]:
    return requirement_differences(content_lines(text), file.solution.pip)


FORMAT = LockFormat(
    file=f"requirements-{PLATFORM}.lock.txt",
    order=4,
    purpose="what pip adds, with hashes; only with a pip part",
    write=_write,
    holds=lambda solution: bool(solution.pip),
    differences=_differences,
)
