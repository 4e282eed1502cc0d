"""Every reader of foreign bytes, fed with bytes: only our own errors come out, in words that a terminal may show.

An input is a good one that was damaged, or pieces of its language, or noise; its number makes it, so that a failure can
be had again. How many inputs there are is one setting, ``CUENV_FUZZ``, for each reader; without it ten thousand in all.
`nox -s fuzz` gives a hundred thousand to each. What was found once stays below, in ``FOUND``.
"""

from __future__ import annotations

import base64
import json
import os
import random
import struct
import time
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pytest

import cuenv
from cases import collect
from cuenv.binary.code import read_file
from cuenv.binary.elf import BinaryError
from cuenv.binary.loader import parse_ld_cache
from cuenv.core import yaml_read
from cuenv.core.errors import CuenvError
from cuenv.diagnosis.log.scan import scan
from cuenv.host.paste.all_hosts import read_pasted_hosts
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.guidance import Symptom
from cuenv.knowledge.io.load import load, load_guidance
from cuenv.knowledge.tables import merge
from cuenv.lint import Machine
from cuenv.lint.dockerfile import parse as dockerfile
from cuenv.lint.files import _rules_for
from cuenv.lockfile.formats import LockPart, explicit_txt, requirements_txt
from cuenv.lockfile.formats import conda_lock as conda_lock_v1_read
from cuenv.lockfile.formats.others import pixi_lock, pylock_toml, uv_lock
from cuenv.lockfile.pip_findings import pip_findings
from cuenv.solve import environment_yml
from cuenv.solve.model import Lock
from elf_files import Part, archive, cubin, cubins, elf, fatbin
from failure_logs import CASES
from foreign_locks import PYLOCK, REQUIREMENTS, UV, conda_url, pixi
from given import shipped_base

TOTAL = 1_200
SAMPLES = Path(__file__).parent


@dataclass(frozen=True)
class Target:
    """A reader.

    Attributes:
        read: what is fed.
        seeds: good inputs, which are damaged; a damaged good input goes deeper than noise.
        tokens: pieces that this kind of file is made of.
        share: of all inputs: slow readers get fewer.
    """

    read: Callable[[bytes], object]
    seeds: Callable[[], Iterable[bytes]]
    tokens: tuple[bytes, ...] = ()
    share: float = 1.0


@lru_cache(maxsize=1)
def base() -> Knowledge:
    return load(None)


def text(reader: Callable[[str], object]) -> Callable[[bytes], object]:
    """As files are read: what is not UTF-8 text never comes to a reader of text."""
    return lambda data: reader(data.decode("utf-8", "ignore").replace("\0", ""))


def lint(kind: str) -> Callable[[str], object]:
    def look(source: str) -> object:
        return [item.finding.message for item in _rules_for(kind, "x", Machine(), base())(source)]

    return look


def lock(reader: Callable[[str, str, LockPart], Lock]) -> Callable[[str], object]:
    """A reader of locks of other programs, and the judgement of what is in them."""

    def read(source: str) -> object:
        found = reader(source, "x", LockPart())
        return [item.message for one in found.solutions for item in pip_findings(one, "x")]

    return read


def knowledge_row(source: str) -> object:
    """A table as a file of ``--knowledge`` holds it."""
    try:
        content = json.loads(source)
    except (ValueError, RecursionError):
        return None  # the reader of files says it, and has its own tests
    return merge(base(), {"gpus": content})


@lru_cache(maxsize=1)
def symptoms() -> tuple[Symptom, ...]:
    return load_guidance(base()).symptoms


def logs(data: bytes) -> object:
    middle = len(data) // 2
    return scan([data[:middle], data[middle:]], symptoms())


def section(data: bytes) -> object:
    whole = elf(Part(".nv_fatbin", data))
    return read_file(whole, deep=True)


def binary(data: bytes) -> object:
    return [read_file(data, deep=deep) for deep in (False, True)]


