"""Hostile archives: packages and bundles with names, links and devices that lead out are refused, and write nothing."""

from __future__ import annotations

import asyncio
import bz2
import hashlib
import io
import resource
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import collect
from channel_builder import pkg, write
from cuenv.core.errors import HashError, InputError, OutsideError
from cuenv.demo.io.sample import archive
from cuenv.install.io import archives
from cuenv.install.io.archives import inspect, most_unpacked, read_index
from cuenv.install.io.bundles import opened
from given import package as locked
from hostile_packages import Evil, bomb, listed
from hostile_packages import archive as hostile_archive

Change = Callable[[tarfile.TarInfo], bytes]


def named(name: str) -> Change:
    def change(member: tarfile.TarInfo) -> bytes:
        member.name = name
        return b"evil"

    return change


def kind(type_: bytes, target: str = "") -> Change:
    def change(member: tarfile.TarInfo) -> bytes:
        member.type, member.linkname, member.devmajor, member.devminor = type_, target, 1, 3
        return b""

    return change


HOSTILE = {
    "a name above": named("../../evil"),
    "a name inside and above": named("lib/../../../evil"),
    "an absolute name": named("/tmp/cuenv-evil"),
    "a link above": kind(tarfile.SYMTYPE, "../../../etc/passwd"),
    "an absolute link": kind(tarfile.SYMTYPE, "/etc/passwd"),
    "an empty link": kind(tarfile.SYMTYPE, ""),
    "a hard link above": kind(tarfile.LNKTYPE, "../../etc/hostname"),
    "an absolute hard link": kind(tarfile.LNKTYPE, "/etc/hostname"),
    "a device": kind(tarfile.CHRTYPE),
    "a block device": kind(tarfile.BLKTYPE),
    "a pipe": kind(tarfile.FIFOTYPE),
}


def with_entry(data: bytes, change: Change, name: str = "evil") -> bytes:
    """A tar with one more entry."""
    out = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(data)) as old, tarfile.open(fileobj=out, mode="w") as new:
        for member in old:
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
        entry = tarfile.TarInfo(name)
        body = change(entry)
        entry.size = len(body)
        new.addfile(entry, io.BytesIO(body))
    return out.getvalue()


def good() -> bytes:
    files = {"bin/tool": "#!/bin/sh\n", "lib/a/b": "x"}
    return bz2.decompress(archive(pkg("a", depends=("b >=1",), constrains=("c <2",), files=files)))


@collect("name", HOSTILE)
def test_a_hostile_package_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "in" / "a-1.0-0.tar.bz2"
    path.parent.mkdir()
    path.write_bytes(bz2.compress(with_entry(good(), HOSTILE[name])))
    with pytest.raises(InputError, match=r"a-1\.0-0\.tar\.bz2 is refused: "):
        inspect([path])
    assert [item.name for item in tmp_path.iterdir()] == ["in"]


@collect("data", [b"", b"no archive", bz2.compress(b"no tar" * 200), bz2.compress(good())[:-30]])
def test_what_is_not_a_package_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a-1.0-0.tar.bz2"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"a-1\.0-0\.tar\.bz2 is refused"):
        inspect([path])
    with pytest.raises(InputError, match=r"a-1\.0-0\.tar\.bz2 is not a package"):
        read_index(path)


