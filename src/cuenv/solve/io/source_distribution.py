"""Whether a source distribution builds against torch, read in the file itself.

uv builds a package only where its metadata says nothing of what it requires, so a build that cannot work may not fail
while something is locked.
"""

from __future__ import annotations

import tarfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from cuenv.core.errors import CuenvError
from cuenv.core.io.files import load_toml, private_folder
from cuenv.core.regex import regex
from cuenv.solve.environment_spec import requirement_name
from cuenv.solve.io.download import Wanted, fetch
from cuenv.solve.io.sources import Sources
from cuenv.solve.model import PipLocked

_LARGEST = 64 << 20  # bytes of a file that is fetched to be read
_UNPACKED = 1 << 30  # bytes of the unpacked file within which the two files have to lie
_LONGEST = 1 << 20  # bytes of one of them
_IMPORTS = regex(r"(?m)^(?:import|from)[ \t]+torch\b")


def builds_against_torch(item: PipLocked, sources: Sources, logins: Mapping[str, tuple[str, str]]) -> str:
    """Why pip has to build a package in the finished environment, a main clause; empty where nothing says that.

    A build that pip runs alone has no torch, or the newest one of the index, which is another than the environment's.
    A file that cannot be had or read says nothing.
    """
    if not item.sha256 or (item.size or 0) > _LARGEST:
        return ""
    with suppress(CuenvError), private_folder("sdist") as folder:
        path = folder / "source"
        size = item.size or _LARGEST  # a server that says none is stopped at about twice that
        fetch([Wanted(url=item.url, path=path, sha256=item.sha256, size=size)], sources, logins=logins, jobs=1)
        return _why(_texts(path))
    return ""


def _why(texts: Mapping[str, str]) -> str:
    if _IMPORTS.search(texts.get("setup.py", "")):
        return "its setup.py imports torch, which its isolated build does not have"
    with suppress(ValueError):
        system = load_toml(texts.get("pyproject.toml", "")).get("build-system")
        requires = system.get("requires") if isinstance(system, dict) else None
        if isinstance(requires, list) and "torch" in {requirement_name(str(text)) for text in requires}:
            return "its build requires torch, and an isolated build would get another torch than the environment's"
    return ""


def _texts(path: Path) -> dict[str, str]:
    """The files that tell how it is built, by name; none where it is no archive that tarfile reads."""
    found: dict[str, str] = {}
    with suppress(tarfile.TarError, OSError, EOFError, ValueError, OverflowError), tarfile.open(path, "r:*") as tar:
        for member in tar:
            name = member.name.partition("/")[2]
            if member.isfile() and name in ("setup.py", "pyproject.toml") and member.size <= _LONGEST:
                content = tar.extractfile(member)
                found[name] = content.read().decode("utf-8", "replace") if content else ""
            if len(found) == 2 or member.offset_data + member.size > _UNPACKED:
                break
    return found
