"""Writing a workflow of GitHub Actions that holds a lock to what it promises.

Reference: https://docs.github.com/actions/reference/workflows-and-actions/workflow-syntax
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from cuenv.core.errors import InputError
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
    return "\n".join([*_head(flow), *_lock_job(flow), *_install_job(flow)]) + "\n"


def _head(flow: Workflow) -> Iterator[str]:
    told = [
        f"Written by cuenv {flow.version}, export github-action, from {flow.origin}.",
        "The lock still belongs to its environment file, and serves the GPUs that it was made for.",
        "What it installs is what it says, and where it has a compiler, CUDA code is built with it. No GPU is needed.",
    ]
    yield from comments(told)
    yield 'name: "environment"'
    paths = [flow.environment, flow.lock, flow.own]
    yield "on:"
    for event in ("push", "pull_request"):
        yield f"  {event}:"
        yield "    paths:"
        yield from (f"      - {quote(context_path(path))}" for path in paths)
    yield "  workflow_dispatch: {}"
    yield "permissions:"
    yield '  contents: "read"'
    yield "env:"
    yield f"  # What pip takes for cuenv: {'the wheel in the repository' if flow.wheel else 'a URL'}, held by its hash."
    yield f"  CUENV: {quote(flow.cuenv)}"
    yield f"  LOCK: {quote(flow.lock)}"
    yield f"  ENVIRONMENT: {quote(flow.environment)}"
    yield "jobs:"


def _lock_job(flow: Workflow) -> Iterator[str]:
    yield "  lock:"
    yield f"    runs-on: {quote(RUNNERS['linux-64'])}"
    yield "    timeout-minutes: 15"
    yield "    steps:"
    yield from _cuenv(flow)
    yield from _step("The lock belongs to its environment file", 'cuenv lock --check "$ENVIRONMENT"')
    yield from _step("It serves the GPUs that it is for", f'cuenv check "$LOCK"{_options(flow)}')


def _install_job(flow: Workflow) -> Iterator[str]:
    yield "  install:"
    yield '    needs: "lock"'
    yield "    strategy:"
    yield "      fail-fast: false"
    yield "      matrix:"
    yield "        include:"
    for platform in flow.platforms:
        yield f"          - platform: {quote(platform)}"
        yield f"            runner: {quote(RUNNERS[platform])}"
    yield '    runs-on: "${{ matrix.runner }}"'
    yield "    timeout-minutes: 60"
    yield "    steps:"
    yield from _cuenv(flow)
    yield "      # Installs by hash, and takes the environment from the cache while the lock is the same."
    yield '      - id: "environment"'
    yield f"        uses: {flow.micromamba.action}@{flow.micromamba.sha} # {flow.micromamba.tag}"
    yield "        with:"
    yield f"          micromamba-version: {quote(flow.micromamba.tool)}"
    yield '          environment-file: "${{ env.LOCK }}"'
    yield '          environment-name: "env"'
    yield "          cache-environment: true"
    key = "cuenv-${{ matrix.platform }}-${{ hashFiles(env.LOCK) }}"
    yield f"          cache-environment-key: {quote(key)}"
    prefix = ("PREFIX", "${{ steps.environment.outputs.environment-path }}")
    if flow.nvcc:
        gpus = _options(flow) or ' --lock "$LOCK"'
        yield from _step("Builds find its compiler and headers", f'cuenv hook --prefix "$PREFIX"{gpus}', prefix)
    check = f'cuenv check --prefix "$PREFIX" --lock "$LOCK"{_options(flow)}'
    yield from _step(
        "It is what the lock says; headers, compiler and a build of CUDA code",
        check,
        prefix,
    )


def _cuenv(flow: Workflow) -> Iterator[str]:
    yield f"      - uses: {flow.checkout.action}@{flow.checkout.sha} # {flow.checkout.tag}"
    yield "        with:"
    yield "          persist-credentials: false"
    wanted = '"cuenv@file://$GITHUB_WORKSPACE/$CUENV"' if flow.wheel else '"$CUENV"'
    yield from _step(
        "cuenv, in an environment of its own",
        'python3 -m venv "$RUNNER_TEMP/cuenv"\n'
        f'"$RUNNER_TEMP/cuenv/bin/python" -m pip install --quiet {wanted}\n'
        'echo "$RUNNER_TEMP/cuenv/bin" >> "$GITHUB_PATH"',
    )


def _step(name: str, script: str, *environ: tuple[str, str]) -> Iterator[str]:
    yield f"      - name: {quote(name)}"
    if environ:
        yield "        env:"
        yield from (f"          {key}: {quote(value)}" for key, value in environ)
    yield "        run: |"
    yield from (f"          {line}" for line in script.splitlines())


def _options(flow: Workflow) -> str:
    return f" {shlex.join(flow.host)}" if flow.host else ""
