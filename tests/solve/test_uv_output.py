"""What packages for pip require, from the real uv's log: the same as their metadata says, in PEP 440."""

from __future__ import annotations

from pathlib import Path

import yaml
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from cases import collect
from channel_builder import pkg, write
from cuenv.host.select import HostOptions
from cuenv.lockfile.files import LOCK_NAME, read_lock
from cuenv.lockfile.lock import LockRequest, lock
from cuenv.solve.io.pip import resolve
from cuenv.solve.model import PipLocked
from cuenv.solve.pip_part import PipRequest, Provided
from cuenv.solve.uv_output import requirements, specifier, without_log
from given import base
from pip_index import index, source, variables, wheel

WISHES = {
    "any": "",
    "least": ">=1.2",
    "between": ">=1.2,<3",
    "exact": "==1.5",
    "prefix": "==1.5.*",
    "compatible": "~=1.4",
    "compatible-patch": "~=1.4.2",
    "without": "!=1.6",
    "without-two": "!=1.6,!=1.7,>1",
    "without-prefix": "!=1.6.*,>=1",
    "upto": "<=1.5",
    "above": ">1.2",
    "early": ">=1.5rc1,<2",
    "epoch": "==1!2.0",
    "exactly-local": "==1.5+cu126",
}
RELEASES = ("1.2", "1.4.2", "1.5", "1.5rc1", "1.5+cu126", "1.6", "1.6.3", "1.7", "2.0", "3.0", "1!2.0")


def test_every_kind_of_wish_comes_out_as_it_went_in(tmp_path: Path) -> None:
    for name in WISHES:
        for release in RELEASES:
            wheel(tmp_path / "links", name, release)
    wheel(tmp_path / "links", "parent", "1.0", *(f"{name}{wish}" for name, wish in WISHES.items()))
    request = PipRequest(requirements=("parent",), python="3.12.7", platform="linux-64", glibc="2.35")
    user = variables(tmp_path / "home", UV_NO_INDEX="1", UV_FIND_LINKS=str(tmp_path / "links"))
    answer = resolve(request, user)
    assert isinstance(answer, tuple), answer
    (parent,) = [item for item in answer if item.name == "parent"]
    told_by_name = {item.name: item.specifier for item in map(Requirement, parent.depends)}
    assert told_by_name.keys() == WISHES.keys()
    numbers = [Version(text) for text in (*RELEASES, "0.9", "1", "1.4", "1.5.1", "1.8", "2.5")]
    for name, wish in WISHES.items():
        asked, told = SpecifierSet(wish), told_by_name[name]
        assert [asked.contains(item, prereleases=True) for item in numbers] == [
            told.contains(item, prereleases=True) for item in numbers
        ], (name, wish, str(told))


def test_a_lock_tells_what_packages_for_pip_require(tmp_path: Path) -> None:
    links = tmp_path / "links"
    wheel(
        links, "tool", "1.0", "torch>=2.0", "numpy<3,>=1.17", "base~=1.0; sys_platform == 'linux'", "win; os_name=='nt'"
    )
    wheel(links, "tool", "2.0", "torch>=9")
    wheel(links, "base", "1.4", "extra; extra == 'more'", extras=["more"])
    wheel(links, "extra", "1.0")
    source(links, "sdist", "0.5", "base[more]>=1.2", "exact==1.0")
    wheel(links, "exact", "1.0")
    packages = [
        pkg("python", "3.12.7"),
        pkg("pip", "25.0", subdir="noarch", noarch="python", depends=("python",)),
        pkg("numpy", "1.26.4", depends=("python",)),
        pkg("pytorch", "2.5.1", depends=("python",)),
    ]
    path = tmp_path / "environment.yml"
    path.write_text("channels: [conda-forge]\ndependencies: [python, pip, numpy, pytorch, {pip: [tool, sdist]}]\n")
    with index(links) as server:
        host = HostOptions(gpus=("8.9",), driver="535.129.03", environ=variables(tmp_path / "home", server.url))
        sources = write(tmp_path / "channel", {"conda-forge": packages})
        answer = lock(LockRequest(path=path, host=host, sources=sources, allow=("CU103", "CU104")), base())
    assert answer.lock, answer.report
    entries = yaml.safe_load((tmp_path / LOCK_NAME).read_text())["package"]
    assert {item["name"]: item["dependencies"] for item in entries if item["manager"] == "pip"} == {
        "base": {"extra": "*"},
        "exact": {},
        "extra": {},
        "sdist": {"base": ">=1.2", "exact": "==1.0"},
        "tool": {"base": ">=1.0,<2", "numpy": ">=1.17,<3", "torch": ">=2.0"},
    }
    assert read_lock(tmp_path / LOCK_NAME).solutions[0].pip == answer.lock.solutions[0].pip


def test_a_package_that_asks_for_what_conda_gives_exactly(tmp_path: Path) -> None:
    wheel(tmp_path / "links", "tool", "1.0", "torch==2.5.1", "numpy")
    torch = Provided(name="torch", version="2.5.1", conda="pytorch")
    numpy = Provided(name="numpy", version="1.26.4", conda="numpy")
    request = PipRequest(requirements=("tool",), python="3.12.7", platform="linux-64", provided=(numpy, torch))
    user = variables(tmp_path / "home", UV_NO_INDEX="1", UV_FIND_LINKS=str(tmp_path / "links"))
    answer = resolve(request, user)
    assert isinstance(answer, tuple), answer
    assert [item.depends for item in answer] == [("numpy", "torch==2.5.1")]


@collect("text", ["<1.5 | >=1.7+", "banana", ">=", "==1 | ==2 | x", ">=1.0.dev0, <1.3.dev0 | >=9"])
def test_a_range_without_a_form_is_none_or_names_its_ends(text: str) -> None:
    found = specifier(text)
    assert found is None or SpecifierSet(found)


@given(st.text(alphabet="DEBUGAdding transitive dependency for ab[]{}==1.0: <>|,*+\n\x1b", max_size=400))
def test_no_text_is_too_strange(text: str) -> None:
    one = PipLocked(name="a", version="1.0", url="https://x.example/a-1.0.tar.gz", sha256=None)
    requirements(text, [one], {"b": "1.0"})
    without_log(text)
    for part in text.split(" "):
        specifier(part)


def test_the_log_is_no_part_of_what_is_told() -> None:
    text = "DEBUG Solving\nerror: no\nDEBUG Tried 1 versions: a 1\n  cause: Because a\nWARN odd"
    assert without_log(text) == "error: no\n  cause: Because a"
