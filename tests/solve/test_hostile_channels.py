"""Channels, locks and environments written by an enemy: nothing reaches the terminal raw, or a file elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from channel_builder import edit, pkg, write
from commands import HOST, inside, run

ESCAPE = "\x1b[2J\x1b]0;owned\x07\r\u202e\x9b31m\x7f"
Change = Callable[[dict[str, Any]], None]


def field(name: str, value: object) -> Change:
    """Give the record of ``leaf`` another value."""

    def change(data: dict[str, Any]) -> None:
        data["packages"]["leaf-1.0-0.tar.bz2"][name] = value

    return change


def named(name: str) -> Change:
    """Give the record of ``leaf`` another file name."""

    def change(data: dict[str, Any]) -> None:
        data["packages"][name] = data["packages"].pop("leaf-1.0-0.tar.bz2")

    return change


def unhashed(data: dict[str, Any]) -> None:
    record = data["packages"]["leaf-1.0-0.tar.bz2"]
    del record["sha256"], record["md5"]


RECORDS: dict[str, Change] = {
    **{
        f"{name} {kind}": field(name, [value] if name in ("depends", "constrains") else value)
        for name in ("name", "version", "build", "subdir", "depends", "constrains", "license", "noarch", "url", "arch")
        for kind, value in (("escapes", f"x{ESCAPE}"), ("climbs", "../../x"), ("is absolute", "/etc/x"))
    },
    "a dependency that is a page": field("depends", ["base " + "(" * 5000]),
    "a size below zero": field("size", -1),
    "a hash that is none": field("sha256", "../x"),
    "no hash": unhashed,
    **{
        f"file {name!r}": named(name)
        for name in (
            "../../../leaf-1.0-0.tar.bz2",
            "/etc/leaf-1.0-0.tar.bz2",
            f"leaf-1.0-0{ESCAPE}.tar.bz2",
            "leaf-1.0-0.tar.bz2?x=1#y",
            "other-1.0-0.tar.bz2",
            "leaf-9.0-0.tar.bz2",
            "leaf-1.0-9.tar.bz2",
            "https://evil.org/leaf-1.0-0.tar.bz2",
            "-rf-1.0-0.tar.bz2",
        )
    },
    "a base URL elsewhere": lambda data: data["info"].update(base_url=f"https://evil.org/{ESCAPE}"),
    "a base URL that climbs": lambda data: data["info"].update(base_url="../../../../etc"),
    "records removed by name": lambda data: data.update(removed=["../x", ESCAPE]),
}


def harmless(text: str) -> bool:
    """Whether a terminal may show it."""
    return all(char.isprintable() or char == "\n" for char in text)


@pytest.mark.slow
def test_a_record_of_an_enemy_is_refused_or_locked_as_what_it_is(tmp_path: Path) -> None:
    usual: dict[str, bytes] | None = None
    for number, (name, change) in enumerate({"nothing": lambda _: None, **RECORDS}.items()):
        folder = tmp_path / str(number)
        write(folder / "channel", {"conda-forge": [pkg("leaf", depends=("base",)), pkg("base")]})
        edit(folder / "channel/conda-forge/linux-64", change)
        (folder / "environment.yml").write_text("channels: [conda-forge, nodefaults]\ndependencies: [leaf]\n")
        words = ("lock", *HOST, "--mirror", f"conda-forge={folder / 'channel/conda-forge'}")
        done = inside(*words, folder=folder)
        assert done.returncode in (0, 1, 3), (name, done.stderr)
        assert harmless(done.stdout + done.stderr), (name, done.stderr)
        made = {path.name: path.read_bytes() for path in folder.glob("conda-*")}
        usual = usual or made
        assert len(usual) == 3
        assert made == ({} if done.returncode else usual), name
        if done.returncode:
            again = inside(*words, "--json", folder=folder)
            assert (again.returncode, again.stderr) == (done.returncode, "")
            assert json.loads(again.stdout)
            assert harmless(again.stdout), (name, again.stdout)


LOCK_FIELDS = ("name", "version", "url", "platform", "manager", "category", "hash")


@pytest.fixture(scope="module")
def lock_text(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("made")
    write(folder / "channel", {"conda-forge": [pkg("leaf", depends=("base",)), pkg("base")]})
    (folder / "environment.yml").write_text("channels: [conda-forge]\ndependencies: [leaf]\n")
    done = run("lock", *HOST, "--mirror", f"conda-forge={folder / 'channel/conda-forge'}", folder=folder)
    assert done.returncode == 0, done.stderr
    return (folder / "conda-lock.yml").read_text()


@pytest.mark.parametrize("value", [ESCAPE, "../../x", f"https://evil.org/{ESCAPE}/linux-64/a-1-0.conda"])
def test_a_lock_of_an_enemy_shows_no_escapes(tmp_path: Path, lock_text: str, value: str) -> None:
    import quick_yaml

    plain = quick_yaml.load(lock_text)
    spots: list[Change] = [
        *(lambda data, key=key: data["package"][0].update({key: value}) for key in LOCK_FIELDS),
        *(lambda data, key=key: data["metadata"]["custom_metadata"].update({key: value}) for key in _metadata(plain)),
        lambda data: data["metadata"].update(channels=[value]),
        lambda data: data["metadata"].update(sources=[value]),
        lambda data: data["metadata"].update(platforms=[value]),
        lambda data: data["metadata"].update(content_hash={value: value}),
        lambda data: data.update({value: value}),
    ]
    (tmp_path / "conda-lock.yml").write_text(lock_text)
    for number, spot in enumerate(spots):
        data = quick_yaml.load(lock_text)
        spot(data)
        (tmp_path / "other.yml").write_text(json.dumps(data))
        command = [("check", "other.yml", *HOST), ("diff", "conda-lock.yml", "other.yml"), ("check", "other.yml")]
        done = inside(*command[number % 3], folder=tmp_path)
        assert done.returncode in (0, 1, 3), (number, done.stderr)
        assert harmless(done.stdout + done.stderr), (number, done.stdout, done.stderr)


def _metadata(data: dict[str, Any]) -> tuple[str, ...]:
    return tuple(data["metadata"]["custom_metadata"])


def test_an_environment_of_an_enemy_shows_no_escapes(tmp_path: Path) -> None:
    site = tmp_path / "env/lib/python3.12/site-packages"
    meta = tmp_path / "env/conda-meta"
    meta.mkdir(parents=True)
    (meta / "history").write_text("")
    record = {"name": "leaf", "version": "1.0", "build": "0", "depends": [], "files": [], "channel": "conda-forge"}
    for number, key in enumerate(record):
        value = [ESCAPE, "../../../etc/passwd", "/etc/passwd"] if isinstance(record[key], list) else ESCAPE
        (meta / f"leaf{number}-1.0-0.json").write_text(json.dumps({**record, key: value}))
    (meta / f"esc{ESCAPE}-1-0.json").write_text("{")
    for number, text in enumerate(
        (
            f"Name: {ESCAPE}\nVersion: 1\n",
            f"Name: torch\nVersion: 2.0{ESCAPE}\n",
            f"Name: a\nVersion: 1\nRequires-Dist: {ESCAPE}\n",
        )
    ):
        folder = site / f"x{number}-1.0{ESCAPE}.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\n{text}")
        (folder / "RECORD").write_text(f"../../../../../../etc/passwd,,\n{ESCAPE},,\n/etc/shadow,,\n")
        (folder / "INSTALLER").write_text(ESCAPE)
    (site / f"lib{ESCAPE}.so").write_bytes(b"\x7fELF\x02\x01\x01")
    for more in ((), ("-v",), ("--json",), ("--format", "markdown"), ("--format", "github")):
        done = inside("check", "--prefix", "env", *HOST, *more, folder=tmp_path)
        assert done.returncode in (0, 1), done.stderr
        assert harmless(done.stdout + done.stderr), (more, done.stdout, done.stderr)
    done = run("scan", "env", folder=tmp_path)
    assert harmless(done.stdout + done.stderr), (done.stdout, done.stderr)
