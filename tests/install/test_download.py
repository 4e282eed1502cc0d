"""Fetching: servers that drop, truncate, lie, are busy or send something else; the hash decides."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from cases import collect
from channel_builder import self_signed, serve
from cuenv.core.errors import ChannelError, HashError, InputError, OutsideError
from cuenv.solve.io.download import Wanted, _Count, _line, duration, fetch
from cuenv.solve.io.sources import Mirror, Sources
from serving import Quiet, serving

DATA = bytes(range(256)) * 4096
HASH = hashlib.sha256(DATA).hexdigest()
ORIGIN = "https://conda.example.com"


@dataclass
class Web:
    """A server whose answers are written by the test, one function for each request in turn; the last one stays."""

    url: str = ""
    turns: list[Callable[[BaseHTTPRequestHandler], None]] = field(default_factory=list)
    asked: list[tuple[str, str, str]] = field(default_factory=list)


@contextmanager
def web(*turns: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[Web]:
    state = Web(turns=list(turns))

    class Handler(Quiet):
        def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
            headers = self.headers
            state.asked.append((self.path, headers.get("Range", ""), headers.get("Authorization", "")))
            turn = state.turns.pop(0) if len(state.turns) > 1 else state.turns[0]
            turn(self)

    with serving(Handler) as state.url:
        yield state


def send(
    handler: BaseHTTPRequestHandler, body: bytes, status: int = 200, *, says: int | None = None, **more: str
) -> None:
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(body) if says is None else says))
    for name, text in more.items():
        handler.send_header(name.replace("_", "-"), text)
    handler.end_headers()
    handler.wfile.write(body)
    handler.wfile.flush()


def begin(handler: BaseHTTPRequestHandler) -> int:
    found = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range", ""))
    return int(found[1]) if found else 0


def whole(handler: BaseHTTPRequestHandler) -> None:
    """As servers should: from the byte that was asked for."""
    start = begin(handler)
    if start >= len(DATA):
        send(handler, b"", 416, Content_Range=f"bytes */{len(DATA)}")
    elif start:
        send(handler, DATA[start:], 206, Content_Range=f"bytes {start}-{len(DATA) - 1}/{len(DATA)}")
    else:
        send(handler, DATA)


def without_ranges(handler: BaseHTTPRequestHandler) -> None:
    send(handler, DATA)


def drops(at: int) -> Callable[[BaseHTTPRequestHandler], None]:
    """Breaks off after some bytes of what was asked for."""

    def turn(handler: BaseHTTPRequestHandler) -> None:
        start = begin(handler)
        rest = DATA[start:]
        if start:
            where = f"bytes {start}-{len(DATA) - 1}/{len(DATA)}"
            send(handler, rest[:at], 206, says=len(rest), Content_Range=where)
        else:
            send(handler, rest[:at], says=len(rest))
        handler.close_connection = True

    return turn


def status(code: int, **more: str) -> Callable[[BaseHTTPRequestHandler], None]:
    return lambda handler: send(handler, b"no", code, says=2, **more)


def get(folder: Path, server: Web, *, retries: int = 2, sha256: str | None = HASH, **more: object) -> Path:
    target = str(more.pop("target", server.url))
    path = folder / "a" / "file.conda"
    sources = Sources(mirrors=(Mirror(origin=ORIGIN, target=target),), retries=retries, **more)  # type: ignore[arg-type]  # few fields
    fetch([Wanted(url=f"{ORIGIN}/file.conda", path=path, sha256=sha256, md5=None)], sources)
    return path


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))


GOOD = {
    "a good server": ((whole,), 1),
    "one that breaks off twice": ((drops(300_000), drops(300_000), whole), 3),
    "one that breaks off and knows no ranges": ((drops(300_000), without_ranges), 2),
    "one that says too much": ((lambda handler: send(handler, DATA, says=len(DATA) + 9), whole), 2),
    "one that is busy": ((status(429, Retry_After="0"), status(503, Retry_After="0"), whole), 3),
    "one that is busy till a day that no calendar has": (
        (status(503, Retry_After="Mon, 01 Jan 2026 99999999999999999999:00:00 GMT"), whole),
        2,
    ),
    "one that is busy till a date": ((status(503, Retry_After="Wed, 21 Oct 2015 07:28:00 GMT"), whole), 2),
}


@collect("name", GOOD)
def test_the_right_bytes_come_from(name: str, tmp_path: Path) -> None:
    turns, count = GOOD[name]
    with web(*turns) as server:
        path = get(tmp_path, server)
    assert path.read_bytes() == DATA
    assert [item.name for item in path.parent.iterdir()] == ["file.conda"]
    assert len(server.asked) == count


BAD: dict[str, tuple[tuple[Any, ...], type[InputError], str]] = {
    "gone": ((status(404),), ChannelError, "the server answers 404"),
    "a login": ((status(401),), ChannelError, "401: it requires a login"),
    "always busy": ((status(503, Retry_After="0"),), ChannelError, "the server answers 503"),
    "always breaks off": ((drops(10),), ChannelError, "broke off|connection"),
    "other bytes": (
        (lambda handler: send(handler, DATA[::-1]),),
        HashError,
        "its sha256 is [0-9a-f]{64}, but the lock",
    ),
    "too few, and says so": ((lambda handler: send(handler, DATA[:-1]),), HashError, "its sha256 is"),
    "too many": ((lambda handler: send(handler, DATA + b"x"),), HashError, "its sha256 is"),
    "another range": ((drops(300_000), status(206, Content_Range="bytes 9999999-")), ChannelError, "answers 206"),
    "a page that says all is well": ((lambda handler: send(handler, b"<html>log in</html>"),), HashError, "sha256"),
}


@collect("name", BAD)
def test_a_clear_error_and_no_file_from(name: str, tmp_path: Path) -> None:
    turns, kind, words = BAD[name]
    with web(*turns) as server, pytest.raises(kind, match=words) as caught:
        get(tmp_path, server, retries=1)
    assert "file.conda" in caught.value.message
    assert not (tmp_path / "a" / "file.conda").exists()


def test_what_was_begun_goes_on_in_the_next_run(tmp_path: Path) -> None:
    with web(drops(200_000)) as server, pytest.raises(ChannelError, match="file"):
        get(tmp_path, server, retries=0)
    part = tmp_path / "a" / "file.conda.part"
    have = part.stat().st_size
    assert 0 < have <= 200_000
    with web(whole) as server:
        get(tmp_path, server)
        assert server.asked[0][1] == f"bytes={have}-"
    assert not part.exists()


@collect("size", [10, len(DATA), len(DATA) + 10])
def test_what_an_earlier_run_left_of_another_file_is_thrown_away(tmp_path: Path, size: int) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file.conda.part").write_bytes(b"z" * size)
    with web(whole) as server:
        assert get(tmp_path, server).read_bytes() == DATA


def test_a_whole_part_is_taken_without_a_byte(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file.conda.part").write_bytes(DATA)
    with web(whole) as server:
        assert get(tmp_path, server).read_bytes() == DATA
        assert server.asked == [("/file.conda", f"bytes={len(DATA)}-", "")]
        get(tmp_path, server)
        assert len(server.asked) == 1


@pytest.mark.slow
def test_a_wait_is_as_long_as_the_server_asks(tmp_path: Path) -> None:
    with web(status(429, Retry_After="1"), whole) as server:
        began = time.monotonic()
        get(tmp_path, server)
        assert time.monotonic() - began >= 1


def test_a_password_reaches_its_host_alone_and_no_message(tmp_path: Path) -> None:
    with web(whole) as other, web(lambda handler: send(handler, b"", 302, Location=f"{other.url}/x")) as server:
        get(tmp_path, server, target=server.url.replace("://", "://me:hunter2@"))
        assert server.asked[0][2].startswith("Basic ")
        assert other.asked[0][2] == ""
    with web(status(404)) as server, pytest.raises(ChannelError) as caught:
        get(tmp_path / "b", server, target=server.url.replace("://", "://me:hunter2@"))
    assert "hunter2" not in str(caught.value.message)
    with web(whole) as server, pytest.raises(InputError, match="certificates are not checked"):
        get(tmp_path / "c", server, target=server.url.replace("://", "://me:hunter2@"), verify=False)


def test_a_password_of_netrc_goes_over_no_connection_that_is_not_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password hunter2\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with web(whole) as server:
        with pytest.raises(InputError, match=r"127\.0\.0\.1 requires a login, but certificates are not checked"):
            get(tmp_path, server, verify=False)
        assert server.asked == []
        get(tmp_path, server)
        assert server.asked[0][2].startswith("Basic ")


def test_the_authorities_of_condarc_count_before_those_of_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pem = self_signed(tmp_path)
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "file.conda").write_bytes(DATA)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with serve(tmp_path / "served", certificate=pem) as secure:
        web = Web(url=secure.url)
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "cert"))
        assert get(tmp_path / "one", web).read_bytes() == DATA
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nowhere")
        assert get(tmp_path / "two", web, certificates=str(tmp_path / "cert")).read_bytes() == DATA
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert"))
        assert get(tmp_path / "three", web, certificates="/nowhere").read_bytes() == DATA


def test_two_at_once_take_parts_of_their_own_and_leave_none(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with (tmp_path / "a" / "file.conda.part").open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        other.write(b"what another process has")
        other.flush()
        with web(drops(200_000)) as server, pytest.raises(ChannelError):
            get(tmp_path, server, retries=0)
        assert [path.name for path in (tmp_path / "a").iterdir()] == ["file.conda.part"]
        with web(whole) as server:
            assert get(tmp_path, server).read_bytes() == DATA
    assert (tmp_path / "a" / "file.conda.part").read_bytes() == b"what another process has"


def test_one_that_ends_between_opening_and_locking_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = fcntl.flock
    seen: list[str] = []

    def late(handle: int, how: int) -> None:
        (tmp_path / "a" / "file.conda.part").rename(tmp_path / "a" / "other")
        lock(handle, how)

    def look(handler: BaseHTTPRequestHandler) -> None:
        seen.extend(path.name for path in (tmp_path / "a").iterdir())
        whole(handler)

    monkeypatch.setattr(fcntl, "flock", late)
    with web(drops(300_000), look) as server:
        assert get(tmp_path, server).read_bytes() == DATA
    assert seen
    assert "file.conda.part" not in seen


def test_offline_asks_nobody(tmp_path: Path) -> None:
    with (
        web(whole) as server,
        pytest.raises(ChannelError, match=r"--offline was given, but file\.conda is not in the cache"),
    ):
        get(tmp_path, server, offline=True)
    assert server.asked == []


def test_a_file_without_hash_is_never_taken(tmp_path: Path) -> None:
    with web(whole) as server, pytest.raises(HashError, match="the lock has no hash for it"):
        get(tmp_path, server, sha256=None)


def test_a_refused_connection_is_an_error_of_the_channel(tmp_path: Path) -> None:
    with pytest.raises(ChannelError, match="connection failed: Connection refused"):
        get(tmp_path, Web(), retries=0, target="http://127.0.0.1:9")


def endless(handler: BaseHTTPRequestHandler) -> None:
    """A body without length that never ends."""
    handler.send_response(200)
    handler.end_headers()
    with suppress(OSError):
        while True:
            handler.wfile.write(b"x" * 65536)


@pytest.mark.parametrize("size", [len(DATA), None])
def test_a_body_without_end_is_stopped(size: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At what the channel says of a file, with some to spare, else at what no package has."""
    monkeypatch.setattr("cuenv.solve.io.download._LIMIT", 50_000_000)
    path = tmp_path / "file.conda"
    with web(endless) as server:
        wanted = Wanted(url=f"{ORIGIN}/file.conda", path=path, sha256=HASH, size=size)
        sources = Sources(mirrors=(Mirror(origin=ORIGIN, target=server.url),), cache=str(tmp_path))
        with pytest.raises(ChannelError, match=r"file\.conda: the server sends more than (3145728|50000000) bytes"):
            fetch([wanted], sources)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_wait_is_bounded_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuenv.solve.io.download._LONGEST", 1.0)
    told: list[str] = []
    with web(status(429, Retry_After="100000"), whole) as server:
        wanted = Wanted(url=f"{ORIGIN}/file.conda", path=tmp_path / "file.conda", sha256=HASH)
        sources = Sources(mirrors=(Mirror(origin=ORIGIN, target=server.url),), cache=str(tmp_path))
        fetch([wanted], sources, progress=told.append)
    assert any("; waiting 1 s for 127.0.0.1" in line and "the server answers 429" in line for line in told), told


