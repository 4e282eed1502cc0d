"""Read a site-packages folder: the distributions in it, and torch."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from cuenv.core.io.files import is_file, names_in, text_at
from cuenv.core.record import dataclass
from cuenv.core.regex import regex
from cuenv.core.urls import strip_credentials
from cuenv.host.io.torch_files import parse_version_py
from cuenv.prefix.inventory import Prefix, Wheel
from cuenv.solve.environment_spec import normalise

DIST_INFO = regex(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]{0,200}?)-(?P<version>[^-/\s]{1,100})\.dist-info")
_TORCH = regex(r"^Requires-Dist: *torch(?![\w.-]).*==", re.MULTILINE | re.IGNORECASE)


def wheels_in(folder: Path) -> Iterator[Wheel]:
    """The distributions in a site-packages folder, by their dist-info folders with METADATA."""
    for name in names_in(folder):
        found = DIST_INFO.fullmatch(name)
        if not found or not is_file(folder / name / "METADATA"):
            continue
        word = text_at(folder / name / "INSTALLER").strip().lower()
        yield Wheel(
            name=normalise(found["name"]),
            version=found["version"],
            folder=str(folder),
            installer=word if re.fullmatch(r"[\w.-]{1,40}", word, re.ASCII) else None,
            url=_direct_url(folder, name),
            dist_info=name,
        )


def _direct_url(folder: Path, name: str) -> str | None:
    try:
        url = json.loads(text_at(folder / name / "direct_url.json"))["url"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
    return strip_credentials(url) if isinstance(url, str) and url.isprintable() else None


def pins_torch(wheel: Wheel) -> bool:
    """Whether its METADATA pins one release of torch, so that pip can find the release for another torch."""
    return bool(_TORCH.search(text_of(wheel, "METADATA")))


def text_of(wheel: Wheel, name: str) -> str:
    """The text of a file in dist-info, such as ``METADATA``; empty if it cannot be read."""
    return text_at(Path(wheel.folder) / wheel.dist_info / name)


def files_of(wheel: Wheel) -> Iterator[str]:
    """The files in its RECORD, relative to site-packages, without those outside of it."""
    for line in text_of(wheel, "RECORD").splitlines():
        name = line[1:].partition('"')[0] if line.startswith('"') else line.partition(",")[0]
        if not name.startswith("/") and ".." not in name.split("/") and "\ufffd" not in name:  # not UTF-8
            yield name


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledTorch:
    """The torch of an environment, by its own files."""

    folder: Path  # the folder of the package, ``.../site-packages/torch``
    version: str  # the version in ``torch/version.py``, such as ``2.7.1+cu128``
    cuda: str | None  # the CUDA release that it was built with, ``12.8``; ``None`` for a CPU build


def find_torch(prefix: Prefix) -> InstalledTorch | None:
    """The torch that Python finds first in the environment's own folders; ``None`` without one."""
    return next(filter(None, map(torch_in, prefix.site_packages)), None)


def torch_in(site: str) -> InstalledTorch | None:
    """The torch in a site-packages folder; ``None`` without one."""
    folder = Path(site) / "torch"
    told = parse_version_py(text_at(folder / "version.py"))
    return InstalledTorch(folder=folder, version=told[0], cuda=told[1]) if told else None


def built_extensions(prefix: Prefix, environ: Mapping[str, str], cuda: str | None) -> Iterator[str]:
    """The extensions that torch compiled on first use for this Python and CUDA release."""
    base = environ.get("TORCH_EXTENSIONS_DIR")
    if not base and environ.get("HOME") and prefix.python:
        build = f"py{prefix.python.replace('.', '')}_{'cu' + cuda.replace('.', '') if cuda else 'cpu'}"
        base = f"{environ['HOME']}/.cache/torch_extensions/{build}"
    paths = (f"{base}/{name}/{name}.so" for name in names_in(base)) if base else ()
    yield from filter(is_file, paths)
