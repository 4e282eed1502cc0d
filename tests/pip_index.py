"""A Python package index for tests: wheels of 500 bytes, sources with a backend of their own, and a page for each."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path
from zipfile import ZipFile, ZipInfo

import pytest

from channel_builder import Server, serve
from commands import know_python

_BACKEND = """
import pathlib

def prepare_metadata_for_build_wheel(folder, config_settings=None):
    {first}
    made = pathlib.Path(folder) / "{stem}.dist-info"
    made.mkdir()
    (made / "METADATA").write_text({metadata!r})
    (made / "WHEEL").write_text("Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    return made.name

def build_wheel(folder, config_settings=None, metadata_directory=None):
    raise SystemExit("not in a test")
"""


def _metadata(name: str, version: str, requires: Iterable[str], extras: Iterable[str] = ()) -> str:
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Provides-Extra: {extra}" for extra in extras]
    return "\n".join([*lines, *(f"Requires-Dist: {item}" for item in requires)]) + "\n"


def wheel(
    folder: Path, name: str, version: str, *requires: str, tag: str = "py3-none-any", extras: Iterable[str] = ()
) -> Path:
    """A wheel without modules; the same bytes every time."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{name.replace('-', '_')}-{version}"
    path = folder / f"{stem}-{tag}.whl"
    kinds = "".join(f"Tag: {tag}\n")
    files = {
        "METADATA": _metadata(name, version, requires, extras),
        "WHEEL": f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\n{kinds}",
        "RECORD": "",
    }
    with ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(ZipInfo(f"{stem}.dist-info/{file}"), text)
    return path


def source(
    folder: Path,
    name: str,
    version: str,
    *requires: str,
    first: str = "pass",
    build: Iterable[str] = (),
    setup: str = "",
    static: bool = False,
) -> Path:
    """A source distribution whose setup must run to learn what it requires; ``first`` is what it does then.

    ``build`` is what it needs to be built, and ``setup`` its ``setup.py``. Where its metadata is ``static``, no setup
    has to run.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{name}-{version}"
    path = folder / f"{stem}.tar.gz"
    files = {
        "PKG-INFO": _metadata(name, version, requires).replace("2.1", "2.4", 1)
        if static
        else _metadata(name, version, ()),
        "setup.py": setup,
        "pyproject.toml": f"[build-system]\nrequires = {list(build)!r}\n"
        'build-backend = "backend"\nbackend-path = ["."]\n',
        "backend.py": _BACKEND.format(stem=stem, first=first, metadata=_metadata(name, version, requires)),
    }
    with tarfile.open(path, "w:gz") as archive:
        for file, text in files.items():
            data = text.encode()
            entry = tarfile.TarInfo(f"{stem}/{file}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return path


def stock(folder: Path) -> Path:
    """The packages that most tests ask for."""
    wheel(folder, "torch", "2.9.0", "triton", "nvidia-cublas-cu12")
    wheel(folder, "torch", "2.6.0", "triton")
    wheel(folder, "vllm", "0.11.1", "torch==2.9.0", "numpy")
    wheel(folder, "vllm", "0.7.0", "torch>=2.4", "numpy")
    wheel(folder, "numpy", "2.1.0")
    wheel(folder, "psutil", "5.9")
    wheel(folder, "psutil", "6.0")
    wheel(folder, "accelerate", "1.0", "torch>=2.0", "numpy", "psutil", "rich; extra == 'pretty'", extras=["pretty"])
    wheel(folder, "rich", "13.0")
    wheel(folder, "serving", "1.0", "vllm==0.11.1")
    wheel(folder, "native", "1.0", tag="cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64")
    wheel(folder, "native", "1.0", tag="cp312-cp312-manylinux_2_28_x86_64")
    wheel(folder, "native", "1.0", tag="cp311-cp311-manylinux_2_28_x86_64")
    wheel(folder, "native", "1.0", tag="cp312-cp312-manylinux_2_28_aarch64")
    source(folder, "deepspeed", "0.14.4", "torch", "numpy", "psutil")
    return folder


@contextmanager
def index(
    folder: Path,
    *,
    login: str = "",
    hashes: str = "sha256",
    certificate: Path | None = None,
    uploaded: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """Serve a folder of files as a simple index (PEP 503) at ``URL/simple/``.

    Args:
        folder: with wheels and sources.
        login: ``user:password`` that every request must carry.
        hashes: the algorithm in the links; empty for none.
        certificate: serve over TLS with it and its key.
        uploaded: when each file was uploaded, by its name without what follows the version; pages are JSON (PEP 691)
            then, and a file that is not among them has no time.
    """
    with serve(folder, certificate) as server:

        def answer(path: str) -> tuple[int, bytes] | None:
            if login and server.asked[-1][1] != login:
                return 401, b"log in"
            found = re.fullmatch(r"/simple/([a-z0-9-]+)/", path)
            if not found:
                return None
            files = [file for file in sorted(folder.iterdir()) if _name(file) == found[1]]
            if uploaded is not None and files:
                page = {"meta": {"api-version": "1.1"}, "name": found[1], "files": [*map(entry, files)]}
                return 200, json.dumps(page).encode()
            return (200, "".join(map(link, files)).encode()) if files else (404, b"no such package")

        def entry(file: Path) -> dict[str, object]:
            when = (uploaded or {}).get("-".join(file.name.split("-")[:2]))
            sums = {hashes: hashlib.new(hashes, file.read_bytes()).hexdigest()}
            day = {"upload-time": when} if when else {}
            return {"filename": file.name, "url": f"../../{file.name}", "hashes": sums, **day}

        def link(file: Path) -> str:
            digest = hashlib.new(hashes, file.read_bytes()).hexdigest() if hashes else ""
            mark = f"#{hashes}={digest}" if hashes else ""
            return f'<a href="../../{file.name}{mark}">{file.name}</a>\n'

        server.answer = answer
        server.kind = "text/html" if uploaded is None else "application/vnd.pypi.simple.v1+json"
        yield server


def _name(file: Path) -> str:
    return re.sub(r"[-_.]+", "-", file.name.partition("-")[0]).lower()


def variables(home: Path, url: str = "", **more: str) -> dict[str, str]:
    """The variables of somebody whose index is at the URL and whose home is empty."""
    know_python(home / "uv")
    found = {"PATH": os.environ["PATH"], "HOME": str(home), "UV_CACHE_DIR": str(home / "uv"), "UV_HTTP_RETRIES": "0"}
    return {**found, **({"UV_DEFAULT_INDEX": f"{url}/simple"} if url else {}), "NO_PROXY": "*", **more}


def pip_of_this_python() -> Path:
    """The folder of its pip, else the test is skipped. Setuptools answers `importlib.util.find_spec` for it."""
    found = PathFinder.find_spec("pip")
    if found is None or found.origin is None:
        pytest.skip("this Python has no pip")
    return Path(found.origin).parent
