"""``pylock.toml`` (PEP 751), as far as uv writes it for one platform: from its data to packages, and back.

Of several wheels that fit, the one that pip would take is kept: the first by the order of tags, then by its build.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from cuenv.core.reading import Faults, Reader
from cuenv.core.urls import index_url
from cuenv.solve.model import PipLocked
from cuenv.solve.pip_part import PipRequest, glibc_number, normalise

_LEGACY = {(2, 17): "manylinux2014", (2, 12): "manylinux2010", (2, 5): "manylinux1"}


def parse(data: Mapping[str, Any], request: PipRequest, source: str) -> tuple[PipLocked, ...]:
    """The packages of a pylock, sorted by name.

    Args:
        data: the TOML document.
        request: what was asked; it names the Python and the platform that wheels are chosen for.
        source: its name, for errors.

    Raises:
        InputError: it is not as PEP 751 says, or no wheel of a package fits.
    """
    faults = Faults(source)
    order = {tag: place for place, tag in enumerate(tags(request))}
    found = [_package(entry, order, faults) for entry in Reader(dict(data), faults).readers("packages")]
    faults.check()
    return tuple(sorted((item for item in found if item), key=lambda item: item.name))


def _package(entry: Reader, order: Mapping[str, int], faults: Faults) -> PipLocked | None:
    name, number = entry.text("name"), entry.text("version")
    archive = entry.reader("archive")
    file = archive or _wheel(entry, order) or entry.reader("sdist")
    if file is None:
        faults.add(entry.path, f"no wheel and no source of {name} {number} fits this platform and Python")
        return None
    hashes = file.get("hashes", dict) or {}
    digest = hashes.get("sha256")
    return PipLocked(
        name=normalise(name),
        version=number,
        url=index_url(file.text("url")),
        sha256=digest if isinstance(digest, str) else None,
        size=file.get("size", int),
        direct=archive is not None,
    )


def _wheel(entry: Reader, order: Mapping[str, int]) -> Reader | None:
    """The wheel that pip would choose; ``None`` when none fits."""
    ranked: list[tuple[int, tuple[int, str], str, Reader]] = []
    for wheel in entry.readers("wheels"):
        file = wheel.text("url").partition("#")[0].partition("?")[0].rpartition("/")[2].removesuffix(".whl")
        parts = file.split("-")[-3:]
        if len(parts) == 3:
            expanded = (
                f"{py}-{abi}-{on}"
                for py in parts[0].split(".")
                for abi in parts[1].split(".")
                for on in parts[2].split(".")
            )
            places = [order[tag] for tag in expanded if tag in order]
            if places:
                ranked.append((-min(places), _build(file), file, wheel))
    return max(ranked, key=lambda item: item[:3])[3] if ranked else None


def _build(file: str) -> tuple[int, str]:
    """The build tag of a wheel, ``1`` in ``a-1.0-1-py3-none-any``: of the same tags the highest wins."""
    parts = file.split("-")
    found = re.match(r"[0-9]{1,18}", parts[2]) if len(parts) == 6 else None
    return (int(found[0]), parts[2][found.end() :]) if found else (-1, "")


def tags(request: PipRequest) -> list[str]:
    """The tags of wheels that fit, best first, as ``cp312-cp312-manylinux_2_28_x86_64``."""
    from packaging.tags import compatible_tags, cpython_tags  # noqa: PLC0415 - only with a pip part

    numbers = request.python.split(".")
    python = (int(numbers[0]), int(numbers[1]))
    own = f"cp{python[0]}{python[1]}"
    platforms = list(_platforms(request))
    known = [*cpython_tags(python, [own], platforms), *compatible_tags(python, own, platforms)]
    return list(dict.fromkeys(map(str, known)))


def _platforms(request: PipRequest) -> Iterable[str]:
    major, minor = glibc_number(request.glibc) or (2, 17)
    for step in range(minor, 4, -1):
        yield f"manylinux_{major}_{step}_{request.machine}"
        if (major, step) in _LEGACY:
            yield f"{_LEGACY[major, step]}_{request.machine}"
    yield f"linux_{request.machine}"


def render(packages: Iterable[PipLocked]) -> str:
    """A pylock that holds packages: what uv takes as a preference when it lies where it will write."""
    lines = ['lock-version = "1.0"', 'created-by = "cuenv"']
    for item in packages:
        if item.direct:
            continue
        digest = f', hashes = {{ sha256 = "{item.sha256}" }}' if item.sha256 else ""
        file = f"{{ url = {_quote(item.url)}{digest} }}"
        kind = f"sdist = {file}" if item.from_source else f"wheels = [{file}]"
        lines += ["", "[[packages]]", f"name = {_quote(item.name)}", f"version = {_quote(item.version)}", kind]
    return "\n".join(lines) + "\n"


def _quote(text: str) -> str:
    import json  # noqa: PLC0415 - a basic string of TOML is a string of JSON

    return json.dumps(text, ensure_ascii=True).replace("\x7f", "\\u007f")
