"""What is written is read again, by us and by those it is written for: conda-lock's models and py-rattler's readers."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from rattler import CondaLockedPackage, Version
from rattler.explicit_environment import ExplicitEnvironmentSpec
from rattler.lock import LockFile

from cuenv.config import profiles as profile_yml
from cuenv.core.versions import VersionSpec, parse_version_spec
from cuenv.core.yaml_read import load
from cuenv.host.request import Request, parse
from cuenv.lockfile import diff as lock_diff_v1
from cuenv.lockfile.diff import LockDiff, diff
from cuenv.lockfile.formats import conda_lock as conda_lock_v1
from cuenv.lockfile.formats import explicit_txt
from cuenv.solve.environment_spec import EnvironmentSpec
from cuenv.solve.model import Lock, LockedPackage
from given import base, package, shipped, solution
from thorough import examples

CHANNELS = ("conda-forge", "nvidia/label/cuda-11.8.0", "https://conda.example.org/team")
SPEC = EnvironmentSpec(name="x", channels=CHANNELS, pins=())
names = st.from_regex(r"[a-z0-9][a-z0-9_]{0,6}(-[a-z0-9]{1,4})?", fullmatch=True)
releases = st.sampled_from(["1e3", "12e34", "0x1f", "1!2.3", "1.2+cu129", "2024.01.05"]) | st.from_regex(
    r"[0-9]{1,3}(\.[0-9]{1,3}){0,3}(a1|rc2|\.post3)?", fullmatch=True
)
builds = st.sampled_from(["0", "1e3", "py312_0", "cuda129_py312_0", "py3.10_cuda11.8_0"])
hashes = st.text("0123456789abcdef", min_size=64, max_size=64)


@st.composite
def packages(draw: st.DrawFn) -> LockedPackage:
    made = package(
        *(draw(names), draw(releases), draw(builds), draw(st.sampled_from(CHANNELS))),
        subdir=draw(st.sampled_from(["linux-64", "noarch"])),
        sha256=draw(hashes),
        md5=draw(hashes)[:32],
    )
    return replace(made, url=made.url.removesuffix(".conda") + draw(st.sampled_from([".conda", ".tar.bz2"])))


some = st.lists(packages(), unique_by=lambda item: item.name, max_size=6)


def told(items: tuple[LockedPackage, ...] | list[LockedPackage]) -> set[tuple[str | None, ...]]:
    return {(item.name, item.version, item.build, item.subdir, item.url, item.md5 or item.sha256) for item in items}


# explicit files


@examples(40)
@given(some, st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20), max_size=2))
def test_an_explicit_file_comes_back_and_rattler_reads_it(items: list[LockedPackage], head: list[str]) -> None:
    text = explicit_txt.render(solution(*items), head=tuple(head))
    if items:
        assert told(explicit_txt.parse(text, "x").packages) == told(items)
        assert explicit_txt.render(explicit_txt.parse(text, "x"), head=tuple(head)) == text
    found = ExplicitEnvironmentSpec.from_str(text).packages
    assert {entry.url.partition("#")[0] for entry in found} == {item.url for item in items}


# conda-lock.yml: py-rattler's reader beside conda-lock's own, which test_conda_lock_v1 asks


@examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(some.filter(bool))
def test_rattler_reads_a_conda_lock_file(tmp_path: Path, items: list[LockedPackage]) -> None:
    lock = Lock(channels=CHANNELS, sources=("environment.yml",), solutions=(solution(*items),))
    path = tmp_path / "conda-lock.yml"
    path.write_text(conda_lock_v1.render(lock, SPEC), encoding="utf-8")
    ((_, environment),) = LockFile.from_path(path).environments()
    (platform,) = environment.platforms()
    found = {}
    for item in environment.packages(platform) or ():
        assert isinstance(item, CondaLockedPackage)
        hashes_of = item.hashes
        assert hashes_of is not None
        found[item.name] = (item.version, item.location, hashes_of.sha256, hashes_of.md5)
    assert found == {
        item.name: (Version(item.version), item.url, bytes.fromhex(item.sha256 or ""), bytes.fromhex(item.md5 or ""))
        for item in items
    }


# profiles

words = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=12).filter(
    lambda text: text.isprintable() and text == text.strip()
)
wishes = st.none() | st.sampled_from(["2.5", "3.10", "==2.5.1", ">=2.4,<2.6", "1"]).map(
    lambda text: parse_version_spec(text, what="x")
)
profiles = st.builds(
    Request,
    name=words.filter(bool),
    story=words,
    stack=st.none() | st.sampled_from(["conda-forge", "pytorch"]),
    pytorch=wishes,
    cuda=wishes,
    python=wishes,
    gpus=st.lists(words.filter(bool), min_size=1, max_size=3).map(tuple),
    lowest_driver=st.none() | st.sampled_from(["535.129.03", "570"]),
    dev=st.booleans(),
    packages=st.lists(words.filter(bool), max_size=2).map(tuple),
    pip=st.lists(words.filter(bool), max_size=2).map(tuple),
    prefer=st.sampled_from(["newest", "native"]),
    offload=st.sampled_from(["cpu", "none"]),
    host_memory_gb=st.integers(0, 4096),
    disk_gb=st.integers(0, 4096),
)


def plain(profile: Request) -> dict[str, Any]:
    keys = {"packages": "with"}
    return {
        keys.get(key, key): str(value)
        if isinstance(value, VersionSpec)
        else list(value)
        if isinstance(value, tuple)
        else value
        for key in (item.name for item in fields(Request))
        if key != "cpu" and ((value := getattr(profile, key)) not in ("", None))
    } | {"name": profile.name, "story": profile.story}


@given(profiles)
def test_a_profile_comes_back(profile: Request) -> None:
    text = profile_yml.render(plain(profile))
    again = parse({"story": "", **load(text, "p.yml")}, "p.yml")
    assert again == profile
    assert profile_yml.render(plain(again)) == text


@given(words.filter(bool))
def test_the_template_of_a_profile_is_one(name: str) -> None:
    assert parse(load(profile_yml.template(name), "p.yml"), "p.yml").name == name


# differences of locks


def lock(items: list[LockedPackage]) -> Lock:
    return Lock(channels=CHANNELS, sources=(), solutions=(solution(*items),))


def between(old: list[LockedPackage], new: list[LockedPackage]) -> LockDiff:
    return diff(lock(old), lock(new), [shipped("rtx4090-535")], base())


@examples(25)
@given(some, some, st.data())
def test_a_difference_is_what_was_changed_and_mirrors(
    one: list[LockedPackage], two: list[LockedPackage], data: st.DataObject
) -> None:
    shared = data.draw(st.lists(st.sampled_from(one), unique_by=id)) if one else []
    both = {item.name: item for item in [*two, *shared]}
    new = list(both.values())
    there, back = between(one, new), between(new, one)
    had, has = ({item.name: item for item in items} for items in (one, new))
    kinds = {item.name: item.kind for item in there.changes}
    assert {name for name, kind in kinds.items() if kind == "added"} == has.keys() - had.keys()
    assert {name for name, kind in kinds.items() if kind == "removed"} == had.keys() - has.keys()
    assert {name for name, kind in kinds.items() if kind == "changed"} == {
        name for name in had.keys() & has.keys() if told([had[name]]) != told([has[name]])
    }
    mirror = {"added": "removed", "removed": "added", "changed": "changed"}
    assert {item.name: mirror[item.kind] for item in back.changes} == kinds
    assert there.equal == back.equal == (not kinds)
    assert [(item.capability, item.new, item.old) for item in back.services] == [
        (item.capability, item.old, item.new) for item in there.services
    ]
    made = lock_diff_v1.plain(there, "a", "b")
    assert json.loads(json.dumps(made)) == made
    assert between(one, one).equal
