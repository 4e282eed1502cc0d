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
from cuenv.knowledge.schema import FLAG, TEXT, TableRow, column, list_of, matching, one_of, read_all

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
    "program",
    "repository",
    "name",
    "libstdcxx",
    "kernels",
    "capability",
    "include",
    "wheels",
    "since",
    "until",
    "declared",
    "argument",
)
ANY = "any"  # in ``follows``: the row follows every cause that stands in the same log

_CODE = matching(r"CU[1-6][0-9]{2}", "a code such as CU203")
_WORDS = r"[a-z0-9]+(-[a-z0-9]+)*"


@lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> re.Pattern[bytes]:
    """A pattern for the bytes of a line, whatever their encoding."""
    return re.compile(pattern.encode())


class Erratum(Row, key=("topic", "id")):
    """A wrong statement in many recipes, and the correction."""

    id: str = column(matching(r"E[0-9]{2,3}", "an id such as E03"), "stable")
    topic: str = column(matching(_WORDS, "a topic such as ld-library-path"), "its topic, as `cuenv explain` takes it")
    says: str = column(TEXT, "statement of the recipes")
    verdict: str = column(one_of(*VERDICTS), "verdict on that statement")
    truth: str = column(TEXT, "the correction", key="true")
    do: str | None = column(
        TEXT, "a command, a requirement or a sentence; left out: no action is necessary", default=None
    )
    codes: tuple[str, ...] = column(list_of(_CODE), "codes of the findings that report it", default=())


class DeepSpeedKeys(Row, key=("section",)):
    """The keys that DeepSpeed reads in one section of its configuration."""

    section: str = column(
        matching(r"[a-z0-9_]+(\.[a-z0-9_]+)*", "a section such as zero_optimization"),
        "its path, such as `zero_optimization.offload_param`; `top` for the file itself",
    )
    keys: tuple[str, ...] = column(list_of(TEXT), "names of the keys")
    strict: bool = column(FLAG, "whether DeepSpeed refuses further keys; elsewhere it ignores them", default=False)


class FindingCode(TableRow, key=("code",)):
    """What a finding code means, as in `docs/reference.md`."""

    code: str = column(_CODE, "stable")
    severities: tuple[str, ...] = column(
        list_of(one_of("error", "warning", "info")), "severities with which it is reported"
    )
    means: str = column(TEXT, "its meaning, readable alone")
    by: tuple[str, ...] = column(list_of(TEXT), "commands that find it")
    why: str = column(TEXT, "its harm, in whole sentences")
    cure: str = column(TEXT, "the fix, with the command between backticks")
    example: str = column(TEXT, "an example, in a few words")


class Advice(Row, key=("id",)):
    """Advice for training on a GPU."""

    id: str = column(matching(r"A[0-9]{2,3}", "an id such as A01"), "stable")
    about: str = column(TEXT, "data types, PCIe, DataLoader")
    names: tuple[str, ...] = column(
        list_of(TEXT), "beginnings of the names of the GPUs; left out: all GPUs", default=()
    )
    tensor: str | None = column(one_of(*NUMBERS), "number format that the GPU's tensor cores support", default=None)
    lacks: str | None = column(one_of(*NUMBERS), "number format that they do not support", default=None)
    says: str = column(TEXT, "the advice")
    do: str | None = column(TEXT, "a setting or a call; left out: no action is necessary", default=None)

    def concerns(self, name: str, tensor: tuple[str, ...]) -> bool:
        """Whether it is about a GPU of this name (empty if only its capability is known) with these number formats."""
        if self.names and not name.startswith(self.names):
            return False
        return (self.tensor is None or self.tensor in tensor) and (self.lacks is None or self.lacks not in tensor)


class AnswerPage(Row, key=("id",)):
    """An answer to a common question of beginners."""

    id: str = column(matching(r"Q[0-9]{2,3}", "an id such as Q03"), "stable")
    topic: str = column(matching(_WORDS, "a topic such as ld-library-path"), "its topic, as `cuenv explain` takes it")
    asks: str = column(TEXT, "the question")
    words: tuple[str, ...] = column(
        list_of(TEXT), "words of the question in other forms; a question with these words finds the answer"
    )
    says: tuple[str, ...] = column(list_of(TEXT), "the general answer, one item per paragraph")
    short: tuple[str, ...] = column(
        list_of(TEXT),
        "beginnings of the answer to yes-or-no questions; cuenv prints first the one that shares most "
        "words with the question",
        default=(),
    )
    do: str = column(TEXT, "command that shows it or does it")
    join: str | None = column(
        matching(r"[a-z]+(_[a-z]+)*", "a name such as drivers"),
        "name in `diagnosis/explain/answers.py` of a function that adds facts from the tables and the host",
        default=None,
    )


