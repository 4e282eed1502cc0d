"""Two locks side by side: what changed, the core first; what it means for hosts; JSON, Markdown, lines, exit codes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from cases import collect
from commands import inside as run
from cuenv.lockfile.diff import LockDiff, diff, is_core, lines_of, markdown, plain
from cuenv.solve.model import Lock, LockedPackage, PipLocked
from given import base, machine, package, shipped, solution

ROOT = Path(__file__).resolve().parents[2]
COMMITTED = ROOT / "locks" / "universal-dev" / "conda-lock.yml"
OLD = (
    package("pytorch", "2.7.1", "cuda126_py312h_0"),
    package("cuda-version", "12.6", "h_0"),
    package("libcudnn", "9.10.1.4", "h_0"),
    package("numpy", "2.2.0", "py312_0"),
    package("attrs", "25.1", "py_0"),
)
NEW = (
    package("pytorch", "2.12.0", "cuda129_py312h_0"),
    package("cuda-version", "12.9", "h_0"),
    package("libcudnn", "9.11.0.1", "h_0"),
    package("numpy", "2.2.0", "py312_1"),
    package("zlib", "1.3", "h_0"),
)


def lock(*packages: LockedPackage, platform: str = "linux-64", pip: tuple[PipLocked, ...] = ()) -> Lock:
    made = replace(solution(*packages, platform=platform), pip=pip)
    return Lock(channels=("conda-forge",), sources=("environment.yml",), solutions=(made,))


def deepspeed(version: str) -> PipLocked:
    return PipLocked(
        name="deepspeed", version=version, url=f"https://example.org/deepspeed-{version}.tar.gz", sha256="0" * 64
    )


def compared(old: Iterable[LockedPackage], new: Iterable[LockedPackage], *hosts: str) -> LockDiff:
    return diff(lock(*old), lock(*new), [shipped(name) for name in hosts], base())


def test_changes_are_grouped_the_core_first() -> None:
    found = compared(OLD, NEW).changes
    assert [(item.core, item.kind, item.name) for item in found] == [
        (True, "changed", "cuda-version"),
        (True, "changed", "libcudnn"),
        (True, "changed", "pytorch"),
        (False, "removed", "attrs"),
        (False, "changed", "numpy"),
        (False, "added", "zlib"),
    ]
    assert {item.name: item.what for item in found if item.kind == "changed"} == {
        "cuda-version": ("version",),
        "libcudnn": ("version",),
        "pytorch": ("version", "build"),
        "numpy": ("build",),
    }


def test_equal_locks_are_equal() -> None:
    same = compared(OLD, reversed(OLD), "rtx4090-535")
    assert same.equal
    assert same.services == ()
    assert all(effect.same for effect in same.hosts)
    assert lines_of(same, "a", "b")[0] == "a -> b: equal"


def test_another_channel_and_another_hash_are_changes() -> None:
    elsewhere = package("numpy", "2.2.0", "py312_0", channel="pytorch")
    rebuilt = package("numpy", "2.2.0", "py312_0", sha256="0" * 64)
    for other, what, shown in ((elsewhere, ("channel",), "from pytorch"), (rebuilt, ("hash",), "sha256 000000000000")):
        found = compared([OLD[3]], [other])
        assert [item.what for item in found.changes] == [what]
        assert not found.equal
        assert any(shown in line for line in lines_of(found, "a", "b"))


def test_a_lock_with_one_kind_of_hash_is_compared_by_that() -> None:
    explicit = package("numpy", "2.2.0", "py312_0", sha256=None)
    assert compared([OLD[3]], [explicit]).equal


def test_the_meaning_for_gpus_is_that_of_the_rules() -> None:
    services = {str(item.capability): (item.old, item.new) for item in compared(OLD, NEW).services}
    assert services["7.0"] == ("native", "no")  # cuDNN 9.11 dropped it
    assert "8.0" not in services


def test_findings_appear_and_vanish_for_a_host() -> None:
    host = machine("7.0", driver="535.129.03")
    there = diff(lock(*OLD), lock(*NEW), [host], base()).hosts[0]
    assert [item.code for item in there.appear] == ["CU405"]
    assert there.vanish == ()
    back = diff(lock(*NEW), lock(*OLD), [host], base()).hosts[0]
    assert ([item.code for item in back.vanish], back.appear) == (["CU405"], ())


def test_the_minimum_driver_is_told() -> None:
    thirteen = (package("pytorch", "2.12.1", "cuda130_py312h_0"), package("cuda-version", "13.0", "h_0"))
    effect = compared(OLD, thirteen, "rtx4090-535").hosts[0]
    assert effect.minimum_driver == ("525.60.13", "580.65.06")
    assert "CU401" in {item.code for item in effect.appear}
    text = "\n".join(lines_of(compared(OLD, thirteen, "rtx4090-535"), "a", "b"))
    assert "minimum driver: 525.60.13 before, 580.65.06 after" in text
    assert "now     error CU401" in text


def test_another_file_for_pip_is_no_equal_lock() -> None:
    one = lock(*OLD, pip=(deepspeed("0.15.0"),))
    other = lock(*OLD, pip=(replace(deepspeed("0.15.0"), sha256="f" * 64),))
    found = diff(one, other, (), base())
    assert not found.equal
    assert found.pip_added == ("deepspeed==0.15.0 (sha256 ffffffffffff)",)
    assert found.pip_removed == ("deepspeed==0.15.0 (sha256 000000000000)",)
    silent = lock(*OLD, pip=(replace(deepspeed("0.15.0"), sha256=None),))
    assert diff(one, silent, (), base()).equal
    assert diff(one, one, (), base()).equal


def test_platforms_and_the_pip_part_count() -> None:
    one = lock(*OLD, pip=(deepspeed("0.15.0"),))
    two = Lock(
        channels=one.channels,
        sources=one.sources,
        solutions=(
            replace(one.solutions[0], pip=(deepspeed("0.16.0"),)),
            solution(platform="linux-aarch64"),
        ),
    )
    found = diff(one, two, (), base())
    assert not found.equal
    assert (found.platforms_added, found.platforms_removed) == (("linux-aarch64",), ())
    assert (found.pip_added, found.pip_removed) == (("deepspeed==0.16.0",), ("deepspeed==0.15.0",))
    text = "\n".join(lines_of(found, "a", "b"))
    assert "+ platform linux-aarch64" in text
    assert "+ deepspeed==0.16.0" in text
    assert "| pip |  | deepspeed==0.16.0 |" in markdown(found, "a", "b")


def test_a_diff_turned_round_swaps_both_sides() -> None:
    there, back = compared(OLD, NEW), compared(NEW, OLD)
    swap = {"added": "removed", "removed": "added", "changed": "changed"}
    assert {(item.name, swap[item.kind], item.old, item.new) for item in there.changes} == {
        (item.name, item.kind, item.new, item.old) for item in back.changes
    }
    assert [(item.capability, item.old, item.new) for item in there.services] == [
        (item.capability, item.new, item.old) for item in back.services
    ]


def test_the_three_forms_hold_the_same() -> None:
    found = compared(OLD, NEW, "rtx4090-535")
    data = json.loads(json.dumps(plain(found, "a", "b")))
    assert data["schema"] == "cuenv/diff/1"
    assert (data["old"], data["new"], data["equal"]) == ("a", "b", False)
    text, table = "\n".join(lines_of(found, "a", "b")), markdown(found, "a", "b")
    for change in found.changes:
        assert change.name in {item["name"] for item in data["changes"]}
        assert change.name in text
        assert f"| {change.name} |" in table
    assert "### `a` → `b`: 4 changed, 1 added, 1 removed" in table
    assert "| pytorch | 2.7.1 cuda126_py312h_0 | 2.12.0 cuda129_py312h_0 |" in table
    assert table.index("CUDA core") < table.index("Other packages")


def test_names_and_hosts_mean_nothing_but_themselves_in_a_table() -> None:
    host = replace(shipped("rtx4090-535"), label="@team *a* <b> _c_")
    hostile = package("x<img|src=x>", "*1*", "py_0")
    table = markdown(diff(lock(*OLD), lock(*OLD, hostile), [host], base()), "a", "b")
    assert "| x\\<img\\|src=x\\> |  | \\*1\\* py_0 |" in table
    assert "\\@team \\*a\\* \\<b\\> \\_c\\_" in table


@collect("name", ["python", "pytorch", "libtorch", "libcudnn", "nccl", "cuda-nvcc", "pytorch-cuda"])
def test_the_core_is_what_the_one_channel_law_binds_with_torch_and_python(name: str) -> None:
    assert is_core(package(name), base())


@collect("name", ["numpy", "ninja", "libstdcxx", "gxx_linux-64", "zlib"])
def test_the_rest_is_no_core(name: str) -> None:
    assert not is_core(package(name), base())


def test_the_command_says_with_its_exit_code_whether_they_differ(tmp_path: Path) -> None:
    for side in ("old", "new"):
        shutil.copytree(COMMITTED.parent, tmp_path / side)
    same = run("diff", "old", "new", folder=tmp_path)
    assert (same.returncode, same.stderr) == (0, "")
    assert "equal" in same.stdout
    changed = COMMITTED.read_text().replace("numpy-2.5.2-", "numpy-2.5.1-")
    start = changed.index('- name: "numpy"')
    changed = changed[:start] + changed[start:].replace('version: "2.5.2"', 'version: "2.5.1"', 1)
    (tmp_path / "new" / "conda-lock.yml").write_text(changed)
    differ = run("diff", "old", "new/conda-lock.yml", "--json", folder=tmp_path)
    assert differ.returncode == 1, differ.stderr
    data = json.loads(differ.stdout)
    assert [(item["name"], item["old"]["version"], item["new"]["version"]) for item in data["changes"]] == [
        ("numpy", "2.5.2", "2.5.1")
    ]
    assert data["hosts"][0]["host"].startswith("the host it was made for")
    table = run(
        "diff", "old", "new", "--format", "markdown", "--gpu", "V100", "--driver", "470.129.06", folder=tmp_path
    )
    assert table.returncode == 1
    assert "| numpy | 2.5.2 | 2.5.1 |" in table.stdout
    assert "V100" in table.stdout


def test_an_explicit_lock_is_equal_to_the_one_it_was_written_with(tmp_path: Path) -> None:
    explicit = COMMITTED.parent / "conda-linux-64.lock"
    done = run("diff", COMMITTED, explicit, "--json", folder=tmp_path)
    assert done.returncode == 0, done.stdout
    assert json.loads(done.stdout)["changes"] == []


def test_what_is_no_lock_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "bad.yml").write_text("a: [")
    assert run("diff", COMMITTED, "nowhere", folder=tmp_path).returncode == 3
    assert run("diff", "bad.yml", COMMITTED, folder=tmp_path).returncode == 3
    assert run("diff", COMMITTED, folder=tmp_path).returncode == 2
