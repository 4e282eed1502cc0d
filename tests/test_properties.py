"""Laws that join two stations, or one of ours and a reader that is not ours: matching, laying over, deciding."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from rattler import MatchSpec, PackageRecord, Version, VersionSpec
from rattler.package import BuildString

from cuenv.core.versions import Capability, driver_key, parse_version_spec, reaches, support_of, target_for, version
from cuenv.host.facts import HostFacts
from cuenv.host.request import pool
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.tables import TABLES, dump, merge
from cuenv.resolver.candidates import Candidate, admits, admits_all
from cuenv.resolver.decision import decide
from cuenv.resolver.ranking import Assessment, Ranking
from cuenv.solve.environment_spec import Pin
from cuenv.solve.io.solver import matches
from given import (
    DRIVERS,
    base,
    capabilities,
    case,
    choice,
    decided,
    drivers,
    everything,
    fitting,
    machine,
    package,
    version_spec,
)
from thorough import examples

# drivers: a text that names only a branch stands for every driver of it

numbers = st.integers(0, 99)
full = st.tuples(st.integers(100, 999), numbers, numbers)


def text_of(parts: Iterable[int]) -> str:
    return ".".join(map(str, parts))


@given(full, full, st.integers(1, 3))
def test_a_branch_reaches_what_all_of_its_drivers_reach(have: tuple[int, ...], need: tuple[int, ...], cut: int) -> None:
    near = (need[:cut] + have[cut:]) if have[-1] % 2 else have  # half of them share what the branch names
    short, lowest = near[:cut], text_of(need)
    answer = reaches(text_of(short), lowest)
    bottom, top = (short + (end,) * (3 - cut) for end in (0, 99999))
    lower, upper = (reaches(text_of(driver), lowest) for driver in (bottom, top))
    assert (lower, upper) == (bottom >= need, top >= need)
    assert answer == (lower if lower == upper else None)


@given(full, full, full)
def test_reaching_is_an_order(one: tuple[int, ...], two: tuple[int, ...], three: tuple[int, ...]) -> None:
    first, second, third = map(text_of, (one, two, three))
    assert reaches(first, first)
    assert reaches(first, second) or reaches(second, first)
    if reaches(first, second) and reaches(second, third):
        assert reaches(first, third)


# capabilities: what nvcc is told to compile for runs there, and nothing nearer would


@given(st.sampled_from([row for row in base().cudas if row.targets]), capabilities)
def test_the_target_of_nvcc_runs_and_is_the_nearest(row: Any, device: Capability) -> None:
    target = target_for(device, row.targets)
    able = [item for item in row.targets if _runs(item, device)]
    assert (target is None) == (not able)
    if target:
        assert target == max(able)


def _runs(own: Capability, device: Capability) -> bool:
    from cuenv.core.versions import DeviceCode, Native, Target

    return isinstance(support_of(DeviceCode(sass=(Target(own),)), device), Native)


# versions: rattler's own is the judge

plain = st.lists(st.integers(0, 12), min_size=1, max_size=4).map(text_of)
operators = st.sampled_from(["==", ">=", "<=", ">", "<", "!="])


@examples(60)
@given(plain, plain)
def test_a_prefix_means_the_same_to_the_solver(request: str, release: str) -> None:
    made = parse_version_spec(request, what="x")
    assert made.admits(version(release)) == VersionSpec(f"{request}.*").matches(Version(release))


@examples(60)
@given(st.lists(st.tuples(operators, plain).map("".join), min_size=1, max_size=3).map(",".join), plain)
def test_a_range_means_the_same_to_the_solver(request: str, release: str) -> None:
    assert parse_version_spec(request, what="x").admits(version(release)) == VersionSpec(request).matches(
        Version(release)
    )


@given(st.tuples(operators, plain).map("".join) | plain, st.integers(2, 3), st.integers(0, 12))
def test_a_minor_is_admitted_where_some_or_all_of_its_releases_are(request: str, major: int, minor: int) -> None:
    text = f"{major}.{minor}"
    made = version_spec(request)
    releases = [made.admits(version(f"{text}.{patch}")) for patch in range(40)]
    assert admits_all(made, text) == all(releases)
    if made.prefix is None or len(made.prefix) <= 3:
        assert admits(made, text) == (any(releases) or made.admits(version(text)))


epochs = st.sampled_from(["", "", "", "1!"])
tails = st.sampled_from(["", "", "", "a1", "rc2", ".dev0", ".post1", "+cu129"])
odd = st.tuples(epochs, plain, tails).map("".join)
conditions = st.one_of(
    st.just(""),
    odd,
    odd.map("{}.*".format),
    odd.map("=={}".format),
    odd.map("!={}.*".format),
    st.tuples(operators, odd).map("".join),
)
several = st.lists(
    conditions.filter(lambda text: text and (text[0] in "<>=!" or text[-1] == "*")), min_size=2, max_size=3
)
BUILDS = ("cuda129_py312_0", "cuda126_py310_1", "cpu_0", "py3.10_cuda11.8_0")
globs = st.sampled_from(["", "*", "cuda*", "cuda129*", "*_0", "*cuda11.8*", "cpu_0"])


def record(release: str, build: str) -> PackageRecord:
    return PackageRecord("pytorch", release, BuildString(build), 0, "linux-64")


@examples(60)
@given(several.map(",".join) | several.map("|".join) | conditions, globs, st.lists(odd, max_size=4))
def test_a_pin_admits_what_its_text_admits_to_rattler(text: str, glob: str, others: list[str]) -> None:
    """What the file says, what the solver is told and what a lock is checked by are one condition."""
    pin = Pin(name="pytorch", version=text, build=glob)
    strict, written = MatchSpec(pin.match_spec(), strict=True), MatchSpec(pin.yaml_text())
    named = [part.lstrip("<>=!").removesuffix(".*") for part in text.replace("|", ",").split(",") if part]
    for release in [*others, *named, *(f"{item}.0" for item in named if item.replace(".", "").isdigit())]:
        condition = VersionSpec(pin.condition()).matches(Version(release)) if pin.condition() else True
        for build in BUILDS:
            expected = condition and fnmatchcase(build, glob or "*")
            item = record(release, build)
            assert strict.matches(item) == expected, (pin.match_spec(), release, build)
            assert written.matches(item) == expected, (pin.yaml_text(), release, build)
            assert matches(pin.match_spec(), package("pytorch", release, build)) == expected


# laying tables over tables

SOURCES = tuple(base().sources)
sources = st.fixed_dictionaries(
    {
        "id": st.sampled_from(["own", "theirs", SOURCES[0]]),
        "title": st.sampled_from(["One", "Two"]),
        "publisher": st.just("us"),
        "locator": st.just("shelf"),
        "read_on": st.just("2026-11-20"),
    }
)
gpus = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["A100", "B400", "Home 1", base().gpus[-1].name]),
        "capability": st.sampled_from(["8.0", "9.0", "12.0"]),
        "architecture": st.sampled_from(["Ampere", "Hopper"]),
        "kind": st.just("datacenter"),
        "src": st.just([SOURCES[1]]),
    }
)
builds = st.fixed_dictionaries(
    {
        "stack": st.just("conda-forge"),
        "version": st.sampled_from(["2.99.0", str(base().torch[0].version)]),
        "cuda": st.just("12.9"),
        "platform": st.sampled_from(["linux-64", "linux-aarch64"]),
        "build": st.sampled_from(["cuda129*", "ours*"]),
        "pythons": st.sampled_from([["3.12"], ["3.11", "3.12"]]),
        "src": st.just([SOURCES[1]]),
    }
)


def once(name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"schema": f"cuenv/kb/{name}/1", "rows": rows}


def keyed(rows: st.SearchStrategy[dict[str, Any]], *key: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    return st.lists(rows, max_size=3, unique_by=lambda row: tuple(row[name] for name in key))


KEYS = {"sources": ("id",), "gpus": ("name",), "torch": ("stack", "version", "cuda", "platform")}
overlays = st.fixed_dictionaries(
    {},
    optional={
        "sources": keyed(sources, *KEYS["sources"]).map(lambda rows: once("sources", rows)),
        "gpus": keyed(gpus, *KEYS["gpus"]).map(lambda rows: once("gpus", rows)),
        "torch": keyed(builds, *KEYS["torch"]).map(lambda rows: once("torch", rows)),
    },
)


def written(knowledge: Knowledge) -> dict[str, str]:
    """Every table as its file; those that are the base's own are not written again."""
    return {
        name: _as_shipped(name) if getattr(knowledge, name) is getattr(base(), name) else dump(knowledge, name)
        for name in TABLES
    }


