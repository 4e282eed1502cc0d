"""Each rule's verdicts on facts made by hand: the outcome, the numbers in the sentence, the remedy."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from packaging.version import Version

from cases import collect
from cuenv.core.versions import Capability, driver_key, parse_arch_list, version
from cuenv.host.facts import Driver, Gap, Gpu, Libc
from cuenv.host.request import pool
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.io.load import load_guidance
from cuenv.knowledge.requirement import Requirement
from cuenv.knowledge.rows import WHEELS, LibrarySupport
from cuenv.resolver.candidates import Candidate, candidates_of
from cuenv.resolver.engine import rule as mark
from cuenv.resolver.rules import RULES, Judge, Rule, Verdict, inferred, verdict_of
from cuenv.resolver.rules.device import jit_count
from cuenv.resolver.rules.driver import minimum_driver_of
from cuenv.resolver.rules.libraries import program_verdict, range_for, younger
from cuenv.resolver.verdict import Remedy, named_capability, worst
from given import base, candidate, capabilities, case, desktop, drivers, everything, machine, options, verdict
from thorough import examples

CUDA118 = candidate("2.5.1", "cuda118*")
CUDA126 = candidate("2.7.1", "cuda126*")
CUDA129 = candidate("2.13.0", "cuda129*")
CUDA130 = candidate("2.13.0", "cuda130*")
CPU = candidate("2.13.0", "cpu*")
LABELLED = candidate("2.5.1", "*cuda11.8*")


def built(item: Candidate, **changes: object) -> Candidate:
    """The candidate with another torch build."""
    return replace(item, build=item.build.replaced(**changes))


def says(found: Verdict, *words: str) -> None:
    for word in words:
        assert word in found.because, found.because


def grounded(found: Verdict) -> set[str]:
    return {source for reason in found.reasons for source in reason.sources}


# the wishes


def test_a_build_is_for_its_platform() -> None:
    assert verdict("platform", CUDA129, machine("8.9")).outcome == "pass"
    found = verdict("platform", CUDA129, machine("9.0", platform="linux-aarch64"))
    assert found.outcome == "reject"
    says(found, "linux-64", "linux-aarch64")


@collect(
    ("item", "cpu", "outcome"),
    [(CPU, False, "reject"), (CPU, True, "pass"), (CUDA129, False, "pass"), (CUDA129, True, "reject")],
)
def test_a_cpu_build_is_taken_when_it_is_asked_for_and_only_then(item: Candidate, cpu: bool, outcome: str) -> None:
    found = verdict("cpu", item, machine("8.9"), cpu=cpu)
    assert found.outcome == outcome
    assert found.reasons[0].kind == "wish"


@collect(
    ("key", "asked", "outcome"),
    [
        ("stack", "conda-forge", "pass"),
        ("stack", "pytorch", "reject"),
        ("pytorch", "2.13", "pass"),
        ("pytorch", "==2.13.0", "pass"),
        ("pytorch", "2.5", "reject"),
        ("pytorch", ">=2.12,<2.14", "pass"),
        ("cuda", "12", "pass"),
        ("cuda", "12.9", "pass"),
        ("cuda", "13.0", "reject"),
        ("python", "3.12", "pass"),
        ("python", "3.12.4", "pass"),
        ("python", "==3.12.4", "pass"),
        ("python", ">=3.12.4,<3.13", "pass"),
        ("python", ">3.12", "pass"),
        ("python", "<3.12.4", "pass"),
        ("python", "<=3.12", "pass"),
        ("python", "!=3.12.4", "pass"),
        ("python", "<3.12", "reject"),
        ("python", ">=3.13", "reject"),
        ("python", "3.11", "reject"),
        ("python", "==3.11.9", "reject"),
    ],
)
def test_a_wish_is_met_or_named(key: str, asked: str, outcome: str) -> None:
    found = verdict("wish", CUDA129, machine("8.9"), **{key: asked})
    assert CUDA129.python == "3.12"
    assert found.outcome == outcome
    if outcome == "reject":
        says(found, f"--{key} {asked}")
        assert found.remedy is None


# the GPU


def test_without_a_gpu_the_reasons_of_the_probe_are_the_grounds() -> None:
    bare = replace(machine(), gaps=(Gap("driver", "nvml", "libnvidia-ml.so.1 was not found on the library paths"),))
    found = verdict("gpu", CUDA129, bare)
    assert found.outcome == "reject"
    says(found, "box")
    assert "libnvidia-ml.so.1 was not found on the library paths" in {reason.says for reason in found.reasons}
    assert verdict("gpu", CPU, bare, cpu=True).outcome == "pass"


def test_a_gpu_of_unknown_capability_is_unknown_and_named() -> None:
    facts = replace(machine("8.9"), gpus=(Gpu(index=0, name="NVIDIA X1", capability=None),))
    found = verdict("gpu", CUDA129, facts)
    assert found.outcome == "unknown"
    says(found, "NVIDIA X1")
    beside = replace(facts, gpus=(*machine("8.9").gpus, *facts.gpus))
    assert verdict("gpu", CUDA129, beside) == found  # a GPU that is known does not hide one that is not


# driver and GPU


def test_a_driver_drives_a_gpu_from_its_first_branch_on() -> None:
    found = verdict("driver-gpu", CUDA129, machine("12.0", driver="560.35.03"))
    assert found.outcome == "reject"
    says(found, "570", "12.0", "560.35.03")
    assert found.remedy == Remedy(text="driver 570.26 or later", driver="570.26")
    assert {"derived", "torchnote"} <= grounded(found)
    assert verdict("driver-gpu", CUDA129, machine("12.0", driver="570.26")).outcome == "pass"


def test_a_driver_drives_a_gpu_up_to_its_last_branch() -> None:
    found = verdict("driver-gpu", CUDA129, machine("6.1", driver="590.48.01"))
    assert found.outcome == "reject"
    says(found, "580", "6.1", "590.48.01")
    assert found.remedy
    assert (found.remedy.driver, found.remedy.upto) == ("580", True)
    assert verdict("driver-gpu", CUDA129, machine("6.1", driver="580.95.05")).outcome == "pass"


@collect(
    ("gpu", "level", "outcome"),
    [
        ("12.0", "12.8", "pass"),
        ("12.0", "12.7", "reject"),
        ("12.0", "12.6", "reject"),
        ("6.1", "13.0", "pass"),
        ("6.1", "13.1", "reject"),
        ("8.9", "99.0", "unknown"),
        ("8.9", "12.2", "pass"),
    ],
)
def test_a_driver_known_by_its_cuda_level_alone_is_judged_by_the_first_branch_of_that_level(
    gpu: str, level: str, outcome: str
) -> None:
    found = verdict("driver-gpu", CUDA129, machine(gpu, level=level))
    assert found.outcome == outcome
    if outcome == "reject":
        says(found, level)


def test_an_unknown_driver_is_unknown_and_the_branch_it_needs_is_said() -> None:
    found = verdict("driver-gpu", CUDA129, machine("12.0"))
    assert found.outcome == "unknown"
    says(found, "570")


def test_a_capability_without_a_row_is_unknown() -> None:
    found = verdict("driver-gpu", CUDA129, machine("13.9", driver="580.65.06"))
    assert found.outcome == "unknown"
    says(found, "13.9")


V100 = machine("7.0", driver="535.183.01", label="volta")
RTX5090 = machine("12.0", driver="575.57.08", label="blackwell")


def test_a_pool_is_judged_machine_by_machine() -> None:
    together = pool([V100, RTX5090])
    assert together.driver
    assert together.driver.version == "535.183.01"
    assert verdict("driver-gpu", CUDA129, together).outcome == "pass"
    crossed = pool([machine("7.0", driver="575.57.08", label="volta"), replace(RTX5090, driver=V100.driver)])
    found = verdict("driver-gpu", CUDA129, crossed)
    assert found.outcome == "reject"
    says(found, "blackwell", "535.183.01", "570")
    assert "volta" not in found.because


def test_every_machine_of_a_pool_that_is_too_old_is_named() -> None:
    together = pool([machine("12.0", driver=text, label=text) for text in ("550.144.03", "560.35.03", "575.57.08")])
    found = verdict("driver-gpu", CUDA129, together)
    says(found, "550.144.03", "560.35.03")
    assert "575" not in found.because
    assert found.remedy
    assert found.remedy.driver == "570.26"


def test_objections_in_both_directions_have_no_common_remedy() -> None:
    mixed = pool([machine("6.1", driver="590.48.01", label="old"), machine("12.0", driver="550.144.03", label="new")])
    found = verdict("driver-gpu", CUDA129, mixed)
    assert found.outcome == "reject"
    assert found.remedy is None


# the driver's floor


@collect(
    ("item", "driver", "outcome", "floor"),
    [
        (CUDA118, "450.80.02", "pass", "450.80.02"),
        (CUDA118, "450.80.01", "reject", "450.80.02"),
        (CUDA129, "470.129.06", "reject", "525.60.13"),
        (CUDA129, "525.60.13", "pass", "525.60.13"),
        (CUDA129, "525.60.12", "reject", "525.60.13"),
        (CUDA129, "525.105.17", "pass", "525.60.13"),
        (CUDA130, "575.57.08", "reject", "580.65.06"),
        (CUDA130, "580.65.06", "pass", "580.65.06"),
        (CUDA130, "615.31", "pass", "580.65.06"),
    ],
)
def test_the_floor_is_that_of_the_major(item: Candidate, driver: str, outcome: str, floor: str) -> None:
    found = verdict("driver-floor", item, machine("8.0", driver=driver))
    assert found.outcome == outcome
    says(found, driver, floor)
    if outcome == "reject":
        assert found.remedy
        assert found.remedy.driver == floor
        assert "rn1341" in grounded(found)


@collect(("driver", "item"), [("580", CUDA130), ("525", CUDA129), ("450.80", CUDA118)])
def test_a_branch_without_its_release_may_be_on_either_side(driver: str, item: Candidate) -> None:
    found = verdict("driver-floor", item, machine("8.0", driver=driver))
    assert found.outcome == "unknown"
    assert found.remedy
    says(found, driver, found.remedy.driver or "-")
    assert verdict("driver-floor", item, machine("8.0", driver="530")).outcome != "unknown"


@collect(
    ("item", "level", "outcome"),
    [(CUDA129, "11.4", "reject"), (CUDA129, "12.0", "pass"), (CUDA130, "12.9", "reject"), (CUDA130, "13.0", "pass")],
)
def test_a_cuda_level_alone_is_compared_by_its_major(item: Candidate, level: str, outcome: str) -> None:
    found = verdict("driver-floor", item, machine("8.0", level=level))
    assert found.outcome == outcome
    says(found, level)


def test_before_11_the_driver_of_the_minor_is_a_hard_floor() -> None:
    cuda102 = replace(candidate("1.12.1", "cuda112*"), cuda=version("10.2"))
    assert verdict("driver-floor", cuda102, machine("7.0", driver="418.39")).outcome == "reject"
    assert verdict("driver-floor", cuda102, machine("7.0", driver="440.33")).outcome == "pass"
    assert verdict("driver-floor", cuda102, machine("7.0", level="10.1")).outcome == "reject"
    assert verdict("driver-floor", cuda102, machine("7.0", level="10.2")).outcome == "pass"


def test_an_unknown_driver_leaves_the_floor_unknown_and_names_it() -> None:
    found = verdict("driver-floor", CUDA130, machine("8.0"))
    assert found.outcome == "unknown"
    says(found, "580.65.06")
    assert verdict("driver-floor", CPU, machine("8.0")).outcome == "pass"


def test_a_minimum_driver_is_inferred_where_the_row_of_the_gpu_that_sets_it_is() -> None:
    assert inferred(CUDA118, case(machine("8.9")))  # 520.61.05, of low confidence; CUDA 11 needs 450.80.02
    assert inferred(CUDA118, case(machine("8.0", "8.9")))
    assert not inferred(CUDA129, case(machine("8.9")))  # 525.60.13, which CUDA 12 needs
    assert not inferred(CUDA118, case(machine("8.0")))


def test_a_cuda_without_a_floor_is_unknown() -> None:
    found = verdict("driver-floor", replace(CUDA130, cuda=version("14.0")), machine("8.0", driver="580.65.06"))
    assert found.outcome == "unknown"
    says(found, "14.0")


@collect(
    ("gpu", "driver", "outcome"),
    [
        ("10.3", "575.57.08", "reject"),
        ("10.3", "580.65.06", "reject"),
        ("10.3", "580.82.07", "pass"),
        ("10.3", "580", "unknown"),
        ("12.1", "580.82.07", "reject"),
        ("12.1", "580.94.13", "pass"),
        ("12.1", "590.48.01", "pass"),
        ("12.0", "570.26", "pass"),
        ("9.0", "520.61.05", "unknown"),  # inferred from the first toolkit, read in no list
        ("9.0", "525.60.13", "pass"),
        ("9.0", "515.65.01", "reject"),
    ],
)
def test_the_first_driver_of_a_chip_may_be_a_later_one_of_its_branch(gpu: str, driver: str, outcome: str) -> None:
    found = verdict("driver-gpu", CUDA129, machine(gpu, driver=driver))
    assert found.outcome == outcome, found.because
    assert ("low confidence" in found.because) == (gpu == "9.0" and outcome != "pass")


def test_a_driver_known_by_its_branch_alone_may_be_older_than_the_first_that_supports_a_gpu() -> None:
    found = verdict("driver-gpu", CUDA129, machine("12.1", driver="580"))
    assert found.outcome == "unknown"
    assert "only a branch number" in found.because
    assert "needs driver 580.94.13 or later" in found.because
    assert found.remedy
    assert found.remedy.driver == "580.94.13"


def test_a_gpu_that_drivers_dropped_stays_dropped_in_branches_after_those_of_the_tables() -> None:
    beyond = f"{max(row.number for row in base().branches) + 30}.10"
    dropped = verdict("driver-gpu", CUDA129, machine("7.0", driver=beyond))
    assert (dropped.outcome, dropped.remedy and dropped.remedy.driver) == ("reject", "580")
    assert verdict("driver-gpu", CUDA129, machine("9.0", driver=beyond)).outcome == "unknown"


def test_a_level_alone_does_not_tell_a_driver_within_its_branch() -> None:
    assert verdict("driver-gpu", CUDA129, machine("10.3", level="12.9")).outcome == "reject"
    assert verdict("driver-gpu", CUDA129, machine("10.3", level="13.0")).outcome == "unknown"
    assert verdict("driver-gpu", CUDA129, machine("10.3", level="13.1")).outcome == "pass"


def test_the_machine_that_is_below_the_floor_is_named() -> None:
    together = pool(
        [machine("8.0", driver="470.129.06", label="rack"), machine("8.6", driver="535.129.03", label="pc")]
    )
    found = verdict("driver-floor", CUDA129, together)
    assert found.outcome == "reject"
    says(found, "rack", "470.129.06")
    assert "pc" not in found.because


@examples(60)
@given(drivers, drivers)
def test_a_newer_driver_never_falls_below_a_floor(one: str, other: str) -> None:
    older, newer = sorted((one, other), key=driver_key)
    for item in (CUDA118, CUDA129, CUDA130):
        if verdict("driver-floor", item, machine("8.0", driver=older)).outcome == "pass":
            assert verdict("driver-floor", item, machine("8.0", driver=newer)).outcome == "pass"


# the driver's level


@collect(
    ("item", "driver", "outcome"),
    [(CUDA129, "535.129.03", "warn"), (CUDA129, "575.57.08", "pass"), (CUDA129, "580.65.06", "pass")],
)
def test_above_the_level_it_rests_on_minor_version_compatibility(item: Candidate, driver: str, outcome: str) -> None:
    found = verdict("driver-level", item, machine("8.9", driver=driver))
    assert found.outcome == outcome
    says(found, "12.9", str(base().cuda_of(driver)))


def test_without_a_level_there_is_nothing_to_compare() -> None:
    assert verdict("driver-level", CUDA129, machine("8.9")).outcome == "pass"
    assert verdict("driver-level", CPU, machine("8.9", driver="535.129.03")).outcome == "pass"


# device code


@collect(
    ("item", "gpu", "outcome"),
    [
        (CUDA129, "8.9", "pass"),
        (CUDA129, "9.0", "pass"),
        (CUDA129, "6.1", "pass"),
        (CUDA129, "12.1", "pass"),
        (CUDA129, "3.7", "reject"),
        (CUDA130, "7.0", "reject"),
        (CUDA130, "6.1", "reject"),
        (LABELLED, "9.0", "pass"),
        (candidate("2.5.1", "*cuda12.4*"), "12.0", "reject"),
    ],
)
def test_a_build_holds_code_for_a_gpu_or_not(item: Candidate, gpu: str, outcome: str) -> None:
    found = verdict("device-code", item, machine(gpu, driver="580.65.06"))
    assert found.outcome == outcome
    says(found, gpu)
    if outcome == "reject":
        assert found.remedy is None


def test_jit_needs_a_driver_that_speaks_the_cuda_of_the_ptx() -> None:
    """CUDA 12.6 code for 9.0+PTX on a 10.0 card: the driver compiles it from CUDA 12.6 on, not before."""
    card = "10.0"
    within = verdict("device-code", CUDA126, machine(card, driver="570.26"))
    assert within.outcome == "warn"
    says(within, "10.0", "9.0")
    below = verdict("device-code", CUDA126, machine(card, level="12.4"))
    assert below.outcome == "reject"
    says(below, "10.0", "12.6", "12.4")
    assert below.remedy
    assert below.remedy.driver == base().native_driver(version("12.6")) == "560.28.03"
    unknown = verdict("device-code", CUDA126, machine(card))
    assert unknown.outcome == "unknown"
    says(unknown, "12.6")


def test_minor_version_compatibility_does_not_cover_ptx() -> None:
    """A build whose own floor the driver passes is refused where only PTX serves the card."""
    facts = machine("10.0", level="12.2")
    assert verdict("driver-floor", CUDA126, facts).outcome == "pass"
    assert verdict("device-code", CUDA126, facts).outcome == "reject"


def test_jit_is_judged_by_the_driver_of_the_machine_that_needs_it() -> None:
    old = machine("8.0", driver="535.129.03", label="old")
    new = machine("10.0", driver="575.57.08", label="new")
    assert verdict("device-code", CUDA126, pool([old, new])).outcome == "warn"
    swapped = pool([replace(old, driver=new.driver), replace(new, driver=old.driver)])
    found = verdict("device-code", CUDA126, swapped)
    assert found.outcome == "reject"
    says(found, "new", "12.2")


def test_a_build_of_unknown_code_is_unknown_and_not_no() -> None:
    found = verdict("device-code", built(CUDA129, code=None), machine("8.9", driver="535.129.03"))
    assert found.outcome == "unknown"
    assert verdict("device-code", CPU, machine("8.9")).outcome == "pass"


@examples(60)
@given(st.lists(capabilities, min_size=1, max_size=3), capabilities, st.sampled_from([CUDA118, CUDA126, CUDA129]))
def test_another_gpu_never_makes_device_code_better(have: list[Capability], more: Capability, item: Candidate) -> None:
    order = ("reject", "unknown", "warn", "pass")
    texts = [str(gpu) for gpu in have]
    before = verdict("device-code", item, machine(*texts, driver="580.65.06")).outcome
    after = verdict("device-code", item, machine(*texts, str(more), driver="580.65.06")).outcome
    assert order.index(after) <= order.index(before)


# nvcc


@collect(
    ("item", "gpu", "outcome"),
    [
        (CUDA118, "12.0", "reject"),
        (CUDA118, "9.0", "pass"),
        (candidate("2.0.1", "*cuda11.7*"), "8.9", "pass"),
        (CUDA130, "7.0", "reject"),
        (CUDA129, "7.0", "pass"),
        (candidate("2.7.1", "cuda126*"), "10.0", "reject"),
    ],
)
def test_nvcc_compiles_for_a_gpu_or_not(item: Candidate, gpu: str, outcome: str) -> None:
    found = verdict("nvcc", item, machine(gpu))
    assert found.outcome == outcome
    says(found, str(item.cuda))
    assert verdict("nvcc", item, machine(gpu), dev=False).outcome == "pass"


@examples(40)
@given(desktop, st.sampled_from(sorted({item.cuda for item in everything() if item.cuda})))
def test_nvcc_serves_what_the_toolkits_of_the_generation_say(gpu: Capability, cuda: object) -> None:
    row = base().compute_capability(gpu)
    item = next(item for item in everything() if item.cuda == cuda)
    assert row
    assert item.cuda
    outcome = verdict("nvcc", item, machine(str(gpu))).outcome
    inside = (row.first_cuda or item.cuda) <= item.cuda <= (row.last_cuda or item.cuda)
    if inside and row.first_cuda:
        assert outcome == "pass"
    if row.last_cuda and item.cuda > row.last_cuda:
        assert outcome == "reject"


def test_a_toolkit_without_a_row_is_unknown() -> None:
    assert verdict("nvcc", replace(CUDA130, cuda=version("14.0")), machine("8.9")).outcome == "unknown"


# cuDNN and NCCL


@collect("gpu", ["5.0", "6.1", "7.0"])
def test_cudnn_is_kept_below_the_release_that_dropped_the_oldest(gpu: str) -> None:
    found = verdict("cudnn", CUDA129, machine(gpu, "12.0"))
    assert found.outcome == "warn"
    says(found, "9.11", gpu)
    assert "wheel911" in grounded(found)


def test_every_cudnn_serves_a_young_gpu() -> None:
    assert verdict("cudnn", CUDA129, machine("7.5", "12.0")).outcome == "pass"


def test_a_build_whose_cudnn_has_dropped_a_gpu_is_rejected() -> None:
    found = verdict("cudnn", CUDA130, machine("7.0"))
    assert str(CUDA130.build.cudnn).startswith("libcudnn")
    late = built(CUDA130, cudnn=Requirement.parse("libcudnn >=9.23.1.3,<10"))
    found = verdict("cudnn", late, machine("7.0"))
    assert found.outcome == "reject"
    says(found, "7.0", "9.23.1.3")


@collect(
    ("release", "outcome"), [("9.10.2.21", "pass"), ("9.11", "reject"), ("9.13.1.26", "reject"), ("8.9.7.29", "pass")]
)
def test_a_known_release_is_judged_as_it_is(release: str, outcome: str) -> None:
    found = verdict("cudnn", replace(CUDA129, cudnn=version(release)), machine("7.0", "9.0"))
    assert found.outcome == outcome
    says(found, release, "7.0" if outcome == "reject" else "5.0")
    assert "9.0" not in found.because


def doubtful(library: str) -> Knowledge:
    """The tables with rows on a library that are of low confidence."""
    return replace(base(), layers=tuple(row.replaced(low=row.library == library) for row in base().layers))


def test_a_layer_of_low_confidence_can_vouch_but_not_condemn() -> None:
    pair = machine("5.2", "5.2")
    known = replace(CUDA129, nccl=version("2.30.7.1"))
    late = built(CUDA129, nccl=Requirement.parse("nccl >=2.28.9.1,<3"))
    for item in (known, late):
        assert verdict("nccl", item, pair).outcome == "reject"
        unsure = replace(case(pair), knowledge=doubtful("nccl"))
        assert verdict_of("nccl", item, unsure).outcome == "unknown"
        assert verdict_of("nccl", item, replace(unsure, facts=machine("8.0"))).outcome == "pass"


def test_a_bound_is_set_also_where_the_releases_below_it_are_of_low_confidence() -> None:
    rows = [row.replaced(low=row.serves_from < Capability(7, 5)) for row in base().layers_of("cudnn", version("12.9"))]
    unsure = replace(case(machine("7.0")), knowledge=replace(base(), layers=tuple(rows)))
    found = verdict_of("cudnn", CUDA129, unsure)
    assert found.outcome == "warn"
    says(found, "pinned below 9.11")


def test_a_gpu_is_not_called_younger_than_a_cuda_whose_targets_nobody_knows() -> None:
    after = max(row.version for row in base().cudas)
    gpu = max(row.capability for row in base().generations if row.first_cuda and row.first_cuda <= after)
    assert base().cuda(version("12.7")) is None
    assert not younger(Capability(12, 0), version("12.7"), base())
    assert younger(Capability(12, 0), version("12.6"), base())
    assert not younger(gpu, after, base())


def test_nccl_that_has_dropped_the_only_gpu_is_no_objection() -> None:
    late = built(CUDA129, nccl=Requirement.parse("nccl >=2.28.9.1,<3"))
    found = verdict("nccl", late, machine("5.2"))
    assert found.outcome == "warn"
    says(found, "2.28.9.1", "5.2", "several GPUs")
    two = pool([machine("5.2", label="one"), machine("5.2", label="two")])
    assert verdict("nccl", late, two).outcome == "reject"


@collect(
    ("gpu", "asked", "outcome"),
    [
        ("3.7", "cudnn >=8.4.1.50,<8.6", "pass"),
        ("3.7", "cudnn >=8.7.0.84,<8.7.0.84.1", "warn"),  # no matrix of it was read
        ("5.0", "cudnn >=8.7.0.84,<8.7.0.84.1", "pass"),
        ("3.7", "cudnn >=8.4.1.50,<9", "warn"),  # with a bound
        ("3.7", "cudnn >=8.9.7.29,<9", "reject"),
        ("3.7", "cudnn >=9.1.0.70,<9.1.0.70.1", "reject"),
        ("5.0", "cudnn >=9.1.0.70,<9.1.0.70.1", "pass"),
    ],
)
def test_cudnn_for_cuda_11_serves_kepler_to_8_8(gpu: str, asked: str, outcome: str) -> None:
    item = built(CUDA118, cudnn=Requirement.parse(asked))
    found = verdict("cudnn", item, machine(gpu, driver="470.129.06"))
    assert found.outcome == outcome, found.because
    later = built(CUDA129, cudnn=Requirement.parse(asked))
    assert verdict("cudnn", later, machine("3.7", driver="470.129.06")).outcome == "reject"  # CUDA 12 never did


def test_the_silence_of_a_layer_is_a_no_only_for_the_cuda_that_was_looked_at() -> None:
    late = Requirement.parse("cudnn >=9.11,<10")
    assert verdict("cudnn", built(CUDA129, cudnn=late), machine("7.0")).outcome == "reject"
    ten = CUDA118.build.replaced(cudnn=Requirement.parse("cudnn >=8.9,<10"), cuda=version("10.2"))
    assert verdict("cudnn", replace(CUDA118, build=ten), machine("3.7")).outcome == "unknown"
    assert verdict("cudnn", replace(CUDA118, build=ten), machine("7.0")).outcome == "pass"


def test_a_release_without_a_row_is_unknown() -> None:
    found = verdict("nccl", replace(CUDA129, nccl=version("2.99")), machine("8.0"))
    assert found.outcome == "unknown"
    says(found, "2.99")


def test_an_unknown_requirement_is_unknown_only_where_it_matters() -> None:
    blind = built(CUDA129, cudnn=None)
    assert verdict("cudnn", blind, machine("8.0")).outcome == "pass"
    assert verdict("cudnn", blind, machine("7.0")).outcome == "unknown"


@examples(60)
@given(capabilities, st.sampled_from([item.build.cudnn for item in everything() if item.build.cudnn]))
def test_a_range_serves_a_gpu_where_its_rows_do(gpu: Capability, asked: Requirement) -> None:
    found = range_for("cudnn", asked, gpu, version("12.9"), base())
    of_major = base().layers_of("cudnn", version("12.9"))
    rows = [row for row in of_major if asked.overlaps(row.first, row.below)]
    serving = [row for row in rows if row.serves_from <= gpu]
    assert (found.answer == "any") == (serving == rows != [])
    if found.answer == "below":
        assert found.below
        assert [row for row in rows if row.below and row.below <= found.below] == serving


def test_a_range_is_unknown_where_nothing_is_asked_and_not_every_release_serves() -> None:
    found = range_for("cudnn", None, Capability(7, 0), version("12.9"), base())
    assert (found.answer, found.below) == ("unknown", None)
    assert found.rows == base().layers_of("cudnn", version("12.9"))
    assert range_for("cudnn", None, Capability(8, 0), version("12.9"), base()).answer == "any"
    late, old, cuda = Requirement.parse("nccl >=2.28.9.1,<3"), Capability(5, 2), version("12.9")
    assert range_for("nccl", late, old, cuda, base()).answer == "none"
    assert range_for("nccl", late, old, cuda, doubtful("nccl")).answer == "unknown"


def test_where_only_the_last_releases_serve_a_gpu_there_is_no_cut() -> None:
    rows = base().layers_of("cudnn", version("12.9"))
    turned = replace(base(), layers=(*rows[:-1], rows[-1].replaced(serves_from=Capability(1, 0))))
    found = range_for("cudnn", Requirement.parse("cudnn >=1"), Capability(2, 0), version("12.9"), turned)
    assert (found.answer, found.below, found.rows) == ("unknown", None, turned.layers)


def test_the_layers_below_a_cut_are_without_gap() -> None:
    rows = base().layers_of("cudnn", version("12.9"))
    assert all(isinstance(row, LibrarySupport) for row in rows)
    assert [row.below for row in rows[:-1]] == [row.first for row in rows[1:]]


# the C library


def test_the_highest_need_decides() -> None:
    row = base().cuda(version("12.9"))
    assert row
    assert (str(CUDA129.build.glibc), str(row.glibc)) == ("2.17", "2.28")
    found = verdict("glibc", CUDA129, machine("8.9", libc="2.17"))
    assert found.outcome == "reject"
    says(found, "2.17", "2.28", "box")
    assert verdict("glibc", CUDA129, machine("8.9", libc="2.28")).outcome == "pass"


@pytest.mark.parametrize(("library", "name"), [("cudnn", "cuDNN"), ("nccl", "NCCL")])
def test_a_library_may_need_a_later_glibc_than_the_build(library: str, name: str) -> None:
    late = tuple(row.replaced(glibc=version("2.40")) if row.library == library else row for row in base().layers)
    item = built(CUDA129, nccl=Requirement.parse("nccl >=2.27.3,<3"))
    found = verdict_of("glibc", item, replace(case(machine("8.9")), knowledge=replace(base(), layers=late)))
    assert found.outcome == "reject"
    says(found, f"the {name} of this PyTorch build needs glibc 2.40")


def test_numbers_and_not_text_are_compared() -> None:
    assert verdict("glibc", CUDA129, machine("8.9", libc="2.9")).outcome == "reject"


def test_an_unknown_c_library_is_unknown_and_another_family_is_refused() -> None:
    assert verdict("glibc", CUDA129, machine("8.9", libc=None)).outcome == "unknown"
    musl = replace(machine("8.9"), libc=Libc(family="musl", version=version("9.9")))
    found = verdict("glibc", CUDA129, musl)
    assert found.outcome == "reject"
    says(found, "musl", "2.28")


def test_every_machine_of_a_pool_needs_it() -> None:
    found = verdict("glibc", CUDA129, pool([machine("8.9", label="new"), machine("8.9", label="old", libc="2.17")]))
    assert found.outcome == "reject"
    says(found, "old", "2.17")
    assert "of new" not in found.because


# the roles


def test_conda_forge_has_no_compiler_below_its_first_that_can_be_locked() -> None:
    found = verdict("roles", CUDA118, machine("8.0", driver="470.129.06"))
    assert found.outcome == "reject"
    says(found, "12.0")
    assert found.remedy
    assert found.remedy.option == "--no-dev"
    assert {"cf_dev", "cf_nvccwrap"} <= grounded(found)
    assert verdict("roles", CUDA118, machine("8.0"), dev=False).outcome == "pass"
    assert verdict("roles", CUDA129, machine("8.0")).outcome == "pass"


def test_tables_without_any_compiler_say_so() -> None:
    none = replace(base(), cudas=tuple(row.replaced(conda_nvcc=False) for row in base().cudas))
    found = verdict_of("roles", CUDA129, replace(case(machine("8.0")), knowledge=none))
    assert found.outcome == "reject"
    assert found.because == "conda-forge has no nvcc of CUDA 12.9 that a lock file can pin"


def test_a_label_is_proven_to_fit_or_unknown() -> None:
    found = verdict("roles", LABELLED, machine("8.0"))
    assert found.outcome == "pass"
    says(found, "nvidia/label/cuda-11.8.0")
    assert verdict("roles", candidate("2.5.1", "*cuda12.1*"), machine("8.0")).outcome == "unknown"


# all of them


@examples(40)
@given(st.lists(capabilities, max_size=3), st.none() | drivers, st.sampled_from(everything()), st.booleans())
def test_every_verdict_has_a_sentence_and_what_it_cites_exists(
    gpus: list[Capability], driver: str | None, item: Candidate, dev: bool
) -> None:
    facts = machine(*map(str, gpus), driver=driver)
    found = Judge(case(facts, dev=dev)).verdicts(item)
    assert [one.rule for one in found] == [rule.name for rule in RULES]
    for one in found:
        assert one.because
        assert "None" not in one.because
        assert "  " not in one.because
        for reason in one.reasons:
            assert reason.says
            assert "None" not in reason.says
            if reason.kind == "row":
                assert set(reason.sources) <= set(base().sources)
                assert reason.sources
        if one.remedy:
            assert one.outcome in ("reject", "unknown")
            assert bool(one.remedy.driver) != bool(one.remedy.option)


@examples(25)
@given(st.lists(capabilities, min_size=1, max_size=2), st.none() | drivers, st.integers(0, len(everything()) - 1))
@example([Capability(7, 0), Capability(12, 0)], "575.51.03", 0)
def test_what_is_remembered_is_what_would_be_judged_again(
    gpus: list[Capability], driver: str | None, first: int
) -> None:
    """The keys of the rules name all that a verdict depends on: neighbours are one build on several toolkits."""
    facts = case(machine(*map(str, gpus), driver=driver, libc="2.17"))
    shared, together = Judge(facts), Judge(facts).verdicts_of_all(everything())
    for index in range(first, first + 30):
        item = everything()[index % len(everything())]
        assert shared.verdicts(item) == Judge(facts).verdicts(item) == together[index % len(everything())]


def test_a_compute_capability_is_followed_by_the_names_of_its_gpus() -> None:
    facts = machine("12.0", "12.0", "7.0", driver="575.57.08")
    facts = replace(
        facts,
        gpus=tuple(
            replace(gpu, name="RTX 5090") if gpu.capability.major == 12 else gpu for gpu in facts.gpus if gpu.capability
        ),
    )
    says(verdict("nvcc", CUDA118, facts), "nvcc 11.8 cannot compile for compute capability 12.0 (RTX 5090)")
    says(verdict("device-code", CUDA130, facts), "but not for compute capability 7.0")
    says(
        verdict("driver-gpu", CUDA118, replace(facts, driver=None)),
        "RTX 5090 (compute capability 12.0) needs driver 570",
    )


def test_labels_of_one_build_are_told_apart_where_a_patch_is_asked_for() -> None:
    """They share the build, the CUDA minor and the Python, and are judged one after the other by one judge."""
    of = candidate("2.5.1", "*cuda12.4*", "12.4").build
    items = [item for item in everything() if item.build is of]
    assert len({item.label for item in items}) == len(items) > 1
    shared = Judge(case(machine("8.6", driver="580.65.06"), cuda="12.4.1", dev=False))
    found = [{one.rule: one for one in shared.verdicts(item)} for item in items]
    for item, of_item in zip(items, found, strict=True):
        assert item.label
        fits = str(item.label.label).startswith("12.4.1")
        assert of_item["wish"].outcome == ("pass" if fits else "reject")
        says(of_item["roles"], f"cuda-{item.label.label} ")
        if not fits:
            says(of_item["wish"], "the build does not match --cuda 12.4.1")
            assert of_item["wish"].reasons[0].says.endswith(f"its CUDA toolkit is {item.label.label}")
    assert {of_item["wish"].outcome for of_item in found} == {"pass", "reject"}


@collect("name", ["wish", "glibc", "roles", "extensions"])
def test_toolkits_of_one_build_are_told_apart(name: str) -> None:
    asked = case(machine("8.6", driver="580.65.06", libc="2.17"), cuda="12.9", packages=("torchvision",))
    (rule,) = [rule for rule in RULES if rule.name == name]
    shared = Judge(asked, (rule,))
    found: dict[int, set[Verdict]] = {}
    for item in everything():
        assert shared.verdicts(item) == (verdict_of(name, item, asked),)
        found.setdefault(id(item.build), set()).update(shared.verdicts(item))
    assert max(map(len, found.values())) > 1, "no two toolkits of one build differ: the test says nothing"


def test_a_cudnn_is_that_of_the_build_and_no_newer_on_a_newer_toolkit() -> None:
    """cuDNN 8.9, which torch 2.3 needs, came before Blackwell, also where the toolkit of the environment knows it."""
    old = [item for item in everything() if (str(item.build.version), item.build.build) == ("2.3.1", "cuda120*")]
    assert len({item.cuda for item in old}) > 2
    facts = machine("7.0", "12.0", driver="575.51.03")
    found = {verdict("cudnn", item, facts) for item in old}
    assert {one.outcome for one in found} == {"unknown"}
    assert {one.because for one in found} == {
        "the cuenv tables do not say whether cuDNN for CUDA 12.0 supports the newer compute capability 12.0"
    }


@collect(
    ("library", "forward", "outcome", "because"),
    [
        (
            "cudnn",
            "no",
            "reject",
            "cuDNN for CUDA 12.0 does not support the newer compute capability 12.0: it runs on no",
        ),
        (
            "cudnn",
            "yes",
            "warn",
            "cuDNN for CUDA 12.0 has no machine code for the newer compute capability 12.0: the dri",
        ),
        ("nccl", "no", "reject", "NCCL for CUDA 12.0 does not support"),
    ],
)
def test_a_library_runs_on_later_gpus_as_its_rows_say(library: str, forward: str, outcome: str, because: str) -> None:
    old = next(item for item in everything() if (str(item.build.version), item.build.build) == ("2.3.1", "cuda120*"))
    facts = machine("12.0", "12.0", driver="575.51.03")
    known = replace(base(), layers=tuple(row.replaced(forward=forward) for row in base().layers))
    found = {one.rule: one for one in Judge(replace(case(facts), knowledge=known)).verdicts(old)}[library]
    assert found.outcome == outcome
    assert found.because.startswith(because), found.because
    assert grounded(found)
    release = max(row.first for row in known.layers_of(library, version("12.0")) if row.first)
    with_release = replace(old, cudnn=release) if library == "cudnn" else replace(old, nccl=release)
    pinned = verdict_of(library, with_release, replace(case(facts), knowledge=known))
    says(pinned, f" {release} for CUDA 12.0")
    assert (pinned.outcome, bool(grounded(pinned))) == (outcome, True)


def test_equal_questions_are_asked_once() -> None:
    asked: list[str] = []

    def by_python(python: str, capability: Capability) -> Verdict:
        asked.append(f"{python} on {capability}")
        return Verdict(rule="r", outcome="pass", because=python)

    rule = Rule("r", "CU100", "", 1, by_python, per="capability")
    judge = Judge(case(machine("8.6", "9.0")), (rule,))
    items = [replace(CUDA129, python=text) for text in ("3.11", "3.12", "3.11", "3.12")]
    assert [judge.verdicts(item)[0].because for item in items] == ["3.11", "3.12", "3.11", "3.12"]
    assert asked == ["3.11 on 8.6", "3.11 on 9.0", "3.12 on 8.6", "3.12 on 9.0"]


def test_a_rule_without_a_code_or_that_reads_what_nothing_gives_is_refused() -> None:
    def good(cuda: Version | None) -> Verdict:
        return Verdict(rule="r", outcome="pass", because=str(cuda))

    def strange(weather: str) -> Verdict:
        return Verdict(rule="r", outcome="pass", because=weather)

    def of_host(libc: Libc) -> None:
        str(libc)

    with pytest.raises(TypeError, match="the rule r has no finding code"):
        mark("r", code="", order=1, title="")(good)
    with pytest.raises(TypeError, match="the rule r reads weather, which nothing gives"):
        mark("r", code="CU100", order=1, title="")(strange)
    with pytest.raises(TypeError, match="what answers before the rule r reads the host"):
        mark("r", code="CU100", order=1, title="", unless=of_host)(good)
    with pytest.raises(TypeError, match="the rule r does not say, by `without`, why a host without a GPU passes"):
        mark("r", code="CU100", order=1, title="", per="gpu")(good)


def test_rules_have_names_and_places_of_their_own_and_codes_that_are_explained() -> None:
    assert len({rule.name for rule in RULES}) == len({rule.order for rule in RULES}) == len(RULES)
    assert {rule.code for rule in RULES} <= {page.code for page in load_guidance(base()).codes}


def test_the_gravest_verdict_speaks_for_all_that_are_as_grave() -> None:
    def made(outcome: str, text: str, remedy: Remedy | None = None) -> Verdict:
        return Verdict(rule="r", outcome=outcome, because=text, remedy=remedy)  # type: ignore[arg-type] # any of four

    up = Remedy(text="up", driver="525.60.13"), Remedy(text="higher", driver="570.26")
    down = Remedy(text="down", driver="580", upto=True), Remedy(text="lower", driver="470", upto=True)
    assert worst([made("pass", "a"), made("warn", "b"), made("warn", "c")]).because == "b; c"
    assert worst([made("unknown", "a"), made("reject", "b"), made("pass", "c")]).outcome == "reject"
    assert worst([made("unknown", "a"), made("warn", "b")]).outcome == "unknown"
    assert worst([made("reject", "a", up[0]), made("reject", "b", up[1])]).remedy == up[1]
    assert worst([made("reject", "a", down[0]), made("reject", "b", down[1])]).remedy == down[1]
    assert worst([made("reject", "a", up[0]), made("reject", "b", down[0])]).remedy is None
    assert worst([made("reject", "a", up[0]), made("reject", "b")]).remedy is None


def test_a_driver_by_hand_is_judged_like_a_probed_one() -> None:
    facts = replace(machine("8.9"), driver=Driver(version="535.129.03"))
    assert verdict("driver-floor", CUDA129, facts).outcome == "pass"
    assert verdict("driver-gpu", CUDA129, facts).outcome == "pass"
    assert verdict("driver-level", CUDA129, facts).outcome == "pass"


def test_a_machine_of_which_only_a_level_is_known_and_a_pool_with_a_bare_machine() -> None:
    level = replace(machine(level="12.4"), detected=False)
    assert verdict("gpu", CUDA129, level).outcome == "unknown"
    assert verdict("gpu", CUDA129, replace(level, detected=True)).outcome == "reject"
    bare = pool([machine("8.9", label="one"), machine(label="two"), machine(label="three")])
    found = verdict("gpu", CUDA129, bare)
    assert found.outcome == "reject"
    says(found, "no NVIDIA GPU was found on three, two")


def test_a_level_that_no_branch_speaks_is_unknown() -> None:
    assert verdict("driver-gpu", CUDA129, machine("9.0", level="99.0")).outcome == "unknown"


def test_of_several_hard_minimums_of_a_minor_the_first_release_counts() -> None:
    rows = [row for row in base().toolkits if row.hard and row.driver]
    first = rows[0]
    later = first.replaced(version=version(f"{first.version.major}.{first.version.minor}.999"), driver="999.1")
    many = replace(base(), toolkits=(later, first))
    found = minimum_driver_of(first.version, many)
    assert found == (first.driver, first)
    assert minimum_driver_of(version("9.0"), many) is None


def test_a_cpu_build_asks_for_no_glibc_that_no_row_names() -> None:
    assert verdict("glibc", built(CPU, glibc=None), machine()).outcome == "pass"
    assert verdict("glibc", built(CUDA129, glibc=None, stack="pytorch"), machine("8.9")).outcome in ("pass", "unknown")
    no_row = replace(built(CUDA129, glibc=None, stack="pytorch"), cuda=version("99.0"))
    assert verdict("glibc", no_row, machine("8.9")).outcome == "unknown"


def test_a_capability_is_named_by_the_gpus_of_the_host_where_one_is_known() -> None:
    facts = options("RTX 5090", driver="580.65.06")
    named = Capability.parse("12.0"), Capability.parse("8.0")
    assert named_capability(facts, *named) == "compute capability 12.0 (GeForce RTX 5090) and 8.0"
    assert named_capability(None, *named) == "compute capability 12.0 and 8.0"


def test_on_a_day_the_rule_asks_the_tables_and_the_channel_where_that_is_asked() -> None:
    """The tables tell of wheels the day of the release, and of a conda build what they saw in its channel."""
    host = machine("8.9", driver="580.65.06")
    wheel = next(item for item in candidates_of(WHEELS, base(), "linux-64") if item.build.version == version("2.6.0"))
    found = verdict("as-of", wheel, host, as_of="2025-06-10", stack=WHEELS)
    assert (found.outcome, "so its wheels existed as of 2025-06-10" in found.because) == ("pass", True)
    assert verdict("as-of", wheel, host, as_of="2024-06-10", stack=WHEELS).outcome == "reject"
    strange = built(CUDA130, version=version("99.1"), cuda=version("12.9"))  # a release that the tables do not date
    assert verdict("as-of", strange, host, as_of="2020-01-01").outcome == "unknown"
    builds = [item for item in everything() if item.cuda and item.build.stack == "conda-forge"]
    newer = [item for item in builds if item.cuda != item.build.cuda]
    asked, rule = case(host, as_of="2025-06-10"), [each for each in RULES if each.name == "as-of"]
    assert {found.outcome for item in newer for found in Judge(asked, rule).verdicts(item)} >= {"unknown"}
    sure = {found.because for item in newer for found in Judge(replace(asked, proving=True), rule).verdicts(item)}
    assert "the records of its channel decide which builds existed as of 2025-06-10" in sure
    undated = candidate("1.11.0", "cuda111*", "11.7")  # on its very day; no wheel says when its toolkit was published
    found = verdict("as-of", undated, host, as_of="2022-03-10")
    assert (found.outcome, "when CUDA 11.7 was published" in found.because) == ("unknown", True)


def test_the_driver_of_a_toolkit_is_no_minimum_where_no_row_says_that_it_is_hard() -> None:
    """From CUDA 11 on a toolkit runs on earlier drivers of its major than the one that it comes with."""
    without = replace(base(), floors=())
    assert minimum_driver_of(version("12.9"), without) is None
    assert minimum_driver_of(version("10.2"), without) is not None


def test_gpus_are_counted_for_which_a_build_has_ptx_alone() -> None:
    gpus = Capability(8, 0), Capability(12, 0)
    assert jit_count(None, gpus) == 0
    assert jit_count(parse_arch_list("8.0;9.0+PTX", None), gpus) == 1


@collect(
    ("release", "cuda", "outcome"),
    [
        ("2.0.0", "11.2", "reject"),  # a CPU build
        ("2.10.0", None, "unknown"),  # the libraries are those of the host
        ("2.10.0", "11.8", "pass"),  # from CUDA 11 on the names bear the major alone
        ("2.10.0", "12.4", "reject"),
        ("2.3.0", "10.1", "pass"),
        ("2.3.0", "10.2", "reject"),
    ],
)
def test_a_wheel_that_loads_a_cuda_release_by_name_finds_that_one_alone(
    release: str, cuda: str | None, outcome: str
) -> None:
    row = base().program("tensorflow", version(release))
    assert row is not None
    found = program_verdict(row, version(cuda) if cuda else None)
    assert (found.outcome, str(row.cuda) in found.because) == (outcome, row.cuda is not None)
