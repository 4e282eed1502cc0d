"""``requirements-<platform>.lock.txt``: the pip part with hashes, as ``pip install --require-hashes`` reads it.

It is read as well, as pip-compile and uv write it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile
from pathlib import Path

from cuenv.core.errors import InputError
from cuenv.core.findings import OPEN, Finding, first_of
from cuenv.core.reading import Faults, describe, sha256_hash
from cuenv.core.record import dataclass, replace
from cuenv.core.regex import regex
from cuenv.core.urls import blanked, index_url, one_line, redact
from cuenv.knowledge.rows import PLATFORMS
from cuenv.lockfile.formats import PLATFORM, LockedFile, LockFormat, LockPart, LockReader, compiled, of_ours
from cuenv.solve.environment_spec import WRITTEN_BY, EnvironmentSpec, names_index, normalise
from cuenv.solve.model import Lock, PipLocked, Solution

UNLOCKED = "CU501"  # allowing this code leaves the pip part out of the lock
LEFT_OUT = f"--allow {UNLOCKED} leaves the pip part out of the lock"  # why each line of it is set aside then


def lines(packages: Iterable[PipLocked]) -> tuple[str, ...]:
    """One requirement for each package: ``name==version --hash=sha256:...``, or ``name @ URL`` where one was asked."""
    return tuple(
        (f"{item.name} @ {index_url(item.url)}" if item.direct else f"{item.name}=={item.version}")
        + (f" --hash=sha256:{item.sha256}" if item.sha256 else "")
        for item in sorted(packages, key=lambda item: item.name)
    )


def findable(packages: Iterable[PipLocked]) -> Iterator[PipLocked]:
    """The packages as anybody's pip finds them: by URL where they have a local version, which no file of PyPI has."""
    return (replace(item, direct=item.direct or "+" in item.version) for item in packages)


def indexes(spec: EnvironmentSpec) -> tuple[str, ...]:
    """The indexes that an environment file names beside the usual ones, as options of pip, without credentials."""
    return tuple(redact(text.strip()) for text in spec.pip if names_index(text))


def render(
    packages: Iterable[PipLocked],
    *,
    head: tuple[str, ...],
    indexes: tuple[str, ...] = (),
    metadata: Mapping[str, str] | None = None,
) -> str:
    """Write the file."""
    record = (f"{key.replace('_', ' ', 1)}: {text}" for key, text in sorted((metadata or {}).items()))
    comments = (f"# {blanked(text)}".rstrip() for text in (*head, *record))
    return "\n".join([*comments, *indexes, *lines(packages)]) + "\n"


def requirement_differences(there: set[str], packages: Iterable[PipLocked]) -> Iterator[str]:
    """Locked packages that requirements lack, and requirements that the lock does not hold."""
    there = {line for line in there if not names_index(line)}
    for item in packages:
        forms = {lines([replace(item, direct=direct)])[0] for direct in (False, True)}
        if there.isdisjoint(forms):
            yield item.name
        there = there - forms
    yield from (ascii(line)[1:60] for line in there)


def pip_command(platform: str, folder: Path | None = None) -> str:
    """The one command that installs the pip part, in the environment."""
    file = FORMAT.path(folder or Path(), platform)
    return f"python -m pip install --require-hashes --no-deps -r {shlex.quote(str(file))}"


def pip_head(spec: EnvironmentSpec, solution: Solution) -> tuple[str, ...]:
    """What the head of a conda file says of the pip part, which an explicit file cannot hold."""
    from cuenv.lockfile.formats.unlocked_txt import aside_command  # noqa: PLC0415 - it is written where this is

    aside: tuple[str, ...] = ()
    if solution.aside:
        names = ", ".join(item.text for item in solution.aside)
        left_out = f" (--allow {UNLOCKED}): what pip adds" if solution.aside[0].why == LEFT_OUT else ""
        aside = (
            f"Not locked{left_out}: {names}",
            f"Install these afterwards in the environment: {aside_command(solution)}",
        )
    elif spec.pip and not solution.pip:
        requested = redact(", ".join(spec.listed or spec.pip))
        aside = (f"Not locked, but installed by pip: {requested}",)
    if not solution.pip:
        return aside
    names = ", ".join(f"{item.name} {item.version}" for item in solution.pip)
    return (
        f"The pip part adds {len(solution.pip)}: {names}",
        f"An explicit file cannot contain them; install them in the environment with: {pip_command(solution.platform)}",
        *aside,
    )


