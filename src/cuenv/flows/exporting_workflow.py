"""Export of a workflow of GitHub Actions from a lock."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

from cuenv import __version__
from cuenv.environment import NVCC
from cuenv.errors import InputError, UsageError
from cuenv.flows.exporting import Exported, host_of, host_words, lock_at
from cuenv.flows.exporting_self import own
from cuenv.flows.hosts import HostOptions
from cuenv.flows.lock_files import LOCK_NAME, environment_files
from cuenv.formats.workflow_yml import Workflow, render
from cuenv.knowledge import Knowledge
from cuenv.lock_laws import edited
from cuenv.lockfile import content_digest
from cuenv.world.delivery import load_delivery
from cuenv.world.files import shown

_PLACE = ".github/workflows/environment.yml"


def export_workflow(
    path: Path, options: HostOptions, knowledge: Knowledge, target: Path | None = None, cuenv: str | None = None
) -> Exported:
    """A workflow that verifies a lock, installs it, and checks what was installed.

    Args:
        path: the lock.
        options: the host that it is judged for; the one that it was made for when none is given.
        knowledge: the tables.
        target: where the workflow will lie.
        cuenv: a wheel, or a URL with its hash; the wheel of the running one when ``None``.

    Raises:
        UsageError: nobody knows for which host, or the lock is no ``conda-lock.yml`` of a repository.
        InputError: the lock or its environment file cannot be read.
    """
    path, lock, _ = lock_at(path)
    if path.name != LOCK_NAME or not lock.solutions:
        raise UsageError(f"{shown(path)} is no {LOCK_NAME}, which is what a workflow installs from", hint="cuenv lock")
    file = next(environment_files(lock, path.parent), None)
    if file is None:
        raise InputError(
            f"{shown(path)} has no environment file beside it to be held to", hint="cuenv resolve -o environment.yml"
        )
    facts = host_of(lock, options, knowledge)
    if facts is None or not facts.gpus:
        raise UsageError(
            f"{shown(path)} does not say for which GPUs it was made, and a machine of GitHub has none",
            hint="cuenv export github-action --gpu 'RTX 4090' --driver 535.129.03",
        )
    root = _root(path.resolve().parent)
    delivery = load_delivery()
    checkout, micromamba = (delivery.action(name) for name in ("actions/checkout", "mamba-org/setup-micromamba"))
    mine = own(cuenv)
    place = target.resolve() if target else root / _PLACE
    wheel = quote(os.path.relpath(path.resolve().parent / mine.name, root))
    flow = Workflow(
        version=__version__,
        origin=f"{LOCK_NAME}, content {content_digest(lock.solutions)[:16]}",
        lock=os.path.relpath(path.resolve(), root),
        environment=os.path.relpath(file.resolve(), root),
        own=str(place.relative_to(root)) if place.is_relative_to(root) else _PLACE,
        cuenv=mine.requirement("") if mine.url else f"{wheel}#sha256={mine.sha256}",
        wheel=not mine.url,
        platforms=tuple(item.platform for item in lock.solutions),
        nvcc=any(solution.package(name) for solution in lock.solutions for name in NVCC),
        host=host_words(facts) if options.given else (),
        checkout=checkout,
        micromamba=micromamba,
    )
    return Exported(
        kind="github-action",
        files={"environment.yml": render(flow)},
        wheel=(mine.name, mine.data) if mine.name else None,
        talk=(
            *(f"warning {item.message}" for item in edited(lock)),
            f"note    its place is {_PLACE}; paths in it are those from the repository's root",
            f"cuenv   {mine.url or f'{shown(path.parent / mine.name)}, which the repository has to hold'}",
        ),
        more={
            "cuenv": {"url": mine.url or None, "wheel": mine.name or None, "sha256": mine.sha256 or None},
            "actions": [{"action": row.action, "tag": row.tag, "commit": row.sha} for row in (checkout, micromamba)],
        },
    )


def _root(folder: Path) -> Path:
    """The root of the repository that a folder lies in, else the folder."""
    return next((item for item in (folder, *folder.parents) if os.path.lexists(item / ".git")), folder)
