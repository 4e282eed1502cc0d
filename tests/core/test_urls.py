"""What is shown and written of URLs and of foreign text."""

from __future__ import annotations

import string
import time

from hypothesis import given
from hypothesis import strategies as st

from cases import collect
from cuenv.core.urls import credentials, host, printable, redact, strip_credentials

WORDS = st.text(string.ascii_letters + string.digits, min_size=6, max_size=12)
PATHS = st.lists(st.sampled_from(["conda-forge", "nvidia", "label", "cuda-11.8.0", "linux-64", "a-1.0-0.conda"]))
HOSTS = st.sampled_from(["conda.anaconda.org", "mirror.example.com:8080", "[::1]:99", "127.0.0.1"])


@collect(
    ("url", "clean"),
    [
        ("https://conda.anaconda.org/conda-forge", "https://conda.anaconda.org/conda-forge"),
        ("https://user:pass@host/ch/linux-64/a.conda#abc", "https://host/ch/linux-64/a.conda#abc"),
        ("https://user@host:8080/ch", "https://host:8080/ch"),
        ("https://us:p@ss@host/ch", "https://host/ch"),
        ("https://us:pa/ss@host/ch", "https://host/ch"),
        ("https://host/t/tk-123/ch/linux-64", "https://host/ch/linux-64"),
        ("https://host/t/tk-123", "https://host"),
        ("https://host/api/t/a/t/b/ch", "https://host/api/ch"),
        ("https://host/ch?token=abc&x=1", "https://host/ch"),
        ("https://host/%40scope/@scope/ch", "https://host/%40scope/@scope/ch"),
        ("https://[::1]:8080/ch", "https://[::1]:8080/ch"),
        ("file:///srv/t-shirts/ch", "file:///srv/t-shirts/ch"),
        ("conda-forge", "conda-forge"),
        ("/srv/user:x@y", "/srv/user:x@y"),
        ("", ""),
    ],
)
def test_a_url_loses_its_credentials(url: str, clean: str) -> None:
    assert strip_credentials(url) == clean


@given(st.tuples(WORDS, WORDS, WORDS, WORDS), HOSTS, PATHS)
def test_no_secret_stays_in_a_url(words: tuple[str, ...], where: str, path: list[str]) -> None:
    secrets = [f"{kind}-{word}" for kind, word in zip(("user", "password", "token", "query"), words, strict=True)]
    rest = "".join(f"/{part}" for part in path)
    url = f"https://{secrets[0]}:{secrets[1]}@{where}/t/{secrets[2]}{rest}?sig={secrets[3]}"
    assert strip_credentials(url) == f"https://{where}{rest}"
    shown = redact(f"GET '{url}' failed, also ({url})")
    assert not any(secret in shown for secret in secrets)
    assert strip_credentials(url) in shown


@given(HOSTS, PATHS)
def test_a_clean_url_stays(where: str, path: list[str]) -> None:
    url = f"https://{where}" + "".join(f"/{part}" for part in path)
    assert strip_credentials(url) == url
    assert redact(f"see {url} there") == f"see {url} there"


@given(st.text())
def test_stripping_and_redacting_any_text_is_idempotent(text: str) -> None:
    once = strip_credentials(text)
    assert strip_credentials(once) == once
    assert redact(redact(text)) == redact(text)


@given(st.text())
def test_printable_leaves_no_control_character(text: str) -> None:
    shown = printable(text)
    assert all(line.isprintable() for line in shown.split("\n"))
    assert printable(shown) == shown


def test_printable_keeps_what_can_be_seen() -> None:
    assert printable("└─ größer\nzwei") == "└─ größer\nzwei"
    assert printable("\x1b[31mred\x07\r\t\u202e\udc80") == "\\x1b[31mred\\x07\\r\\t\\u202e\\udc80"


@collect(
    ("url", "pair"),
    [
        ("https://user:p%40ss@host/ch", ("user", "p@ss")),
        ("https://user@host/ch", ("user", "")),
        ("https://host/ch", None),
        ("https://host/ch@x", None),
    ],
)
def test_the_credentials_of_a_url_are_its_user_and_password(url: str, pair: tuple[str, str] | None) -> None:
    assert credentials(url) == pair


@collect(
    ("url", "name"),
    [("https://u:p@Host.Example:80/x", "host.example"), ("http://[::1]:8/x", "::1"), ("conda-forge", "")],
)
def test_the_host_of_a_url_has_no_port_and_no_user(url: str, name: str) -> None:
    assert host(url) == name


def test_a_long_text_without_url_costs_nothing() -> None:
    began = time.process_time()
    assert redact("x" * 300_000) == "x" * 300_000
    assert redact("x" * 100 + "http://user:secret@host/y") == "x" * 100 + "http://host/y"
    assert time.process_time() - began < 2
