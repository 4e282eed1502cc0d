"""Writing a workflow of GitHub Actions that holds a lock to what it promises.

Reference: https://docs.github.com/actions/reference/workflows-and-actions/workflow-syntax
"""

from __future__ import annotations

import shlex

from cuenv.core.errors import InputError
from cuenv.core.io.templates import Blocks, fill
from cuenv.core.record import dataclass
from cuenv.core.yaml_write import quote
from cuenv.export.dockerfile import comments, context_path
from cuenv.export.tables import Action

RUNNERS = {"linux-64": "ubuntu-24.04", "linux-aarch64": "ubuntu-24.04-arm"}
"""The machines of GitHub by platform; named by release, as those called latest change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """What a workflow is written from.

    Attributes:
        version: of cuenv.
        origin: what it was made from, in words.
        lock, environment: their paths in the repository.
        own: its own path there.
        platforms: of the lock.
        nvcc: whether it holds a CUDA compiler, which builds have to find.
        host: options of the host that it is for; empty where the lock remembers its own.
        cuenv: the requirement for pip that brings cuenv by a URL, or the path of its wheel in the repository with its
            hash, as a URL writes it.
        wheel: whether it is the wheel.
        checkout, micromamba: the actions, by commit.
    """

    version: str
    origin: str
    lock: str
    environment: str
    own: str
    platforms: tuple[str, ...]
    nvcc: bool
    host: tuple[str, ...]
    cuenv: str
    wheel: bool
    checkout: Action
    micromamba: Action


def render_workflow(flow: Workflow) -> str:
    """The whole file: the same bytes for the same values.

    Raises:
        InputError: a path or option that no workflow can hold.
    """
    for word in flow.host:
        if not word.isprintable() or "${{" in word:
            raise InputError(f"{word!r} cannot stand in a workflow")
    told = [
        f"Written by cuenv {flow.version}, export github-action, from {flow.origin}.",
        "The lock still belongs to its environment file, and supports the GPUs that it was made for.",
        "What it installs is what it says, and where it has a compiler, CUDA code is built with it. No GPU is needed.",
    ]
    options = f" {shlex.join(flow.host)}" if flow.host else ""
    values = {
        "head": "\n".join(comments(told)).removeprefix("# "),
        "said": "the wheel in the repository" if flow.wheel else "a URL",
        "cuenv": quote(flow.cuenv),
        "lock": quote(flow.lock),
        "environment": quote(flow.environment),
        "runner": quote(RUNNERS["linux-64"]),
        "checkout": _pinned(flow.checkout),
        "wanted": "cuenv@file://$GITHUB_WORKSPACE/$CUENV" if flow.wheel else "$CUENV",
        "options": options,
        "micromamba": _pinned(flow.micromamba),
        "tool": quote(flow.micromamba.tool),
        "gpus": options or ' --lock "$LOCK"',
    }
    blocks: Blocks = {
        "paths": [{"path": quote(context_path(path))} for path in (flow.environment, flow.lock, flow.own)],
        "platforms": [{"platform": quote(item), "runner": quote(RUNNERS[item])} for item in flow.platforms],
        "nvcc": flow.nvcc,
    }
    return fill("workflow.yml", values, blocks)


def _pinned(action: Action) -> str:
    return f"{action.action}@{action.sha} # {action.tag}"
