"""What the benchmarks read: environments and locks, from real records where they are given, else made up."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from cuenv.core.urls import CANONICAL, channel_url
from cuenv.host.facts import HostFacts, virtual_packages
from cuenv.host.select import HostOptions, host_facts
from cuenv.knowledge.io.load import load
from cuenv.lockfile.files import LOCK_NAME, host_metadata, spec_digest
from cuenv.lockfile.formats import conda_lock as conda_lock_v1
from cuenv.solve import environment_yml
from cuenv.solve.environment_spec import EnvironmentSpec
from cuenv.solve.io.sources import parse_mirrors
from cuenv.solve.model import Lock, LockedPackage, Solution, content_digest

HOST = "rtx4090-535"
CHANNELS = ("conda-forge", "pytorch", "nvidia")
_MORE = ("matplotlib-base", "pandas", "scikit-learn", "sphinx")  # with torch about 200 packages, as teams have
_SIZE = 200


def mirrors(records: Path) -> list[str]:
    """The options that read the records in place of the channels."""
    return [word for name in CHANNELS for word in ("--mirror", f"{name}={records / name}")]


def cuenv(*words: str, folder: Path) -> str:
    """Run cuenv to prepare something; its stdout."""
    return subprocess.run(
        [sys.executable, "-m", "cuenv", *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout


def environment(folder: Path, records: Path, more: Iterable[str] = ()) -> Path:
    """An environment file for the host that closes on the records."""
    path = folder / "environment.yml"
    wishes = [word for name in more for word in ("--with", name)]
    cuenv("resolve", "--host", HOST, "--prove", *wishes, *mirrors(records), "-q", "-o", str(path), folder=folder)
    return path


def real_lock(folder: Path, records: Path) -> tuple[Path, int]:
    """A lock of about 200 real packages, and their number."""
    environment(folder, records, _MORE)
    answer = json.loads(cuenv("lock", "--host", HOST, *mirrors(records), "--json", folder=folder))
    return folder / LOCK_NAME, sum(answer["packages"].values())


def made_up_lock(folder: Path) -> tuple[Path, int]:
    """A lock of 200 packages, written through cuenv's own format: the pins of a decision, and fillers around them."""
    text = cuenv("resolve", "--host", HOST, "-q", folder=folder)
    (folder / "environment.yml").write_text(text)
    spec, _ = environment_yml.parse(text, "environment.yml")
    facts = host_facts(HostOptions(hosts=(HOST,)), load())
    packages = sorted(_packages(spec), key=lambda item: item.name)
    solution = Solution(
        platform=facts.platform,
        packages=tuple(packages),
        virtual_packages=virtual_packages(facts),
        solver="none",
    )
    about = {"cuenv_content": content_digest([solution]), "cuenv_environment": spec_digest(spec)}
    lock = Lock(
        channels=spec.channels,
        sources=("environment.yml",),
        solutions=(solution,),
        metadata={**about, **host_metadata(facts)},
    )
    path = folder / LOCK_NAME
    path.write_text(conda_lock_v1.render(lock, spec))
    return path, len(packages)


def _packages(spec: EnvironmentSpec) -> list[LockedPackage]:
    named = [
        (pin.name, _exact(pin.version), pin.build.replace("*", "_generic_py312_0"), ("python", "libstdcxx"))
        for pin in spec.pins
    ]
    fillers = [
        (f"filler-{number:03}", f"{number}.4.1", "py312h0123456_0", tuple(f"filler-{number // k:03}" for k in (2, 3)))
        for number in range(_SIZE - len(named))
    ]
    return [_package(*row) for row in named + fillers]


def _exact(version: str) -> str:
    digits = version.strip("<>=!~").split(",")[0].removesuffix(".*")
    return digits if digits[:1].isdigit() else "12.9.1"


def _package(name: str, version: str, build: str, depends: tuple[str, ...]) -> LockedPackage:
    file = f"{name}-{version}-{build or '0'}.conda"
    return LockedPackage(
        name=name,
        version=version,
        build=build or "0",
        subdir="linux-64",
        channel=f"{CANONICAL}conda-forge",
        url=f"{CANONICAL}conda-forge/linux-64/{file}",
        md5=hashlib.md5(file.encode(), usedforsecurity=False).hexdigest(),
        sha256=hashlib.sha256(file.encode()).hexdigest(),
        depends=tuple(f"{item} >=1.0,<99.0a0" for item in depends),
    )


def question(folder: Path, path: Path, records: Path, facts: HostFacts | None = None) -> Path:
    """What `cuenv lock` asks the solver about an environment file, as plain JSON for ``bare_solve.py``."""
    spec, _ = environment_yml.parse(path.read_text(), path.name)
    facts = facts or host_facts(HostOptions(hosts=(HOST,)), load())
    places = {mirror.origin: mirror.target for mirror in parse_mirrors(mirrors(records)[1::2])}
    urls = [channel_url(name) for name in spec.channels]
    asked = {
        "specs": [pin.match_spec() for pin in spec.pins],
        "platform": facts.platform,
        "channels": [[url, _place(url, places)] for url in urls],
        "virtual": [[item.name, item.version, item.build] for item in virtual_packages(facts)],
    }
    file = folder / "question.json"
    file.write_text(json.dumps(asked))
    return file


def _place(url: str, places: dict[str, str]) -> str:
    origin = max((item for item in places if f"{url}/".startswith(f"{item}/")), key=len)
    return places[origin] + url[len(origin) :]
