"""Every folder of tests/hosts is a test: a recorded host, and the decision that must come out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cuenv
from cases import collect
from cuenv.resolver.decision_json import decision_plain

HOSTS = Path(__file__).parents[1] / "hosts"


def _cases() -> list[tuple[str, dict[str, Any]]]:
    return [
        (file.parent.name, case)
        for file in sorted(HOSTS.glob("*/expected.json"))
        for case in json.loads(file.read_text(encoding="utf-8"))
    ]


def test_there_are_recorded_hosts() -> None:
    assert _cases()


@collect(("name", "case"), _cases())
def test_a_recorded_host_gets_what_is_expected(name: str, case: dict[str, Any]) -> None:
    host = cuenv.read_host(str(HOSTS / name))
    answer = cuenv.resolve(host, cuenv.make_request(**case["wish"]))
    plain = decision_plain(answer.decision)
    if "chosen" in case:
        assert plain["chosen"] is not None
        assert case["chosen"].items() <= plain["chosen"].items()
    else:
        assert plain["chosen"] is None
        assert plain["rejected"][0]["rule"] == case["rejected_by"]
    if "minimum_driver" in case:
        assert plain["minimum_driver"] == case["minimum_driver"]
