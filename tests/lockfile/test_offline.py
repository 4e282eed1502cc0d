"""Offline: what was read once is enough for a whole line of commands, and without it the error says so."""

from __future__ import annotations

import json
from pathlib import Path

from channel_builder import pkg, serve, write
from commands import inside as run

FILE = "channels: [conda-forge]\ndependencies: [leaf]\n"


def test_a_lock_and_an_update_are_made_offline_from_the_cache(tmp_path: Path) -> None:
    write(tmp_path / "served", {"conda-forge": [pkg("leaf", depends=("base",)), pkg("base")]})
    (tmp_path / "environment.yml").write_text(FILE)
    host = ("--host", "rtx4090-535", "--json")
    with serve(tmp_path / "served") as server:
        mirror = ("--mirror", f"conda-forge={server.url}/conda-forge")
        nothing = run("lock", *host, *mirror, "--offline", folder=tmp_path)
        assert nothing.returncode == 3
        assert server.asked == []
        assert "offline" in json.loads(nothing.stdout)["error"]["message"]
        online = run("lock", *host, *mirror, folder=tmp_path)
        assert online.returncode == 0, online.stdout
        server.asked.clear()
        first = (tmp_path / "conda-lock.yml").read_bytes()
        for words in (("lock",), ("lock", "--update", "leaf")):
            again = run(*words, *host, *mirror, "--offline", folder=tmp_path)
            assert again.returncode == 0, again.stdout
            assert (tmp_path / "conda-lock.yml").read_bytes() == first
        assert server.asked == []
    gone = run("lock", *host, *mirror, "--offline", folder=tmp_path)
    assert gone.returncode == 0, gone.stdout
