"""The HTTP client that rattler reads channels with: mirrors, credentials, proxies, certificates."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Mapping

from rattler import Client
from rattler.config import Config
from rattler.networking.middleware import (
    AddHeadersMiddleware,
    AuthenticationMiddleware,
    MirrorMiddleware,
    RetryMiddleware,
)

from cuenv.core.errors import InputError
from cuenv.core.io.files import at_home
from cuenv.core.urls import credentials, host
from cuenv.solve.io.sources import Sources, no_home


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


_AGENT = "cuenv"


def make_client(sources: Sources, *, timeout: int | None = None) -> Client:
    """A client for these sources.

    The mirror middleware drops ``user:password@`` of a mirror's URL (rattler 0.28), so a header brings it, to that
    host alone. Proxies and certificates reach rattler through the environment of this process.

    Raises:
        InputError: a mirror with credentials and no check of certificates: the password would go to anybody.
    """
    mirrors = {f"{mirror.origin}/": [f"{mirror.target}/"] for mirror in sources.mirrors if not mirror.local}
    headers = _headers(sources)
    _set_environment(sources)
    limit = timeout or sources.timeout
    if not sources.verify:
        if headers:
            raise InputError(
                "a mirror has credentials, but certificates are not checked (ssl_verify: false)",
                hint="name your company's authorities instead: ssl_verify: /path/to/ca.pem",
            )
        text = "tls-no-verify = true\n[mirrors]\n"
        text += "".join(f"{json.dumps(origin)} = [{json.dumps(target[0])}]\n" for origin, target in mirrors.items())
        return Client.from_config(Config.from_toml(text), max_retries=sources.retries, user_agent=_AGENT, timeout=limit)
    if not at_home("~").is_absolute():
        raise no_home()
    parts = [RetryMiddleware(sources.retries), MirrorMiddleware(mirrors), AuthenticationMiddleware()]
    if headers:
        parts.append(AddHeadersMiddleware(lambda name, _: headers.get(name.lower())))
    return Client(parts, user_agent=_AGENT, timeout=limit)  # type: ignore[arg-type] # a list of one union is invariant


def _headers(sources: Sources) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for mirror in sources.mirrors:
        pair = None if mirror.local else credentials(mirror.target)
        if pair:
            word = b64encode(":".join(pair).encode()).decode()
            found[host(mirror.target)] = {"Authorization": f"Basic {word}"}
    return found


def _set_environment(sources: Sources) -> None:
    """What the environment says already wins, as with conda."""
    for scheme, proxy in sources.proxies:
        name = f"{scheme}_proxy"
        if name not in os.environ and name.upper() not in os.environ:
            os.environ[name] = proxy
    os.environ.update(authorities(os.environ, sources.certificates, of_requests(os.environ)))
