"""The types of the commands' options say what click hands over: the names, and what their values are."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import click

from cuenv.cli import values
from cuenv.cli.kb import KbCommand
from cuenv.cli.main import COMMANDS, load


def commands() -> Iterator[click.Command]:
    """Every command and subcommand that does something."""
    for name in COMMANDS:
        found = load(name)
        inner = (*(found.commands.values() if isinstance(found, click.Group) else ()),)
        yield from inner or (found,)
    yield from KbCommand.subcommands.values()


def handed_over(parameter: click.Parameter) -> Any:
    """The type of what click hands over for an option or argument."""
    if parameter.callback:
        return get_type_hints(parameter.callback)["return"]
    if isinstance(parameter, click.Option) and parameter.is_flag:
        return bool if isinstance(parameter.default, bool) or not parameter.secondary_opts else bool | None
    kinds: dict[str, Any] = {
        "PathType": Path,
        "OutputType": Path,
        "IntParamType": int,
        "IntRange": int,
        "FloatRange": float,
    }
    plain: Any = kinds.get(type(parameter.type).__name__, str)
    if parameter.multiple or parameter.nargs == -1:
        return tuple[plain, ...]
    return plain if isinstance(parameter.default, (str, int, float, Path)) or parameter.required else plain | None


def test_the_type_of_each_command_names_its_options_and_their_values() -> None:
    wrong = []
    count = 0
    for command in commands():
        assert command.callback
        named = inspect.signature(command.callback).parameters
        if "values" not in named:
            continue
        typed = named["values"].annotation.removeprefix("Unpack[").removesuffix("]")
        said = get_type_hints(getattr(values, typed))
        real = {item.name: handed_over(item) for item in command.params if item.expose_value and item.name not in named}
        wrong += [
            f"{command.name}: {name} is {real.get(name)}, {typed} says {said.get(name)}"
            for name in sorted(said.keys() | real.keys(), key=str)
            if said.get(name) != real.get(name)
        ]
        count += 1
    assert wrong == []
    assert count > 25
