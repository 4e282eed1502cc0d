"""The group of all commands, and the only place where errors become exit codes."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import click

from cuenv.cli.command import group_options, help_option, print_and_exit_option
from cuenv.cli.defaults import Defaults, with_origin
from cuenv.cli.output import emit_json, emit_lines, error_json, remember_colour, say
from cuenv.core import __version__
from cuenv.core.errors import CuenvError, ExitCode, NotALockError
from cuenv.core.errors import UsageError as CuenvUsageError

COMMANDS = {
    "demo": "run every step on a small sample channel: try this first",
    "inspect": "show this machine: driver, GPUs, C library, toolkits, torch",
    "resolve": "choose PyTorch and CUDA for a host, and write environment.yml",
    "lock": "pin every package of environment.yml in lock files",
    "lint": "find mistakes in environment files, Dockerfiles and more",
    "check": "check that a lock or an installed environment runs on a host",
    "report": "write a page with pictures of a lock, host or fleet",
    "scan": "list the GPUs that compiled files contain code for",
    "diagnose": "explain the error in a log, with the command that cures it",
    "hook": "let builds of CUDA extensions find an environment's CUDA",
    "install": "create the environment of a lock or bundle, without conda",
    "run": "run a program inside an environment",
    "shell-hook": "print the lines with which a shell activates an environment",
    "bundle": "put all packages of a lock into one folder or tar",
    "diff": "compare two locks, and say what the change means for hosts",
    "fleet": "gather many hosts, and plan their fewest environments",
    "what-if": "show what another driver or other GPUs would change",
    "why": "explain the decision, or what a finding code means",
    "why-not": "say why something was not chosen: why-not cuda=13.0",
    "export": "write a container, CI jobs, a batch script or shell lines",
    "explain": "answer questions about CUDA, and correct common mistakes",
    "kb": "show the tables of drivers, toolkits, GPUs and builds",
    "profile": "list, show, create and validate profiles",
    "cache": "show the cache, or empty it",
    "config": "show each setting and its source",
    "schema": "print the JSON Schema of what --json prints",
    "completion": "make Tab complete commands, options and GPUs in your shell",
}
"""The commands with their short help; a test compares it with each command."""

SECTIONS: Mapping[str, tuple[str, ...]] = {
    "Decide": ("demo", "inspect", "resolve", "what-if", "fleet", "profile"),
    "Lock": ("lock", "diff"),
    "Check": ("lint", "check", "scan", "report"),
    "Understand": ("diagnose", "why", "why-not", "explain", "kb"),
    "Deliver": ("install", "run", "shell-hook", "hook", "export", "bundle"),
    "Set up": ("config", "cache", "completion", "schema"),
}
"""The sections of the help, in the order of use; a test checks that every command is in one section."""

if TYPE_CHECKING:  # only when a shell asks
    from click.shell_completion import CompletionItem

_EPILOG = """\b
Options and examples of a command:
  cuenv resolve --help
