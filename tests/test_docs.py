"""Every command on the pages of docs/ does what the page says: run on recorded hosts and the sample channel."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from cases import collect, quick
from commands import in_shell
from cuenv.cli.kb import KbCommand
from cuenv.cli.main import COMMANDS, load
from cuenv.core.urls import channel_url
from cuenv.demo.io.sample import write_sample
from cuenv.host.io.record import SHIPPED
from doc_pages import RUN, Step, commands, given, steps
from doc_tables import made

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("*.md"))}
TASKS = [name for name, text in PAGES.items() if text.startswith(RUN)]
QUICK = (
    "check-an-installed-environment.md",
    "from-any-environment-file-to-a-lock.md",
    "login-node-without-gpu.md",
    "paste.md",
)
"""The pages whose commands the fast tests run: one of each kind."""
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)")


@pytest.fixture(scope="module")
def mirrors(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The sample channels, as the variable CUENV_MIRROR names them."""
    folder = tmp_path_factory.mktemp("channels")
    written = write_sample(folder, "linux-64")
    for subdir in ("linux-64", "noarch"):  # a recipe names the plain channel nvidia, of which the sample needs nothing
        (folder / "nvidia" / subdir).mkdir(parents=True)
        (folder / "nvidia" / subdir / "repodata.json").write_text('{"packages": {}, "packages.conda": {}}')
    plain = f"{channel_url('nvidia')}={folder / 'nvidia'}"
    return ",".join([*(f"{mirror.origin}={mirror.target}" for mirror in written), plain])


@pytest.fixture
def shell(tmp_path: Path, mirrors: str) -> dict[str, str]:
    """The variables of a shell in which ``cuenv`` is this one, and channels are the sample."""
    program = tmp_path / "bin" / "cuenv"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {in_shell()} "$@"\n')
    program.chmod(0o755)
    kept = {name: os.environ[name] for name in ("LANG", "LC_ALL") if name in os.environ}
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / ".cache"), "NO_COLOR": "1", "CONDARC": os.devnull}
    path = f"{program.parent}:/usr/bin:/bin"
    return {**kept, **home, "PATH": path, "CUENV_MIRROR": mirrors}


