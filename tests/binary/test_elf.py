"""The own ELF reader: what it reads, what it refuses, and that another reader says the same."""

from __future__ import annotations

import contextlib
import shutil
import struct
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import collect
from cuenv.binary.elf import BinaryError, read_elf, symbols
from elf_files import EXTRA, Part, elf, header, linked
from elf_oracle import agreed

LIBRARY = """
__asm__(".symver old_one, shown@V1");
__asm__(".symver new_one, shown@@V2");
extern int wanted(void);
extern int perhaps(void) __attribute__((weak));
int old_one(void) { return 1; }
int new_one(void) { return wanted(); }
int plain(void) { return perhaps ? perhaps() : 0; }
"""
VERSIONS = "V1 { global: shown; local: *; };\nV2 { global: shown; plain; } V1;\n"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with versions of its own that wants a versioned symbol of another."""
    gcc = shutil.which("gcc") or pytest.skip("there is no gcc")
    folder = tmp_path_factory.mktemp("elf")
    (folder / "other.c").write_text("int wanted(void) { return 7; }\n")
    (folder / "other.map").write_text("W1 { global: wanted; local: *; };\n")
    (folder / "lib.c").write_text(LIBRARY)
    (folder / "lib.map").write_text(VERSIONS)
    shared = [gcc, "-shared", "-fPIC", "-nostdlib"]
    for words in (
        ["-Wl,--version-script=other.map", "-Wl,-soname,libother.so.1", "-o", "libother.so", "other.c"],
        [
            *("-Wl,--version-script=lib.map", "-Wl,-soname,libown.so.2", "-Wl,--enable-new-dtags"),
            *("-Wl,-rpath,$ORIGIN/x:/y", "-o", "libown.so", "lib.c", "libother.so"),
        ],
    ):
        subprocess.run([*shared, *words], cwd=folder, check=True)
    return folder / "libown.so"


def test_a_library_says_what_it_is(library: Path) -> None:
    data = library.read_bytes()
    found = read_elf(data)
    assert found.machine in {"x86_64", "aarch64"}
    assert found.kind == "shared"
    assert found.section(".dynsym")
    dynamic = found.dynamic
    assert dynamic
    assert dynamic.soname == "libown.so.2"
    assert dynamic.needed == ("libother.so.1",)
    assert dynamic.rpath is None
    assert dynamic.runpath == ("$ORIGIN/x", "/y")
    assert dynamic.needs == {"libother.so.1": (("W1", False),)}
    assert dynamic.defines == ("V1", "V2")


def test_symbols_carry_their_versions(library: Path) -> None:
    data = library.read_bytes()
    found = {(item.name, item.version): item for item in symbols(data, read_elf(data))}
    assert {("shown", "V1"), ("shown", "V2"), ("plain", "V2"), ("wanted", "W1"), ("perhaps", None)} <= set(found)
    wanted, perhaps = found["wanted", "W1"], found["perhaps", None]
    assert (wanted.defined, wanted.weak, wanted.file) == (False, False, "libother.so.1")
    assert (perhaps.defined, perhaps.weak) == (False, True)
    assert found["shown", "V2"].defined


def test_without_section_headers_the_same_is_read(library: Path) -> None:
    whole = library.read_bytes()
    stripped = bytearray(whole)
    stripped[40:48], stripped[60:64] = bytes(8), bytes(4)
    bare, full = read_elf(bytes(stripped)), read_elf(whole)
    assert bare.sections == ()
    assert bare.dynamic == full.dynamic
    assert list(symbols(bytes(stripped), bare)) == list(symbols(whole, full))


def test_without_segments_the_sections_are_enough(library: Path) -> None:
    whole = library.read_bytes()
    sections = bytearray(whole)
    sections[32:40], sections[56:58] = bytes(8), bytes(2)
    bare, full = read_elf(bytes(sections)), read_elf(whole)
    assert bare.segments == ()
    assert bare.dynamic == full.dynamic
    assert list(symbols(bytes(sections), bare)) == list(symbols(whole, full))


def test_the_running_python_is_an_executable() -> None:
    path = Path(sys.executable).resolve()
    found = read_elf(path.read_bytes())
    assert found.kind == "executable"
    assert found.interpreter
    assert "ld" in found.interpreter
    assert agreed(path)


def test_another_reader_says_the_same(library: Path) -> None:
    assert agreed(library)


def test_segments_alone_are_read() -> None:
    found = read_elf(
        linked(soname="liba.so", needed=["libb.so", "libc.so.6"], rpath="/opt:$ORIGIN", runpath="")
    ).dynamic
    assert found
    assert (found.soname, found.needed) == ("liba.so", ("libb.so", "libc.so.6"))
    assert (found.rpath, found.runpath) == (("/opt", "$ORIGIN"), ("",))


def test_names_that_are_not_text_are_kept() -> None:
    found = read_elf(linked(needed=["lib\udcff\x1b[31m.so"])).dynamic
    assert found
    assert found.needed == ("lib\udcff\x1b[31m.so",)


@collect(
    ("data", "reason", "fault"),
    [
        (b"", "not an ELF file", "foreign"),
        (b"\x7fEL", "not an ELF file", "foreign"),
        (b"#!/bin/sh\n", "not an ELF file", "foreign"),
        (b"MZ\x90\x00", "a Windows program or DLL", "unsupported"),
        (b"!<arch>\nx.o/", "a static library", "unsupported"),
        (b"\x7fELF\x01\x01" + bytes(80), "32-bit", "unsupported"),
        (b"\x7fELF\x02\x02" + bytes(80), "big-endian", "unsupported"),
        (b"\x7fELF\x02\x01", "truncated", "damaged"),
        (b"\x7fELF\x02\x01" + bytes(40), "ends at byte 64", "damaged"),
        (header(sections_at=1 << 63, sections=3), "truncated or damaged", "damaged"),
        (header(sections_at=64, sections=60000), "truncated or damaged", "damaged"),
        (header(segments_at=64, segments=65534), "truncated or damaged", "damaged"),
        (linked(needed=["a"], more=[(10, 0)]), "a name at 1", "damaged"),
        (linked(needed=["a"], more=[(5, 1 << 40)]), "no bytes", "damaged"),
        (linked(needed=["a"], more=[(1, 1 << 50)]), "a name at", "damaged"),
        (linked(needed=["a"], more=[(0x6FFFFFFE, 1 << 40), (0x6FFFFFFF, 9)]), "no bytes", "damaged"),
    ],
)
def test_what_is_refused_says_why(data: bytes, reason: str, fault: str) -> None:
    with pytest.raises(BinaryError) as caught:
        read_elf(data)
    assert reason in caught.value.reason
    assert caught.value.fault == fault


def test_names_that_overlap_beyond_reason_are_refused() -> None:
    """Sixty thousand names in one string of sixty thousand bytes would be 2 GB of text."""
    text = "a" * 60_000
    with pytest.raises(BinaryError, match="overlap beyond reason"):
        read_elf(linked(needed=[text], more=[(1, 1 + index) for index in range(50_000)]))


NEED, AUX = struct.Struct("<HHIII"), struct.Struct("<IHHII")


def needs(rows: bytes) -> bytes:
    return linked(needed=["lib"], more=[(0x6FFFFFFE, EXTRA), (0x6FFFFFFF, 1 << 60)], extra=rows)


def test_the_needed_versions_of_a_made_up_table() -> None:
    rows = NEED.pack(1, 2, 1, 16, 0) + AUX.pack(0, 2, 3, 1, 16) + AUX.pack(0, 0, 4, 2, 0)
    found = read_elf(needs(rows)).dynamic
    assert found
    assert found.needs == {"lib": (("lib", True), ("ib", False))}


def test_a_table_of_versions_that_turns_in_circles_is_refused() -> None:
    """Each of a hundred rows claims 65535 versions, and all of them are the same few: counts are bounded together."""
    rows = NEED.pack(1, 0xFFFF, 1, 1600, 16) * 100 + AUX.pack(0, 0, 3, 1, 0)
    with pytest.raises(BinaryError, match="more than 65536 needed versions"):
        read_elf(needs(rows))


def test_every_prefix_of_a_file_is_refused_or_read(library: Path) -> None:
    data = library.read_bytes()
    step = max(1, len(data) // 1500)
    for end in [*range(200), *range(200, len(data), step), len(data) - 1]:
        with pytest.raises(BinaryError):
            list(symbols(data[:end], read_elf(data[:end])))


PLACES = st.integers(0, 1 << 20)
"""Taken modulo the length: what is drawn must not depend on what the compiler made."""


@given(st.data())
def test_damaged_bytes_never_break_the_reader(library_bytes: bytes, data: Any) -> None:
    damaged = bytearray(library_bytes)
    for _ in range(data.draw(st.integers(1, 12))):
        at = data.draw(PLACES) % len(damaged)
        damaged[at] = data.draw(st.integers(0, 255))
    reads(bytes(damaged))


@given(st.data())
def test_numbers_beyond_all_bounds_never_break_the_reader(library_bytes: bytes, data: Any) -> None:
    """Header, program headers and dynamic section, with words that are far too large or nearly fit."""
    damaged = bytearray(library_bytes)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.one_of(st.integers(0, 120), PLACES)) % (len(damaged) // 8) * 8
        value = data.draw(st.sampled_from([0, 1, 0xFFFF, 2**31, 2**32 - 1, 2**63, 2**64 - 1, None]))
        damaged[at : at + 8] = struct.pack("<Q", len(damaged) if value is None else value)
    reads(bytes(damaged))


def reads(data: bytes) -> None:
    """It is read, or refused by the one error that there is."""
    with contextlib.suppress(BinaryError):
        assert all(item.name for item in symbols(data, read_elf(data)))


@pytest.fixture(scope="module")
def library_bytes(library: Path) -> bytes:
    return library.read_bytes()


def test_a_section_that_only_claims_to_be_there() -> None:
    data = elf(Part(".nv_fatbin", b"", kind=8))
    assert read_elf(data).section(".nv_fatbin")


def every_library() -> Iterator[Path]:
    """The extensions and libraries of the running Python's environment."""
    folders = {
        sysconfig.get_path("platlib"),
        sysconfig.get_config_var("DESTSHARED"),
        sysconfig.get_config_var("LIBDIR"),
    }
    for folder in sorted(item for item in folders if item):
        yield from (path for path in sorted(Path(folder).rglob("*.so*")) if path.is_file() and not path.is_symlink())


@pytest.mark.slow
def test_another_reader_says_the_same_of_every_library_here() -> None:
    looked = [path for path in every_library() if agreed(path)]
    assert len(looked) > 20
