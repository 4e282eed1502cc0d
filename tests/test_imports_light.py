"""What is not needed is not imported: the quick commands never pay for the solver, NVML or the network."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from commands import HOST, run

HEAVY = {"rattler", "conda_lock", "pynvml", "requests", "uv", "asyncio", "urllib.request", "http.client", "pydantic"}
START = """
cuenv cuenv.cli cuenv.cli.command cuenv.cli.configured cuenv.cli.main cuenv.cli.output cuenv.errors cuenv.report
cuenv.urls cuenv.world cuenv.world.config_files
"""
DECIDE = """
cuenv.candidates cuenv.cli.completions cuenv.cli.options cuenv.columns cuenv.effective cuenv.environment
cuenv.extensions cuenv.extensions.columns cuenv.extensions.rows
cuenv.facts cuenv.flows cuenv.flows.hosts cuenv.formats cuenv.formats.environment_yml cuenv.formats.host_json
cuenv.formats.host_state_json cuenv.formats.yaml_write cuenv.host_text cuenv.knowledge
cuenv.laws cuenv.machine cuenv.machine.findings cuenv.machine.driver cuenv.machine.grounds cuenv.machine.state
cuenv.overrides cuenv.pools
cuenv.profile cuenv.reading cuenv.rows cuenv.rules cuenv.rules.device cuenv.rules.driver cuenv.rules.layers
cuenv.rules.roles cuenv.rules.verdict cuenv.rules.views cuenv.rules.wishes cuenv.state_columns cuenv.state_rows
cuenv.table_reading cuenv.tables cuenv.versions cuenv.world.files cuenv.world.knowledge cuenv.world.record
"""
RESOLVE = """
cuenv.compose cuenv.decision cuenv.explain cuenv.flows.resolving cuenv.preference cuenv.world.records_at_hand
"""
CHECK = """
cuenv.checks cuenv.cli.reports cuenv.coverage cuenv.flows.check_asked cuenv.flows.checking cuenv.flows.lock_files
cuenv.flows.lock_siblings cuenv.formats.explicit_txt
cuenv.formats.conda_lock_v1_read cuenv.formats.package_url cuenv.formats.yaml_read cuenv.lock_laws cuenv.lockfile
cuenv.minimum_host cuenv.specs cuenv.verify cuenv.world.telling
"""
OF_PYTHON = """
_blake2 _bz2 _colorize _compression _hashlib _json _locale _lzma _opcode_metadata _winapi bz2 click compression copy
dataclasses encodings fnmatch gc glob grp hashlib importlib ipaddress json locale lzma nt ntpath opcode org packaging
pathlib pwd runpy shlex shutil signal textwrap traceback urllib zlib
"""
"""What is needed beside that which `import click, yaml` brings, by the first part of the name: on every Python, and
with what those modules import themselves or only try to."""
LINE = re.compile(r"import time:\s+\d+ \|\s+\d+ \|\s+(\S+)")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an environment file and its locks."""
    folder = tmp_path_factory.mktemp("demo")
    done = run("demo", "--dir", "made", folder=folder)
    assert done.returncode == 0, done.stderr
    return folder / "made"


def modules(done: subprocess.CompletedProcess[str]) -> set[str]:
    """The modules that a run with ``-X importtime`` says it imported."""
    return set(LINE.findall(done.stderr))


@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("--version",),
        ("resolve", "--help"),
        ("lock", "--help"),
        ("resolve", *HOST),
        ("resolve", *HOST, "--json"),
        ("why", "pytorch", *HOST),
        ("why-not", "cuda=13.0", *HOST),
        ("kb", "gpu", "RTX 4090"),
        ("config",),
        ("profile", "list"),
        ("check", "conda-lock.yml", *HOST),
        ("lock", "--check"),
    ],
    ids=" ".join,
)
def test_quick_commands_import_nothing_heavy(demo: Path, words: tuple[str, ...]) -> None:
    done = run(*words, folder=demo, python=("-X", "importtime"))
    assert done.returncode == 0, done.stderr[-2000:]
    found = modules(done)
    assert "cuenv.cli.main" in found
    assert found & HEAVY == set()


def test_nothing_is_imported_before_an_interrupt_is_no_traceback(tmp_path: Path) -> None:
    """What catches Ctrl-C is `cuenv.__main__.main`: until it runs, only what Python itself loads can be interrupted."""
    bare, ours = (
        modules(run(folder=tmp_path, python=("-X", "importtime", "-c", code))) for code in ("", "import cuenv.__main__")
    )
    assert ours - bare - {"__future__", "gc"} == {"cuenv", "cuenv.__main__"}


@pytest.fixture(scope="module")
def floor(demo: Path) -> set[str]:
    """What the least that could be imported imports."""
    return modules(run(folder=demo, python=("-X", "importtime", "-c", "import click, yaml")))


@pytest.mark.parametrize(
    ("words", "budget"),
    [
        (("--help",), START),
        (("resolve", *HOST), START + DECIDE + RESOLVE),
        (("check", "conda-lock.yml", *HOST), START + DECIDE + CHECK),
    ],
    ids=["help", "resolve", "check"],
)
def test_the_budget_of_imports(demo: Path, floor: set[str], words: tuple[str, ...], budget: str) -> None:
    """Each module costs a part of a millisecond or more: one that joins a list is there for a reason."""
    found = modules(run(*words, folder=demo, python=("-X", "importtime")))
    own = {name for name in found if name.partition(".")[0] == "cuenv"} - {"cuenv.__main__"}
    assert own == set(budget.split())
    assert {name.partition(".")[0] for name in found - floor - own} - set(OF_PYTHON.split()) == set()


def test_writing_yaml_needs_no_yaml_library(demo: Path) -> None:
    found = modules(run("resolve", *HOST, folder=demo, python=("-X", "importtime")))
    assert "cuenv.formats.environment_yml" in found
    assert "yaml" not in found


def test_what_needs_the_solver_is_seen_to_import_it(demo: Path) -> None:
    done = run(
        "lock", *HOST, "--mirror", f"conda-forge={demo}/channels/conda-forge", folder=demo, python=("-X", "importtime")
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert modules(done) & HEAVY >= {"rattler"}


def test_importing_the_package_loads_nothing_else(tmp_path: Path) -> None:
    done = run(folder=tmp_path, python=("-X", "importtime", "-c", "import cuenv"))
    assert {name for name in modules(done) if name.startswith("cuenv")} == {"cuenv"}