@cache
def _as_shipped(name: str) -> str:
    return dump(base(), name)


def keys_of(overlay: dict[str, Any]) -> set[tuple[Any, ...]]:
    return {(name, *(row[key] for key in KEYS[name])) for name, table in overlay.items() for row in table["rows"]}


def joined(one: dict[str, Any], two: dict[str, Any]) -> dict[str, Any]:
    """Two overlays as one: rows of the second instead of those of the first with their key."""
    made: dict[str, Any] = {}
    for name in {*one, *two}:
        rows = {
            tuple(row[key] for key in KEYS[name]): row
            for overlay in (one, two)
            for row in overlay.get(name, {"rows": []})["rows"]
        }
        made[name] = once(name, list(rows.values()))
    return made


@examples(10)
@given(overlays, overlays)
def test_laying_over_is_associative(one: dict[str, Any], two: dict[str, Any]) -> None:
    assert written(merge(merge(base(), one), two)) == written(merge(base(), joined(one, two)))


@examples(10)
@given(overlays)
def test_laying_over_twice_is_laying_over_once(overlay: dict[str, Any]) -> None:
    laid = merge(base(), overlay)
    assert written(merge(laid, overlay)) == written(laid)
    assert written(merge(laid, {})) == written(laid)
    assert written(merge(base(), {name: json.loads(dump(laid, name)) for name in TABLES})) == written(laid)


