"""The project's chores: `nox -l` lists them, `nox -s NAME` runs one, words after `--` go on to the tool.

Each session makes its own virtual environment. Nothing here needs a GPU.
"""

from __future__ import annotations

import json
import os
import shutil
from datetime import datetime, timezone
from pathlib import Path

import nox

nox.needs_version = ">=2024.10"
nox.options.default_venv_backend = "venv"
nox.options.error_on_missing_interpreters = False
nox.options.sessions = ["lint", "types", "test"]

ROOT = Path(__file__).parent
PYTHONS = ["3.10", "3.11", "3.12", "3.13"]
RECORDS = "CUENV_RECORDS"
CHANNELS = ("conda-forge", "pytorch", "nvidia")

# The oldest system that the committed locks are for: with it they come out alike on every machine.
GLIBC, LINUX, ARCHSPEC = "2.28", "4.18", "x86_64"

# The options that name the machines of a profile to `cuenv lock` and `cuenv check`, one word on each line.
_HOST_OF = """
import sys
from cuenv.config.io.profiles import read_profile
profile = read_profile(sys.argv[1])
words = [word for gpu in profile.gpus for word in ("--gpu", gpu)]
print(*words, *(("--driver", profile.lowest_driver) if profile.lowest_driver else ()), sep="\\n")
"""


@nox.session(python=PYTHONS)
def test(session: nox.Session) -> None:
    """The test suite, as a user installs it, on every Python that is here."""
    session.install(".[test]")
    session.run("pytest", *session.posargs)


