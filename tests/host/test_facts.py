"""What a machine is, what several are together, and what the solver is told of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import collect
from cuenv.core.versions import Capability, driver_key, version
from cuenv.host.facts import Driver, Gap, Gpu, HostFacts, Libc, glibc, virtual_packages
from cuenv.host.request import pool
from cuenv.knowledge.rows import PLATFORMS
from given import CAPABILITIES, DRIVERS, base, machine, shipped
from thorough import examples

drivers = st.one_of(
    st.none(),
    st.sampled_from(DRIVERS).map(lambda text: Driver(version=text, cuda=base().cuda_of(text), kernel_module=text)),
    st.sampled_from(["11.4", "12.2", "13.0"]).map(lambda text: Driver(cuda=version(text))),
)
gpus = st.lists(
    st.builds(Gpu, index=st.just(0), name=st.sampled_from(["", "A", "B"]), capability=st.sampled_from(CAPABILITIES)),
    max_size=3,
).map(lambda found: tuple(replace(gpu, index=index) for index, gpu in enumerate(found)))
libcs = st.one_of(st.none(), st.sampled_from(["2.17", "2.28", "2.35", "2.9"]).map(glibc))
kernels = st.sampled_from([None, "5.15.0-91-generic", "6.8.0", "3.10.0-1160.el7.x86_64", "6.18.44+"])


def named(label: str) -> st.SearchStrategy[HostFacts]:
    return st.builds(
        HostFacts,
        label=st.just(label),
        platform=st.just("linux-64"),
        detected=st.booleans(),
        driver=drivers,
        gpus=gpus,
        libc=libcs,
        kernel=kernels,
        gaps=st.sampled_from([(), (Gap("driver", "nvml", "not there"),)]),
    )


hosts = st.lists(st.sampled_from("abcde"), min_size=1, max_size=4, unique=True).flatmap(
    lambda labels: st.tuples(*(named(label) for label in labels))
)


def told(facts: HostFacts) -> dict[str, str]:
    return {item.name: item.version for item in virtual_packages(facts)}


# several machines as one


@examples(60)
@given(hosts)
def test_merging_is_commutative(found: tuple[HostFacts, ...]) -> None:
    first, *others = permutations(found)
    assert all(pool(other) == pool(first) for other in others)


@examples(60)
@given(hosts, st.data())
def test_merging_is_associative(found: tuple[HostFacts, ...], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(found)))
    parts = [pool(part) for part in (found[:cut], found[cut:]) if part]
    assert pool(parts) == pool(found)


@examples(60)
@given(hosts)
def test_merging_is_idempotent(found: tuple[HostFacts, ...]) -> None:
    assert pool([*found, *found]) == pool(found)
    assert pool([pool(found)]) == pool(found)


@examples(60)
@given(hosts)
def test_a_pool_has_the_lowest_driver_and_c_library_and_every_gpu(found: tuple[HostFacts, ...]) -> None:
    together = pool(found)
    texts = [host.driver.version for host in found if host.driver and host.driver.version]
    levels = [host.driver.cuda for host in found if host.driver and host.driver.cuda]
    driver = together.driver or Driver()
    assert driver.version == min(texts, key=driver_key, default=None)
    assert driver.cuda == min(levels, default=None)
    versions = [host.libc.version for host in found if host.libc]
    assert (together.libc.version if together.libc else None) == min(versions, default=None)
    have = Counter((gpu.name, gpu.capability) for gpu in together.gpus)
    assert have == Counter((gpu.name, gpu.capability) for host in found for gpu in host.gpus)
    assert [gpu.index for gpu in together.gpus] == (
        list(range(len(together.gpus))) if together.members else [gpu.index for gpu in found[0].gpus]
    )
    assert set(together.machines) == set(found)


@examples(60)
@given(hosts)
def test_the_host_that_cuts_is_named(found: tuple[HostFacts, ...]) -> None:
    together = pool(found)
    if not together.members:
        return
    by_label = {host.label: host for host in found}
    for fact in ("driver.version", "driver.cuda", "libc"):
        evidence = together.evidence_for(fact)
        driver, libc = together.driver, together.libc
        value = {
            "driver.version": driver and driver.version,
            "driver.cuda": driver and driver.cuda,
            "libc": libc and libc.version,
        }[fact]
        assert (evidence is None) == (value is None)
        if evidence is None:
            continue
        cutter = by_label[evidence.source]
        own = {
            "driver.version": cutter.driver and cutter.driver.version,
            "driver.cuda": cutter.driver and cutter.driver.cuda,
            "libc": cutter.libc and cutter.libc.version,
        }[fact]
        assert own == value
        assert str(value) in evidence.text


def test_gaps_say_whose_they_are() -> None:
    one = replace(machine("8.0", label="one"), gaps=(Gap("kernel", "/proc", "no such file"),))
    together = pool([one, machine("9.0", label="two")])
    assert together.gaps == (Gap("kernel", "one: /proc", "no such file"),)


def test_the_lowest_kernel_is_lowest_by_number() -> None:
    kernels = ["5.4.0-1-generic", "5.15.0", "6.8.0-60-generic"]
    machines = [replace(machine("8.0", label=text), kernel=text) for text in kernels]
    assert pool(machines).kernel == "5.4.0-1-generic"


@collect("text", ["weird", "5.\u00b2", "5.x.1", "-", "\u0665.4"])
def test_an_odd_kernel_is_no_accident(text: str) -> None:
    odd = replace(machine("8.0", label="odd"), kernel=text)
    assert pool([odd, replace(machine("8.0", label="plain"), kernel="5.4.0")]).members[0].kernel == text
    assert set(told(odd)["__linux"]) <= set("0123456789.")


def test_unlike_platforms_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"one\.example is linux-64.*grace is linux-aarch64") as caught:
        pool([machine("8.0", label="one.example"), machine("9.0", label="grace", platform="linux-aarch64")])
    assert "one platform" in str(caught.value)


def test_a_pool_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        pool([])


def test_one_host_twice_is_that_host() -> None:
    host = shipped("a800-470")
    assert pool([host, host]) is host


# what the solver is told


@examples(60)
@given(named("x"))
def test_arch_is_the_lowest_and_never_without_cuda(facts: HostFacts) -> None:
    words = told(facts)
    level = facts.driver.cuda if facts.driver else None
    assert words.get("__cuda") == (str(level) if level else None)
    lowest = min((gpu.capability for gpu in facts.gpus if gpu.capability), default=None)
    assert words.get("__cuda_arch") == (str(lowest) if level and lowest else None)
    names = [item.name for item in virtual_packages(facts)]
    assert names == sorted(names)
    assert len(set(names)) == len(names)


@examples(60)
@given(hosts)
def test_a_pool_promises_no_more_than_each_member(found: tuple[HostFacts, ...]) -> None:
    together = told(pool(found))
    for host in found:
        for name, own in told(host).items():
            if name in ("__cuda", "__glibc") or (name == "__cuda_arch" and name in together):
                assert version(together[name]) <= version(own)


def test_numbers_and_not_text_make_the_lowest_capability() -> None:
    assert told(machine("12.0", "9.0", "10.0", driver="580.65.06"))["__cuda_arch"] == "9.0"


def test_nothing_known_is_nothing_told() -> None:
    bare = HostFacts(label="bare", platform="linux-64")
    assert told(bare) == {"__archspec": "1", "__linux": "0", "__unix": "0"}


def test_musl_is_no_glibc() -> None:
    host = replace(machine("8.0"), libc=Libc(family="musl", version=version("1.2.4")))
    assert "__glibc" not in told(host)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_microarchitecture_is_the_base_of_the_platform(platform: str) -> None:
    packages = {item.name: item for item in virtual_packages(machine("9.0", platform=platform))}
    assert packages["__archspec"].build == {"linux-64": "x86_64", "linux-aarch64": "aarch64"}[platform]


@collect(
    ("kernel", "expected"),
    [("5.15.0-91-generic", "5.15.0"), ("6.18.44+", "6.18.44"), ("4.18.0-553.16.1.el8_10", "4.18.0"), ("x", "0")],
)
def test_the_kernel_is_its_leading_numbers(kernel: str, expected: str) -> None:
    assert told(replace(machine("8.0"), kernel=kernel))["__linux"] == expected


def test_an_unknown_capability_is_no_capability() -> None:
    facts = replace(machine("8.0"), gpus=(Gpu(index=0, name="new", capability=None),))
    assert facts.capabilities == ()
    mixed = replace(facts, gpus=(*facts.gpus, Gpu(index=1, name="", capability=Capability(9, 0))))
    assert mixed.capabilities == (Capability(9, 0),)