@pytest.mark.slow
@pytest.mark.parametrize("page", quick(TASKS, *QUICK))
def test_a_page_does_what_it_says(tmp_path: Path, shell: dict[str, str], page: str) -> None:
    folder, status = tmp_path / "here", 0
    folder.mkdir()
    for step in steps(PAGES[page]):
        if step.kind == "machine":
            shell["CUENV_HOST"] = step.name
        elif step.kind == "given":
            name, host = given(step.name)
            shutil.copy(f"{SHIPPED}/{host}.json", folder / name)
        elif step.kind == "file":
            (folder / step.name).parent.mkdir(parents=True, exist_ok=True)
            (folder / step.name).write_text("\n".join([*step.lines, ""]), encoding="utf-8")
        elif step.name == "echo $?":
            assert step.lines == [str(status)], f"{page}: after the last command $? is {status}"
            status = 0
        elif step.kind == "run":
            assert status == 0, f"{page}: before {step.name!r} the exit code is {status}: show it with 'echo $?'"
            done = subprocess.run(
                ["bash", "-c", step.name],
                cwd=folder,
                env=shell,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            status, printed = done.returncode, done.stderr + done.stdout
            assert "Traceback" not in printed
            for line in step.lines:
                assert line in printed.splitlines(), f"{page}: {step.name}\n{printed}"
    assert status == 0, f"{page}: the last exit code is {status}: show it with 'echo $?'"


@collect("page", PAGES)
def test_every_command_of_a_page_exists_with_its_options(page: str) -> None:
    found = commands(PAGES[page])
    found += [text for text in re.findall(r"`(cuenv [^`]+)`", PAGES[page]) if "[" not in text]
    for text in found:
        for words in cuenv_words(text):
            parsed(words, text)


def cuenv_words(text: str) -> list[list[str]]:
    """The words after each ``cuenv`` of a line for the shell, up to where another command begins."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.wordchars += "*=:,+@%$![]{}#"
    found: list[list[str]] = []
    inside = False
    for word in lexer:
        if word == "cuenv":
            found.append([])
            inside = True
        elif re.fullmatch(r"[|;&<>()]+", word):
            inside = False
        elif inside:
            found[-1].append(word)
    return found


def parsed(words: list[str], text: str) -> None:
    """Hold a command, its subcommand and its options to those that there are."""
    if not words or words[0].startswith("-"):
        return
    assert words[0] in COMMANDS, text
    command = load(words[0])
    rest = words[1:]
    if rest and isinstance(command, click.Group) and rest[0] in command.commands:
        command = command.commands[rest.pop(0)]
    elif rest and words[0] == "kb" and rest[0] in KbCommand.subcommands:
        command = KbCommand.subcommands[rest.pop(0)]
    known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)} | {"--help", "-h"}
    for word in rest[: rest.index("--")] if "--" in rest else rest:  # behind it: words of another program
        if word.startswith("-") and word != "-":
            assert word.partition("=")[0] in known, f"{text}: there is no {word}"


@collect("text", ["$ cuenv resolv", "`cuenv lock --colour`", "$ true && cuenv profile list --all"])
def test_a_command_that_is_none_is_found(text: str) -> None:
    for words in cuenv_words(text.strip("`$ ")):
        with pytest.raises(AssertionError):
            parsed(words, text)


@collect("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    for target, anchor in LINK.findall(PAGES[page]):
        if "://" in target:
            continue
        path = (DOCS / target).resolve() if target else DOCS / page
        assert path.exists(), target
        if anchor:
            heads = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^a-z0-9 -]", "", head.lower()).replace(" ", "-") for head in heads}


@collect("page", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/architecture.md"])
def test_every_path_that_a_page_names_is_there(page: str) -> None:
    text = (DOCS.parent / page).read_text(encoding="utf-8")
    named = re.findall(r"(?<![\w/.])(?:src|tests|docs|benchmarks|profiles|locks)/[\w./-]*\w", text)
    literal = [path for path in named if not re.search(r"\b[A-Z]{2,}\b|_[A-Z]+\b", path)]  # capitals: a reader's own
    assert [path for path in literal if not (DOCS.parent / path).exists()] == []
    inner = re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.py)`", text)
    files = [path.as_posix() for path in (DOCS.parent / "src").rglob("*.py")]
    assert [path for path in inner if path not in named and not any(file.endswith(f"/{path}") for file in files)] == []


def test_the_index_names_every_page_and_the_readme_the_index() -> None:
    linked = {target for target, _ in LINK.findall(PAGES["README.md"])}
    assert linked >= set(PAGES) - {"README.md"}
    assert "(docs/README.md)" in (DOCS.parent / "README.md").read_text(encoding="utf-8")


@collect("page", PAGES)
def test_tables_that_are_made_from_the_source_are_up_to_date(page: str) -> None:
    assert PAGES[page] == made(PAGES[page]), "run: python tests/doc_tables.py"


def test_what_a_page_shows_is_compared() -> None:
    """The marks do what they say: nothing is read where it should be run."""
    text = "```console\n$ cuenv kb\nx\n```\n<!-- needs: a GPU -->\n```console\n$ cuenv inspect\n```\n"
    assert steps(text) == [Step(kind="run", name="cuenv kb", lines=["x"]), Step(kind="read", name="cuenv inspect")]
    kinds = [step.kind for name in TASKS for step in steps(PAGES[name])]
    assert kinds.count("run") > 3 * kinds.count("read")


@collect("page", PAGES)
def test_the_machine_that_a_page_was_made_on_is_said_where_it_is_read(page: str) -> None:
    """A comment is seen by nobody who reads the rendered page."""
    text = PAGES[page]
    shown = re.sub(r"<!--.*?-->|^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    for name in re.findall(r"^<!-- machine: (\S+) -->$", text, re.MULTILINE):
        assert f"recorded host `{name}`" in " ".join(shown.split())
