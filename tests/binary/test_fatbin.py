"""Fat binaries: what containers hold, how objects are counted, and what is refused."""

from __future__ import annotations

import contextlib
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import collect
from cuenv.binary.code import HEADER, MAGIC, FatbinReader, FileCode, read_code, summary
from cuenv.binary.elf import BinaryError, read_elf
from cuenv.core.versions import Target
from elf_files import (
    CUBIN,
    EXACT,
    FAMILY,
    LTO,
    LZ4,
    PTX,
    TILE,
    ZSTD,
    Part,
    container,
    cubins,
    elf,
    entry,
    fatbin,
)


def code(*parts: Part, deep: bool = False) -> FileCode:
    data = elf(*parts)
    return read_code(data, read_elf(data), deep=deep)


def targets(*texts: str) -> tuple[Target, ...]:
    return tuple(map(Target.parse, texts))


def test_every_kind_of_entry() -> None:
    found = code(
        fatbin(
            container(
                entry(CUBIN, 80),
                entry(CUBIN, 90, flags=EXACT | ZSTD),
                entry(CUBIN, 100, flags=FAMILY | LZ4),
                entry(PTX, 120, isa=(9, 0)),
                entry(LTO, 86),
                entry(TILE, 120),
                entry(0x40, 75),
            )
        )
    )
    held = summary(found.objects)
    assert held.objects == 1
    assert held.everywhere == targets("8.0", "9.0a", "10.0f")
    assert held.ptx == {(Target.parse("12.0"), (9, 0)): 1}
    assert tuple(held.lto) == targets("8.6")
    assert tuple(held.tile) == targets("12.0")
    assert [item.kind for item in found.objects[0].entries][-1] == "other"


def test_an_architecture_in_one_object_of_thirty_does_not_support_the_others() -> None:
    held = summary(code(fatbin(*[cubins(80, 86)] * 29, cubins(80, 86, 90))).objects)
    assert held.objects == 30
    assert held.everywhere == targets("8.0", "8.6")
    assert held.partial == {Target.parse("9.0"): 1}


def test_the_same_target_twice_in_an_object_counts_once() -> None:
    held = summary(code(fatbin(cubins(80, 80), cubins(90))).objects)
    assert held.sass == {Target.parse("8.0"): 1, Target.parse("9.0"): 1}


def test_objects_without_a_kernel_are_counted_apart() -> None:
    """nvcc writes a cubin without code, and PTX of three lines, for a source without kernels."""
    bare = container(entry(CUBIN, 52, flags=0, size=0), entry(PTX, 52, size=56))
    found = code(
        fatbin(bare, cubins(80), container(entry(CUBIN, 90, size=1728)), container(entry(CUBIN, 90, size=2416)))
    )
    assert found.bare == 2
    assert [item.entries[0].target for item in found.objects] == list(targets("8.0", "9.0"))


@collect(("arch", "least"), [(50, 1544), (80, 2088), (90, 2416), (100, 4840), (121, 4840)])
def test_the_smallest_kernels_that_were_measured_count(arch: int, least: int) -> None:
    assert code(fatbin(container(entry(CUBIN, arch, size=least)))).objects


def test_relocatable_code_is_possible_only() -> None:
    found = code(fatbin(cubins(80, 90), name="__nv_relfatbin"), fatbin(cubins(80)))
    assert summary(found.objects).everywhere == targets("8.0")
    assert summary(found.possible).everywhere == targets("8.0", "9.0")


def test_deep_finds_containers_in_other_sections() -> None:
    hidden = b"x" * 37 + cubins(75) + b"\0\0\0" + cubins(90)
    parts = (
        fatbin(cubins(80)),
        Part(".rodata", hidden),
        Part(".text", cubins(86), flags=6),
        Part(".comment", cubins(87), flags=0),
    )
    assert code(*parts).elsewhere is None
    found = code(*parts, deep=True)
    assert found.elsewhere is not None
    assert [item.section for item in found.elsewhere] == [".rodata", ".rodata"]
    assert summary(found.elsewhere).partial == {Target.parse("7.5"): 1, Target.parse("9.0"): 1}
    data = elf(*parts)
    assert [data[item.offset : item.offset + 4] for item in found.elsewhere] == [struct.pack("<I", MAGIC)] * 2


def test_deep_finds_a_container_across_the_steps_of_the_search() -> None:
    for shift in range(12):
        content = bytes((1 << 20) - 64 - 6 + shift) + cubins(75)
        found = code(Part(".rodata", content), deep=True)
        assert found.elsewhere
        assert summary(found.elsewhere).everywhere == targets("7.5")


def test_the_magic_number_by_chance_is_not_a_container() -> None:
    magic = struct.pack("<I", MAGIC)
    noise = [
        magic * 9,
        container(size=2**64 - 1),
        container(header=0),
        container(version=7),
        container(entry(CUBIN, 0)),
    ]
    found = code(Part(".rodata", b"".join(noise) + cubins(90)), deep=True)
    assert found.elsewhere
    assert len(found.elsewhere) == 1


def test_a_container_that_gives_no_size_ends_where_no_entry_is() -> None:
    open_end = container(entry(CUBIN, 80), entry(PTX, 90), size=0)
    found = code(fatbin(open_end, cubins(75), container(), cubins(70)))
    assert [len(item.entries) for item in found.objects] == [2, 1, 1]
    assert found.bare == 1


