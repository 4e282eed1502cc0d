"""Packages of an enemy are really installed: nothing outside of the environment changes, and nothing panics."""

from __future__ import annotations

import hashlib
import os
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import collect
from commands import run
from cuenv.install.placing import Contents, Member, command_of, environment_problem, package_problem
from cuenv.lockfile.formats import explicit_txt
from cuenv.solve.model import Solution
from hostile_packages import BODY, CHANNEL, Evil, listed, locked
from thorough import examples

CONFLICT = "failed to remove file"
"""How rattler ends now and then where one package brings a link and another one a folder of the same name."""
FORMS = (".tar.bz2", ".conda")
PYTHON = Evil(
    name="python", version="3.11.0", members=[("bin/python3.11", b"#!/bin/sh\n")], announced=listed("bin/python3.11")
)


def state(folder: Path) -> dict[str, tuple[object, ...]]:
    """Everything below a folder, with its content."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(folder.rglob("*")):
        what = path.lstat()
        body = path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else ""
        found[str(path.relative_to(folder))] = (what.st_mode, body)
    return found


def attempt(root: Path, packages: Sequence[Evil]) -> tuple[int, str, Path]:
    """Install packages below a tree of the user's; code and words. What lies outside of the prefix must stay as it is.

    The environment is ``home/envs/deep/env``: enough folders above it are watched for a path to climb into.
    """
    home, channel = root / "home", root / "channel"
    prefix = home / "envs" / "deep" / "env"
    prefix.parent.mkdir(parents=True)
    for place in (home, home / "envs", home / "envs" / "deep", root):
        for name in (".bashrc", "a", "b"):
            (place / name).write_text("of the user\n")
    (home / "work").mkdir()
    solution = Solution(
        platform="linux-64",
        packages=tuple(locked(item, channel) for item in packages),
        virtual_packages=(),
        solver="test",
    )
    lock = home / "work" / "conda-linux-64.lock"
    lock.write_text(explicit_txt.render(solution, head=()))
    before = state(root)
    done = run(
        "install",
        lock,
        "--prefix",
        prefix,
        "--mirror",
        f"{CHANNEL}={channel}",
        folder=home,
        CUENV_CACHE_DIR=str(root / "cache"),
    )
    inside, cache = str(prefix.relative_to(root)), "cache"
    after = {
        place: what for place, what in state(root).items() if not (f"{place}/").startswith((f"{inside}/", f"{cache}/"))
    }
    assert after == before, (done.returncode, done.stderr)
    assert "panicked" not in done.stderr, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    if done.returncode:
        assert not prefix.exists()
    else:
        real = os.path.realpath(prefix)
        out = [path for path in prefix.rglob("*") if not f"{as_the_kernel(path) or real}/".startswith(f"{real}/")]
        assert out == []
    return done.returncode, done.stderr, prefix


UP = "s/../../../.bashrc"
"""A path that leads to a member of the package where ``s`` is a link, and out of an environment where it is none."""
DEEP: list[tuple[str, bytes | str | None]] = [("p/q/r/t/x", b"x"), ("p/.bashrc", BODY), ("s", "p/q/r/t")]
KEPT: list[tuple[str, bytes | str | None]] = [("d/keep", BODY), ("d/l", "..")]

ALONE: dict[str, tuple[Evil, str]] = {
    "a path over a link": (Evil(DEEP, listed(UP)), "not a path inside"),
    "an old list over a link": (Evil(DEEP, None, {"files": f"{UP}\n".encode()}), "not a path inside"),
    "a file of another package of the cache": (Evil([("a", BODY)], listed("../other-1.0-0/a")), "not a path inside"),
    "an absolute path": (Evil([("a", BODY)], listed("/etc/hostname")), "not a path inside"),
    "an absolute folder": (Evil([("a", BODY)], [("a", "hardlink"), ("/a/b", "directory")]), "not a path inside"),
    "a folder above": (Evil([("a", BODY)], [("a", "hardlink"), ("../up", "directory")]), "not a path inside"),
    "a path with two spellings": (Evil([("a/b", BODY)], listed("a//b")), "not a path inside"),
    "no path": (Evil([("a", BODY)], listed("")), "not a path inside"),
    "what does not exist": (Evil([("a", BODY)], listed("b")), "does not contain it"),
    "a link that is a file": (Evil([("a", BODY)], listed("a", kind="softlink")), "is a file in it"),
    "a link over a link": (Evil([*KEPT, ("esc", "d/l/..")], listed("d/keep")), "outside the environment"),
    "a link over a deep link": (
        Evil([("d/e/f/keep", BODY), ("d/e/f/l", "../../.."), ("esc", "d/e/f/l/../../..")], listed("d/e/f/keep")),
        "outside the environment",
    ),
    "a member behind a link": (Evil([("d/x", BODY), ("l", "d"), ("l/y", BODY)], listed("l/y")), "behind a link"),
    "a place in has_prefix": (
        Evil([("a", BODY)], None, {"files": b"a\n", "has_prefix": b'/opt/placeholder text "s/../../b"\n'}),
        "not a path inside",
    ),
    "a path in no_link": (Evil([("a", BODY)], None, {"files": b"a\n", "no_link": b"../a\n"}), "not a path inside"),
    "a link in the place of paths.json": (
        Evil([*DEEP, ("info/paths.json", "../p/other.json")], None, {"files": b""}),
        "is not a file",
    ),
    "a second paths.json": (Evil([("a", BODY), ("info/paths.json", b"{}")], listed("a")), "twice"),
    "no word on what is linked": (Evil([("a", BODY)], None), "it does not list its files"),
    "no JSON": (Evil([("a", BODY)], None, {"paths.json": b"{not json"}), "is refused"),
    "deep JSON": (Evil([("a", BODY)], None, {"paths.json": b"[" * 100_000}), "is refused"),
    "a file and a folder of one name": (Evil([("a", BODY), ("a/b", BODY)], listed("a", "a/b")), "is refused"),
    "a hard link to a link": (Evil([("d/l", ".."), ("h", "=d/l")], listed("h")), "outside the environment"),
    "notes of the installer": (
        Evil([("conda-meta/history", BODY)], listed("conda-meta/history")),
        "installers write themselves",
    ),
    "a record of another package": (
        Evil([("conda-meta/x-1-0.json", b"{}")], listed("conda-meta/x-1-0.json")),
        "installers write themselves",
    ),
    "conda-meta is a link": (
        Evil([("share/x", BODY), ("conda-meta", "share")], [("conda-meta", "softlink")]),
        "installers write themselves",
    ),
    "the marker of an unfinished environment": (
        Evil([(".cuenv-unfinished", "share")], listed(".cuenv-unfinished", kind="softlink")),
        "installers write themselves",
    ),
}


@collect(("name", "form"), [(name, form) for name in ALONE for form in FORMS], one_in=len(FORMS) + 1)
def test_a_package_that_leads_out_is_refused_by_name(name: str, form: str, tmp_path: Path) -> None:
    package, said = ALONE[name]
    code, told, _ = attempt(tmp_path, [replace(package, form=form)])
    assert code == 3, told
    assert f"evil-1.0-0{form} is refused: " in told
    assert said in told


def test_a_bundle_brings_no_such_package_and_none_is_taken_from_one(tmp_path: Path) -> None:
    package, said = ALONE["a path over a link"]
    home, channel = tmp_path / "home", tmp_path / "channel"
    home.mkdir()
    (home / ".bashrc").write_text("of the user\n")
    solution = Solution(platform="linux-64", packages=(locked(package, channel),), virtual_packages=(), solver="test")
    lock = home / "conda-linux-64.lock"
    lock.write_text(explicit_txt.render(solution, head=()))
    done = run("bundle", lock, "-o", "b.tar", "--mirror", f"{CHANNEL}={channel}", folder=home)
    assert done.returncode == 3
    assert said in done.stderr
    assert not (home / "b.tar").exists()
    bundle, name = home / "b", package.file_name
    (bundle / "channel/conda-forge/linux-64").mkdir(parents=True)
    (bundle / "channel/conda-forge/linux-64" / name).write_bytes((channel / "linux-64" / name).read_bytes())
    (bundle / lock.name).write_text(lock.read_text())
    sums = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(bundle.rglob("*")) if path.is_file()}
    (bundle / "SHA256SUMS").write_text("".join(f"{sum_}  {path.relative_to(bundle)}\n" for path, sum_ in sums.items()))
    with tarfile.open(home / "made.tar", "w") as tar:
        tar.add(bundle, "cuenv-bundle")
    for source in ("b", "made.tar"):
        done = run("install", source, "--prefix", "envs/deep/env", folder=home)
        assert done.returncode == 3
        assert f"{name} is refused" in done.stderr
        assert said in done.stderr
        assert not (home / "envs/deep/env").exists()
    assert (home / ".bashrc").read_text() == "of the user\n"


POINTS = [
    "../../up = os:getcwd",
    "/tmp/up = os:getcwd",
    "tool = os; import evil:getcwd",
    "tool = os:a b",
    "= os:getcwd",
    ".. = a:b",
]


@pytest.mark.parametrize("text", POINTS)
def test_an_entry_point_that_is_invalid_is_refused(text: str, tmp_path: Path) -> None:
    link = f'{{"noarch": {{"type": "python", "entry_points": ["{text}"]}}, "package_metadata_version": 1}}'
    package = Evil(
        [("site-packages/x.py", b"1\n")], listed("site-packages/x.py"), {"link.json": link.encode()}, "python"
    )
    code, told, _ = attempt(tmp_path, [package, PYTHON])
    assert code == 3, told
    assert "entry point" in told


def test_a_package_for_every_python_is_installed_as_announced(tmp_path: Path) -> None:
    link = b'{"noarch": {"type": "python", "entry_points": ["tool = x:main"]}, "package_metadata_version": 1}'
    members = [("site-packages/x.py", b"def main(): ...\n"), ("python-scripts/run", b"#!/bin/sh\n")]
    package = Evil(members, listed("site-packages/x.py", "python-scripts/run"), {"link.json": link}, "python")
    code, told, prefix = attempt(tmp_path, [package, PYTHON])
    assert code == 0, told
    assert {path.name for path in (prefix / "bin").iterdir()} == {"python3.11", "run", "tool"}
    assert (prefix / "lib/python3.11/site-packages/x.py").is_file()


def test_two_packages_lead_out_together(tmp_path: Path) -> None:
    first = Evil([("d/l", ".."), ("d/keep", BODY)], [("d/l", "softlink"), ("d/keep", "hardlink")], name="first")
    second = Evil([("d/l/x", BODY), ("esc", "d/l/..")], [("d/l/x", "hardlink"), ("esc", "softlink")])
    code, told, _ = attempt(tmp_path, [first, second])
    assert code == 3, told
    assert "evil-1.0-0.tar.bz2 is refused: 'esc' links to 'd/l/..', outside the environment" in told
    third = Evil([("d/l/history", BODY)], listed("d/l/history"))
    link = Evil([("d/l", "../conda-meta")], [("d/l", "softlink")], name="first")
    code, told, _ = attempt(tmp_path / "again", [link, third])
    assert code == 3, told
    assert "through a link of another package" in told


def test_what_real_packages_do_is_installed(tmp_path: Path) -> None:
    """Links up and down inside, and a file that two packages bring."""
    first = Evil(
        [("x/lib64/libc.so.6", BODY), ("share/same", b"one\n"), ("lib/a.so", "../x/lib64/libc.so.6")],
        [*listed("x/lib64/libc.so.6", "share/same"), ("lib/a.so", "softlink")],
        name="first",
    )
    second = Evil([("share/same", b"two\n")], listed("share/same"), name="second")
    code, told, prefix = attempt(tmp_path, [first, second])
    assert code == 0, told
    assert (prefix / "lib/a.so").read_bytes() == BODY
    assert (prefix / "share/same").is_file()


def test_a_path_through_a_link_of_another_package_stays_inside(tmp_path: Path) -> None:
    """As sysroots and compilers have it: the link gives way to a folder, or rattler ends in a conflict."""
    sysroot = Evil(
        [("x/lib64/libc.so.6", BODY), ("x/lib", "lib64")],
        [("x/lib64/libc.so.6", "hardlink"), ("x/lib", "softlink")],
        name="sysroot",
    )
    gcc = Evil([("x/lib/libgomp.so", BODY)], listed("x/lib/libgomp.so"), name="gcc")
    code, told, prefix = attempt(tmp_path, [sysroot, gcc])
    assert (code == 0 and (prefix / "x/lib/libgomp.so").read_bytes() == BODY) or CONFLICT in told, told


PARTS = st.sampled_from(["a", "b", "s", "d", "l", "lib", "bin", "info", "site-packages", "conda-meta", ".bashrc"])
ODD = st.sampled_from(["..", ".", "", "..."])
PLACES = st.lists(PARTS, min_size=1, max_size=3).map("/".join)
TARGETS = st.builds(
    lambda root, parts: root + "/".join(parts), st.sampled_from(["", "", "", "/"]), st.lists(PARTS | ODD, max_size=6)
)
MEMBERS = st.lists(
    st.tuples(PLACES | TARGETS, st.just(BODY) | st.just(BODY) | TARGETS | TARGETS.map("=".__add__) | st.none()),
    max_size=6,
    unique_by=lambda item: item[0],
)
TYPES = st.sampled_from(["hardlink", "hardlink", "softlink", "directory"])


@st.composite
def evils(draw: st.DrawFn, name: str) -> Evil:
    """A package by a grammar of what leads out: links over links, climbing and absolute paths, lists that lie."""
    members = draw(MEMBERS)
    known = st.sampled_from([place for place, _ in members]) if members else PLACES
    places = st.lists(known | known | known | TARGETS | st.builds("{}/{}".format, known, TARGETS), max_size=5)
    announced = None if draw(st.integers(0, 4)) == 0 else [(place, draw(TYPES)) for place in draw(places)]
    info = {}
    if announced is None or draw(st.booleans()):
        info["files"] = "".join(f"{place}\n" for place in draw(places)).encode()
    if draw(st.integers(0, 5)) == 0:
        info["has_prefix"] = "".join(f"/opt/ph text {place}\n" for place in draw(places)).encode()
    noarch = draw(st.sampled_from(["", "", "python", "generic"]))
    if draw(st.integers(0, 3)) == 0:
        points = ", ".join(f'"{place} = a:b"' for place in draw(places))
        version = draw(st.sampled_from(["", ', "package_metadata_version": 1']))
        info["link.json"] = f'{{"noarch": {{"type": "python", "entry_points": [{points}]}}{version}}}'.encode()
    return Evil(members, announced, info, noarch, name, form=draw(st.sampled_from(FORMS)))


@examples(25, deadline=None)
@given(evils("evil"), evils("other"))
def test_nothing_outside_changes_whatever_packages_hold(first: Evil, second: Evil) -> None:
    with tempfile.TemporaryDirectory() as folder:
        code, told, _ = attempt(Path(folder), [first, second, PYTHON])
        assert code in (0, 3) or CONFLICT in told, told


def as_the_kernel(path: Path) -> str:
    """Where a path leads; empty when it leads nowhere."""
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.readlink(f"/proc/self/fd/{handle}")  # noqa: PTH115 - not the link itself, but what the kernel opened
    finally:
        os.close(handle)


LINKS = st.dictionaries(PLACES, TARGETS.filter(bool), max_size=5)


@examples(300, deadline=None)
@given(LINKS)
def test_a_link_leads_where_the_kernel_says(links: dict[str, str]) -> None:
    """What is found right is made on a disk: no link of it, followed by the kernel, leaves the root."""
    contents = Contents(
        name="x",
        members={place: Member(kind="link", target=target) for place, target in links.items()},
        announced=(),
    )
    if package_problem(contents):
        return
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "root"
        root.mkdir()
        for place, target in links.items():
            (root / place).parent.mkdir(parents=True, exist_ok=True)
            (root / place).symlink_to(target)
        for place in links:
            real = as_the_kernel(root / place)
            assert f"{real or root}/".startswith(f"{root}/"), (place, real)


@collect(
    ("place", "target", "out"),
    [
        ("lib/a.so", "a.so.1", False),
        ("lib/a.so", "../lib64/a.so", False),
        ("lib/a.so", "../../a.so", True),
        ("a", "..", True),
        ("a/b", "..", False),
        ("a", "/a", True),
        ("a", "", True),
        ("a/b/c", "x/../../../../y", True),
        ("lib/a", "../../root/lib/b", True),
        ("lib/a", "a", False),
        ("lib/a", "a/" * 300 + "..", False),
    ],
)
def test_a_link_that_leaves_the_environment_is_refused(place: str, target: str, out: bool) -> None:
    contents = Contents(name="x", members={place: Member(kind="link", target=target)}, announced=())
    assert bool(package_problem(contents)) is out
    assert bool(environment_problem([("x", contents.members)])) is out


@collect(
    ("text", "command"),
    [
        ("tool = a.b:main", "tool"),
        ("my-tool.3+x=a:B.c", "my-tool.3+x"),
        ("tool", None),
        ("tool = a", None),
        ("a/b = a:b", None),
        ("tool = a:b\nimport c", None),
    ],
)
def test_entry_points(text: str, command: str | None) -> None:
    assert command_of(text) == command
