"""Which cuenv an image or a workflow installs: a wheel beside it or a URL, held by its hash, and never a bare name."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from cuenv.core.errors import InputError, UsageError
from cuenv.core.io.files import is_file, read_bytes, shown
from cuenv.core.urls import redact, strip_credentials

LARGEST = 64 * 1024 * 1024
"""Bytes of a wheel that is taken along."""
_HASH = re.compile(r"(?P<place>.+)#sha256=(?P<hash>[0-9a-f]{64})")
_URL = re.compile(r"https?://[A-Za-z0-9][A-Za-z0-9._~:/?@!&+,;=%-]*")
_COMMIT = re.compile(r"git\+https://[A-Za-z0-9][A-Za-z0-9._~:/@+%-]*@[0-9a-f]{40}")
_WHEEL = re.compile(r"cuenv-[A-Za-z0-9_.+]+(-[A-Za-z0-9_.]+)?-py3-none-any\.whl")
_HINT = "cuenv export dockerfile -o . builds the wheel beside it; else --cuenv WHEEL, or --cuenv 'URL#sha256=...'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """What pip installs as cuenv.

    Attributes:
        url: with its hash, or with the commit of a repository; empty for a wheel.
        name: of the wheel.
        data: the wheel, which lies beside what is written; empty for a URL.
        sha256: of the wheel.
    """

    url: str = ""
    name: str = ""
    data: bytes = b""
    sha256: str = ""

    def requirement(self, folder: str) -> str:
        """The requirement for pip, with the wheel in a folder; pip compares the hash."""
        return f"cuenv@{self.url or f'file://{folder}/{self.name}#sha256={self.sha256}'}"


def own(text: str | None) -> Own:
    """The cuenv of ``--cuenv``; the wheel of the one that is running when nothing is named.

    Raises:
        UsageError: a URL without a hash, or one with a password, or no wheel of cuenv.
        InputError: the wheel is not there, or is another one than its hash says.
        OutsideError: no wheel can be made of the running one.
    """
    if text is None:
        from cuenv.export.io.own_wheel import own_wheel  # noqa: PLC0415 - it reads every file of cuenv

        made = own_wheel()
        return Own(name=made.name, data=made.data, sha256=made.sha256)
    if "://" in text:
        return _of_url(text)
    held = _HASH.fullmatch(text)
    path = Path(held["place"] if held else text)
    if not _WHEEL.fullmatch(path.name):
        raise UsageError(f"--cuenv {text!r} is no wheel of cuenv, such as cuenv-0.1.0-py3-none-any.whl", hint=_HINT)
    if not is_file(path):
        raise InputError(f"--cuenv: {shown(path)} is not there", hint=_HINT)
    data = read_bytes(path, limit=LARGEST)
    digest = hashlib.sha256(data).hexdigest()
    if held and held["hash"] != digest:
        raise InputError(f"--cuenv: {shown(path)} has the SHA-256 {digest}, and not {held['hash']}", hint=_HINT)
    return Own(name=path.name, data=data, sha256=digest)


def _of_url(text: str) -> Own:
    if strip_credentials(text) != text:
        raise UsageError(
            f"--cuenv {redact(text)}: what is written would hold a password or a token; let pip find it in .netrc",
            hint=_HINT,
        )
    held = _HASH.fullmatch(text)
    if not (_COMMIT.fullmatch(text) or (held and _URL.fullmatch(held["place"]))):
        raise UsageError(
            f"--cuenv {text!r} is not held: a URL ends with #sha256= and 64 hex digits, that of a repository with "
            "@ and the 40 hex digits of a commit",
            hint=_HINT,
        )
    return Own(url=text)