def content_lines(text: str) -> set[str]:
    """The lines of a file without comments."""
    stripped = (line.strip() for line in text.removeprefix("\ufeff").splitlines())
    return {line for line in stripped if line and not line.startswith("#")}


def _write(file: LockedFile) -> str:
    head = (file.origin, f"Install: {pip_command(file.solution.platform)}")
    return render(findable(file.solution.pip), head=head, indexes=indexes(file.spec))


def _differences(file: LockedFile, text: str) -> Iterable[str]:
    return requirement_differences(content_lines(text), file.solution.pip)


FORMAT = LockFormat(
    file=f"requirements-{PLATFORM}.lock.txt",
    order=4,
    purpose="the pip packages, with hashes; only with a pip part",
    write=_write,
    holds=lambda solution: bool(solution.pip),
    differences=_differences,
)
_HASH = regex(r"\s--hash[= ]\s*([a-z0-9]+):([0-9A-Za-z]+)")
_OPTION = regex(r"(--?[A-Za-z][a-z-]*)(?:[= ]\s*(\S+))?")
_PYTHON = regex(r"(?m)^#.*(?:with [Pp]ython|--python-version[= ])\s*(3\.\d{1,2}(?:\.\d{1,3})?)\b")
"""How pip-compile and uv name the Python at the top."""
_RECORD = regex(r"# cuenv ([a-z][a-z0-9_-]*): (.+)")
_SHOWN = 3
_OWN_AGAIN = "--format requirements"
_AGAIN = "uv pip compile --generate-hashes requirements.in --output-file requirements.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """One requirement, pinned to one release."""

    at: int  # number of its first line
    name: str
    version: str
    url: str  # of its file, where the line names one
    marker: str
    sha256: str | None


def _read(text: str, source: str, part: LockPart) -> Lock:
    from cuenv.solve.pip_lines import logical_lines  # noqa: PLC0415 - only to read such a file

    faults = Faults(source)
    found: list[_Line] = []
    indexes: list[str] = []
    aside: list[str] = []
    loose: list[str] = []
    for number, whole in logical_lines(text):
        option = _OPTION.match(whole)
        if option:
            if option[1] in ("-i", "--index-url", "--extra-index-url"):
                indexes.append(index_url(option[2] or ""))
            elif option[1] in ("-r", "--requirement", "-c", "--constraint", "-e", "--editable"):
                aside.append(whole)
            continue
        if whole.startswith((".", "/", "file:")) or ("://" in whole.split("@")[0] and " @ " not in whole):
            aside.append(whole)
            continue
        try:
            line = _requirement(number, whole)
        except ValueError as error:
            faults.add(f"line {number}", str(error))
            continue
        if isinstance(line, str):
            loose.append(f"{line} (line {number})")
        else:
            found.append(line)
    again = _AGAIN if "--hash" in text else compiled(source)
    if not found and not faults.items:
        faults.add("", "no requirement is pinned to one release" if loose else "the file lists no package")
    faults.check(hint=again)
    remarks = (*_open(loose, len(found), again), *_set_aside(aside))
    metadata = _recorded(text)
    named = _PYTHON.search(text[:4000])
    try:
        lock = _chosen(found, indexes, remarks, part, metadata.get("cuenv_python") or (named[1] if named else ""))
    except ValueError as error:
        raise InputError(f"{source}: {error}", hint=_AGAIN) from error
    served = tuple(item for item in lock.solutions if item.platform == metadata.get("cuenv_platform"))
    made = replace(lock, solutions=served or lock.solutions, metadata=metadata, again=compiled(source))
    return of_ours(made, _OWN_AGAIN)


def _recorded(text: str) -> dict[str, str]:
    """What cuenv wrote at the top of a lock without conda, by the keys that it has in a ``conda-lock.yml``."""
    if not text.startswith(WRITTEN_BY):
        return {}
    head = takewhile(lambda line: line.startswith("#"), text.splitlines())
    return {f"cuenv_{found[1]}": found[2] for line in head if (found := _RECORD.fullmatch(line))}


def _requirement(number: int, whole: str) -> _Line | str:
    """A line, or the name of a requirement that leaves its release open."""
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 - only to read such a file

    hashes = dict(_HASH.findall(f" {whole}"))
    bare = _HASH.sub("", f" {whole}").strip()
    try:
        asked = Requirement(bare)
    except (InvalidRequirement, RecursionError) as error:
        raise ValueError(f"{describe(bare)} is not a requirement such as name==1.0") from error
    exact = [item.version for item in asked.specifier if item.operator in ("==", "===") and "*" not in item.version]
    url = index_url(asked.url or "")
    if not exact and not url:
        return normalise(asked.name)
    digest = hashes.get("sha256", "")
    if digest:
        sha256_hash(digest)
    fragment = re.search(r"#(?:.*&)?sha256=([0-9a-f]{64})", asked.url or "")
    return _Line(
        at=number,
        name=normalise(asked.name),
        version=exact[0] if exact else _version_of(url),
        url=url,
        marker=str(asked.marker or ""),
        sha256=digest or (fragment[1] if fragment else None),
    )


def _version_of(url: str) -> str:
    """The version in the name of a wheel."""
    from cuenv.lockfile.wheel_target import file_name  # noqa: PLC0415 - as above

    parts = file_name(url).split("-")
    return parts[1] if url.endswith(".whl") and len(parts) > 4 else ""


def _chosen(found: list[_Line], indexes: list[str], remarks: tuple[Finding, ...], part: LockPart, named: str) -> Lock:
    from cuenv.lockfile.wheel_target import WheelTarget  # noqa: PLC0415 - as above

    part = part if part.python else part._replace(python=named, python_from="its head")
    python = part.python or _python(found)
    index = f"{indexes[0].rstrip('/')}/" if len(set(indexes)) == 1 else ""
    solutions = []
    for platform in PLATFORMS:
        target = WheelTarget(platform, python)
        pip: dict[str, PipLocked] = {}
        for line in found:
            if target.meets(line.marker):
                url = line.url or index
                direct = bool(line.url)
                pip.setdefault(
                    line.name,
                    PipLocked(name=line.name, version=line.version, url=url, sha256=line.sha256, direct=direct),
                )
        solutions.append(
            Solution(
                platform=platform,
                pip=tuple(item for _, item in sorted(pip.items())),
                python=part.python,
                remarks=remarks,
            )
        )
    asked = any("python" in line.marker for line in found)
    said = f"Python {python}" + (f" of {part.python_from}" if part.python and not part.typed_python else "")
    return Lock(channels=(), sources=(), solutions=tuple(solutions), part=said if part.python or asked else "")


def _python(found: list[_Line]) -> str:
    """The newest Python for which the file has torch, if it has it at all, and most of its packages."""
    from cuenv.lockfile.wheel_target import WheelTarget, best_python, pythons  # noqa: PLC0415 - as above

    names = {line.name for line in found}

    def judged(minor: str) -> tuple[bool, int]:
        target = WheelTarget(PLATFORMS[0], minor)
        kept = {line.name for line in found if target.meets(line.marker)}
        return "torch" in names - kept, int(2 * len(kept) < len(names))

    return best_python(pythons(""), judged)


def _open(names: list[str], pinned: int, again: str) -> Iterator[Finding]:
    """Requirements that leave their release to pip, among others that are pinned."""
    if names:
        count = f"{len(names)} of {len(names) + pinned} requirements"
        message = (
            f"{count} {'is' if len(names) == 1 else 'are'} not pinned to one release by ==, so pip installs the "
            f"newest that fits, which was not checked: {first_of(names, _SHOWN)}"
        )
        yield Finding(code=OPEN, severity="error", subject="packages", message=message, fix=again, unknown=True)


def _set_aside(lines_: list[str]) -> Iterator[Finding]:
    """Lines that name what the file does not hold."""
    if lines_:
        shown = one_line(redact(", ".join(lines_[:_SHOWN])))[:200] + (", ..." if len(lines_) > _SHOWN else "")
        message = f"the file refers to other files and folders, which were not checked: {shown}"
        yield Finding(code="CU115", severity="info", subject="packages", message=message)


READER = LockReader(
    file="requirements.txt",
    content=regex(
        r"(?m)^(?![ \t]*(?:#|-[ \t]))[^#\n]*--hash[= ][a-z0-9]+:[0-9a-f]{8}"
        # what is pinned stands behind comments, options and lines that leave their release open
        r"|\A(?:[ \t]*(?:#.*|--?[a-z].*|[A-Za-z0-9][\w.-]*(?:\[[\w,. -]*\])?[ \t]*"
        r"(?:(?:[<>!~;]|==+[ \t]*[^\s0-9]).*)?)?\n)*"
        r"[A-Za-z0-9][\w.-]*(?:\[[\w,. -]*\])?[ \t]*==[ \t]*[0-9]"
    ),
    read=_read,
    program="pip",
    again=_AGAIN,
    parts=("--python",),
    limit=16 * 1024 * 1024,
)
