"""A report as a value, and its three forms: one HTML file that needs nothing else, Markdown, and one picture as SVG."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from cuenv.core import __version__
from cuenv.core.errors import UsageError
from cuenv.core.findings import Finding, counted
from cuenv.core.io.templates import fill
from cuenv.core.record import NamedTuple, dataclass
from cuenv.core.render import cell, code, finding_json
from cuenv.report.picture import OWN, Picture, inline, safe

if TYPE_CHECKING:  # types alone
    from cuenv.report.documents import PicturesDocument

Standing = Literal["fine", "unsure", "bad"]  # how a verdict looks; its words stand beside it


class Table(NamedTuple):
    """Rows below headings; the first cell of a row is its name."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Cited(NamedTuple):
    """A source: its text, and its address if it has one."""

    text: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSection:
    """A section of a report."""

    title: str
    says: tuple[str, ...] = ()
    picture: Picture | None = None  # what it shows, with its numbers as a table
    table: Table | None = None
    sources: tuple[Cited, ...] = ()
    without: str = ""  # why there is no picture, where one would be expected


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPage:
    """A report."""

    title: str
    verdict: tuple[Standing, str]  # the answer in a word or two, and how it looks
    lead: tuple[str, ...] = ()  # the most important in a sentence or two
    facts: tuple[tuple[str, str], ...] = ()  # what it is about: names with texts
    findings: tuple[Finding, ...] = ()
    sections: tuple[ReportSection, ...] = ()

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """The pictures in their order."""
        return tuple(section.picture for section in self.sections if section.picture)

    def picture(self, name: str) -> Picture:
        """The picture with a name.

        Raises:
            UsageError: there is none.
        """
        found = next((item for item in self.pictures if item.name == name), None)
        if found is None:
            names = [item.name for item in self.pictures]
            if not names:
                raise UsageError("this report has no picture", hint="cuenv report -o report.html")
            said = f"--picture {name}: no such picture; this report has {', '.join(names)}"
            raise UsageError(said, hint=f"cuenv report --format svg --picture {names[0]}")
        return found


_MARKS = {"error": "✕ error", "warning": "! warning", "info": "i note"}


def html(page: ReportPage) -> str:
    """The report as one HTML file, without scripts and external resources."""
    style = styles()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    values = {
        "version": __version__,
        "title": safe(page.title),
        "digest": f"sha256-{digest}",
        "style": style,
        "body": "\n".join(_body(page)),
    }
    return fill("report.html", values)


def styles() -> str:
    """The styles of a page with its pictures."""
    return fill("report.css", {}) + fill("report_page.css", {})


def snippet(page: ReportPage) -> str:
    """The report as part of another page, such as a notebook, with its styles."""
    return f'<div class="cuenv"><style>{styles()}</style><main>{"".join(_body(page))}</main></div>'


def _body(page: ReportPage) -> Iterator[str]:
    standing, word = page.verdict
    yield f"<h1>{safe(page.title)}</h1>"
    yield f'<p class="verdict {standing}">{safe(word)}</p>'
    yield from (f"<p>{safe(text)}</p>" for text in page.lead)
    if page.facts:
        yield "<dl>" + "".join(f"<dt>{safe(name)}</dt><dd>{safe(text)}</dd>" for name, text in page.facts) + "</dl>"
    if page.findings:
        yield "<h2>Findings and their cures</h2>"
        yield '<ul class="found">' + "".join(map(_finding, page.findings)) + "</ul>"
    for section in page.sections:
        yield from _section(section)
    more = "The command <code>cuenv why CODE</code> explains a code."
    yield f"<footer><p>Written by cuenv {__version__}. {more}</p></footer>"


def _finding(item: Finding) -> str:
    found = f'<li class="{item.severity}"><b>{_MARKS[item.severity]} {safe(item.code)}</b> {safe(item.message)}'
    if item.fix:
        found += f"<br>Cure: <code>{safe(item.fix)}</code>"
    if item.evidence:
        rows = "".join(f"<li>{safe(text)}</li>" for text in item.evidence)
        found += (
            f"<details><summary>Evidence for {safe(item.code)}: {safe(item.subject)}</summary><ul>{rows}</ul></details>"
        )
    return f"{found}</li>"


