"""What an environment is delivered with: container images, actions of GitHub, and where each was seen.

The tables lie in ``data/delivery/`` and are read by the same reader as the tables of facts. A tag that no row names is
never written into a file: it might not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from packaging.version import Version

from cuenv.knowledge import columns
from cuenv.knowledge.columns import Column
from cuenv.knowledge.rows import PLATFORMS, Row, Source
from cuenv.knowledge.table import Table, facts_table, plain_table, read_all, text_of

ROLES = ("cuda", "micromamba", "pytorch", "run")
"""What an image is for: a toolkit, to install with, torch with its toolkit, to run what was installed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Image(Row):
    """A container image that is known to exist.

    Attributes:
        role: one of `ROLES`.
        image: its name, such as ``nvidia/cuda``.
        tag: whole, with a release in it.
        glibc: of its C library; ``None`` where nothing is installed beside what it holds.
        cuda: the minor of its toolkit.
        torch: the release inside it.
        platforms: the conda platforms that it is built for.
    """

    role: str
    image: str
    tag: str
    glibc: Version | None
    cuda: Version | None
    torch: Version | None
    platforms: tuple[str, ...]

    @property
    def name(self) -> str:
        """As ``FROM`` takes it."""
        return f"{self.image}:{self.tag}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Action(Row):
    """An action of GitHub at one commit.

    Attributes:
        action: ``owner/name``.
        tag: the release that the commit is.
        sha: the commit, which nobody can move.
        tool: the release of the program that it installs; empty for none.
    """

    action: str
    tag: str
    sha: str
    tool: str


_TAG = columns.shaped(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", "a tag")
_IMAGE = (
    Column("role", columns.one_of(*ROLES), columns.same),
    Column("image", columns.shaped(r"[a-z0-9]+([._/-][a-z0-9]+)*", "an image such as nvidia/cuda"), columns.same),
    Column("tag", _TAG, columns.same),
    Column("glibc", columns.release_number, str, absent=None),
    Column("cuda", columns.release_number, str, absent=None),
    Column("torch", columns.release_number, str, absent=None),
    Column("platforms", columns.several(columns.one_of(*PLATFORMS)), list),
)
_ACTION = (
    Column("action", columns.shaped(r"[A-Za-z0-9-]+/[A-Za-z0-9_.-]+", "an action such as owner/name"), columns.same),
    Column("tag", _TAG, columns.same),
    Column("sha", columns.shaped(r"[0-9a-f]{40}", "a commit of 40 hex digits"), columns.same),
    Column("tool", _TAG, columns.same, absent=""),
)

TABLES: Mapping[str, Table] = {
    "sources": plain_table(Source, columns.SOURCE, lambda row: row.id),
    "images": facts_table(Image, _IMAGE, lambda row: (row.role, row.image, row.tag)),
    "actions": facts_table(Action, _ACTION, lambda row: row.action),
}
"""Every table of deliveries, sources first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """All tables of deliveries."""

    sources: Mapping[str, Source]
    images: tuple[Image, ...]
    actions: tuple[Action, ...]

    def for_role(self, role: str, platforms: Iterable[str]) -> tuple[Image, ...]:
        """The images of a role that are built for all of the platforms."""
        wanted = frozenset(platforms)
        return tuple(row for row in self.images if row.role == role and wanted <= frozenset(row.platforms))

    def action(self, name: str) -> Action:
        """The row of an action.

        Raises:
            KeyError: there is none.
        """
        return {row.action: row for row in self.actions}[name]


def parse_delivery(tables: Mapping[str, object], where: str = "delivery") -> Delivery:
    """Read the tables of deliveries.

    Args:
        tables: the decoded JSON of every table, by its name.
        where: what to call it in an error.

    Raises:
        KnowledgeError: with every fault in it and its path.
    """
    rows = read_all(TABLES, tables, where)
    return Delivery(sources={row.id: row for row in rows["sources"]}, images=rows["images"], actions=rows["actions"])


def dump_delivery(delivery: Delivery, table: str) -> str:
    """The canonical text of the file of a table."""
    rows = delivery.sources.values() if table == "sources" else getattr(delivery, table)
    return text_of(table, TABLES[table], rows)
