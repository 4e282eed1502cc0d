"""Channels whose answers are too large, too slow or broken off: bounds on all of it, and what came is not lost."""

from __future__ import annotations

import asyncio
import bz2
import fcntl
import gzip
import http.client
import io
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard
from rattler.index import index_fs

from cases import quick
from channel_builder import pkg, request, write
from cuenv.core.errors import ChannelError, ExitCode, InputError, OutsideError
from cuenv.core.io import process as telling
from cuenv.solve.io import channels, relay, repodata_download, unpacking
from cuenv.solve.io import channels as repodata_cache
from cuenv.solve.io.connection import error_text
from cuenv.solve.io.relay import Relay
from cuenv.solve.io.solver import solve
from cuenv.solve.io.sources import Mirror, Sources
from cuenv.solve.io.unpacking import Limits
from cuenv.solve.model import Solution
from faulty_server import Answer, Faulty, faulty
from serving import Quiet, serving

FORGE = "https://conda.anaconda.org/conda-forge"
SUBDIR = "/conda-forge/linux-64"
PLAIN, ZST, BZ2, SHARDS = "repodata.json", "repodata.json.zst", "repodata.json.bz2", "repodata_shards.msgpack.zst"
GOOD = ["base", "leaf"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Faulty]:
    write(tmp_path / "served", {"conda-forge": [pkg("leaf", depends=("base",)), pkg("base")]})
    with faulty(tmp_path / "served") as running:
        yield running


def sources(url: str, tmp_path: Path, **more: object) -> Sources:
    mirrors = (Mirror(origin=FORGE, target=f"{url}/conda-forge"),)
    return replace(Sources(mirrors=mirrors, cache=str(tmp_path / "cache"), timeout=3, retries=0), **more)  # type: ignore[arg-type]  # fields of Sources


def ask(where: Sources) -> list[str]:
    """The packages of a fresh process's answer."""
    channels._channels_of.cache_clear()
    for handle in repodata_cache._cache_locks.values():
        os.close(handle)
    repodata_cache._cache_locks.clear()
    answer = solve(request("leaf"), where)
    assert isinstance(answer, Solution), answer
    return [package.name for package in answer.packages]


def only(name: str, answer: Answer) -> Callable[[str, Answer, int], Answer | None]:
    return lambda path, _good, _before: answer if path.startswith(SUBDIR) and path.endswith(name) else None


def zeros(size: int) -> bytes:
    """So many zeros, as zstd packs them: a few hundred bytes for a megabyte."""
    return zstandard.ZstdCompressor(level=3).compress(bytes(size))


BIG = 40 << 20
BOMBS: dict[str, tuple[str, Callable[[], Answer]]] = {
    "zst": (ZST, lambda: Answer(body=zeros(BIG))),
    "zst in frames": (ZST, lambda: Answer(body=zeros(1 << 20) * 40)),
    "bz2": (BZ2, lambda: Answer(body=bz2.compress(bytes(BIG)))),
    "gzip of the connection": (
        PLAIN,
        lambda: Answer(body=gzip.compress(bytes(BIG)), headers={"Content-Encoding": "gzip"}),
    ),
    "index of shards": (SHARDS, lambda: Answer(body=zeros(BIG))),
    "a length that nothing has": (PLAIN, lambda: Answer(body=b"{", headers={"Content-Length": "99999999999999"})),
}


@pytest.mark.parametrize(("name", "bomb"), quick(BOMBS.values(), first=2), ids=BOMBS)
def test_an_answer_that_unpacks_to_too_much_is_refused_before_rattler_sees_it(
    server: Faulty, tmp_path: Path, name: str, bomb: Callable[[], Answer]
) -> None:
    where = sources(server.url, tmp_path)
    server.fault = only(name, bomb())
    with pytest.raises(ChannelError, match="more than any channel has") as caught:
        ask(where)
    assert caught.value.exit == ExitCode.INPUT
    assert caught.value.message.startswith("channel conda-forge, linux-64: the answer ")
    assert f"({server.url}{SUBDIR}/{name})" in caught.value.message
    assert caught.value.hint == "read the channel elsewhere: --mirror conda-forge=URL"
    assert sum(path.stat().st_size for path in (tmp_path / "cache").rglob("*") if path.is_file()) < 100_000
    server.fault = lambda *_: None
    assert ask(where) == GOOD


