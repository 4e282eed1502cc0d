"""The classes of all commands, with grouped options in their help, and the options that all commands share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

from cuenv.cli.defaults import ignore_files
from cuenv.core.errors import UsageError

if TYPE_CHECKING:  # only when a shell asks
    from pathlib import Path

    from click.shell_completion import CompletionItem

Completer: TypeAlias = "Callable[[click.Context, click.Parameter, str], list[CompletionItem[str]]]"


class PathType(click.ParamType):  # type: ignore[type-arg] # it is generic since click 8.2
    """A path on the command line. Unlike `click.Path` it is not checked; the command does that."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path | None:  # noqa: ARG002 - click's signature
        """The path, which may not exist."""
        from pathlib import Path  # noqa: PLC0415 - its library costs a quick command 3 %

        return Path(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:  # noqa: ARG002 - as above
        """The shell completes files and folders itself."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only when a shell asks

        return [CompletionItem(incomplete, type="file")]


class OutputType(PathType):
    """A file to write; ``-`` and ``/dev/stdout`` mean standard output."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path | None:
        """The path; ``None`` for standard output."""
        return None if str(value) in ("-", "/dev/stdout") else super().convert(value, param, ctx)


STDIN = "/dev/stdin"


class InputType(PathType):
    """A file to read; ``-`` means standard input."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path | None:
        """The path; ``/dev/stdin`` for ``-``."""
        return super().convert(STDIN if str(value) == "-" else value, param, ctx)


PATH = PathType()
INPUT = InputType()
OUTPUT = OutputType()


def completes(kind: str) -> Completer:
    """A function for ``shell_complete`` that completes names of a kind: ``shell_complete=completes("gpu")``."""

    def complete(context: click.Context, _: click.Parameter, text: str) -> list[CompletionItem[str]]:
        from cuenv.cli.completion_names import KINDS, items  # noqa: PLC0415 - only when a shell asks

        return items(KINDS[kind](context), text)

    return complete


F = TypeVar("F", bound=Callable[..., Any])

_GROUPS: Mapping[str, str] = {
    "The host": "--host --gpu --driver-now --driver --add-gpu --remove-gpu --glibc --platform",
    "The request": "--profile --stack --pytorch --cuda --python --with --dev --cpu --prefer --knowledge",
    "The part of a lock": "--environment --extra --group",
    "Channels": "--mirror --offline --channel",
    "Output": "-o --output --format --redact --json -q -v --color --no-progress --no-config --help -h",
}
"""The groups of shared options in the help of a command, in their order."""

_output_options = (
    click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout, and nothing else."),
    click.option("-q", "--quiet", is_flag=True, help="Print only the result, errors and negative answers."),
    click.option("-v", "--verbose", is_flag=True, help="Also print evidence and sources."),
    click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="When to use colour."),
    click.option(
        "--no-config",
        is_flag=True,
        is_eager=True,  # before the first option asks for its setting
        expose_value=False,
        callback=ignore_files,
        help="Ignore cuenv.toml and pyproject.toml.",
    ),
)


def print_and_exit_option(*flags: str, help: str, text: Callable[[click.Context], str]) -> Callable[[F], F]:  # noqa: A002 - as click calls it
    """An option that prints a text and exits.

    click's own ones translate their help with gettext, which would load Python's locales at every start.
    """

    def show(context: click.Context, _: click.Parameter, value: bool) -> None:
        if value and not context.resilient_parsing:
            click.echo(text(context), color=context.color)
            context.exit()

    return click.option(*flags, is_flag=True, is_eager=True, expose_value=False, callback=show, help=help)


help_option = print_and_exit_option("-h", "--help", text=click.Context.get_help, help="Show this message and exit.")
prefix_option = click.option("-p", "--prefix", type=PATH, metavar="DIR", help="The folder of an environment.")
name_option = click.option("-n", "--name", metavar="NAME", help="The name of a conda environment.")
offline_option = click.option("--offline", is_flag=True, help="Use only the cache and local folders, no network.")
no_progress_option = click.option("--no-progress", is_flag=True, help="Do not show progress.")


def combined(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """One decorator that adds several options."""

    def apply(function: F) -> F:
        for decorate in reversed(decorators):
            function = decorate(function)
        return function

    return apply


output_options = combined(*_output_options, help_option)  # the options of every command
group_options = combined(*_output_options, offline_option, no_progress_option)
"""The options that may also stand in front of a command."""


class CuenvCommand(click.Command):
    """A command that groups its options in its help, and recognises the options of other tools."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The command's own options first, then the groups of shared options."""
        rows: dict[str, list[tuple[str, str]]] = {"Options": [], **{title: [] for title in _GROUPS}}
        places = {flag: title for title, flags in _GROUPS.items() for flag in flags.split()}
        for item in self.get_params(ctx):
            row = item.get_help_record(ctx)
            if row is not None and row[1]:
                title = next((places[flag] for flag in item.opts if flag in places), "Options")
                rows[title].append(row)
        for title, found in rows.items():
            if found:
                with formatter.section(title):
                    formatter.write_dl(found)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does, but with a hint for an option of another tool, and with an example for a missing value."""
        typed = [*args]
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            from shlex import join  # noqa: PLC0415 - only when something is wrong

            from cuenv.cli.other_tools import option_of_other_tool  # noqa: PLC0415 - as above

            known = {flag for item in self.params for flag in item.opts}
            meant = option_of_other_tool(error.option_name, known, typed)
            if meant is None:
                raise
            said = f"{ctx.command_path} has no option {error.option_name}: {meant[0]}"
            raise UsageError(said, hint=f"{ctx.command_path} {join(meant[1] or ('--help',))}") from error
        except click.BadOptionUsage as error:
            from cuenv.cli.other_tools import VALUES  # noqa: PLC0415 - as above

            value = VALUES.get(error.option_name)
            if value is None:
                raise
            hint = f"{ctx.command_path} {error.option_name} {value}"
            raise UsageError(f"{error.option_name} needs a value", hint=hint) from error
        except click.MissingParameter as error:
            from cuenv.cli.other_tools import ARGUMENTS, VALUES  # noqa: PLC0415 - as above

            flag = next((flag for flag in (error.param.opts if error.param else ()) if flag in VALUES), None)
            if flag is None:
                raise
            hint = f"{ctx.command_path} {flag} {VALUES[flag]}{ARGUMENTS.get(ctx.command_path, '')}"
            raise UsageError(f"{flag} is missing", hint=hint) from error


class CuenvGroup(CuenvCommand, click.Group):
    """A command with subcommands, such as ``profile``."""

    command_class = CuenvCommand

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Without a subcommand, print the help instead of an error."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), color=ctx.color)
            ctx.exit()
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options, then the subcommands."""
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)
