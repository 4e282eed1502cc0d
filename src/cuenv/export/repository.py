"""Export for a repository: the workflow of GitHub, or the jobs of GitLab, that hold its lock to what it promises."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from cuenv.core.errors import InputError, UsageError
from cuenv.core.io.files import is_there, relative_path, shown
from cuenv.core.record import NamedTuple
from cuenv.export.container import Refused, content_of_lock, stages
from cuenv.export.export import Exported, host_for_export, host_words, read_lock_with_spec
from cuenv.export.io.own_wheel import CuenvSource, find_cuenv
from cuenv.export.jobs import Workflow, render_gitlab, render_workflow
from cuenv.export.tables import load_delivery
from cuenv.host.select import HostOptions
from cuenv.knowledge.base import Knowledge
from cuenv.lockfile.files import LOCK_NAME, environment_files
from cuenv.resolver.solution_policy import edit_findings
from cuenv.solve.environment_spec import NVCC
from cuenv.solve.model import Lock, content_digest

_PLACES = {"github-action": ".github/workflows/environment.yml", "gitlab-ci": ".gitlab-ci.yml"}


class _Repository(NamedTuple):
    """The workflow, its lock, the cuenv that it installs, and messages."""

    flow: Workflow
    lock: Lock
    mine: CuenvSource
    talk: tuple[str, ...]


def export_workflow(
    path: Path, options: HostOptions, knowledge: Knowledge, target: Path | None = None, cuenv: str | None = None
) -> Exported:
    """A workflow that verifies a lock, installs it, and checks the environment.

    Args:
        options: the host that it is judged for; the one that it was made for when none is given.
        target: where the workflow will lie.
        cuenv: a wheel, or a URL with its hash; the wheel of the running one when ``None``.

    Raises:
        UsageError: nobody knows for which host, or the lock is no ``conda-lock.yml`` of a repository.
        InputError: the lock or its environment file cannot be read.
    """
    found = _repository("github-action", path, options, knowledge, target=target, cuenv=cuenv)
    delivery = load_delivery()
    actions = [delivery.action(name) for name in ("actions/checkout", "mamba-org/setup-micromamba")]
    return Exported(
        kind="github-action",
        files={"environment.yml": render_workflow(found.flow, *actions)},
        wheel=found.mine.beside,
        talk=found.talk,
        more={
            "cuenv": found.mine.plain(),
            "actions": [{"action": row.action, "tag": row.tag, "commit": row.sha} for row in actions],
        },
    )


def export_gitlab(
    path: Path,
    options: HostOptions,
    knowledge: Knowledge,
    tags: tuple[str, ...],
    *,
    target: Path | None = None,
    cuenv: str | None = None,
) -> Exported:
    """Jobs of GitLab that verify a lock, and install and run it on a GPU.

    Args:
        tags: of the runners that have a GPU.

    Raises:
        UsageError: nobody knows for which host, or the lock is no ``conda-lock.yml`` of a repository.
        InputError: the lock or its environment file cannot be read.
    """
    found = _repository("gitlab-ci", path, options, knowledge, target=target, cuenv=cuenv)
    chosen = stages(content_of_lock(found.lock, None, knowledge), load_delivery(), "micromamba")
    if isinstance(chosen, Refused):
        return Exported(kind="gitlab-ci", refused=chosen)
    image = chosen.build.name
    return Exported(
        kind="gitlab-ci",
        files={_PLACES["gitlab-ci"]: render_gitlab(found.flow, image, tags)},
        wheel=found.mine.beside,
        talk=(*found.talk, f"image   {image}", f"tags    {', '.join(tags)}: of the runners that have a GPU"),
        more={"cuenv": found.mine.plain(), "images": [{"image": image, "digest": None}]},
    )


def _repository(
    kind: str, path: Path, options: HostOptions, knowledge: Knowledge, *, target: Path | None, cuenv: str | None
) -> _Repository:
    """The data for both kinds of workflows."""
    path, lock, _ = read_lock_with_spec(path)
    if path.name != LOCK_NAME or not lock.solutions:
        raise UsageError(f"{shown(path)} is not a {LOCK_NAME}, which a workflow installs from", hint="cuenv lock")
    file = next(environment_files(lock, path.parent), None)
    if file is None:
        raise InputError(
            f"{shown(path)} has no environment file beside it to compare with", hint="cuenv resolve -o environment.yml"
        )
    facts = host_for_export(lock, options, knowledge)
    if facts is None or not facts.gpus:
        raise UsageError(
            f"{shown(path)} does not say for which GPUs it was made, and the check runs without a GPU",
            hint=f"cuenv export {kind} --gpu 'RTX 4090' --driver 535.129.03",
        )
    root = _root(path.resolve().parent)
    mine = find_cuenv(cuenv)
    usual = _PLACES[kind]
    place = target.resolve() if target else root / usual
    wheel = quote(relative_path(path.resolve().parent / mine.name, root))
    flow = Workflow(
        origin=f"{LOCK_NAME}, content {content_digest(lock.solutions)[:16]}",
        lock=relative_path(path.resolve(), root),
        environment=relative_path(file.resolve(), root),
        own=str(place.relative_to(root)) if place.is_relative_to(root) else usual,
        cuenv=mine.requirement("") if mine.url else f"{wheel}#sha256={mine.sha256}",
        wheel=not mine.url,
        platforms=tuple(item.platform for item in lock.solutions),
        nvcc=any(solution.package(name) for solution in lock.solutions for name in NVCC),
        host=host_words(facts) if options.given else (),
    )
    talk = (
        *(f"warning {item.message}" for item in edit_findings(lock)),
        f"note    put it in {usual}; its paths start at the repository's root",
        f"cuenv   {mine.url or f'{shown(path.parent / mine.name)}, which the repository must contain'}",
    )
    return _Repository(flow, lock, mine, talk)


def _root(folder: Path) -> Path:
    """The root of the repository that contains a folder; without a repository, the folder."""
    return next((item for item in (folder, *folder.parents) if is_there(item / ".git")), folder)
