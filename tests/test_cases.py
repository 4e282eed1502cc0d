"""The helper that makes one test of many cases hides none of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases import collect


def test_every_failure_is_reported_with_its_case() -> None:
    tried = []

    @collect(("one", "other"), [(1, 2), (3, 3), (4, 5)])
    def equal(one: int, other: int) -> None:
        tried.append(one)
        assert one == other, f"{one} is not {other}"

    with pytest.raises(AssertionError, match=r"^2 of 3 cases failed\n(.|\n)*1 is not 2(.|\n)*4 is not 5") as caught:
        equal()
    assert tried == [1, 3, 4]
    assert "- 4-5 (line " in str(caught.value)


def test_an_exception_that_was_not_raised_is_a_failure() -> None:
    @collect("text", ["1", "x"])
    def refused(text: str) -> None:
        with pytest.raises(ValueError, match="invalid"):
            int(text)

    with pytest.raises(AssertionError, match="1 of 2 cases failed"):
        refused()


def test_a_case_that_skips_is_told_and_hides_no_failure() -> None:
    @collect("number", [0, 1, 2])
    def skips(number: int) -> None:
        if number == 1:
            pytest.skip("not here")
        assert number < limit

    limit = 3
    with pytest.raises(pytest.skip.Exception, match="1 of 3 cases: not here"):
        skips()
    limit = 1
    with pytest.raises(AssertionError, match="1 of 3 cases failed"):
        skips()


TRIED: dict[int, list[int]] = {}


@collect("number", range(10), one_in=4)
def test_of_some_cases_is_quick_and_of_all_slow(number: int, request: pytest.FixtureRequest) -> None:
    step = request.node.callspec.params["one_in"]
    assert bool(request.node.get_closest_marker("slow")) == (step == 1)
    TRIED.setdefault(step, []).append(number)
    assert TRIED[step] == list(range(0, number + 1, step))


def test_no_case_is_an_error() -> None:
    with pytest.raises(AssertionError, match="no case"):
        collect("one", [])


@collect("number", [1, 2])
@collect("other", "ab")
def test_each_case_has_a_folder_and_patches_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, other: str
) -> None:
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").touch()
    monkeypatch.setattr("cases._SHOWN", number)
    assert other in "ab"