def test_a_shard_that_unpacks_to_too_much_is_refused(server: Faulty, tmp_path: Path) -> None:
    asyncio.run(index_fs(server.folder / "conda-forge", write_zst=False, write_shards=True, force=True))
    server.fault = lambda path, _good, _before: Answer(body=zeros(BIG)) if "/shards/" in path else None
    with pytest.raises(
        ChannelError, match=r"^channel conda-forge, linux-64: the answer has .* more than any channel has"
    ):
        ask(sources(server.url, tmp_path))


def test_small_shards_are_bounded_all_together(server: Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(index_fs(server.folder / "conda-forge", write_zst=False, write_shards=True, force=True))
    monkeypatch.setattr(relay, "ALL", 300)
    with pytest.raises(ChannelError, match=r"the answers have more than 0\.3 kB"):
        ask(sources(server.url, tmp_path))


@contextmanager
def streaming(send: Callable[[Quiet], None], folder: Path) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """A server that sends the repodata of linux-64 by itself; with paths and ranges that were asked for."""
    asked: list[tuple[str, str]] = []

    class Handler(Quiet):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
            asked.append((self.path, self.headers.get("Range", "")))
            self.close_connection = True
            file = folder / self.path.lstrip("/")
            if self.path == f"{SUBDIR}/{PLAIN}" and self.command == "GET":
                send(self)
                return
            found = file.is_file()
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(file.stat().st_size if found else 0))
            self.end_headers()
            if found and self.command == "GET":
                self.wfile.write(file.read_bytes())

        do_HEAD = do_GET  # noqa: N815 - the name that http.server calls

    with serving(Handler) as url:
        yield url, asked


def test_a_body_without_an_end_is_stopped(server: Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "REPODATA", Limits(packed=1 << 20, unpacked=1 << 20))
    sent = 0

    def send(handler: Quiet) -> None:
        nonlocal sent
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.send_header("ETag", '"one"')
        handler.end_headers()
        while True:
            handler.wfile.write(b"10000\r\n" + bytes(65536) + b"\r\n")
            sent += 65536

    refused = pytest.raises(ChannelError, match=r"the answer has more than 1\.0 MB")
    with streaming(send, server.folder) as (url, _), refused:
        ask(sources(url, tmp_path))
    assert sent < 40 << 20
    assert not list((tmp_path / "cache").rglob(f"{repodata_download.COMING}/*"))  # nothing to go on with


def body_of(server: Faulty) -> bytes:
    path = server.folder / f"conda-forge/linux-64/{PLAIN}"
    data = json.loads(path.read_bytes())
    path.write_text(json.dumps({**data, "more": "x" * 400_000}))
    return path.read_bytes()


