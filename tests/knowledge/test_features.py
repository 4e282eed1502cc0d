"""What GPUs can do: the table's laws, and what is said of it."""

from __future__ import annotations

from itertools import pairwise

from cases import collect
from cuenv.core.versions import Capability
from cuenv.host.facts import Gpu, feature_of, feature_sentence, feature_title, features_of, features_plain
from cuenv.knowledge.gpu_names import find_gpu
from cuenv.knowledge.rows import NUMBERS
from cuenv.resolver.lookup import gpu
from given import base


def card(name: str) -> Gpu:
    found = find_gpu(name, base().gpus)
    assert found
    return Gpu(index=0, name=name, capability=found.capability)


def test_every_capability_of_a_product_has_a_row() -> None:
    assert [row.name for row in base().gpus if base().feature(row.capability, row.chip) is None] == []


def test_numbers_stand_in_the_order_of_nvidias_table() -> None:
    for row in base().features:
        assert list(row.tensor) == [number for number in NUMBERS if number in row.tensor]


def test_tensor_cores_begin_with_7_0_and_never_lose_fp16() -> None:
    for row in base().features:
        assert ("fp16" in row.tensor) == bool(row.tensor)
        if not row.chip:
            assert bool(row.tensor) == (row.capability >= Capability(7, 0))


@collect(("number", "first"), [("bf16", "8.0"), ("tf32", "8.0"), ("fp8", "8.9"), ("fp4", "10.0"), ("int8", "7.2")])
def test_what_a_compute_capability_brought_stays(number: str, first: str) -> None:
    have = [number in row.tensor for row in base().features if not row.chip]
    assert all(before <= after for before, after in pairwise(have))
    rows = [row.capability for row in base().features if number in row.tensor]
    assert min(rows) == Capability.parse(first)


def test_bf16_arithmetic_came_with_the_bf16_of_tensor_cores() -> None:
    assert all(row.bf16 == ("bf16" in row.tensor) for row in base().features)


def test_fp64_on_tensor_cores_goes_with_a_fast_fp64() -> None:
    fast = {str(row.capability) for row in base().features if "fp64" in row.tensor}
    assert fast == {"8.0", "9.0", "10.0"}
    assert all(row.fp64 == 2 for row in base().features if "fp64" in row.tensor)


def test_a_chip_without_tensor_cores_is_recognised_by_its_capability() -> None:
    for name, chip in (("NVIDIA GeForce GTX 1660 Ti", "TU116"), ("NVIDIA GeForce GTX 1650", "TU117")):
        row = feature_of(card(name), base())
        assert row
        assert (row.chip, row.tensor, row.low) == (chip, (), True)
        assert feature_title(row) == f"7.5 ({chip})"
    turing = feature_of(card("Tesla T4"), base())
    assert turing
    assert (turing.chip, turing.tensor) == ("", ("fp16", "int8", "int4"))
    unnamed = feature_of(Gpu(index=0, name="", capability=Capability(7, 5)), base())
    assert unnamed is turing


def test_what_no_row_knows_is_left_out() -> None:
    assert feature_of(Gpu(index=0, name="x", capability=None), base()) is None
    assert feature_of(Gpu(index=0, name="x", capability=Capability(99, 0)), base()) is None
    assert features_of((Gpu(index=0, name="x", capability=Capability(99, 0)),), base()) == ()


def test_equal_cards_have_one_line() -> None:
    cards = [card("H100"), card("NVIDIA H100 80GB HBM3"), card("V100"), card("GTX 1650")]
    assert [feature_title(row) for row in features_of(cards, base())] == ["7.0", "7.5 (TU117)", "9.0"]


@collect(
    ("name", "says"),
    [
        ("P100", "no tensor cores; no bf16 arithmetic; fp64 at 1/2 of fp32"),
        ("V100", "tensor cores for fp16, not for bf16, tf32, fp8, fp4; no bf16 arithmetic; fp64 at 1/2 of fp32"),
        (
            "RTX 4090",
            "tensor cores for tf32, bf16, fp16, fp8, int8, int4, not for fp4; bf16 arithmetic; fp64 at 1/64 of fp32",
        ),
        ("B200", "tensor cores for fp64, tf32, bf16, fp16, fp8, fp6, fp4, int8; bf16 arithmetic; fp64 at 1/2 of fp32"),
    ],
)
def test_a_row_in_words(name: str, says: str) -> None:
    row = feature_of(card(name), base())
    assert row
    assert feature_sentence(row) == says
    entries = [entry for entry in gpu(name, base()).entries if entry.table == "features"]
    assert [entry.says for entry in entries] == [f"compute capability {feature_title(row)} has {says}"]
    assert entries[0].sources


def test_features_are_given_as_plain_data() -> None:
    plain = features_plain(features_of([card("H100"), card("GTX 1650")], base()), base())
    assert plain["9.0"]["tensor"] == dict.fromkeys(NUMBERS, True) | {"fp6": False, "fp4": False, "int4": False}
    assert (plain["9.0"]["bf16"], plain["9.0"]["fp64"], plain["9.0"]["confidence"]) == (True, "1/2", "high")
    assert plain["7.5 (TU117)"]["confidence"] == "low"
    assert plain["9.0"]["sources"] == ["CUDA Programming Guide, 5.1 Compute Capabilities"]