@nox.session
def slow(session: nox.Session) -> None:
    """The tests that take more than a few seconds each, and every law with many more examples."""
    session.install(".[test]", "ansible-core>=2.16")
    session.run("pytest", "-m", "slow", *session.posargs, success_codes=[0, 5])  # 5: there is none
    session.run("pytest", "--hypothesis-profile=thorough", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Style and format; `nox -s lint -- --fix` repairs what can be repaired."""
    pinned = nox.project.load_toml(ROOT / "pyproject.toml")["project"]["optional-dependencies"]["dev"]
    session.install(*(item for item in pinned if item.startswith("ruff")))
    session.run("ruff", "check", *session.posargs)
    session.run("ruff", "format", *([] if "--fix" in session.posargs else ["--check"]))


@nox.session
def types(session: nox.Session) -> None:
    """Types of source, tests, benchmarks and this file, strictly."""
    session.install(".[dev]")
    session.run("mypy", "src", "plugins/conda-cuenv/src", "tests", "noxfile.py", "benchmarks", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Costs as ratios; CUENV_RECORDS (a folder of channel records) adds real locks, `-- --peer CONDA` conda-lock."""
    session.install(".")
    records = ("--records", str(_records(session))) if os.environ.get(RECORDS) else ()
    session.run("python", "benchmarks/run.py", *records, *session.posargs)
    session.run("python", "benchmarks/scale.py")
    session.run("python", "benchmarks/decide.py")
    session.run("python", "benchmarks/together.py")
    session.run("python", "benchmarks/fleet.py")


@nox.session
def fuzz(session: nox.Session) -> None:
    """Every reader of foreign bytes with 100,000 inputs each, other ones every day; CUENV_FUZZ says how many."""
    session.install(".[test]")
    today = str(datetime.now(timezone.utc).date().toordinal() * 1_000_000)
    many = {"CUENV_FUZZ": os.environ.get("CUENV_FUZZ", "100000"), "CUENV_FUZZ_START": today}
    session.run("pytest", "-m", "slow or not slow", "tests/test_fuzz.py", *session.posargs, env=many)


@nox.session
def audit(session: nox.Session) -> None:
    """Known weaknesses and licences of what cuenv installs; the first needs the network and is skipped without it."""
    session.install(".[fleet]")
    session.run("python", ".ci/licences.py", "cuenv[fleet]")
    session.install("pip-audit")
    told = Path(session.create_tmp()) / "audit.json"
    told.unlink(missing_ok=True)
    words = [
        "--skip-editable",
        "--progress-spinner",
        "off",
        "--timeout",
        "15",
        "--format",
        "json",
        "--output",
        str(told),
    ]
    session.run("pip-audit", *words, *session.posargs, success_codes=[0, 1], silent=True)
    if not told.is_file() or not told.read_text(encoding="utf-8").strip():
        session.skip("the service that knows weaknesses cannot be reached; the licences are fine")
    known = [one for one in json.loads(told.read_text(encoding="utf-8"))["dependencies"] if "vulns" in one]
    if not known:
        session.skip("the index that is used here knows nothing of weaknesses; the licences are fine")
    session.log(f"{len(known)} packages audited")
    weak = [one for one in known if one["vulns"]]
    for one in weak:
        session.warn(f"{one['name']} {one['version']}: {', '.join(item['id'] for item in one['vulns'])}")
    if weak:
        session.error(f"{len(weak)} packages have known weaknesses")


@nox.session
def schemas(session: nox.Session) -> None:
    """Write the JSON Schemas and docs/json.md from the types in the `documents.py` of each package."""
    session.install("-e", ".[test]")
    session.run("python", "tests/json_schemas.py", *session.posargs)


@nox.session
def browser(session: nox.Session) -> None:
    """Reports in a real Chromium, which is installed already; axe-core comes by npm, where there is one."""
    session.install("-e", ".[test]", "playwright")
    folder = Path(session.create_tmp())
    if shutil.which("npm"):
        session.run("npm", "install", "--silent", "--prefix", str(folder), "axe-core", external=True)
    axe = folder / "node_modules/axe-core/axe.min.js"
    session.run("pytest", "-n0", "-m", "browser", *session.posargs, env={"CUENV_TEST_AXE": str(axe)})


@nox.session
def pictures(session: nox.Session) -> None:
    """Draw the example pictures of docs/report.md."""
    session.install("-e", ".[test]")
    session.run("python", "tests/doc_pictures.py")


@nox.session
def demo(session: nox.Session) -> None:
    """The whole line on the sample channel, from a fresh install."""
    session.install(".")
    session.run("cuenv", "demo", *session.posargs)


@nox.session
def locks(session: nox.Session) -> None:
    """Make locks/PROFILE/ anew from the records in CUENV_RECORDS; profiles after `--`, else those locked already."""
    records = _records(session)
    session.install(".")
    locked = sorted(path.name for path in (ROOT / "locks").iterdir() if path.is_dir())
    session.env.update(CONDA_OVERRIDE_LINUX=LINUX, CONDA_OVERRIDE_ARCHSPEC=ARCHSPEC, CONDARC=os.devnull)
    for name in session.posargs or locked or ["universal-dev"]:
        _lock(session, name, records)


def _lock(session: nox.Session, name: str, records: Path) -> None:
    """Environment file, decision and locks of one profile; checked in the end."""
    profile = f"../../profiles/{name}.yml"  # as seen from its folder: the decision names it
    mirrors = [word for channel in CHANNELS for word in ("--mirror", f"{channel}={records / channel}")]
    wish = ["cuenv", "resolve", "--profile", profile, "--glibc", GLIBC, "--prove", *mirrors]
    host = [
        *str(session.run("python", "-c", _HOST_OF, str(ROOT / "profiles" / f"{name}.yml"), silent=True)).split("\n"),
        "--glibc",
        GLIBC,
    ]
    host = [word for word in host if word]
    folder = ROOT / "locks" / name
    folder.mkdir(parents=True, exist_ok=True)
    with session.chdir(folder):
        session.run(*wish, "-o", "environment.yml")
        Path("decision.json").write_text(str(session.run(*wish, "--json", silent=True)), encoding="utf-8")
        for old in Path().glob("conda-*"):
            old.unlink()  # an existing lock would keep its packages
        # what pip adds names the index of whoever locks: it has no place in a repository
        without_pip = ["--allow", "CU501"] if "  - pip:" in Path("environment.yml").read_text(encoding="utf-8") else []
        session.run("cuenv", "lock", *host, *mirrors, *without_pip)
        session.run("cuenv", "check", *host)


def _records(session: nox.Session) -> Path:
    """The folder with real channel records that the environment names."""
    given = os.environ.get(RECORDS)
    if not given:
        session.error(f"{RECORDS} is not set: name a folder with {', '.join(f'{item}/' for item in CHANNELS)}")
    folder = Path(given).resolve()
    missing = [item for item in CHANNELS if not (folder / item).is_dir()]
    if missing:
        session.error(f"{RECORDS}={given}: there is no folder {', '.join(missing)} in it")
    return folder


@nox.session
def coverage(session: nox.Session) -> None:
    """Every branch of the modules that mutmut changes is taken by the tests on them, slow ones too; less fails."""
    mutmut = nox.project.load_toml(ROOT / "pyproject.toml")["tool"]["mutmut"]
    session.install(".[test]", "coverage>=7.10")
    folder = str(
        session.run("python", "-c", "import cuenv, pathlib; print(pathlib.Path(cuenv.__file__).parent)", silent=True)
    )
    names = (name.removeprefix("src/cuenv/") for name in mutmut["only_mutate"])
    what = "--include=" + ",".join(f"{folder.strip()}/{name}" for name in names)
    tests = [*mutmut["pytest_add_cli_args_test_selection"], "tests/test_properties.py"]
    session.env["COVERAGE_FILE"] = str(Path(session.create_tmp()) / "coverage")
    alike = ("-q", "-n0", "-m", "not gpu and not browser", "--hypothesis-profile=mutate")  # the same examples each time
    session.run("coverage", "run", "--branch", what, "-m", "pytest", *alike, *tests)
    session.run("coverage", "report", "--show-missing", "--fail-under=100", "--precision=2", what)


@nox.session
def mutate(session: nox.Session) -> None:
    """Change what decides word by word: every change must fail a test; tests/MUTANTS.md explains those that do not."""
    session.install("-e", ".[test]", "mutmut>=3.8,<4")
    session.run("mutmut", "run", *session.posargs)
    session.run("mutmut", "results")
