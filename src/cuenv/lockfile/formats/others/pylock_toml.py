"""``pylock.toml`` (PEP 751), as uv, pip and PDM write it; packaging validates it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from cuenv.core.errors import InputError, UsageError
from cuenv.core.findings import Finding
from cuenv.core.reading import describe
from cuenv.core.regex import regex
from cuenv.core.urls import blanked, index_url, one_line
from cuenv.knowledge.rows import PLATFORMS
from cuenv.lockfile.formats import LockPart, LockReader, of_ours
from cuenv.lockfile.formats.others.uv_lock import no_wheels, toml_document
from cuenv.lockfile.wheel_target import NamedFile, WheelTarget, best_python, file_name, pythons
from cuenv.solve.environment_spec import normalise, requirement_name
from cuenv.solve.model import Lock, PipLocked, Solution
from cuenv.solve.uv_output import toml_string

if TYPE_CHECKING:  # only this format needs them
    from packaging.markers import Marker
    from packaging.pylock import Package, PackageWheel, Pylock

_AGAIN = "uv export --format pylock.toml --output-file pylock.toml"
_OWN_AGAIN = "--format pylock"
_TORCH = "torch"
_LONGEST = 20_000  # characters of a marker


_OURS = "cuenv"
"""The table under ``tool`` in which cuenv keeps the host that a lock was made for, and the least host that runs it."""


def render(solution: Solution, metadata: Mapping[str, str], *, head: tuple[str, ...]) -> str:
    """Write what pip installs on one platform: marker-free, since the file is for the GPUs of its record.

    Args:
        solution: with the packages for pip, and the Python that they are for.
    """
    from packaging.pylock import Pylock  # noqa: PLC0415 - only this format needs it

    machine = WheelTarget(solution.platform, solution.python).environment["platform_machine"]
    here = {item.name for item in solution.pip}
    kept = {key.removeprefix("cuenv_"): value for key, value in sorted(metadata.items()) if key.startswith("cuenv_")}
    document = {
        "lock-version": "1.0",
        "environments": [f"sys_platform == 'linux' and platform_machine == '{machine}'"],
        "requires-python": f"=={solution.python}.*",
        "created-by": "cuenv",
        "packages": [_entry(item, here) for item in solution.pip],
        "tool": {_OURS: kept},
    }
    Pylock.from_dict(document)
    return "\n".join([*(f"# {blanked(text)}".rstrip() for text in head), *_toml(document)]) + "\n"


def _entry(item: PipLocked, here: set[str]) -> dict[str, Any]:
    file: dict[str, Any] = {"url": index_url(item.url)}
    file |= {"size": item.size} if item.size else {}
    file["hashes"] = {"sha256": item.sha256} if item.sha256 else {}
    found: dict[str, Any] = {"name": item.name, "version": item.version}
    needs = sorted({requirement_name(text) for text in item.depends} & here)
    found |= {"dependencies": [{"name": name} for name in needs]} if needs else {}
    if item.direct:
        return {**found, "archive": file}
    return {**found, **({"sdist": file} if item.from_source else {"wheels": [file]})}


def _toml(document: Mapping[str, Any]) -> Iterator[str]:
    """The document as TOML: plain values first, then the packages, then the table of ours."""
    plain = {key: value for key, value in document.items() if key not in ("packages", "tool")}
    yield from (f"{key} = {_value(value)}" for key, value in plain.items())
    for entry in document["packages"]:
        yield from ("", "[[packages]]", *(f"{key} = {_value(value)}" for key, value in entry.items()))
    yield from ("", f"[tool.{_OURS}]")
    yield from (f"{key} = {_value(value)}" for key, value in document["tool"][_OURS].items())


def _value(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return toml_string(value) if isinstance(value, str) else str(value)


def _recorded(lock: Pylock) -> dict[str, str]:
    """What cuenv wrote of the host, by the keys that it has in a ``conda-lock.yml``."""
    ours = (lock.tool or {}).get(_OURS)
    if not isinstance(ours, dict):
        return {}
    return {f"cuenv_{key}": value for key, value in ours.items() if isinstance(value, str)}


def _read(text: str, source: str, part: LockPart) -> Lock:
    from packaging.pylock import Pylock, PylockUnsupportedVersionError, PylockValidationError  # noqa: PLC0415 - as above

    document = toml_document(text, source, _AGAIN)
    _bounded(document, source)
    try:
        lock = Pylock.from_dict(document)
        minors = pythons(str(lock.requires_python or ""))
    except PylockUnsupportedVersionError as error:
        said = one_line(str(document.get("lock-version")))[:40]
        raise InputError(f"{source}: a pylock.toml of version {said}; cuenv reads version 1.0", hint=_AGAIN) from error
    except (PylockValidationError, ValueError, TypeError, RecursionError) as error:
        raise InputError(f"{source}: {one_line(str(error))[:200]}", hint=_AGAIN) from error
    if not minors:
        message = f"{source}: requires-python: cuenv knows no Python that {lock.requires_python} admits"
        raise InputError(message, hint=_AGAIN)
    try:
        return _Reading(lock, source, part).lock(minors)
    except ValueError as error:
        raise InputError(f"{source}: {one_line(str(error))[:200]}", hint=_AGAIN) from error


def _bounded(document: object, source: str) -> None:
    """Refuse markers that are too long before packaging parses them, which it does by recursion."""
    todo = [document]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            todo += value.values()
        elif isinstance(value, list):
            todo += value
        elif isinstance(value, str) and len(value) > _LONGEST:
            message = f"{source}: a text of {len(value)} characters is longer than the limit of {_LONGEST}"
            raise InputError(message, hint=_AGAIN)


class _Reading:
    """Selects what an installer takes of one file."""

    def __init__(self, lock: Pylock, source: str, part: LockPart) -> None:
        self.pylock = lock
        self.source = source
        self.part = part
        self.extras = frozenset(map(normalise, part.extras))
        self.groups = frozenset((*(lock.default_groups or ()), *part.groups))
        for option, asked, known in (
            ("extra", self.extras, [*map(normalise, lock.extras or ())]),
            ("group", frozenset(part.groups), [*(lock.dependency_groups or ())]),
        ):
            for name in sorted(asked - {*known}):
                there = f"it has {', '.join(known)}" if known else "it has none"
                message = f"{source} has no {option} {describe(name)}; {one_line(there)}"
                raise UsageError(message, hint=f"cuenv check {shlex.quote(source)}")

    def lock(self, minors: list[str]) -> Lock:
        python = self.part.python or self._python(minors)
        words = [f"Python {python}" + (f" of {self.part.python_from}" if _pinned(self.part) else "")]
        words += [f"extra {name}" for name in sorted(self.extras)]
        words += [one_line(f"group {name}") for name in sorted(self.groups)]
        solutions = tuple(self._solution(WheelTarget(platform, python)) for platform in PLATFORMS)
        served = tuple(item for item in solutions if self._serves(item.platform, python)) or solutions
        metadata = _recorded(self.pylock)
        if minors != [".".join(python.split(".")[:2])]:  # the digest is over the files for one Python
            metadata.pop("cuenv_content", "")
        made = Lock(channels=(), sources=(), solutions=served, part=", ".join(words), metadata=metadata)
        return of_ours(made, _OWN_AGAIN)

    def _serves(self, platform: str, python: str) -> bool:
        """Whether the file says that it is for such a machine."""
        markers = self.pylock.environments or ()
        return not markers or any(self._meets(marker, WheelTarget(platform, python)) for marker in markers)

    def _meets(self, marker: Marker | None, target: WheelTarget) -> bool:
        if marker is None:
            return True
        environment: dict[str, str | frozenset[str]] = {
            **target.environment,
            "extras": self.extras,
            "dependency_groups": self.groups,
        }
        from packaging.markers import UndefinedComparison, UndefinedEnvironmentName  # noqa: PLC0415 - as above

        try:
            return marker.evaluate(environment, context="lock_file")
        except (UndefinedComparison, UndefinedEnvironmentName) as error:
            raise ValueError(f"a marker cannot be understood: {ascii(str(marker))[:120]}") from error

    def _python(self, minors: list[str]) -> str:
        def judged(minor: str) -> tuple[bool, int]:
            target = WheelTarget(PLATFORMS[0], minor)
            found = [item for item in self.pylock.packages if self._meets(item.marker, target)]
            lacking = sum(bool(item.wheels) and _wheel(item, target) is None for item in found)
            return all(item.name != _TORCH for item in found), lacking

        return best_python([minor for minor in minors if self._serves(PLATFORMS[0], minor)] or minors, judged)

    def _solution(self, target: WheelTarget) -> Solution:
        pip: dict[str, PipLocked] = {}
        lacking: dict[str, list[str]] = {}
        for item in self.pylock.packages:
            if not self._meets(item.marker, target):
                continue
            version = str(item.version or "")
            file = _file(item, target)
            if item.wheels and not file.url and item.sdist is None:
                lacking[one_line(f"{item.name} {version}")] = [_name(row) for row in item.wheels]
            direct = bool(item.vcs or item.directory or item.archive)
            found = PipLocked(
                name=item.name,
                version=version,
                url=index_url(file.url),
                sha256=file.sha256,
                size=file.size,
                direct=direct,
            )
            if not (item.directory and not item.version):
                pip.setdefault(item.name, found)
        remarks = [*no_wheels(lacking, target, self.source, by_uv=False)]
        if _TORCH not in pip:
            remarks += self._elsewhere()
        return Solution(
            platform=target.platform,
            pip=tuple(found for _, found in sorted(pip.items())),
            python=target.python,
            remarks=tuple(remarks),
        )

    def _elsewhere(self) -> Iterator[Finding]:
        """The file has torch for another platform, Python, extra or group."""
        markers = {str(item.marker) for item in self.pylock.packages if item.name == _TORCH and item.marker}
        if markers:
            where = one_line(min(markers))[:200]
            message = f"the part of the lock that was read has no PyTorch; the file has it where {where}"
            yield Finding(code="CU115", severity="warning", subject=_TORCH, message=message)


def _pinned(part: LockPart) -> bool:
    return bool(part.python) and not part.typed_python


def _name(wheel: PackageWheel) -> str:
    return file_name(wheel.name or wheel.url or wheel.path or "")


def _wheel(item: Package, target: WheelTarget) -> NamedFile | None:
    best = target.best((_name(row), row) for row in item.wheels or ())
    return NamedFile(best.url or best.path or best.name or "", best.hashes.get("sha256"), best.size) if best else None


def _file(item: Package, target: WheelTarget) -> NamedFile:
    """The file that is installed, and its hash; a folder and a repository have none."""
    wheel = _wheel(item, target)
    if wheel:
        return wheel
    for row in (item.sdist, item.archive):
        if row:
            return NamedFile(row.url or row.path or "", row.hashes.get("sha256"), row.size)
    if item.vcs:
        return NamedFile(f"git+{item.vcs.url or item.vcs.path or ''}", None)
    return NamedFile(item.directory.path if item.directory else "", None)


READER = LockReader(
    file="pylock.toml",
    # above the first table; a lock of Poetry has the key in one
    content=regex(r"\A(?:(?!\[).*\n)*?lock-version[ \t]*=[ \t]*[\"']"),
    read=_read,
    lint=regex(r"pylock(\.[^.]+)?\.toml"),
    program="pip",
    again=_AGAIN,
    parts=("--extra", "--group", "--python"),
    limit=16 * 1024 * 1024,
)
