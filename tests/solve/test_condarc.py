"""What is read from ``.condarc`` files: places, order, the few keys about channels, and broken files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import collect
from cuenv.core.errors import InputError
from cuenv.solve.io.sources import DEFAULTS, Condarc, condarc_files, parse_mirrors, read_condarc, sources_from

HOST = "https://conda.anaconda.org"


def read(tmp_path: Path, text: str, **environment: str) -> Condarc:
    path = tmp_path / ".condarc"
    path.write_text(text, encoding="utf-8")
    return read_condarc([path], environment)


def test_places_lowest_priority_first(tmp_path: Path) -> None:
    home, prefix, root, own = tmp_path / "home", tmp_path / "env", tmp_path / "conda", tmp_path / "own.yml"
    expected = [
        root / "condarc",
        root / "condarc.d" / "10.yaml",
        root / "condarc.d" / "20.yml",
        home / ".config" / "conda" / ".condarc",
        home / ".conda" / "condarc",
        home / ".condarc",
        prefix / ".condarc",
        own,
    ]
    for path in [*expected, root / "condarc.d" / "not.txt", home / "condarc"]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    environment = {"HOME": str(home), "CONDA_PREFIX": str(prefix), "CONDA_ROOT": str(root), "CONDARC": str(own)}
    below = [path for path in condarc_files(environment) if tmp_path in path.parents]
    assert below == expected


def test_later_files_win_mappings_merge_lists_add_up(tmp_path: Path) -> None:
    low, high = tmp_path / "low", tmp_path / "high"
    low.write_text(
        "channel_alias: https://low.example\nssl_verify: false\noffline: true\ndefault_channels: [https://a.example/x]\n"
        "custom_channels: {one: https://low.example, two: https://low.example}\nproxy_servers: {http: http://p1}\n"
    )
    high.write_text(
        "channel_alias: https://high.example/\nssl_verify: /ca.pem\n"
        "default_channels: [https://b.example/x]\ncustom_channels: {two: https://high.example}\n"
        "proxy_servers: {https: http://p2}\nchannels: [whatever]\nunknown_key: {deep: [1, 2]}\n"
    )
    found = read_condarc([low, high], {})
    assert found == Condarc(
        channel_alias="https://high.example",
        custom_channels=(("one", "https://low.example"), ("two", "https://high.example")),
        default_channels=("https://b.example/x", "https://a.example/x"),
        proxies=(("http", "http://p1"), ("https", "http://p2")),
        ssl_verify="/ca.pem",
        offline=True,
        files=(str(low), str(high)),
    )


def test_condarc_says_where_channels_are_read(tmp_path: Path) -> None:
    text = (
        "channel_alias: https://${LOGIN}@corp.example/conda\n"
        "custom_channels: {nvidia/label/cuda-11.8.0: file:///srv/with%20space, pytorch: https://pt.example/}\n"
        "default_channels: [https://corp.example/main]\nproxy_servers: {https: http://$LOGIN@proxy}\n"
        "ssl_verify: ~/ca.pem\n"
    )
    sources = sources_from(read(tmp_path, text, LOGIN="me:secret"))
    assert sources.target(f"{HOST}/conda-forge") == "https://me:secret@corp.example/conda/conda-forge"
    label = "nvidia/label/cuda-11.8.0"
    assert sources.target(f"{HOST}/{label}") == f"/srv/with space/{label}"
    assert sources.target(f"{HOST}/pytorch") == "https://pt.example/pytorch"
    assert sources.urls(["defaults"]) == ("https://corp.example/main",)
    assert sources.proxies == (("https", "http://me:secret@proxy"),)
    assert (sources.verify, sources.certificates) == (True, str(Path("~/ca.pem").expanduser()))
    assert "secret" not in repr(sources)


def test_the_command_line_wins_over_the_file(tmp_path: Path) -> None:
    condarc = read(
        tmp_path, "custom_channels: {conda-forge: https://corp.example}\nchannel_alias: https://corp.example\n"
    )
    sources = sources_from(condarc, parse_mirrors(["conda-forge=/srv/cf"]), offline=True)
    assert sources.target(f"{HOST}/conda-forge") == "/srv/cf"
    assert sources.target(f"{HOST}/pytorch") == "https://corp.example/pytorch"
    assert sources.offline


@collect("text", ["", "# only a comment\n", "channels: [conda-forge]\n", "channel_alias: null\n"])
def test_files_that_say_nothing_about_it(tmp_path: Path, text: str) -> None:
    sources = sources_from(read(tmp_path, text))
    assert (sources.mirrors, sources.default_channels, sources.verify, sources.offline) == ((), DEFAULTS, True, False)


def test_the_canonical_alias_is_no_mirror(tmp_path: Path) -> None:
    text = f"channel_alias: {HOST}/\ncustom_channels: {{conda-forge: {HOST}}}\n"
    assert sources_from(read(tmp_path, text)).mirrors == ()


@collect(
    ("value", "verify", "certificates"),
    [("true", True, None), ("false", False, None), ("truststore", True, None), ("/a/ca.pem", True, "/a/ca.pem")],
)
def test_ssl_verify_is_a_switch_or_a_file_of_certificates(
    tmp_path: Path, value: str, verify: bool, certificates: str | None
) -> None:
    sources = sources_from(read(tmp_path, f"ssl_verify: {value}\n"))
    assert (sources.verify, sources.certificates) == (verify, certificates)


@collect(
    ("text", "words"),
    [
        ("channel_alias: [", "not valid YAML: line 2"),
        ("a: b: c", "not valid YAML: line 1"),
        ("- just\n- a list\n", "expected a mapping, got a list of 2"),
        ("channel_alias: 3\n", "channel_alias: expected a string, got 3"),
        ("channel_alias: corp.example\n", "channel_alias: expected a URL of http, https or file, got 'corp.example'"),
        ("channel_alias: file://srv/conda\n", "channel_alias: expected file:///PATH, got 'file://srv/conda'"),
        ("custom_channels: {a: 'https://'}\n", "custom_channels.a: expected a URL of .*, got 'https://'"),
        ("custom_channels: {a: 3}\n", "custom_channels.a: expected a URL, got 3"),
        ("custom_channels: {a: ftp://u:secret@x/y}\n", "custom_channels.a: expected a URL of .*, got 'ftp://x/y'"),
        ("default_channels: [1]\n", r"default_channels\[0\]: expected a string, got 1"),
        ("ssl_verify: [1]\n", "ssl_verify: expected true, false or a path, got a list of 1"),
        ("offline: maybe\n", "offline: expected true or false, got 'maybe'"),
        ("!!python/object/apply:os.system [echo]\n", "not valid YAML: line 1: tags are not supported"),
        ("a: " + "[" * 200_000, "not valid YAML: line 1: nested deeper than 24"),  # PyYAML's C loader dies of it
        ("a: &a [x]\nchannel_alias: *a\n", "channel_alias: expected a string, got a list of 1"),
        ("a: &a [*a]\nchannel_alias: *a\n", "not valid YAML: line 1: an alias"),
    ],
)
def test_a_broken_file_is_named_with_what_is_wrong(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        read(tmp_path, text)
    assert caught.value.message.startswith(str(tmp_path / ".condarc"))
    assert "secret" not in caught.value.message


def test_a_home_that_nobody_knows_stays_as_it_is_written(tmp_path: Path) -> None:
    sources = sources_from(read(tmp_path, "ssl_verify: ~nobody-of-that-name/ca.pem\n"))
    assert sources.certificates == "~nobody-of-that-name/ca.pem"


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read_condarc([tmp_path], {})
    binary = tmp_path / "binary"
    binary.write_bytes(b"\x00\xff\xfe")
    with pytest.raises(InputError, match="cannot be read: it is not UTF-8 text"):
        read_condarc([binary], {})


@given(data=st.one_of(st.binary(max_size=60), st.text(":[]{}-&*!|> \n\tabchannel_lis", max_size=60).map(str.encode)))
def test_any_bytes_are_settings_or_bad_input(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.condarc"
    path.write_bytes(data)
    try:
        words = read_condarc([path], {}).files[0]
    except InputError as error:
        words = error.message
    assert words.startswith(str(path))


@pytest.mark.parametrize("name", ["CONDA_SSL_VERIFY", "MAMBA_SSL_VERIFY"])
def test_the_variables_of_conda_and_mamba_say_how_certificates_are_checked(tmp_path: Path, name: str) -> None:
    pem = tmp_path / "ca.pem"
    pem.write_text("")
    file = Condarc(ssl_verify="/of/the/file.pem")
    for text, verify, certificates in (
        (str(pem), True, str(pem)),
        ("false", False, None),
        ("<false>", False, None),
        ("True", True, None),
        ("<system>", True, None),
        ("truststore", True, None),
        (" ", True, "/of/the/file.pem"),
    ):
        found = sources_from(file, environment={name: text})
        assert (found.verify, found.certificates) == (verify, certificates), text
    with pytest.raises(InputError, match=f"{name} names .*nowhere.pem, which does not exist"):
        sources_from(file, environment={name: str(tmp_path / "nowhere.pem")})
    both = {"CONDA_SSL_VERIFY": str(pem), "MAMBA_SSL_VERIFY": "false"}
    assert sources_from(file, environment=both).certificates == str(pem)
