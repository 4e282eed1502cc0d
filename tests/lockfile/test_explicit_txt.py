"""Explicit files: read by rattler and by the pattern of conda, in an order that installers can keep."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rattler.explicit_environment import ExplicitEnvironmentSpec

from cases import collect
from cuenv.core.errors import InputError
from cuenv.lockfile.formats.explicit_txt import parse, render
from cuenv.solve.model import LockedPackage, Solution

BASE = "https://conda.anaconda.org/conda-forge"
MD5 = "0123456789abcdef0123456789abcdef"
SHA256 = MD5 * 2
# CEP 23, as published.
CEP_23 = re.compile(
    r"(?:(?P<url_p>.+)(?:[/\\]))?(?P<fn>[^/\\#]+(?:\.tar\.bz2|\.conda))"
    r"(?:#((?P<md5>[0-9a-f]{32})|((sha256:)?(?P<sha256>[0-9a-f]{64}))))?$"
)


def package(
    name: str, *depends: str, md5: str | None = MD5, sha256: str | None = SHA256, subdir: str = "linux-64"
) -> LockedPackage:
    return LockedPackage(
        name=name,
        version="1.0",
        build="h0_0",
        subdir=subdir,
        channel=BASE,
        url=f"{BASE}/{subdir}/{name}-1.0-h0_0.conda",
        md5=md5,
        sha256=sha256,
        depends=depends,
    )


def solution(*packages: LockedPackage) -> Solution:
    return Solution(platform="linux-64", packages=packages, virtual_packages=(), solver="")


SOLUTION = solution(
    package("numpy", "python >=3.12,<3.13.0a0 *_cpython", "libblas", "__glibc >=2.17"),
    package("libblas", sha256=None),
    package("python", "zlib"),
    package("zlib", md5=None),
    package("pip", "python", subdir="noarch"),
)
TEXT = render(SOLUTION, head=("Lock of dev.", "", "bad\x1b[31m\nline"))
GOLDEN = f"""\
# Lock of dev.
#
# bad [31m line
# platform: linux-64
@EXPLICIT
{BASE}/linux-64/libblas-1.0-h0_0.conda#{MD5}
{BASE}/linux-64/zlib-1.0-h0_0.conda#sha256:{SHA256}
{BASE}/linux-64/python-1.0-h0_0.conda#{MD5}
{BASE}/linux-64/numpy-1.0-h0_0.conda#{MD5}
{BASE}/noarch/pip-1.0-h0_0.conda#{MD5}
"""


def order(text: str) -> list[str]:
    return [line.rpartition("/")[2].split("-")[0] for line in text.splitlines() if "://" in line]


def test_written_as_agreed_and_the_same_twice() -> None:
    assert TEXT == GOLDEN
    assert (
        render(replace(SOLUTION, packages=SOLUTION.packages[::-1]), head=("Lock of dev.", "", "bad\x1b[31m\nline"))
        == TEXT
    )


def test_an_explicit_lock_is_read_back() -> None:
    found = parse(TEXT, "x.lock")
    assert found.platform == "linux-64"
    assert [item.name for item in found.packages] == ["libblas", "numpy", "pip", "python", "zlib"]
    for item in found.packages:
        before = SOLUTION.package(item.name)
        assert before
        assert item == replace(before, depends=(), sha256=None if before.md5 else before.sha256)


def test_rattler_reads_it() -> None:
    spec = ExplicitEnvironmentSpec.from_str(TEXT)
    assert str(spec.platform) == "linux-64"
    assert [entry.url for entry in spec.packages] == [line for line in TEXT.splitlines() if "://" in line]


def test_conda_reads_every_line() -> None:
    """CEP 23 is what conda reads since 24.9; before, MD5 was the only hash there was."""
    for line in [line for line in TEXT.splitlines() if "://" in line]:
        found = CEP_23.fullmatch(line)
        assert found
        assert (found["md5"], found["sha256"]) == ((None, SHA256) if "zlib" in line else (MD5, None))


def test_credentials_are_never_written() -> None:
    bad = replace(package("a"), url="https://u:s3cret@conda.example.org/t/tk-42/x/linux-64/a-1.0-h0_0.conda?sig=1")
    text = render(solution(bad), head=())
    assert text.splitlines()[-1] == f"https://conda.example.org/x/linux-64/a-1.0-h0_0.conda#{MD5}"
    assert "s3cret" not in repr(parse(text.replace("https://", "https://u:s3cret@"), "x"))


def test_a_package_without_any_hash() -> None:
    assert render(solution(package("a", md5=None, sha256=None)), head=()).endswith("h0_0.conda\n")


def test_a_circle_is_opened_and_the_rest_stays_in_order() -> None:
    circle = solution(package("a", "b"), package("b", "c"), package("c", "b", "z"), package("z"), package("d", "a"))
    found = order(render(circle, head=()))
    assert found == ["z", "b", "c", "a", "d"]
    assert order(render(replace(circle, packages=circle.packages[::-1]), head=())) == found
    python = solution(package("pip", "python"), package("python", "pip"), package("wheel", "python"))
    assert order(render(python, head=())) == ["python", "pip", "wheel"]
    assert order(render(solution(package("a", "a")), head=())) == ["a"]


@collect(
    ("text", "part"),
    [
        ("", "the line @EXPLICIT is missing"),
        ("\x00\x01", "the line @EXPLICIT is missing"),
        ("python=3.12\n", "the line @EXPLICIT is missing"),
        ("@explicit\n", "the line @EXPLICIT is missing"),
        ("@EXPLICIT\n", "the file lists no package"),
        ("# platform: linux-64\n@EXPLICIT\n", "the file lists no package"),
        ("@EXPLICIT\npython=3.12\n", "line 2: expected the URL of a package"),
        ("@EXPLICIT\n\x1b[31m\n", "line 2: expected the URL of a package"),
        (f"@EXPLICIT\n{BASE}/linux-64/a-1-0.whl\n", "line 2: expected the URL of a package"),
        (f"@EXPLICIT\n{BASE}/linux-64/a-1-0.conda#x\n", "line 2: expected an MD5 or SHA-256 after '#', got 'x'"),
        (f"@EXPLICIT\n{BASE}/linux-64/a-1-0.conda#\n", "line 2: expected an MD5 or SHA-256 after '#', got ''"),
        (f"@EXPLICIT\n{BASE}/linux-64/a-1-0.conda#md5:{MD5}\n", "line 2: expected an MD5"),
        (f"@EXPLICIT\n{BASE}/linux-64/a-1-0.conda\n{BASE}/linux-64/a-2-0.conda\n", "line 3: 'a' appears twice"),
        (f"@EXPLICIT\n{BASE}/noarch/a-1-0.conda\n", "expected one platform, got none"),
        (f"@EXPLICIT\n{BASE}/linux-64/a-1-0.conda\n{BASE}/win-64/b-1-0.conda\n", "got linux-64, win-64"),
        (f"# platform: win-64\n@EXPLICIT\n{BASE}/linux-64/a-1-0.conda\n", "got linux-64, win-64"),
        ("@EXPLICIT\n" + "x\n" * 20, "20 faults"),
    ],
)
def test_bad_files_are_refused_with_their_line(text: str, part: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(text, "x.lock")
    assert caught.value.message.startswith("x.lock: ")
    assert part in caught.value.message
    assert caught.value.message.replace("\n", "").isprintable()


def test_other_line_ends_and_what_conda_and_conda_lock_add() -> None:
    text = "\ufeff" + TEXT.replace("\n", "\r\n") + "# pip vllm @ https://example.org/vllm.whl\n  \n"
    assert parse(text, "x") == parse(TEXT, "x")


def test_cut_at_every_character_it_is_shorter_or_refused() -> None:
    whole = parse(TEXT, "x").packages
    urls = {item.url for item in whole}
    for end in range(len(TEXT)):
        try:
            found = parse(TEXT[:end], "x")
        except InputError:
            continue
        assert {item.url for item in found.packages} <= urls


# Laws

names = st.sampled_from("abcdefgh")
graphs = st.dictionaries(names, st.lists(names, max_size=4), max_size=8)


@given(graphs, st.randoms())
def test_every_package_once_and_after_what_it_needs(graph: dict[str, list[str]], random: object) -> None:
    packages = [package(name, *(f"{need} >=1" for need in needs)) for name, needs in graph.items()]
    text = render(solution(*packages), head=())
    shuffled = list(packages)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert render(solution(*shuffled), head=()) == text
    found = order(text)
    assert sorted(found) == sorted(graph)

    def reach(name: str) -> set[str]:
        seen: set[str] = set()
        todo = [name]
        while todo:
            for need in graph.get(todo.pop(), []):
                if need in graph and need not in seen:
                    seen.add(need)
                    todo.append(need)
        return seen

    for name in graph:
        for need in reach(name):
            if name not in reach(need):
                assert found.index(need) < found.index(name)


@given(st.binary(max_size=200))
def test_bytes_of_any_kind(data: bytes) -> None:
    for text in (data.decode("latin-1"), "@EXPLICIT\n" + data.decode("utf-8", "surrogateescape")):
        with pytest.raises(InputError):
            parse(text, "x")


@pytest.mark.slow
@pytest.mark.records
def test_real_packages_in_order(records: Path) -> None:
    data = json.loads((records / "conda-forge" / "linux-64" / "repodata.json").read_text())
    found: dict[str, LockedPackage] = {}
    for filename, item in data["packages.conda"].items():
        found[item["name"]] = replace(
            package(item["name"], *item["depends"], md5=item.get("md5"), sha256=item.get("sha256")),
            url=f"{BASE}/linux-64/{filename}",
        )
    assert len(found) > 1000
    text = render(solution(*found.values()), head=())
    assert len(parse(text, "x").packages) == len(found)
    entries = ExplicitEnvironmentSpec.from_str(text).packages
    assert len(entries) == len(found)
    place = {entry.url.partition("#")[0]: number for number, entry in enumerate(entries)}
    early = [
        (item.name, need)
        for item in found.values()
        for need in {text.split()[0] for text in item.depends} & set(found)
        if place[found[need].url] > place[item.url]
    ]
    assert early == []
