"""``cuenv export pixi`` and ``cuenv lock --format pixi``: a manifest and a lock that pixi takes as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rattler import LockFile

from cases import collect
from channel_builder import pkg, write
from commands import inside as run
from cuenv.core.io.files import load_toml
from cuenv.export.pixi import PixiPart, PixiProject
from cuenv.export.pixi import manifest as render
from cuenv.host.facts import VirtualPackage
from cuenv.lockfile.files import read_lock
from cuenv.lockfile.formats import LockPart
from cuenv.prefix.io.conda_meta import read_conda_meta
from cuenv.solve.environment_spec import EnvironmentSpec
from cuenv.solve.io.pip import indexes
from cuenv.solve.model import Solution
from cuenv.solve.pip_lines import PipOptions
from given import base
from pip_index import index, variables, wheel
from pixi_laws import broken

FORGE = "https://conda.anaconda.org/conda-forge"
TWO = ("--gpu", "V100", "--gpu", "RTX 4090", "--driver", "535.129.03", "--glibc", "2.35", "--platform", "linux-64")
ASKED = """\
name: train
channels: [conda-forge]
dependencies:
  - python=3.12
  - pytorch=2.7.1=cuda129*
  - cuda-version=12.9
  - libcudnn<9.11
  - numpy
variables: {TOKENIZERS_PARALLELISM: "false"}
"""
NEEDS = ("__glibc >=2.28,<3.0.a0", "python >=3.12,<3.13.0a0", "numpy >=1.23,<3")
PACKAGES = (
    pkg("python", "3.12.7", "h99_0_cpython", depends=("__glibc >=2.17,<3.0.a0",)),
    pkg("numpy", "2.1.0", "py312h0_0", depends=("python >=3.12,<3.13.0a0",)),
    pkg("pytorch", "2.7.1", "cuda129_py312_h1_300", depends=(*NEEDS, "__cuda", "cuda-version >=12.9,<13", "libcudnn")),
    pkg("pytorch", "2.7.1", "cpu_py312_h2_0", depends=NEEDS),
    pkg("cuda-version", "12.9", "h3_0", subdir="noarch", constrains=("__cuda >=12",)),
    pkg("libcudnn", "9.10.2.21", "h4_0", depends=("cuda-version >=12,<13",)),
    pkg("libcudnn", "9.12.0", "h4_0", depends=("cuda-version >=12,<13",)),
    pkg("pip", "25.0", "pyh1_0", subdir="noarch", depends=("python >=3.9",), noarch="python"),
    pkg("_openmp_mutex", "4.5", "20_gnu"),
)


@pytest.fixture(scope="module")
def mirrors(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    folder = tmp_path_factory.mktemp("channel")
    write(folder, {"conda-forge": PACKAGES, "nvidia": []})
    return tuple(word for name in ("conda-forge", "nvidia") for word in ("--mirror", f"{name}={folder / name}"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, mirrors: tuple[str, ...]) -> Path:
    """The files of an environment for two GPUs."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "environment.yml").write_text(ASKED)
    done = run("export", "pixi", "environment.yml", *TWO, *mirrors, "-o", ".", folder=folder)
    assert done.returncode == 0, done.stderr
    return folder


def manifest(folder: Path) -> dict[str, Any]:
    return load_toml((folder / "pixi.toml").read_text())


def test_the_platform_is_the_least_of_the_gpus_and_the_twin_has_no_cuda(made: Path) -> None:
    found = manifest(made)
    assert found["workspace"]["requires-pixi"] == ">=0.71"
    assert found["workspace"]["channels"] == [FORGE]
    cuda, cpu = found["workspace"]["platforms"]
    assert cuda == {
        "name": "linux-64-cuda",
        "platform": "linux-64",
        "cuda": {"driver": "12.2", "arch": "7.0"},
        "glibc": "2.28",
    }
    assert cpu == {"name": "linux-64-cpu", "platform": "linux-64", "glibc": "2.28"}
    assert found["environments"] == {"default": ["cuda"], "cpu": ["cpu"]}
    assert set(found["dependencies"]) == {"python", "numpy"}
    assert found["feature"]["cuda"]["dependencies"] == {
        "pytorch": {"version": "==2.7.1", "build": "cuda129*"},
        "cuda-version": "12.9.*",
        "libcudnn": "<9.11",
    }
    assert found["feature"]["cpu"]["dependencies"] == {"pytorch": {"version": "==2.7.1", "build": "*cpu*"}}
    assert found["activation"]["env"] == {"TOKENIZERS_PARALLELISM": "false"}
    assert set(found["tasks"]) == {"versions"}
    assert set(found["feature"]["cuda"]["tasks"]) == {"gpu"}
    head = (made / "pixi.toml").read_text().split("\n\n")[0]
    assert "CONDA_OVERRIDE_CUDA=12.2 CONDA_OVERRIDE_CUDA_ARCH=7.0 pixi install --locked" in head


