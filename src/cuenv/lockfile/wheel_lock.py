"""A lock without conda: ``pylock.toml`` (PEP 751) or requirements with hashes, for the GPUs that it was judged for."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from cuenv.core.errors import CuenvError
from cuenv.core.findings import FileEdit, Finding, first_of
from cuenv.core.io.files import is_file, read_text, relative_path
from cuenv.core.io.products import write_over
from cuenv.core.versions import VersionSpec
from cuenv.host.facts import HostFacts, virtual_packages
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import PLATFORMS
from cuenv.lockfile.files import read_lock, solved_glibc
from cuenv.lockfile.formats import ASIDE, LockedFile, LockPart, aside_record, parse_lock, requirements_txt, unlocked_txt
from cuenv.resolver.asked_cuda import version_spec_of
from cuenv.resolver.asked_torch import torch_asked, wheels_asked
from cuenv.resolver.candidates import admits, distance
from cuenv.solve import WHEEL_LOCKS
from cuenv.solve.environment_spec import LISTS, WRITTEN_BY, EnvironmentSpec
from cuenv.solve.model import Lock, Solution, content_digest

_PYLOCK = WHEEL_LOCKS[0]
_PIP_ITSELF = ("pip", "setuptools", "wheel", "python")
_SHOWN = 6
_LONGEST = 30


def wheel_solutions(
    spec: EnvironmentSpec, hosts: Iterable[HostFacts], knowledge: Knowledge
) -> list[Solution] | Finding:
    """What pip starts from on each platform: a Python, and no package; a finding where no Python can be named."""
    made = []
    for host in hosts:
        python = _python(spec, host.platform, knowledge)
        if python is None:
            return Finding(
                code="CU515",
                severity="error",
                subject="python",
                message=(
                    f"a lock without conda is for one Python minor version, but the file names none for {host.platform}"
                ),
                edits=(FileEdit(how="add", entries=("python=3.12",)),),
            )
        made.append(Solution(platform=host.platform, virtual_packages=virtual_packages(host), python=python))
    return made


def _python(spec: EnvironmentSpec, platform: str, knowledge: Knowledge) -> str | None:
    """The minor that the file asks for, nearest to 3.12 where torch leaves several open."""
    pin = spec.pin("python")
    asked = version_spec_of(pin)
    if pin and pin.version and asked is None:
        return None
    torch = torch_asked(spec.pip)
    wheels = wheels_asked(torch, platform, asked, knowledge) if torch else ()
    minors = {text for item in wheels for text in item.build.pythons}
    if asked and not minors:
        minors = {f"3.{number}" for number in range(_LONGEST)}
    found = [text for text in minors if asked is None or admits(asked, text)]
    return min(found, key=distance, default=None) if asked is None or _minor(asked) is None else _minor(asked)


def _minor(asked: VersionSpec) -> str | None:
    """The one minor that a condition names."""
    return ".".join(map(str, asked.prefix[:2])) if asked.prefix and len(asked.prefix) > 1 else None


def left_out(spec: EnvironmentSpec) -> Iterator[Finding]:
    """The packages of conda that a lock without conda cannot hold; an error where nothing is left for it."""
    if not spec.pip:
        yield Finding(
            code="CU517",
            severity="error",
            subject="pip",
            message="a lock without conda contains only pip packages, but the file has no pip requirement",
            fix="cuenv resolve --stack wheels -o environment.yml",
        )
        return
    names = [pin.name for pin in spec.pins if pin.name not in _PIP_ITSELF]
    if not names:
        return
    shown = first_of(names, _SHOWN)
    message = f"the lock contains only pip packages and leaves out conda packages: {shown}"
    fix = "cuenv lock, which locks both parts; or list the packages that pip has under pip"
    subject = names[0] if len(names) == 1 else "dependencies"
    yield Finding(code="CU517", severity="warning", subject=subject, message=message, fix=fix)


def nothing_to_lock(name: str) -> Finding:
    """That a lock without conda would hold no package at all."""
    message = f"no pip requirement of {name} can be locked: all are set aside"
    fix = f"python -m pip install -r {shlex.quote(name)}" if name.endswith(LISTS) else None
    return Finding(code="CU517", severity="error", subject="pip", message=message, fix=fix)


def wheel_path(kind: str, folder: Path, platform: str = "") -> Path:
    """The usual file of a lock without conda; of several platforms each has its own."""
    own = f".{platform}" if platform else ""
    return folder / (f"pylock{own}.toml" if kind == _PYLOCK else f"requirements{own}.lock.txt")


def write_wheels(
    kind: str, source: Path, made: Lock, spec: EnvironmentSpec, output: Path | None = None
) -> tuple[tuple[Path, ...], tuple[tuple[Path, Path], ...]]:
    """Write the lock of each platform.

    Args:
        source: the environment file, beside which the lock is written.
        output: the file to write, of a lock for one platform.

    Returns:
        The files, and what other programs had written in their place, with where it is kept.
    """
    texts = {}
    aside: dict[Path, str] = {}
    gone: dict[Path, str] = {}
    for solution in made.solutions:
        several = solution.platform if len(made.solutions) > 1 else ""
        target = output or wheel_path(kind, source.parent, several)
        again = f"cuenv lock {shlex.quote(source.name)} --format {kind}"
        about = [
            f"Written by {made.metadata['created_by']} from {source.name}; change that file, then: {again}",
            *_about(made.metadata, solution),
            f"Install: {_install(kind, target, solution)[-1]}",
        ]
        record = _record(made.metadata, solution, relative_path(source, target.parent))
        whole = _text(kind, solution, spec, tuple(about), record)
        read = parse_lock(whole, str(target), LockPart())  # the digest is over what is read of it later
        record["cuenv_content"] = content_digest(read.solutions, read.metadata)
        texts[target] = _text(kind, solution, spec, tuple(about), record)
        rest = unlocked_txt.FORMAT.path(source.parent, solution.platform)
        if solution.aside:
            aside[rest] = unlocked_txt.FORMAT.write(LockedFile(made, solution, source.parent, lambda: spec, about[0]))
        else:
            gone[rest] = WRITTEN_BY
    texts |= aside
    return tuple(texts), write_over(texts, (WRITTEN_BY,), gone=gone)


def _text(
    kind: str, solution: Solution, spec: EnvironmentSpec, head: tuple[str, ...], record: Mapping[str, str]
) -> str:
    if kind == _PYLOCK:
        from cuenv.lockfile.formats.others import pylock_toml  # noqa: PLC0415 - most locks hold packages of conda

        return pylock_toml.render(solution, record, head=head)
    indexes = requirements_txt.indexes(spec)
    pip = requirements_txt.findable(solution.pip)
    return requirements_txt.render(pip, head=head, indexes=indexes, metadata=record)


def _record(metadata: Mapping[str, str], solution: Solution, source: str) -> dict[str, str]:
    """What the lock of one platform remembers: its environment file, its host, and the least host that it runs on."""
    others = tuple(f"_{item}" for item in PLATFORMS if item != solution.platform)
    left_out = ("created_by", "cuenv_content")
    kept = {key: text for key, text in metadata.items() if key not in left_out and not key.endswith(others)}
    libc = solved_glibc(solution)
    kept |= {"cuenv_glibc": libc} if libc else {}
    kept |= {ASIDE: aside_record(solution)} if solution.aside else {}
    return {
        **kept,
        "cuenv_platform": solution.platform,
        "cuenv_python": solution.python,
        "cuenv_source": source.replace("\\", "/"),
    }


def wheel_locks(path: Path, kind: str = "", output: Path | None = None) -> tuple[Path, ...]:
    """The locks without conda that cuenv wrote of an environment file, as far as they lie beside it.

    Args:
        kind: one of `WHEEL_LOCKS`; both where empty.
        output: the file that is meant, where it has another name.
    """
    if output:
        return (output,) if is_file(output) else ()
    names = [wheel_path(item, path.parent, one) for item in WHEEL_LOCKS for one in ("", *PLATFORMS)]
    usual = {wheel_path(kind, path.parent, one) for one in ("", *PLATFORMS)} if kind else {*names}
    there = [item for item in names if item in usual and is_file(item)]
    return tuple(item for item in there if kind or _made_of(item, path))


def _made_of(lock: Path, source: Path) -> bool:
    """Whether a file is a lock of ours that names this environment file."""
    text = read_text(lock)
    if not text.startswith(WRITTEN_BY):
        return False
    try:
        return read_lock(lock, LockPart()).sources == (source.name,)
    except CuenvError:
        return False  # `cuenv check` says what is wrong with it


def _about(metadata: Mapping[str, str], solution: Solution) -> Iterator[str]:
    gpus, driver = metadata.get("cuenv_gpus", ""), metadata.get("cuenv_minimum_driver", "")
    host = [f"Python {solution.python}", solution.platform]
    host += [f"compute capability {', '.join(gpus.split())}"] if gpus else []
    host += [f"driver {driver} or later"] if driver else []
    host += [f"glibc {libc} or later"] if (libc := metadata.get("cuenv_minimum_glibc")) else []
    yield f"For {', '.join(host)}."


def install_commands(kind: str, made: Lock, written: tuple[Path, ...]) -> dict[str, tuple[str, ...]]:
    """For each platform the commands that install what was written."""
    pairs = zip(made.solutions, written, strict=False)  # what was set aside stands behind them
    return {solution.platform: _install(kind, path, solution) for solution, path in pairs}


def _install(kind: str, path: Path, solution: Solution) -> tuple[str, ...]:
    file = shlex.quote(str(path))
    if kind == _PYLOCK:
        return f"uv venv --python {solution.python} && uv pip sync {file}", f"uv pip sync {file}"
    command = f"python -m pip install --require-hashes --no-deps -r {file}"
    return f"uv venv --python {solution.python} && uv pip sync --require-hashes {file}", command