@collect("kind", [tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_an_archive_that_takes_all_memory_or_disk_is_refused(tmp_path: Path, kind: bytes) -> None:
    """Some kilobytes that unpack to 3 GB, as a file, or as the name of one, which readers take into memory."""
    path = tmp_path / "evil-1.0-0.conda"
    path.write_bytes(bomb(Evil(form=".conda", announced=listed("share/zeros")), 3 << 30, kind))
    assert path.stat().st_size < 200_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError, match=r"evil-1\.0-0\.conda is refused: it unpacks to more than 1\.1 GB"):
        inspect([path])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000


def test_what_an_archive_unpacks_to_at_most(tmp_path: Path) -> None:
    path = tmp_path / "evil-1.0-0.conda"
    package = Evil([("a", b"x" * 300_000)], listed("a"), form=".conda")
    path.write_bytes(hostile_archive(package))
    assert 300_000 < most_unpacked(path) < 400_000
    inspect([path])
    path.write_bytes(bomb(package, 1 << 20))
    assert 1 << 20 < most_unpacked(path) < (1 << 20) + 400_000
    for data in (b"", b"x" * 100, hostile_archive(package)[:-10]):
        path.write_bytes(data)
        assert most_unpacked(path) == 0


@given(st.integers(0, 2000), st.binary(max_size=8))
def test_any_bytes_have_a_bound(start: int, noise: bytes) -> None:
    data = hostile_archive(Evil([("a", b"x")], listed("a"), form=".conda"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.conda"
        path.write_bytes(data[:start] + noise + data[start + len(noise) :])
        assert most_unpacked(path) >= 0


def test_a_refusal_waits_for_the_readings_that_began_and_begins_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rattler writes a traceback to standard error when it answers a loop that is closed."""
    paths = [tmp_path / f"{number}.conda" for number in range(9)]
    for path in paths:
        path.write_bytes(hostile_archive(Evil(form=".conda")))
    begun, ended = [], []

    async def read(path: Path, limit: int) -> None:
        begun.append(path)
        await asyncio.sleep(0 if path == paths[1] else 0.02)
        ended.append(path)
        raise InputError(path.name, hint="")

    monkeypatch.setattr(archives, "_read", read)
    with pytest.raises(InputError, match=r"1\.conda"):
        inspect(paths)
    assert sorted(ended) == begun == paths[:4]


def test_links_and_folders_that_stay_inside_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "a-1.0-0.tar.bz2"
    data = with_entry(good(), kind(tarfile.DIRTYPE), "share")
    data = with_entry(data, kind(tarfile.SYMTYPE, "../lib/a/b"), "bin/link")
    path.write_bytes(bz2.compress(with_entry(data, kind(tarfile.LNKTYPE, "lib/a/b"), "bin/hard")))
    inspect([path])


def test_the_index_of_a_package_as_a_channel_has_it(tmp_path: Path) -> None:
    package = pkg("a", "1.0a", "py_0", depends=("b >=1",), constrains=("c <2",), subdir="noarch", noarch="python")
    write(tmp_path, {"conda-forge": [package]})
    assert read_index(tmp_path / "conda-forge" / "noarch" / "a-1.0a-py_0.tar.bz2") == package.index()


def bundle(folder: Path, change: Change | None = None, name: str = "cuenv-bundle/evil") -> Path:
    """The smallest thing that has the form of a bundle."""
    content = b"hello\n"
    sums = f"{hashlib.sha256(content).hexdigest()}  channel/x/linux-64/a.txt\n".encode()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        top = tarfile.TarInfo("cuenv-bundle")
        top.type = tarfile.DIRTYPE
        tar.addfile(top)
        for place, data in (("SHA256SUMS", sums), ("channel/x/linux-64/a.txt", content)):
            entry = tarfile.TarInfo(f"cuenv-bundle/{place}")
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    path = folder / "in" / "b.tar"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(with_entry(out.getvalue(), change, name) if change else out.getvalue())
    return path


def test_a_good_bundle_is_unpacked_and_cleared_away(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    (scratch / "left by a killed run").touch()
    with opened(bundle(tmp_path), scratch) as folder:
        assert sorted(item.name for item in folder.iterdir()) == ["SHA256SUMS", "channel"]
    assert not scratch.exists()


@collect("name", [*HOSTILE, "another top", "a hidden file", "a name twice", "a sparse file"])
def test_a_hostile_bundle_is_refused(name: str, tmp_path: Path) -> None:
    more = {
        "another top": named("other/file"),
        "a hidden file": named("cuenv-bundle/.profile"),
        "a name twice": named("cuenv-bundle/SHA256SUMS"),
        "a sparse file": kind(tarfile.GNUTYPE_SPARSE),
        "a name above": named("cuenv-bundle/../../evil"),
        "a name inside and above": named("cuenv-bundle/lib/../../evil"),
    }
    path = bundle(tmp_path, more.get(name) or HOSTILE[name])
    with pytest.raises(InputError, match=r"b\.tar is (refused|no whole tar)"), opened(path, tmp_path / "scratch"):
        raise AssertionError("it was opened")
    assert [item.name for item in tmp_path.iterdir()] == ["in"]


def test_every_changed_byte_is_found_or_harmless(tmp_path: Path) -> None:
    """Beside the two files a tar holds their names and sizes; a changed byte there is an error or changes nothing."""
    path = bundle(tmp_path)
    data = path.read_bytes()
    found = 0
    for place in range(0, 4096, 41):
        path.write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
        try:
            with opened(path, tmp_path / "scratch") as folder:
                assert (folder / "channel/x/linux-64/a.txt").read_bytes() == b"hello\n"
        except (InputError, HashError):
            found += 1
        assert not (tmp_path / "scratch").exists()
    assert found > 20


def test_a_changed_file_is_named(tmp_path: Path) -> None:
    path = bundle(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"hello", b"hallo"))
    with pytest.raises(HashError, match=r"channel/x/linux-64/a\.txt was changed"), opened(path, tmp_path / "scratch"):
        raise AssertionError("it was opened")


@collect("size", [0, 10, 600, 1500, 2048])
def test_a_truncated_bundle_is_refused(tmp_path: Path, size: int) -> None:
    path = bundle(tmp_path)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises((InputError, HashError)), opened(path, tmp_path / "scratch"):
        raise AssertionError("it was opened")
    assert not (tmp_path / "scratch").exists()


def test_no_place_to_unpack(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutsideError, match="not a folder"), opened(bundle(tmp_path), tmp_path / "file" / "scratch"):
        raise AssertionError("it was opened")


def test_a_link_as_scratch_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    (tmp_path / "scratch").symlink_to(tmp_path / "mine")
    with opened(bundle(tmp_path), tmp_path / "scratch"):
        assert (tmp_path / "mine" / "thesis.tex").exists()
    assert (tmp_path / "mine" / "thesis.tex").exists()


def test_what_packages_say_of_themselves_is_checked(tmp_path: Path) -> None:
    from cuenv.install.make_bundle import _record

    path = tmp_path / "a-1-0.tar.bz2"
    path.write_bytes(archive(pkg("a", "1", "0", depends=("b",))))
    index = read_index(path)
    assert _record(locked("a", "1"), path, index)["depends"] == ["b"]
    assert _record(replace(locked("a", "1"), depends=("b <2",)), path, index)["depends"] == ["b <2"]
    with pytest.raises(InputError, match=r"a-1-0\.tar\.bz2 holds a 1 0, the lock says a 2 0"):
        _record(replace(locked("a", "1"), version="2"), path, index)
