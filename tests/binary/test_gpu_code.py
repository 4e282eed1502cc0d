"""What a GPU gets of a file: native, by JIT of a driver that knows the PTX, or nothing, object by object."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given as for_all
from hypothesis import strategies as st

from cases import collect
from cuenv.binary.code import CodeObject, Entry
from cuenv.binary.gpu_code import GpuCode, HostGpu, gpu_code, host_gpus, release_of
from cuenv.core.versions import Capability, DeviceCode, Jit, Native, Target, support_of, version
from cuenv.host.facts import Driver, Gpu, HostFacts
from given import base


def sass(*texts: str) -> tuple[Entry, ...]:
    return tuple(Entry("sass", Target.parse(text)) for text in texts)


def ptx(text: str, isa: tuple[int, int]) -> Entry:
    return Entry("ptx", Target.parse(text), isa)


def objects(*lists: tuple[Entry, ...]) -> tuple[CodeObject, ...]:
    return tuple(CodeObject(".nv_fatbin", index, entries) for index, entries in enumerate(lists))


def gets(capability: str, *lists: tuple[Entry, ...], level: str | None = "12.9") -> GpuCode:
    gpu = HostGpu(Capability.parse(capability), version(level) if level else None)
    return gpu_code(objects(*lists), gpu, base())


def test_native_code_of_the_same_major_runs() -> None:
    found = gets("8.9", sass("8.0", "9.0"), sass("8.6"))
    assert (found.outcome, found.native, found.jit, found.missing) == ("native", 2, 0, ())
    assert [str(target) for target in found.by] == ["8.0", "8.6"]


def test_an_object_without_code_for_the_gpu_is_named() -> None:
    found = gets("9.0", sass("8.0", "9.0"), sass("8.0"), sass("9.0a"))
    assert (found.outcome, found.native, found.missing) == ("partly", 2, (1,))
    assert gets("6.1", sass("8.0")).outcome == "nothing"


def test_ptx_needs_a_driver_that_knows_its_isa() -> None:
    """PTX ISA 8.8 came with CUDA 12.9, and its driver with branch 575."""
    code = ((*sass("8.0"), ptx("9.0", (8, 8))),)
    able, unable, unknown = (gets("12.0", *code, level=level) for level in ("12.9", "12.8", None))
    assert (able.outcome, able.jit, able.beyond) == ("jit", 1, ())
    assert (unable.outcome, unable.jit, unable.beyond) == ("nothing", 0, (0,))
    assert (unknown.outcome, unknown.jit) == ("jit", 1)
    for found in (able, unable, unknown):
        assert (found.needs, found.driver) == (version("12.9"), base().native_driver(version("12.9")))


def test_the_highest_need_of_several_objects_is_reported() -> None:
    found = gets("12.0", (ptx("8.0", (7, 0)),), (ptx("9.0", (8, 7)),), level="12.4")
    assert (found.jit, found.beyond, found.needs) == (1, (1,), version("12.8"))


def test_an_isa_that_no_table_knows_is_said() -> None:
    found = gets("12.0", (ptx("9.0", (99, 1)),))
    assert (found.outcome, found.needs, found.unknown_isa) == ("jit", None, "99.1")


def test_code_for_linkers_and_code_without_kernels_runs_nowhere() -> None:
    assert gets("8.0", (Entry("lto", Target.parse("8.0")), Entry("tile", Target.parse("8.0")))).outcome == "nothing"
    assert gets("8.0", (Entry("sass", Target.parse("8.0"), bare=True), *sass("9.0"))).outcome == "nothing"


@collect(
    ("isa", "release"),
    [((6, 3), "10.0"), ((7, 8), "11.8"), ((8, 5), "12.5"), ((8, 6), "12.8"), ((9, 0), "13.0"), ((3, 2), "10.0")],
)
def test_the_release_of_an_isa(isa: tuple[int, int], release: str) -> None:
    assert release_of(isa, base()) == version(release)


def test_a_later_isa_never_needs_an_earlier_driver() -> None:
    known = [row.isa for row in base().cudas if row.isa]
    releases = [release_of((isa.major, isa.minor), base()) for isa in known]
    assert all(releases)
    drivers = [base().jit_driver(release) for release in releases if release]
    assert [tuple(map(int, driver.split("."))) for driver in drivers if driver] == sorted(
        tuple(map(int, driver.split("."))) for driver in drivers if driver
    )


def test_the_gpus_of_a_pool_have_the_lowest_driver_beside_them() -> None:
    def machine(level: str | None, *capabilities: str) -> HostFacts:
        gpus = tuple(
            Gpu(index=index, name="", capability=Capability.parse(text)) for index, text in enumerate(capabilities)
        )
        driver = Driver(cuda=version(level)) if level else None
        return HostFacts(label="here", platform="linux-64", driver=driver, gpus=gpus)

    one, two, three = machine("12.2", "8.0", "8.0"), machine("12.9", "8.0", "12.0"), machine(None, "9.0")
    assert host_gpus(one) == (HostGpu(Capability.parse("8.0"), version("12.2")),)
    pool = replace(one, members=(one, two, three))
    assert [(str(gpu.capability), str(gpu.level)) for gpu in host_gpus(pool)] == [
        ("8.0", "12.2"),
        ("9.0", "None"),
        ("12.0", "12.9"),
    ]


_TARGETS = st.sampled_from(["5.0", "7.0", "7.5", "8.0", "8.6", "8.7", "9.0", "9.0a", "10.0", "10.0f", "12.0", "12.1"])
_ISAS = st.sampled_from([(7, 0), (8, 0), (8, 8), (9, 0)])
_OBJECT = st.lists(st.one_of(st.builds(lambda t: sass(t)[0], _TARGETS), st.builds(ptx, _TARGETS, _ISAS)), max_size=5)


_DEVICES = st.sampled_from(["7.0", "8.6", "9.0", "10.3", "12.0", "12.1"])


@for_all(st.lists(_OBJECT, max_size=8), _DEVICES, st.sampled_from(["12.4", None]))
def test_every_object_is_counted_once_and_as_versions_says(
    lists: list[list[Entry]], device: str, level: str | None
) -> None:
    found = gets(device, *map(tuple, lists), level=level)
    assert found.native + found.jit + len(found.beyond) + len(found.missing) == len(lists)
    for index, entries in enumerate(lists):
        code = DeviceCode(
            sass=tuple(item.target for item in entries if item.kind == "sass"),
            ptx=tuple(item.target for item in entries if item.kind == "ptx"),
        )
        service = support_of(code, Capability.parse(device))
        assert (index in found.missing) == (not isinstance(service, (Native, Jit)))
        assert index not in found.beyond or isinstance(service, Jit)
