"""What uv writes of the pip part: ``pylock.toml`` (PEP 751) for one platform, and what packages require, from its log.

``packaging`` reads and checks the pylock. Of several wheels that fit, the one that pip would take is kept: the first by
the order of tags, then by its build.

A pylock of uv does not hold dependencies, and uv's annotations give names without versions. The log
(``RUST_LOG=uv_resolver=debug``) has both for the target platform and Python, one line each:
``DEBUG Adding transitive dependency for accelerate==1.2.0: huggingface-hub>=0.21.0``. A log is no interface, so
``pyproject.toml`` holds uv below the first release that was not read; tests with the real uv compare each kind of
requirement with the metadata. Versions are written as ranges there, and are put back into the form of PEP 440 here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from cuenv.core.errors import InputError
from cuenv.core.regex import regex
from cuenv.core.urls import index_url, printable
from cuenv.solve.environment_spec import normalise
from cuenv.solve.model import PipLocked
from cuenv.solve.pip_part import PipRequest, abi_of, glibc_number

if TYPE_CHECKING:  # only with a pip part
    from packaging.pylock import Package, PackageArchive, PackageSdist, PackageWheel
    from packaging.tags import Tag

LOG = "uv_resolver=debug"  # the value of ``RUST_LOG``
_LEGACY = {(2, 17): "manylinux2014", (2, 12): "manylinux2010", (2, 5): "manylinux1"}
_NAME = r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?:\[[^\]]*\])?(?:\{[^}]*\})?"
_LINE = regex(rf"DEBUG Adding transitive dependency for {_NAME}==(\S+): {_NAME}((?:[*<>=].*)?)")
_ANY_LINE = regex(r"(?:TRACE|DEBUG|INFO|WARN) .*")
_LAST = regex(r"(\d+)$")


def parse(data: Mapping[str, Any], request: PipRequest, source: str) -> tuple[PipLocked, ...]:
    """The packages of a pylock, sorted by name.

    Args:
        request: what was asked; it names the Python and the platform that wheels are chosen for.

    Raises:
        InputError: it is not as PEP 751 says, or no wheel of a package fits.
    """
    from packaging.pylock import Pylock, PylockValidationError  # noqa: PLC0415 - only with a pip part
    from packaging.tags import create_compatible_tags_selector  # noqa: PLC0415 - as above
    from packaging.utils import parse_wheel_filename  # noqa: PLC0415 - as above

    fitting = create_compatible_tags_selector(_tags(request))

    last = request.as_of or "9999"

    def wheel(package: Package) -> PackageWheel | None:
        known = [
            (item, *parse_wheel_filename(item.filename)[2:]) for item in package.wheels or () if _day(item) <= last
        ]
        known.sort(key=lambda entry: entry[1], reverse=True)  # of the same tags the highest build comes first
        return next(fitting((item, tags) for item, _, tags in known), None)

    try:
        lock = Pylock.from_dict(data)
    except PylockValidationError as error:
        raise InputError(f"{source}: {printable(str(error))}") from error
    found = []
    for package in lock.packages:
        file = package.archive or wheel(package) or package.sdist
        if file is None or not file.url or package.version is None:
            what = f"no wheel and no source of {package.name} {package.version} fits this platform and Python"
            raise InputError(f"{source}: {what}")
        found.append(_locked(package, file))
    return tuple(sorted(found, key=lambda item: item.name))


def _locked(package: Package, file: PackageArchive | PackageWheel | PackageSdist) -> PipLocked:
    return PipLocked(
        name=normalise(package.name),
        version=str(package.version),
        url=index_url(file.url or ""),
        sha256=file.hashes.get("sha256"),
        size=file.size,
        uploaded=_day(file),
        direct=package.archive is not None,
    )


def _day(file: PackageArchive | PackageWheel | PackageSdist) -> str:
    """The day of an upload in UTC; empty where the index tells none."""
    return "{}-{:02}-{:02}".format(*file.upload_time.utctimetuple()[:3]) if file.upload_time else ""


def _tags(request: PipRequest) -> list[Tag]:
    """The tags of wheels that fit, best first, as ``cp312-cp312-manylinux_2_28_x86_64``."""
    from packaging.tags import compatible_tags, cpython_tags  # noqa: PLC0415 - only with a pip part

    numbers = request.python.split(".")
    python = (int(numbers[0]), int(numbers[1]))
    platforms = list(_platforms(request))
    other = compatible_tags(python, f"cp{python[0]}{python[1]}", platforms)
    return [*cpython_tags(python, [abi_of(python)], platforms), *other]


def _platforms(request: PipRequest) -> Iterable[str]:
    major, minor = glibc_number(request.glibc) or (2, 17)
    for step in range(minor, 4, -1):
        yield f"manylinux_{major}_{step}_{request.machine}"
        if (major, step) in _LEGACY:
            yield f"{_LEGACY[major, step]}_{request.machine}"
    yield f"linux_{request.machine}"


def render(packages: Iterable[PipLocked]) -> str:
    """A pylock that holds packages: what uv takes as a preference when it lies where it will write.

    Name and release count. A list of requirements with hashes names no file, and uv reads no pylock without one.
    """
    lines = ['lock-version = "1.0"', 'created-by = "cuenv"']
    for item in packages:
        if item.direct:
            continue
        digest = f', hashes = {{ sha256 = "{item.sha256}" }}' if item.sha256 else ""
        url = item.url or f"file:///{item.name}-{item.version}.tar.gz"
        file = f"{{ url = {toml_string(url)}{digest} }}"
        kind = f"sdist = {file}" if item.from_source or not item.url else f"wheels = [{file}]"
        lines += [
            "",
            "[[packages]]",
            f"name = {toml_string(item.name)}",
            f"version = {toml_string(item.version)}",
            kind,
        ]
    return "\n".join(lines) + "\n"


def toml_string(text: str) -> str:
    """A text as a basic string of TOML, which is a string of JSON without DEL."""
    import json  # noqa: PLC0415 - only to write

    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def without_log(text: str) -> str:
    """What uv said beside its log."""
    return "\n".join(line for line in text.splitlines() if not _ANY_LINE.match(line))


def requirements(text: str, packages: Iterable[PipLocked], given: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """What each package requires, as ``name>=1,<2``, sorted; by the name of the package.

    Args:
        text: uv's standard error.
        packages: what came out; what was tried and given up does not count.
        given: names and versions of what conda provides: uv repeats those as requirements of everybody.
    """
    kept = {item.name: item.version for item in packages}
    found: dict[str, dict[str, dict[str, None]]] = {}
    for line in text.splitlines():
        hit = _LINE.fullmatch(line)
        parent, child = (normalise(hit[1]), normalise(hit[3])) if hit else ("", "")
        if hit and parent != child and kept.get(parent) == hit[2]:
            found.setdefault(parent, {}).setdefault(child, {})[specifier(hit[4]) or ""] = None
    return {
        parent: tuple(sorted(f"{child}{_joined(texts, given.get(child))}" for child, texts in children.items()))
        for parent, children in found.items()
    }


def _joined(texts: Iterable[str], given: str | None) -> str:
    """Several ranges on one name as one; the version that conda gives counts where it stands alone."""
    known = [text for text in texts if text]
    own = [text for text in known if given is None or text != f"=={given}"] if len([*texts]) > 1 else known
    return ",".join(dict.fromkeys(part for text in own for part in text.split(",")))


def specifier(text: str) -> str | None:
    """A range of uv as PEP 440 writes it; empty for every version, ``None`` for what PEP 440 cannot say.

    ``<1.5 | >=1.5+`` is ``!=1.5``: a plus behind a number stands for the number with every local label.
    """
    if text in ("", "*"):
        return ""
    segments = [_segment(part) for part in text.split(" | ")]
    if not all(segments) or (len(segments) > 1 and ("==", "") in {item[0] for item in segments if item}):
        return None
    bounds = [item for item in segments if item]
    first, last = bounds[0][0], bounds[-1][1]
    gaps = [_gap(before[1], after[0]) for before, after in pairwise(bounds)]
    if not all(gaps):
        return None
    outer = _whole(first, last) if len(bounds) == 1 else [_lower(first), _upper(last)]
    return ",".join(filter(None, [*outer, *(gap or "" for gap in gaps)]))


_Bound = tuple[str, str]


def _segment(text: str) -> tuple[_Bound, _Bound] | None:
    """The lower and the upper end of one stretch, as operator and version."""
    lower, upper = ("", ""), ("", "")
    for part in text.split(", "):
        hit = re.fullmatch(r"(==|<=|>=|<|>)([0-9][0-9A-Za-z.!+_-]*)", part)
        if not hit:
            return None
        if hit[1] == "==":
            return (">=", hit[2]), ("<=", hit[2])
        if hit[1][0] == ">":
            lower = (hit[1], hit[2])
        else:
            upper = (hit[1], hit[2])
    return lower, upper


def _whole(lower: _Bound, upper: _Bound) -> list[str]:
    """One stretch: a single version, a prefix, or its two ends."""
    if lower[0] == ">=" and upper in (("<=", lower[1]), ("<", f"{lower[1]}+")):
        return [f"=={lower[1]}"]
    prefix = _prefix(lower, upper)
    return [f"=={prefix}.*"] if prefix else [_lower(lower), _upper(upper)]


def _gap(upper: _Bound, lower: _Bound) -> str | None:
    """What lies between two stretches, as an exclusion; ``None`` when it is neither a version nor a prefix."""
    if upper[0] == "<" and lower == (">=", f"{upper[1]}+"):
        return f"!={upper[1]}"
    prefix = _prefix((">=", upper[1]), ("<", lower[1])) if (upper[0], lower[0]) == ("<", ">=") else None
    return f"!={prefix}.*" if prefix else None


def _prefix(lower: _Bound, upper: _Bound) -> str | None:
    """``1.5`` for what lies from 1.5.dev0 to 1.6.dev0."""
    first, last = lower[1].removesuffix(".dev0"), upper[1].removesuffix(".dev0")
    if (lower[0], upper[0]) != (">=", "<") or first == lower[1] or last == upper[1]:
        return None
    following = _LAST.sub(lambda hit: str(int(hit[1]) + 1), first)
    return first if following == last else None


def _lower(bound: _Bound) -> str:
    operator, number = bound
    if number.endswith("+"):
        return f">{number[:-1]}"
    return f"{operator}{number}"


def _upper(bound: _Bound) -> str:
    operator, number = bound
    if number.endswith("+"):
        return f"<={number[:-1]}"
    return f"{operator}{number.removesuffix('.dev0') if operator == '<' else number}"
