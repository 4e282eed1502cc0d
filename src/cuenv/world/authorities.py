"""Which certificate authorities the user named: everybody who opens a connection asks here."""

from __future__ import annotations

import os
from collections.abc import Mapping


def of_requests(environ: Mapping[str, str]) -> str | None:
    """The file or folder that requests, and so conda and pip, take from the user's variables."""
    return environ.get("REQUESTS_CA_BUNDLE") or environ.get("CURL_CA_BUNDLE") or None


def authorities(environ: Mapping[str, str], *places: str | None) -> dict[str, str]:
    """The variable that rustls and OpenSSL read, for those who named their authorities in another way.

    Args:
        environ: the user's variables; SSL_CERT_FILE wins, and nothing is to be set then.
        places: files or folders that were named elsewhere, best first.
    """
    path = None if environ.get("SSL_CERT_FILE") else next(filter(None, places), None)
    if path is None:
        return {}
    whole = os.path.expanduser(path)  # noqa: PTH111 - it stays the text that somebody wrote
    return {"SSL_CERT_DIR" if os.path.isdir(whole) else "SSL_CERT_FILE": whole}  # noqa: PTH112 - as above
