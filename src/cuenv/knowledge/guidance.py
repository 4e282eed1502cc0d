"""What people are told about CUDA and PyTorch, and what is true: tables that no decision needs.

They lie in ``data/guidance/``, are read by the same reader as the tables of facts, and have sources of their own
beside those of the facts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from cuenv.core.record import dataclass
from cuenv.knowledge.rows import NUMBERS, Row, Source
from cuenv.knowledge.schema import (
    FLAG,
    TEXT,
    TableRow,
    column,
    one_of,
    read_all,
    several,
    shaped,
)

VERDICTS = ("misleading", "outdated", "overstated", "wrong")
LAYERS = (
    "driver",
    "device",
    "install",
    "loader",
    "build",
    "extension",
    "memory",
    "multi-gpu",
    "container",
    "solve",
    "program",
    "scope",
)
PROVIDED = (
    "module",
    "standard",
    "folder",
    "library",
    "header",
    "cmake",
    "link",
    "renamed",
    "repository",
    "name",
    "libstdcxx",
    "kernels",
    "capability",
    "include",
    "wheels",
    "since",
    "until",
)
ANY = "any"
"""In ``follows``: the row follows every cause that stands in the same log."""

_CODE = shaped(r"CU[1-6][0-9]{2}", "a code such as CU203")
_WORDS = r"[a-z0-9]+(-[a-z0-9]+)*"


@lru_cache(maxsize=4096)
def compiled(pattern: str) -> re.Pattern[bytes]:
    """A pattern as it is looked for: in the bytes of a line, whatever their encoding."""
    return re.compile(pattern.encode())


class Erratum(Row, key=("topic", "id")):
    """A statement that many recipes carry, and what is true."""

    id: str = column(shaped(r"E[0-9]{2,3}", "an id such as E03"), "stable")
    topic: str = column(
        shaped(_WORDS, "a topic such as ld-library-path"), "what it is about, as `cuenv explain` takes it"
    )
    says: str = column(TEXT, "what the recipes say")
    verdict: str = column(one_of(*VERDICTS), "on what they say")
    truth: str = column(TEXT, "what is true", key="true")
    do: str | None = column(
        TEXT, "a command, a requirement or a sentence; left out: there is nothing to do", default=None
    )
    codes: tuple[str, ...] = column(several(_CODE), "findings by which cuenv notices it", default=())


class DeepSpeedKeys(Row, key=("section",)):
    """What DeepSpeed reads in one section of its configuration."""

    section: str = column(
        shaped(r"[a-z0-9_]+(\.[a-z0-9_]+)*", "a section such as zero_optimization"),
        "its path, such as `zero_optimization.offload_param`; `top` for the file itself",
    )
    keys: tuple[str, ...] = column(several(TEXT), "their names")
    strict: bool = column(FLAG, "whether DeepSpeed refuses further keys; elsewhere it ignores them", default=False)


class FindingCode(TableRow, key=("code",)):
    """What a finding code means, as in `docs/reference.md`."""

    code: str = column(_CODE, "stable")
    severities: tuple[str, ...] = column(several(one_of("error", "warning", "info")), "with which it is reported")
    means: str = column(TEXT, "what it means, readable alone")
    by: tuple[str, ...] = column(several(TEXT), "commands that find it")
    why: str = column(TEXT, "why it hurts, in whole sentences")
    cure: str = column(TEXT, "what to do, with the command between backticks")
    example: str = column(TEXT, "a case, in a few words")


class Advice(Row, key=("id",)):
    """What to know when training on a GPU."""

    id: str = column(shaped(r"A[0-9]{2,3}", "an id such as A01"), "stable")
    about: str = column(TEXT, "data types, PCIe, DataLoader")
    names: tuple[str, ...] = column(several(TEXT), "GPUs whose name begins so; left out: all", default=())
    tensor: str | None = column(one_of(*NUMBERS), "kind of number that the GPU's tensor cores take", default=None)
    lacks: str | None = column(one_of(*NUMBERS), "kind of number that they do not take", default=None)
    says: str = column(TEXT, "what to know")
    do: str | None = column(TEXT, "a setting or a call; left out: there is nothing to do", default=None)

    def concerns(self, name: str, tensor: tuple[str, ...]) -> bool:
        """Whether it is about a GPU of this name (empty when only its capability is known) with these numbers."""
        if self.names and not name.startswith(self.names):
            return False
        return (self.tensor is None or self.tensor in tensor) and (self.lacks is None or self.lacks not in tensor)


class AnswerPage(Row, key=("id",)):
    """An answer to what everybody asks at the beginning."""

    id: str = column(shaped(r"Q[0-9]{2,3}", "an id such as Q03"), "stable")
    topic: str = column(
        shaped(_WORDS, "a topic such as ld-library-path"), "what it is about, as `cuenv explain` takes it"
    )
    asks: str = column(TEXT, "the question")
    words: tuple[str, ...] = column(several(TEXT), "the question in other words: a question that shares them finds it")
    says: tuple[str, ...] = column(several(TEXT), "the answer that holds everywhere, a paragraph each")
    short: tuple[str, ...] = column(
        several(TEXT),
        "answers to yes-or-no questions, each begins so: the one that shares most words with the question goes first",
        default=(),
    )
    do: str = column(TEXT, "the command that shows it, or does it")
    join: str | None = column(
        shaped(r"[a-z]+(_[a-z]+)*", "a name such as drivers"),
        "what of the tables and of the host answers it further, a name in `diagnosis/explain/answers.py`",
        default=None,
    )


class Provider(Row, key=("kind", "name")):
    """What provides a thing that a log misses.

    A module that is not listed gets no command: it may be the program's own, and a package of its name somebody else's.
    """

    kind: str = column(
        one_of(*PROVIDED),
        "what is missing: a module of Python, one that the standard library had, an extension that lies in a `folder` "
        "of its program, a shared library (without lib and .so), a header (how its name begins), a package of CMake, a "
        "library to `link` with, a package of Debian that was `renamed`, a package that is built from its repository, "
        "a name of a package (`package:name`), a version of libstdc++, the `kernels` of a package for a GPU, the "
        "lowest compute `capability` for which its sources can be compiled, the `wheels` of a release "
        "(`package:X.Y`), and a name in the headers of CUDA, `since` and `until` a release",
    )
    name: str = column(TEXT, "its name")
    gives: str = column(
        TEXT,
        "what provides it: what pip is asked for (`{major}` is the CUDA major), the last Python that has it or that it "
        "has wheels for, the first or last CUDA whose headers have a name, a command in the folder of the program, the "
        "package of Debian and Ubuntu, the first GCC; for kernels the variables with which pip compiles them (`{list}` "
        "are the compute capabilities), a command, or `wheel`: another one is needed",
    )


class Symptom(Row, key=("id",)):
    """An error message, what it means and what cures it."""

    id: str = column(shaped(_WORDS, "an id such as cusparse-header"), "stable")
    layer: str = column(one_of(*LAYERS), "where it fails")
    kind: str = column(
        one_of("cause", "effect", "remark", "words", "raised"),
        "a cause; an effect, which something else has caused; a remark, which harms nothing; words, an error of which "
        "only what it says is known: it counts where no other row leads; raised, an exception that is judged by the "
        "file in which it was raised (`within`): it counts where no row but one of words leads",
        default="cause",
    )
    within: str | None = column(
        one_of("program", "check", "package", "setup", "setup-code"),
        "of an exception that is raised: the last frame of its traceback is in a file of the program itself, is a "
        "`raise` or `assert` there, one in a package, which refuses what it is given, one in a setup.py, or a line of "
        "a setup.py that Python cannot run",
        default=None,
    )
    says: str = column(TEXT, "what it is, in one sentence")
    marks: tuple[str, ...] = column(several(TEXT), "only lines that hold one of these, letter by letter, are looked at")
    patterns: tuple[str, ...] = column(
        several(TEXT), "one of these regular expressions is found in the line; named groups are what the line tells"
    )
    statuses: tuple[str, ...] = column(
        several(shaped(r"[A-Za-z_0-9]+", "a name such as cudaErrorInvalidValue, or a number")),
        "what CUDA and its libraries return for it: names, and numbers that never meant anything else",
        default=(),
    )
    beside: tuple[str, ...] = column(
        several(TEXT), "one of these stands somewhere in the log; left out: the line alone is enough", default=()
    )
    proof: tuple[str, ...] = column(
        several(TEXT), "of a remark: where one of these stands in the log, it is the cause", default=()
    )
    unless: tuple[str, ...] = column(
        several(TEXT), "where one of these stands in the log, the fault was mended, and it is a remark", default=()
    )
    cause: str = column(TEXT, "why it happens; `{name}` is what the line or the host tells")
    remedy: str = column(TEXT, "what helps, in words")
    command: str = column(
        TEXT, "the one command; `{host}` stands for the options that name the host; left out: none helps", default=""
    )
    join: str | None = column(
        shaped(r"[a-z]+(_[a-z]+)*", "a name such as driver_floor"),
        "what of the host and the environment it is compared with, the name of a function in `diagnosis/cures`",
        default=None,
    )
    follows: tuple[str, ...] = column(
        several(shaped(rf"any|layer:[a-z-]+|{_WORDS}", "an id, layer:NAME or any")),
        "causes whose mere effect it is",
        default=(),
    )
    codes: tuple[str, ...] = column(
        several(_CODE), "findings by which cuenv notices the cause before it fails", default=()
    )
    seen: tuple[str, ...] = column(
        several(shaped(r"[\w.-]+/[\w.-]+#[0-9]+", "a thread such as owner/repository#1")),
        "threads where it was met",
        default=(),
    )

    @property
    def general(self) -> bool:
        """Whether it reads what no other row knows: it counts where no other cause stands on the line."""
        return self.kind == "cause" and ANY in self.follows

    @property
    def looked_for(self) -> tuple[str, ...]:
        """Its marks, and those that its statuses stand for."""
        numbers = NUMBER_MARKS if any(status.isdigit() for status in self.statuses) else ()
        return (*self.marks, *(status for status in self.statuses if not status.isdigit()), *numbers)

    def follower_of(self, other: Symptom, kind: str = "") -> bool:
        """Whether another symptom of the same log, of its own kind or of one that the log proves, explains this one."""
        if other.id in self.follows or (f"layer:{other.layer}" in self.follows and ANY not in other.follows):
            return other.id != self.id
        if ANY not in self.follows or (kind or other.kind) != "cause":
            return False
        return self.kind == "effect" or not {ANY, self.id}.intersection(other.follows)


NUMBER_MARKS = (
    "uda error",
    "UDA error",
    "uda Error",
    "uda failure",
    "UDA failure",
    "uda runtime error",
    "uda driver error",
)
"""One of them stands in a line that gives an error of CUDA by its number."""

TABLES: Mapping[str, type[TableRow]] = {
    "sources": Source,
    "errata": Erratum,
    "answers": AnswerPage,
    "advice": Advice,
    "ds_keys": DeepSpeedKeys,
    "codes": FindingCode,
    "symptoms": Symptom,
    "providers": Provider,
}
"""Every table of guidance, sources first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guidance:
    """All tables of guidance; ``sources`` are those that it has beside the ones of the facts."""

    sources: Mapping[str, Source]
    errata: tuple[Erratum, ...]
    answers: tuple[AnswerPage, ...]
    advice: tuple[Advice, ...]
    ds_keys: tuple[DeepSpeedKeys, ...]
    codes: tuple[FindingCode, ...]
    symptoms: tuple[Symptom, ...]
    providers: tuple[Provider, ...]

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of the answers and of the errata, each once, in order."""
        return tuple(dict.fromkeys([*(row.topic for row in self.answers), *(row.topic for row in self.errata)]))

    def gives(self, kind: str, name: str) -> str:
        """What provides a thing that is missing; empty where no row knows it."""
        return next((row.gives for row in self.providers if row.kind == kind and row.name == name), "")

    def about(self, text: str) -> tuple[Erratum, ...]:
        """The errata on a topic or with an id."""
        wanted = text.strip().lower()
        return tuple(row for row in self.errata if wanted in (row.topic, row.id.lower()))


def parse_guidance(tables: Mapping[str, object], known: frozenset[str], where: str = "guidance") -> Guidance:
    """Read the tables of guidance.

    Args:
        tables: the decoded JSON of every table, by its name.
        known: ids of the sources of the facts, which may be cited.
        where: what to call it in an error.

    Raises:
        KnowledgeError: with every fault in it and its path.
    """
    rows = read_all(TABLES, tables, where, known)
    sources = {row.id: row for row in rows.pop("sources")}
    return Guidance(sources=sources, **rows)
