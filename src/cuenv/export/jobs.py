"""Jobs: of GitHub Actions or GitLab CI/CD, which hold a lock to what it promises, and a batch script for Slurm.

References: https://docs.github.com/actions/reference/workflows-and-actions/workflow-syntax,
https://docs.gitlab.com/ci/yaml/ and https://slurm.schedmd.com/sbatch.html
"""

from __future__ import annotations

import shlex
from pathlib import Path
from urllib.parse import quote as quote_url

from cuenv.core import __version__
from cuenv.core.errors import InputError, UsageError
from cuenv.core.io.files import absolute, lexists, path_text, relative_path
from cuenv.core.io.templates import Blocks, fill
from cuenv.core.record import NamedTuple, dataclass
from cuenv.core.regex import regex
from cuenv.core.yaml_write import quote
from cuenv.export.container import Refused, content_of_lock, stages
from cuenv.export.dockerfile import comments, context_path
from cuenv.export.export import Exported, host_for_export, host_words, read_lock_with_spec
from cuenv.export.io.own_wheel import CuenvSource, find_cuenv
from cuenv.export.tables import Action, load_delivery
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
        raise UsageError(f"{path_text(path)} is not a {LOCK_NAME}, which a workflow installs from", hint="cuenv lock")
    file = next(environment_files(lock, path.parent), None)
    if file is None:
        message = f"{path_text(path)} has no environment file beside it to compare with"
        raise InputError(message, hint="cuenv resolve -o environment.yml")
    facts = host_for_export(lock, options, knowledge)
    if facts is None or not facts.gpus:
        message = f"{path_text(path)} does not say for which GPUs it was made, and the check runs without a GPU"
        raise UsageError(message, hint=f"cuenv export {kind} --gpu 'RTX 4090' --driver 535.129.03")
    root = _root(path.resolve().parent)
    mine = find_cuenv(cuenv)
    usual = _PLACES[kind]
    place = target.resolve() if target else root / usual
    wheel = quote_url(relative_path(path.resolve().parent / mine.name, root))
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
        f"cuenv   {mine.url or f'{path_text(path.parent / mine.name)}, which the repository must contain'}",
    )
    return _Repository(flow, lock, mine, talk)


def _root(folder: Path) -> Path:
    """The root of the repository that contains a folder; without a repository, the folder."""
    return next((item for item in (folder, *folder.parents) if lexists(item / ".git")), folder)


RUNNERS = {"linux-64": "ubuntu-24.04", "linux-aarch64": "ubuntu-24.04-arm"}
"""The machines of GitHub by platform; named by release, as those called latest change."""
_TAG = regex(r"[^\s,#$\"'\\][^,#$\"'\\]{0,254}")
_PROMISE = "The lock still matches its environment file, and supports the GPUs for which it was made."


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """Everything that a workflow is made from."""

    origin: str  # what it was made from, in words
    # lock, environment: their paths in the repository
    lock: str
    environment: str
    own: str  # its own path there
    platforms: tuple[str, ...]
    nvcc: bool  # whether it holds a CUDA compiler, which builds have to find
    host: tuple[str, ...]  # options of the host that it is for; empty where the lock remembers its own
    # the requirement for pip that brings cuenv by a URL, or the path of its wheel in the repository with its hash, as a
    # URL writes it
    cuenv: str
    wheel: bool

    def values(self, kind: str, root: str, *promises: str) -> dict[str, str]:
        """The values for both templates.

        Args:
            root: the variable of the folder that the repository is in.

        Raises:
            InputError: an option that no workflow can hold.
        """
        for word in self.host:
            if not word.isprintable() or "${{" in word:
                raise InputError(f"{word!r} cannot be used in a workflow")
        told = [f"Written by cuenv {__version__}, export {kind}, from {self.origin}.", _PROMISE, *promises]
        return {
            "head": "\n".join(comments(told)).removeprefix("# "),
            "said": "the wheel in the repository" if self.wheel else "a URL",
            "cuenv": quote(self.cuenv),
            "lock": quote(self.lock),
            "environment": quote(self.environment),
            "wanted": f"cuenv@file://${root}/$CUENV" if self.wheel else "$CUENV",
            "options": f" {shlex.join(self.host)}" if self.host else "",
        }

    def paths(self) -> list[dict[str, str]]:
        """The files that the workflow watches.

        Raises:
            InputError: a path that is a pattern.
        """
        return [{"path": quote(context_path(path))} for path in (self.environment, self.lock, self.own)]


