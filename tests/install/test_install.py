"""The embedded installer: real packages of some hundred bytes, really installed; whole or not at all."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cases import collect
from channel_builder import pkg, request, serve, write
from cuenv.core.errors import ChannelError, HashError, InputError, OutsideError
from cuenv.demo.io.sample import write_sample
from cuenv.install.io.installer import install
from cuenv.prefix.io.conda_meta import read_conda_meta
from cuenv.solve.environment_spec import Pin
from cuenv.solve.io.solver import solve
from cuenv.solve.io.sources import Mirror, Sources
from cuenv.solve.model import LockedPackage, Solution

PACKAGES = [
    pkg("tool", depends=("library",), files={"bin/tool": "#!/bin/sh\necho works\n"}),
    pkg("library", constrains=("other <2",), files={"lib/data": "x\n"}),
]


def solution(sources: Sources, *pins: str | Pin) -> Solution:
    answer = solve(request(*(pins or ("tool",))), sources)
    assert isinstance(answer, Solution)
    return answer


def archive(folder: Path, name: str) -> Path:
    return folder / "conda-forge" / "linux-64" / f"{name}-1.0-0.tar.bz2"


def spoil(path: Path) -> None:
    """Change one byte in the middle."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_the_sample_is_solved_installed_and_read_back(tmp_path: Path) -> None:
    sources = Sources(mirrors=write_sample(tmp_path / "sample", "linux-64"), cache=str(tmp_path / "cache"))
    pins = (
        Pin(name="pytorch", version="2.12.0", build="cuda129*", channel="conda-forge"),
        Pin(name="cuda-nvcc", channel="conda-forge"),
        Pin(name="python", version="3.12"),
        Pin(name="pip"),
    )
    locked = solution(sources, *pins)
    prefix = tmp_path / "env"
    told: list[str] = []
    install(locked, prefix, sources, progress=told.append)
    assert read_conda_meta(prefix) == locked.packages
    count = len(locked.packages)
    assert told[0] == f"verifying 1 of {count} packages"
    assert told[count : count + 2] == [f"looking into {count} packages", f"installing {count} packages into {prefix}"]
    assert sorted(told[count + 2 :]) == sorted(
        f"installing {n} of {count} packages into {prefix}" for n in range(1, count + 1)
    )
    run = subprocess.run([prefix / "bin" / "nvcc"], capture_output=True, text=True, check=True)
    assert run.stdout == "Cuda compilation tools, release 12.9, V12.9.86\n"
    site = prefix / "lib" / "python3.12" / "site-packages"
    assert (site / "torch" / "version.py").read_text() == "__version__ = '2.12.0'\ncuda = '12.9'\n"
    assert (site / "pip-26.2.1.dist-info" / "METADATA").exists()
    assert (prefix / "conda-meta" / "history").exists()


def test_conda_meta_names_the_canonical_url(tmp_path: Path) -> None:
    sources = write(tmp_path, {"conda-forge": PACKAGES})
    install(solution(sources), tmp_path / "env", sources)
    for path in (tmp_path / "env" / "conda-meta").glob("*.json"):
        assert json.loads(path.read_text())["url"].startswith("https://conda.anaconda.org/conda-forge/linux-64/")


def test_one_changed_byte_and_nothing_is_made(tmp_path: Path) -> None:
    sources = write(tmp_path, {"conda-forge": PACKAGES})
    locked = solution(sources)
    spoil(archive(tmp_path, "library"))
    with pytest.raises(HashError, match="channel conda-forge: .*library-1.0-0.tar.bz2: its sha256 is [0-9a-f]{64}"):  # noqa: RUF043 - a dot is a dot
        install(locked, tmp_path / "env", sources)
    assert not (tmp_path / "env").exists()


def test_md5_is_checked_where_there_is_no_sha256(tmp_path: Path) -> None:
    sources = write(tmp_path, {"conda-forge": PACKAGES}, hashes=["md5"])
    locked = solution(sources)
    spoil(archive(tmp_path, "tool"))
    with pytest.raises(HashError, match="its md5 is"):
        install(locked, tmp_path / "env", sources)


def test_a_missing_archive_is_named(tmp_path: Path) -> None:
    sources = write(tmp_path, {"conda-forge": PACKAGES})
    locked = solution(sources)
    archive(tmp_path, "tool").unlink()
    with pytest.raises(ChannelError, match=r"tool-1\.0-0\.tar\.bz2: No such file or directory"):
        install(locked, tmp_path / "env", sources)
    assert not (tmp_path / "env").exists()


def test_what_unpacks_to_nothing_leaves_nothing(tmp_path: Path) -> None:
    sources = write(tmp_path, {"conda-forge": PACKAGES})
    locked = solution(sources)
    path = archive(tmp_path, "tool")
    path.write_bytes(b"this is no archive")
    import hashlib

    lying = replace(locked.packages[1], sha256=hashlib.sha256(path.read_bytes()).hexdigest(), md5=None)
    (tmp_path / "env").mkdir()
    with pytest.raises(InputError, match=r"tool-1\.0-0\.tar\.bz2 is refused: .*bzip2: bz2 header missing"):
        install(replace(locked, packages=(locked.packages[0], lying)), tmp_path / "env", sources)
    assert list((tmp_path / "env").iterdir()) == []


