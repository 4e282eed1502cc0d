"""A folder of packages of Python, read from its files: the distributions in it, and torch."""

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
    """The distributions in a folder of packages, by their dist-info; one without METADATA is none."""
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
    """Whether its METADATA asks for one release of torch: then pip can find the release that is made for another."""
    return bool(_TORCH.search(text_of(wheel, "METADATA")))


def text_of(wheel: Wheel, name: str) -> str:
    """A file of the dist-info, such as ``METADATA``; empty when it cannot be read."""
    return text_at(Path(wheel.folder) / wheel.dist_info / name)


def files_of(wheel: Wheel) -> Iterator[str]:
    """The files that its RECORD lists, relative to the folder of packages; what lies outside of that is left out."""
    for line in text_of(wheel, "RECORD").splitlines():
        name = line[1:].partition('"')[0] if line.startswith('"') else line.partition(",")[0]
        if not name.startswith("/") and ".." not in name.split("/") and "\ufffd" not in name:  # not UTF-8
            yield name


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledTorch:
    """The torch of an environment, as its own files tell it.

    Attributes:
        folder: of the package: ``.../site-packages/torch``.
        version: as ``torch/version.py`` says it, ``2.7.1+cu128``.
        cuda: the CUDA it was built with, ``12.8``; ``None`` for a CPU build.
    """

    folder: Path
    version: str
    cuda: str | None


def find_torch(prefix: Prefix) -> InstalledTorch | None:
    """The torch that the environment's Python finds first among its own folders."""
    return next(filter(None, map(torch_in, prefix.site_packages)), None)


def torch_in(site: str) -> InstalledTorch | None:
    """The torch in a folder of packages."""
    folder = Path(site) / "torch"
    told = parse_version_py(text_at(folder / "version.py"))
    return InstalledTorch(folder=folder, version=told[0], cuda=told[1]) if told else None


def built_extensions(prefix: Prefix, environ: Mapping[str, str], cuda: str | None) -> Iterator[str]:
    """What torch compiled on first use for this Python and CUDA: in TORCH_EXTENSIONS_DIR, or in a folder of its own."""
    base = environ.get("TORCH_EXTENSIONS_DIR")
    if not base and environ.get("HOME") and prefix.python:
        build = f"py{prefix.python.replace('.', '')}_{'cu' + cuda.replace('.', '') if cuda else 'cpu'}"
        base = f"{environ['HOME']}/.cache/torch_extensions/{build}"
    paths = (f"{base}/{name}/{name}.so" for name in names_in(base)) if base else ()
    yield from filter(is_file, paths)