@examples(10)
@given(overlays, overlays)
def test_overlays_of_different_rows_come_in_any_order(one: dict[str, Any], two: dict[str, Any]) -> None:
    assume(not keys_of(one) & keys_of(two))
    assert written(merge(merge(base(), one), two)) == written(merge(merge(base(), two), one))


@examples(10)
@given(overlays)
def test_an_overlay_takes_no_row_away(overlay: dict[str, Any]) -> None:
    laid = merge(base(), overlay)
    for name in ("gpus", "torch"):
        have = {row.sort_key() for row in getattr(base(), name)}
        assert have <= {row.sort_key() for row in getattr(laid, name)}


# deciding

several_gpus = st.lists(capabilities, min_size=1, max_size=3, unique=True)


def host(gpus: list[Capability], driver: str | None, label: str = "box") -> HostFacts:
    return machine(*map(str, gpus), driver=driver, label=label)


@examples(15)
@given(several_gpus, st.none() | drivers, st.data())
def test_losers_do_not_change_the_choice(gpus: list[Capability], driver: str | None, data: st.DataObject) -> None:
    """What is chosen among all is chosen among any of them where it is; the order of the rest is kept."""
    facts = host(gpus, driver)
    whole = decide(case(facts), everything())
    order = [item.candidate for item in whole.fitting]
    part: list[Candidate] = data.draw(st.lists(st.sampled_from(everything()), max_size=30, unique_by=id))
    some = [item for item in order if item in part]
    assert [item.candidate for item in decide(case(facts), part).fitting] == some
    if order:
        assert choice(decide(case(facts), [*part, order[0]])) is order[0]


@examples(10)
@given(several_gpus, drivers, st.booleans())
def test_the_driver_of_a_near_miss_opens_it(gpus: list[Capability], driver: str, dev: bool) -> None:
    decision = decide(case(host(gpus, driver), dev=dev), everything())
    for miss in decision.near_misses:
        if miss.remedy.driver is None or (miss.remedy.upto and "." not in miss.remedy.driver):
            continue
        without = miss.remedy.option == "--no-dev"
        then = decide(case(host(gpus, miss.remedy.driver), dev=dev and not without), everything())
        opened = next(item for item in then.fitting if item.candidate is miss.candidate)
        rank = Ranking(then.context).key
        assert rank(then.fitting[0]) <= rank(opened)
        if decision.chosen:
            assert rank(opened) < rank(decision.chosen)


@examples(10)
@given(several_gpus, st.none() | drivers, st.booleans())
def test_the_minimum_driver_runs_the_choice_and_no_earlier_one(
    gpus: list[Capability], driver: str | None, dev: bool
) -> None:
    decision = decided(host(gpus, driver), dev=dev)
    lowest = decision.minimum_driver
    assert (lowest is None) == (decision.chosen is None)
    if lowest is None:
        return
    for other in (*DRIVERS, lowest):
        runs = decide(case(host(gpus, other), dev=dev), [choice(decision)]).chosen is not None
        if driver_key(other) < driver_key(lowest):
            assert not runs, other
        elif other == lowest and driver is not None:
            assert runs


def lost_by_a_newer_driver(
    one: list[Capability], other: list[Capability], first: str | None, older: str, newer: str
) -> list[Assessment]:
    """What fits two machines no longer once the second has the newer driver."""
    left = host(one, first, "left")
    before = fitting(pool([left, host(other, older, "right")]))
    after = decide(case(pool([left, host(other, newer, "right")])), everything()).assessments
    return [item for item in after if item.candidate in before and not item.fits]


@examples(10)
@given(several_gpus, several_gpus, st.none() | drivers, drivers, drivers)
def test_a_newer_driver_on_one_machine_of_a_pool_loses_only_what_that_machine_dropped(
    one: list[Capability], other: list[Capability], first: str | None, second: str, third: str
) -> None:
    older, newer = sorted((second, third), key=driver_key)
    for item in lost_by_a_newer_driver(one, other, first, older, newer):
        assert [lead.rule for lead in item.objections] == ["driver-gpu"]
        rows = [base().compute_capability(gpu) for gpu in other]
        assert any(row and row.last_branch and driver_key(newer)[0] > row.last_branch for row in rows)


def test_a_driver_that_drops_the_gpu_of_one_machine_is_lost_for_the_pool() -> None:
    lost = lost_by_a_newer_driver([Capability(8, 6)], [Capability(7, 0)], "580.65.06", "580.65.06", "590.48.01")
    assert lost
    assert {lead.rule for item in lost for lead in item.objections} == {"driver-gpu"}


@pytest.mark.parametrize("dev", [True, False])
@examples(10)
@given(gpus=several_gpus, driver=st.none() | drivers)
def test_no_compiler_asks_for_less(gpus: list[Capability], driver: str | None, dev: bool) -> None:
    facts = replace(host(gpus, driver), libc=None) if dev else host(gpus, driver)
    assert fitting(facts, dev=True).keys() <= fitting(facts, dev=False).keys()
