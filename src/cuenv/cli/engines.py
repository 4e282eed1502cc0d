"""Options that choose the solver of a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cuenv.cli.configured import typed
from cuenv.errors import UsageError
from cuenv.lockfile import ENGINES

if TYPE_CHECKING:  # not needed for --help
    from cuenv.flows.engines import Engine

_F = TypeVar("_F", bound=Callable[..., Any])


def engine_options(function: _F) -> _F:
    """Add the options to a command."""
    conda = click.option("--conda", metavar="PATH", help="The conda, mamba or micromamba that conda-lock drives.")
    engine = click.option("--engine", type=click.Choice(ENGINES), default=ENGINES[0], help="The solver to ask.")
    return engine(conda(function))


def engine_from(values: dict[str, Any]) -> Engine:
    """The solver of a command.

    Raises:
        UsageError: a client is named, and nothing would drive it.
    """
    from cuenv.flows.engines import Engine  # noqa: PLC0415 - not needed for --help

    engine = Engine(name=values["engine"], conda=values["conda"])
    if engine.conda and not engine.foreign and typed("conda"):
        raise UsageError("--conda names the client of conda-lock", hint="cuenv lock --engine conda-lock --conda PATH")
    return engine
