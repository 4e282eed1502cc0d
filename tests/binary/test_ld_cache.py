"""The loader's cache: made by the machine's ldconfig, and by hand where it must be hostile."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuenv.binary.data import BinaryError
from cuenv.binary.loader import CacheEntry, chosen, parse_ld_cache
from cuenv.prefix.io.linkage_plan import loader_facts, read_cache
from linkage_trees import Linker, needs_gcc

LDCONFIG = shutil.which("ldconfig", path=f"{os.environ.get('PATH', '')}:/sbin:/usr/sbin")
needs_ldconfig = pytest.mark.skipif(LDCONFIG is None, reason="no ldconfig here")
HEADER = struct.Struct("<20sIIB3xI12x")
ENTRY = struct.Struct("<iIIIQ")


def made(rows: list[tuple[str, str, int, int]], hwcaps: tuple[str, ...] = (), *, old: bool = False) -> bytes:
    """A cache: rows of name, path, flags and hwcap. Names of subfolders stand where the loader looks for them."""
    prefix = b""
    if old:
        prefix = struct.pack("<11sxI", b"ld.so-1.7.0", 1) + struct.pack("<iII", 1, 0, 0)
        prefix += bytes(-len(prefix) % 8)
    table = HEADER.size + len(rows) * ENTRY.size
    strings, places = bytearray(), {}
    for text in (*(name for name, *_ in rows), *(path for _, path, *_ in rows), *hwcaps):
        places[text] = table + len(strings)
        strings += text.encode() + b"\0"
    strings += bytes(-len(strings) % 4)
    extension = len(prefix) + table + len(strings) if hwcaps else 0
    body = b"".join(ENTRY.pack(flags, places[name], places[path], 0, hwcap) for name, path, flags, hwcap in rows)
    tail = b""
    if hwcaps:
        tail = struct.pack("<II", 0xEAA42174, 1) + struct.pack("<IIII", 1, 0, extension + 24, 4 * len(hwcaps))
        tail += b"".join(struct.pack("<I", len(prefix) + places[name]) for name in hwcaps)
    return prefix + HEADER.pack(b"glibc-ld.so.cache1.1", len(rows), len(strings), 2, extension) + body + strings + tail


ROWS = [
    ("liba.so.1", "/lib/glibc-hwcaps/x86-64-v3/liba.so.1", 0x0303, (1 << 62) | 1),
    ("liba.so.1", "/lib/glibc-hwcaps/x86-64-v2/liba.so.1", 0x0303, (1 << 62) | 0),
    ("liba.so.1", "/lib/liba.so.1", 0x0303, 0),
    ("liba.so.1", "/lib32/liba.so.1", 0x0003, 0),
    ("libb.so.1", "/lib/haswell/libb.so.1", 0x0303, 1 << 2),
    ("libb.so.1", "/first/libb.so.1", 0x0303, 0),
    ("libb.so.1", "/second/libb.so.1", 0x0303, 0),
    ("libc.so.6", "/aarch/libc.so.6", 0x0A03, 0),
]
HWCAPS = ("x86-64-v2", "x86-64-v3")


@pytest.mark.parametrize("old", [False, True])
def test_the_best_entry_that_the_processor_can_use_is_chosen(old: bool) -> None:
    entries = parse_ld_cache(made(ROWS, HWCAPS, old=old))
    assert len(entries) == len(ROWS) - 1  # haswell is left out
    v3 = chosen(entries, "x86_64", ("x86-64-v3", "x86-64-v2"))
    assert v3 == {"liba.so.1": "/lib/glibc-hwcaps/x86-64-v3/liba.so.1", "libb.so.1": "/first/libb.so.1"}
    assert chosen(entries, "x86_64", ("x86-64-v2",))["liba.so.1"] == "/lib/glibc-hwcaps/x86-64-v2/liba.so.1"
    assert chosen(entries, "x86_64", ())["liba.so.1"] == "/lib/liba.so.1"
    assert chosen(entries, "aarch64", ()) == {"libc.so.6": "/aarch/libc.so.6"}


def test_a_pipe_in_the_place_of_a_loader_holds_nothing_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "loader")
    (tmp_path / "etc").mkdir()
    os.mkfifo(tmp_path / "etc/ld.so.cache")
    _, notes = loader_facts({}, "x86_64", interpreter="/loader", root=tmp_path)
    assert notes == ("/loader: it is not a regular file", "/etc/ld.so.cache: it is not a regular file")
    assert loader_facts({}, "x86_64", interpreter="/gone", root=tmp_path)[1][0] == "/gone: no such file"


def test_what_is_not_a_cache_is_refused() -> None:
    good = made(ROWS, HWCAPS)
    for bad in (b"", b"\0" * 100, b"ld.so-1.7.0", good[:40], good[: HEADER.size + 30], good[:-1]):
        with pytest.raises(BinaryError):
            parse_ld_cache(bad)
    hostile = bytearray(good)
    hostile[20:24] = b"\xff\xff\xff\xff"
    with pytest.raises(BinaryError, match="hostile"):
        parse_ld_cache(bytes(hostile))


@given(st.data())
def test_a_damaged_cache_is_read_or_refused(data: st.DataObject) -> None:
    good = bytearray(made(ROWS, HWCAPS))
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    try:
        entries = parse_ld_cache(bytes(good))
    except BinaryError:
        return
    assert all(isinstance(entry, CacheEntry) for entry in entries)


@needs_gcc
@needs_ldconfig
@pytest.mark.parametrize("form", ["new", "compat"])
def test_a_cache_of_the_machines_ldconfig_is_read_as_ldconfig_does(form: str, tmp_path: Path) -> None:
    linker = Linker(tmp_path)
    folders = [tmp_path / name for name in ("one", "two", "one/glibc-hwcaps/x86-64-v2", "one/glibc-hwcaps/x86-64-v3")]
    for folder in folders:
        for name in ("liba.so.1", "libb.so.2", f"lib{folder.name.replace('-', '')}.so.3"):
            linker.library(folder / name, soname=name, needs=(), paths=None)
    conf, cache = tmp_path / "conf", tmp_path / "cache"
    conf.write_text(f"{folders[0]}\n{folders[1]}\n")
    made_by = [LDCONFIG or "", "-C", str(cache), "-f", str(conf)]
    subprocess.run([*made_by, "-X", "-c", form], check=True, capture_output=True)
    printed = subprocess.run([*made_by, "-p"], check=True, capture_output=True, text=True).stdout
    told = re.findall(r"^\t(\S+) \([^)]*?(?:hwcap: \"([^\"]*)\")?\) => (\S+)$", printed, re.MULTILINE)
    notes: list[str] = []
    entries = read_cache(tmp_path, "cache", notes)
    assert notes == []
    found = [(entry.name, entry.hwcap, entry.path) for entry in entries]
    # ldconfig prints no subfolder, or one that is none, for entries that the loader does not find a name for.
    assert found == [row for row in told if row[1] or "glibc-hwcaps" not in row[2]]
    usable = {entry.path for entry in entries if entry.hwcap == "x86-64-v3" and str(tmp_path) in entry.path}
    assert len(usable) == (3 if form == "new" else 0)
    took = chosen(entries, "x86_64", ("x86-64-v3", "x86-64-v2"))
    assert took["liba.so.1"] == str(folders[3 if form == "new" else 0] / "liba.so.1")