def test_pixi_takes_the_lock_as_it_is(made: Path) -> None:
    assert broken(made) == []


def test_rattler_reads_the_lock_and_writes_the_same_bytes(made: Path, tmp_path: Path) -> None:
    lock = LockFile.from_path(made / "pixi.lock")
    default = lock.environment("default")
    assert default
    (place,) = default.platforms()
    assert (place.name, place.virtual_packages) == ("linux-64-cuda", ["__cuda=12.2", "__cuda_arch=7.0", "__glibc=2.28"])
    records = default.conda_repodata_records_for_platform(place) or []
    assert sorted(record.name.normalized for record in records) == [
        "cuda-version",
        "libcudnn",
        "numpy",
        "python",
        "pytorch",
    ]
    assert all(record.sha256 and record.md5 for record in records)
    lock.to_path(tmp_path / "pixi.lock")
    text = (made / "pixi.lock").read_text()
    assert (tmp_path / "pixi.lock").read_text() == text[text.index("version: 7") :]


@pytest.mark.parametrize(("environment", "build"), [("", "cuda129_py312_h1_300"), ("cpu", "cpu_py312_h2_0")])
def test_install_takes_an_environment_of_it(
    made: Path, mirrors: tuple[str, ...], tmp_path: Path, environment: str, build: str
) -> None:
    named = ("--environment", environment) if environment else ()
    done = run("install", made / "pixi.lock", *named, *mirrors, "-p", "env", "--platform", "linux-64", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    there = {item.name: item.build for item in read_conda_meta(tmp_path / "env")}
    assert there["pytorch"] == build
    assert ("libcudnn" in there) is (not environment)


def test_install_refuses_what_has_no_hash_and_options_of_another_lock(
    made: Path, mirrors: tuple[str, ...], tmp_path: Path
) -> None:
    text = (made / "pixi.lock").read_text()
    lines = [line for line in text.splitlines() if "sha256:" not in line and "md5:" not in line]
    (tmp_path / "pixi.lock").write_text("\n".join(lines) + "\n")
    done = run("install", "pixi.lock", *mirrors, "-p", "env", "--platform", "linux-64", folder=tmp_path)
    assert done.returncode == 1
    assert "CU105" in done.stderr + done.stdout
    built = text.replace("      linux-64-cuda:\n", "      linux-64-cuda:\n      - conda_source: mine[1234abcd] @ .\n")
    (tmp_path / "pixi.lock").write_text(built)
    done = run("install", "pixi.lock", *mirrors, "-p", "env", "--platform", "linux-64", folder=tmp_path)
    assert done.returncode == 1
    assert "cuenv installs only files with a hash" in done.stderr + done.stdout
    assert not (tmp_path / "env").exists()
    (tmp_path / "conda-linux-64.lock").write_text("@EXPLICIT\n")
    done = run("install", "conda-linux-64.lock", "--environment", "cpu", "-p", "env", folder=tmp_path)
    assert done.returncode == 2
    assert "--environment has no effect" in done.stderr
    done = run("install", made / "pixi.lock", "--environment", "gpu", "-p", "env", folder=tmp_path)
    assert done.returncode == 2
    assert "no environment 'gpu'; it has cpu, default" in done.stderr


def test_lint_diff_and_check_read_it(made: Path, tmp_path: Path) -> None:
    for name in ("pixi.toml", "pixi.lock"):
        (tmp_path / name).write_bytes((made / name).read_bytes())
    done = run("lint", folder=tmp_path)
    assert done.returncode == 0, done.stdout
    done = run("lint", "pixi.lock", folder=tmp_path)
    assert done.returncode == 0, done.stdout
    done = run("diff", made / "pixi.lock", "pixi.lock", folder=tmp_path)
    assert done.returncode == 0, done.stdout
    done = run("check", "pixi.lock", "--gpu", "V100", "--driver", "535.129.03", folder=tmp_path)
    assert done.returncode == 0, done.stdout
    done = run("check", "pixi.lock", "--gpu", "V100", "--driver", "470.129.06", folder=tmp_path)
    assert done.returncode == 1, done.stdout
    assert "CU401" in done.stdout
    (tmp_path / "pixi.lock").write_text(
        (made / "pixi.lock").read_text().replace("cuda129_py312_h1_300", "cuda118_py312_h1_300")
    )
    done = run("diff", made / "pixi.lock", "pixi.lock", folder=tmp_path)
    assert done.returncode == 1
    assert "pytorch" in done.stdout


LAWS = (
    ("ChannelsMismatch", f"url: {FORGE}/", "url: https://conda.anaconda.org/bioconda/"),
    ("PlatformDefinitionChanged", "__cuda_arch=7.0", "__cuda_arch=8.0"),
    ("TooManyCondaPackages", "  - libcudnn\n", ""),
    ("SourcePackageMissing", "  - libcudnn\n", "  - libcudnn\n  - absent\n"),
    ("UnsatisfiableMatchSpec", "__glibc >=2.28,", "__glibc >=2.39,"),
    ("MissingPurls", "  purls: []\n", ""),
)


@collect("law,old,new", LAWS)
def test_each_law_notices_what_breaks_it(made: Path, tmp_path: Path, law: str, old: str, new: str) -> None:
    text, asked = (made / "pixi.lock").read_text(), (made / "pixi.toml").read_text()
    assert old in text
    (tmp_path / "pixi.toml").write_text(asked.replace('libcudnn = "<9.11"\n', ""))  # torch alone leads to it
    (tmp_path / "pixi.lock").write_text(text)
    assert broken(tmp_path) == []
    (tmp_path / "pixi.lock").write_text(text.replace(old, new))
    assert any(law in item for item in broken(tmp_path)), broken(tmp_path)


def test_a_second_run_writes_the_same_bytes_and_keeps_what_was_edited(
    made: Path, mirrors: tuple[str, ...], tmp_path: Path
) -> None:
    before = {name: (made / name).read_bytes() for name in ("pixi.toml", "pixi.lock")}
    for name, data in before.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "environment.yml").write_text(ASKED)
    again = run("export", "pixi", "environment.yml", *TWO, *mirrors, "-o", ".", folder=tmp_path)
    assert again.returncode == 0
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    assert not [*tmp_path.glob("*.bak")]
    (tmp_path / "pixi.toml").write_bytes(before["pixi.toml"] + b"# mine\n")
    run("export", "pixi", "environment.yml", *TWO, *mirrors, "-o", ".", folder=tmp_path)
    assert (tmp_path / "pixi.toml.bak").read_bytes().endswith(b"# mine\n")
    assert (tmp_path / "pixi.toml").read_bytes() == before["pixi.toml"]