def in_pieces(body: bytes, *, ranges: bool, cuts: int) -> Callable[[Quiet], None]:
    """Send the body, and break off in its middle so many times; ``ranges`` for a server that goes on."""
    left = [cuts]

    def send(handler: Quiet) -> None:
        begin = int(handler.headers.get("Range", "bytes=0-").split("=")[1].rstrip("-")) if ranges else 0
        handler.send_response(206 if begin else 200)
        handler.send_header("ETag", '"one"')
        handler.send_header("Content-Length", str(len(body) - begin))
        if begin:
            handler.send_header("Content-Range", f"bytes {begin}-{len(body) - 1}/{len(body)}")
        handler.end_headers()
        rest = body[begin:]
        left[0] -= 1
        handler.wfile.write(rest[: len(rest) // 2] if left[0] >= 0 else rest)

    return send


@pytest.mark.parametrize("ranges", [True, False])
def test_what_broke_off_goes_on_where_the_server_can(server: Faulty, tmp_path: Path, *, ranges: bool) -> None:
    body = body_of(server)
    with streaming(in_pieces(body, ranges=ranges, cuts=2), server.folder) as (url, asked):
        assert ask(sources(url, tmp_path, retries=2)) == GOOD
    wanted = [known for path, known in asked if path == f"{SUBDIR}/{PLAIN}" and known]
    assert wanted[0] == f"bytes={len(body) // 2}-"
    assert not list((tmp_path / "cache").rglob(f"{repodata_download.COMING}/*"))


def test_the_next_run_goes_on_where_one_was_given_up(server: Faulty, tmp_path: Path) -> None:
    body = body_of(server)
    with streaming(in_pieces(body, ranges=True, cuts=1), server.folder) as (url, asked):
        with pytest.raises(ChannelError, match=r"the connection ended"):
            ask(sources(url, tmp_path))
        assert ask(sources(url, tmp_path)) == GOOD
    assert (f"{SUBDIR}/{PLAIN}", f"bytes={len(body) // 2}-") in asked


def test_a_file_that_changed_meanwhile_is_fetched_anew(server: Faulty, tmp_path: Path) -> None:
    body = body_of(server)
    broken = pytest.raises(ChannelError)
    with streaming(in_pieces(body, ranges=True, cuts=1), server.folder) as (url, _), broken:
        ask(sources(url, tmp_path))
    part = next(path for path in (tmp_path / "cache").rglob("*.part") if path.stat().st_size)
    part.write_bytes(b"x" * 10)  # and with another answer's beginning the server sends all of it
    with streaming(in_pieces(body, ranges=False, cuts=0), server.folder) as (other, _):
        where = replace(sources(url, tmp_path), mirrors=(Mirror(origin=FORGE, target=f"{other}/conda-forge"),))
        assert ask(where) == GOOD


@pytest.mark.slow
def test_a_server_may_take_its_time_but_not_be_silent(server: Faulty, tmp_path: Path) -> None:
    body = body_of(server)

    def slowly(pause: float, piece: int) -> Callable[[Quiet], None]:
        def send(handler: Quiet) -> None:
            handler.send_response(200)
            handler.send_header("Content-Length", str(len(body)))
            handler.end_headers()
            for at in range(0, len(body), piece):
                handler.wfile.write(body[at : at + piece])
                handler.wfile.flush()
                time.sleep(pause)

        return send

    heard: list[str] = []
    telling.listen(heard.append)
    try:
        with streaming(slowly(0.17, len(body) // 8), server.folder) as (url, _):
            began = time.monotonic()
            assert ask(sources(url, tmp_path, timeout=0.5)) == GOOD
            assert time.monotonic() - began > 1  # longer than the timeout, which is one of silence
    finally:
        telling.listen(None)
    far = re.compile(r"downloading records of conda-forge linux-64: 0\.[123] MB of 0\.4 MB")
    assert any(far.match(line) for line in heard), heard
    assert any(line.endswith(("kB/s", "MB/s")) for line in heard), heard
    with streaming(slowly(0.1, 1), server.folder) as (url, _):
        began = time.monotonic()
        with pytest.raises(ChannelError, match=r"timed out: \d+ bytes in \d+ seconds"):
            ask(sources(url, tmp_path / "other", timeout=0.5))
        assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    "asks", ["100000", "-5", "soon", pytest.param("Fri, 31 Dec 2099 23:59:59 GMT", marks=pytest.mark.slow)]
)
def test_a_server_may_not_ask_to_wait_for_long(
    server: Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asks: str
) -> None:
    monkeypatch.setattr(repodata_download, "_LONGEST", 1.1)
    busy = Answer(status=429, headers={"Retry-After": asks})
    server.fault = lambda path, _good, before: busy if path.endswith(PLAIN) and before < 1 else None
    heard: list[str] = []
    telling.listen(heard.append)
    try:
        began = time.monotonic()
        assert ask(sources(server.url, tmp_path, retries=1)) == GOOD
        assert time.monotonic() - began < 15
    finally:
        telling.listen(None)
    waited = [line for line in heard if line.startswith("waiting 1 s for 127.0.0.1: ")]
    assert bool(waited) == (asks[0] in "1F")


def shards_at(server: Faulty, base: str) -> None:
    """Let the index of shards say that they are elsewhere (CEP 16)."""
    asyncio.run(index_fs(server.folder / "conda-forge", write_zst=False, write_shards=True, force=True))
    for path in (server.folder / "conda-forge").glob(f"*/{SHARDS}"):
        data = zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read()
        before, key, rest = data.partition(b"shards_base_url")
        length = rest[0] - 0xA0
        assert 0 <= length < 32
        text = base.encode()
        new = before + key + b"\xda" + len(text).to_bytes(2, "big") + text + rest[1 + length :]
        path.write_bytes(zstandard.ZstdCompressor().compress(new))


def test_shards_on_another_host_are_read_through_the_same_bounds(server: Faulty, tmp_path: Path) -> None:
    with faulty(server.folder) as other:
        shards_at(server, f"{other.url}{SUBDIR}/shards")
        where = sources(server.url, tmp_path)
        assert ask(where) == GOOD
        assert any("/shards/" in path for _, path, _ in other.asked)
        other.fault = lambda path, _good, _before: Answer(body=zeros(BIG)) if "/shards/" in path else None
        with pytest.raises(ChannelError, match="more than any channel has"):
            ask(replace(where, cache=str(tmp_path / "again")))


def test_an_address_that_is_hidden_from_the_relay_is_not_reached(server: Faulty, tmp_path: Path) -> None:
    with faulty(server.folder) as other:
        shards_at(server, f"{other.url}{SUBDIR}/" + "x" * 2500)
        with pytest.raises(ChannelError, match=r"the answer leads to http://127\.0\.0\.1"):
            ask(sources(server.url, tmp_path))
        assert not other.asked


def test_the_relay_answers_rattler_alone(server: Faulty, tmp_path: Path) -> None:
    running = Relay(sources(server.url, tmp_path))
    running.client((FORGE,))
    place = running.url.removeprefix("http://")
    for method, path, status in (
        ("GET", "/0/conda-forge/linux-64/repodata.json", 502),
        ("GET", "/x/0/conda-forge/linux-64/repodata.json", 502),
        ("GET", "/x/99/y", 502),
        ("GET", "http://example.org/x", 403),
        ("CONNECT", "example.org:443", 403),
    ):
        connection = http.client.HTTPConnection(place)
        connection.request(method, path)
        assert connection.getresponse().status == status
        connection.close()
    running.close()
    assert not server.asked


def test_what_stopped_runs_left_in_the_cache_goes_unless_somebody_is_at_work(server: Faulty, tmp_path: Path) -> None:
    where = sources(server.url, tmp_path)
    assert ask(where) == GOOD
    left = where.repodata_folder() / ".tmpAbC123"
    left.write_bytes(b"x")
    begun = where.repodata_folder() / repodata_download.COMING
    begun.mkdir(exist_ok=True)
    for name, age in (("old.part", 8), ("new.part", 1)):
        (begun / name).write_bytes(b"x")
        os.utime(begun / name, (time.time() - age * 86400,) * 2)
    other = os.open(where.repodata_folder() / repodata_cache.IN_USE, os.O_RDWR)
    fcntl.flock(other, fcntl.LOCK_SH)
    assert ask(where) == GOOD
    assert left.exists()
    os.close(other)
    assert ask(where) == GOOD
    assert not left.exists()
    assert [path.name for path in begun.iterdir()] == ["new.part"]


def test_a_cache_that_cannot_be_written_is_said_with_its_cure(server: Faulty, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutsideError, match=r"^cannot write to the cache, .*file") as caught:
        ask(sources(server.url, tmp_path, cache=str(tmp_path / "file")))
    assert "CUENV_CACHE_DIR" in (caught.value.hint or "")


def test_authorities_that_are_not_there_are_said(
    server: Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    for more in ({"certificates": str(tmp_path / "no.pem")}, {}):
        if not more:
            monkeypatch.setenv("CURL_CA_BUNDLE", str(tmp_path / "no.pem"))
        with pytest.raises(
            InputError, match=r"no\.pem, which should contain the certificate authorities, does not exist"
        ):
            ask(sources(server.url, tmp_path, **more))


def test_no_class_of_a_library_is_a_reason() -> None:
    import requests
    import urllib3

    inner = http.client.IncompleteRead(b"", 5)
    for error, said in (
        (requests.exceptions.ChunkedEncodingError(urllib3.exceptions.ProtocolError("x", inner)), "ended"),
        (
            requests.exceptions.InvalidSchema("No connection adapters were found for 'file:///x'"),
            "other than http or https",
        ),
        (requests.exceptions.ReadTimeout("x"), "timed out"),
        (requests.exceptions.ConnectionError(ConnectionRefusedError(111, "Connection refused")), "Connection refused"),
        (io.UnsupportedOperation("odd"), "odd"),
    ):
        assert said in error_text(error)
        assert "Error" not in error_text(error)
