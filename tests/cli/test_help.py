"""Help: every command has it, every option in it, and a typing error is told what was meant."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click

from cases import collect
from commands import HOST
from commands import inside as run
from cuenv.cli import main
from cuenv.cli.kb import KbCommand
from cuenv.cli.main import COMMANDS, SECTIONS, cli, load
from cuenv.cli.other_tools import ALIASES, POINTERS
from cuenv.core.errors import ExitCode

FOLDER = Path(main.__file__).parent


def command(name: str) -> click.Command:
    found = load(name)
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
    made = re.compile(r'^@click\.(?:command|group)\("([^"]+)"', re.MULTILINE)
    found = {name for path in FOLDER.glob("*.py") for name in made.findall(path.read_text())}
    assert found == {*COMMANDS, *KbCommand.subcommands}


@collect("name", COMMANDS)
def test_a_command_has_help(name: str) -> None:
    found = command(name)
    assert found.name == name
    assert COMMANDS[name]
    first = (found.help or "").strip().splitlines()[0]
    assert first
    assert len(first) < 100
    assert first.endswith((".", ":"))
    assert not COMMANDS[name].endswith(".")


@collect(("name", "option"), options(), ids=lambda item: str(getattr(item, "name", item)))
def test_an_option_has_help(name: str, option: click.Option) -> None:
    assert option.help, f"{name} {option.opts[0]}"
    assert option.help.endswith("."), f"{name} {option.opts[0]}: {option.help}"
    if not option.is_flag:
        assert option.metavar or isinstance(option.type, click.Choice), f"{name} {option.opts[0]}: VALUE says nothing"


def test_an_option_means_the_same_everywhere() -> None:
    meanings: dict[str, set[str]] = {}
    for name, option in options():
        if (name, option.opts[0]) not in OTHERWISE:
            text = (option.help or "").partition(";")[0].rstrip(".")  # behind it: whether it may be repeated
            meanings.setdefault(option.opts[0], set()).add(text)
    several = {name for name, texts in meanings.items() if len(texts) > 1}
    assert several == set()


OTHERWISE = {
    ("what-if", "--driver"): "The new driver",
    ("lock", "-o"): "With --repair",
    ("install", "-p"): "Create ",
    ("install", "-n"): "Create ",
    ("hook", "--shell"): "With --print",
    ("lock", "--name"): "With --resolve",
    ("export pixi", "--allow"): "Lock despite this finding",
    ("check", "--python"): "a lock of wheels",
    ("diff", "--python"): "a lock of wheels",
    ("inspect", "--from"): "Show the hosts",
    ("report", "--fleet"): "fleet plan --json",
    ("fleet gather", "--from"): "Read hosts",
    ("fleet gather", "--timeout"): "each node",
    ("fleet check", "--python"): "a lock of wheels",
    ("fleet plan", "-o"): "Write to this folder",
}
"""Options that mean something else in a command, and the words of their help that say so."""


@collect(("place", "words"), OTHERWISE.items())
def test_an_option_that_means_something_else_says_so(place: tuple[str, str], words: str) -> None:
    texts = [option.help or "" for name, option in options() if (name, option.opts[0]) == place]
    assert len(texts) == 1
    assert words in texts[0]


@collect("name", [name for name, found in every() if not isinstance(found, click.Group)])
def test_every_command_has_examples_that_are_read_as_they_stand(name: str) -> None:
    found = next(item for other, item in every() if other == name)
    lines = (found.help or "").partition("Examples:\n")[2].partition("\n\n")[0].strip().splitlines()
    assert lines, f"cuenv {name} --help has no examples"
    for line in lines:
        assert re.search(rf"\bcuenv {name.split(maxsplit=1)[0]}\b", line) or "sh " in line, line


VAGUE = re.compile(r"^(Further tables|Say less|Say more)\.$|resolve, lock and bundle take both")


@collect(("name", "option"), options(), ids=lambda item: str(getattr(item, "name", item)))
def test_the_help_of_an_option_says_something(name: str, option: click.Option) -> None:
    assert not VAGUE.search(option.help or ""), f"{name} {option.opts[0]}"


def test_the_options_of_a_long_command_stand_in_groups(tmp_path: Path) -> None:
    text = run("help", "resolve", folder=tmp_path).stdout
    titles = re.findall(r"^([A-Z][a-z ]+):$", text, re.MULTILINE)
    assert titles == ["Options", "The host", "The request", "Channels", "Output"]
    host = text.partition("The host:\n")[2].partition("\n\n")[0]
    assert re.findall(r"^  (--[a-z-]+)", host, re.MULTILINE) == ["--host", "--gpu", "--driver", "--glibc", "--platform"]


@collect("name", [name for name, _ in every()], one_in=4)
def test_help_of_a_command_is_its_help(tmp_path: Path, name: str) -> None:
    done = run("help", *name.split(), folder=tmp_path)
    assert (done.returncode, done.stderr) == (ExitCode.OK, "")
    assert done.stdout == run(*name.split(), "--help", folder=tmp_path).stdout


def test_help_alone_and_help_of_nothing(tmp_path: Path) -> None:
    assert run("help", folder=tmp_path).stdout == run("--help", folder=tmp_path).stdout
    nothing = run("help", "nope", folder=tmp_path)
    assert (nothing.returncode, nothing.stdout) == (ExitCode.USAGE, "")
    assert "nope" in nothing.stderr
    assert run("version", folder=tmp_path).stdout == run("--version", folder=tmp_path).stdout
    for words in (("-q", "help"), ("help", "help"), ("--no-config", "help", "-h")):
        assert run(*words, folder=tmp_path).stdout == run("--help", folder=tmp_path).stdout
    assert run("-v", "help", "lock", folder=tmp_path).stdout == run("lock", "--help", folder=tmp_path).stdout
    assert run("version", "--json", folder=tmp_path).returncode == ExitCode.OK


BEFORE = [
    ("--json", "lint", "environment.yml"),
    ("-q", "resolve", *HOST),
    ("-v", "why", "pytorch", *HOST),
    ("--color", "always", "lint", "environment.yml"),
    ("--color=never", "kb", "gpu", "8.9"),
    ("--offline", "--no-progress", "check", "conda-lock.yml"),
    ("--no-config", "config"),
    ("--json", "profile", "list"),
    ("--json", "kb", "gpu", "8.9"),
    ("-q", "-v", "explain", "libcudart"),
]


@collect("words", BEFORE, ids=" ".join)
def test_options_of_all_commands_stand_before_the_command_too(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "environment.yml").write_text("dependencies: [pytorch, cudatoolkit-dev=11.8]\n")
    (tmp_path / "cuenv.toml").write_text("glibc = '2.31'\n")
    count = next(number for number, word in enumerate(words) if word in COMMANDS)
    before, command = words[:count], words[count:]
    known = {flag for item in load(command[0]).params for flag in item.opts}
    behind = [word for word in before if not word.startswith("-") or word.partition("=")[0] in known]
    if command[0] == "profile":
        behind = list(before)
    first, second = run(*words, folder=tmp_path), run(*command, *behind, folder=tmp_path)
    assert first.returncode == second.returncode
    assert (first.stdout, first.stderr) == (second.stdout, second.stderr)
    assert "No such option" not in first.stderr


def test_what_stands_behind_the_command_goes_first(tmp_path: Path) -> None:
    both = run("--color", "always", "kb", "gpu", "8.9", "--color", "never", folder=tmp_path)
    assert "\x1b" not in both.stdout
    assert run("--json", "--nope", "lint", folder=tmp_path).stdout.startswith("{")
    typed = run("--color", "never", "config", "--json", folder=tmp_path, CUENV_COLOR="always")
    found = {item["name"]: (item["value"], item["origin"]) for item in json.loads(typed.stdout)["settings"]}
    assert found["color"] == ("never", "--color")


@collect(("typed", "meant"), ALIASES.items())
def test_a_name_of_another_tool_is_the_command(tmp_path: Path, typed: str, meant: str) -> None:
    assert run(typed, "--help", folder=tmp_path).stdout == run(meant, "--help", folder=tmp_path).stdout


@collect("typed", POINTERS)
def test_a_name_of_another_tool_leads_to_a_command_that_there_is(tmp_path: Path, typed: str) -> None:
    done = run(typed, "x", folder=tmp_path)
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")
    hint = done.stderr.splitlines()[-1].removeprefix("hint: ").split()
    assert hint[0] in ("cuenv", "conda")
    if hint[0] == "cuenv":
        words = [word for word in hint[2:] if word.startswith("-")]
        found = command(hint[1])
        inner = found.commands[hint[2]] if isinstance(found, click.Group) and hint[2:] else found
        known = {flag for item in inner.params for flag in item.opts} | {"--help"}
        assert set(words) <= known
    assert typed not in COMMANDS


@collect(
    ("words", "said"),
    [
        (("resolve", "--channel", "nvidia"), "--stack"),
        (("resolve", "-c", "nvidia"), "--mirror"),
        (("lock", "--file=x.yml"), "without an option\nhint: cuenv lock x.yml\n"),
        (("lock", "-f", "x.yml", "-v"), "without an option\nhint: cuenv lock x.yml -v\n"),
        (("install", "--dry-run"), "writes? nothing|write nothing"),
        (("resolve", "--torch", "2.5"), "--pytorch\nhint: cuenv resolve --pytorch 2.5\n"),
        (("resolve", "--torch=2.5"), "hint: cuenv resolve --pytorch=2.5\n"),
        (("check", "--torch", "2.5"), "other commands"),
        (("resolve", "--gpus", "2"), "--gpu"),
        (("check", "--fix"), "cuenv lint --fix"),
        (("resolve", "--yes"), "asks no questions"),
    ],
    ids=lambda item: " ".join(item) if isinstance(item, tuple) else "",
)
def test_an_option_of_another_tool_is_told_what_it_is_here(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    done = run(*words, folder=tmp_path)
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")
    assert re.search(said, done.stderr), done.stderr


@collect("flag", ["--gpu", "--driver", "--host", "--pytorch", "--mirror", "-o"])
def test_an_option_without_its_value_is_told_one(tmp_path: Path, flag: str) -> None:
    done = run("resolve", flag, folder=tmp_path)
    assert done.returncode == ExitCode.USAGE
    hint = done.stderr.splitlines()[-1]
    assert re.fullmatch(rf"hint: cuenv resolve {flag} \S.*", hint)


def test_several_gpus_stand_in_one_option_with_commas(tmp_path: Path) -> None:
    rest = ("--driver", "575.57.08", "--glibc", "2.35")
    one = run("resolve", "--gpu", "V100, RTX 5090", *rest, folder=tmp_path)
    two = run("resolve", "--gpu", "V100", "--gpu", "RTX 5090", *rest, folder=tmp_path)
    assert one.returncode == ExitCode.OK
    assert one.stderr == two.stderr
    wrong = run("resolve", "--gpu", "A100,,H100", folder=tmp_path)
    assert wrong.returncode == ExitCode.USAGE


@collect("words", [("--help",), ("-h",), *((*name.split(), "--help") for name, _ in every())], ids=" ".join)
def test_help_is_printed(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = run(*words, folder=tmp_path)
    assert (done.returncode, done.stderr) == (ExitCode.OK, "")
    assert done.stdout.startswith(f"Usage: cuenv {' '.join(words[:-1])}".strip())
    assert max(map(len, done.stdout.splitlines())) <= 110


def test_the_first_help_fits_eighty_columns(tmp_path: Path) -> None:
    assert max(map(len, run("--help", folder=tmp_path, COLUMNS="80").stdout.splitlines())) < 80


def test_the_help_lists_every_command_in_order(tmp_path: Path) -> None:
    text = run("--help", folder=tmp_path).stdout
    listed = re.findall(r"^([A-Z][a-z ]+):\n((?:  .*\n)+)", text.partition("--help")[2], re.MULTILINE)
    shown = {title: tuple(re.findall(r"^  ([a-z]\S*)  ", lines, re.MULTILINE)) for title, lines in listed}
    assert shown == SECTIONS
    assert cli.list_commands(click.Context(cli)) == [name for names in SECTIONS.values() for name in names]


def test_every_command_stands_in_one_section() -> None:
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(COMMANDS)


def test_the_commands_of_the_examples_exist() -> None:
    texts = [main.cli.help or "", main.cli.epilog or "", *((command(name).help or "") for name in COMMANDS)]
    words = [found for text in texts for found in re.findall(r"\bcuenv ([a-z-]+)\b", text)]
    assert len(words) > 10
    assert set(words) <= {*COMMANDS, "help"}


@collect(("typed", "meant"), [("resolv", "resolve"), ("chek", "check"), ("whynot", "why-not")])
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
