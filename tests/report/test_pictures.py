"""Pictures as values: what they say, that they are whole SVG, that they stay within their frame, and their colours."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

import doc_pictures
from cases import collect
from cuenv.core.errors import UsageError
from cuenv.core.findings import ComponentSupport
from cuenv.core.io.templates import fill
from cuenv.core.versions import Capability
from cuenv.report.builds import builds
from cuenv.report.components import component_grid, limit
from cuenv.report.drivers import drivers
from cuenv.report.make import decision_page
from cuenv.report.page import html, markdown, snippet
from cuenv.report.picture import Picture, alone, inline, safe, shortened, squarified, width_of
from cuenv.report.sizes import SizedPackage, sizes
from given import base, choice, decided, options, settled, shipped

HOSTILE = "</svg><script>alert(1)</script>\"' onload=x &amp; \x1b[31m \u202e ]]> " + "W" * 200
V100, RTX5090 = Capability(7, 0), Capability(12, 0)


def component(name: str, package: str, **served: str) -> ComponentSupport:
    pairs = tuple((Capability.parse(text[1:].replace("_", ".")), how) for text, how in served.items())
    return ComponentSupport(rule=name, name=name, package=package, support=pairs, because="")  # type: ignore[arg-type]


def every() -> list[Picture]:
    """Pictures of ordinary and of hostile input."""
    page = decision_page(settled("v100-rtx5090-575"))
    hostile = component_grid([component(HOSTILE, HOSTILE, c7_0="no", c12_0="unknown")], options("V100", "RTX 5090"))
    parts = [SizedPackage(HOSTILE, HOSTILE, 10**9, "NVIDIA"), SizedPackage("tiny", "1", 1, "others")]
    sized = sizes(parts, 3, "as files on disk")
    assert hostile
    assert sized
    return [*page.pictures, hostile, sized]


@collect("picture", every(), ids=lambda picture: picture.name)
def test_a_picture_is_svg_with_title_description_and_table(picture: Picture) -> None:
    for text in (inline(picture), alone(picture).partition("\n")[2]):
        tree = ET.fromstring(text)
        assert tree.get("role") == "img"
        names = [child.tag.rpartition("}")[2] for child in tree][:2]
        assert names == ["title", "desc"]
        assert all((child.text or "").strip() for child in list(tree)[:2])
        kinds = {element.tag.rpartition("}")[2] for element in tree.iter()}
        assert kinds <= {"svg", "title", "desc", "style", "g", "rect", "text", "line", "path", "circle"}
        assert not [
            name for element in tree.iter() for name in element.attrib if name.startswith(("on", "style", "href"))
        ]
    assert picture.rows
    assert {len(row) for row in picture.rows} == {len(picture.columns)}


@collect("picture", every(), ids=lambda picture: picture.name)
def test_nothing_stands_outside_of_the_frame(picture: Picture) -> None:
    tree = ET.fromstring(f"<svg>{picture.body}</svg>")
    for element in tree.iter("rect"):
        x, y, width, height = (float(element.get(name, "0")) for name in ("x", "y", "width", "height"))
        assert min(x, y, width, height) >= 0
        assert x + width <= picture.width + 1
        assert y + height <= picture.height + 1
    for element in tree.iter("text"):
        assert 0 <= float(element.get("y", "-1")) <= picture.height
        if element.get("text-anchor") is None:
            assert float(element.get("x", "-1")) + width_of(element.text or "", 12) <= picture.width + 40, element.text


def test_the_limiting_component_is_named() -> None:
    components = [component("torch", "pytorch 2.12", c7_0="native", c12_0="native")]
    components += [component("cuDNN", "libcudnn 9.13", c7_0="no", c12_0="native")]
    facts = options("V100", "RTX 5090")
    assert (
        limit(components, facts) == "cuDNN (libcudnn 9.13) is the limiting component: it does not support V100 (7.0)."
    )
    picture = component_grid(components, facts)
    assert picture
    assert picture.columns == ("component", "package", "V100 (7.0)", "RTX 5090 (12.0)")
    assert picture.rows == (
        ("PyTorch", "pytorch 2.12", "native", "native"),
        ("cuDNN", "libcudnn 9.13", "not supported", "native"),
    )
    assert "cuDNN is not supported on compute capability 7.0" in picture.desc
    assert limit([component("NCCL", "", c7_0="unknown")], facts).startswith("The tables do not say whether NCCL")
    assert "by JIT" in limit([component("NCCL", "", c7_0="jit")], facts)
    assert component_grid([], facts) is None
    assert component_grid(components, shipped("no-gpu")) is None


def test_the_builds_say_what_the_decision_says() -> None:
    decision = settled("v100-rtx5090-575")
    picture = builds(decision, choice(decision))
    assert picture
    mine = [row for row in picture.rows if row[0].endswith("(this one)")]
    assert len(mine) == 1
    assert mine[0][1:3] == (choice(decision).build.stack, str(choice(decision).build.cuda))
    fitting = {
        (item.candidate.build.stack, str(item.candidate.build.version), str(item.candidate.build.cuda))
        for item in decision.fitting
        if item.candidate.build.cuda
    }
    shown = {(row[1], row[0].split()[1], row[2]) for row in picture.rows if row[3] in ("fits", "warning", "unknown")}
    assert shown == fitting
    lead = {item.objections[0].because for item in decision.assessments if item.objections}
    assert all(row[4] in lead for row in picture.rows if row[3] not in ("fits", "warning", "unknown"))


def test_the_driver_stands_on_the_line_with_its_sources() -> None:
    decision = settled("v100-rtx5090-575")
    picture = drivers(choice(decision), decision.minimum_driver, decision.context.facts, base())
    assert picture
    rows = {row[0]: row[1:] for row in picture.rows}
    assert rows["driver of v100-rtx5090-575"] == ("575.57.08", "", "branch 575")
    assert any(name.startswith("CUDA") and row[0] == decision.minimum_driver for name, row in rows.items())
    ends = [row for row in rows.values() if row[1].startswith("support ends")]
    assert ends
    assert all(row[2] for name, row in rows.items() if not name.startswith("driver of"))
    assert drivers(None, None, shipped("no-gpu"), base()) is None


def test_a_report_is_the_same_bytes_each_time() -> None:
    first, second = (html(decision_page(settled("a800-470"))) for _ in range(2))
    assert first == second
    assert decision_page(settled("a800-470")).pictures


def test_a_picture_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(UsageError, match="this report has components, driver, builds"):
        decision_page(settled("a800-470")).picture("fleet")


def test_what_fits_nothing_has_its_reasons() -> None:
    page = decision_page(settled("no-gpu"))
    assert page.verdict[0] == "bad"
    assert "rejected" in page.lead[0]
    assert "No build fits" in html(page)
    assert "No build fits" in markdown(page)
    assert snippet(page).startswith('<div class="cuenv">')


@given(st.lists(st.floats(1, 1e10), min_size=1, max_size=40))
def test_areas_are_as_large_as_the_sizes_say(values: list[float]) -> None:
    found = squarified(values, 0, 0, 900, 400)
    assert sorted(area.at for area in found) == list(range(len(values)))
    for area in found:
        assert area.width * area.height == pytest.approx(900 * 400 * values[area.at] / sum(values), rel=1e-3, abs=0.1)
        assert area.x >= -0.05
        assert area.x + area.width <= 900.05
        assert area.y + area.height <= 400.05


@given(st.text(), st.integers(0, 300))
def test_a_shortened_text_fits_and_a_safe_one_has_no_markup(text: str, room: int) -> None:
    cut = shortened(text, room)
    assert width_of(cut) <= max(room, 0) or not cut
    ET.fromstring(f'<a b="{safe(text)}">{safe(text)}</a>')


COLOURS = fill("report.css", {}) + fill("report_page.css", {})
PAIRS = ("fg bg", "fg soft", "mut bg", "mut soft", "link bg", "fg ok", "okb ok", "fg jit", "jitb bg", "fg no", "nob no")
MORE = ("nob bg", "fg unk", "unkb unk", "fg a", "fg b", "fg c", "mut a", "mut b", "mut c")


def luminance(colour: str) -> float:
    whole = colour[1:] if len(colour) == 7 else "".join(one * 2 for one in colour[1:])
    parts = [int(whole[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_letters_stand_out_from_what_is_behind_them(scheme: int) -> None:
    found = dict(re.findall(r"--(\w+):(#[0-9a-f]+)", COLOURS.split("@media (prefers-color-scheme:dark)")[scheme]))
    for pair in (*PAIRS, *MORE):
        one, other = (luminance(found[name]) for name in pair.split())
        ratio = (max(one, other) + 0.05) / (min(one, other) + 0.05)
        assert ratio >= 4.5, f"{pair}: {ratio:.2f}"


def test_the_pictures_of_the_pages_are_as_cuenv_draws_them() -> None:
    folder = doc_pictures.FOLDER
    for name, text in doc_pictures.made().items():
        assert (folder / name).read_text(encoding="utf-8") == text, f"{name}: nox -s pictures"


def test_what_uses_no_gpu_and_what_is_not_known_is_never_called_fine() -> None:
    cpu = decision_page(settled("a800-470", cpu=True))
    assert [picture.name for picture in cpu.pictures] == ["driver"]
    assert cpu.lead[0] == "A CPU build uses no GPU."
    blind = decision_page(decided(options("A100")))
    assert blind.verdict[0] == "unsure"
    assert blind.lead[0].startswith("Whether the driver supports every GPU is not known: the driver is not known")
    assert decision_page(decided(options("A100", driver="535.129.03"))).verdict[0] == "fine"