"""


_LONG_COMMAND = 80  # the length from which a command gets a line of its own, with its description below
_MODULES = {"why-not": "why", "shell-hook": "run"}  # commands that are defined in the module of another command


def load(name: str) -> click.Command:
    """Import a command from its module."""
    module = importlib.import_module(f"cuenv.cli.{_MODULES.get(name, name).replace('-', '_')}")
    command: click.Command = getattr(module, f"{name.replace('-', '_')}_command" if name in _MODULES else "command")
    return command


class Commands(click.Group):
    """The group of commands, which imports only the module of the command that is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The commands in the order of use."""
        return [name for names in SECTIONS.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a command, and take the defaults of its options from the settings."""
        if cmd_name not in COMMANDS:
            return None
        command = load(cmd_name)
        ctx.default_map = {cmd_name: Defaults(command)}
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """As click does, but an error about an option names the setting that set it."""
        try:
            return super().invoke(ctx)
        except CuenvUsageError as error:
            raise with_origin(error, ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        """List the commands by section, without importing them."""
        width = max(map(len, COMMANDS))
        for title, names in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), COMMANDS[name]) for name in names])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Complete commands without importing them, and options as click does."""
        from cuenv.cli.completion_names import items  # noqa: PLC0415 - only when a shell asks

        names = {name: COMMANDS[name] for name in self.list_commands(ctx)}
        return [*items(names, incomplete), *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """As click does, but with hints for the commands of other tools and for typing errors."""
        while args and args[0] == "help":  # `help COMMAND` is `COMMAND --help`
            args = [word for word in args[1:] if word not in ("--help", "-h")]
            if not args:
                click.echo(ctx.get_help())
                ctx.exit()
            args = [*args, "--help"] if args[0] != "help" else args
        name = args[0]
        if name == "version":
            click.echo(f"cuenv {__version__}")
            ctx.exit()
        if name not in COMMANDS:
            from cuenv.cli.other_tools import ALIASES, POINTERS  # noqa: PLC0415 - only when something is wrong

            args = [ALIASES.get(name, name), *args[1:]]
            if name in POINTERS:
                command, what = POINTERS[name]
                raise CuenvUsageError(f"no such command {name!r}: {what}", hint=command)
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches  # noqa: PLC0415 - only when something is wrong

            near = get_close_matches(name, COMMANDS, n=1)
            if not near:
                raise
            raise click.UsageError(f"{error.format_message()} Did you mean {near[0]!r}?", ctx) from error

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does, but with a hint that options of one command stand behind its name."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            said = f"no option {error.option_name} for all commands; put the option of a command after its name"
            raise click.UsageError(said, ctx) from error


@click.group(
    cls=Commands,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    invoke_without_command=True,
)
@group_options
@print_and_exit_option("-V", "--version", text=lambda _: f"cuenv {__version__}", help="Show the version and exit.")
@help_option
@click.pass_context
def cli(ctx: click.Context, /, **values: Any) -> None:
    """Conda environments with CUDA and PyTorch that are known to run on your GPUs.

    It looks at the NVIDIA driver and the GPUs, chooses a PyTorch build and a CUDA toolkit that fit, writes
    environment.yml, locks every package with its hash, and checks the result on any machine. It always says why.

    \b
    Start here:
      cuenv demo             see every step on a sample; needs no network
      cuenv lock --resolve   choose PyTorch and CUDA for this machine, pin them
      cuenv check            say whether the lock runs here, and if not, why
      cuenv diagnose LOG     explain an error that you already have
    """
    if ctx.invoked_subcommand is None:
        _show_next_step(as_json=values["as_json"])


def _show_next_step(*, as_json: bool) -> None:
    """``cuenv`` without a command: print which files this folder contains, and the next commands."""
    from pathlib import Path  # noqa: PLC0415 - only then

    from cuenv.core.io.process import setup_command  # noqa: PLC0415 - as above
    from cuenv.demo.next_step import next_step  # noqa: PLC0415 - as above

    step = next_step(Path(), os.environ)
    if as_json:
        emit_json(
            {
                "schema": "cuenv/next/1",
                "found": list(step.found),
                "next": [{"command": command, "does": what} for command, what in step.commands],
            }
        )
        return
    before = setup_command(os.environ)
    commands = [*([(before, "once in this shell: cuenv is not on PATH")] if before else []), *step.commands]
    width = max((len(command) for command, _ in commands if len(command) < _LONG_COMMAND), default=0)
    lines = [*step.found, "", "next:"]
    for command, what in commands:
        alone, beside = ([f"  {command}"], "") if len(command) > width else ([], command)
        lines += [*alone, f"  {beside:<{width}}   {what}"]
    emit_lines([*lines, "", "all commands: cuenv --help"])


def run(argv: Sequence[str]) -> int:
    """Run the command line.

    Args:
        argv: the arguments without the program.

    Returns:
        The exit code, one of `ExitCode`.
    """
    if "_CUENV_COMPLETE" in os.environ:
        return _answer_completion(os.environ["_CUENV_COMPLETE"])
    wants_json = _wants_json(argv)
    remember_colour(_wanted_colour(argv))
    try:
        code = cli.main(args=list(argv), prog_name="cuenv", standalone_mode=False)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.Abort:
        return ExitCode.INTERRUPTED
    except click.ClickException as error:
        usage = isinstance(error, click.UsageError)
        _fail("usage" if usage else "input", error.format_message(), _help_of_error(error), wants_json=wants_json)
        return ExitCode.USAGE if usage else ExitCode.INPUT
    except CuenvError as error:
        again = _with_lock(error, argv) if isinstance(error, NotALockError) else ""
        _fail(error.code, error.message, again or error.hint or _help_of_typed(argv), wants_json=wants_json)
        return error.exit
    except OSError as error:
        if not isinstance(error.filename, str):
            raise  # an error of a stream of this process, which the caller handles
        from cuenv.core.io.files import ls_command, path_text, reason_of  # noqa: PLC0415 - only when something is wrong

        _fail(
            "outside",
            f"{path_text(error.filename)}: {reason_of(error)}",
            ls_command(error.filename, error),
            wants_json=wants_json,
        )
        return ExitCode.OUTSIDE
    return code if isinstance(code, int) else ExitCode.OK


def _with_lock(error: NotALockError, argv: Sequence[str]) -> str:
    """The command as it was typed, with the lock in place of its environment file; empty if it contains a URL."""
    if error.file not in argv or any("://" in word for word in argv):
        return ""
    import shlex  # noqa: PLC0415 - only when something is wrong

    meant = shlex.join(["cuenv", *(error.lock if word == error.file else word for word in argv)])
    return f"{error.make} && {meant}" if error.make else meant


def _answer_completion(instruction: str) -> int:
    """Answer a shell that completes; this never fails."""
    from cuenv.cli.completion import completions  # noqa: PLC0415 - only when a shell asks

    found = completions(cli, instruction)
    if found:
        click.echo(found, nl=not found.endswith("\n"))
    return ExitCode.OK


def _wants_json(argv: Sequence[str]) -> bool:
    """Whether JSON is requested, by the typed words alone, because the command line may be invalid."""
    return "--json" in argv or "--format=json" in argv or ("--format", "json") in pairwise(argv)


def _wanted_colour(argv: Sequence[str]) -> str:
    """The value of ``--color`` by the typed words alone, because the command line may be invalid."""
    said = [text.removeprefix("--color=") for text in argv if text.startswith("--color=")]
    said += [text for flag, text in pairwise(argv) if flag == "--color"]
    return said[-1] if said and said[-1] in ("always", "never") else "auto"


def _help_of_error(error: click.ClickException) -> str | None:
    context = getattr(error, "ctx", None)
    return f"{context.command_path} --help" if context else None


def _help_of_typed(argv: Sequence[str]) -> str:
    """The command that prints the help of the typed command, for an error without a hint."""
    return " ".join(["cuenv", *[word for word in argv if word in COMMANDS][:1], "--help"])


def _fail(code: str, message: str, hint: str | None, *, wants_json: bool) -> None:
    if wants_json:
        click.echo(error_json(code, message, hint))
        return
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")  # remove a line of progress
    first, *rest = message.splitlines() or [""]
    more = [line if line.startswith(" ") else f"  {line}" for line in rest]  # indented, so that none looks like a hint
    say([f"error: {first}", *more, *([f"hint: {hint}"] if hint else [])])
