"""Libraries on torch: what wishes admit, the verdicts of their rule, what compose writes, what files are told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import collect
from cuenv.config.io.profiles import read_profile
from cuenv.core.errors import InputError
from cuenv.core.versions import version
from cuenv.host.facts import HostFacts
from cuenv.host.request import Request, parse
from cuenv.host.select import HostOptions, host_facts
from cuenv.lockfile.file_check import judge_spec, request_of
from cuenv.resolver.candidates import Candidate
from cuenv.resolver.compose import compose
from cuenv.resolver.decision import decide
from cuenv.resolver.explain import hints, summary
from cuenv.resolver.lookup import package
from cuenv.resolver.policy import judgeable_libraries, spec_findings
from cuenv.resolver.requirements import (
    broken,
    covered,
    demands,
    demands_of,
    headers_missing,
    meets,
    pin_demand,
    pip_demand,
    without_broken,
)
from cuenv.resolver.rules import Context, Judge, Verdict, verdict_of
from cuenv.solve.environment_spec import EnvironmentSpec
from cuenv.solve.match_spec import parse_spec
from given import base, candidate, case, choice, decided, everything, machine, spec, verdict

CUDA118 = candidate("2.5.1", "cuda118*")
CUDA126 = candidate("2.7.1", "cuda126*")
CUDA129 = candidate("2.13.0", "cuda129*")
CUDA130 = candidate("2.13.0", "cuda130*")
A100 = machine("8.0", driver="580.65.06")


def judged(item: Candidate, *pip: str, facts: HostFacts = A100, **wishes: Any) -> Verdict:
    return verdict("extensions", item, facts, pip=pip, **wishes)


def of_profile(name: str) -> EnvironmentSpec | None:
    wanted = read_profile(name)
    there = host_facts(HostOptions(glibc="2.35", platform="linux-64", environ={}), base(), wanted)
    decision = decide(Context(facts=there, request=wanted, knowledge=base()))
    return compose(decision, wanted.name) if decision.chosen else None


# what is asked for


@collect(
    ("text", "name", "condition"),
    [
        ("deepspeed", "deepspeed", ""),
        ("DeepSpeed>=0.14.0", "deepspeed", ">=0.14.0"),
        ("flash_attn==2.8.3", "flash-attn", "==2.8.3"),
        ("accelerate[testing]>=1; python_version>'3.9'", "accelerate", ">=1"),
    ],
)
def test_a_requirement_of_pip_is_read(text: str, name: str, condition: str) -> None:
    found = pip_demand(text)
    assert found
    assert (found.name, found.condition) == (name, condition)


@collect("text", ["git+https://example.com/x.git", "x @ https://example.com/x.whl", "./x", "-e .", "-r more.txt", ""])
def test_what_names_no_release_range_is_left_to_who_installs_it(text: str) -> None:
    assert pip_demand(text) is None
    assert demands((), (text,)) == ()
    assert judged(CUDA129, text).outcome == "pass"


@settings(deadline=None)
@given(text=st.text(max_size=30))
def test_whatever_a_requirement_says_it_is_read_or_left(text: str) -> None:
    found = pip_demand(text)
    assert found is None or found.name != "deepspeed"
    assert without_broken(text, ("offload",), base()) == (text, ())
    assert judged(CUDA129, text).outcome in ("pass", "unknown")


@collect(
    ("text", "admits", "refuses"),
    [
        ("deepspeed=0.14", "0.14.2", "0.15"),
        ("deepspeed==0.14.1", "0.14.1", "0.14.2"),
        ("deepspeed=0.14.1", "0.14.1", "0.14.2"),
        ("deepspeed>=0.15", "0.16", "0.1"),
    ],
)
def test_a_conda_spec_is_read_as_conda_means_it(text: str, admits: str, refuses: str) -> None:
    found = pin_demand(parse_spec(text))
    assert found
    assert found.admits(version(admits))
    assert not found.admits(version(refuses))


def test_an_alternative_has_no_like_in_pip() -> None:
    assert pin_demand(parse_spec("deepspeed 0.14.*|0.16.*")) is None


def test_a_wish_meets_the_rows_on_its_releases_and_covered_says_whether_that_is_all() -> None:
    rows = base().extension("bitsandbytes")
    one = pip_demand("bitsandbytes>=0.43,<0.44")
    assert one
    mine = tuple(row for row in rows if meets(one, row))
    assert [row.span() for row in mine] == ["0.43 to below 0.43.3", "0.43.3 to below 0.44"]
    assert covered(one, mine, rows)
    assert not covered(one, mine[1:], rows)
    pinned = pip_demand("xformers>0.0.20,<0.0.23")
    assert pinned
    every = base().extension("xformers")
    assert not covered(pinned, tuple(row for row in every if meets(pinned, row)), every)


# bitsandbytes ships one library for each CUDA release


@collect(
    ("wanted", "item", "outcome"),
    [
        ("bitsandbytes==0.44.1", CUDA126, "reject"),
        ("bitsandbytes==0.45.0", CUDA126, "pass"),
        ("bitsandbytes==0.45.0", CUDA129, "reject"),
        ("bitsandbytes==0.46.1", CUDA129, "pass"),
        ("bitsandbytes==0.47.0", CUDA130, "reject"),
        ("bitsandbytes==0.49.2", CUDA130, "pass"),
        ("bitsandbytes==0.50.2", CUDA129, "pass"),
        ("bitsandbytes>=0.43,<0.44", CUDA118, "pass"),
        ("bitsandbytes>=0.43", CUDA126, "pass"),
        ("bitsandbytes", CUDA130, "pass"),
        ("bitsandbytes==0.30", CUDA129, "unknown"),
    ],
)
def test_bitsandbytes_wants_a_library_for_torchs_cuda(wanted: str, item: Candidate, outcome: str) -> None:
    found = judged(item, wanted)
    assert found.outcome == outcome, found.because


def test_bitsandbytes_says_which_libraries_it_has() -> None:
    found = judged(CUDA129, "bitsandbytes>=0.43,<0.44")
    assert found.because.endswith(
        "has libraries for CUDA 11.7, 11.8, 12.0, 12.1, 12.2, 12.3, 12.4, 12.5, but PyTorch is built with CUDA 12.9"
    )
    assert {source for reason in found.reasons for source in reason.sources} >= {"bnbw"}


@collect(
    ("wanted", "gpu", "outcome"),
    [
        ("bitsandbytes==0.50.2", "6.1", "reject"),
        ("bitsandbytes==0.50.2", "7.0", "pass"),
        ("bitsandbytes==0.46.1", "7.0", "reject"),
        ("bitsandbytes==0.49.2", "6.1", "reject"),
    ],
)
def test_the_library_for_12_9_serves_no_pascal(wanted: str, gpu: str, outcome: str) -> None:
    found = judged(CUDA129, wanted, facts=machine(gpu, driver="575.57.08"))
    assert found.outcome == outcome, found.because
    if outcome == "reject":
        assert f"the host has compute capability {gpu}" in found.because


def test_before_0_40_1_the_runtime_of_the_environment_counts() -> None:
    item = candidate("2.5.1", "cuda120*", "12.1")
    assert judged(item, "bitsandbytes==0.38.1").outcome == "pass"
    item = candidate("2.5.1", "cuda120*", "12.4")
    found = judged(item, "bitsandbytes==0.38.1")
    assert found.outcome == "reject"
    assert "the environment has CUDA 12.4" in found.because


# DeepSpeed compares nvcc with torch


@collect(
    ("wanted", "item", "outcome"),
    [
        ("deepspeed>=0.14.0", CUDA129, "pass"),
        ("deepspeed==0.16.4", candidate("2.7.1", "cuda126*", "12.8"), "pass"),
        ("deepspeed==0.16.4", candidate("2.7.1", "cuda126*", "12.9"), "reject"),
        ("deepspeed==0.17.2", candidate("2.7.1", "cuda126*", "12.9"), "pass"),
        ("deepspeed>=0.14.0", candidate("2.13.0", "cuda130*", "13.0"), "pass"),
    ],
)
def test_deepspeed_tolerates_the_minors_of_its_list(wanted: str, item: Candidate, outcome: str) -> None:
    found = judged(item, wanted)
    assert found.outcome == outcome, found.because


def test_with_cuda_13_nvcc_and_torch_must_be_of_one_minor() -> None:
    others = [item for item in everything() if item.build is CUDA130.build and item.cuda != item.build.cuda]
    assert others
    for item in others:
        found = judged(item, "deepspeed>=0.14.0")
        assert found.outcome == "reject"
        assert f"nvcc {item.cuda}" in found.because
        assert "both must have one CUDA release" in found.because


def test_what_compiles_on_first_use_needs_a_compiler() -> None:
    found = judged(CUDA129, "deepspeed>=0.14.0", dev=False)
    assert found.outcome == "reject"
    assert found.remedy
    assert found.remedy.option == "--dev"
    assert judged(CUDA129, "bitsandbytes", dev=False).outcome == "pass"


def test_the_remedy_leads_to_an_environment() -> None:
    decision = decided(A100, pip=("deepspeed>=0.14.0",), dev=False)
    assert decision.chosen is None
    hint = next(hint for hint in hints(decision) if hint.command.endswith("--dev"))
    assert "compiler" in hint.text
    assert decided(A100, pip=("deepspeed>=0.14.0",)).chosen


def test_what_a_compiler_would_open_is_said_before_what_nothing_would() -> None:
    """The wheel of 2.6.3 is for an older torch, but its source compiles."""
    wanted = {"pip": ("flash-attn==2.6.3",), "pytorch": "2.7"}
    decision = decided(A100, dev=False, **wanted)
    assert decision.chosen is None
    assert any(hint.command.endswith("--dev") for hint in hints(decision))
    assert decided(A100, **wanted).chosen


def test_what_the_tables_leave_open_keeps_its_remedy() -> None:
    """Releases that no row speaks of may suit; the one that is known would with a compiler."""
    rows = tuple(row for row in base().extensions if row.comes == ("source",) and row.below)
    few = replace(base(), extensions=tuple(row for row in rows if row.package == "flash-attn"))
    asked = replace(case(A100, pip=("flash-attn>=2.3",), dev=False), knowledge=few)
    found = verdict_of("extensions", CUDA129, asked)
    assert found.outcome == "unknown"
    assert "a release that they do not list may" in found.because
    assert found.remedy
    assert found.remedy.option == "--dev"


# the others


@pytest.mark.parametrize("gpu", ["7.0", "7.5"])
def test_flash_attention_wants_ampere(gpu: str) -> None:
    found = judged(CUDA129, "flash-attn", facts=machine(gpu, driver="575.57.08"))
    assert found.outcome == "reject"
    assert "compute capability 8.0 or later" in found.because
    assert judged(CUDA129, "flash-attn").outcome == "warn"


@collect("gpu", ["3.7", "6.1", "7.0", "7.5"])
@collect("item", [CUDA118, CUDA129, candidate("2.5.1", "*cuda11.8*")])
def test_what_a_library_serves_does_not_depend_on_who_packs_it(gpu: str, item: Candidate) -> None:
    """The conda package is made of the sources whose limits the rows on wheels name."""
    old = machine(gpu, driver="470.256.02")
    found = verdict("extensions", item, old, packages=("flash-attn",))
    assert found.outcome == "reject"
    assert f"needs compute capability 8.0 or later, but the host has compute capability {gpu}" in found.because
    assert verdict("extensions", item, old, packages=("flash-attn<2",)).outcome == "unknown"  # of which no row speaks
    assert verdict("extensions", CUDA129, machine("8.0"), packages=("flash-attn",)).outcome != "reject"


def test_a_library_of_which_one_row_names_no_limit_is_not_refused_for_its_gpu() -> None:
    rows = base().extension("flash-attn")
    open_ = tuple(row.replaced(serves_from=None) if row is rows[-1] else row for row in rows)
    tables = replace(base(), extensions=(*(row for row in base().extensions if row not in rows), *open_))
    old = replace(case(machine("7.0", driver="470.256.02"), packages=("flash-attn",)), knowledge=tables)
    assert verdict_of("extensions", CUDA118, old).outcome == "unknown"


def test_what_is_known_to_suit_goes_before_what_no_row_vouches_for() -> None:
    """A newer CUDA of which no row says that the library has a build is behind one that is known to have it."""
    new = machine("9.0", driver="590.48.01")
    assert str(choice(decided(new)).build.build) == "cuda130*"
    for packages in (("bitsandbytes",), ("bitsandbytes", "no-such-library"), ("no-such-library", "bitsandbytes")):
        decision = decided(new, packages=packages)
        chosen = choice(decision)
        assert (chosen.build.build, str(chosen.cuda)) == ("cuda129*", "12.9")
        newer = next(item for item in decision.fitting if item.candidate.build.build == "cuda130*")
        lost = decision.lost_on(newer)
        assert lost is not None
        assert lost[0].name == "the requested libraries are known to support it"


def test_a_library_that_no_row_knows_is_said_to_be_unknown() -> None:
    known = judged(CUDA129, "accelerate")
    assert known.outcome == "pass"
    found = judged(CUDA129, "accelerate", "sglang>=0.9", "apex")
    assert (found.outcome, found.because) == (
        "unknown",
        "the cuenv tables do not list which PyTorch and CUDA sglang, apex need",
    )
    conda = verdict("extensions", CUDA129, A100, packages=("sglang", "libcufft-dev"))
    assert (conda.outcome, conda.because) == (
        "unknown",
        "the cuenv tables do not list which PyTorch and CUDA sglang needs",
    )
    assert verdict("extensions", CUDA129, A100, packages=("libcufft-dev",)).outcome == "pass"


def test_a_wheel_that_must_be_compiled_is_said() -> None:
    """The newest release has ready wheels for an older torch alone."""
    ready = candidate("2.8.0", "cuda129*")
    assert judged(ready, "flash-attn").outcome == "pass"
    found = judged(CUDA129, "flash-attn")
    assert found.outcome == "warn"
    assert "no prebuilt wheel of flash-attn works with pytorch 2.13.0 and CUDA 12.9" in found.because
    assert judged(CUDA129, "deepspeed").outcome == "pass"  # it is source alone, and compiles on first use


@collect(
    ("wanted", "outcome"),
    [
        ("xformers==0.0.28.post3", "pass"),
        ("xformers==0.0.27", "reject"),
        ("xformers==0.0.27+cu118", "reject"),
        ("xformers", "pass"),
        ("xformers>=0.0.30", "unknown"),
        ("torchvision==0.20.1", "pass"),
        ("torchvision==0.18.1", "reject"),
        ("triton==3.1.0", "pass"),
        ("triton==3.2.0", "reject"),
        ("peft", "pass"),
        ("transformers>=4.36", "pass"),
        ("numpy", "unknown"),
    ],
)
def test_a_pin_on_a_package_of_torch_is_judged(wanted: str, outcome: str) -> None:
    found = judged(CUDA118, wanted)
    assert found.outcome == outcome, found.because


def test_a_triton_is_judged_only_beside_a_torch_that_requires_one() -> None:
    assert judged(candidate("1.11.0", "cuda111*"), "triton==3.1.0").outcome == "pass"
    assert judged(candidate("2.7.1", "cuda126*"), "triton==3.1.0").outcome == "reject"


def test_a_library_that_compiles_with_its_own_ptxas_must_know_the_gpu() -> None:
    """Triton 3.1 holds the ptxas of CUDA 12.4, which came before Blackwell: torch.compile fails there."""

    def told(gpu: str, *ptxas: str, wanted: str = "triton==3.1.0") -> Verdict:
        rows = tuple(
            row.replaced(ptxas=tuple(map(version, ptxas))) if row.package == "triton" else row
            for row in base().extensions
        )
        asked = replace(
            case(machine(gpu, driver="580.65.06"), pip=(wanted,)), knowledge=replace(base(), extensions=rows)
        )
        return {one.rule: one for one in Judge(asked).verdicts(CUDA118)}["extensions"]

    found = told("12.0", "12.4")
    assert found.outcome == "warn"
    assert found.because.startswith(
        "triton==3.1.0 compiles with the ptxas of CUDA 12.4 that it contains, which does not support"
    )
    assert "compute capability 12.0" in found.because
    assert found.reasons[-1].says == "triton 3.1.0 holds ptxas of CUDA 12.4"
    assert found.reasons[-1].sources
    assert told("9.0", "12.4").outcome == "pass"
    assert told("12.0", "12.4", "12.8").outcome == "pass"  # one of several that it holds is enough
    assert told("12.0").outcome == "pass"  # no row says with what it compiles


def test_a_conda_package_is_judged_by_the_rows_of_its_channel() -> None:
    assert verdict("extensions", CUDA118, A100, packages=("torchvision",)).outcome == "pass"
    assert verdict("extensions", CUDA118, A100, packages=("xformers=0.0.27",)).outcome == "reject"
    assert verdict("extensions", CUDA118, A100, packages=("xformers=0.0.22",)).outcome == "unknown"
    of_channel = candidate("2.3.1", "*cuda12.1*")
    other = candidate("2.5.1", "*cuda11.8*")
    assert verdict("extensions", other, A100, packages=("xformers=0.0.29.post1",)).outcome == "unknown"
    assert verdict("extensions", of_channel, A100, packages=("torchvision=0.18.1",)).outcome == "pass"
    assert verdict("extensions", of_channel, A100, packages=("pytorch::torchvision=0.19.0",)).outcome == "reject"


PINNED = sorted(
    {row.package for row in base().extensions if row.comes == ("conda-forge",) and row.torch and row.releases}
)


@pytest.mark.slow
@collect("package", PINNED)
@collect("driver", ["590.48.01", "535.129.03"], one_in=2)
def test_the_torch_that_is_chosen_is_one_that_builds_of_the_library_exist_for(package: str, driver: str) -> None:
    """Conda builds pin one minor of torch: without a solver the newest PyTorch that has one is chosen."""
    item = choice(decided(machine("8.0", driver=driver, libc="2.35"), packages=(package,)))
    rows = [row for row in base().extension(package) if "conda-forge" in row.comes and row.torch]
    assert any(row.torch and row.torch.admits(item.build.version) and item.build.cuda in row.cuda for row in rows)
    newest = max(row.torch.below for row in rows if row.torch and row.torch.below)
    assert item.build.version.release[:2] == (newest.major, newest.minor - 1)


@collect(
    ("wanted", "gpu", "cuda", "platform", "outcome"),
    [
        ("bitsandbytes==0.45.5", "5.0", "12.8", "linux-64", "reject"),
        ("bitsandbytes==0.45.5", "7.0", "12.8", "linux-64", "pass"),
        ("bitsandbytes==0.46.0", "8.0", "12.9", "linux-64", "reject"),
        ("bitsandbytes==0.46.1", "8.0", "12.9", "linux-64", "pass"),
        ("bitsandbytes==0.47.0", "7.0", "12.9", "linux-64", "pass"),
        ("bitsandbytes==0.47.0", "7.0", "12.9", "linux-aarch64", "reject"),
        ("bitsandbytes==0.47.0", "9.0", "12.9", "linux-aarch64", "pass"),
        ("bitsandbytes==0.45.5", "9.0", "12.9", "linux-aarch64", "unknown"),
    ],
)
def test_the_wheels_of_bitsandbytes_by_cuda_and_platform(
    wanted: str, gpu: str, cuda: str, platform: str, outcome: str
) -> None:
    item = next(
        one for one in everything(platform) if str(one.build.cuda) == "12.9" and one.build.stack == "conda-forge"
    )
    item = replace(item, build=item.build.replaced(cuda=version(cuda)))
    assert verdict("extensions", item, machine(gpu, driver="575.51.03"), pip=(wanted,)).outcome == outcome


def test_builds_of_another_platform_are_none() -> None:
    arm = candidate("2.10.0", "cuda129*", platform="linux-aarch64")
    assert verdict("extensions", CUDA129, A100, packages=("deepspeed=0.18.0",)).outcome == "reject"
    assert verdict("extensions", arm, A100, packages=("deepspeed=0.18.0",)).outcome == "unknown"
    assert verdict("extensions", arm, A100, packages=("flash-attn=2.8.3",)).outcome == "pass"


def test_deepspeed_from_conda_compares_nvcc_with_torch_as_the_one_from_pip() -> None:
    """It compiles further operators on first use, where there is a compiler."""
    case = machine("10.0", driver="590.48.01", libc="2.39")
    item = choice(decided(case, packages=("deepspeed",)))
    assert (str(item.build.version.release[:2]), str(item.cuda), str(item.build.cuda)) == ("(2, 10)", "13.0", "13.0")
    other = next(one for one in everything() if one.build is item.build and str(one.cuda) == "13.1")
    assert verdict("extensions", other, case, packages=("deepspeed",)).outcome != "pass"
    assert verdict("extensions", other, case, packages=("deepspeed",), dev=False).outcome == "pass"


@collect(("wanted", "below"), [("deepspeed==0.14.0", "2.4"), ("deepspeed==0.12.6", "2.4"), ("deepspeed==0.14.1", "3")])
def test_an_old_deepspeed_needs_a_torch_that_still_has_what_it_imports(wanted: str, below: str) -> None:
    item = choice(decided(machine("9.0", driver="525.85.12", libc="2.31"), pip=(wanted,)))
    assert item.build.version < version(below)
    assert (item.build.version >= version("2.4")) is (below == "3")


def test_nothing_is_judged_beside_a_cpu_build() -> None:
    found = judged(candidate("2.13.0", "cpu*"), "deepspeed==0.14.1", cpu=True)
    assert found.outcome == "pass"


@settings(deadline=None)
@given(
    wanted=st.sampled_from(["bitsandbytes", "deepspeed", "xformers", "flash-attn"]), item=st.sampled_from(everything())
)
def test_a_wider_wish_rejects_no_more(wanted: str, item: Candidate) -> None:
    if item.build.cuda is None:
        return
    for row in base().extension(wanted):
        if (
            {"wheel", "source"} & set(row.comes)
            and row.first
            and judged(item, f"{wanted}=={row.first}").outcome == "pass"
        ):
            assert judged(item, wanted).outcome in ("pass", "warn")


# known regressions


def test_the_bad_releases_are_left_out_where_training_offloads() -> None:
    text, reasons = without_broken("deepspeed>=0.14.0", ("offload",), base())
    assert text == "deepspeed>=0.14.0,!=0.14.1,!=0.14.2"
    assert "deepspeedai/DeepSpeed#5538" in reasons[0]
    assert without_broken("deepspeed>=0.14.0", (), base()) == ("deepspeed>=0.14.0", ())
    assert without_broken("deepspeed>=0.14.3", ("offload",), base()) == ("deepspeed>=0.14.3", ())


@collect(
    ("text", "then"),
    [
        ("deepspeed", "deepspeed!=0.14.1,!=0.14.2"),
        ("deepspeed (>=0.14)", "deepspeed (>=0.14,!=0.14.1,!=0.14.2)"),
        ("deepspeed>=0.14; python_version>'3.9'", "deepspeed>=0.14,!=0.14.1,!=0.14.2 ; python_version>'3.9'"),
    ],
)
def test_a_requirement_stays_one(text: str, then: str) -> None:
    changed = without_broken(text, ("offload",), base())[0]
    assert changed == then
    found = pip_demand(changed)
    assert found
    assert broken(found, base()) == ()
    assert without_broken(changed, ("offload",), base()) == (changed, ())


@pytest.mark.parametrize("release", ["0.14.1", "0.14.2"])
def test_a_wish_for_a_bad_release_is_rejected_where_training_offloads(release: str) -> None:
    found = judged(CUDA118, f"deepspeed=={release}", offload="cpu", dev=True)
    assert found.outcome == "reject"
    assert "#5538" in found.because
    assert judged(CUDA118, f"deepspeed=={release}").outcome == "pass"
    assert judged(CUDA118, "deepspeed>=0.14", offload="cpu").outcome == "pass"


def test_a_conda_requirement_gets_the_exclusion_and_keeps_its_guard() -> None:
    decision = decided(A100, packages=("deepspeed>=0.14",), offload="cpu")
    pin = compose(decision, "x").pin("deepspeed")
    assert pin
    assert pin.version == ">=0.14,!=0.14.1,!=0.14.2"
    assert pin.build.startswith("cuda")
    assert any("#5538" in line for line in pin.why)


def test_hints_keep_what_the_profile_leaves_out() -> None:
    wanted = read_profile("zero3-offload")
    facts = machine("8.0", driver="535.129.03")
    commands = [hint.command for hint in hints(decide(Context(facts=facts, request=wanted, knowledge=base())))]
    assert commands
    assert all("!=0.14.1" in command for command in commands)


# environment files


def codes(found: EnvironmentSpec) -> set[str]:
    return {finding.code for finding in spec_findings(found, base())}


@collect(
    ("text", "warned"),
    [("deepspeed>=0.14.0", False), ("deepspeed<0.14.3", True), ("deepspeed==0.14.2", True), ("deepspeed", False)],
)
def test_a_range_whose_newest_release_is_bad_is_a_warning(text: str, warned: bool) -> None:
    found = [item for item in spec_findings(spec("pytorch=2.7.1", pip=(text,)), base()) if item.code == "CU503"]
    assert bool(found) is warned
    for item in found:
        assert item.severity == "warning"
        assert item.fix
        assert codes(spec("pytorch=2.7.1", pip=(item.fix.removeprefix("write "),))).isdisjoint({"CU503"})


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("deepspeed<=0.14.2", "write deepspeed<=0.14.2,!=0.14.1,!=0.14.2 in the pip part"),
        ("deepspeed==0.14.2", "write deepspeed>=0.14.3 in the pip part"),
    ],
)
def test_the_fix_leaves_a_release_to_take(text: str, fix: str) -> None:
    found = [item.fix for item in spec_findings(spec("pytorch=2.7.1", pip=(text,)), base()) if item.code == "CU503"]
    assert found == [fix]


def test_each_missing_header_is_named_with_its_package() -> None:
    lacking = headers_missing(spec("pytorch=2.7.1=cuda126*", "cuda-nvcc", "ninja", pip=("deepspeed",)), base())
    assert {item.what: item.holder for item in lacking} == {
        "cuda_runtime.h": "cuda-cudart-dev",
        "cusparse.h": "libcusparse-dev",
        "cublas_v2.h": "libcublas-dev",
        "cusolverDn.h": "libcusolver-dev",
        "curand.h": "libcurand-dev",
        "gxx": "gxx_linux-64",
    }
    whole = spec("pytorch=2.7.1=cuda126*", "cuda-toolkit", "ninja", "gxx_linux-64", pip=("deepspeed",))
    assert headers_missing(whole, base()) == ()
    assert headers_missing(spec("pytorch", pip=("bitsandbytes", "numpy")), base()) == ()


def test_a_file_without_compiler_is_warned_and_not_refused() -> None:
    theirs = spec("conda-forge::pytorch=2.7.1=cuda126*", pip=("deepspeed>=0.15",))
    found = [item for item in spec_findings(theirs, base()) if item.code == "CU504"]
    assert [item.severity for item in found] == ["warning"]
    assert "nvcc" in found[0].message
    assert judge_spec(theirs, A100, base()) == ()
    assert judgeable_libraries(theirs, base(), nvcc=False) == ((), ())
    assert request_of(theirs, base()).pip == ()


def test_a_file_whose_library_has_no_cuda_for_torch_is_refused() -> None:
    theirs = spec("conda-forge::pytorch=2.7.1=cuda126*", pip=("bitsandbytes==0.44.1",))
    found = judge_spec(theirs, A100, base())
    assert [(item.code, item.severity) for item in found] == [("CU505", "error")]
    assert "CUDA 12.6" in found[0].message
    assert found[0].evidence


def test_only_known_libraries_of_a_file_are_asked_for() -> None:
    theirs = spec("pytorch", "numpy", "torchvision", pip=("peft", "requests"))
    assert [item.name for item in demands_of(theirs, base())] == ["torchvision", "peft"]


# the profiles


@pytest.mark.parametrize("profile", ["minicpm-v25", "zero3-offload"])
def test_a_profile_that_offloads_excludes_the_bad_releases_and_says_why(profile: str) -> None:
    found = of_profile(profile)
    assert found
    assert found.pip == ("deepspeed>=0.14.0,!=0.14.1,!=0.14.2",)
    assert any("#5538" in line for line in found.header)


def test_minicpm_gets_the_transformers_and_the_torch_that_its_code_is_for() -> None:
    """Its code fails from transformers 4.52 on; its own requirements say 4.40.0 and 4.44.2, torch 2.1.2 and 2.2.0."""
    wanted = read_profile("minicpm-v25")
    found = next(item for item in demands(wanted.packages, wanted.pip) if item.name == "transformers")
    assert [text for text in ("4.36.0", "4.40.0", "4.44.2", "4.52.0", "5.6.2") if found.admits(version(text))] == [
        "4.40.0",
        "4.44.2",
    ]
    assert wanted.pytorch
    assert wanted.pytorch.admits(version("2.1.2"))
    assert not wanted.pytorch.admits(version("2.10.0"))


def test_host_memory_stands_in_the_header() -> None:
    found = of_profile("zero3-offload")
    assert found
    assert any("512 GB" in line for line in found.header)


def test_moe_lora_gets_a_torch_that_bitsandbytes_has_a_library_for() -> None:
    wanted = read_profile("moe-lora")
    decision = decided(machine("8.0", driver="580.65.06"), pip=wanted.pip, dev=wanted.dev)
    assert choice(decision).build.cuda in {
        cuda for row in base().extension("bitsandbytes") for cuda in row.cuda if cuda.major >= 12
    } | {version("12.9")}
    older = decided(machine("8.0", driver="580.65.06"), pip=("bitsandbytes<0.45",), dev=False)
    assert choice(older).build.cuda in {version(text) for text in ("11.8", "12.0", "12.1", "12.4")}


def test_jit_dev_has_the_compiler_and_no_library() -> None:
    found = of_profile("jit-dev")
    assert found
    names = {pin.name for pin in found.pins}
    assert names >= {"cuda-nvcc", "ninja", "gxx_linux-64", "libcusparse-dev"}
    assert found.pip == ()


def test_offload_and_host_memory_are_read_strictly() -> None:
    named = {"name": "p", "story": "s"}
    read = parse({**named, "offload": "cpu", "host_memory_gb": 512}, "p")
    assert read == Request(name="p", story="s", offload="cpu", host_memory_gb=512)
    assert parse(named, "p").offload == "none"
    for bad in ({"offload": "disk"}, {"offload": True}, {"host_memory_gb": "512"}, {"host_memory_gb": -1}):
        with pytest.raises(InputError, match=next(iter(bad))):
            parse({**named, **bad}, "p")


# the pages


def test_the_page_of_deepspeed() -> None:
    page = package("deepspeed", base())
    text = "\n".join(entry.says for entry in page.entries)
    assert {entry.table for entry in page.entries} == {"twins", "extensions", "regressions"}
    for word in ("cusparse.h", "0.14.1, 0.14.2", "#5538", "12.9"):
        assert word in text


def test_the_summary_tells_an_unknown() -> None:
    lines = summary(decided(A100, pip=("bitsandbytes==0.30",)))
    assert any("do not list which PyTorch and CUDA bitsandbytes==0.30 needs" in line for line in lines)


def test_rows_serve_only_capabilities_that_exist() -> None:
    known = {row.capability for row in base().generations}
    assert {row.serves_from for row in base().extensions if row.serves_from} <= known