def test_a_package_that_is_invalid_is_bad_input(tmp_path: Path) -> None:
    sources = write(tmp_path, {"conda-forge": PACKAGES})
    locked = solution(sources)
    strange = replace(locked.packages[0], name="no name\x1b")
    with pytest.raises(InputError, match=r"no name\\x1b 1\.0 0 .* is not a package"):
        install(replace(locked, packages=(strange,)), tmp_path / "env", sources)


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    sources = write(tmp_path, {"conda-forge": PACKAGES})
    prefix = tmp_path / "env"
    prefix.mkdir()
    (prefix / "thesis.tex").write_text("mine")
    with pytest.raises(InputError, match="is not empty") as caught:
        install(solution(sources), prefix, sources)
    assert caught.value.hint == "name another folder"
    assert sorted(path.name for path in prefix.iterdir()) == ["thesis.tex"]
    with pytest.raises(InputError, match="exists but is not a folder"):
        install(solution(sources), prefix / "thesis.tex", sources)
    (prefix / "conda-meta").mkdir()
    with pytest.raises(InputError, match="is not empty") as caught:
        install(solution(sources), prefix, sources)
    assert caught.value.hint == f"name another folder, or remove this environment first: rm -r {prefix}"


def test_a_second_run_does_nothing_and_another_lock_is_refused(tmp_path: Path) -> None:
    sources = write(tmp_path, {"conda-forge": PACKAGES})
    prefix = tmp_path / "env"
    install(solution(sources), prefix, sources)
    (prefix / "added").touch()
    told: list[str] = []
    install(solution(sources), prefix, sources, progress=told.append)
    assert told == []
    assert (prefix / "added").exists()
    with pytest.raises(InputError, match="is not empty"):
        install(solution(sources, "library"), prefix, sources)


def test_what_an_interrupted_run_left_is_cleared_away(tmp_path: Path) -> None:
    sources = write(tmp_path, {"conda-forge": PACKAGES})
    prefix = tmp_path / "env"
    (prefix / "lib").mkdir(parents=True)
    (prefix / "lib" / "half").touch()
    (prefix / ".cuenv-unfinished").touch()
    install(solution(sources), prefix, sources)
    assert sorted(path.name for path in prefix.iterdir()) == ["CACHEDIR.TAG", "bin", "conda-meta", "lib"]
    assert not (prefix / "lib" / "half").exists()


