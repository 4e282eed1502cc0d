"""Mirrors: what ``--mirror`` takes, which one wins, what is never shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import collect
from cuenv.core.errors import UsageError
from cuenv.solve.io.sources import DEFAULTS, Mirror, Sources, parse_mirror, parse_mirrors

HOST = "https://conda.anaconda.org"


@collect(
    ("text", "origin", "target"),
    [
        ("conda-forge=https://m.example/cf/", f"{HOST}/conda-forge", "https://m.example/cf"),
        ("nvidia/label/cuda-11.8.0=/srv/x", f"{HOST}/nvidia/label/cuda-11.8.0", "/srv/x"),
        (f"{HOST}/=http://u:p@m.example/conda", HOST, "http://u:p@m.example/conda"),
        ("https://u:p@other.example/ch/=/srv/x", "https://other.example/ch", "/srv/x"),
        ("conda-forge=file:///srv/with%20space/", f"{HOST}/conda-forge", "/srv/with space"),
        ("conda-forge=file://localhost/srv", f"{HOST}/conda-forge", "/srv"),
        ("conda-forge=https://m.example/x?a=b", f"{HOST}/conda-forge", "https://m.example/x?a=b"),
    ],
)
def test_a_mirror_is_read_from_its_option(text: str, origin: str, target: str) -> None:
    assert parse_mirror(text) == Mirror(origin=origin, target=target)


def test_a_relative_folder_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert parse_mirror("conda-forge=channels").target == str(tmp_path / "channels")
    assert parse_mirror("conda-forge=~/channels").target == "/home/somebody/channels"


@collect(
    ("text", "words"),
    [
        ("", "is not FROM=TO"),
        ("conda-forge", "is not FROM=TO"),
        ("=x", "is not FROM=TO"),
        ("conda-forge=", "is not FROM=TO"),
        ("conda forge=/x", "not a channel name or URL"),
        ("file:///x=/y", "not a channel name or URL"),
        ("../x=/y", "not a channel name or URL"),
        ("defaults=/y", "stands for several channels"),
        ("conda-forge=ftp://m.example/x", "cannot read channels from"),
        ("conda-forge=file://host/x", "cannot read channels from"),
        ("conda-forge=https://", "cannot read channels from"),
        ("conda-forge=s3://u:secret@bucket/x", "cannot read channels from 's3://bucket/x'"),
    ],
)
def test_a_bad_mirror_is_wrong_usage(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        parse_mirror(text)
    assert caught.value.message.startswith("--mirror: ")
    assert "--mirror conda-forge=" in (caught.value.hint or "")
    assert "secret" not in caught.value.message


@given(st.text(max_size=30))
def test_any_text_is_a_mirror_or_wrong_usage(text: str) -> None:
    try:
        words = parse_mirror(text).origin
    except UsageError as error:
        words = error.message
    assert words.startswith(("http://", "https://", "--mirror: "))
    assert words.isprintable()


def test_two_mirrors_for_one_channel_are_wrong_usage() -> None:
    with pytest.raises(UsageError, match="conda-forge has two mirrors"):
        parse_mirrors(["conda-forge=/a", f"{HOST}/conda-forge=/b"])


def test_the_longest_mirror_wins_and_ends_at_a_slash() -> None:
    texts = [f"{HOST}=/all", "nvidia=/nv", "nvidia/label/cuda-11.8.0=/label", "conda=/conda"]
    sources = Sources(mirrors=parse_mirrors(texts))
    places = {
        f"{HOST}/conda-forge": "/all/conda-forge",
        f"{HOST}/conda": "/conda",
        f"{HOST}/nvidia": "/nv",
        f"{HOST}/nvidia/label/cuda-12.4.0": "/nv/label/cuda-12.4.0",
        f"{HOST}/nvidia/label/cuda-11.8.0": "/label",
        "https://other.example/ch": "https://other.example/ch",
    }
    assert {url: sources.target(url) for url in places} == places
    assert sources.folder(f"{HOST}/conda") == Path("/conda")
    assert sources.folder("https://other.example/ch") is None


def test_urls_are_canonical_and_clean() -> None:
    sources = Sources()
    channels = ("pytorch", "https://u:p@other.example/t/tk/ch/", "defaults", "pytorch", f"{HOST}/pytorch")
    assert sources.urls(channels) == (f"{HOST}/pytorch", "https://other.example/ch", *DEFAULTS)
    own = Sources(default_channels=("https://u:p@corp.example/main",))
    assert own.urls(["defaults"]) == ("https://corp.example/main",)


def test_a_channel_with_credentials_implies_a_mirror_unless_there_is_one() -> None:
    channel = "https://u:p@other.example/t/tk/ch/"
    implied = Sources().reaching([channel, "conda-forge"])
    assert implied.target("https://other.example/ch") == channel.rstrip("/")
    given_one = Sources(mirrors=(Mirror(origin="https://other.example/ch", target="/srv/ch"),))
    assert given_one.reaching([channel]) == given_one
    assert Sources().reaching(["conda-forge"]) == Sources()


def test_nothing_secret_is_in_a_repr() -> None:
    mirror = parse_mirror("conda-forge=https://user:secret@m.example/t/token/x")
    sources = Sources(mirrors=(mirror,), proxies=(("http", "http://user:secret@proxy"),))
    assert "secret" not in repr(sources)
    assert "token" not in repr(sources)


def test_each_mapping_has_its_own_repodata_and_all_share_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUENV_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    plain, one, two = (Sources(mirrors=parse_mirrors(texts)) for texts in ([], ["a=/x"], ["a=/y"]))
    assert plain.repodata_folder() == Path("/cache/cuenv/repodata/canonical")
    assert len({sources.repodata_folder() for sources in (plain, one, two)}) == 3
    assert {sources.package_folder() for sources in (plain, one, two)} == {Path("/cache/cuenv/pkgs")}
    monkeypatch.setenv("CUENV_CACHE_DIR", "/mine")
    assert plain.package_folder() == Path("/mine/pkgs")
    assert Sources(cache="/own").package_folder() == Path("/own/pkgs")
