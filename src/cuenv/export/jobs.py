"""Writing jobs: of GitHub Actions or GitLab CI/CD, which hold a lock to what it promises, and a batch script for Slurm.

References: https://docs.github.com/actions/reference/workflows-and-actions/workflow-syntax,
https://docs.gitlab.com/ci/yaml/ and https://slurm.schedmd.com/sbatch.html
"""

from __future__ import annotations

import shlex

from cuenv.core import __version__
from cuenv.core.errors import InputError, UsageError
from cuenv.core.io.templates import Blocks, fill
from cuenv.core.record import dataclass
from cuenv.core.regex import regex
from cuenv.core.yaml_write import quote
from cuenv.export.dockerfile import comments, context_path
from cuenv.export.tables import Action

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
