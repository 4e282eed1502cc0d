"""Nothing of somebody else's is lost: files that would be replaced, and builds that would be taken silently."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import HOST
from commands import inside as run
from cuenv.errors import OutsideError
from cuenv.world.files import keep_aside
from cuenv.world.sample import write_sample

OWN = "# Written by cuenv"


def test_a_file_of_somebody_else_is_kept_aside(tmp_path: Path) -> None:
    file = tmp_path / "environment.yml"
    file.write_text("name: theirs\n", encoding="utf-8")
    done = run("resolve", *HOST, "-o", file, folder=tmp_path)
    assert done.returncode == 0
    assert file.read_text(encoding="utf-8").startswith(OWN)
    assert (tmp_path / "environment.yml.bak").read_text(encoding="utf-8") == "name: theirs\n"
    assert "environment.yml.bak" in done.stderr


def test_a_file_of_ours_needs_no_copy(tmp_path: Path) -> None:
    file = tmp_path / "environment.yml"
    assert keep_aside(file, OWN) is None
    file.write_text(f"{OWN} 0.1\n", encoding="utf-8")
    assert keep_aside(file, OWN) is None
    assert list(tmp_path.iterdir()) == [file]


def test_what_is_no_regular_file_is_never_replaced(tmp_path: Path) -> None:
    with pytest.raises(OutsideError, match="regular"):
        keep_aside(tmp_path, OWN)
    with pytest.raises(OutsideError, match="regular"):
        keep_aside(Path("/dev/null"), OWN)


def _lock(tmp_path: Path, dependencies: str, *words: str) -> tuple[int, str]:
    mirrors = write_sample(tmp_path / "channels", "linux-64")
    places = [word for mirror in mirrors for word in ("--mirror", f"{mirror.origin}={mirror.target}")]
    file = tmp_path / "environment.yml"
    file.write_text(f"name: x\nchannels: [conda-forge]\ndependencies:\n{dependencies}", encoding="utf-8")
    done = run("lock", file, *places, *words, folder=tmp_path)
    return done.returncode, done.stderr


def test_a_torch_without_guard_is_warned_about(tmp_path: Path) -> None:
    code, said = _lock(tmp_path, "  - python=3.12\n  - pytorch=2.12.0\n", *HOST)
    assert code == 0
    assert "CU104" in said


def test_a_second_torch_from_pip_is_refused(tmp_path: Path) -> None:
    text = "  - python=3.12\n  - conda-forge::pytorch=2.12.0=cuda129*\n  - pip\n  - pip: [Torch==2.7.0]\n"
    code, said = _lock(tmp_path, text, *HOST)
    assert code == 1
    assert "CU502" in said
    assert not (tmp_path / "conda-lock.yml").exists()


def test_a_cpu_torch_that_nobody_asked_for_is_refused_on_a_gpu_host(tmp_path: Path, records: Path) -> None:
    file = tmp_path / "environment.yml"
    file.write_text("name: x\nchannels: [conda-forge]\ndependencies: [python, pytorch]\n", encoding="utf-8")
    mirror = ("--mirror", f"conda-forge={records / 'conda-forge'}")
    old = run("lock", file, *mirror, "--gpu", "A800", "--driver", "470.129.06", "--glibc", "2.31", folder=tmp_path)
    assert old.returncode == 1
    assert "CU103" in old.stderr
    assert not (tmp_path / "conda-lock.yml").exists()
    file.write_text("name: x\nchannels: [conda-forge]\ndependencies: [python, pytorch=*=cpu*]\n", encoding="utf-8")
    asked = run("lock", file, *mirror, "--gpu", "A800", "--driver", "470.129.06", "--glibc", "2.31", folder=tmp_path)
    assert asked.returncode == 0, asked.stderr
