"""What is not needed is not imported: the quick commands never pay for the solver, NVML or the network."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from commands import HOST, run
from imported import HEAVY, modules

LIGHT = {"click", "cuenv", "org", "packaging", "yaml"}
"""What a quick command may load beside Python's own library; `copy` asks for a module of Jython's, `org`."""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an environment file and its locks."""
    folder = tmp_path_factory.mktemp("demo")
    done = run("demo", "--dir", "made", folder=folder)
    assert done.returncode == 0, done.stderr
    return folder / "made"


@pytest.fixture(scope="module")
def bare(demo: Path) -> set[str]:
    """What click and yaml load by themselves."""
    return modules(run(folder=demo, python=("-X", "importtime", "-c", "import click, yaml")))


@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        pytest.param(("--version",), marks=pytest.mark.slow),
        pytest.param(("resolve", "--help"), marks=pytest.mark.slow),
        pytest.param(("lock", "--help"), marks=pytest.mark.slow),
        pytest.param(("resolve", *HOST), marks=pytest.mark.slow),
        ("resolve", *HOST, "--json"),
        pytest.param(("why", "pytorch", *HOST), marks=pytest.mark.slow),
        pytest.param(("why-not", "cuda=13.0", *HOST), marks=pytest.mark.slow),
        pytest.param(("kb", "gpu", "RTX 4090"), marks=pytest.mark.slow),
        pytest.param(("config",), marks=pytest.mark.slow),
        pytest.param(("profile", "list"), marks=pytest.mark.slow),
        ("check", "conda-lock.yml", *HOST),
        ("lock", "--check"),
    ],
    ids=" ".join,
)
def test_quick_commands_import_nothing_heavy(demo: Path, bare: set[str], words: tuple[str, ...]) -> None:
    done = run(*words, folder=demo, python=("-X", "importtime"))
    assert done.returncode == 0, done.stderr[-2000:]
    found = modules(done)
    assert "cuenv.cli.main" in found
    assert found & HEAVY == set()
    assert {name.partition(".")[0] for name in found - bare} - sys.stdlib_module_names - LIGHT == set()


def test_nothing_is_imported_before_an_interrupt_is_no_traceback(tmp_path: Path) -> None:
    """What catches Ctrl-C is `cuenv.__main__.main`: until it runs, only what Python itself loads can be interrupted."""
    bare, ours = (
        modules(run(folder=tmp_path, python=("-X", "importtime", "-c", code))) for code in ("", "import cuenv.__main__")
    )
    assert ours - bare - {"__future__", "gc"} == {"cuenv", "cuenv.core", "cuenv.__main__"}


_DECIDES = {"__main__", "cli", "config", "core", "host", "knowledge", "resolver", "solve"}


@pytest.mark.parametrize(
    ("words", "packages", "spared"),
    [
        (("resolve", *HOST), _DECIDES, {"hashlib", "tempfile", "pyexpat", "cuenv.host.paste.one_host"}),
        (("check", "conda-lock.yml", *HOST), {*_DECIDES, "lockfile", "prefix"}, {"tempfile", "textwrap", "hashlib"}),
    ],
    ids=("resolve", "check"),
)
def test_a_quick_command_imports_only_packages_that_it_needs(
    demo: Path, bare: set[str], words: tuple[str, ...], packages: set[str], spared: set[str]
) -> None:
    found = modules(run(*words, folder=demo, python=("-X", "importtime"))) - bare
    assert {name.split(".")[1] for name in found if name.startswith("cuenv.")} <= packages
    assert found & spared == set()


def test_writing_yaml_needs_no_yaml_library(demo: Path) -> None:
    found = modules(run("resolve", *HOST, folder=demo, python=("-X", "importtime")))
    assert "cuenv.solve.environment_yml" in found
    assert "yaml" not in found


@pytest.mark.slow
def test_what_needs_the_solver_is_seen_to_import_it(demo: Path) -> None:
    done = run(
        "lock", *HOST, "--mirror", f"conda-forge={demo}/channels/conda-forge", folder=demo, python=("-X", "importtime")
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert modules(done) & HEAVY >= {"rattler"}


def test_importing_the_package_loads_nothing_else(tmp_path: Path) -> None:
    done = run(folder=tmp_path, python=("-X", "importtime", "-c", "import cuenv"))
    assert {name for name in modules(done) if name.startswith("cuenv")} == {"cuenv", "cuenv.core"}
