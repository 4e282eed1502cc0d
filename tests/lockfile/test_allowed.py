"""What ``--allow`` allows, and what it never can: one function and one table for lock and check."""

from __future__ import annotations

from cases import collect
from cuenv.core.findings import NEVER_ALLOWED, Finding, allowed


def finding(code: str) -> Finding:
    return Finding(code=code, severity="error", subject="x", message="x", fix="mend it")


def test_an_allowed_error_is_a_warning_without_a_fix() -> None:
    other = finding("CU102")
    first, second = allowed([finding("CU101"), other], {"CU101"})
    assert (first.severity, first.fix) == ("warning", None)
    assert second is other


@collect("code", sorted(NEVER_ALLOWED))
def test_some_errors_stay(code: str) -> None:
    assert [item.severity for item in allowed([finding(code)], {code})] == ["error"]


def test_what_stands_in_for_them_can_be_allowed() -> None:
    assert not {item for item in NEVER_ALLOWED.values() if item} & NEVER_ALLOWED.keys()