@lru_cache(maxsize=1)
def lock_text() -> bytes:
    from cuenv.host.facts import VirtualPackage
    from cuenv.lockfile.formats.conda_lock import render
    from cuenv.solve.environment_spec import EnvironmentSpec
    from cuenv.solve.model import Lock, LockedPackage, Solution

    package = LockedPackage(
        name="leaf",
        version="1.0",
        build="0",
        subdir="linux-64",
        channel="https://conda.anaconda.org/conda-forge",
        url="https://conda.anaconda.org/conda-forge/linux-64/leaf-1.0-0.conda",
        md5="0" * 32,
        sha256="0" * 64,
        depends=("python >=3.10,<3.13.0a0",),
    )
    virtual = (VirtualPackage("__cuda", "12.6"),)
    solution = Solution(platform="linux-64", packages=(package,), virtual_packages=virtual, solver="x")
    lock = Lock(channels=("conda-forge",), sources=("environment.yml",), solutions=(solution,))
    return render(lock, EnvironmentSpec(name="x", channels=("conda-forge",), pins=())).encode()


def shipped(pattern: str) -> list[bytes]:
    """Files that come with cuenv."""
    return [path.read_bytes() for path in sorted((Path(cuenv.__file__).parent / "data").glob(pattern))]


def gpus() -> list[bytes]:
    table = json.loads(shipped("gpus.json")[0])
    return [json.dumps({**table, "rows": table["rows"][at : at + 2]}).encode() for at in (0, 40)]


ENVIRONMENT = b"""name: x
channels: [conda-forge]
dependencies:
  - python=3.12
  - conda-forge::pytorch=2.7.1=cuda129*
  - "numpy >=1.26,<3"
  - pip:
    - six==1.0 ; python_version > "3.8"
variables: {A: "1"}
platforms: [linux-64]
"""
LEAF = b"https://conda.anaconda.org/conda-forge/linux-64/leaf-1.0-0.conda#"
EXPLICIT = b"# platform: linux-64\n@EXPLICIT\n" + LEAF + b"0" * 32
DOCKERFILE = b"# escape=\\\nFROM nvidia/cuda:12.4.1-devel-ubuntu22.04\nRUN pip install torch \\\n  && <<EOF\nls\nEOF\n"
DS_CONFIG = b'{"train_batch_size": 4, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}},}'
SHELL = b"export LD_LIBRARY_PATH=/usr/lib64:$LD_LIBRARY_PATH\npip install 'torch==2.1' --index-url x && nvcc -V"
YAML = tuple(b": |- |\n|  |[|]|{|}|&a |*a|!!x |'|\"|>-\n|# |1e3|~|<<: |---\n|? ".split(b"|"))
JSON = tuple(b'{|}|[|]|"|:|,|1|-|1e999|null|true|\\u0000|\\ud800|NaN|/*|//'.split(b"|"))

TOML = tuple(b'[|]|[[|]]|{|}|"|\'|=|,|.|#|\n|1e999|nan|"""|version = 1\n|[[package]]\n|name = "torch"\n'.split(b"|"))
PINS = (
    b"==1",
    b" --hash=sha256:",
    b"\\\n",
    b" ; ",
    b" @ ",
    b"#",
    b"-r ",
    b"[x]",
    b"torch",
    b"\n",
    b"python_version < '3'",
)
PIXI = pixi({"default": {"linux-64": [conda_url("a"), "torch==2.7.1"]}, "gpu": {"linux-64": [conda_url("b")]}}).encode()

LOG = (b"\n", b"\r", b"Traceback (most recent call last):\n", b"RuntimeError: CUDA error: ", b"[rank0]: ", b"\x1b[31m")
PTX = b"// NVVM\n.version 8.4\n.target sm_90a\n.address_size 64\n"
AR = (
    b"!<arch>\n",
    b"`\n",
    b".target sm_",
    b".version 8.4\n",
    b"//",
    b"/*",
    b"*/",
    b"\x7fELF\x02\x01\x01\x41",
    bytes(8),
)
CACHE = b"glibc-ld.so.cache1.1" + struct.pack("<IIB3xI12x", 1, 20, 2, 0) + struct.pack("<iIIIQ", 0x303, 72, 81, 0, 0)
CACHE += b"libx.so.1\0/lib/libx.so.1\0"

