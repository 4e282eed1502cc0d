"""The tables of container images and GitHub actions, each with the source where it was seen.

The tables lie in ``data/delivery/`` and are read by the same reader as the tables of facts. A tag that no row names is
never written into a file: it might not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from packaging.version import Version

from cuenv.core.io.files import DATA
from cuenv.core.record import dataclass
from cuenv.knowledge.io.load import decode
from cuenv.knowledge.rows import PLATFORMS, Row, Source
from cuenv.knowledge.schema import RELEASE, TableRow, column, list_of, matching, one_of, read_all

BASES = ("auto", "micromamba", "cuda", "pytorch")  # what may be asked for as the base of a container
FOLDER = f"{DATA}/delivery"
_TAG = matching(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", "a tag")


class Image(Row, key=("role", "image", "tag")):
    """A container image that is known to exist. A tag that nobody saw has no row."""

    role: str = column(
        one_of("cuda", "micromamba", "pytorch", "run"),
        "its use: a toolkit (`cuda`), the installation (`micromamba`), torch with its toolkit "
        "(`pytorch`), running the installed environment (`run`)",
    )
    image: str = column(matching(r"[a-z0-9]+([._/-][a-z0-9]+)*", "an image such as nvidia/cuda"), "its name")
    tag: str = column(_TAG, "complete tag, which contains a release")
    glibc: Version | None = column(
        RELEASE, "its C library; left out if nothing is installed in addition to its contents", default=None
    )
    cuda: Version | None = column(RELEASE, "minor release of its CUDA toolkit", default=None)
    torch: Version | None = column(RELEASE, "release of torch that it contains", default=None)
    platforms: tuple[str, ...] = column(list_of(one_of(*PLATFORMS)), "conda platforms that it is built for")

    @property
    def name(self) -> str:
        """The name for ``FROM``."""
        return f"{self.image}:{self.tag}"


class Action(Row, key=("action",)):
    """An action of GitHub at one commit."""

    action: str = column(matching(r"[A-Za-z0-9-]+/[A-Za-z0-9_.-]+", "an action such as owner/name"), "its name")
    tag: str = column(_TAG, "release of this commit")
    sha: str = column(matching(r"[0-9a-f]{40}", "a commit of 40 hex digits"), "the commit, which cannot be moved")
    tool: str = column(_TAG, "release of the program that it installs; left out: it installs no program", default="")


TABLES: Mapping[str, type[TableRow]] = {"sources": Source, "images": Image, "actions": Action}
"""Every table of deliveries, sources first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """All tables for exports."""

    sources: Mapping[str, Source]
    images: tuple[Image, ...]
    actions: tuple[Action, ...]

    def for_role(self, role: str, platforms: Iterable[str]) -> tuple[Image, ...]:
        """The images of a role that exist for all of the platforms."""
        wanted = frozenset(platforms)
        return tuple(row for row in self.images if row.role == role and wanted <= frozenset(row.platforms))

    def action(self, name: str) -> Action:
        """The row of an action.

        Raises:
            KeyError: there is none.
        """
        return {row.action: row for row in self.actions}[name]


def parse_delivery(tables: Mapping[str, object], where: str = "delivery") -> Delivery:
    """Read the tables for exports.

    Args:
        tables: the decoded JSON of every table, by its name.
        where: what to call it in an error.

    Raises:
        KnowledgeError: with every fault in it and its path.
    """
    rows = read_all(TABLES, tables, where)
    return Delivery(sources={row.id: row for row in rows["sources"]}, images=rows["images"], actions=rows["actions"])


def load_delivery() -> Delivery:
    """Read the tables that ship with the package.

    Raises:
        KnowledgeError: a table cannot be read, or a row in it is wrong.
    """
    return parse_delivery({name: decode(f"{FOLDER}/{name}.json") for name in TABLES}, FOLDER)
