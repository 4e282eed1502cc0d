"""The registry of lock formats: what a module of this package declares, and nothing else lists them.

A module declares the file that ``cuenv lock`` writes as ``FORMAT``, the file that cuenv reads as ``READER``, or both.
Writing, the comparison with the lock, the commands that ``cuenv lock`` prints and its help go through `formats`;
reading and lint through `readers`. A new format is one module here and its test; one without ``FORMAT`` stands in
``others``, which is imported only where another lock than cuenv's may have to be read.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable
from functools import lru_cache
from importlib import import_module
from pathlib import Path, PurePath
from posixpath import normpath
from types import ModuleType

from cuenv.core.errors import InputError, UsageError
from cuenv.core.findings import Finding, LockFix, WheelFix
from cuenv.core.io.files import names_in
from cuenv.core.reading import describe
from cuenv.core.record import NamedTuple, replace
from cuenv.core.regex import regex
from cuenv.core.urls import one_line
from cuenv.solve.environment_spec import WRITTEN_BY, EnvironmentSpec
from cuenv.solve.model import Lock, SetAside, Solution

PLATFORM = "<platform>"  # stands for the platform in the name of a file that holds one platform
CLIENTS = ("cuenv", "conda", "micromamba", "conda-lock")
"""The order in which the commands of clients are shown; further clients follow."""


class LockedFile(NamedTuple):
    """What a file is written from, compared with, and installed as."""

    lock: Lock
    solution: Solution  # the platform of the file; the first one for a file that holds every platform
    folder: Path
    # the environment file that was locked; in a comparison ``None`` where that is gone or changed
    asked: Callable[[], EnvironmentSpec | None]
    origin: str = ""  # the first line of the comment at the top

    @property
    def spec(self) -> EnvironmentSpec:
        """The environment file, where the lock is written."""
        found = self.asked()
        if found is None:
            raise AssertionError(self.folder)
        return found

    @property
    def name(self) -> str:
        """The name of the environment that is made of it, as a word of a shell."""
        return shlex.quote(self.spec.name or "cuenv")


def _no_commands(_: LockedFile) -> Iterable[tuple[str, str]]:
    return ()


def _always(_: Solution) -> bool:
    return True


class LockFormat(NamedTuple):
    """One kind of file that ``cuenv lock`` writes."""

    file: str  # its name; with `PLATFORM` in it there is one file per platform
    order: int  # its place in lists
    purpose: str  # what it is for, in the help of ``cuenv lock``
    write: Callable[[LockedFile], str]  # the text of the file
    holds: Callable[[Solution], bool] = _always  # whether there is such a file for a platform
    # pairs of a client and the command by which it makes the environment of the file
    install: Callable[[LockedFile], Iterable[tuple[str, str]]] = _no_commands
    # what a text says otherwise than the lock; ``None`` for the lock that the others are compared with
    differences: Callable[[LockedFile, str], Iterable[str]] | None = None
    own: str = WRITTEN_BY  # how a file of ours begins, which is replaced without a copy

    def path(self, folder: Path, platform: str) -> Path:
        """The file of a platform in a folder."""
        return folder / self.file.replace(PLATFORM, platform)

    @property
    def per_platform(self) -> bool:
        """Whether there is one file per platform."""
        return PLATFORM in self.file


class LockPart(NamedTuple):
    """The part that is meant of a lock that holds several; empty: what its own program installs when not told."""

    environment: str = ""  # one of a file of pixi
    extras: tuple[str, ...] = ()  # of a Python project
    groups: tuple[str, ...] = ()  # dependency groups of a Python project, beside those that are installed by default
    python: str = ""  # the release of Python, ``3.12``
    python_from: str = "--python"  # what names that Python, for people
    # the groups that are installed by default, as the project says it; ``None`` where it says nothing
    usual: tuple[str, ...] | None = None

    @property
    def options(self) -> tuple[str, ...]:
        """The options that were given for it."""
        typed = {"--environment": self.environment, "--extra": self.extras, "--group": self.groups}
        return (*(name for name, value in typed.items() if value), *(("--python",) if self.typed_python else ()))

    @property
    def typed_python(self) -> bool:
        """Whether the user named the Python."""
        return bool(self.python) and self.python_from == "--python"


class LockReader(NamedTuple):
    """One kind of file that is read as a lock."""

    file: str  # its usual name, for people
    content: re.Pattern[str]  # what such a text contains
    # the lock in a text, given the name of its source for errors, and the part that is meant
    read: Callable[[str, str, LockPart], Lock]
    # names of files that ``cuenv lint`` takes for locks of this format; ``None`` for a format it leaves alone
    lint: re.Pattern[str] | None = None
    program: str = ""  # whose file it is; empty where ``cuenv install`` and the other commands take it as well
    again: str = ""  # the command that makes the file anew; empty where cuenv does
    parts: tuple[str, ...] = ()  # the options that choose a part of it
    installs: bool = False  # whether ``cuenv install`` takes it, though it is another program's
    limit: int = 64 * 1024 * 1024  # characters that it may have


_HEAD_LINES = 200
_OF_POETRY = "poetry export --output requirements.lock.txt && cuenv check requirements.lock.txt"
_OF_PDM = "pdm export --format requirements --output requirements.lock.txt && cuenv check requirements.lock.txt"
_OF_PIPENV = "pipenv requirements --hash > requirements.lock.txt && cuenv check requirements.lock.txt"
_OF_SETUP = "uv pip compile --generate-hashes -o requirements.lock.txt setup.py && cuenv check requirements.lock.txt"
_COMPOSE = "cuenv lint {dockerfiles}"
_OTHERS = (
    (r'"pipfile-spec"\s*:', "a lock of Pipenv", _OF_PIPENV),
    (r'@generated by Poetry|^python-versions = "', "a lock of Poetry", _OF_POETRY),
    (r"@generated by PDM", "a lock of PDM", _OF_PDM),
    (r"^# packages in environment at |^# Name +Version +Build", "an output of conda list", "cuenv lock {file}"),
    (
        r"\A(?:[ \t]*(?:#.*)?\n)*[A-Za-z0-9_.-]+=[^=\s]+=[^=\s]+$",
        "an output of conda list --export",
        "cuenv lock {file}",
    ),
    (r"\A\s*Package +Version[^\n]*\n-+ +-+", "an output of pip list", "python -m pip list --format=freeze > {file}"),
    (
        r"^\[(?:workspace|tool\.pixi)|^channels[ \t]*=[ \t]*\[",
        "a manifest of pixi",
        "pixi lock && cuenv check pixi.lock",
    ),
    (r"^\[project\]", "a project file of Python", "uv lock && cuenv check uv.lock"),
    (r"^\[tool\.poetry\b", "a project file of Poetry", f"poetry lock && {_OF_POETRY}"),
    (r"^\[(?:tool\.|build-system)", "a project file of Python without the table [project]", _OF_SETUP),
    (r"^services:[ \t]*(?:#.*)?\n(?:[ \t]*(?:#.*)?\n)*[ \t]+[\w.-]+:[ \t]*(?:[&#].*)?$", "a compose file", _COMPOSE),
    (r"\A(?:[ \t]*(?:#.*|ARG\s.*)?\n)*FROM[ \t]+\S", "a Dockerfile", "cuenv lint {file}"),
    (
        r'\A\s*\{[\s\S]*"(?:zero_optimization|train_(?:micro_)?batch_size\w*)"',
        "a configuration of DeepSpeed",
        "cuenv lint {file}",
    ),
)
"""Files that are neither a lock that is read nor an environment file: how they are known, what they are, what to do."""
_KEYS = regex(r"(?m)^[ \t]*(?:[{-]|[\"']?(?:version|metadata|package)[\"']?[ \t]*:)")
"""What a conda-lock.yml has, in whatever state; of anything else its reader has nothing to say."""
_RELEASE = regex(r"3\.\d{1,2}(\.\d{1,3})?")
_WISH = regex(
    r"(?:(?:git\+)?https?://|\.{1,2}/)\S+.*"
    r"|[A-Za-z0-9][\w.-]*[ \t]*(?:\[[\w,. -]*\])?[ \t]*(?:(?:[=<>~!]=|[<>]|@ |;).*)?(?:#.*)?"
)


@lru_cache(maxsize=2)
def modules(package: str = __name__) -> tuple[ModuleType, ...]:
    """The modules of this package, or of ``others``, by name."""
    folders = import_module(package).__path__
    files = (name for folder in folders for name in names_in(folder) if name.endswith(".py") and name != "__init__.py")
    return tuple(import_module(f"{package}.{name.removesuffix('.py')}") for name in files)


def formats() -> tuple[LockFormat, ...]:
    """Every format that is written, in its order; the first is the lock that vouches for the others."""
    found: list[LockFormat] = [item.FORMAT for item in modules() if hasattr(item, "FORMAT")]
    return tuple(sorted(found, key=lambda item: item.order))


def readers() -> tuple[LockReader, ...]:
    """Every format that is read."""
    found = (item for item in (*modules(), *modules(f"{__name__}.others")) if hasattr(item, "READER"))
    return tuple(item.READER for item in sorted(found, key=lambda item: item.__name__.rpartition(".")[2]))


def reader_of(text: str) -> LockReader:
    """The format that the content of a text shows; what shows none is read as the first format that is written."""
    start = "\n".join(text[: _HEAD_LINES * 1000].splitlines()[:_HEAD_LINES])
    first = formats()[0]
    usual: LockReader = next(item.READER for item in modules() if getattr(item, "FORMAT", None) is first)
    if usual.content.search(start):
        return usual
    return next((item for item in readers() if item.content.search(start)), usual)


def _by_uv(fix: WheelFix, release: str, tag: str) -> str:
    """What takes a wheel of torch and its index into a project of uv."""
    return f"uv add --index pytorch-{tag}={fix.url} torch=={release}{fix.note and f',{fix.note}'}"


def _by_hand(fix: WheelFix, release: str) -> str:
    """The same for a project with extras or groups: ``uv add`` would replace the index that each of them has."""
    wheel = f"torch=={release}{fix.note and f',{fix.note}'}"
    return f"in [tool.uv.sources] of pyproject.toml take {wheel} from the index {fix.url}"


def mended_there(finding: Finding, lock: Lock) -> Finding:
    """A finding about a lock: in one of another program its own command mends what cuenv would lock anew."""
    fix = finding.fix
    if lock.program == "uv" and isinstance(fix, WheelFix):
        parted = ", extra" in lock.part or ", group" in lock.part
        release, _, tag = fix.requirements[0].removeprefix("torch==").partition("+")
        return replace(finding, fix=fix.worded(_by_hand(fix, release) if parted else _by_uv(fix, release, tag)))
    if not lock.again or not isinstance(fix, LockFix):
        return finding
    if lock.program:  # which locks for no C library
        return replace(finding, fix=None if finding.code == "CU407" else lock.again)
    return replace(finding, fix=f"{lock.again} {fix.options}".rstrip())


def of_ours(lock: Lock, again: str) -> Lock:
    """A lock without conda that cuenv wrote: its record names the environment file, which another program's does not.

    Args:
        lock: as it was read.
        again: the options that make such a file anew.
    """
    if not lock.metadata:
        return lock
    source = one_line(lock.metadata.get("cuenv_source", ""))
    words = ["cuenv", "lock", *([source] if source else []), *again.split()]
    metadata = dict(lock.metadata)
    try:
        aside, options = recorded_aside(metadata.pop(ASIDE, "{}"))
    except ValueError as error:
        raise InputError(f"the lock's record of what is not locked: {error}", hint=shlex.join(words)) from error
    return replace(
        lock,
        solutions=tuple(replace(item, aside=aside, options=options) for item in lock.solutions),
        metadata=metadata,
        sources=(source,) if source else (),
        again=shlex.join(words),
    )


ASIDE = "cuenv_unlocked"
"""The key of the metadata under which a lock records what it leaves for pip; ``conda-lock.yml`` adds the platform."""


def aside_record(solution: Solution) -> str:
    """What a solution sets aside, as the metadata of a lock have it."""
    rows = [{"text": one.text, "why": one.why, "build": one.build} for one in solution.aside]
    return json.dumps({"requirements": rows, "options": solution.options})


def recorded_aside(text: str) -> tuple[tuple[SetAside, ...], tuple[str, ...]]:
    """What `aside_record` wrote: the requirements that are set aside, and the options for them.

    Raises:
        ValueError: it is something else.
    """
    try:
        found = json.loads(text)
        return (
            tuple(
                SetAside(text=_plain(row["text"]), why=_plain(row["why"]), build=row["build"] is True)
                for row in found.get("requirements", ())
            ),
            tuple(map(_plain, found.get("options", ()))),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise ValueError("expected what cuenv writes there") from None


def _plain(text: object) -> str:
    if not isinstance(text, str) or not text.isprintable():
        raise ValueError(text)
    return text


def compiled(source: str) -> str:
    """The command that makes requirements with hashes of requirements."""
    return f"uv pip compile --generate-hashes {shlex.quote(source)} --output-file requirements.lock.txt"


def stranger(text: str, source: str) -> tuple[str, str] | None:
    """What a text is that is no lock which cuenv reads, and the command for it; ``None`` where nobody knows."""
    for pattern, what, command in _OTHERS:
        if re.search(pattern, text[:100_000], re.MULTILINE):
            files = _dockerfiles(text[:100_000], source) if command == _COMPOSE else ()
            if command == _COMPOSE and not files:
                return "a compose file that names no Dockerfile", "cuenv lint --help"
            return what, command.format(file=shlex.quote(source), dockerfiles=shlex.join(files))
    return None


_BUILD = regex(r"(?m)^(?P<margin>[ \t]+)build:[ \t]*(?:(?P<folder>[^\s#&{]\S*)|(?:&\S+)?)[ \t]*(?:#.*)?$")
_SAID = regex(r"(?m)^[ \t]+(?P<key>context|dockerfile):[ \t]*[\"']?(?P<value>[^\s\"'#]+)")


def _dockerfiles(text: str, source: str) -> tuple[str, ...]:
    """The Dockerfiles that the services of a compose file are built from, as far as it names them without variables."""
    found: dict[str, None] = {}
    for build in _BUILD.finditer(text):
        deeper = re.compile(rf"(?:\n{build['margin']}[ \t]+\S.*|\n[ \t]*)*").match(text, build.end())
        said = dict(_SAID.findall(deeper[0] if deeper else ""))
        context = (build["folder"] or said.get("context", ".")).strip("\"'")
        path = normpath(PurePath(source).parent / context / said.get("dockerfile", "Dockerfile"))
        if "$" not in path and "://" not in context:
            found[path] = None
    return tuple(found)


def other_than_environment(text: str, source: str) -> tuple[str, str] | None:
    """What a text is that is taken for an environment file and is none, and the command for it."""
    reader = reader_of(text)
    if reader.content.search(text):
        return f"a lock already ({reader.file})", f"cuenv check {shlex.quote(source)}"
    return stranger(text, source)


def _is_requests(text: str, source: str) -> bool:
    """Whether it is a list of requirements for pip."""
    lines = [line.strip() for line in text[:20_000].splitlines()[:_HEAD_LINES]]
    found = [line for line in lines if line and not line.startswith("#")]
    named = "requirements" in Path(source).name
    return len(found) > (not named) and all(_WISH.fullmatch(line) or line.startswith("-") for line in found)


def parse_lock(text: str, source: str, part: LockPart | None = None) -> Lock:
    """Read a text in the format that its content shows.

    Args:
        part: which part of it is meant, where it holds several.
    """
    reader = reader_of(text)
    if not reader.content.search(text):
        other = stranger(text, source)
        if other:
            raise InputError(f"{source} is {other[0]}, which cuenv does not read as a lock", hint=other[1])
        if _is_requests(text, source):
            raise InputError(
                f"{source} is a list of requirements that are not pinned, so its releases are unknown",
                hint=f"cuenv lock {shlex.quote(source)}",
            )
        if text.strip() and not _KEYS.search(text):
            names = ", ".join(item.file for item in readers())
            raise InputError(f"{source} is not a lock that cuenv reads: {names}", hint="cuenv lock environment.yml")
    if len(text) > reader.limit:
        raise InputError(
            f"{source}: {len(text)} characters are more than the limit of {reader.limit}",
            hint=reader.again or "cuenv lock",
        )
    wanted = part or LockPart()
    for option in wanted.options:
        if option not in reader.parts:
            there = f"; it takes {', '.join(reader.parts)}" if reader.parts else ""
            message = f"{option} has no effect on {source}, which is read as {reader.file}{there}"
            raise UsageError(message, hint=f"cuenv check {shlex.quote(source)}")
    if wanted.python and not _RELEASE.fullmatch(wanted.python):
        raise UsageError(
            f"--python expects a release such as 3.12, got {describe(wanted.python)}", hint="--python 3.12"
        )
    lock = reader.read(text, source, wanted)
    return replace(lock, program=reader.program, again=lock.again or reader.again)