TARGETS: dict[str, Target] = {
    "host JSON": Target(
        text(lambda it: read_pasted_hosts(it, shipped_base(), "x")), lambda: shipped("hosts/*.json"), JSON
    ),
    "environment.yml": Target(text(lambda it: environment_yml.parse(it, "x")), lambda: [ENVIRONMENT], YAML),
    "YAML": Target(text(lambda it: yaml_read.load(it, "x")), lambda: [ENVIRONMENT], YAML),
    "conda-lock.yml": Target(text(lambda it: conda_lock_v1_read.parse(it, "x")), lambda: [lock_text()], YAML),
    "explicit lock": Target(text(lambda it: explicit_txt.parse(it, "x")), lambda: [EXPLICIT], (b"#", b"@EXPLICIT\n")),
    "pixi.lock": Target(text(lock(pixi_lock.READER.read)), lambda: [PIXI], YAML, share=0.5),
    "uv.lock": Target(text(lock(uv_lock.READER.read)), lambda: [UV.encode()], TOML, share=0.3),
    "pylock.toml": Target(text(lock(pylock_toml.READER.read)), lambda: [PYLOCK.encode()], TOML, share=0.3),
    "requirements": Target(text(lock(requirements_txt.READER.read)), lambda: [REQUIREMENTS.encode()], PINS, share=0.5),
    "log": Target(logs, lambda: [path.read_bytes() for path in CASES[:40]], LOG, share=0.3),
    "ELF": Target(binary, lambda: [elf(fatbin(cubins(80, 90)), Part(".rodata", b"abc"))], (bytes(8), b"\xff" * 8)),
    "device code": Target(
        binary, lambda: [PTX, archive(a=elf(fatbin(cubins(80)))), cubin(90), cubins(80)], AR, share=0.5
    ),
    "fatbin": Target(section, lambda: [fatbin(cubins(80, 90), cubins(75)).content], (bytes(8), b"\x50\xed\x55\xba")),
    "ld.so.cache": Target(parse_ld_cache, lambda: [CACHE], (b"glibc-ld.so.cache1.1", bytes(4), b"\xff" * 4)),
    "ds_config": Target(text(lint("ds_config")), lambda: [DS_CONFIG], JSON),
    "Dockerfile": Target(text(lambda it: dockerfile(it, "x")), lambda: [DOCKERFILE], (b"FROM ", b"\\\n", b"<<E\n")),
    "Dockerfile lint": Target(text(lint("Dockerfile")), lambda: [DOCKERFILE], (b"FROM ", b"RUN ", b"\\\n"), share=0.2),
    "shell lint": Target(text(lint("shell")), lambda: [SHELL], (b"'", b'"', b"`", b"$(", b"\\\n"), share=0.2),
    "environment lint": Target(text(lint("environment.yml")), lambda: [ENVIRONMENT], YAML, share=0.2),
    "knowledge row": Target(text(knowledge_row), gpus, JSON, share=0.5),
}


def damaged(data: bytes, tokens: tuple[bytes, ...], chance: random.Random) -> bytes:
    """A good input with a few wounds."""
    made = bytearray(data)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(made) + 1)
        length = chance.choice((0, 1, 1, 2, 4, 8, chance.randint(0, 64)))
        kind = chance.randrange(6)
        if kind == 0:
            del made[at : at + length]
        elif kind == 1:
            made[at : at + length] = chance.randbytes(length)
        elif kind == 2 and tokens:
            made[at:at] = chance.choice(tokens) * chance.choice((1, 1, 1, 2, 30))
        elif kind == 3:
            other = chance.randrange(len(made) + 1)
            made[at:at] = made[other : other + length]
        elif kind == 4:
            made[at : at + 1] = chance.choice((b"\x1b", b"\xff", b"\r", b"\xe2\x80\xae", b"\xc2\x9b", b"9" * 40))
        else:
            made = made[:at] if chance.random() < 0.3 else made
    return bytes(made)


def inputs(name: str, count: int, start: int) -> Iterable[tuple[int, bytes]]:
    """So many inputs for a reader, with their numbers."""
    target = TARGETS[name]
    seeds = list(target.seeds())
    for number in range(start, start + count):
        chance = random.Random(f"{name}/{number}")
        kind = chance.random()
        if kind < 0.75:
            yield number, damaged(chance.choice(seeds), target.tokens, chance)
        elif kind < 0.95:
            yield number, b"".join(chance.choices(target.tokens, k=chance.randint(0, 40)))
        else:
            yield number, chance.randbytes(chance.randint(0, 300))


def fed(name: str, data: bytes, number: int | None = None) -> bool:
    """Whether a reader takes an input; ``False`` for an error of ours, and a failure for any other."""
    said = None
    try:
        TARGETS[name].read(data)
    except (CuenvError, BinaryError) as error:
        said = str(error)
    except Exception as error:
        raise AssertionError(f"{name}, input {number}: {data[:5000]!r}") from error
    assert all(mark.isprintable() or mark == "\n" for mark in said or ""), (name, number, data[:5000], said)
    return said is None