@pytest.mark.parametrize("kind", ["link", "file"])
def test_what_stands_where_an_environment_is_put_aside_costs_no_environment(tmp_path: Path, kind: str) -> None:
    sources = write(tmp_path, {"conda-forge": PACKAGES})
    prefix = tmp_path / "env"
    install(solution(sources), prefix, sources)
    (prefix / "checkpoint").write_text("mine")
    aside, elsewhere = tmp_path / ".env.cuenv-old", tmp_path / "elsewhere"
    elsewhere.mkdir()
    if kind == "link":
        aside.symlink_to(elsewhere)
    else:
        aside.touch()
    with pytest.raises(OutsideError, match=r"\.env\.cuenv-old is in the way") as caught:
        install(solution(sources, "library"), prefix, sources, replacing=True)
    assert caught.value.hint == f"rm -r {aside}"
    assert not prefix.is_symlink()
    assert (prefix / "checkpoint").read_text() == "mine"
    assert (prefix / "bin" / "tool").exists()
    aside.unlink()
    assert install(solution(sources, "library"), prefix, sources, replacing=True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may remove everything")
def test_what_cannot_be_cleared_away_of_an_older_environment_costs_no_environment(tmp_path: Path) -> None:
    sources = write(tmp_path, {"conda-forge": PACKAGES})
    prefix, aside = tmp_path / "env", tmp_path / ".env.cuenv-old"
    install(solution(sources), prefix, sources)
    (aside / "lib").mkdir(parents=True)
    (aside / "lib" / ".nfs0001").touch()  # so NFS keeps a file that a program still has open
    (aside / "lib").chmod(0o500)
    try:
        with pytest.raises(OutsideError, match="is in the way"):
            install(solution(sources, "library"), prefix, sources, replacing=True)
        assert (prefix / "bin" / "tool").exists()
    finally:
        (aside / "lib").chmod(0o700)


def test_ctrl_c_while_installing_leaves_nothing(tmp_path: Path) -> None:
    """A server that never sends the package keeps the installer waiting until the signal comes."""
    sources = write(tmp_path / "served", {"conda-forge": PACKAGES})
    locked = solution(sources)
    script = tmp_path / "run.py"
    script.write_text(
        "import os, pickle, sys\nfrom pathlib import Path\nfrom cuenv.install.io.installer import install\n"
        "solution, prefix, sources = pickle.loads(Path(sys.argv[1]).read_bytes())\n"
        "try:\n    install(solution, prefix, sources)\nexcept KeyboardInterrupt:\n    os._exit(130)\nos._exit(1)\n"
    )
    import pickle

    with serve(tmp_path / "served") as server:
        prefix = tmp_path / "env"
        target = Mirror(origin="https://conda.anaconda.org", target=server.url)
        state = (locked, prefix, Sources(mirrors=(target,), cache=str(tmp_path / "cache")))
        (tmp_path / "state").write_bytes(pickle.dumps(state))
        child = subprocess.Popen([sys.executable, script, tmp_path / "state"])

        def interrupt(path: str) -> tuple[int, bytes] | None:
            if "library" in path and child.poll() is None:
                os.kill(child.pid, signal.SIGINT)
                child.wait(timeout=20)
            return None

        server.answer = interrupt
        assert child.wait(timeout=30) == 130
    assert not prefix.exists()


def test_over_http_rattler_checks_the_hash_and_nothing_is_left(tmp_path: Path) -> None:
    locked = solution(write(tmp_path / "served", {"conda-forge": PACKAGES}))
    with serve(tmp_path / "served") as server:
        target = Mirror(origin="https://conda.anaconda.org", target=server.url.replace("://", "://me:secret@"))
        sources = Sources(mirrors=(target,), cache=str(tmp_path / "cache"), retries=0)
        install(locked, tmp_path / "env", sources)
        assert read_conda_meta(tmp_path / "env") == locked.packages
        assert {login for _, login in server.asked} == {"me:secret"}
        changed = pkg("tool", depends=("library",), files={"bin/tool": "#!/bin/sh\necho evil\n"})
        write(tmp_path / "served", {"conda-forge": [PACKAGES[1], changed]})
        again = replace(sources, cache=str(tmp_path / "cache2"))
        with pytest.raises(HashError, match="tool"):
            install(locked, tmp_path / "env2", again)
        assert not (tmp_path / "env2").exists()
        archive(tmp_path / "served", "tool").unlink()
        with pytest.raises(ChannelError, match="404") as caught:
            install(locked, tmp_path / "env2", replace(sources, cache=str(tmp_path / "cache3")))
        assert "secret" not in caught.value.message
        assert not (tmp_path / "env2").exists()


def test_a_prefix_that_cannot_be_made(tmp_path: Path) -> None:
    sources = write(tmp_path, {"conda-forge": PACKAGES})
    (tmp_path / "file").touch()
    with pytest.raises(OutsideError, match="file: something else has this name"):
        install(solution(sources), tmp_path / "file" / "env", sources)


CONDA = {
    "name": "a",
    "version": "1.0",
    "build": "0",
    "subdir": "linux-64",
    "channel": "https://conda.anaconda.org/conda-forge/linux-64",
    "url": "https://u:p@conda.anaconda.org/t/tk/conda-forge/linux-64/a-1.0-0.conda",
    "fn": "a-1.0-0.conda",
    "md5": "0" * 32,
    "depends": ["b"],
    "files": [],
    "auth": None,
}


def prefix_with(folder: Path, record: object) -> Path:
    (folder / "conda-meta").mkdir()
    text = record if isinstance(record, str) else json.dumps(record)
    (folder / "conda-meta" / "a-1.0-0.json").write_text(text)
    return folder


@collect(
    "more",
    [{}, {"channel": "conda-forge"}, {"url": None}, {"url": None, "channel": "conda-forge"}, {"subdir": None}],
)
def test_records_as_conda_writes_them(tmp_path: Path, more: dict[str, object]) -> None:
    (found,) = read_conda_meta(prefix_with(tmp_path, CONDA | more))
    assert found == LockedPackage(
        name="a",
        version="1.0",
        build="0",
        subdir="linux-64",
        channel="https://conda.anaconda.org/conda-forge",
        url="https://conda.anaconda.org/conda-forge/linux-64/a-1.0-0.conda",
        md5="0" * 32,
        sha256=None,
        depends=("b",),
    )


@collect(
    ("record", "words"),
    [
        ("", "invalid JSON"),
        ("[" * 100_000, "invalid JSON"),
        ("[]", "expected a mapping"),
        ({"name": 3}, "name: expected a string, got 3"),
        (CONDA | {"depends": "b"}, "depends: expected a list, got 'b'"),
        (CONDA | {"size": "big"}, "size: expected a whole number"),
    ],
)
def test_a_broken_record_is_named(tmp_path: Path, record: object, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        read_conda_meta(prefix_with(tmp_path, record))
    assert str(tmp_path / "conda-meta" / "a-1.0-0.json") in caught.value.message


def test_a_folder_that_is_not_an_environment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a conda environment"):
        read_conda_meta(tmp_path)
