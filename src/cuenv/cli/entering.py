"""What ``cuenv run`` and ``cuenv shell-hook`` share."""

from __future__ import annotations

import os
from pathlib import Path

import click

from cuenv.cli.command import PATH, several
from cuenv.core.errors import UsageError

place_options = several(
    click.option("-p", "--prefix", type=PATH, metavar="DIR", help="The folder of an environment."),
    click.option("-n", "--name", metavar="NAME", help="The name of a conda environment."),
)
"""An environment that is there."""


def environment(prefix: Path | None, name: str | None, command: str) -> Path:
    """The folder of the environment that is named.

    Raises:
        UsageError: none is, or two are.
    """
    if prefix and name:
        raise UsageError("--prefix and --name exclude each other", hint=f"{command} --prefix DIR")
    from cuenv.prefix.io.prefix import named_environment  # noqa: PLC0415 - not needed for --help

    if name is not None:
        return named_environment(name, os.environ, command)
    if prefix is None:
        raise UsageError("no environment is named", hint=f"{command} --prefix DIR")
    return prefix
