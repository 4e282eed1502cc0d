"""Tab: what is offered, in real shells and by click's protocol; quick, and silent whatever is broken."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from contextlib import closing
from pathlib import Path

import click
import pytest

from cases import collect, quick
from commands import in_shell
from commands import inside as run
from commands import run as process
from cuenv.cli import completion
from cuenv.cli.completion import SHELLS, completions
from cuenv.cli.completion_names import KINDS, TABLES, gpus, items
from cuenv.cli.main import COMMANDS, cli, load
from cuenv.core.errors import ExitCode
from cuenv.host.select import HostOptions, host_facts
from given import shipped_base
from imported import HEAVY, modules
from shell_terminal import Terminal


def offered(monkeypatch: pytest.MonkeyPatch, *words: str, shell: str = "bash") -> list[str]:
    """What a shell is offered for the last of the words."""
    quoted = [shlex.quote(word) if word else "" for word in ("cuenv", *words)]
    monkeypatch.setenv("COMP_WORDS", " ".join(quoted))
    word = quoted[-1]
    monkeypatch.setenv("COMP_CWORD", word if shell == "fish" else str(len(words)))
    found = completions(cli, f"{shell}_complete").splitlines()
    return found[1::3] if shell == "zsh" else [line.partition(",")[2].partition("\t")[0] for line in found]


@collect(
    ("words", "some"),
    [
        (("",), ["demo", "resolve", "why-not", "completion"]),
        (("--ver",), ["--version"]),
        (("resolve", "--gp"), ["--gpu"]),
        (("resolve", "--gpu", "rtx 3090 t"), ["RTX-3090-Ti"]),
        (("resolve", "--gpu", "rtx-3090-t"), ["RTX-3090-Ti"]),
        (("resolve", "--gpu", "H2"), ["H20", "H200"]),
        (("resolve", "--gpu", "12."), ["12.0", "12.1"]),
        (("resolve", "--gpu=h20"), ["--gpu=H20", "--gpu=H200"]),
        (("resolve", "--gpu", "V100", "--gpu", "5090"), ["RTX-5090"]),
        (("resolve", "--cuda", "12."), ["12.9", "12.1"]),
        (("resolve", "--pytorch", "2.5"), ["2.5.1"]),
        (("resolve", "--platform", ""), ["linux-64", "linux-aarch64"]),
        (("resolve", "--profile", ""), ["universal-dev", "jit-dev"]),
        (("resolve", "--stack", ""), ["conda-forge", "pytorch"]),
        (("check", "--host", ""), ["a800-470", "no-gpu"]),
        (("check", "--profile", "uni"), ["universal-dev"]),
        (("profile", ""), ["list", "show", "new", "validate"]),
        (("profile", "show", "uni"), ["universal-dev"]),
        (("explain", "lib"), ["libcudart"]),
        (("explain", "gpu", "RTX 409"), ["RTX-4090"]),
        (("kb", ""), ["gpu", "driver", "cuda", "pytorch", "package", "audit", "learn", "format"]),
        (("kb", "gpu", "a80"), ["A800"]),
        (("kb", "package", "cudatool"), ["cudatoolkit-dev"]),
        (("kb", "audit", "--pl"), ["--platform"]),
        (("lint", "--as", ""), ["environment.yml", "Dockerfile", "ds_config", "shell", "conda-lock.yml"]),
        (("why", "cu"), ["cuda", "cudnn", "cudatoolkit-dev"]),
        (("why", "cu2"), ["CU203"]),
        (("why-not", "cuda=13"), ["cuda=13.0"]),
    ],
    ids=str,
)
@collect("shell", SHELLS)
def test_what_is_offered(monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], some: list[str], shell: str) -> None:
    if shell != "fish" or " " not in words[-1]:  # fish takes no offer that is spelled otherwise
        assert set(offered(monkeypatch, *words, shell=shell)) >= set(some)


@collect("words", [("resolve", "--gpu", "quantum"), ("explain", "libcudart", ""), ("kb", "audit", "x")])
def test_where_nothing_fits_nothing_is_offered(monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    assert offered(monkeypatch, *words) == []


def test_an_option_keeps_its_value_where_bash_breaks_the_word(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "H200" in offered(monkeypatch, "resolve", "--gpu", "=", "h2")
    assert "H200" in offered(monkeypatch, "resolve", "--gpu", "=", "V100", "--gpu", "H2")


def test_what_was_typed_is_never_lost() -> None:
    """A shell replaces the word by what all offers share."""
    names = {"RTX-4000-Ada": "", "RTX-5000-Ada": "", "A40": ""}
    assert items(names, "ada") == []
    assert [item.value for item in items(names, "4000")] == ["RTX-4000-Ada"]
    assert [item.value for item in items(names, "rtx")] == ["RTX-4000-Ada", "RTX-5000-Ada"]


def test_every_gpu_that_is_offered_is_known_by_that_name() -> None:
    knowledge = shipped_base()
    names = gpus()
    assert len(names) > 100
    for name, says in names.items():
        facts = host_facts(HostOptions(gpus=(name,), driver="580.65.06", glibc="2.35", environ={}), knowledge)
        assert says.startswith(f"{facts.gpus[0].capability}, ") or name == str(facts.gpus[0].capability)


@collect("topic", ["pytorch", "cuda", "driver", "package"])
def test_every_subject_that_is_offered_has_a_page(topic: str) -> None:
    from cuenv.resolver.lookup import TOPICS

    names, knowledge = TABLES[topic](None), shipped_base()
    assert len(names) > 10
    for name in names:
        assert TOPICS[topic](name, knowledge).entries


def test_every_kind_is_asked_for_by_an_option_or_argument_and_has_names() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in Path(completion.__file__).parent.rglob("*.py"))
    for kind, names in KINDS.items():
        assert f'completes("{kind}")' in text
        context = click.Context(cli)
        context.params |= {"topic": {"explain-gpu": "gpu", "kb-subject": "cuda"}.get(kind)}
        assert names(context)


def test_further_tables_are_offered_and_broken_ones_are_silent(tmp_path: Path) -> None:
    row = {"name": "Quantum 9", "capability": "9.9", "architecture": "Q"}
    good = {"rows": [row, 7, {"name": 3}, {"name": "bad\x1b[31m", "capability": "1.0"}]}
    (tmp_path / "gpus.json").write_text(json.dumps(good), encoding="utf-8")
    assert gpus(tmp_path)["Quantum-9"] == "9.9, Q"
    assert all(name.isprintable() for name in gpus(tmp_path))
    for text in ("", "{", "[]", '{"rows": 3}', "[" * 100_000, "\xff"):
        (tmp_path / "gpus.json").write_text(text, encoding="latin-1")
        assert gpus(tmp_path) == gpus()


@collect(
    ("name", "environ"),
    [
        ("no words", {}),
        ("no number", {"COMP_WORDS": "cuenv re", "COMP_CWORD": "x"}),
        ("a number beyond", {"COMP_WORDS": "cuenv", "COMP_CWORD": "99999"}),
        ("an open quote", {"COMP_WORDS": "cuenv resolve --gpu '\x1b[31m", "COMP_CWORD": "3"}),
        ("another shell", {"_CUENV_COMPLETE": "tcsh_complete"}),
        ("no instruction", {"_CUENV_COMPLETE": ""}),
        ("a broken settings file", {"COMP_WORDS": "cuenv resolve --stack ", "COMP_CWORD": "3"}),
    ],
)
def test_a_completion_is_never_an_error(tmp_path: Path, name: str, environ: dict[str, str]) -> None:
    (tmp_path / "cuenv.toml").write_text("gpus = [", encoding="utf-8")
    done = run(folder=tmp_path, **{"_CUENV_COMPLETE": "bash_complete", **environ})
    assert (done.returncode, done.stderr) == (ExitCode.OK, "")
    assert "\x1b" not in done.stdout
    assert ("conda-forge" in done.stdout) == (name == "a broken settings file")


def test_profiles_of_the_project_are_offered_and_of_a_broken_one_the_shipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cuenv.toml").write_text("[profiles.lab]\n", encoding="utf-8")
    assert {"lab", "universal-dev"} <= set(offered(monkeypatch, "resolve", "--profile", ""))
    (tmp_path / "cuenv.toml").write_text("[profiles", encoding="utf-8")
    assert "universal-dev" in offered(monkeypatch, "resolve", "--profile", "")


def test_a_completion_imports_nothing_heavy(tmp_path: Path) -> None:
    environ = {"COMP_WORDS": "cuenv resolve --gpu RTX", "COMP_CWORD": "3", "_CUENV_COMPLETE": "bash_complete"}
    done = process(folder=tmp_path, python=("-X", "importtime"), **environ)  # type: ignore[arg-type]  # as above
    found = modules(done)
    assert "RTX-4090" in done.stdout
    assert "cuenv.cli.options" in found
    assert (
        found & (HEAVY | {"yaml", "cuenv.knowledge.tables", "cuenv.resolver.decision", "cuenv.host.io.probe"}) == set()
    )
    environ |= {"COMP_WORDS": "cuenv ", "COMP_CWORD": "1"}
    done = process(folder=tmp_path, python=("-X", "importtime"), **environ)  # type: ignore[arg-type]  # as above
    assert "demo" in done.stdout
    assert "cuenv.cli.options" not in modules(done)  # no command was loaded to name them


@collect("shell", SHELLS)
def test_the_script_and_where_it_goes(tmp_path: Path, shell: str) -> None:
    done = run("completion", shell, folder=tmp_path)
    assert done.returncode == ExitCode.OK
    assert completion.PLACES[shell] in done.stderr
    assert run("completion", folder=tmp_path, SHELL=f"/usr/bin/{shell}").stdout == done.stdout
    quiet = run("completion", shell, "-q", folder=tmp_path)
    assert (quiet.stdout, quiet.stderr) == (done.stdout, "")
    told = json.loads(run("completion", shell, "--json", folder=tmp_path).stdout)
    assert told["script"] == done.stdout
    assert run(folder=tmp_path, _CUENV_COMPLETE=f"{shell}_source").stdout == done.stdout
    if shutil.which(shell):
        checked = subprocess.run([shell, "-n"], input=done.stdout, capture_output=True, text=True, check=False)
        assert (checked.returncode, checked.stderr) == (0, "")


@collect(("words", "environ"), [(("tcsh",), {}), ((), {"SHELL": "/bin/tcsh"}), ((), {"SHELL": ""})])
def test_a_shell_that_is_none(tmp_path: Path, words: tuple[str, ...], environ: dict[str, str]) -> None:
    done = run("completion", *words, folder=tmp_path, **environ)
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")
    assert "bash, zsh, fish" in done.stderr
    assert "hint: cuenv completion bash" in done.stderr


START = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source {script}"),
    "zsh": (["zsh", "-f", "-i"], "autoload -Uz compinit; compinit -u -D; source {script}"),
    "fish": (["fish", "--no-config", "-i"], "source {script}"),
}


@pytest.mark.parametrize(
    ("typed", "words"),
    quick(
        [
            ("cuenv resolve --gpu rtx-3090-t\t--plat\tlinux-64\t", ["--gpu", "RTX-3090-Ti", "--platform", "linux-64"]),
            ("cuenv reso\t--gpu RTX-3090-T\t--gpu=v10\t", ["--gpu", "RTX-3090-Ti", "--gpu=V100"]),
            ("cuenv resolve --host my\\ ho\tno\t", ["--host", "my hosts/node.json"]),
            # fish takes no offer that is spelled otherwise than what was typed
            (
                "cuenv resolve --gpu 'RTX 3090 T\t--gpu rtx\\ 3090\\ t\t",
                ["--gpu", "RTX-3090-Ti", "--gpu", "RTX-3090-Ti"],
            ),
        ],
        first=1,
    ),
)
@pytest.mark.parametrize("shell", SHELLS)
def test_a_real_shell_inserts_whole_words(tmp_path: Path, shell: str, typed: str, words: list[str]) -> None:
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    if shell == "fish" and "'" in typed:
        return
    program = tmp_path / "bin" / "cuenv"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {in_shell()} "$@"\n')
    program.chmod(0o755)
    (tmp_path / "my hosts").mkdir()
    (tmp_path / "my hosts" / "node.json").write_text("{}")
    (tmp_path / "script").write_text(run("completion", shell, "-q", folder=tmp_path).stdout)
    start, source = START[shell]
    environ = {"PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(tmp_path), "TERM": "xterm", "PS1": "$ "}
    with closing(Terminal(start, tmp_path, environ)) as terminal:
        terminal.type(source.format(script=tmp_path / "script") + '; echo REA""DY\n')
        terminal.wait_for("READY")
        terminal.type(f'{typed}\x01printf "<%s>" \x05; echo DO""NE\n')
        said = terminal.wait_for("((?:<[^<>]*>)+)DONE")[1]
    assert said == "".join(f"<{word}>" for word in ["cuenv", "resolve", *words])


def test_every_option_that_names_a_thing_completes() -> None:
    """A new option of one of these names must not be forgotten."""
    kinds = {"--gpu", "--host", "--platform", "--profile", "--pytorch", "--cuda"}
    for name in COMMANDS:
        found = load(name)
        inner = found.commands.values() if isinstance(found, click.Group) else ()
        for option in (item for each in (found, *inner) for item in each.params if kinds.intersection(item.opts)):
            names = option.shell_complete(click.Context(found), "")
            assert names, f"{name} {option.opts[0]}"
