"""Versions, wishes, and the arithmetic of compute capabilities as laws."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from cases import collect
from cuenv.core.errors import ExitCode, UsageError
from cuenv.core.versions import (
    Capability,
    DeviceCode,
    Jit,
    Native,
    Target,
    arch_list,
    check_driver,
    cuda_in_local,
    driver_key,
    minor,
    parse_arch_list,
    parse_version_spec,
    reaches,
    releases_named,
    satisfies,
    support_of,
    target_for,
    version,
    version_or_none,
    within,
)

FACTS = Path(__file__).resolve().parents[3] / "shared" / "facts" / "gpus.yaml"
TEGRA = {Capability.parse(text) for text in ("5.3", "6.2", "7.2", "8.7", "10.1")}
THOR = {Capability(10, 1), Capability(11, 0)}

capabilities = st.builds(Capability, st.integers(3, 13), st.integers(0, 9))
ordinary = capabilities.filter(lambda item: item not in TEGRA | THOR)
suffixes = st.sampled_from(["", "a", "f"])
targets = st.builds(Target, capabilities, suffixes)
releases = st.lists(st.integers(0, 30), min_size=1, max_size=3).map(lambda parts: ".".join(map(str, parts)))


@st.composite
def codes(draw: st.DrawFn) -> DeviceCode:
    """Code that the notation of TORCH_CUDA_ARCH_LIST can hold: PTX beside machine code of the same target."""
    sass = tuple(draw(st.lists(targets, min_size=1, max_size=6, unique=True)))
    ptx = tuple(target for target in sass if draw(st.booleans()))
    return DeviceCode(sass=sass, ptx=ptx, isa=version("12.9") if ptx else None)


def code(text: str) -> DeviceCode:
    return parse_arch_list(text, version("12.9"))


def runs(target: str, device: str) -> bool:
    return Target.parse(target).sass_runs_on(Capability.parse(device))


# capabilities and targets as text


@given(capabilities)
def test_a_capability_reads_back(item: Capability) -> None:
    assert Capability.parse(str(item)) == item


@given(targets)
def test_a_target_reads_back(item: Target) -> None:
    assert Target.parse(str(item)) == item


@collect("text", ["", "8", "86", "8.", ".6", "8.6.1", "0.8", "08.6", "8.10", "8,6", " 8.6", "8.6\n", "x"])
def test_another_form_is_no_capability(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(text))):
        Capability.parse(text)
    with pytest.raises(ValueError, match=re.escape(repr(text))):
        Target.parse(text)


def test_only_plain_digits_are_digits() -> None:
    for text in ("\u0668.\u0666", "\uff18.6"):
        with pytest.raises(ValueError, match="expected"):
            Capability.parse(text)
    with pytest.raises(ValueError, match="expected"):
        check_driver("\uff15\uff13\uff15.129.03")
    with pytest.raises(UsageError):
        parse_version_spec("\uff12.5", what="--pytorch")


@collect("text", ["9.0b", "9.0aa", "9.0+PTX", "90a"])
def test_another_suffix_is_no_target(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        Target.parse(text)


def test_capabilities_order_by_number() -> None:
    texts = ["12.0", "8.9", "10.3", "9.0", "8.0", "12.1", "7.5"]
    assert [str(item) for item in sorted(map(Capability.parse, texts))] == [
        *("7.5", "8.0", "8.9", "9.0", "10.3", "12.0", "12.1"),
    ]


# machine code


@given(ordinary, ordinary)
def test_machine_code_runs_on_its_major_from_its_minor_on(own: Capability, device: Capability) -> None:
    expected = own.major == device.major and device.minor >= own.minor
    assert Target(own).sass_runs_on(device) == expected


@given(targets)
def test_everything_runs_on_its_own_capability(target: Target) -> None:
    assert target.sass_runs_on(target.capability)
    assert target.ptx_runs_on(target.capability)


@given(capabilities, capabilities)
def test_architecture_code_runs_on_exactly_its_own(own: Capability, device: Capability) -> None:
    same_chip = own in THOR and device in THOR
    assert Target(own, "a").sass_runs_on(device) == (own == device or same_chip)
    assert Target(own, "a").ptx_runs_on(device) == (own == device or same_chip)


@given(ordinary, ordinary)
def test_family_code_stays_in_its_family(own: Capability, device: Capability) -> None:
    family = Target(own, "f")
    assert family.sass_runs_on(device) == Target(own).sass_runs_on(device)
    assert family.ptx_runs_on(device) == family.sass_runs_on(device)


@given(capabilities, capabilities, capabilities)
def test_running_on_is_transitive(one: Capability, two: Capability, three: Capability) -> None:
    if Target(one).sass_runs_on(two) and Target(two).sass_runs_on(three):
        assert Target(one).sass_runs_on(three)


@given(targets, capabilities)
def test_what_runs_as_machine_code_is_of_one_major_or_one_chip(target: Target, device: Capability) -> None:
    if target.sass_runs_on(device):
        assert target.capability.major == device.major or {target.capability, device} <= THOR


@pytest.mark.parametrize("tegra", sorted(TEGRA, key=str))
@given(other=capabilities)
def test_a_tegra_chip_and_its_desktop_major_do_not_share_code(tegra: Capability, other: Capability) -> None:
    if other != tegra and not {other, tegra} <= THOR:
        assert not Target(tegra).sass_runs_on(other)
        assert not Target(other).sass_runs_on(tegra)


@collect(
    ("target", "device", "expected"),
    [
        ("8.6", "8.9", True),
        ("8.0", "8.6", True),
        ("8.0", "8.9", True),
        ("8.6", "8.8", True),
        ("12.0", "12.1", True),
        ("10.0", "10.3", True),
        ("8.9", "8.0", False),
        ("8.9", "8.6", False),
        ("9.0", "10.0", False),
        ("10.0", "12.0", False),
        ("10.3", "10.0", False),
        ("9.0a", "9.0", True),
        ("10.0a", "10.3", False),
        ("10.0f", "10.3", True),
        ("12.0f", "12.1", True),
        ("10.1", "11.0", True),
        ("11.0", "10.1", True),
        ("10.0", "10.1", False),
        ("8.0", "8.7", False),
        ("8.7", "8.9", False),
    ],
)
def test_examples_of_the_programming_guide(target: str, device: str, expected: bool) -> None:
    assert runs(target, device) is expected


TORCH = {
    "5.0": "5.0 5.2",
    "5.2": "5.2",
    "5.3": "5.3",
    "6.0": "6.0 6.1",
    "6.1": "6.1",
    "6.2": "6.2",
    "7.0": "7.0 7.5",
    "7.2": "7.2",
    "7.5": "7.5",
    "8.0": "8.0 8.6 8.8 8.9",
    "8.6": "8.6 8.8 8.9",
    "8.7": "8.7",
    "8.9": "8.9",
    "9.0": "9.0",
    "10.0": "10.0 10.3 10.7",
    "10.1": "10.1 11.0",
    "10.3": "10.3 10.7",
    "11.0": "10.1 11.0",
    "12.0": "12.0 12.1",
    "12.1": "12.1",
}
"""On which devices code runs, by the table that torch 2.11 to 2.13 uses itself, over the capabilities there are."""


@collect("own", TORCH)
def test_the_table_of_torch(own: str) -> None:
    devices = [*TORCH, "8.8", "10.7"]
    assert {device for device in devices if runs(own, device)} == set(TORCH[own].split())


@pytest.mark.records
def test_the_table_of_torch_is_the_collected_one() -> None:
    if not FACTS.exists():
        pytest.skip(f"no collected facts at {FACTS}")
    rules = yaml.safe_load(FACTS.read_text())["binary_rules"]
    table = next(rule["table_before_cuda_13_2"] for rule in rules if "table_before_cuda_13_2" in rule)
    assert set(table) == set(TORCH)
    for own, words in table.items():
        named = re.findall(r"\d+\.\d+", words.split("(not")[0].split("except")[0])
        barred = re.findall(r"\d+\.\d+", words.split("except")[1]) if "except" in words else []
        plain = {item for item in named if "and up" not in words}
        assert plain <= set(TORCH[own].split()) | {own}, own
        assert not set(barred) & set(TORCH[own].split()), own


# PTX


@given(capabilities, capabilities)
def test_ptx_runs_on_every_later_capability(own: Capability, device: Capability) -> None:
    assert Target(own).ptx_runs_on(device) == (device >= own)


@given(codes(), capabilities)
def test_service_is_native_before_jit_before_no(build: DeviceCode, device: Capability) -> None:
    service = support_of(build, device)
    native = [target for target in build.sass if target.sass_runs_on(device)]
    jit = [target for target in build.ptx if target.ptx_runs_on(device)]
    if native:
        assert service == Native(max(native))
    elif jit:
        assert service == Jit(max(jit), build.isa)
    else:
        assert service is None


@given(codes(), codes(), capabilities)
def test_more_code_never_serves_worse(one: DeviceCode, other: DeviceCode, device: Capability) -> None:
    both = DeviceCode(sass=one.sass + other.sass, ptx=one.ptx + other.ptx, isa=version("12.9"))
    rank = [type(None), Jit, Native]
    assert rank.index(type(support_of(both, device))) >= rank.index(type(support_of(one, device)))


def test_conda_forge_serves_a_later_card_by_jit_only_from_its_ptx() -> None:
    build = code("5.0;6.0;7.0;7.5;8.0;8.6;9.0;10.0;12.0+PTX")
    assert support_of(build, Capability(8, 9)) == Native(Target(Capability(8, 6)))
    assert support_of(build, Capability(13, 0)) == Jit(Target(Capability(12, 0)), version("12.9"))
    assert support_of(build, Capability(11, 0)) is None
    assert support_of(build, Capability(3, 7)) is None


# the notation of TORCH_CUDA_ARCH_LIST


@given(codes())
def test_an_arch_list_reads_back(build: DeviceCode) -> None:
    assert parse_arch_list(arch_list(build), build.isa) == build


@given(codes())
def test_blanks_and_semicolons_part_alike(build: DeviceCode) -> None:
    text = arch_list(build)
    assert parse_arch_list(text.replace(";", " "), build.isa) == parse_arch_list(f" {text}; ", build.isa)


@collect(
    ("device", "target"), [("8.9", "8.6"), ("8.6", "8.6"), ("8.0", "8.0"), ("7.5", "7.0"), ("8.7", None), ("6.1", None)]
)
def test_what_to_compile_for_is_the_device_or_the_nearest_that_runs_there(device: str, target: str | None) -> None:
    able = map(Capability.parse, ("8.0", "8.6", "7.0"))
    assert target_for(Capability.parse(device), able) == (Capability.parse(target) if target else None)


def test_a_range_holds_its_first_and_not_what_it_lies_below() -> None:
    one, two, three = map(version, ("1", "2", "3"))
    assert [within(item, two, three) for item in (one, two, three)] == [False, True, False]
    assert [within(item, None, two) for item in (one, two)] == [True, False]
    assert [within(item, two, None) for item in (one, two)] == [False, True]
    assert within(one, None, None)


def test_without_ptx_there_is_no_isa() -> None:
    assert parse_arch_list("8.0;8.6", version("12.9")).isa is None
    assert parse_arch_list("8.0;8.6+PTX", version("12.9")).isa == version("12.9")
    assert parse_arch_list("", version("12.9")) == DeviceCode(sass=())


@collect("text", ["8.0,8.6", "Ampere", "8.0;x", "+PTX", "8.0+ptx"])
def test_another_form_is_no_arch_list(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_arch_list(text, None)


# versions and drivers


@given(releases)
def test_versions_compare_as_packaging_does(text: str) -> None:
    assert version(text) == Version(text)
    assert minor(version(text)).release == (*Version(text).release, 0)[:2]


@collect("text", ["", "x", "1..2", "12.x", "1.2 3"])
def test_what_is_not_a_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a version"):
        version(text)
    assert version_or_none(text) is None


def test_the_local_part_of_a_torch_names_its_cuda() -> None:
    assert version_or_none("") is version_or_none(None) is None
    assert version_or_none("2.5") == version("2.5")
    found = {text: str(cuda_in_local(text)) for text in ("2.5.1+cu124", "1.7.1+cu92", "2.9+cu130", "2.5.1+cpu", "2.5")}
    assert list(found.values()) == ["12.4", "9.2", "13.0", "None", "None"]


@collect("text", ["535.129.03", "550.144.03", "570.26", "535", "470.129.06", "418.87.00.01"])
def test_the_text_of_a_driver_is_kept(text: str) -> None:
    assert check_driver(text) == text


@collect("text", ["", "v535", "535.129.03-0ubuntu", "12", "5.35", "535.129.03\n", "535..1", "99999"])
def test_what_is_not_a_driver_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(text))):
        check_driver(text)


@given(st.lists(st.tuples(st.integers(100, 999), st.integers(0, 999), st.integers(0, 99)), min_size=2, max_size=5))
def test_drivers_order_by_number_and_not_by_text(parts: list[tuple[int, int, int]]) -> None:
    texts = [f"{branch}.{middle}.{last:02}" for branch, middle, last in parts]
    assert sorted(map(driver_key, texts)) == sorted(parts)
    assert driver_key("525.60.13") < driver_key("525.105.17")


@collect(
    ("driver", "lowest", "expected"),
    [
        ("525.60.13", "525.60.13", True),
        ("525.60.12", "525.60.13", False),
        ("526", "525.60.13", True),
        ("524", "525.60.13", False),
        ("525", "525.60.13", None),
        ("525.60", "525.60.13", None),
        ("525.61", "525.60.13", True),
        ("525", "525.0", True),
        ("525.60", "525.60.00", True),
    ],
)
def test_a_branch_reaches_its_own_first_release_and_may_reach_a_later_one(
    driver: str, lowest: str, expected: bool | None
) -> None:
    assert reaches(driver, lowest) is expected


# wishes


@given(releases, releases)
def test_a_prefix_admits_what_begins_with_it(request: str, candidate: str) -> None:
    made = parse_version_spec(request, what="--pytorch")
    assert made.admits(Version(candidate)) == SpecifierSet(f"=={request}.*").contains(candidate)
    assert parse_version_spec(f"{request}.*", what="--pytorch").admits(Version(candidate)) == made.admits(
        Version(candidate)
    )
    assert parse_version_spec(f"={request}", what="--pytorch") == made


@given(releases, releases, st.sampled_from(["==", ">=", "<", "<=", ">", "!="]))
def test_a_condition_means_what_packaging_says(request: str, candidate: str, operator: str) -> None:
    text = f"{operator}{request}"
    made = parse_version_spec(text, what="--cuda")
    assert made.admits(Version(candidate)) == SpecifierSet(text).contains(candidate, prereleases=True)
    assert str(made) == text


conditions = st.lists(
    st.tuples(
        st.sampled_from(["==", ">=", "<", "<=", ">", "!=", "~=", "==="]),
        releases,
        st.sampled_from(["", "", "", ".*", "rc1", ".post1", "+cu121"]),
        st.sampled_from(["", " "]),
    ).map(lambda parts: f"{parts[0]}{parts[3]}{parts[1]}{parts[2]}"),
    max_size=3,
).map(",".join)
forms = st.tuples(releases, st.sampled_from(["", "", "", "rc1", ".dev0", ".post1", "+cu121"])).map("".join)


@given(conditions, forms)
def test_a_plain_condition_is_read_as_packaging_reads_it(condition: str, candidate: str) -> None:
    """Also what is no condition at all: it is refused by both."""
    try:
        expected = SpecifierSet(condition)
    except ValueError:
        with pytest.raises(ValueError, match=r"\w"):
            satisfies(Version(candidate), condition)
        with pytest.raises(ValueError, match=r"\w"):
            releases_named(condition)
        return
    assert satisfies(Version(candidate), condition) is expected.contains(candidate, prereleases=True)
    assert set(releases_named(condition)) == {item.version for item in expected}


def test_the_three_kinds_of_wish() -> None:
    assert parse_version_spec("2.5", what="x").admits(version("2.5.1"))
    assert not parse_version_spec("2.5", what="x").admits(version("2.50.1"))
    assert not parse_version_spec("==2.5", what="x").admits(version("2.5.1"))
    assert parse_version_spec("==2.5.1", what="x").admits(version("2.5.1"))
    assert parse_version_spec(">=2.4,<2.6", what="x").admits(version("2.5.1"))
    assert not parse_version_spec(">=2.4,<2.6", what="x").admits(version("2.6.0"))


def test_a_range_admits_the_release_candidates_within() -> None:
    assert parse_version_spec(">=2.4,<2.6", what="x").admits(version("2.5.0rc1"))
    assert not parse_version_spec(">=2.4,<2.6", what="x").admits(version("2.4.0rc1"))


def test_a_wish_has_at_most_200_characters() -> None:
    """The interpreter would refuse to read thousands of digits as a number."""
    assert parse_version_spec(f"2.{'5' * 198}", what="x").prefix == (2, int("5" * 198))
    with pytest.raises(UsageError):
        parse_version_spec(f"2.{'5' * 199}", what="x")


@collect(
    ("text", "hint"),
    [
        ("2.5.1+cu121", "cuenv resolve --pytorch 2.5.1 --cuda 12.1"),
        ("2.5.1+cpu", "cuenv resolve --pytorch 2.5.1 --cpu"),
        ("2.5.1+rocm6.2", "cuenv resolve --pytorch 2.5.1"),
        ("v2.5", "cuenv resolve --pytorch 2.5"),
    ],
)
def test_a_version_as_pip_writes_it_is_answered_with_how_it_is_asked_for(text: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_version_spec(text, what="--pytorch")
    assert caught.value.exit == ExitCode.USAGE
    assert repr(text) in caught.value.message
    assert caught.value.hint == hint


@collect(
    ("what", "text", "meant"), [("--cuda", "cu121", "12.1"), ("--cuda", "cuda12", "12"), ("--python", "py310", "3.10")]
)
def test_a_nickname_of_a_version_is_answered_with_the_version(what: str, text: str, meant: str) -> None:
    with pytest.raises(UsageError, match=f"did you mean {meant}") as caught:
        parse_version_spec(text, what=what)
    assert caught.value.hint == f"cuenv resolve {what} {meant}"


@collect("text", ["", " ", "x", "2.5x", "=>2.5", "2.5 || 2.6", "latest", "\x1b[31m2.5", "9" * 5000])
def test_what_is_not_a_version_spec_is_wrong_usage(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_version_spec(text, what="--pytorch")
    assert caught.value.exit == ExitCode.USAGE
    assert "--pytorch" in caught.value.message
    assert caught.value.message.isprintable()
    assert caught.value.hint == "write a prefix (2.5), an exact version (==2.5.1) or a range ('>=2.4,<2.6')"