def _section(section: ReportSection) -> Iterator[str]:
    yield f"<h2>{safe(section.title)}</h2>"
    yield from (f"<p>{safe(text)}</p>" for text in section.says)
    if section.without:
        yield f'<p class="mut">{safe(section.without)}</p>'
    if section.picture:
        picture = section.picture
        caption = f"<figcaption>{safe(picture.legend)}</figcaption>" if picture.legend else ""
        yield f'<figure tabindex="0" aria-label="{safe(picture.title)}">{inline(picture)}{caption}</figure>'
        table = _table(Table(picture.columns, picture.rows))
        yield f"<details><summary>{safe(picture.title)}: the same as a table</summary>{table}</details>"
    if section.table:
        yield _table(section.table)
    if section.sources:
        rows = "".join(f"<li>{_source(item)}</li>" for item in section.sources)
        yield f"<ol>{rows}</ol>"


def _table(table: Table) -> str:
    heads = "".join(f'<th scope="col">{safe(text)}</th>' for text in table.columns)
    rows = "".join(
        f'<tr><th scope="row">{safe(first)}</th>{"".join(f"<td>{safe(text)}</td>" for text in rest)}</tr>'
        for first, *rest in table.rows
    )
    inside = f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<div class="wide" tabindex="0" role="region" aria-label="{safe(table.columns[0])}, table">{inside}</div>'


def _source(item: Cited) -> str:
    if item.url.startswith("https://"):
        return f'{safe(item.text)} <a href="{safe(item.url)}" rel="noreferrer">{safe(item.url)}</a>'
    return safe(item.text)


def markdown(page: ReportPage) -> str:
    """The report as Markdown, with tables in place of pictures."""
    lines = [OWN, "", f"# {cell(page.title)}", "", f"**{cell(page.verdict[1])}**", ""]
    lines += [part for text in page.lead for part in (cell(text), "")]
    lines += [*(f"- {cell(name)}: {cell(text)}" for name, text in page.facts), ""]
    if page.findings:
        lines += [
            "## Findings and their cures",
            "",
            "| finding | severity | what | cure |",
            "| --- | --- | --- | --- |",
        ]
        lines += [
            f"| {item.code} | {item.severity} | {cell(item.message)} | {code(item.fix or '')} |"
            for item in page.findings
        ]
        lines.append("")
    for section in page.sections:
        lines += [f"## {cell(section.title)}", ""]
        lines += [part for text in (*section.says, section.without) if text for part in (cell(text), "")]
        if section.picture:
            lines += [cell(section.picture.desc), ""]
            lines += [*_rows(section.picture.columns, section.picture.rows), ""]
        if section.table:
            lines += [*_rows(*section.table), ""]
        for number, item in enumerate(section.sources, 1):
            lines.append(f"{number}. {cell(item.text)}" + (f" <{item.url}>" if item.url.startswith("https://") else ""))
        lines += [""] if section.sources else []
    return "\n".join(lines).rstrip() + "\n"


def _rows(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(map(cell, columns))} |"
    yield f"|{' --- |' * len(columns)}"
    yield from (f"| {' | '.join(map(cell, row))} |" for row in rows)


def head_of(findings: Sequence[Finding], verdict: str) -> tuple[Standing, str]:
    """The verdict of a check, and its colour."""
    errors = sum(item.severity == "error" for item in findings)
    warnings = sum(item.severity == "warning" for item in findings)
    also = f", {counted(warnings, 'warning')}" if warnings else ""
    if errors:
        return "bad", f"✕ Problems: {counted(errors, 'error')}{also}"
    if verdict == "unknown":
        return "unsure", f"? Unknown: nobody can say whether it runs{also}"
    return "fine", f"✓ Fine{also}"


def plain(page: ReportPage, written: str | None) -> PicturesDocument:
    """The report as JSON: the numbers of its pictures, and its findings."""
    return {
        "schema": "cuenv/pictures/1",
        "title": page.title,
        "verdict": page.verdict[1],
        "lead": list(page.lead),
        "findings": [finding_json(item) for item in page.findings],
        "pictures": [
            {
                "name": item.name,
                "title": item.title,
                "description": item.desc,
                "columns": list(item.columns),
                "rows": [list(row) for row in item.rows],
            }
            for item in page.pictures
        ],
        "written": written,
    }