def test_version_6_knows_subdirs_alone(mirrors: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "environment.yml").write_text(ASKED)
    run("export", "pixi", *TWO, *mirrors, "--lock-version", "6", "-o", "out", folder=tmp_path)
    text = (tmp_path / "out" / "pixi.lock").read_text()
    assert "\nversion: 6\n" in text
    assert "\nplatforms:" not in text
    lock = LockFile.from_path(tmp_path / "out" / "pixi.lock")
    for name, count in (("default", 5), ("cpu", 3)):
        environment = lock.environment(name)
        assert environment
        (place,) = environment.platforms()
        assert place.name == "linux-64"
        assert len(environment.conda_repodata_records_for_platform(place) or []) == count


def test_lock_writes_the_same_beside_the_file(made: Path, mirrors: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "environment.yml").write_text(ASKED)
    done = run("lock", "--format", "pixi", *TWO, *mirrors, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} >= {"pixi.toml", "pixi.lock"}
    assert not (tmp_path / "conda-lock.yml").exists()
    assert "\n  pixi install --locked\n" in done.stderr
    assert (tmp_path / "pixi.lock").read_bytes() == (made / "pixi.lock").read_bytes()
    plain = run("lock", "--format", "pixi", "--json", *TWO, *mirrors, folder=tmp_path)
    assert json.loads(plain.stdout)["written"] == ["pixi.toml", "pixi.lock"]


def test_json_has_both_files_and_what_each_platform_asks(mirrors: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "environment.yml").write_text(ASKED)
    data = json.loads(run("export", "pixi", "--json", *TWO, *mirrors, folder=tmp_path).stdout)
    assert set(data["files"]) == {"pixi.toml", "pixi.lock"}
    assert [(item["name"], item["platform"], item["packages"]) for item in data["environments"]] == [
        ("default", "linux-64-cuda", 5),
        ("cpu", "linux-64-cpu", 3),
    ]
    assert data["environments"][0]["virtual_packages"] == ["__cuda=12.2", "__cuda_arch=7.0", "__glibc=2.28"]


