"""Channels over HTTP: a server of this machine stands for the mirror; the lock keeps canonical URLs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from channel_builder import Server, pkg, request, self_signed, serve, write
from cuenv.core.errors import ChannelError, InputError
from cuenv.solve.environment_spec import Pin
from cuenv.solve.io.solver import pins_without_record, solve
from cuenv.solve.io.sources import Mirror, Sources
from cuenv.solve.model import Solution

HOST = "https://conda.anaconda.org"
FORGE = f"{HOST}/conda-forge"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    write(tmp_path / "served", {"conda-forge": [pkg("a", depends=("z",)), pkg("z")], "pytorch": [pkg("t")]})
    with serve(tmp_path / "served") as running:
        yield running


def mirror(server: Server, tmp_path: Path, login: str = "", path: str = "") -> Sources:
    target = server.url.replace("://", f"://{login}") + path
    return Sources(mirrors=(Mirror(origin=HOST, target=target),), cache=str(tmp_path / "cache"), timeout=5, retries=0)


def urls(answer: object) -> list[str]:
    assert isinstance(answer, Solution), answer
    return [package.url for package in answer.packages]


def test_a_mirror_is_read_and_the_lock_keeps_canonical_urls(server: Server, tmp_path: Path) -> None:
    pins = (Pin(name="a", channel="conda-forge"), Pin(name="t", channel="pytorch"))
    answer = solve(request(*pins, channels=("pytorch", "conda-forge")), mirror(server, tmp_path))
    assert urls(answer) == [
        f"{FORGE}/linux-64/a-1.0-0.tar.bz2",
        f"{HOST}/pytorch/linux-64/t-1.0-0.tar.bz2",
        f"{FORGE}/linux-64/z-1.0-0.tar.bz2",
    ]
    assert {path for path, _ in server.asked} >= {
        "/conda-forge/linux-64/repodata.json",
        "/pytorch/noarch/repodata.json",
    }


def test_user_and_password_of_a_mirror_reach_it_and_nothing_else(server: Server, tmp_path: Path) -> None:
    answer = solve(request("a"), mirror(server, tmp_path, login="user:pass%40word@"))
    assert {login for _, login in server.asked} == {"user:pass@word"}
    assert "pass" not in repr(answer)


def test_a_token_of_a_mirror_reaches_it_and_nothing_else(server: Server, tmp_path: Path) -> None:
    server.answer = lambda path: server.file(path.removeprefix("/t/tk-1")) if path.startswith("/t/") else (403, b"")
    answer = solve(request("a"), mirror(server, tmp_path, path="/t/tk-1"))
    assert urls(answer)[0] == f"{FORGE}/linux-64/a-1.0-0.tar.bz2"
    assert "tk-1" not in repr(answer)


def test_a_channel_given_with_credentials_is_stripped(server: Server, tmp_path: Path) -> None:
    channel = server.url.replace("://", "://user:secret@") + "/conda-forge"
    sources = Sources(cache=str(tmp_path / "cache"))
    answer = solve(request("a", channels=(channel,)), sources)
    assert urls(answer)[0] == f"{server.url}/conda-forge/linux-64/a-1.0-0.tar.bz2"
    assert {login for _, login in server.asked} == {"user:secret"}
    assert "secret" not in repr(answer)
    assert pins_without_record((Pin(name="a"), Pin(name="b")), (channel,), "linux-64", sources) == (Pin(name="b"),)


@pytest.mark.parametrize(
    ("answer", "words", "hint"),
    [
        ((404, b""), "HTTP 404 Not Found", "check the channel's name"),
        ((401, b""), "HTTP 401 Unauthorized", "USER:PASSWORD"),
        ((403, b""), "HTTP 403 Forbidden", "USER:PASSWORD"),
        ((500, b""), "HTTP 500 Internal Server Error", "try again later"),
    ],
)
def test_a_bad_answer_names_channel_subdir_and_url(
    server: Server, tmp_path: Path, answer: tuple[int, bytes], words: str, hint: str
) -> None:
    server.answer = lambda _: answer
    with pytest.raises(ChannelError) as caught:
        solve(request("a"), mirror(server, tmp_path, login="user:secret@"))
    message = caught.value.message
    assert message.startswith("channel conda-forge, ")
    assert words in message
    assert f"({server.url}/conda-forge/" in message
    assert hint in (caught.value.hint or "")
    assert "secret" not in message + (caught.value.hint or "")


@pytest.mark.slow
@pytest.mark.parametrize("body", [b"", b"<html>log in</html>", b"[]", b'{"packages": 3}', b'{"packages": {"a-1.0'])
def test_what_is_no_repodata_is_called_so(server: Server, tmp_path: Path, body: bytes) -> None:
    server.answer = lambda path: (200, body) if path.endswith(".json") else (404, b"")
    with pytest.raises(
        ChannelError, match=r"^channel conda-forge, (linux-64|noarch): the server sends invalid"
    ) as caught:
        solve(request("a"), mirror(server, tmp_path))
    assert f"({server.url}/conda-forge/" in caught.value.message
    assert (caught.value.hint or "").startswith("check what the server sends: curl -sSL http://127.0.0.1:")


@pytest.mark.slow
def test_a_portal_that_wants_a_login_for_every_path(server: Server, tmp_path: Path) -> None:
    server.answer = lambda _: (200, b"<html>please log in</html>")
    with pytest.raises(ChannelError, match="the server sends invalid repodata"):
        solve(request("a"), mirror(server, tmp_path))


def test_the_channel_that_fails_is_the_one_that_is_named(server: Server, tmp_path: Path) -> None:
    server.answer = lambda path: (200, b"[]") if path == "/pytorch/linux-64/repodata.json" else None
    with pytest.raises(ChannelError, match=r"^channel pytorch, linux-64: "):
        solve(request("a", "t", channels=("conda-forge", "pytorch")), mirror(server, tmp_path))


def test_a_mirror_that_answers_anything_to_shards_still_works(server: Server, tmp_path: Path) -> None:
    server.answer = lambda path: (200, b"<html>welcome</html>") if "shards" in path else None
    assert urls(solve(request("a"), mirror(server, tmp_path)))[0] == f"{FORGE}/linux-64/a-1.0-0.tar.bz2"


def test_a_refused_connection_is_an_error_with_a_hint(tmp_path: Path) -> None:
    sources = Sources(mirrors=(Mirror(origin=FORGE, target="http://127.0.0.1:9/x"),), cache=str(tmp_path), retries=0)
    with pytest.raises(ChannelError, match="Connection refused") as caught:
        solve(request("a"), sources)
    assert caught.value.hint == (
        "check the network and its proxy, or read the channel elsewhere: --mirror conda-forge=URL"
    )


@pytest.mark.slow
def test_a_server_that_never_answers(server: Server, tmp_path: Path) -> None:
    def sleep(_: str) -> tuple[int, bytes]:
        time.sleep(2)
        return 404, b""

    server.answer = sleep
    with pytest.raises(ChannelError, match="timed out"):
        solve(request("a"), replace(mirror(server, tmp_path), timeout=1))


def test_offline_uses_the_cache_and_says_when_there_is_none(server: Server, tmp_path: Path) -> None:
    online = mirror(server, tmp_path)
    offline = replace(online, offline=True)
    with pytest.raises(
        ChannelError, match=r"channel conda-forge, .*: --offline was given, but the cache has nothing"
    ) as caught:
        solve(request("a"), offline)
    assert "--offline" in (caught.value.hint or "")
    first = solve(request("a"), online)
    server.asked.clear()
    assert solve(request("a"), offline) == first
    assert server.asked == []


def test_mirrors_do_not_share_a_cache(server: Server, tmp_path: Path) -> None:
    solve(request("a"), mirror(server, tmp_path))
    write(tmp_path / "other", {"conda-forge": [pkg("a", "9.0")]})
    with serve(tmp_path / "other") as other:
        answer = solve(request("a"), replace(mirror(other, tmp_path), offline=False))
    assert urls(answer) == [f"{FORGE}/linux-64/a-9.0-0.tar.bz2"]


def test_a_password_is_not_sent_without_checking_certificates(server: Server, tmp_path: Path) -> None:
    sources = replace(mirror(server, tmp_path, login="user:secret@"), verify=False)
    with pytest.raises(InputError, match="ssl_verify: false"):
        solve(request("a"), sources)
    assert server.asked == []
    assert urls(solve(request("a"), replace(mirror(server, tmp_path), verify=False)))


def test_a_proxy_is_used_unless_the_environment_names_another(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", "")  # so that monkeypatch restores what make_client sets
    server.answer = lambda path: server.file(path.removeprefix("http://far.example.invalid"))
    monkeypatch.setenv("http_proxy", server.url)
    sources = Sources(
        mirrors=(Mirror(origin=HOST, target="http://far.example.invalid"),),
        proxies=(("http", "http://127.0.0.1:9"),),
        cache=str(tmp_path / "cache"),
        retries=0,
    )
    assert urls(solve(request("a"), sources))
    assert all(path.startswith("http://far.example.invalid/conda-forge/") for path, _ in server.asked)


@pytest.mark.slow
def test_a_company_s_authority_is_trusted_when_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pem = self_signed(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", "")  # so that monkeypatch restores what make_client sets
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    write(tmp_path / "served", {"conda-forge": [pkg("a")]})
    with serve(tmp_path / "served", certificate=pem) as secure:
        unknown = mirror(secure, tmp_path)
        with pytest.raises(ChannelError, match="certificate") as caught:
            solve(request("a"), unknown)
        assert caught.value.hint == (
            "set your company's certificate authorities: ssl_verify: /path/to/ca.pem in .condarc"
        )
        assert urls(solve(request("a"), replace(unknown, verify=False)))
        known = replace(unknown, certificates=str(tmp_path / "cert"), cache=str(tmp_path / "cache2"))
        assert urls(solve(request("a"), known))
