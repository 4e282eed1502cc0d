"""What every command is: its options in groups in the help, and pointers where other tools are called otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

from cuenv.cli.configured import no_files
from cuenv.core.errors import UsageError

if TYPE_CHECKING:  # only when a shell asks
    from pathlib import Path

    from click.shell_completion import CompletionItem

Completer: TypeAlias = "Callable[[click.Context, click.Parameter, str], list[CompletionItem[str]]]"


class PathType(click.ParamType):  # type: ignore[type-arg] # it is generic since click 8.2
    """A path of the command line, which `click.Path` would look at and call a wrong option.

    Whoever reads it says what is wrong with it.
    """

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path | None:  # noqa: ARG002 - click's signature
        """The path, which need not be there."""
        from pathlib import Path  # noqa: PLC0415 - its library costs a quick command 3 %

        return Path(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:  # noqa: ARG002 - as above
        """The shell completes files and folders itself."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only when a shell asks

        return [CompletionItem(incomplete, type="file")]


class OutputType(PathType):
    """A file to write, or standard output by one of the names that other programs take for it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path | None:
        """The path; ``None`` for standard output."""
        return None if str(value) in ("-", "/dev/stdout") else super().convert(value, param, ctx)


STDIN = "/dev/stdin"


class InputType(PathType):
    """A file to read, or standard input by the name that other programs take for it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path | None:
        """The path; that of standard input for ``-``."""
        return super().convert(STDIN if str(value) == "-" else value, param, ctx)


PATH = PathType()
INPUT = InputType()
OUTPUT = OutputType()


def completes(kind: str) -> Completer:
    """A callback for ``shell_complete`` that offers the names of a kind: ``shell_complete=completes("gpu")``."""

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
"""The groups of options in the help of a command, after those of the command alone."""

talk_decorators = (
    click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout, and nothing else."),
    click.option("-q", "--quiet", is_flag=True, help="Print only the result, errors and negative answers."),
    click.option("-v", "--verbose", is_flag=True, help="Also print evidence and sources."),
    click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="When to use colour."),
    click.option(
        "--no-config",
        is_flag=True,
        is_eager=True,  # before the first option asks for its setting
        expose_value=False,
        callback=no_files,
        help="Ignore cuenv.toml and pyproject.toml.",
    ),
)


def at_once(*flags: str, help: str, text: Callable[[click.Context], str]) -> Callable[[F], F]:  # noqa: A002 - as click calls it
    """An option that prints a text and ends, as click's own do, which look up their help in the catalogues of gettext.

    Those load the locales of Python at every start, and none of them is in another language.
    """

    def show(context: click.Context, _: click.Parameter, value: bool) -> None:
        if value and not context.resilient_parsing:
            click.echo(text(context), color=context.color)
            context.exit()

    return click.option(*flags, is_flag=True, is_eager=True, expose_value=False, callback=show, help=help)


help_option = at_once("-h", "--help", text=click.Context.get_help, help="Show this message and exit.")
prefix_option = click.option("-p", "--prefix", type=PATH, metavar="DIR", help="The folder of an environment.")
name_option = click.option("-n", "--name", metavar="NAME", help="The name of a conda environment.")
offline_option = click.option("--offline", is_flag=True, help="Use only the cache and local folders, no network.")
no_progress_option = click.option("--no-progress", is_flag=True, help="Do not show progress.")


def several(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator."""

    def apply(function: F) -> F:
        for decorate in reversed(decorators):
            function = decorate(function)
        return function

    return apply


talk_options = several(*talk_decorators, help_option)
"""The options of every command."""
before_options = several(*talk_decorators, offline_option, no_progress_option)
"""The options that may stand before the name of a command as well."""


class Grouped(click.Command):
    """A command whose help shows its options in groups, and which knows what people type who know other tools."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options of the command alone first, then those of the host, the request, the channels, the output."""
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
        """As click does, with a pointer for an option of another tool and an example for a value that is missing."""
        typed = [*args]
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            from shlex import join  # noqa: PLC0415 - only when something is wrong

            from cuenv.cli.habits import option_instead  # noqa: PLC0415 - as above

            known = {flag for item in self.params for flag in item.opts}
            meant = option_instead(error.option_name, known, typed)
            if meant is None:
                raise
            said = f"{ctx.command_path} has no option {error.option_name}: {meant[0]}"
            raise UsageError(said, hint=f"{ctx.command_path} {join(meant[1] or ('--help',))}") from error
        except click.BadOptionUsage as error:
            from cuenv.cli.habits import VALUES  # noqa: PLC0415 - as above

            value = VALUES.get(error.option_name)
            if value is None:
                raise
            hint = f"{ctx.command_path} {error.option_name} {value}"
            raise UsageError(f"{error.option_name} needs a value", hint=hint) from error
        except click.MissingParameter as error:
            from cuenv.cli.habits import ENDS, VALUES  # noqa: PLC0415 - as above

            flag = next((flag for flag in (error.param.opts if error.param else ()) if flag in VALUES), None)
            if flag is None:
                raise
            hint = f"{ctx.command_path} {flag} {VALUES[flag]}{ENDS.get(ctx.command_path, '')}"
            raise UsageError(f"{flag} is missing", hint=hint) from error


class GroupedGroup(Grouped, click.Group):
    """A command with commands inside, such as ``profile``; those are `Grouped`."""

    command_class = Grouped

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Without a command inside, the help, and no error."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), color=ctx.color)
            ctx.exit()
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options, then the commands inside."""
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)