def test_a_twin_that_the_channels_do_not_have_is_left_out_with_the_reason(tmp_path: Path) -> None:
    write(tmp_path / "channel", {"conda-forge": [item for item in PACKAGES if not item.build.startswith("cpu")]})
    (tmp_path / "environment.yml").write_text(ASKED)
    mirror = ("--mirror", f"conda-forge={tmp_path / 'channel' / 'conda-forge'}")
    done = run("export", "pixi", *TWO, *mirror, "-o", ".", folder=tmp_path)
    assert done.returncode == 0
    assert "no environment cpu for machines without a GPU" in done.stderr
    assert "pytorch=2.7.1=*cpu*" in done.stderr
    found = manifest(tmp_path)
    assert "feature" not in found
    assert "pytorch" in found["dependencies"]
    assert set(found["tasks"]) == {"versions", "gpu"}
    assert broken(tmp_path) == []


def test_the_pip_part_has_its_index_its_hashes_and_what_conda_brings(mirrors: tuple[str, ...], tmp_path: Path) -> None:
    files = tmp_path / "files"
    wheel(files, "einops", "0.8.0")
    wheel(files, "accelerate", "1.2.0", "torch>=2.0", "numpy>=1.17", "einops", "absent; python_version<'3'")
    asked = f"{ASKED}".replace(
        "variables", "  - pip\n  - pip: ['accelerate>=1', 'numpy', 'left; sys_platform==\"win32\"']\nvariables"
    )
    (tmp_path / "environment.yml").write_text(asked)
    with index(files) as server:
        done = run(
            "export", "pixi", *TWO, *mirrors, "-o", ".", folder=tmp_path, **variables(tmp_path / "home", server.url)
        )
        assert done.returncode == 0, done.stderr
        found = manifest(tmp_path)
        assert found["pypi-options"] == {"index-url": f"{server.url}/simple"}
        assert found["pypi-dependencies"] == {"accelerate": ">=1", "numpy": "*"}
        assert broken(tmp_path) == []
        text = (tmp_path / "pixi.lock").read_text()
        assert "pkg:pypi/torch@2.7.1" in text
        assert "pkg:pypi/numpy@2.1.0" in text
        assert f"  index: {server.url}/simple\n" in text
        lock = read_lock(tmp_path / "pixi.lock", LockPart())
        assert [(item.name, bool(item.sha256)) for item in lock.solutions[0].pip] == [
            ("accelerate", True),
            ("einops", True),
        ]
        (tmp_path / "pixi.lock").write_text(text.replace(f"indexes:\n    - {server.url}/simple", "indexes: []"))
        assert any("IndexesMismatch" in item for item in broken(tmp_path))


def test_the_indexes_are_those_that_uv_asks_without_logins(tmp_path: Path) -> None:
    (usual,) = indexes(PipOptions(), variables(tmp_path))
    assert usual.startswith("https://")
    assert usual.endswith("/simple")
    mine = {"UV_DEFAULT_INDEX": "https://me:secret@a.example/simple/", "UV_INDEX": "https://b.example/x"}
    assert indexes(PipOptions(), variables(tmp_path, **mine)) == ("https://a.example/simple", "https://b.example/x")
    asked = PipOptions(index="https://c.example/simple", extra=("https://d.example/y",))
    assert indexes(asked, variables(tmp_path)) == ("https://c.example/simple", "https://d.example/y")


def test_torch_from_pip_has_no_twin_and_names_both_indexes(mirrors: tuple[str, ...], tmp_path: Path) -> None:
    wheel(tmp_path / "files", "torch", "2.14.1+cu126", "einops", tag="cp312-cp312-manylinux_2_28_x86_64")
    wheel(tmp_path / "plain", "einops", "0.8.0")
    with index(tmp_path / "files") as torch, index(tmp_path / "plain") as plain:
        (tmp_path / "environment.yml").write_text(
            "name: wheels\nchannels: [conda-forge]\ndependencies:\n  - python=3.12\n  - pip\n  - pip:\n"
            f"    - --extra-index-url {torch.url}/simple\n    - torch==2.14.1+cu126\n"
        )
        home = variables(tmp_path / "home", plain.url)
        words = ("--gpu", "GTX 1080", "--driver", "580.65.06", "--glibc", "2.35", "--platform", "linux-64")
        done = run("export", "pixi", *words, *mirrors, "-o", ".", folder=tmp_path, **home)
        assert done.returncode == 0, done.stderr
        assert "no environment cpu for machines without a GPU: pip installs PyTorch" in done.stderr
        found = manifest(tmp_path)
        assert found["pypi-options"] == {
            "index-url": f"{plain.url}/simple",
            "extra-index-urls": [f"{torch.url}/simple"],
            "index-strategy": "unsafe-best-match",
        }
        assert found["pypi-dependencies"] == {"torch": "==2.14.1+cu126"}
        (place,) = found["workspace"]["platforms"]
        assert place["cuda"] == {"driver": "13.0", "arch": "6.1"}
        assert place["glibc"] == "2.28"
        assert broken(tmp_path) == []