def render_workflow(flow: Workflow, checkout: Action, micromamba: Action) -> str:
    """The workflow; the same values give the same bytes.

    Raises:
        InputError: a path or option that no workflow can hold.
    """
    promise = "The environment matches the lock, and its compiler, if it has one, builds CUDA code. No GPU is needed."
    shared = flow.values("github-action", "GITHUB_WORKSPACE", promise)
    values = {
        **shared,
        "runner": quote(RUNNERS["linux-64"]),
        "checkout": _pinned(checkout),
        "micromamba": _pinned(micromamba),
        "tool": quote(micromamba.tool),
        "gpus": shared["options"] or ' --lock "$LOCK"',
    }
    blocks: Blocks = {
        "paths": flow.paths(),
        "platforms": [{"platform": quote(item), "runner": quote(RUNNERS[item])} for item in flow.platforms],
        "nvcc": flow.nvcc,
    }
    return fill("workflow.yml", values, blocks)


def render_gitlab(flow: Workflow, image: str, tags: tuple[str, ...]) -> str:
    """The jobs of GitLab CI/CD; the same values give the same bytes.

    Raises:
        InputError: a path or option that no job can hold.
        UsageError: a tag that is none.
    """
    odd = next((tag for tag in tags if not (_TAG.fullmatch(tag) and tag.isprintable())), None)
    if odd is not None:
        raise UsageError(f"--tag {odd!r} is not a valid runner tag", hint="cuenv export gitlab-ci --tag gpu")
    values = flow.values(
        "gitlab-ci",
        "CI_PROJECT_DIR",
        "The first job needs no GPU; the second runs on a host with a GPU and checks that host first.",
    )
    blocks: Blocks = {"paths": flow.paths(), "tags": [{"tag": quote(tag)} for tag in tags]}
    return fill("gitlab-ci.yml", {**values, "image": quote(image)}, blocks)


def _pinned(action: Action) -> str:
    return f"{action.action}@{action.sha} # {action.tag}"


_GPUS = regex(r"(?:[A-Za-z0-9][A-Za-z0-9_.-]{0,63}:)?[1-9][0-9]{0,3}")
_OPTION = regex(r"--?[A-Za-z][^\s#]*(?: [^#]*)?")
_JOB = regex(r"[^A-Za-z0-9_.-]+")
_HINT = "cuenv export sbatch --prefix ~/envs/train --gpus a100:2 --option --partition=gpu -- python train.py"


def render_batch_job(
    *, origin: str, lock: str, environment: str, gpus: str, options: tuple[str, ...], command: tuple[str, ...]
) -> str:
    """The batch script; the same values give the same bytes.

    Args:
        origin: what the environment was made from, in words.
        lock: its path on the nodes.
        environment: the folder of the environment on the nodes.
        gpus: of each node: a number, or Slurm's type and a number.

    Raises:
        UsageError: a value that would be another line of a script, or nothing to run.
    """
    if not command:
        raise UsageError("the command of the job is missing", hint=_HINT)
    if not _GPUS.fullmatch(gpus):
        raise UsageError(f"--gpus {gpus!r} is neither a number nor TYPE:NUMBER", hint=_HINT)
    odd = next((item for item in options if not (_OPTION.fullmatch(item) and item.isprintable())), None)
    if odd is not None:
        raise UsageError(f"--option {odd!r} is not an option of sbatch on one line", hint=_HINT)
    for path in (lock, environment, *command):
        if not path.isprintable():
            raise UsageError(f"{path!r} contains unprintable characters", hint=_HINT)
    told = [
        f"Written by cuenv {__version__}, export sbatch, from {origin}.",
        "Each node is checked before the job begins, so an unsuitable node fails in seconds.",
    ]
    values = {
        "head": "\n".join(comments(told)).removeprefix("# "),
        "job": _JOB.sub("-", environment.rstrip("/").rpartition("/")[2]).strip("-") or "cuenv",
        "gpus": gpus,
        "lock": shlex.quote(lock),
        "environment": shlex.quote(environment),
        "command": shlex.join(command),
    }
    return fill("job.sbatch", values, {"options": [{"option": item} for item in options]})


def export_sbatch(lock: Path, prefix: Path, gpus: str, options: tuple[str, ...], command: tuple[str, ...]) -> Exported:
    """A batch script for Slurm that checks the lock on each node, and runs a command in the environment.

    Args:
        prefix: the folder of the environment, as the nodes see it.
        gpus: of each node, as Slurm writes it.

    Raises:
        UsageError: a value that no script can hold.
        InputError: the lock cannot be read.
    """
    path, made, _ = read_lock_with_spec(lock)
    there, environment = str(path.resolve()), str(absolute(prefix.expanduser()))
    origin = f"{path.name}, content {content_digest(made.solutions)[:16]}"
    text = render_batch_job(
        origin=origin, lock=there, environment=environment, gpus=gpus, options=options, command=command
    )
    install = shlex.join(["cuenv", "install", there, "--prefix", environment])
    note = f"note    create the environment first, once: {install}"
    talk = () if lexists(prefix) else (note,)
    return Exported(kind="sbatch", files={"job.sbatch": text}, talk=talk)
