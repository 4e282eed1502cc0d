"""Nothing of somebody else's is lost: files that would be replaced, and builds that would be taken silently."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import collect
from commands import HOST
from commands import inside as run
from cuenv.core.errors import OutsideError
from cuenv.core.io.products import add_digest, is_unedited, keep_aside, write_over, write_product
from cuenv.demo.io.sample import write_sample

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
    assert write_product(file, f"{OWN} 0.1\nname: x\n", OWN) is None
    assert write_product(file, f"{OWN} 0.2\nname: y\n", OWN) is None
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_of_ours_without_a_digest_may_have_been_edited(tmp_path: Path) -> None:
    file = tmp_path / "environment.yml"
    file.write_text(f"{OWN} 0.0.9\nname: x\n")
    assert write_product(file, f"{OWN} 0.1\nname: y\n", OWN) == tmp_path / "environment.yml.bak"
    file.write_text(f"{OWN} 0.1\nname: y\n")  # as `cuenv resolve > environment.yml` writes it
    assert write_product(file, f"{OWN} 0.1\nname: y\n", OWN) is None


@pytest.mark.parametrize(
    "words",
    [("resolve", *HOST, "-o", "here/environment.yml"), ("export", "dockerfile", *HOST, "-o", "here")],
    ids=lambda words: words[0],
)
def test_what_was_edited_by_hand_is_kept_each_time(tmp_path: Path, words: tuple[str, ...]) -> None:
    first = run(*words, folder=tmp_path)
    assert first.returncode == 0, first.stderr
    (file, *_) = sorted((tmp_path / "here").glob("[!.]*"))
    written = file.read_text()
    assert "kept    " not in run(*words, folder=tmp_path).stderr
    for number, name in enumerate((f"{file.name}.bak", f"{file.name}.bak.1", f"{file.name}.bak.2")):
        edited = f"{file.read_text()}# mine {number}\n"
        file.write_text(edited)
        done = run(*words, folder=tmp_path)
        assert f"here/{name}" in done.stderr
        assert file.read_text() == written
        assert file.with_name(name).read_text() == edited
    assert "FILE.bak" in written
    assert words[0] != "resolve" or "--with" in written


def test_a_copy_goes_through_no_link(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious\n")
    (tmp_path / "environment.yml").write_text("name: theirs\n")
    (tmp_path / "environment.yml.bak").symlink_to("mine")
    (tmp_path / "environment.yml.bak.1").symlink_to("nowhere")
    assert run("resolve", *HOST, "-o", "environment.yml", folder=tmp_path).returncode == 0
    assert (tmp_path / "mine").read_text() == "precious\n"
    assert (tmp_path / "environment.yml.bak.2").read_text() == "name: theirs\n"


@given(
    st.lists(st.sampled_from(["# a", "#", "name: x", "", "- é", "# b sha256"]), max_size=6), st.integers(0), st.binary()
)
def test_any_edit_is_seen(lines: list[str], place: int, put: bytes) -> None:
    text = add_digest("".join(f"{line}\n" for line in [f"{OWN} 0.1", *lines]), "How to change it.")
    raw = text.encode()
    assert is_unedited(raw, OWN)
    place %= len(raw)
    edited = raw[:place] + put + raw[place:]
    assert is_unedited(edited, OWN) is (edited == raw)
    assert is_unedited(raw[:place] + raw[place + 1 :], OWN) is False


@collect(
    "words",
    [
        ("resolve", *HOST, "-o", "new/folder/environment.yml"),
        ("export", "dockerfile", *HOST, "-o", "new/folder"),
        ("profile", "new", "lab", "-o", "new/folder/lab.yml"),
    ],
)
def test_a_folder_that_is_not_there_is_made(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = run(*words, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "new/folder").iterdir())


def test_no_folder_is_made_when_there_is_nothing_to_write(tmp_path: Path) -> None:
    assert run("resolve", "--gpu", "8.9", "--driver", "390.1", "-o", "new/x.yml", folder=tmp_path).returncode == 1
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_leaves_no_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "environment.yml"
    file.write_text("name: theirs\n", encoding="utf-8")
    file.chmod(0o444)
    if os.geteuid() == 0:  # root writes everywhere: let it be told what anybody else is
        monkeypatch.setattr(os, "access", lambda _, __: False)
    for _ in range(2):
        with pytest.raises(OutsideError, match="cannot write"):
            write_product(file, f"{OWN} 0.1\nname: x\n", OWN)
        with pytest.raises(OutsideError, match="cannot write"):
            write_over({tmp_path / "new": OWN, file: f"{OWN} 0.1\n"}, (OWN,))
    assert list(tmp_path.iterdir()) == [file]
    assert file.read_text(encoding="utf-8") == "name: theirs\n"


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


def test_locks_of_other_programs_are_kept_aside(tmp_path: Path) -> None:
    from channel_builder import pkg, write

    write(tmp_path / "channel", {"conda-forge": [pkg("leaf")]})
    (tmp_path / "environment.yml").write_text("channels: [conda-forge]\ndependencies: [leaf]\n")
    names = ("conda-linux-64.lock", "conda-linux-64.lock.yml", "conda-lock.yml")
    (tmp_path / names[0]).write_text("# Generated by conda-lock.\n@EXPLICIT\n")
    (tmp_path / names[1]).write_text("name: theirs\n")
    words = ("lock", *HOST, "--mirror", f"conda-forge={tmp_path / 'channel/conda-forge'}")
    done = run(*words, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / f"{names[0]}.bak").read_text() == "# Generated by conda-lock.\n@EXPLICIT\n"
    assert (tmp_path / f"{names[1]}.bak").read_text() == "name: theirs\n"
    assert f"kept    the old {names[0]} as {names[0]}.bak" in done.stderr + done.stdout
    assert all(
        (tmp_path / name).read_text().startswith(("# Written by cuenv", "# A lock written by")) for name in names
    )
    assert "kept    " not in run(*words, folder=tmp_path).stderr
    assert len(list(tmp_path.glob("*.bak*"))) == 2