def test_padding_between_containers_is_passed() -> None:
    found = code(fatbin(cubins(80), bytes(64), cubins(80), bytes(24)))
    assert len(found.objects) == 2


HOSTILE = {
    "a size of 2^64-1": container(entry(CUBIN, 80), size=2**64 - 1),
    "a size beyond the section": container(entry(CUBIN, 80), size=4096),
    "a size inside of the entry": container(entry(CUBIN, 80), size=70),
    "a header of no bytes": container(entry(CUBIN, 80), header=0),
    "a header beyond all bounds": container(entry(CUBIN, 80), header=0xFFFF),
    "another version": container(entry(CUBIN, 80), version=2),
    "an entry with a header of no bytes": container(entry(CUBIN, 80)[:4] + bytes(4) + entry(CUBIN, 80)[8:]),
    "an entry of 2^64-1 bytes": container(entry(CUBIN, 80)[:8] + b"\xff" * 8 + entry(CUBIN, 80)[16:]),
    "architecture 0": container(entry(CUBIN, 0)),
    "architecture 2^32-1": container(entry(CUBIN, 2**32 - 1)),
    "text": b"no container at all, but text",
    "entries that overlap": container(entry(CUBIN, 80)[:8] + struct.pack("<Q", 4) + entry(CUBIN, 80)[16:]),
}


@collect("content", HOSTILE.values())
def test_what_cannot_be_is_refused(content: bytes) -> None:
    with pytest.raises(BinaryError, match="damaged"):
        code(Part(".nv_fatbin", cubins(75) + content + bytes(64)))


def test_a_section_of_zeros_ends() -> None:
    with pytest.raises(BinaryError, match="no container"):
        code(Part(".nv_fatbin", bytes(1 << 20)))


@pytest.mark.parametrize("left", [500, pytest.param(0, marks=pytest.mark.slow)])
def test_containers_without_end_are_refused(left: int) -> None:
    """Quickly with a reader that may read few more, slowly with as many as are refused."""
    section = HEADER.pack(MAGIC, 1, HEADER.size, 0) * ((left or 1 << 18) + 1)
    reader = FatbinReader(section, _containers_left=left) if left else FatbinReader(section)
    with pytest.raises(BinaryError, match="hostile"):
        list(reader.containers(0, len(section)))


def test_every_prefix_of_a_file_is_refused() -> None:
    data = elf(fatbin(cubins(80, 90), container(entry(PTX, 90), entry(LTO, 80))), Part(".rodata", cubins(75)))
    for end in range(len(data)):
        with pytest.raises(BinaryError):
            read_code(data[:end], read_elf(data[:end]), deep=True)


def test_every_prefix_of_a_section_is_refused_but_between_containers() -> None:
    first, whole = cubins(80, 90), cubins(80, 90) + cubins(75)
    for end in range(len(whole)):
        if end in (0, len(first)):
            assert len(code(Part(".nv_fatbin", whole[:end])).objects) == (1 if end else 0)
        else:
            with pytest.raises(BinaryError):
                code(Part(".nv_fatbin", whole[:end]))


_ENTRIES = st.builds(
    entry,
    st.sampled_from([PTX, CUBIN, LTO, TILE]),
    st.sampled_from([50, 75, 80, 86, 90, 100, 120]),
    flags=st.sampled_from([0, LZ4, ZSTD, EXACT | LZ4, FAMILY | ZSTD]),
)


@given(st.lists(st.lists(_ENTRIES, min_size=1, max_size=6), max_size=12))
def test_as_many_objects_and_entries_come_out_as_went_in(content: list[list[bytes]]) -> None:
    found = code(fatbin(*(container(*entries) for entries in content)))
    lengths = sorted(len(item.entries) for item in found.objects)
    kept = [entries for entries in content if not all(_tiny(item) for item in entries)]
    assert lengths == sorted(map(len, kept))
    assert found.bare == len(content) - len(kept)
    held = summary(found.objects)
    assert set(held.everywhere) | set(held.partial) == set(held.sass)
    assert all(0 < count <= held.objects for count in held.sass.values())


def _tiny(item: bytes) -> bool:
    """Entries that say that they are not compressed have a payload of 16 bytes."""
    kind, flags = struct.unpack_from("<H", item)[0], struct.unpack_from("<Q", item, 40)[0]
    return kind in (PTX, CUBIN) and not flags & (LZ4 | ZSTD)


@given(st.data())
def test_damaged_bytes_never_break_the_reader(data: Any) -> None:
    damaged = bytearray(elf(fatbin(cubins(80, 90), cubins(75)), Part(".rodata", b"abc" + cubins(86))))
    for _ in range(data.draw(st.integers(1, 10))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(BinaryError):
        found = read_code(bytes(damaged), read_elf(bytes(damaged)), deep=data.draw(st.booleans()))
        assert summary(found.objects).objects == len(found.objects)


@given(st.binary(max_size=400))
def test_any_bytes_as_a_section(content: bytes) -> None:
    for name in (".nv_fatbin", ".rodata"):
        with contextlib.suppress(BinaryError):
            code(Part(name, struct.pack("<I", MAGIC) + content), deep=True)