def test_an_environment_without_cuda_has_no_gate_and_no_twin(mirrors: tuple[str, ...], tmp_path: Path) -> None:
    text = "name: a\nchannels: [conda-forge]\ndependencies: [python=3.12, numpy]\nvariables: {A: x$HOME}\n"
    (tmp_path / "environment.yml").write_text(text)
    done = run("export", "pixi", *TWO, *mirrors, "-o", ".", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "no environment cpu" not in done.stderr
    assert "A: pixi expands $ in its value" in done.stderr
    (place,) = manifest(tmp_path)["workspace"]["platforms"]
    assert place == {"name": "linux-64-cpu", "platform": "linux-64", "glibc": "2.17"}
    assert broken(tmp_path) == []


@collect("platform,capability,arch", [("linux-aarch64", "8.7", False), ("linux-aarch64", "9.0", True)])
def test_a_jetson_declares_no_compute_capability(platform: str, capability: str, arch: bool) -> None:
    virtual = (VirtualPackage("__cuda", "12.6"), VirtualPackage("__cuda_arch", capability))
    solution = Solution(platform=platform, packages=(), virtual_packages=virtual, solver="")
    spec = EnvironmentSpec(name="a", channels=("conda-forge",), pins=())
    part = PixiPart(name="default", feature="cuda", asked=spec, solutions=(solution,))
    project = PixiProject(parts=(part,), channels=(FORGE,), knowledge=base(), names={})
    ((place, _),) = project.platforms(part)
    assert place.virtual == ("__cuda=12.6", *([f"__cuda_arch={capability}"] if arch else []))
    assert (f'arch = "{capability}"' in render(project)) is arch


BAD = (
    (("absent.yml",), "absent.yml does not exist"),
    (("-o", "file"), "it is not a folder"),
    (("environment.yml", "--pytorch", "2.7"), "have no effect on an environment file"),
    (("environment.yml", "--name", "a"), "a file has its own"),
    (("--lock-version", "5"), "5"),
    (("--gpu", "RTX 9999"), "RTX 9999"),
)


@collect("words,said", BAD)
def test_a_bad_input_is_refused_with_a_reason(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    (tmp_path / "environment.yml").write_text(ASKED)
    (tmp_path / "file").write_text("")
    done = run("export", "pixi", *words, "--offline", *(TWO if "--gpu" not in words else ()), folder=tmp_path)
    assert done.returncode in (2, 3), done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_cannot_work_is_refused_as_lock_refuses_it(mirrors: tuple[str, ...], tmp_path: Path) -> None:
    text = "name: a\nchannels: [conda-forge]\ndependencies: [python=3.12, pytorch=2.7.1=cpu*, cuda-version=12.9]\n"
    (tmp_path / "environment.yml").write_text(text)
    done = run("export", "pixi", *TWO, *mirrors, "-o", ".", folder=tmp_path)
    assert done.returncode == 1
    assert "CU103" in done.stderr
    assert not (tmp_path / "pixi.toml").exists()
    done = run("lock", "--format", "pixi", "--check", *mirrors, folder=tmp_path)
    assert done.returncode == 2
    assert "--check" in done.stderr


@pytest.mark.slow
@pytest.mark.records
def test_a_decision_on_real_records(records: Path, tmp_path: Path) -> None:
    words = [f"--mirror={name}={records / name}" for name in ("conda-forge", "pytorch", "nvidia")]
    done = run("export", "pixi", *TWO, *words, "--pytorch", "2.9", "-o", ".", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert broken(tmp_path) == []
    cuda, cpu = manifest(tmp_path)["workspace"]["platforms"]
    assert cuda["cuda"] == {"driver": "12.2", "arch": "7.0"}
    assert "cuda" not in cpu
    lock = LockFile.from_path(tmp_path / "pixi.lock")
    lock.to_path(tmp_path / "again.lock")
    text = (tmp_path / "pixi.lock").read_text()
    assert (tmp_path / "again.lock").read_text() == text[text.index("version: 7") :]
