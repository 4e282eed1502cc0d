"""Bundles as plain values: names from a lock never become paths unchecked, and places follow from the lock alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import collect
from cuenv.core.errors import InputError
from cuenv.install import bundle as repodata
from cuenv.install.bundle import (
    channel_folder,
    conda_item,
    file_name,
    is_place,
    items,
    parse_sums,
    pip_item,
    sums_text,
    without_credentials,
)
from cuenv.solve.model import LockedPackage, PipLocked, Solution

FORGE = "https://conda.anaconda.org/conda-forge"


def package(url: str = f"{FORGE}/linux-64/a-1-0.conda", **more: str) -> LockedPackage:
    channel, subdir = url.rsplit("/", 2)[:2]
    own = {"name": "a", "version": "1", "build": "0", "subdir": subdir, "channel": channel, "sha256": "0" * 64} | more
    return LockedPackage(url=url, md5=None, **own)  # type: ignore[arg-type]  # strings for strings


def wheel(name: str = "a-1-py3-none-any.whl", sha256: str = "1" * 64) -> PipLocked:
    return PipLocked(name="a", version="1", url=f"https://index.example.com/{name}", sha256=sha256)


def solution(*packages: LockedPackage, pip: tuple[PipLocked, ...] = (), platform: str = "linux-64") -> Solution:
    return Solution(platform=platform, packages=packages, virtual_packages=(), solver="", pip=pip)


@collect(
    ("channel", "folder"),
    [
        (FORGE, "conda-forge"),
        ("https://conda.anaconda.org/nvidia/label/cuda-11.8.0", "nvidia/label/cuda-11.8.0"),
        ("https://repo.anaconda.com/pkgs/main", "repo.anaconda.com/pkgs/main"),
        ("/srv/channel", "srv/channel"),
        ("file:///srv/channel", "file-"),
        ("https://host:8080/channel", "host-8080-channel-"),
        ("https://host/a/../../../etc", "host-a-etc-"),
        ("https://host/%2e%2e/x", "host-2e-2e-x-"),
        ("https://conda.anaconda.org/.hidden", "hidden-"),
    ],
)
def test_each_channel_has_a_folder_of_its_own(channel: str, folder: str) -> None:
    found = channel_folder(channel)
    assert is_place(found)
    if folder.endswith("-"):
        assert found.endswith(tuple("0123456789abcdef"))
        assert len(found.rpartition("-")[2]) == 12
        assert found.startswith(folder) or channel.startswith("file:")
    else:
        assert found == folder


@given(st.text(max_size=60), st.text(max_size=60))
def test_no_channel_leads_out_and_no_two_share(one: str, other: str) -> None:
    for text in (one, other):
        assert is_place(channel_folder(f"https://{text}"))
    if one.strip("/") != other.strip("/") and "://" not in one + other:
        assert channel_folder(f"https://h/{one}x") != channel_folder(f"https://h/{other}x")


def test_places_follow_from_names() -> None:
    assert conda_item(package()).place == "channel/conda-forge/linux-64/a-1-0.conda"
    epoch = conda_item(package(f"{FORGE}/noarch/a-1%212.0-0.tar.bz2"))
    assert epoch.place == "channel/conda-forge/noarch/a-1!2.0-0.tar.bz2"
    assert epoch.name == "a-1!2.0-0.tar.bz2"
    assert pip_item(wheel("a-1.tar.gz?x=1#sha256=2"), "linux-64").place == "wheels/linux-64/a-1.tar.gz"


@collect(
    "name",
    [
        "..%2f..%2fetc%2fa-1-0.conda",
        "a\nb-1-0.conda",
        "-rf-1-0.conda",
        ".a-1-0.conda",
        "a-1-0.exe",
        "a b-1-0.conda",
        "",
    ],
)
def test_a_name_that_is_invalid_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="which is not a valid package name"):
        conda_item(package(f"{FORGE}/linux-64/{name}"))
    with pytest.raises(InputError, match="valid name of a wheel or a source"):
        pip_item(wheel(name), "linux-64")


@collect("subdir", ["..", "linux-64/..", "linux 64", "-"])
def test_a_subdir_that_is_invalid_is_refused(subdir: str) -> None:
    with pytest.raises(InputError, match="not a valid package name"):
        conda_item(package(subdir=subdir))


def test_each_file_once_and_two_of_one_name_are_refused() -> None:
    both = items([solution(package(f"{FORGE}/noarch/a-1-0.conda"), platform=name) for name in ("linux-64", "other-1")])
    assert [item.place for item in both] == ["channel/conda-forge/noarch/a-1-0.conda"]
    other = package(f"{FORGE}/noarch/a-1-0.conda", sha256="f" * 64)
    with pytest.raises(InputError, match=r"two different files 'a-1-0\.conda'"):
        items([solution(package(f"{FORGE}/noarch/a-1-0.conda")), solution(other, platform="other-1")])


def test_channels_are_kept_apart() -> None:
    other = package("https://conda.anaconda.org/nvidia/linux-64/a-1-0.conda", sha256="f" * 64)
    places = [item.place for item in items([solution(package(), other, pip=(wheel(),))])]
    assert places == [
        "channel/conda-forge/linux-64/a-1-0.conda",
        "channel/nvidia/linux-64/a-1-0.conda",
        "wheels/linux-64/a-1-py3-none-any.whl",
    ]


@given(st.dictionaries(st.from_regex(r"[a-z0-9_]{1,9}(/[a-z0-9_.+!]{0,9}x){0,3}", fullmatch=True), st.just("a" * 64)))
def test_sums_come_back(sums: dict[str, str]) -> None:
    found = {place: text for place, text in sums.items() if is_place(place)}
    if found:
        assert parse_sums(sums_text(found), "SHA256SUMS") == found


@collect(
    "line",
    [
        "",
        "x",
        f"{'0' * 64}  ../x",
        f"{'0' * 64}  /etc/passwd",
        f"{'0' * 64}  a/../../b",
        f"{'0' * 63}  a",
        f"{'0' * 64}  a//b",
        f"{'0' * 64}  .a",
        f"{'0' * 64}  a\x1b[2J",
    ],
)
def test_sums_of_other_places_are_refused(line: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_sums(f"{line}\n" if line else "", "SHA256SUMS")
    assert "\x1b" not in caught.value.message


def test_a_lock_is_cleaned_and_says_the_same() -> None:
    torch = PipLocked(
        name="torch", version="1", url="https://index.example.com/packages/t/torch-1.whl", sha256="0" * 64
    )
    wanted = items([solution(package(), pip=(torch,))])
    text = (
        'channels: {"url":"https://me:hunter2@conda.anaconda.org/t/secrettoken/conda-forge"}\n'
        "url: 'https://me:hunter2@conda.anaconda.org/t/secrettoken/conda-forge/linux-64/a-1-0.conda'\n"
        "url: https://me:hunter2@index.example.com/packages/t/torch-1.whl?token=secrettoken\n"
    )
    clean = without_credentials(text, wanted)
    assert "hunter2" not in clean
    assert "secrettoken" not in clean
    assert f"'{FORGE}/linux-64/a-1-0.conda'" in clean
    assert torch.url in clean


def test_repodata_keeps_the_two_kinds_apart() -> None:
    text = repodata.render("noarch", {"b-1-0.conda": {"name": "b"}, "a-1-0.tar.bz2": {"name": "a"}})
    assert '"packages": {\n  "a-1-0.tar.bz2"' in text
    assert '"packages.conda": {\n  "b-1-0.conda"' in text


def test_a_name_is_the_end_of_a_url() -> None:
    assert file_name("https://h/a/b%2Bc.whl?x#y") == "b+c.whl"
