"""Reports as a real browser shows them: nothing is asked for, nothing overflows a phone, and everybody can read them.

They need Chromium and playwright, and for accessibility axe-core, which npm installs: `nox -s browser`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import doc_pictures
from commands import run
from cuenv.report.make import decision_page
from cuenv.report.page import html, snippet
from fleets import NODES, written
from given import settled
from prefixes import installed, lock_file, standard

pytestmark = pytest.mark.browser
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
AXE = Path(os.environ.get("CUENV_TEST_AXE") or "node_modules/axe-core/axe.min.js")
HOST = ("--gpu", "V100", "--gpu", "RTX 5090", "--driver", "575.57.08", "--glibc", "2.35")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """A report of each kind."""
    folder = tmp_path_factory.mktemp("pages")
    env, solution = installed(folder, standard())
    lock_file(folder / "conda-lock.yml", solution)
    (folder / "plan.json").write_text(run("fleet", "plan", "-", "--json", folder=folder, text=written(NODES)).stdout)
    kinds = {"lock": ("conda-lock.yml", *HOST), "prefix": ("--prefix", env, *HOST), "fleet": ("--fleet", "plan.json")}
    for name, words in {**kinds, "host": HOST}.items():
        assert run("report", *words, "-o", f"{name}.html", folder=folder).returncode == 0
    decision = decision_page(settled("no-gpu"))
    (folder / "nothing.html").write_text(html(decision), encoding="utf-8")
    cells = snippet(decision) + snippet(decision_page(settled("a800-470")))
    (folder / "notebook.html").write_text(
        f"<!doctype html><html lang=en><title>n</title><body>{cells}", encoding="utf-8"
    )
    return {path.stem: path for path in sorted(folder.glob("*.html"))}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, without a network."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip("no Chromium is installed here")
    driven = pytest.importorskip("playwright.sync_api", reason="playwright is not installed here")
    with driven.sync_playwright() as started:
        one = started.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield one
        one.close()


def test_a_page_asks_for_nothing_and_needs_no_script(browser: Any, pages: Mapping[str, Path]) -> None:
    for name, path in pages.items():
        asked: list[str] = []
        told: list[str] = []
        around = browser.new_context(java_script_enabled=False)
        page = around.new_page()
        page.on("request", lambda request, asked=asked: asked.append(request.url))
        page.on("console", lambda message, told=told: told.append(message.text))
        page.goto(path.as_uri())
        assert asked == [path.as_uri()], name
        assert told == [], name  # a style that the policy refuses is told there
        around.close()


@pytest.mark.parametrize("width", [390, 320])
def test_a_phone_shows_it_without_moving_sideways(browser: Any, pages: Mapping[str, Path], width: int) -> None:
    around = browser.new_context(viewport={"width": width, "height": 800})
    page = around.new_page()
    for name, path in pages.items():
        page.goto(path.as_uri())
        for summary in page.locator("summary").all():
            summary.click()
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{name}: {wide}"
    around.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser: Any, pages: Mapping[str, Path], scheme: str) -> None:
    if not AXE.is_file():
        pytest.skip("axe-core is not installed here: npm install axe-core")
    around = browser.new_context(color_scheme=scheme, bypass_csp=True)
    page = around.new_page()
    for name, path in pages.items():
        if name == "notebook":
            continue  # only a part of somebody's page
        page.goto(path.as_uri())
        page.add_script_tag(path=str(AXE))
        found = page.evaluate("axe.run()")
        assert [(one["id"], [node["html"] for node in one["nodes"][:3]]) for one in found["violations"]] == [], name
        assert len(found["passes"]) > 10
    around.close()


def test_the_scheme_and_the_pictures_reach_the_reader(browser: Any, pages: Mapping[str, Path]) -> None:
    reasons = set()
    for scheme in ("light", "dark"):
        around = browser.new_context(color_scheme=scheme)
        page = around.new_page()
        page.goto(pages["lock"].as_uri())
        reasons.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert page.get_by_role("img", name="What each component supports on each GPU").count() == 1
        page.goto((doc_pictures.FOLDER / "report-components.svg").as_uri())
        reasons.add(page.evaluate("getComputedStyle(document.querySelector('.b-no')).fill"))
        around.close()
    assert len(reasons) == 4


def test_no_letters_leave_their_cell(browser: Any, pages: Mapping[str, Path]) -> None:
    """The widths of letters are guessed where the picture is drawn: the browser knows them."""
    page = browser.new_page()
    for name in ("lock", "fleet", "prefix", "host"):
        page.goto(pages[name].as_uri())
        over = page.evaluate(
            """() => [...document.querySelectorAll('svg')].flatMap(svg => {
                const frame = svg.getBoundingClientRect()
                return [...svg.querySelectorAll('text')].filter(text => {
                    const box = text.getBoundingClientRect()
                    return box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1
                }).map(text => text.textContent)
            })"""
        )
        assert over == [], name
    page.close()


def test_it_prints_on_paper(browser: Any, pages: Mapping[str, Path]) -> None:
    around = browser.new_context()
    page = around.new_page()
    for path in pages.values():
        page.goto(path.as_uri())
        page.emulate_media(media="print")
        assert page.evaluate("getComputedStyle(document.querySelector('.cuenv')).colorScheme") == "light"
        wide = 794  # A4 at 96 dots per inch
        page.set_viewport_size({"width": wide - 106, "height": 1000})
        too_wide = page.evaluate(
            "[...document.querySelectorAll('svg')].filter(one => one.clientWidth > innerWidth).length"
        )
        assert too_wide == 0
        paper = page.pdf(format="A4", print_background=True)
        assert paper.startswith(b"%PDF")
        assert len(paper) > 10_000
    around.close()