def test_what_a_second_process_left_days_ago_goes(tmp_path: Path) -> None:
    for name, age in (("file.conda.part-1", 200_000), ("file.conda.part-2", 10), ("other.part-3", 200_000)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    with web(whole) as server:
        sources = Sources(mirrors=(Mirror(origin=ORIGIN, target=server.url),), cache=str(tmp_path))
        fetch([Wanted(url=f"{ORIGIN}/file.conda", path=tmp_path / "file.conda", sha256=HASH)], sources)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file.conda", "file.conda.part-2", "other.part-3"]


def test_both_hashes_count(tmp_path: Path) -> None:
    wanted = Wanted(url=f"{ORIGIN}/file.conda", path=tmp_path / "file.conda", sha256=HASH, md5="0" * 32)
    with web(whole) as server:
        sources = Sources(mirrors=(Mirror(origin=ORIGIN, target=server.url),), cache=str(tmp_path))
        with pytest.raises(HashError, match=r"its md5 is [0-9a-f]{32}, but the lock says 0000"):
            fetch([wanted], sources)


def test_how_far_it_is() -> None:
    count = _Count(moved=3_000_000, grown={Path("a"): 3_000_000}, sizes={Path("a"): 12_000_000})
    assert _line(count, 1, 3.0) == "fetched 0 of 1 files, 3.0 MB of 12.0 MB, 25%, 1.0 MB/s, 9 s left"
    assert _line(count, 2, 3.0) == "fetched 0 of 2 files, 3.0 MB, 0% of the files, 1.0 MB/s"
    assert _line(_Count(sizes={Path("a"): 0}), 1, 0.0) == "fetched 0 of 1 files, 0.0 kB of 0.0 kB, 0%"
    assert [duration(seconds) for seconds in (5, 600, 9000)] == ["5 s", "10 min", "2.5 h"]


def test_several_at_once_and_how_far_it_is(tmp_path: Path) -> None:
    told: list[str] = []
    with web(whole) as server:
        sources = Sources(mirrors=(Mirror(origin=ORIGIN, target=server.url),))
        wanted = [Wanted(url=f"{ORIGIN}/{n}.conda", path=tmp_path / str(n), sha256=HASH) for n in range(20)]
        fetch(wanted, sources, jobs=8, progress=told.append)
    assert {item.path.read_bytes() for item in wanted} == {DATA}
    assert re.match(r"fetched 20 of 20 files, 2[01]\.\d MB of 2[01]\.\d MB, 100%", told[-1])


def test_a_folder_is_hashed_like_a_server(tmp_path: Path) -> None:
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "file.conda").write_bytes(DATA[:-1])
    with pytest.raises(HashError, match=r"mirror/file\.conda: its sha256 is"):
        get(tmp_path, Web(), target=str(tmp_path / "mirror"))
    (tmp_path / "mirror" / "file.conda").unlink()
    with pytest.raises(ChannelError, match=r"mirror/file\.conda: no such file"):
        get(tmp_path, Web(), target=str(tmp_path / "mirror"))
    (tmp_path / "mirror" / "file.conda").symlink_to("file.conda")
    with pytest.raises(ChannelError, match=r"^/.*mirror/file\.conda: its symbolic links form a loop"):
        get(tmp_path, Web(), target=str(tmp_path / "mirror"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_others_may_not_read_is_fetched(tmp_path: Path) -> None:
    seed, path = tmp_path / "seed", tmp_path / "file.conda"
    for item in (seed, path):
        item.write_bytes(DATA)
        item.chmod(0)
    with web(whole) as server:
        sources = Sources(mirrors=(Mirror(origin=ORIGIN, target=server.url),))
        fetch([Wanted(url=f"{ORIGIN}/file.conda", path=path, sha256=HASH, seeds=(seed,))], sources)
    assert path.read_bytes() == DATA


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    code = (
        "import resource, signal, sys\nfrom pathlib import Path\nfrom cuenv.core.errors import OutsideError\n"
        "from cuenv.solve.io.download import Wanted, fetch\nfrom cuenv.solve.io.sources import Sources\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))\n"
        f"item = Wanted(url={(tmp_path / 'big').as_uri()!r}, path=Path({str(tmp_path / 'out')!r}), sha256={HASH!r})\n"
        "try:\n    fetch([item], Sources())\nexcept OutsideError as error:\n    print(error.message)\n"
    )
    (tmp_path / "big").write_bytes(DATA)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"cannot write {tmp_path / 'out'}" in done.stdout
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_not_ours_is_said(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with web(whole) as server, pytest.raises(OutsideError, match=r"cannot write .*/a: "):
        get(tmp_path, server)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_run_leaves_a_part_and_no_file(tmp_path: Path, sent: signal.Signals) -> None:
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom cuenv.solve.io.download import Wanted, fetch\n"
        "from cuenv.solve.io.sources import Sources\n"
        f"item = Wanted(url=sys.argv[1], path=Path({str(tmp_path / 'out')!r}), sha256={HASH!r})\n"
        "try:\n    fetch([item], Sources())\nexcept KeyboardInterrupt:\n    os._exit(130)\n"
    )
    reached = threading.Event()

    def stalls(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(DATA)))
        handler.end_headers()
        handler.wfile.write(DATA[:600_000])
        handler.wfile.flush()
        reached.set()
        child.wait(20)
        handler.close_connection = True

    with web(stalls) as server:
        environ = {**os.environ, "NO_PROXY": "*"}
        child = subprocess.Popen([sys.executable, "-c", code, f"{server.url}/out"], env=environ)
        assert reached.wait(20)
        while not (tmp_path / "out.part").exists() or (tmp_path / "out.part").stat().st_size < 262_144:
            time.sleep(0.01)
        child.send_signal(sent)
        assert child.wait(20) in (130, -signal.SIGKILL)
    assert not (tmp_path / "out").exists()
    assert (tmp_path / "out.part").read_bytes() == DATA[: (tmp_path / "out.part").stat().st_size]
