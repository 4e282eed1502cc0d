"""Channels that fail in the ways of networks and mirrors: the right answer or a clear error, and a good cache after."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rattler.index import index_fs

from cases import quick
from channel_builder import edit, pkg, request, write
from commands import HOST, run
from cuenv.core.errors import ChannelError, ExitCode
from cuenv.solve.io import channels
from cuenv.solve.io.solver import solve
from cuenv.solve.io.sources import Mirror, Sources
from cuenv.solve.model import Solution
from faulty_server import Answer, Faulty, faulty

FORGE = "https://conda.anaconda.org/conda-forge"
SUBDIR = "/conda-forge/linux-64"
PLAIN, ZST, SHARDS = "repodata.json", "repodata.json.zst", "repodata_shards.msgpack.zst"
Fault = Callable[[str, Answer, int], Answer | None]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Faulty]:
    write(tmp_path / "served", {"conda-forge": [pkg("leaf", depends=("base",)), pkg("base")]})
    with faulty(tmp_path / "served") as running:
        yield running


def index(server: Faulty, *, zst: bool = False, shards: bool = False) -> None:
    """Write the compressed and the sharded forms of the repodata (CEP 16)."""
    asyncio.run(index_fs(server.folder / "conda-forge", write_zst=zst, write_shards=shards, force=True))


def sources(server: Faulty, tmp_path: Path, **more: object) -> Sources:
    mirrors = (Mirror(origin=FORGE, target=f"{server.url}/conda-forge"),)
    return replace(Sources(mirrors=mirrors, cache=str(tmp_path / "cache"), timeout=3, retries=0), **more)  # type: ignore[arg-type]  # fields of Sources


def ask(where: Sources) -> list[str]:
    """The file names of a fresh process's answer: nothing of an earlier one is remembered but the cache's files."""
    channels._channels_of.cache_clear()
    answer = solve(request("leaf"), where)
    assert isinstance(answer, Solution), answer
    return [package.url.removeprefix(f"{FORGE}/linux-64/") for package in answer.packages]


GOOD = ["base-1.0-0.tar.bz2", "leaf-1.0-0.tar.bz2"]


def only(name: str, answer: Callable[[Answer], Answer], times: int = 1000) -> Fault:
    """Answer so for files of one name in linux-64, the first times they are asked for."""

    def fault(path: str, good: Answer, before: int) -> Answer | None:
        return answer(good) if path == f"{SUBDIR}/{name}" and before < times else None

    return fault


def cut(good: Answer) -> Answer:
    return replace(good, sent=len(good.body) // 2)


def damaged(good: Answer) -> Answer:
    middle = len(good.body) // 2
    return replace(good, body=good.body[:middle] + bytes(8) + good.body[middle + 8 :])


REFUSED = {
    "a body that ends early": (cut, "connection|error decoding|end of file|body"),
    "a connection that closes without a word": (lambda _: Answer(hang_up=True), "connection|sending request"),
    "a length that is too large": (
        lambda good: replace(good, headers={"Content-Length": str(len(good.body) + 100)}),
        "connection|error decoding|end of file|body",
    ),
    "a length that is too small": (
        lambda good: replace(good, headers={"Content-Length": str(len(good.body) // 2)}),
        "invalid repodata",
    ),
    "a page instead of data": (lambda _: Answer(body=b"<html>log in</html>"), "invalid repodata"),
    "another document": (lambda _: Answer(body=b'{"packages": [1, 2]}'), "invalid repodata"),
    "too many requests": (lambda _: Answer(status=429, headers={"Retry-After": "1"}), "HTTP 429"),
    "not now": (lambda _: Answer(status=503, headers={"Retry-After": "1"}), "HTTP 503"),
    "an answer that comes too late": (lambda good: replace(good, wait=1.2), "timed out"),
    "a redirect that runs in a circle": (
        lambda _: Answer(status=302, headers={"Location": f"{SUBDIR}/{PLAIN}"}),
        "redirect",
    ),
    "a redirect to nowhere": (lambda _: Answer(status=302, headers={"Location": "http://127.0.0.1:9/x"}), "refused"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "words"), quick(REFUSED.values(), first=3), ids=REFUSED)
def test_a_bad_answer_is_an_error_and_a_good_one_after_it_is_right(
    server: Faulty, tmp_path: Path, answer: Callable[[Answer], Answer], words: str
) -> None:
    where = sources(server, tmp_path, timeout=1)
    server.fault = only(PLAIN, answer)
    with pytest.raises(ChannelError, match=words) as caught:
        ask(where)
    assert caught.value.exit == ExitCode.INPUT
    assert caught.value.message.startswith("channel conda-forge, linux-64: ")
    assert caught.value.hint
    server.fault = lambda *_: None
    assert ask(where) == GOOD
    assert ask(replace(where, offline=True)) == GOOD


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer", quick([cut, damaged, lambda _: Answer(body=b"<html></html>"), lambda _: Answer(body=b"")], first=2)
)
@pytest.mark.parametrize("name", [ZST, SHARDS])
def test_a_damaged_form_of_the_repodata_is_an_error_or_another_is_taken(
    server: Faulty, tmp_path: Path, name: str, answer: Callable[[Answer], Answer]
) -> None:
    index(server, zst=True, shards=name == SHARDS)
    where = sources(server, tmp_path)
    server.fault = only(name, answer)
    try:
        assert ask(where) == GOOD
    except ChannelError as error:
        assert error.message.startswith("channel conda-forge, linux-64: ")  # noqa: PT017 - either is right
    assert name in server.paths()
    server.fault = lambda *_: None
    assert ask(where) == GOOD
    assert ask(replace(where, offline=True)) == GOOD


@pytest.mark.slow
def test_a_passing_fault_is_tried_again(server: Faulty, tmp_path: Path) -> None:
    for answer in (Answer(status=503, headers={"Retry-After": "0"}), Answer(status=429), Answer(hang_up=True)):
        server.asked.clear()
        server.fault = only(PLAIN, lambda _, answer=answer: answer, times=1)  # type: ignore[misc]  # bound now
        began = time.monotonic()
        assert ask(sources(server, tmp_path, retries=2, cache=str(tmp_path / str(answer.status)))) == GOOD
        assert time.monotonic() - began < 20


@pytest.mark.slow
def test_a_slow_server_is_waited_for(server: Faulty, tmp_path: Path) -> None:
    server.fault = lambda _path, good, _before: replace(good, wait=0.2)
    assert ask(sources(server, tmp_path)) == GOOD


def test_a_redirect_to_another_host_is_followed_and_the_lock_names_neither(server: Faulty, tmp_path: Path) -> None:
    with faulty(server.folder) as other:
        server.fault = lambda path, _good, _before: Answer(status=302, headers={"Location": other.url + path})
        assert ask(sources(server, tmp_path)) == GOOD
        assert PLAIN in other.paths()


def test_a_password_does_not_follow_a_redirect(server: Faulty, tmp_path: Path) -> None:
    from channel_builder import serve

    with serve(server.folder) as other:
        elsewhere = other.url.replace("127.0.0.1", "localhost")
        server.fault = lambda path, _good, _before: Answer(status=302, headers={"Location": elsewhere + path})
        target = server.url.replace("://", "://me:hunter2@") + "/conda-forge"
        where = replace(sources(server, tmp_path), mirrors=(Mirror(origin=FORGE, target=target),))
        assert ask(where) == GOOD
        assert {login for _, login in other.asked} == {""}


def test_a_cache_that_is_old_is_asked_about_and_kept_on_304(server: Faulty, tmp_path: Path) -> None:
    where = sources(server, tmp_path)
    assert ask(where) == GOOD
    server.asked.clear()
    assert ask(where) == GOOD
    asked = [known for _, path, known in server.asked if path == f"{SUBDIR}/{PLAIN}"]
    assert asked
    assert all(asked)
    edit(server.folder / "conda-forge/linux-64", newer)
    assert ask(where) == ["base-2.0-0.tar.bz2", "leaf-1.0-0.tar.bz2"]


def newer(data: dict[str, object]) -> None:
    """A channel that got base 2.0."""
    packages = data["packages"]
    assert isinstance(packages, dict)
    packages["base-2.0-0.tar.bz2"] = {**packages["base-1.0-0.tar.bz2"], "version": "2.0"}


def test_a_304_without_a_cache_is_an_error_and_not_an_empty_channel(server: Faulty, tmp_path: Path) -> None:
    server.fault = only(PLAIN, lambda good: Answer(status=304, headers=good.headers))
    with pytest.raises(ChannelError, match=rf"^channel conda-forge, linux-64: HTTP 304 Not Modified \({server.url}/"):
        ask(sources(server, tmp_path))  # rattler 0.28 panics
    server.fault = lambda *_: None
    assert ask(sources(server, tmp_path)) == GOOD


def test_a_304_that_passes_is_asked_again(server: Faulty, tmp_path: Path) -> None:
    server.fault = only(PLAIN, lambda good: Answer(status=304, headers=good.headers), times=1)
    assert ask(sources(server, tmp_path)) == GOOD


@pytest.mark.slow
@pytest.mark.parametrize("damage", [b"", b"{", b"<html>", b'{"packages": {}}'])
def test_a_cache_that_was_damaged_heals(server: Faulty, tmp_path: Path, damage: bytes) -> None:
    where = sources(server, tmp_path)
    assert ask(where) == GOOD
    cached = [path for path in (tmp_path / "cache").rglob("*.json") if b"leaf-1.0" in path.read_bytes()]
    assert cached
    for path in cached:
        path.write_bytes(damage)
    assert ask(where) == GOOD
    assert ask(replace(where, offline=True)) == GOOD


def test_repodata_that_changes_between_two_requests_gives_one_consistent_answer(server: Faulty, tmp_path: Path) -> None:
    old = server.good(f"{SUBDIR}/{PLAIN}")
    edit(server.folder / "conda-forge/linux-64", newer)
    server.fault = lambda path, _, before: old if path == f"{SUBDIR}/{PLAIN}" and before % 2 == 0 else None
    where = sources(server, tmp_path)
    for _ in range(3):
        assert ask(where) in (GOOD, ["base-2.0-0.tar.bz2", "leaf-1.0-0.tar.bz2"])


LIES = {
    "the shard of another package": lambda shards: {name: shards[other] for name, other in _turned(shards).items()},
    "no shard at all": lambda _: {},
    "a shard that is cut short": lambda shards: {name: data[: len(data) // 2] for name, data in shards.items()},
    "a shard that is a page": lambda shards: dict.fromkeys(shards, b"<html>log in</html>"),
    "an empty shard": lambda shards: dict.fromkeys(shards, b""),
}


def _turned(shards: dict[str, bytes]) -> dict[str, str]:
    names = sorted(shards)
    return dict(zip(names, names[1:] + names[:1], strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_a_shard_index_that_lies_is_found_out(
    server: Faulty, tmp_path: Path, lie: Callable[[dict[str, bytes]], dict[str, bytes]]
) -> None:
    index(server, shards=True)
    folder = server.folder / "conda-forge/linux-64/shards"
    shards = {path.name: path.read_bytes() for path in folder.iterdir()}
    told = lie(shards)

    def fault(path: str, _good: Answer, _before: int) -> Answer | None:
        name = path.rpartition("/")[2]
        if name not in shards:
            return None
        return Answer(body=told[name]) if name in told else Answer(status=404)

    server.fault = fault
    where = sources(server, tmp_path)
    try:
        ask(where)
    except AssertionError:
        assert lie is LIES["the shard of another package"]  # it is the mirror's word that there is no leaf
    except ChannelError as error:
        assert error.message.startswith("channel conda-forge, linux-64: ")  # noqa: PT017 - either is right
    assert any("/shards/" in path for _, path, _ in server.asked)
    server.fault = lambda *_: None
    assert ask(where) == GOOD


def test_a_shard_index_that_is_older_than_its_shards(server: Faulty, tmp_path: Path) -> None:
    index(server, shards=True)
    where = sources(server, tmp_path)
    assert ask(where) == GOOD
    old = server.good(f"{SUBDIR}/{SHARDS}")
    write(server.folder, {"conda-forge": [pkg("leaf", "2.0", depends=("base",)), pkg("base", "2.0")]})
    index(server, shards=True)
    server.fault = only(SHARDS, lambda _: old)
    assert ask(where) == GOOD
    server.fault = lambda *_: None
    assert ask(where) == ["base-2.0-0.tar.bz2", "leaf-2.0-0.tar.bz2"]


def test_commands_say_it_with_their_exit_code_and_write_nothing(server: Faulty, tmp_path: Path) -> None:
    (tmp_path / "environment.yml").write_text("channels: [conda-forge]\ndependencies: [leaf]\n")
    words = ("lock", *HOST, "--json", "--mirror", f"conda-forge={server.url}/conda-forge")
    server.fault = only(PLAIN, lambda _: Answer(status=410))
    refused = run(*words, folder=tmp_path)
    assert (refused.returncode, refused.stderr) == (ExitCode.INPUT, "")
    assert json.loads(refused.stdout)["error"]["code"] == "channel"
    assert not list(tmp_path.glob("*conda-*"))
    server.fault = lambda *_: None
    assert run(*words, folder=tmp_path).returncode == 0
    good = {path.name: path.read_bytes() for path in tmp_path.glob("conda-*")}
    assert len(good) == 3
    server.fault = lambda path, good, _: cut(good) if path.endswith(PLAIN) else None
    edit(server.folder / "conda-forge/linux-64", newer)
    assert run(*words, folder=tmp_path).returncode == ExitCode.INPUT
    assert {path.name: path.read_bytes() for path in tmp_path.glob("conda-*")} == good
