"""The full lock of a profile with a pip part: its floor, and its phases.

The index is the one of whoever runs it: locking once fills uv's cache, and everything that is measured is offline, so
that no network counts. Where no index can be reached, nothing is measured.
"""

from __future__ import annotations

import json
import os
import shlex
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import inputs

from cuenv.config.io.profiles import read_profile
from cuenv.host.select import HostOptions, host_facts
from cuenv.knowledge.io.load import load
from cuenv.lockfile.files import LOCK_NAME, read_environment, read_lock
from cuenv.solve.io.pip import _command, _prepare, index_variables, pypi_names
from cuenv.solve.pip_part import PipRequest, glibc_of, provided

PROFILE = "minicpm-v25"
PHASES = ("start", "resolve", "import", "judge", "solve", "pip", "write")
BARE = Path(__file__).with_name("bare_solve.py")


@dataclass(frozen=True, kw_only=True)
class FullLock:
    """What is run: the words after ``cuenv``, and a shell line that solves and runs uv, and nothing else."""

    folder: Path
    words: tuple[str, ...]
    floor: str

    def fresh(self) -> None:
        """Take the locks away: an old one would be read."""
        for pattern in ("conda-*", "requirements-*"):
            for file in self.folder.glob(pattern):
                file.unlink()

    def phases(self, runs: int) -> dict[str, float]:
        """Medians of each phase in milliseconds."""
        script = str(Path(__file__).with_name("phases.py"))
        taken = []
        for _ in range(runs):
            self.fresh()
            words = [sys.executable, script, PROFILE, str(time.monotonic()), "--", *self.words[1:]]
            done = subprocess.run(words, cwd=self.folder, check=True, capture_output=True, text=True)
            taken.append(json.loads(done.stdout.splitlines()[-1]))
        return {phase: statistics.median(row[phase] for row in taken) for phase in PHASES}


def prepare(folder: Path, records: Path) -> FullLock | str:
    """Resolve and lock the profile once; the reason in words where that cannot be done."""
    folder.mkdir()
    request = read_profile(PROFILE)
    host = [*(word for gpu in request.gpus for word in ("--gpu", gpu)), "--driver", request.lowest_driver or ""]
    host += ["--glibc", "2.28"]
    mirrors = inputs.mirrors(records)
    inputs.cuenv(
        "resolve", "--profile", PROFILE, *host[-2:], "--prove", *mirrors, "-o", "environment.yml", folder=folder
    )
    words = ("lock", *host, *mirrors, "--no-progress")
    done = subprocess.run(
        [sys.executable, "-m", "cuenv", *words], cwd=folder, check=False, capture_output=True, text=True
    )
    if done.returncode:
        return done.stderr.strip().splitlines()[0]
    facts = host_facts(HostOptions(gpus=request.gpus, driver=request.lowest_driver, glibc="2.28"), load())
    question = inputs.question(folder, folder / "environment.yml", records, facts)
    floor = f"{shlex.join([sys.executable, str(BARE), question.name])} && {_uv(folder)}"
    return FullLock(folder=folder, words=(*words, "--offline"), floor=floor)


def _uv(folder: Path) -> str:
    """The shell line of uv alone, on the inputs that cuenv would give it."""
    (solution,) = read_lock(folder / LOCK_NAME).solutions
    python = solution.package("python")
    if python is None:
        raise SystemExit(f"{PROFILE} has no Python")
    request = PipRequest(
        requirements=read_environment(folder / "environment.yml")[0].pip,
        python=python.version,
        platform=solution.platform,
        glibc=glibc_of(solution.virtual_packages),
        provided=provided(solution.packages, pypi_names()),
    )
    scratch = folder / "uv"
    scratch.mkdir()
    target = scratch / "pylock.cuenv.toml"
    _prepare(scratch, request, target)
    variables = index_variables(os.environ)
    links = ",".join(filter(None, (str(scratch / "stubs"), variables.get("UV_FIND_LINKS"))))
    os.environ.update(variables)  # for uv alone what cuenv gives it; an argument with a password could be seen
    words = ["env", f"UV_FIND_LINKS={links}", "UV_PYTHON_DOWNLOADS=never", *_command(request), "--offline"]
    return f"cd {shlex.quote(str(scratch))} && rm -f {target.name} && {shlex.join(words)}"
