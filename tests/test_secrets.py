"""No secret that cuenv was given, or could have read, comes out again: in no file, no stream, no JSON, no error."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cases import collect
from channel_builder import pkg, write
from commands import HOST, inside, run
from faulty_server import Answer, Faulty, faulty

CANARY = "cAn4ry"
"""Every secret holds it."""
PLACES = ("mirror", "token", "alias", "custom", "proxy", "file", "pip", "index", "extra", "netrc", "env", "query")
SECRET = {name: f"{CANARY}{name}" for name in PLACES}
KNOWN: dict[str, Any] = {
    "AWS_SECRET_ACCESS_KEY": SECRET["env"],
    "ANACONDA_API_TOKEN": SECRET["env"],
    "GITHUB_TOKEN": SECRET["env"],
    "PIP_INDEX_URL": f"http://me:{SECRET['index']}@127.0.0.1:9/simple",
    "UV_EXTRA_INDEX_URL": f"http://me:{SECRET['extra']}@127.0.0.1:9/simple",
    "CUENV_STORY": SECRET["env"],
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Faulty]:
    write(tmp_path / "served", {"conda-forge": [pkg("leaf", depends=("base",)), pkg("base")], "own": [pkg("mine")]})
    with faulty(tmp_path / "served") as running:
        token = f"/t/{SECRET['token']}"
        running.fault = lambda path, *_: running.good(path.removeprefix(token)) if path.startswith(token) else None
        yield running


@pytest.fixture
def folder(tmp_path: Path, server: Faulty) -> Path:
    """A project whose every setting holds a secret."""
    made = tmp_path / "project"
    made.mkdir()
    address = server.url.removeprefix("http://")
    (made / ".condarc").write_text(
        f"channel_alias: http://me:{SECRET['alias']}@{address}\n"
        f"custom_channels:\n  own: http://me:{SECRET['custom']}@{address}\n"
        f"proxy_servers:\n  https: http://me:{SECRET['proxy']}@127.0.0.1:9\n"
    )
    (made / ".netrc").write_text(f"machine 127.0.0.1 login me password {SECRET['netrc']}\n")
    (made / ".netrc").chmod(0o600)
    (made / "environment.yml").write_text(
        f"channels:\n  - conda-forge\n  - http://me:{SECRET['file']}@{address}/own?sig={SECRET['query']}\n"
        "dependencies: [leaf, mine]\n"
    )
    (made / "pip.yml").write_text(
        "channels: [conda-forge]\ndependencies:\n  - leaf\n"
        f"  - pip: ['six @ https://me:{SECRET['pip']}@example.org/six-1.0-py3-none-any.whl']\n"
    )
    index = f"https://me:{SECRET['index']}@example.org/simple"
    (made / "training.log").write_text(f"Looking in indexes: {index}\nRuntimeError: CUDA out of memory at {index}\n")
    return made


INPUTS = {"training.log", ".condarc", ".netrc", "environment.yml", "pip.yml", "cuenv.toml"}


def leaks(root: Path) -> dict[str, str]:
    """Every file below a folder that holds a secret, inputs aside; caches count."""
    found = {}
    for path in root.rglob("*"):
        if path.is_file() and path.name not in INPUTS and (data := path.read_bytes()).find(CANARY.encode()) >= 0:
            found[str(path)] = repr(data[max(0, data.find(CANARY.encode()) - 60) :][:120])
        assert CANARY not in path.name
    return found


@pytest.mark.slow
def test_no_secret_comes_out_of_any_command(folder: Path, server: Faulty) -> None:
    address = server.url.removeprefix("http://")
    by_mirror = f"conda-forge=http://me:{SECRET['mirror']}@{address}/conda-forge"
    by_token = f"conda-forge=http://{address}/t/{SECRET['token']}/conda-forge"
    runs: list[tuple[int | None, tuple[str, ...]]] = [
        (0, ("lock", *HOST)),
        (0, ("lock", *HOST, "-v")),
        (0, ("lock", *HOST, "--mirror", by_mirror)),
        (0, ("lock", *HOST, "--mirror", by_mirror, "--json", "-v")),
        (0, ("lock", *HOST, "--mirror", by_token)),
        (0, ("lock", "--update", "leaf", *HOST)),
        (0, ("lock", "--check", *HOST)),
        (0, ("check", *HOST)),
        (0, ("check", *HOST, "--json")),
        (0, ("check", *HOST, "--format", "markdown")),
        (0, ("check", *HOST, "--format", "github")),
        (0, ("diff", "conda-lock.yml", "conda-lock.yml", "--json")),
        (None, ("lint", "environment.yml", "pip.yml", "--json")),
        (None, ("lint", "environment.yml", "--diff")),
        (None, ("lock", "--repair", "-o", "new.yml", *HOST)),
        (None, ("lock", "pip.yml", *HOST)),
        (None, ("lock", "pip.yml", *HOST, "--json", "-v")),
        (None, ("diagnose", "training.log", *HOST, "-v")),
        (None, ("diagnose", "training.log", *HOST, "--json")),
        (None, ("export", "dockerfile", "-o", ".")),
        (None, ("export", "apptainer", "-o", ".")),
        (None, ("export", "devcontainer", "-o", ".")),
        (None, ("export", "github-action", "-o", "workflow.yml")),
        (None, ("export", "gitlab-ci", "-o", "gitlab.yml")),
        (0, ("config",)),
        (0, ("config", "--json")),
        (0, ("inspect", "--json")),
        (0, ("inspect", "--record", "record")),
        (None, ("resolve", *HOST, "--prove", "--mirror", by_mirror)),
        (None, ("kb", "audit", "--mirror", by_mirror, "--json")),
        (2, ("lock", *HOST, "--mirror", f"conda-forge=ftp://me:{SECRET['mirror']}@x/y")),
        (2, ("lock", *HOST, "--mirror", f"http://me:{SECRET['mirror']}@x/y")),
        (3, ("lock", *HOST, "--mirror", f"conda-forge=http://me:{SECRET['mirror']}@127.0.0.1:9/conda-forge")),
        (None, ("lock", *HOST, "--engine", "conda-lock", "--conda", "/nonexistent/conda", "--mirror", by_mirror)),
    ]
    for number, (code, words) in enumerate(runs):
        command = run if number % 5 == 0 else inside  # whole processes are slow
        done = command(*words, folder=folder, **KNOWN)
        what = (words[:3], done.returncode, done.stdout, done.stderr)
        assert CANARY not in done.stdout + done.stderr, what
        assert "this is a bug" not in done.stderr, what
        assert code is None or done.returncode == code, what
    for status in (401, 407, 500):
        answer = Answer(status=status, body=f"<html>{SECRET['mirror']}</html>".encode())
        server.fault = lambda _path, _good, _before, answer=answer: answer  # type: ignore[misc]  # bound now
        done = run("lock", *HOST, "--mirror", by_mirror, "-v", folder=folder, **KNOWN)
        assert done.returncode == 3, done.stderr
        assert CANARY not in done.stdout + done.stderr, done.stdout + done.stderr
    assert (folder / "conda-lock.yml").is_file()
    assert (folder / "record").is_dir()
    assert leaks(folder) == {}


@collect(
    ("name", "text"),
    [
        (".condarc", f"channel_alias: http://me:{CANARY}@x/[\n: ["),
        (".condarc", f"channel_alias: ftp://me:{CANARY}@x\n"),
        (".condarc", f"custom_channels: {{own: 3, x: 'http://me:{CANARY}@x'}}\n"),
        (".condarc", f"http://me:{CANARY}@x: 1\nhttp://me:{CANARY}@x: 2\n"),
        ("environment.yml", f"channels: ['http://me:{CANARY}@x/ch', 'http://me:{CANARY}@x/ch']\ndependencies: [[]]\n"),
        ("environment.yml", f"channels: []\ndependencies: ['http://me:{CANARY}@x/ch::leaf===']\n"),
        ("environment.yml", f"channels: []\ndependencies: [{{pip: ['http://me:{CANARY}@x/ch/leaf ; [']}}]\n"),
        ("cuenv.toml", f"mirrors = ['conda-forge=http://me:{CANARY}@x', 3]\n"),
        ("cuenv.toml", f"mirrors = ['ftp://me:{CANARY}@x']\n"),
        ("cuenv.toml", f"cache-dir = 'http://me:{CANARY}@x'\nmirror = 'http://me:{CANARY}@x'\n"),
    ],
)
def test_no_secret_comes_out_of_a_broken_input(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "environment.yml").write_text("channels: [conda-forge]\ndependencies: [leaf]\n")
    (tmp_path / name).write_text(text)
    for words in (("lock", *HOST, "--offline"), ("config", "--json"), ("lint", "environment.yml")):
        done = inside(*words, folder=tmp_path)
        assert CANARY not in done.stdout + done.stderr, (words, done.stdout, done.stderr)
        assert "this is a bug" not in done.stderr


UNAME = """
import os
_real = os.uname()
os.uname = lambda: os.uname_result((_real.sysname, "canaryhost.example.org", *_real[2:]))
"""


def test_a_redacted_report_and_a_record_name_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.uname()
    home = tmp_path / "home" / "canaryuser"
    site = home / "env/lib/python3.12/site-packages"
    meta = home / "env/conda-meta"
    (tmp_path / "patched").mkdir()
    (tmp_path / "patched/sitecustomize.py").write_text(UNAME)
    for folder in (site / "six-1.0.dist-info", site / "own-1.0.dist-info", meta, home / "env/bin", home / "lib"):
        folder.mkdir(parents=True)
    (site / "six-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: six\nVersion: 1.0\n")
    url = f"file://{home}/src/own"
    (site / "own-1.0.dist-info/direct_url.json").write_text(json.dumps({"url": url, "dir_info": {"editable": True}}))
    (site / "own-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: own\nVersion: 1.0\n")
    (site / "own-1.0.dist-info/RECORD").write_text(f"{home}/src/own/x.py,,\n../canaryuser/y,,\n")
    (site / "canaryuser.pth").write_text(f"{home}/src\n")
    (meta / "history").write_text("")
    (meta / "cut-1-0.json").write_text("")
    record = {"name": "p", "version": "1", "build": "0", "channel": f"file:///home/othercanary/{home}", "files": []}
    (meta / "p-1-0.json").write_text(json.dumps({**record, "url": f"file://{home}/pkgs/p-1-0.conda", "depends": []}))
    (home / "lib/libcudart.so.12").write_bytes(b"no ELF")
    surroundings: dict[str, Any] = {
        "HOME": str(home),
        "USER": "canaryuser",
        "LOGNAME": "canaryuser",
        "PYTHONPATH": str(tmp_path / "patched"),
        "LD_LIBRARY_PATH": f"{home}/lib:/home/othercanary/lib:/mnt/canaryhost/lib",
        "LD_PRELOAD": "",
        "CONDA_PREFIX": str(home / "env"),
        "CUDA_HOME": f"{home}/cuda",
    }
    (home / "work").mkdir()
    plain = run("check", "--prefix", home / "env", *HOST, "--json", "-v", folder=home / "work", **surroundings)
    assert "canaryuser" in plain.stdout
    monkeypatch.setattr(os, "uname", lambda: os.uname_result((real.sysname, "canaryhost.example.org", *real[2:])))
    for form in ("json", "text", "markdown", "github"):
        for prefix in (home / "env", Path("../env"), tmp_path / "nothing"):
            words = ("check", "--prefix", prefix, *HOST, "--redact", "-v", "--format", form)
            command = run if form == "json" else inside  # whole processes are slow
            done = command(*words, folder=home / "work", **surroundings)
            if prefix != tmp_path / "nothing":  # an error is told to whoever typed the path
                assert not named(done.stdout), (form, prefix, done.stdout)
    made = run("inspect", "--record", "record", folder=home / "work", **surroundings)
    assert made.returncode == 0, made.stderr
    texts = {
        path.name: path.read_text(errors="replace") for path in (home / "work/record").rglob("*") if path.is_file()
    }
    assert "host.json" in texts
    assert not {name: named(text) for name, text in texts.items() if named(text)}


def named(text: str) -> list[str]:
    """The places where a person or the machine is named."""
    marks = ("canary", socket.gethostname()) if len(socket.gethostname()) > 5 else ("canary",)
    return [text[max(0, at - 60) : at + 60] for mark in marks if (at := text.find(mark)) >= 0]