@collect("name", TARGETS)
def test_any_bytes_are_read_or_refused(name: str) -> None:
    shares = sum(target.share for target in TARGETS.values())
    given = os.environ.get("CUENV_FUZZ")
    count = int(given) if given else int(TOTAL * TARGETS[name].share / shares)
    start = int(os.environ.get("CUENV_FUZZ_START", "0"))
    taken = sum(fed(name, data, number) for number, data in inputs(name, count, start))
    assert taken < count or name in {"log", "shell lint", "Dockerfile lint", "environment lint", "ds_config"}


@collect("name", TARGETS)
def test_the_good_inputs_are_good(name: str) -> None:
    for data in TARGETS[name].seeds():
        if name != "ld.so.cache":
            assert fed(name, data), name


TEN_MEGABYTES = 10 * 1024 * 1024
BOMBS: dict[str, Callable[[], bytes]] = {
    "a billion laughs": lambda: (
        b"a: &a [x,x,x,x,x,x,x,x,x]\n"
        + b"".join(b"%c: &%c [%s]\n" % (at, at, b",".join([b"*%c" % (at - 1)] * 9)) for at in range(ord("b"), ord("k")))
    ),
    "10 MB of opening brackets": lambda: b"[" * TEN_MEGABYTES,
    "10 MB of opening braces": lambda: b"{a: " * (TEN_MEGABYTES // 4),
    "10 MB of opening quotes of JSON": lambda: b'{"a":' * (TEN_MEGABYTES // 5),
    "10 MB of nested lists by dashes": lambda: b"- " * (TEN_MEGABYTES // 2),
    "10 MB of indentation": lambda: b"".join(b" " * at + b"a:\n" for at in range(4400)),
    "10 MB of one key": lambda: b"a" * TEN_MEGABYTES + b": 1",
    "10 MB of one number": lambda: b"1" * TEN_MEGABYTES,
    "10 MB of base 60": lambda: b"a: 1" + b":1" * (TEN_MEGABYTES // 2),
    "10 MB of aliases": lambda: b"a: &a x\nb: [" + b"*a," * (TEN_MEGABYTES // 3) + b"]",
    "10 MB of line ends": lambda: b"\n" * TEN_MEGABYTES,
    "10 MB of backslashes": lambda: b"FROM " + b"\\\n" * (TEN_MEGABYTES // 2),
}
"""Inputs that are small and ask for much, or large and ask for more; each is made where it is fed."""


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in TARGETS if name not in {"ELF", "fatbin", "ld.so.cache"}])
@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs_are_refused_in_time(name: str, bomb: str) -> None:
    began = time.process_time()
    fed(name, BOMBS[bomb]())
    assert time.process_time() - began < 60


SMALL = 300 * 1024
"""Bytes of each bomb in the fast suite."""


@collect("bomb", BOMBS, one_in=6)
def test_the_beginnings_of_bombs_are_refused(bomb: str) -> None:
    data = BOMBS[bomb]()[:SMALL]
    for name in ("host JSON", "environment.yml", "conda-lock.yml", "pixi.lock", "uv.lock", "ds_config", "Dockerfile"):
        fed(name, data)


def unpacked(data: bytes) -> bytes:
    return zlib.decompress(base64.b64decode(data))


FOUND: list[tuple[str, bytes]] = [
    ("Dockerfile lint", b"FROM nvidia/cuda:12.4.1-devel-ubuntu22.04\nRUN pip install& <<EOF\nls\nEOF\n"),
    # the name of a section is of the file, and was told raw
    (
        "ELF",
        unpacked(
            b"eNqrd/VxY2JkZIABZgY7BgQPASSQBB0YLMAkC1B1wNvQXYwMAgwLoHJMDIyMDkBaAMrnheviYAhAMk9QAdX8BW3YbMVvXhQZ5iUm"
            b"JUMYenll8WmJJUmZeQx6RfkpiSWJDHrFGcUlRSWJSQyUA0YoZkITd4DSG0DEfyhAkudAU8+Dw5wP8PhCBej6RbCoAYEfUFqOgH4A"
            b"k9kgHg=="
        ),
    ),
]
"""Inputs that once broke a reader."""


@pytest.mark.parametrize(("name", "data"), FOUND)
def test_what_was_found_once_stays_mended(name: str, data: bytes) -> None:
    fed(name, data)
