"""A channel with the shape of conda-forge, made up: the same bytes for the same number of records.

    python benchmarks/channel.py FOLDER --records 450000

What is alike: two of five records are noarch, names have from one to hundreds of records (few have many), builds come
in one for each Python, dependencies point mostly to a few popular packages and carry bounds like those that pinning
writes. The CUDA stack is inside, made from the pins of an environment that cuenv writes, so that this environment
closes on it. Every filler depends on older fillers alone, within bounds that some release satisfies.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

from cuenv.solve import environment_yml
from cuenv.solve.environment_spec import EnvironmentSpec

PLATFORM = "linux-64"
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
STACK_RELEASES = 12
"""Releases of each package of the CUDA stack, of which the one that is asked for is one."""
LAYERS = {"libcudnn": "9.10.2", "nccl": "2.27.7"}
"""Releases of packages that the environment pins without one; all others get that of CUDA."""
POPULAR = 100
"""Packages that torch leans on, so that a lock is as large as a real one."""
MEAN = 15.0
"""Records of a name, on average; conda-forge has about as many."""

_SYLLABLES = ("py", "lib", "net", "geo", "sci", "fast", "data", "graph", "io", "quant", "ml", "bio", "core", "flow")
_LICENCES = ("MIT", "BSD-3-Clause", "Apache-2.0", "GPL-3.0-or-later", "LGPL-2.1-or-later")


@dataclass(frozen=True)
class Filler:
    """A package that stands for any other: how it is built, and its releases, oldest first."""

    name: str
    noarch: bool
    pythons: tuple[str, ...]
    releases: tuple[str, ...]

    @property
    def records(self) -> int:
        return len(self.releases) * max(1, len(self.pythons))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--records", type=int, default=450_000, help="how many records (default 450000)")
    parser.add_argument("--environment", type=Path, required=True, help="an environment.yml of `cuenv resolve`")
    options = parser.parse_args()
    spec, _ = environment_yml.parse(options.environment.read_text(), options.environment.name)
    made = write(options.folder, options.records, spec)
    print(f"{made} records in {options.folder}")


def write(folder: Path, records: int, spec: EnvironmentSpec) -> int:
    """Write ``linux-64/repodata.json`` and ``noarch/repodata.json``; the number of records.

    Below a thousand records the stack may be cut, and nothing closes.
    """
    chance = random.Random(records)
    streams = {subdir: _open(folder / subdir) for subdir in (PLATFORM, "noarch")}
    begun: set[str] = set()
    made = 0

    def put(record: dict[str, Any]) -> None:
        nonlocal made
        stream = streams[record["subdir"]]
        stream.write(",\n" if record["subdir"] in begun else "\n")
        begun.add(record["subdir"])
        file = f"{record['name']}-{record['version']}-{record['build']}.conda"
        stream.write(f"{json.dumps(file)}:{json.dumps(_hashed(file, record))}")
        made += 1

    for record in _all(spec, min(POPULAR, records // 50), chance):
        put(record)
        if made == records:
            break
    for stream in streams.values():
        stream.write('},\n"packages":{},"removed":[],"repodata_version":1}\n')
        stream.close()
    return made


def _all(spec: EnvironmentSpec, popular: int, chance: random.Random) -> Iterator[dict[str, Any]]:
    """Record after record, without end: the base, what the stack leans on, the stack, and all the others."""
    yield from _base(chance)
    fillers: list[Filler] = []
    while True:
        filler = _filler(len(fillers), chance)
        if len(fillers) < popular:
            filler = replace(filler, releases=filler.releases[-5:])
        yield from _records(filler, fillers, chance)
        fillers.append(filler)
        if len(fillers) == popular:
            yield from _stack(spec, fillers)


def _open(folder: Path) -> TextIO:
    folder.mkdir(parents=True)
    stream = (folder / "repodata.json").open("w", encoding="utf-8")
    stream.write(f'{{"info":{{"subdir":"{folder.name}"}},"packages.conda":{{')
    return stream


def _hashed(file: str, record: dict[str, Any]) -> dict[str, Any]:
    sha256 = hashlib.sha256(file.encode()).hexdigest()
    return {
        **record,
        "license": _LICENCES[int(sha256[0], 16) % len(_LICENCES)],
        "md5": hashlib.md5(file.encode(), usedforsecurity=False).hexdigest(),
        "sha256": sha256,
        "size": 10_000 + int(sha256[:6], 16),
        "timestamp": 1_500_000_000_000 + int(sha256[:9], 16) % 260_000_000_000,
    }


def _record(name: str, version: str, build: str, depends: Sequence[str], *, noarch: bool = False) -> dict[str, Any]:
    number = int(build.rpartition("_")[2])
    found: dict[str, Any] = {"build": build, "build_number": number, "depends": list(depends), "name": name}
    if noarch:
        found["noarch"] = "python"
    return {**found, "subdir": "noarch" if noarch else PLATFORM, "version": version}


def _base(chance: random.Random) -> Iterator[dict[str, Any]]:
    """What nearly every record leans on: the C libraries, and Python with its ABI."""
    for name in ("__glibc-stub", "libgcc", "libstdcxx", "openssl", "libzlib"):
        for release in _releases(chance, 40):
            needs = ["__glibc >=2.17,<3.0.a0"] if name == "libgcc" else ["libgcc"]
            yield _record(name, release, f"h{chance.getrandbits(28):07x}_0", needs)
    for python in PYTHONS:
        digits = python.replace(".", "")
        yield _record("python_abi", python, f"8_cp{digits}_8", [], noarch=True)
        for patch in range(12):
            needs = ["libgcc >=1", "libzlib >=1", "openssl >=1", f"python_abi {python}.* *_cp{digits}_8"]
            yield _record("python", f"{python}.{patch}", f"h{chance.getrandbits(28):07x}_{patch}", needs)


def _stack(spec: EnvironmentSpec, popular: Sequence[Filler]) -> Iterator[dict[str, Any]]:
    """The packages that an environment pins, in the releases that it wants and in others beside them."""
    exact = {pin.name: _exact(pin.version) for pin in spec.pins}
    cuda = exact["cuda-version"].removesuffix(".0")
    libraries = sorted(name for name in exact if name.startswith(("lib", "nccl")))
    for pin in spec.pins:
        if pin.name == "python":
            continue
        wanted = exact[pin.name] or LAYERS.get(pin.name) or f"{cuda}.86"
        build = pin.build.replace("*", "") or "h"
        for step in range(STACK_RELEASES):
            version = wanted if step == 0 else _older(wanted, step)
            if pin.name == "cuda-version":
                yield _record(pin.name, version, "h0123456_3", ["__cuda >=1"], noarch=False)
                continue
            depends = ["libgcc >=1", "libstdcxx >=1", f"cuda-version >={cuda.partition('.')[0]},<99"]
            if not pin.build:
                yield _record(pin.name, version, f"h{step:07x}_0", depends[: 2 if pin.name == "ninja" else 3])
                continue
            more = [*depends, *(f"{name} >=0" for name in (*libraries, *(filler.name for filler in popular)))]
            for number, python in enumerate(PYTHONS):
                abi = f"python_abi {python}.* *_cp{python.replace('.', '')}_8"
                name = f"{build}_generic_py{python.replace('.', '')}_h{step:07x}_{200 + number}"
                yield _record(pin.name, version, name, [*more, f"python {python}.*", abi, "openssl >=1"])
                yield _record(
                    pin.name, version, name.replace(build, "cpu"), ["libgcc >=1", f"python {python}.*", abi, "openssl"]
                )


def _filler(index: int, chance: random.Random) -> Filler:
    word = "-".join(chance.choice(_SYLLABLES) + chance.choice(_SYLLABLES) for _ in range(chance.randint(1, 2)))
    noarch = chance.random() < 0.55
    pythons = PYTHONS if not noarch and chance.random() < 0.4 else ()
    releases = min(400, max(1, round(chance.paretovariate(1.16) * MEAN / 6)))
    return Filler(f"{word}-{index}", noarch, pythons, tuple(_releases(chance, releases)))


def _records(filler: Filler, others: Sequence[Filler], chance: random.Random) -> Iterator[dict[str, Any]]:
    needs = [_bound(others[int(len(others) * chance.random() ** 3)], chance) for _ in range(_count(others, chance))]
    needs = list(dict.fromkeys(needs))
    for release in filler.releases:
        if filler.noarch:
            yield _record(filler.name, release, "pyhd8ed1ab_0", ["python >=3.10", *needs], noarch=True)
            continue
        for python in filler.pythons:
            digits = python.replace(".", "")
            abi = [
                "libgcc >=1",
                f"python >={python},<3.{int(digits[1:]) + 1}.0a0",
                f"python_abi {python}.* *_cp{digits}_8",
            ]
            yield _record(filler.name, release, f"py{digits}h{chance.getrandbits(28):07x}_1", [*abi, *needs])
        if not filler.pythons:
            yield _record(
                filler.name, release, f"h{chance.getrandbits(28):07x}_0", ["libgcc >=1", "libstdcxx >=1", *needs]
            )


def _count(others: Sequence[Filler], chance: random.Random) -> int:
    return min(len(others), int(chance.expovariate(0.3)), 14)


def _bound(other: Filler, chance: random.Random) -> str:
    """A bound as pinning writes it: from some release on, at times below the next major after the last."""
    first = chance.choice(other.releases)
    if chance.random() < 0.6:
        return f"{other.name} >={first}"
    return f"{other.name} >={first},<{int(other.releases[-1].partition('.')[0]) + 1}.0a0"


def _releases(chance: random.Random, number: int) -> list[str]:
    """That many releases, oldest first: now and then a new major, mostly minors and patches."""
    found, major, minor, patch = [], chance.randint(0, 3), 0, 0
    for _ in range(number):
        kind = chance.random()
        if kind < 0.06:
            major, minor, patch = major + 1, 0, 0
        elif kind < 0.5:
            minor, patch = minor + 1, 0
        else:
            patch += 1
        found.append(f"{major}.{minor}.{patch}")
    return found


def _exact(version: str) -> str:
    """The release that a pin names; for a bound without one, nothing."""
    text = version.strip("<>=!~").split(",")[0]
    digits = text.removesuffix(".*")
    return f"{digits}.0" if text != digits else digits


def _older(version: str, step: int) -> str:
    """A release before another: the last part counts down, else the one before it."""
    parts = [int(part) for part in version.split(".") if part.isdigit()]
    parts += [0] * (3 - len(parts))
    ordinal = parts[0] * 10_000 + parts[1] * 100 + parts[2] - step
    return f"{ordinal // 10_000}.{ordinal // 100 % 100}.{ordinal % 100}"


if __name__ == "__main__":
    main()
