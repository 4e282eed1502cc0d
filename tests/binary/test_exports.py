"""What a library defines and wants, against reading its whole symbol table, and against nm's view of real libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from cases import collect
from cuenv.binary.data import BinaryError
from cuenv.binary.elf import read_elf, symbols
from cuenv.binary.exports import Exports, Memory, gnu_hash, wanted
from linkage_trees import compile_library, needs_gcc
from thorough import examples

SOURCE = """
int first(void) { return 1; }
int second_v1(void) { return 1; }
int second_v2(void) { return 2; }
__asm__(".symver second_v1,second@ONE");
__asm__(".symver second_v2,second@@TWO");
int unversioned = 3;
extern int wanted_here(void);
extern int perhaps(void) __attribute__((weak));
int calls(void) { return wanted_here() + (perhaps ? perhaps() : 0); }
"""
SCRIPT = "ONE { global: first; };\nTWO { global: calls; } ONE;\n"


@needs_gcc
def test_the_tables_of_a_library_are_read_once(tmp_path: Path) -> None:
    """However many symbols are asked of it; beyond the memory that is given, piece by piece, with the same answers."""
    source = "".join(f"int name_{i}(void) {{ return {i}; }}\n" for i in range(500))
    path = compile_library(tmp_path / "library.so", source)

    class Counted(bytes):
        asked = 0

        def __getitem__(self, wanted: Any, /) -> Any:
            Counted.asked += 1
            return bytes.__getitem__(self, wanted)

    data = Counted(path.read_bytes())
    elf = read_elf(data)
    for memory, most in ((Memory(), 60), (Memory(0), 5000)):
        exports = Exports(data, elf, memory)
        Counted.asked = 0
        assert all(defines(exports, f"name_{i}") for i in range(500))
        assert not any(defines(exports, f"other_{i}") for i in range(500))
        assert Counted.asked < most


@given(st.one_of(st.binary(max_size=200), st.binary(min_size=1, max_size=9).map(lambda text: text * 2000)))
def test_the_hash_is_that_of_the_loader(name: bytes) -> None:
    value = 5381
    for byte in name:
        value = (value * 33 + byte) & 0xFFFFFFFF
    assert gnu_hash(name) == value


def defines(exports: Exports, name: str, version: str | None = None) -> bool:
    raw = name.encode("utf-8", "surrogateescape")
    return exports.finder(raw, version, gnu_hash(raw))


def test_the_hash_is_the_one_of_the_format() -> None:
    assert gnu_hash(b"") == 0x1505
    assert gnu_hash(b"printf") == 0x156B2BB8  # the example of the format's description
    assert gnu_hash(b"syscall") == 0xBAC212A0


@needs_gcc
@pytest.mark.parametrize("style", ["gnu", "sysv", "both"])
def test_versions_decide_as_the_loader_does(tmp_path: Path, style: str) -> None:
    path = compile_library(
        tmp_path / "libv.so", SOURCE, soname="libv.so", versions=SCRIPT, more=(f"-Wl,--hash-style={style}",)
    )
    data = path.read_bytes()
    exports = Exports(data, read_elf(data))
    assert defines(exports, "first", "ONE")
    assert not defines(exports, "first", "TWO")
    assert defines(exports, "first")
    assert defines(exports, "second", "ONE")
    assert defines(exports, "second", "TWO")
    assert not defines(exports, "second", "THREE")
    assert not defines(exports, "absent")
    assert not defines(exports, "wanted_here")
    assert [want.name for want in wanted(data, read_elf(data))] == ["wanted_here"]


@needs_gcc
@pytest.mark.parametrize("style", ["gnu", "sysv"])
def test_an_executable_wants_the_functions_whose_address_it_takes(tmp_path: Path, style: str) -> None:
    """The linker hashes those, although they are defined elsewhere."""
    library = compile_library(tmp_path / "liba.so", "int given(void) { return 0; } int called(void) { return 0; }")
    source = (
        "int given(void); int called(void); int own(void) { return 0; }\n"
        "int (*volatile taken)(void);\nint main(void) { taken = given; return taken() + called(); }"
    )
    more = ("-no-pie", "-fno-pie", "-rdynamic", f"-Wl,--hash-style={style}")
    data = compile_library(tmp_path / "program", source, needs=(library,), executable=True, more=more).read_bytes()
    elf = read_elf(data)
    assert elf.kind == "executable"
    assert {"given", "called"} <= {want.name for want in wanted(data, elf)}
    assert not defines(Exports(data, elf), "given")
    assert defines(Exports(data, elf), "own")


@needs_gcc
def test_a_library_without_versions_matches_every_version(tmp_path: Path) -> None:
    data = compile_library(tmp_path / "libp.so", "int plain(void) { return 0; }").read_bytes()
    assert defines(Exports(data, read_elf(data)), "plain", "ANY")


@collect("name", ["libc.so.6", "libm.so.6", "libstdc++.so.6", "ld-linux-x86-64.so.2"])
def test_the_hash_table_tells_what_the_whole_symbol_table_tells(name: str) -> None:
    path = next((path for path in Path("/lib").glob(f"*/{name}")), None)
    if path is None:
        pytest.skip(f"no {name} here")
    data = path.read_bytes()
    elf = read_elf(data)
    exports = Exports(data, elf)
    every = list(symbols(data, elf))
    assert [want.name for want in wanted(data, elf)] == [s.name for s in every if not s.defined and not s.weak]
    defined = [s for s in every if s.defined]
    assert all(defines(exports, s.name, s.version) for s in defined)
    names = {s.name for s in defined}
    assert not any(defines(exports, f"{s.name}_not") for s in defined if f"{s.name}_not" not in names)


@needs_gcc
@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_damaged_library_is_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "libv.so"
    if not path.exists():
        compile_library(path, SOURCE, soname="libv.so", versions=SCRIPT)
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        raw[data.draw(st.integers(64, len(raw) - 1))] = data.draw(st.sampled_from((0, 1, 0x7F, 0xFF)))
    try:
        elf = read_elf(bytes(raw))
        exports = Exports(bytes(raw), elf)
        for name in ("first", "second", "absent"):
            defines(exports, name, "ONE")
        list(wanted(bytes(raw), elf))
    except BinaryError:
        pass
