"""What a notebook shows of the values of the public API: the report, as a part of its page."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import cuenv
from cuenv.core import notebook
from cuenv.core.notebook import Drawable, draw_with
from cuenv.report.notebook import drawn
from fleets import NODES, written
from prefixes import installed, lock_file, standard

HOST: dict[str, Any] = {"gpus": ["V100", "RTX 5090"], "driver": "575.57.08", "glibc": "2.35"}


def shown(item: Any) -> str:
    """The HTML of a value, which is whole and has no script."""
    text = item._repr_html_()
    assert isinstance(text, str)
    tree = ET.fromstring(text.replace("<br>", "<br/>"))
    assert tree.get("class") == "cuenv"
    assert not {"script", "link", "img"} & {element.tag for element in tree.iter()}
    return text


def test_a_choice_a_plan_a_check_and_its_report_are_shown_with_pictures(tmp_path: Path) -> None:
    answer = cuenv.resolve(cuenv.read_host("a800-470"))
    for item in (answer, answer.decision):
        assert shown(item).count("<svg") == 3
    (tmp_path / "fleet.ndjson").write_text(written(NODES))
    plan = cuenv.plan(cuenv.read_hosts(tmp_path / "fleet.ndjson"))
    assert "2 environments for 18 of 18 hosts" in shown(plan)
    env, solution = installed(tmp_path, standard())
    checked = cuenv.check(lock_file(tmp_path / "conda-lock.yml", solution), **HOST)
    assert "What each component supports on each GPU" in shown(checked)
    assert "Findings and their cures" in shown(checked.report)
    assert "What was checked" in shown(cuenv.check_prefix(env, **HOST))


def test_without_the_api_a_value_is_its_text(monkeypatch: Any) -> None:
    monkeypatch.setattr(notebook, "_DRAWERS", [])
    assert Drawable()._repr_html_() is None
    draw_with(drawn)
    assert Drawable()._repr_html_() is None
