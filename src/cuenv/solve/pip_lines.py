"""What people write in a pip part: requirements, options, folders, repositories, and lists in further files.

Indexes and constraints are used. What no hash can pin is set aside, with its reason: a folder, a repository, a URL
without a hash. The rest is left to the resolver.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from cuenv.core.reading import shell_words
from cuenv.core.record import NamedTuple, dataclass, field
from cuenv.core.regex import regex
from cuenv.core.urls import one_line, redact
from cuenv.solve.environment_spec import normalise, requirement_name
from cuenv.solve.model import SetAside

if TYPE_CHECKING:  # only a pip part needs it
    from packaging.requirements import Requirement

FILES = (".whl", ".zip", ".tar.gz", ".tgz", ".tar.bz2")  # how the files end that pip installs
HASHED = regex(r"#(?:[^#]*&)?sha256=[0-9a-f]{64}(?:&|$)")
_REPOSITORY = regex(r"(?:git|hg|svn|bzr)(?:\+|@|:)")
_REVISION = regex(r"(?<=[^/@])@([^@/#]+)(?:#.*)?$")
_COMMIT = regex(r"[0-9a-f]{7,40}")
_DIRECT = regex(r"\s*[A-Za-z0-9][A-Za-z0-9._-]*\s*(?:\[[^\]]*\])?\s*@\s*(.+)")
_LOCAL = regex(r"\.{1,2}(?:/|$|\[)|/|~|[A-Za-z]:\\")
_VARIABLE = regex(r"\$\{[A-Za-z0-9_]+\}")
_COMMENT = regex(r"(?:^|\s)#.*$")
_OPTIONS = regex(r"\s(-[a-z]|--[a-z][a-z-]*)(?=[\s=]|$)")
_USER = regex(r"((?:git|hg|svn|bzr)\+ssh://)([A-Za-z][\w.-]*)@(\S*)")
_BUILT = regex(
    r"\s*(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*@\s*file://\S*/[^/\s]+_\d{10,}/[^;]*?"
    r"(?:/(?P=name)-(?P<release>\d[^/-]*?)(?:-[^/]*\.whl|\.tar\.gz|\.zip))?\s*(?P<marker>;.*)?"
)
"""What ``pip freeze`` writes of a package that conda installed: the folder in which it was built, somewhere else."""
_SEVERAL = regex(r"[A-Za-z][A-Za-z0-9._-]*(?:\s+[A-Za-z][A-Za-z0-9._-]*)+")
_QUOTED = regex(r"\s*([\"'])[^\"']*\1\s*")
_NO_VERSION = regex(r"\s*[A-Za-z0-9][A-Za-z0-9._-]*\s*==\s*[A-Za-z][\w.+-]*\s*")
_SITE = regex(r"(?:https?|file)://[^\s]+")

_VALUED = {
    "-i": "index",
    "--index-url": "index",
    "--pypi-url": "index",
    "--extra-index-url": "extra",
    "-f": "links",
    "--find-links": "links",
    "-r": "list",
    "--requirement": "list",
    "-c": "constraint",
    "--constraint": "constraint",
    "-e": "editable",
    "--editable": "editable",
    "--no-binary": "flag",
    "--only-binary": "flag",
    "--trusted-host": "left",
    "--use-feature": "left",
}
"""Options of a list of requirements that a value follows, and what they are."""
_PLAIN = {"--no-index": "no_index", "--pre": "pre", "--prefer-binary": "left", "--require-hashes": "left"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PipOptions:
    """Where packages come from, as a pip part says it."""

    index: str = ""  # the index that stands in for the usual one; empty where none is named
    extra: tuple[str, ...] = ()  # further indexes
    links: tuple[str, ...] = ()  # pages and folders with files
    alone: bool = False  # whether only those pages and folders count
    flags: tuple[str, ...] = ()  # further options, as uv takes them

    def lines(self) -> tuple[str, ...]:
        """As a list of requirements has them, without credentials."""
        found = [f"--index-url {redact(self.index)}"] if self.index else []
        found += [f"--extra-index-url {redact(url)}" for url in self.extra]
        found += [f"--find-links {redact(url)}" for url in self.links]
        return (*found, *(["--no-index"] if self.alone else []))


class WrongLine(NamedTuple):
    """A line that pip refuses as well: the line, what is wrong with it, what to write, and the lines in its place."""

    text: str
    why: str
    fix: str
    better: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PipLines:
    """The lines of a pip part, by what is done with them."""

    requirements: tuple[str, ...] = ()
    options: PipOptions = field(default_factory=PipOptions)
    aside: tuple[SetAside, ...] = ()  # what no hash can pin
    wrong: tuple[WrongLine, ...] = ()  # what pip refuses as well
    ignored: tuple[tuple[str, str], ...] = ()  # options that change nothing of what is locked, each with the reason
    # lines that name the folder in which conda built a package, which are taken by its name
    built: tuple[str, ...] = ()


def read_lines(texts: Iterable[str], unread: Mapping[str, str] | None = None) -> PipLines:
    """Understand the lines of a pip part.

    Args:
        texts: as they stand in the file, lists of requirements in place of the lines that name them.
        unread: lines that name a list that could not be read, and why.
    """
    reader = _Lines(unread or {})
    for text in texts:
        reader.line(_COMMENT.sub("", text).strip())
    return PipLines(
        requirements=tuple(dict.fromkeys(reader.requirements)),
        options=PipOptions(
            index=reader.one.get("index", ""),
            extra=tuple(dict.fromkeys(reader.extra)),
            links=tuple(dict.fromkeys(reader.links)),
            alone="no_index" in reader.one,
            flags=tuple(reader.flags),
        ),
        aside=tuple(dict.fromkeys(reader.aside)),
        wrong=tuple(reader.wrong),
        ignored=tuple(dict.fromkeys(reader.ignored)),
        built=tuple(dict.fromkeys(reader.built)),
    )


_FOREIGN = regex(r"-(win_amd64|win_arm64|win32|macosx_\w+)\.whl(?:#\S*)?\s*\Z")
"""The end of the name of a wheel for another system."""


def without_options(text: str) -> tuple[str, str]:
    """A requirement, and the options behind it over which pip passes, because they are for a line of their own."""
    first = None if text.startswith("-") else _OPTIONS.search(text)
    if first is None or first[1] in ("--hash", "--config-settings", "--global-option"):
        return text, ""
    return text[: first.start()].strip(), text[first.start() :].strip()


class _Lines:
    def __init__(self, unread: Mapping[str, str]) -> None:
        self.unread = unread
        self.requirements: list[str] = []
        self.one: dict[str, str] = {}
        self.extra: list[str] = []
        self.links: list[str] = []
        self.flags: list[str] = []
        self.aside: list[SetAside] = []
        self.wrong: list[WrongLine] = []
        self.ignored: list[tuple[str, str]] = []
        self.built: list[str] = []

    def line(self, text: str) -> None:
        """One line: options, or a requirement with options of its own behind it."""
        if text.startswith("-"):
            self._options(text)
            return
        text, options = without_options(text)
        if options:
            self._options(options)  # pip reads them, and passes over them
        if text:
            self._requirement(text)

    def _options(self, text: str) -> None:
        words = shell_words(text)
        while words:
            name, joint, value = words.pop(0).partition("=")
            if not name.startswith("-"):
                why, fix = "an option of pip is expected", "write one entry per option"
                self.wrong.append(WrongLine(line_text(text), why, fix, tuple(_apart(shell_words(text)))))
                return
            kind = _VALUED.get(name)
            if not joint and not kind and name[:2] in _VALUED and not name.startswith("--") and len(name) > 2:
                kind, joint, value = _VALUED[name[:2]], "=", name[2:]  # -fURL
                name = name[:2]
            if kind and not joint:
                value = words.pop(0) if words else ""
            if kind and not value:
                self.wrong.append(WrongLine(line_text(text), f"{name} needs a value", f"write {name} VALUE"))
            else:
                self._option(name, kind or _PLAIN.get(name, ""), value)

    def _option(self, name: str, kind: str, value: str) -> None:
        whole = f"{name} {value}".strip()
        if kind in ("index", "extra", "links"):
            self._site(name, kind, value)
        elif kind in ("list", "constraint"):
            why = self.unread.get(f"{name} {value}") or "a list of requirements that was not read"
            self.aside.append(SetAside(text=line_text(whole), why=why))
        elif kind == "editable":
            _, why = unpinnable(value) or ("", "a project that is installed in place has no hash")
            self.aside.append(SetAside(text=f"-e {line_text(value)}", why=why))
        elif kind == "no_index":
            self.one["no_index"] = "1"
        elif kind == "pre":
            self.flags += ["--prerelease", "allow"]
        elif kind == "flag":
            self.flags += [name, value]
        elif kind == "left":
            self.ignored.append((line_text(whole), "it does not change versions or hashes"))
        else:
            self.ignored.append((line_text(whole), "pip does not accept this option in a requirements file"))

    def _site(self, name: str, kind: str, value: str) -> None:
        if _VARIABLE.search(value):  # a stranger's file must not send what stands in our variables to a host it names
            scheme, _, rest = value.partition("://")
            value = f"{scheme}://{rest.rpartition('@')[2]}"
        if _VARIABLE.search(value) or (kind != "links" and not _SITE.fullmatch(value)):
            self.wrong.append(
                WrongLine(line_text(f"{name} {value}"), "it is not a URL", f"write {name} https://HOST/PATH")
            )
        elif kind == "index":
            self.one["index"] = value
        else:
            (self.extra if kind == "extra" else self.links).append(value)

    def _requirement(self, text: str) -> None:
        by_conda = _BUILT.fullmatch(text)
        if by_conda:
            self.built.append(line_text(text))
            release = f"=={by_conda['release']}" if by_conda["release"] else ""
            text = f"{by_conda['name']}{release}{by_conda['marker'] or ''}"
        foreign = _FOREIGN.search(text)  # none with a marker, which may leave it out
        if foreign:
            system = "Windows" if foreign[1].startswith("win") else "macOS"
            name, number = text.rpartition("/")[2].split("-")[:2]
            better = (f"{name}=={number}",)
            self.wrong.append(WrongLine(line_text(text), f"it is a wheel for {system}", "write NAME==VERSION", better))
            return
        reason = unpinnable(text)
        if reason:
            self.aside.append(SetAside(text=line_text(text), why=reason[1]))
            return
        fault = _invalid(text)
        if fault:
            self.wrong.append(fault)
        else:
            self.requirements.append(text)


def _apart(words: list[str]) -> Iterator[str]:
    """Options, each with its value, and requirements, each for a line of its own."""
    while words:
        word = words.pop(0)
        yield f"{word} {words.pop(0)}" if word in _VALUED and words else word


def unpinnable(text: str) -> tuple[str, str] | None:
    """What a requirement names that no hash can pin, and why; ``None`` for one of an index, or of a URL with its hash.

    Returns:
        ``folder``, ``file``, ``repository`` or ``url``, and the reason.
    """
    named = _DIRECT.fullmatch(text)
    target = (named[1] if named else text).strip()
    if _VARIABLE.search(text):
        return "url", "it contains a shell variable, which cuenv does not expand"
    if _REPOSITORY.match(target):
        place = target.partition("://")[2] or target.partition(":")[2]  # git+git@HOST:PATH is pip's other way
        revision = _REVISION.search(place)
        if revision and _COMMIT.fullmatch(revision[1]):
            return "repository", "it names a commit, and pip cannot check a repository by a hash"
        what = f"it names the branch or tag {revision[1]}" if revision else "it names a repository without a commit"
        return "repository", f"{what}, which can move"
    local = target.startswith("file:") or _LOCAL.match(target)
    if "://" not in target and not local and not named:
        bare = target.split("[")[0].split(";")[0].strip()
        local = bare.endswith(FILES) or "/" in bare
    if local:
        if target.partition("#")[0].endswith(FILES):
            return "file", "it is a file on this machine"
        return "folder", "it is a folder"
    if "://" in target and not named:
        return "url", "it is a URL without a name; NAME @ URL#sha256=HASH can be locked"
    if "://" in target and not HASHED.search(target):
        return "url", "it is a URL without a hash; NAME @ URL#sha256=HASH can be locked"
    return None


def folder_of(text: str) -> str:
    """The folder that a requirement names, as it is written; empty for any other."""
    target = text.removeprefix("-e ").strip()
    named = _DIRECT.fullmatch(target)
    target = (named[1] if named else target).strip()
    found = unpinnable(target)
    if not found or found[0] != "folder" or target.startswith("-"):
        return ""
    return target.removeprefix("file://").removeprefix("file:").split("[")[0].split("#")[0].strip()


def project_of(text: str) -> str:
    """The project that a requirement names, normalised, by its own name or by that of its repository; else empty."""
    target = text.removeprefix("-e ").strip()
    egg = re.search(r"#(?:.*&)?egg=([A-Za-z0-9._-]+)", target)
    if egg:
        return requirement_name(egg[1])
    if target.startswith("-"):
        return ""
    if _DIRECT.fullmatch(target) or not unpinnable(target):
        return requirement_name(target)
    last = target.partition("#")[0].rstrip("/").rpartition("/")[2].partition("@")[0]
    return requirement_name(last.removesuffix(".git"))


def line_text(text: str) -> str:
    """A line for people and for files: without credentials, on one line; a login name alone for SSH stays."""
    users = [(found[1], found[2], found[3]) for found in _USER.finditer(text)]
    clean = one_line(redact(text))
    for scheme, user, rest in users:
        clean = clean.replace(f"{scheme}{rest}", f"{scheme}{user}@{rest}", 1)
    return clean


def _invalid(text: str) -> WrongLine | None:
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 - only with a pip part

    bare = re.split(r"\s--", text, maxsplit=1)[0]
    try:
        return _not_a_package(Requirement(bare), bare, text)
    except (InvalidRequirement, RecursionError):
        if _SEVERAL.fullmatch(bare):
            each = tuple(bare.split())
            return WrongLine(
                line_text(text), "several names are on one line", "write one requirement on each line", each
            )
        if _QUOTED.fullmatch(bare):
            return WrongLine(line_text(text), "it is in quotes", "write the line without quotes")
        number = _NO_VERSION.fullmatch(bare)
        if number:
            return WrongLine(line_text(text), "the text after == is not a version", "write NAME, or NAME==1.2")
        return WrongLine(line_text(text), "it is not a valid requirement", "write NAME, NAME>=1 or NAME[extra]==1.2")


_REMOVED = "2.12.0"  # the last tensorflow-gpu, whose setup only fails; from 2.14 on tensorflow has the extra and-cuda
_WITH_EXTRA = "2.14.0"


def _not_a_package(asked: Requirement, bare: str, text: str) -> WrongLine | None:
    """A name under which an index has nothing that pip can install, and what is meant by it."""
    name = normalise(asked.name)
    if name == "python":
        why = "pip installs no Python, and no index has a package of that name"
        fix = "remove the line; an entry of conda names the Python, or the file .python-version beside a list"
        return WrongLine(line_text(text), why, fix)
    if name == "pytorch":
        torch = re.sub(r"(?i)pytorch", "torch", bare, count=1).strip()
        why = "the package pytorch on PyPI only ends with an error, and PyTorch is torch there"
        return WrongLine(line_text(text), why, f"write {torch}", (torch,))
    if name == "tensorflow-gpu" and not asked.url and asked.specifier.contains(_REMOVED):
        own = asked.specifier.contains(_WITH_EXTRA)
        asked.name = "tensorflow"
        asked.extras |= {"and-cuda"} if own else set()
        why = f"pip would take tensorflow-gpu {_REMOVED}, which only ends with an error: from 2.12 on it is tensorflow"
        why += ", and the extra and-cuda installs its CUDA" if own else ""
        return WrongLine(line_text(text), why, f"write {asked}", (str(asked),))
    return None


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a list of requirements with what they continue on, without comments, by the number of the first."""
    parts: list[str] = []
    first = 1
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        first = first if parts else number
        bare = _COMMENT.sub("", line).strip()
        if bare.endswith("\\") and not line.lstrip().startswith("#"):
            parts.append(bare.removesuffix("\\").strip())
            continue
        whole = " ".join(filter(None, (*parts, bare)))
        parts = []
        if whole:
            yield first, whole
    if parts:
        yield first, " ".join(filter(None, parts))
