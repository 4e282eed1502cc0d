"""Help: every command has it, every option in it, and a typing error is told what was meant."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

import click
import pytest

from commands import inside as run
from cuenv.cli import main
from cuenv.cli.main import COMMANDS, SECTIONS, cli
from cuenv.errors import ExitCode

FOLDER = Path(main.__file__).parent


def command(name: str) -> click.Command:
    found = importlib.import_module(f"cuenv.cli.{name.replace('-', '_')}").command
    assert isinstance(found, click.Command)
    return found


def options() -> list[tuple[str, click.Option]]:
    return [(name, item) for name, found in every() for item in found.params if isinstance(item, click.Option)]


def every() -> list[tuple[str, click.Command]]:
    """Every command, and those inside a group such as ``profile list``."""
    found = [(name, command(name)) for name in COMMANDS]
    groups = [(name, item) for name, item in found if isinstance(item, click.Group)]
    return found + [(f"{name} {inner}", item) for name, group in groups for inner, item in group.commands.items()]


def test_every_module_with_a_command_is_listed() -> None:
    made = re.compile(r"^@click\.(command|group)\(\"", re.MULTILINE)
    modules = {path.stem for path in FOLDER.glob("*.py") if made.search(path.read_text())}
    assert modules == {name.replace("-", "_") for name in COMMANDS}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_help(name: str) -> None:
    found = command(name)
    assert found.name == name
    assert COMMANDS[name]
    first = (found.help or "").strip().splitlines()[0]
    assert first
    assert len(first) < 100
    assert first.endswith((".", ":"))
    assert not COMMANDS[name].endswith(".")


@pytest.mark.parametrize(("name", "option"), options(), ids=lambda item: str(getattr(item, "name", item)))
def test_an_option_has_help(name: str, option: click.Option) -> None:
    assert option.help, f"{name} {option.opts[0]}"
    assert option.help.endswith("."), f"{name} {option.opts[0]}: {option.help}"
    if not option.is_flag:
        assert option.metavar or isinstance(option.type, click.Choice), f"{name} {option.opts[0]}: VALUE says nothing"


def test_an_option_means_the_same_everywhere() -> None:
    meanings: dict[str, set[str]] = {}
    for _, option in options():
        meanings.setdefault(option.opts[0], set()).add(option.help or "")
    several = {name for name, texts in meanings.items() if len(texts) > 1}
    assert several == set()


@pytest.mark.parametrize(
    "words", [("--help",), ("-h",), *((*name.split(), "--help") for name, _ in every())], ids=" ".join
)
def test_help_is_printed(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = run(*words, folder=tmp_path)
    assert (done.returncode, done.stderr) == (ExitCode.OK, "")
    assert done.stdout.startswith(f"Usage: cuenv {' '.join(words[:-1])}".strip())
    assert max(map(len, done.stdout.splitlines())) <= 110


def test_the_help_lists_every_command_in_order(tmp_path: Path) -> None:
    text = run("--help", folder=tmp_path).stdout
    listed = re.findall(r"^([A-Z][a-z ]+):\n((?:  .*\n)+)", text.partition("--help")[2], re.MULTILINE)
    shown = {title: tuple(re.findall(r"^  ([a-z]\S*)  ", lines, re.MULTILINE)) for title, lines in listed}
    assert shown == SECTIONS
    assert cli.list_commands(click.Context(cli)) == [name for names in SECTIONS.values() for name in names]


def test_every_command_stands_in_one_section() -> None:
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(COMMANDS)


def test_the_commands_of_the_examples_exist() -> None:
    texts = [main.cli.epilog or "", *((command(name).help or "") for name in COMMANDS)]
    words = [found for text in texts for found in re.findall(r"\bcuenv ([a-z-]+)\b", text)]
    assert len(words) > 10
    assert set(words) <= set(COMMANDS)


@pytest.mark.parametrize(("typed", "meant"), [("resolv", "resolve"), ("chek", "check"), ("whynot", "why-not")])
def test_a_slip_is_told_what_was_meant(tmp_path: Path, typed: str, meant: str) -> None:
    done = run(typed, folder=tmp_path)
    assert done.returncode == ExitCode.USAGE
    assert done.stdout == ""
    assert f"Did you mean {meant!r}?" in done.stderr


def test_what_is_near_nothing_is_refused(tmp_path: Path) -> None:
    done = run("xyzzy", "--json", folder=tmp_path)
    assert done.returncode == ExitCode.USAGE
    error = json.loads(done.stdout)["error"]
    assert "xyzzy" in error["message"]
    assert "Did you mean" not in error["message"]


def test_the_version_is_the_packages_own(tmp_path: Path) -> None:
    from cuenv import __version__

    assert run("--version", folder=tmp_path).stdout == f"cuenv {__version__}\n"