class Provider(Row, key=("kind", "name")):
    """The provider of a thing that is missing in a log.

    A module that is not listed gets no command: it may be the program's own, and a package of its name somebody else's.
    """

    kind: str = column(
        one_of(*PROVIDED),
        "what is missing: a module of Python, one that the standard library had, an extension that lies in a `folder` "
        "of its program, a shared library (without lib and .so), a header (how its name begins), a package of CMake, a "
        "library to `link` with, a package of Debian that was `renamed`, a `program`, a package that is built "
        "from its repository, a name of a package (`package:name`), a version of libstdc++, the `kernels` of a "
        "package for a GPU, the lowest compute `capability` for which its sources can be compiled, the `wheels` of a "
        "release (`package:X.Y`), a name in the headers of CUDA, `since` and `until` a release, a name that a "
        "header of C++ or Thrust has `declared`, and an `argument` (`function:name`, or the function alone)",
    )
    name: str = column(TEXT, "its name")
    gives: str = column(
        TEXT,
        "what provides it: what pip is asked for (`{major}` is the CUDA major), the last Python that has it or that it "
        "has wheels for, the first or last CUDA whose headers have a name, a command in the folder of the program, the "
        "package of Debian and Ubuntu, the first GCC; for kernels the variables with which pip compiles them (`{list}` "
        "are the compute capabilities), a command, or `wheel`: another one is needed; the header that declares a name",
    )


class Symptom(Row, key=("id",)):
    """An error message, its meaning and its fix."""

    id: str = column(matching(_WORDS, "an id such as cusparse-header"), "stable")
    layer: str = column(one_of(*LAYERS), "where it fails")
    kind: str = column(
        one_of("cause", "effect", "remark", "words", "raised"),
        "`cause`: a cause; `effect`: the effect of another cause; `remark`: a harmless message; `words`: an error of "
        "which only the message is known, which counts if no other row does; `raised`: an exception that is judged by "
        "the file that raised it (`within`), which counts if at most a row of `words` does",
        default="cause",
    )
    within: str | None = column(
        one_of("program", "check", "package", "package-code", "setup", "setup-code"),
        "for `raised`, the last frame of the traceback: in a file of the program (`program`), a `raise` or `assert` "
        "there (`check`) or in a package that refuses its input (`package`), another line of a package "
        "(`package-code`), one in a setup.py (`setup`), or a line of a setup.py that Python cannot run (`setup-code`)",
        default=None,
    )
    says: str = column(TEXT, "the problem, in one sentence")
    marks: tuple[str, ...] = column(list_of(TEXT), "literal texts; only a line that contains one of them is examined")
    patterns: tuple[str, ...] = column(
        list_of(TEXT), "regular expressions, one of which matches in the line; named groups are the facts in the line"
    )
    statuses: tuple[str, ...] = column(
        list_of(matching(r"[A-Za-z_0-9]+", "a name such as cudaErrorInvalidValue, or a number")),
        "status codes that CUDA and its libraries return for it: names, and numbers that never had another meaning",
        default=(),
    )
    beside: tuple[str, ...] = column(
        list_of(TEXT), "texts, one of which must be in the log; left out: the line alone is enough", default=()
    )
    proof: tuple[str, ...] = column(
        list_of(TEXT), "for a remark: if the log contains one of these, the remark is the cause", default=()
    )
    unless: tuple[str, ...] = column(
        list_of(TEXT), "if the log contains one of these, the problem was solved, and the row is a remark", default=()
    )
    cause: str = column(TEXT, "its reason; `{name}` stands for a fact from the line or the host")
    remedy: str = column(TEXT, "the fix, in words")
    command: str = column(
        TEXT,
        "one command that fixes it; `{host}` stands for the options that name the host; left out: no command fixes it",
        default="",
    )
    join: str | None = column(
        matching(r"[a-z]+(_[a-z]+)*", "a name such as driver_floor"),
        "name of a function in `diagnosis/cures` that compares it with the host and the environment",
        default=None,
    )
    follows: tuple[str, ...] = column(
        list_of(matching(rf"any|layer:[a-z-]+|{_WORDS}", "an id, layer:NAME or any")),
        "causes of which it is only an effect",
        default=(),
    )
    codes: tuple[str, ...] = column(
        list_of(_CODE), "codes of the findings that report the cause before the program fails", default=()
    )
    seen: tuple[str, ...] = column(
        list_of(matching(r"[\w.-]+/[\w.-]+#[0-9]+", "a thread such as owner/repository#1")),
        "threads that report it",
        default=(),
    )

    @property
    def general(self) -> bool:
        """Whether the row matches any error message, and counts only if no other row matches the line."""
        return self.kind == "cause" and ANY in self.follows

    @property
    def search_marks(self) -> tuple[str, ...]:
        """The marks of the row and those of its statuses."""
        numbers = NUMBER_MARKS if any(status.isdigit() for status in self.statuses) else ()
        return (*self.marks, *(status for status in self.statuses if not status.isdigit()), *numbers)

    def follows_from(self, other: Symptom, kind: str = "") -> bool:
        """Whether another symptom of the log explains this one."""
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
    """All tables of guidance; ``sources`` are its own, beside those of the facts."""

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
        """The topics of the answers and errata, each once, in order."""
        return tuple(dict.fromkeys([*(row.topic for row in self.answers), *(row.topic for row in self.errata)]))

    def gives(self, kind: str, name: str) -> str:
        """The provider of a missing thing; empty if no row names one."""
        return next((row.gives for row in self.providers if row.kind == kind and row.name == name), "")

    def about(self, text: str) -> tuple[Erratum, ...]:
        """The errata with a topic or an id."""
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
