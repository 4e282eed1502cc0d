"""Locks over small real packages, for the tests that deliver them: channels, wheels, an edge of a real Python."""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import quick_yaml
import trees
from channel_builder import pkg, request, write
from commands import run
from cuenv.demo.io.sample import Package
from cuenv.lockfile.formats import conda_lock as conda_lock_v1
from cuenv.lockfile.formats import explicit_txt
from cuenv.solve.environment_spec import Pin
from cuenv.solve.io.solver import solve
from cuenv.solve.io.sources import Sources
from cuenv.solve.model import VARIABLES, Lock, PipLocked, SetAside, Solution, content_digest

LOCKS = Path(__file__).resolve().parent.parent / "locks"
HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
TOOLS = [
    pkg("tool", depends=("library",), files={"bin/tool": "#!/bin/sh\necho works\n"}),
    pkg("library", files={"lib/data": "x\n" * 5000}),
    pkg("words", "1!2.0", subdir="noarch", noarch="generic", files={"share/words": "a\nb\n"}),
]
NVIDIA = [pkg("driverless", files={"share/driverless": "nothing\n"})]


def python() -> Package:
    """A Python of its own folder: the one that runs the tests, as a virtual environment."""
    real = os.path.realpath(sys.executable)
    wrapper = f'#!/bin/bash\nexec -a "$0" {shlex.quote(real)} "$@"\n'
    config = f"home = {Path(real).parent}\ninclude-system-site-packages = true\n"
    files = {"bin/python": wrapper, "bin/python3": wrapper, "pyvenv.cfg": config}
    files[f"lib/python{HERE}/site-packages/README.txt"] = "packages\n"
    return pkg("python", f"{HERE}.9", "h_0", files=files)


def wheel_of(path: Path, url: str = "") -> PipLocked:
    """A file of a Python package as a lock names it; without URL it is read where it lies."""
    name, version = path.name.split("-")[:2]
    version = version.removesuffix(".tar.gz")
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    return PipLocked(name=name.replace("_", "-"), version=version, url=url or path.as_uri(), sha256=sha256)


def make_lock(
    folder: Path,
    channels: Mapping[str, Iterable[Package]],
    *pins: str | Pin,
    pip: tuple[PipLocked, ...] = (),
    aside: tuple[SetAside, ...] = (),
    hashes: Iterable[str] = ("md5", "sha256"),
    variables: str = "",
) -> tuple[Path, Sources]:
    """A ``conda-lock.yml``, and where its packages are: channels below ``folder/channels``."""
    folder.mkdir(parents=True, exist_ok=True)
    sources = replace(write(folder / "channels", channels, hashes=hashes), cache=str(folder / "cache"))
    asked = request(*pins, channels=tuple(channels))
    answer = solve(asked, sources)
    assert isinstance(answer, Solution)
    solution = replace(answer, pip=pip, aside=aside)
    more = {VARIABLES: variables} if variables else {}
    metadata = {"created_by": "cuenv test", "cuenv_content": content_digest((solution,), more), **more}
    lock = Lock(channels=tuple(channels), sources=("environment.yml",), solutions=(solution,), metadata=metadata)
    path = folder / "conda-lock.yml"
    path.write_text(conda_lock_v1.render(lock, asked.spec))
    (folder / "conda-linux-64.lock").write_text(explicit_txt.render(solution, head=()))
    return path, sources


def mirrors(sources: Sources) -> list[str]:
    """The options that read the channels where they lie."""
    return [word for item in sources.mirrors for word in ("--mirror", f"{item.origin}={item.target}")]


def cuenv(folder: Path, *words: str | Path, sources: Sources | None = None, **environ: str) -> tuple[int, str, str]:
    """A command as it is typed: exit code, stdout, stderr."""
    more = mirrors(sources) if sources else []
    done = run(*words, *more, folder=folder, **environ)  # type: ignore[arg-type]  # variables are text
    return done.returncode, done.stdout, done.stderr


def program(folder: Path, name: str, text: str) -> Path:
    """A shell script on a PATH of its own."""
    return trees.program(folder / name, text).parent


def script(bundle: Path, *words: str | Path, path: Path, home: Path) -> subprocess.CompletedProcess[str]:
    """Run a bundle's ``install.sh`` in the home folder, with some programs in front of PATH and no others of ours."""
    environ = {"PATH": f"{path}:/usr/bin:/bin", "HOME": str(home), "NO_COLOR": "1"}
    return subprocess.run(
        ["sh", bundle / "install.sh", *words],
        cwd=home,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def tree(folder: Path) -> dict[str, str]:
    """Every file below a folder with its hash; links with their targets."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            found[str(path.relative_to(folder))] = str(path.readlink())
        elif path.is_file():
            found[str(path.relative_to(folder))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def both_platforms(folder: Path) -> Path:
    """A lock for both platforms: that of one, and the same again."""
    path = folder / "conda-lock.yml"
    data = quick_yaml.load((LOCKS / "inference" / "conda-lock.yml").read_text())
    data["package"] += [
        {**item, "platform": "linux-aarch64", "url": item["url"].replace("/linux-64/", "/linux-aarch64/")}
        for item in data["package"]
    ]
    data["metadata"]["platforms"].append("linux-aarch64")
    data["metadata"]["content_hash"]["linux-aarch64"] = "0" * 64
    path.write_text(quick_yaml.dump(data))
    return path
