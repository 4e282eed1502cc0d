"""``requirements-<platform>.unlocked.txt``: what no hash can pin, for pip to install after everything else."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from cuenv.core.urls import blanked
from cuenv.lockfile.formats import PLATFORM, LockedFile, LockFormat
from cuenv.solve.environment_spec import requirement_name
from cuenv.solve.model import Solution

_GUARDED = {"pytorch": "torch", "torch": "torch", "torchvision": "torchvision", "torchaudio": "torchaudio"}
"""What pip must not replace while it installs the rest, by its name in conda and on PyPI."""


def aside_command(solution: Solution, folder: Path | None = None, python: str = "python") -> str:
    """The one command that installs what was set aside, in the environment."""
    folder = folder or Path()
    build = "--no-build-isolation " if any(item.build for item in solution.aside) else ""
    start = f"{python} -m pip install {build}-r "
    file = FORMAT.path(folder, solution.platform)
    texts = (*solution.options, *(item.text for item in solution.aside))
    if folder != Path() and any(map(_is_local, texts)):
        return f"cd {shlex.quote(str(folder))} && {start}{shlex.quote(file.name)}"
    return f"{start}{shlex.quote(str(file))}"


def _is_local(text: str) -> bool:
    """Whether a line means something in one folder alone."""
    if text.startswith("--find-links "):
        return "://" not in text
    from cuenv.solve.pip_lines import unpinnable  # noqa: PLC0415 - most locks set nothing aside

    found = unpinnable(text.removeprefix("-e "))
    return text.startswith(("-r ", "-c ")) or (found is not None and found[0] in ("folder", "file"))


def _guards(solution: Solution) -> Iterator[str]:
    """The torch that is installed already, in its release: what is set aside may ask for another."""
    there = {_GUARDED[item.name]: item.version for item in solution.packages if item.name in _GUARDED}
    there |= {item.name: item.version for item in solution.pip if item.name in _GUARDED}
    own = {requirement_name(item.text) for item in solution.aside}
    for name, version in sorted(there.items()):
        if name not in own:
            yield f"{name}=={version.partition('+')[0].partition('.post')[0]}.*"


def _lines(solution: Solution) -> list[str]:
    return [*solution.options, *_guards(solution), *(item.text for item in solution.aside)]


def _write(file: LockedFile) -> str:
    solution = file.solution
    command = aside_command(solution)
    head = [
        file.origin,
        "Requirements that are not in the lock. Install them last, in the environment and this folder:",
    ]
    lines = [f"# {blanked(text)}".rstrip() for text in (*head, f"  {command}")]
    if not any(item.build for item in solution.aside):
        also = command.replace("install ", "install --no-build-isolation ", 1)
        lines += ["# If a setup.py imports torch:", f"#   {also}"]
    lines += solution.options
    guards = list(_guards(solution))
    if guards:
        lines += ["# Already installed; the line keeps pip from installing another release.", *guards]
    for why in dict.fromkeys(item.why for item in solution.aside):
        lines += [f"# {blanked(why)}", *(item.text for item in solution.aside if item.why == why)]
    return "\n".join(lines) + "\n"


def _differences(file: LockedFile, text: str) -> Iterable[str]:
    there = {line.strip() for line in text.removeprefix("\ufeff").splitlines()}
    there = {line for line in there if line and not line.startswith("#")}
    return (ascii(line)[1:-1][:60] for line in there ^ set(_lines(file.solution)))


FORMAT = LockFormat(
    file=f"requirements-{PLATFORM}.unlocked.txt",
    order=5,
    purpose="requirements that no hash can pin, for pip to install afterwards; only if there are any",
    write=_write,
    holds=lambda solution: bool(solution.aside),
    differences=_differences,
)
