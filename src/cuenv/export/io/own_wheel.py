"""The wheel of the cuenv that is running: an image or a workflow installs this very one, and no name of an index."""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib.metadata
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cuenv.config.io.profiles import folder
from cuenv.core import __version__
from cuenv.core.errors import OutsideError
from cuenv.core.io.files import why

NAME = f"cuenv-{__version__}-py3-none-any.whl"
_PACKAGE = Path(__file__).resolve().parents[2]
_INFO = f"cuenv-{__version__}.dist-info"
_WHEEL = "Wheel-Version: 1.0\nGenerator: cuenv\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_KEPT = ("METADATA", "entry_points.txt")
_WHEN = (1980, 1, 1, 0, 0, 0)
"""The time of every entry: the same bytes for the same files."""


@dataclass(frozen=True, slots=True)
class OwnWheel:
    """A wheel as bytes, with its SHA-256."""

    name: str
    data: bytes
    sha256: str


def own_wheel() -> OwnWheel:
    """Pack the installed cuenv as a wheel: no build tool, no network, the same bytes each time.

    Raises:
        OutsideError: it runs without having been installed, or its files cannot be read.
    """
    try:
        entries = [*_code(), *_about()]
    except OSError as error:
        raise OutsideError(
            f"cannot read the files of cuenv: {why(error)}", hint="name a wheel: --cuenv FILE.whl"
        ) from error
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    rows.writerows((name, f"sha256={_hash(data)}", len(data)) for name, data in entries)
    rows.writerow((f"{_INFO}/RECORD", "", ""))
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in [*entries, (f"{_INFO}/RECORD", record.getvalue().encode())]:
            about = zipfile.ZipInfo(name, _WHEN)
            about.external_attr = 0o644 << 16
            about.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(about, data)
    data = whole.getvalue()
    return OwnWheel(NAME, data, hashlib.sha256(data).hexdigest())


def _code() -> Iterator[tuple[str, bytes]]:
    profiles = folder()
    found = {f"cuenv/{path.relative_to(_PACKAGE).as_posix()}": path for path in _PACKAGE.rglob("*")}
    found |= {f"cuenv/data/profiles/{path.relative_to(profiles).as_posix()}": path for path in profiles.rglob("*")}
    for name in sorted(found):
        if found[name].is_file() and "__pycache__" not in name:
            yield name, found[name].read_bytes()


def _about() -> Iterator[tuple[str, bytes]]:
    try:
        about = importlib.metadata.distribution("cuenv")
    except importlib.metadata.PackageNotFoundError as error:
        raise OutsideError(
            "this cuenv runs without having been installed, so that no wheel can be made of it",
            hint="name a wheel: --cuenv FILE.whl",
        ) from error
    for name in _KEPT:
        yield f"{_INFO}/{name}", (about.read_text(name) or "").encode()
    licence = about.read_text("licenses/LICENSE")
    if licence:
        yield f"{_INFO}/licenses/LICENSE", licence.encode()
    yield f"{_INFO}/WHEEL", _WHEEL.encode()


def _hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
