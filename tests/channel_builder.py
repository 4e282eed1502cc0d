"""Small channels for tests: packages in one line, folders as mirrors, and a server for the same folders."""

from __future__ import annotations

import base64
import json
import shutil
import ssl
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cuenv.core.urls import channel_url
from cuenv.demo.io.sample import Package, write_channel
from cuenv.host.facts import VirtualPackage
from cuenv.solve.environment_spec import EnvironmentSpec, Pin
from cuenv.solve.io.sources import Mirror, Sources
from cuenv.solve.model import LockedPackage, SolveRequest
from serving import Quiet, serving

PLATFORM = "linux-64"
VIRTUAL = (VirtualPackage("__cuda", "12.6"), VirtualPackage("__glibc", "2.35"), VirtualPackage("__linux", "5.15"))


def pkg(name: str, version: str = "1.0", build: str = "0", **more: Any) -> Package:
    """A package of linux-64; ``files`` may hold text."""
    files = {path: text.encode() for path, text in more.pop("files", {}).items()}
    return Package(name=name, version=version, build=build, subdir=more.pop("subdir", PLATFORM), files=files, **more)


def write(folder: Path, channels: Mapping[str, Iterable[Package]], **more: Any) -> Sources:
    """Write channels below a folder; they replace the real ones."""
    for name, packages in channels.items():
        write_channel(folder / name, packages, subdirs=(PLATFORM, "noarch"), **more)
    mirrors = tuple(Mirror(origin=channel_url(name), target=str(folder / name)) for name in channels)
    return Sources(mirrors=mirrors, cache=str(folder / "cache"))


def edit(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the repodata of a subdir's folder."""
    path = folder / "repodata.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def request(
    *pins: str | Pin,
    channels: tuple[str, ...] = ("conda-forge",),
    virtual: tuple[VirtualPackage, ...] = VIRTUAL,
    prefer: tuple[LockedPackage, ...] = (),
    platform: str = PLATFORM,
) -> SolveRequest:
    """A request for pins; a string is a bare name."""
    made = tuple(pin if isinstance(pin, Pin) else Pin(name=pin) for pin in pins)
    spec = EnvironmentSpec(name="test", channels=channels, pins=made)
    return SolveRequest(spec=spec, channels=channels, platform=platform, virtual_packages=virtual, prefer=prefer)


@dataclass
class Server:
    """A running server: where it is, of what type its pages are, what it was asked, how it answers."""

    url: str
    folder: Path
    kind: str = "text/html"
    answer: Callable[[str], tuple[int, bytes] | None] = lambda _: None
    asked: list[tuple[str, str]] = field(default_factory=list)

    def content(self, path: str) -> tuple[int, bytes]:
        """The status and body for a path below the server's root."""
        return self.answer(path) or self.file(path)

    def file(self, path: str) -> tuple[int, bytes]:
        """What lies in the folder."""
        file = self.folder / path.lstrip("/")
        return (200, file.read_bytes()) if file.is_file() else (404, b"nothing here")


def self_signed(folder: Path) -> Path:
    """A certificate for this machine and its key in one file, for `serve`; the certificate alone lies in ``cert``."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl here to make a certificate with")
    pem, own = folder / "own.pem", folder / "cert"
    words = [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=test",
    ]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run([openssl, *words, *names, "-keyout", pem, "-out", own], check=True, capture_output=True)
    pem.write_bytes(pem.read_bytes() + own.read_bytes())
    return pem


@contextmanager
def serve(folder: Path, certificate: Path | None = None) -> Iterator[Server]:
    """Serve a folder on a free port of this machine until the block ends; over TLS with a certificate and its key."""
    state = Server(url="", folder=folder)

    class Handler(Quiet):
        def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
            login = self.headers.get("Authorization", "").removeprefix("Basic ")
            state.asked.append((self.path, base64.b64decode(login).decode()))
            status, body = state.content(self.path)
            self.send_response(status)
            self.send_header("Content-Type", state.kind if self.path.endswith("/") else "application/octet-stream")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815 - the name that http.server calls

    context = None
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
    with serving(Handler, context) as state.url:
        yield state
