"""Which cuenv an image or a workflow installs: a wheel beside it or a URL, held by its hash, and never a bare name.

Where none is named, it is the wheel of the cuenv that is running.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib.metadata
import io
import zipfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from cuenv.config.io.profiles import folder
from cuenv.core import __version__
from cuenv.core.errors import InputError, OutsideError, UsageError
from cuenv.core.io.files import is_file, path_text, read_bytes, reason_of
from cuenv.core.record import dataclass
from cuenv.core.regex import regex
from cuenv.core.urls import redact, strip_credentials

if TYPE_CHECKING:  # types alone
    from cuenv.export.documents import CuenvFields

NAME = f"cuenv-{__version__}-py3-none-any.whl"
_PACKAGE = Path(__file__).resolve().parents[2]
_INFO = f"cuenv-{__version__}.dist-info"
_WHEEL = "Wheel-Version: 1.0\nGenerator: cuenv\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_KEPT = ("METADATA", "entry_points.txt")
_WHEN = (1980, 1, 1, 0, 0, 0)  # the time of every entry: the same bytes for the same files


LARGEST = 64 * 1024 * 1024  # bytes of a wheel that is taken along
_HASH = regex(r"(?P<place>.+)#sha256=(?P<hash>[0-9a-f]{64})")
_URL = regex(r"https?://[A-Za-z0-9][A-Za-z0-9._~:/?@!&+,;=%-]*")
_COMMIT = regex(r"git\+https://[A-Za-z0-9][A-Za-z0-9._~:/@+%-]*@[0-9a-f]{40}")
_WHEEL_NAME = regex(r"cuenv-[A-Za-z0-9_.+]+(-[A-Za-z0-9_.]+)?-py3-none-any\.whl")
_HINT = "cuenv export dockerfile -o . builds the wheel beside it; else --cuenv WHEEL, or --cuenv 'URL#sha256=...'"


@dataclass(frozen=True, slots=True, kw_only=True)
class CuenvSource:
    """The cuenv that pip installs."""

    url: str = ""  # with its hash, or with the commit of a repository; empty for a wheel
    name: str = ""
    data: bytes = b""  # the wheel, which lies beside what is written; empty for a URL
    sha256: str = ""

    @property
    def beside(self) -> tuple[str, bytes] | None:
        """The file name and bytes of the wheel, which has to lie beside the export; ``None`` for a URL."""
        return (self.name, self.data) if self.name else None

    def plain(self) -> CuenvFields:
        """As plain data."""
        return {"url": self.url or None, "wheel": self.name or None, "sha256": self.sha256 or None}

    def requirement(self, folder: str) -> str:
        """The requirement for pip, with its hash."""
        return f"cuenv@{self.url or f'file://{folder}/{self.name}#sha256={self.sha256}'}"


def find_cuenv(text: str | None) -> CuenvSource:
    """The cuenv of ``--cuenv``; by default a wheel of the running one.

    Raises:
        UsageError: a URL without a hash, or one with a password, or no wheel of cuenv.
        InputError: the wheel is not there, or is another one than its hash says.
        OutsideError: no wheel can be made of the running one.
    """
    if text is None:
        return pack_wheel()
    if "://" in text:
        return _of_url(text)
    held = _HASH.fullmatch(text)
    path = Path(held["place"] if held else text)
    if not _WHEEL_NAME.fullmatch(path.name):
        raise UsageError(f"--cuenv {text!r} is not a wheel of cuenv, such as cuenv-0.1.0-py3-none-any.whl", hint=_HINT)
    if not is_file(path):
        raise InputError(f"--cuenv: {path_text(path)} does not exist", hint=_HINT)
    data = read_bytes(path, limit=LARGEST)
    digest = hashlib.sha256(data).hexdigest()
    if held and held["hash"] != digest:
        raise InputError(f"--cuenv: {path_text(path)} has the SHA-256 {digest}, and not {held['hash']}", hint=_HINT)
    return CuenvSource(name=path.name, data=data, sha256=digest)


def _of_url(text: str) -> CuenvSource:
    if strip_credentials(text) != text:
        raise UsageError(
            f"--cuenv {redact(text)}: the written file would contain a password or a token; let pip find it in .netrc",
            hint=_HINT,
        )
    held = _HASH.fullmatch(text)
    if not (_COMMIT.fullmatch(text) or (held and _URL.fullmatch(held["place"]))):
        raise UsageError(
            f"--cuenv {text!r} is not pinned: end a URL with #sha256= and 64 hex digits, or a "
            "repository URL with @ and the 40 hex digits of a commit",
            hint=_HINT,
        )
    return CuenvSource(url=text)


@lru_cache(maxsize=1)
def pack_wheel() -> CuenvSource:
    """Pack the installed cuenv as a wheel, without a build tool and network, always with the same bytes.

    Raises:
        OutsideError: it runs without having been installed, or its files cannot be read.
    """
    try:
        entries = [*_code(), *_about()]
    except OSError as error:
        message = f"cannot read the files of cuenv: {reason_of(error)}"
        raise OutsideError(message, hint="name a wheel: --cuenv FILE.whl") from error
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
    return CuenvSource(name=NAME, data=data, sha256=hashlib.sha256(data).hexdigest())


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
        message = "this cuenv is not installed, so no wheel can be built from it"
        raise OutsideError(message, hint="name a wheel: --cuenv FILE.whl") from error
    for name in _KEPT:
        yield f"{_INFO}/{name}", (about.read_text(name) or "").encode()
    licence = about.read_text("licenses/LICENSE")
    if licence:
        yield f"{_INFO}/licenses/LICENSE", licence.encode()
    yield f"{_INFO}/WHEEL", _WHEEL.encode()


def _hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
