"""`cuenv lock --repair`: the file that does what a refused one was meant to do, and what became of each entry."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from cases import collect, quick
from channel_builder import PLATFORM, pkg, write
from commands import HOST
from commands import inside as run
from cuenv.core.errors import ExitCode
from cuenv.core.versions import version
from cuenv.lockfile.repair.intent import EntryChange, Intent, changes, intent_of, nearness
from cuenv.solve.environment_spec import EnvironmentSpec
from cuenv.solve.environment_yml import parse
from cuenv.solve.io.sources import Sources
from cuenv.solve.match_spec import parse_spec
from faulty_server import Answer, faulty
from given import base, candidate, spec

RECIPE = """\
name: minicpm
channels:
  - pytorch
  - nvidia
  - conda-forge
dependencies:
  - python=3.10
  - pytorch=2.3.1
  - torchvision
  - torchaudio
  - pytorch-cuda=12.1
  - cudatoolkit-dev=12.1
  - cudnn=8.9.2
  - nccl
  - pip
  - pip:
      - deepspeed>=0.14.0
      - transformers>=4.36
      - accelerate
"""

UNASKED = ("--allow", "CU501")
"""The pip part is left out, and no index is asked."""


def recipe() -> EnvironmentSpec:
    return parse(RECIPE, "environment.yml")[0]


def test_the_release_of_a_pytorch_cpu_is_that_of_torch() -> None:
    found = intent_of(spec("python=3.8", "pytorch-cpu=1.13"), base())
    assert str(found.release) == "1.13"
    assert not found.packages


def test_what_the_recipe_means() -> None:
    found = intent_of(recipe(), base())
    assert (str(found.pytorch), str(found.release), str(found.cuda), found.dev) == ("2.3.1", "2.3.1", "12.1", True)
    assert [pin.yaml_text() for pin in found.packages] == ["torchvision", "torchaudio"]
    assert found.pip == ("deepspeed>=0.14.0,!=0.14.1,!=0.14.2", "transformers>=4.36", "accelerate")
    assert found.channels == ()


@collect(
    ("text", "becomes"),
    [
        ("deepspeed", "deepspeed"),  # of no range every resolver takes the newest
        ("deepspeed==0.14.1", "deepspeed>=0.14.3"),
        ("deepspeed[x]==0.14.2; python_version<'4'", 'deepspeed[x]>=0.14.3; python_version < "4"'),
        ("DeepSpeed>=0.14.2", "DeepSpeed>=0.14.2,!=0.14.2"),
        ("deepspeed>=0.14.3", "deepspeed>=0.14.3"),
        ("deepspeed==0.13.0", "deepspeed==0.13.0"),
        ("deepspeed>=0.14; python_version<'4'", "deepspeed>=0.14,!=0.14.1,!=0.14.2 ; python_version<'4'"),
        ("torch>=2.3", ""),
        ("Torch", ""),
        ("torch @ https://example.org/torch.whl", ""),
        ("torchmetrics", "torchmetrics"),
        ("-r other.txt", "-r other.txt"),
    ],
)
def test_the_pip_part_is_kept_without_what_is_broken(text: str, becomes: str) -> None:
    assert intent_of(spec("pytorch", pip=(text,)), base()).pip == ((becomes,) if becomes else ())


@collect(
    ("dependency", "kept"),
    [
        ("pytorch::torchvision=0.18", "torchvision=0.18.*"),
        ("torchvision=0.18.1=py310_cu121", "torchvision==0.18.1"),
        ("nvidia::libcufft=11.0.2", "libcufft"),
        ("numpy<2", "numpy<2"),
        ("bioconda::samtools=1.20", "bioconda::samtools=1.20"),
    ],
)
def test_further_packages_lose_what_belonged_to_another_stack(dependency: str, kept: str) -> None:
    (pin,) = intent_of(spec("pytorch", dependency), base()).packages
    assert pin.yaml_text() == kept


@collect("dependency", ["cuda-nvcc", "cuda-toolkit=12.1", "cudatoolkit-dev", "nvidia::cuda"])
def test_a_compiler_that_is_asked_for_is_meant(dependency: str) -> None:
    assert intent_of(spec("pytorch", dependency), base()).dev


def test_without_a_compiler_none_is_meant() -> None:
    assert not intent_of(spec("pytorch", "pytorch-cuda=12.1", "cudnn", "nccl"), base()).dev


def requested(*dependencies: str) -> Intent:
    return intent_of(spec(*dependencies), base())


def test_the_release_of_torch_counts_before_cuda_and_python() -> None:
    asked, level = requested("pytorch=2.3.1", "python=3.10", "pytorch-cuda=12.1"), version("12.2")
    order = [
        candidate("2.3.1", "cuda120*", "12.1"),
        candidate("2.3.1", "cuda120*", "12.2"),
        candidate("2.3.1", "cuda120*", "12.4"),
        candidate("2.3.1", "cuda118*"),
        candidate("2.3.0", "cuda120*", "12.1"),
        candidate("2.4.0", "cuda120*", "12.1"),
        candidate("2.5.1", "cuda120*", "12.1"),
        candidate("2.9.1", "cuda129*"),
    ]
    mixed = [*order[5:], *order[2:5], *order[:2]]
    found = sorted(mixed, key=lambda item: nearness(item, asked, level))
    assert [str(item) for item in found] == [str(item) for item in order]


def test_what_a_range_admits_is_as_near_as_can_be() -> None:
    """The preference decides then: the newest PyTorch, and the Python nearest to 3.12."""
    asked = requested("pytorch>=2.3", "python>=3.9")
    newest, older = candidate("2.9.1", "cuda129*"), candidate("2.3.1", "cuda120*")
    assert nearness(newest, asked, None) == nearness(older, asked, None)
    assert nearness(replace(older, python="3.9"), asked, None) == nearness(older, asked, None)
    assert nearness(candidate("2.3.1", "cuda120*"), requested("pytorch=2.3"), None) == nearness(
        candidate("2.3.0", "cuda120*"), requested("pytorch=2.3"), None
    )
    near, far = (nearness(replace(older, python=text), requested("python=3.9"), None) for text in ("3.10", "3.12"))
    assert near < far


@pytest.mark.slow  # test_coverage.py shows the same choice for the same GPUs
@pytest.mark.records
@pytest.mark.usefixtures("online")
def test_a_gpu_that_no_row_vouches_for_moves_torch(records: Path, tmp_path: Path) -> None:
    """The cuDNN of torch 2.3.1 is older than Blackwell: a later torch is nearer to what was meant."""
    (tmp_path / "environment.yml").write_text(RECIPE)
    mirror = ("--mirror", f"https://conda.anaconda.org={records}")
    done = run("lock", "--repair", "--host", "v100-rtx5090-575", *mirror, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    pins = {pin.name: pin.yaml_text() for pin in parse(done.stdout, "new.yml")[0].pins}
    assert pins["pytorch"] == "conda-forge::pytorch=2.7.1=cuda129*"
    assert pins["cudnn"] == "conda-forge::cudnn<9.11"
    assert (
        "replaced  cudnn=8.9.2 by conda-forge::cudnn<9.11: release 9.11 dropped compute capability 7.0" in done.stderr
    )


def test_a_change_says_what_it_is() -> None:
    assert str(EntryChange(entry="pip", fate="kept")) == "kept      pip"
    assert str(EntryChange(entry="a", fate="kept", became="c::a", why="so")) == "kept      a as c::a: so"
    assert str(EntryChange(entry="a", fate="replaced", became="b", why="so")) == "replaced  a by b: so"
    assert str(EntryChange(entry="a", fate="dropped", why="so")) == "dropped   a: so"


def test_what_became_of_an_entry_is_told_without_a_claim_that_nobody_proved() -> None:
    asked = spec("python=3.7", "pytorch=1.9", "pytorch-cuda=12.4", "pytorch-mutex=1.0=cuda", "cpuonly")
    runtime = replace(parse_spec("cuda-version=11.1"), role="pytorch-cuda")
    made = spec("python=3.10", "conda-forge::pytorch=1.11.0=cuda111*")
    made = replace(made, pins=(*made.pins, runtime))
    told = {item.entry: item.why for item in changes(asked, made, {}, base(), anew=True, instead={})}
    assert told["python=3.7"] == "the PyTorch build that was chosen exists for this Python"
    assert told["pytorch-cuda=12.4"].endswith("the PyTorch build that was chosen goes with CUDA 11.1")
    assert told["pytorch-mutex=1.0=cuda"] == "the build string of torch chooses between CPU and CUDA"
    assert told["cpuonly"] == "it forces the CPU build"


@pytest.mark.slow
@pytest.mark.records
def test_a_compiler_is_not_lost_where_python_moves_on_the_channels_of_the_file(tmp_path: Path, records: Path) -> None:
    """Of gpustat there is no release for Python 3.8, and of cudatoolkit-dev none that can be locked."""
    entries = "[python=3.8, cudatoolkit-dev, pytorch, torchvision, gpustat]"
    (tmp_path / "environment.yml").write_text(f"channels: [conda-forge, pytorch]\ndependencies: {entries}\n")
    mirror = ("--mirror", f"https://conda.anaconda.org={records}")
    done = run("lock", "environment.yml", "--repair", "-o", "new.yml", *HOST, *mirror, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "replaced  cudatoolkit-dev by nvidia/label/cuda-11.8.0::cuda-toolkit=11.8.0: the last" in done.stderr
    assert "\ndropped" not in done.stderr


@pytest.mark.slow
@pytest.mark.records
def test_the_recipe_is_refused_repaired_and_locked(records: Path, tmp_path: Path) -> None:
    path = tmp_path / "environment.yml"
    path.write_text(RECIPE)
    mirror = ("--mirror", f"https://conda.anaconda.org={records}")
    refused = run("lock", path.name, *HOST, *mirror, folder=tmp_path)
    assert refused.returncode == 1
    assert "the last release is 11.7.0" in refused.stderr
    assert "neither nvcc nor headers" in refused.stderr
    assert "cuenv lock environment.yml --repair -o environment.new.yml --gpu 8.9" in refused.stderr
    done = run("lock", path.name, "--repair", "-o", "new.yml", *HOST, *mirror, *UNASKED, "--json", folder=tmp_path)
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["schema"], answer["repaired"]) == (0, "cuenv/report/1", True)
    assert path.read_text() == RECIPE
    fates = {item["entry"]: (item["fate"], item["became"]) for item in answer["changes"]}
    assert fates["pytorch=2.3.1"] == ("replaced", "pytorch::pytorch=2.4.0=*cuda12.4*")  # the nearest with a torchaudio
    assert fates["torchvision"] == ("kept", "pytorch::torchvision=*=*_cu124")
    assert fates["torchaudio"] == ("kept", "pytorch::torchaudio=*=*_cu124")
    assert fates["pytorch-cuda=12.1"] == ("replaced", "pytorch::pytorch-cuda=12.4=*_6")
    assert fates["cudatoolkit-dev=12.1"][0] == "replaced"
    assert "cuda-toolkit" in str(fates["cudatoolkit-dev=12.1"][1])
    assert fates["pip: deepspeed>=0.14.0"] == ("replaced", "deepspeed>=0.14.0,!=0.14.1,!=0.14.2")
    assert all(item["why"] for item in answer["changes"] if item["fate"] != "kept")
    made, warnings = parse((tmp_path / "new.yml").read_text(), "new.yml")
    assert (made.channels, warnings, made.name) == (
        ("pytorch", "nvidia/label/cuda-12.4.0", "conda-forge"),
        (),
        "minicpm",
    )
    locked = run("lock", "new.yml", *HOST, *UNASKED, *mirror, folder=tmp_path)
    assert locked.returncode == 0, locked.stderr
    assert run("check", "conda-lock.yml", *HOST, folder=tmp_path).returncode == 0
    again = run("lock", "new.yml", "--repair", *HOST, *mirror, *UNASKED, folder=tmp_path)
    assert (again.returncode, again.stdout) == (0, "")
    assert "nothing to repair" in again.stderr


@pytest.fixture
def small(tmp_path: Path) -> Sources:
    """A channel that closes torch 2.4.0 with CUDA 12.4 on Python 3.12, and nothing else."""
    torch = ("python >=3.12,<3.13.0a0", "cudnn >=8.9.7.29,<9.0a0", "nccl", "cuda-version >=12.0,<13")
    headers = ("cuda-cudart-dev", "libcusparse-dev", "libcublas-dev", "libcusolver-dev", "libcurand-dev")
    return write(
        tmp_path,
        {
            "conda-forge": [
                pkg("pytorch", "2.4.0", "cuda120_py312_h0_300", depends=torch),
                *(pkg("python", "3.12.9"), pkg("cudnn", "8.9.7.29"), pkg("nccl", "2.22.3.1")),
                *(pkg("cuda-version", "12.4"), pkg("cuda-nvcc", "12.4.131"), pkg("gxx_linux-64", "12.4.0")),
                *(pkg(name, "12.4.127") for name in headers),
                *(pkg("ninja"), pkg("pip"), pkg("numpy", "2.0")),
            ]
        },
    )


def here(sources: Sources) -> tuple[str, ...]:
    forge = sources.mirrors[0].target
    rest = ("pytorch", "nvidia", *(f"https://repo.anaconda.com/pkgs/{name}" for name in ("main", "r")))
    return (
        *("--mirror", f"conda-forge={forge}"),
        *(word for name in rest for word in ("--mirror", f"{name}={Path(forge).parent / name.rpartition('/')[2]}")),
    )


@pytest.mark.slow
@pytest.mark.usefixtures("online")
def test_the_nearest_torch_that_closes_is_named(small: Sources, tmp_path: Path) -> None:
    (tmp_path / "environment.yml").write_text(RECIPE)
    done = run("lock", "--repair", *HOST, *here(small), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    made, _ = parse(done.stdout, "new.yml")
    assert [pin.yaml_text() for pin in made.pins[:2]] == [
        "conda-forge::pytorch=2.4.0=cuda120*",
        "conda-forge::cuda-version=12.4",
    ]
    assert "replaced  pytorch=2.3.1 by conda-forge::pytorch=2.4.0=cuda120*: the release nearest to it" in done.stderr
    assert "dropped   torchaudio: the channels have no torchaudio for linux-64: conda-forge" in done.stderr
    assert made.pip == ("deepspeed>=0.14.0,!=0.14.1,!=0.14.2", "transformers>=4.36", "accelerate")
    (tmp_path / "new.yml").write_text(done.stdout)
    locked = run("lock", "new.yml", *HOST, "--allow", "CU501", *here(small), folder=tmp_path)
    assert locked.returncode == 0, locked.stderr


def test_the_input_is_never_replaced(small: Sources, tmp_path: Path) -> None:
    path = tmp_path / "environment.yml"
    path.write_text(RECIPE)
    (tmp_path / "link.yml").symlink_to(path)
    for output in ("environment.yml", "./environment.yml", "link.yml", str(path)):
        done = run("lock", "environment.yml", "--repair", "-o", output, *HOST, *here(small), folder=tmp_path)
        assert done.returncode == 2, done.stderr
        assert "does not replace the file that it repairs" in done.stderr
    assert path.read_text() == RECIPE
    assert run("lock", "environment.yml", "-o", "new.yml", *HOST, folder=tmp_path).returncode == 2


@pytest.mark.slow
def test_a_platform_that_is_lost_is_said(small: Sources, tmp_path: Path) -> None:
    (tmp_path / "environment.yml").write_text(f"platforms: [{PLATFORM}, linux-aarch64]\n{RECIPE}")
    words = ("lock", "--repair", "-o", "new.yml", *HOST, *here(small), *UNASKED)
    done = run(*words, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"dropped   platforms linux-aarch64: a repair is for one platform, here {PLATFORM}" in done.stderr
    assert run(*words, "--platform", PLATFORM, "--platform", "linux-aarch64", folder=tmp_path).returncode == 2
    assert run("lock", "--check", "--repair", folder=tmp_path).returncode == 2


@pytest.mark.slow
def test_a_file_of_somebody_else_is_kept_aside(small: Sources, tmp_path: Path) -> None:
    (tmp_path / "environment.yml").write_text(RECIPE)
    (tmp_path / "new.yml").write_text("precious\n")
    done = run("lock", "environment.yml", "--repair", "-o", "new.yml", *HOST, *here(small), *UNASKED, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "new.yml.bak").read_text() == "precious\n"
    assert not (tmp_path / "conda-lock.yml").exists()


def test_nothing_that_closes_is_a_no(small: Sources, tmp_path: Path) -> None:
    (tmp_path / "environment.yml").write_text(RECIPE)
    done = run(
        *("lock", "--repair", "-o", "new.yml", "--gpu", "12.0", "--driver", "575.57.08", "--glibc", "2.35"),
        *here(small),
        folder=tmp_path,
    )
    assert done.returncode == 1
    (line,) = [text for text in done.stderr.splitlines() if "no nearby candidate fits the host" in text]
    words = [
        "cuenv",
        "resolve",
        "--prove",
        "-o",
        "new.yml",
        "--gpu",
        "12.0",
        "--driver",
        "575.57.08",
        "--glibc",
        "2.35",
    ]
    assert line.endswith(f"satisfiable on the channels: {shlex.join([*words, *here(small)])}")
    assert not (tmp_path / "new.yml").exists()


@pytest.mark.parametrize(
    "answer", quick([Answer(status=500), Answer(body=b"<html>log in</html>"), Answer(hang_up=True)], first=1)
)
def test_a_channel_that_cannot_be_read_is_an_error_and_no_verdict(
    small: Sources, tmp_path: Path, answer: Answer
) -> None:
    (tmp_path / "environment.yml").write_text(RECIPE)
    with faulty(Path(small.mirrors[0].target).parent) as server:
        server.fault = lambda path, *_: answer if path.endswith("repodata.json") else Answer(status=404)
        mirror = ("--mirror", f"https://conda.anaconda.org={server.url}")
        done = run("lock", "--repair", "-o", "new.yml", *HOST, *mirror, folder=tmp_path)
        asked = len(server.asked)
    assert done.returncode == ExitCode.INPUT, done.stderr
    assert done.stderr.startswith("error: channel ")
    assert "nothing near to it" not in done.stderr
    assert asked < 60  # it stops at the first, and does not ask again for each candidate
    assert not (tmp_path / "new.yml").exists()


def test_a_file_that_is_fine_needs_no_repair(small: Sources, tmp_path: Path) -> None:
    text = "channels: [conda-forge]\ndependencies: [numpy]\n"
    (tmp_path / "environment.yml").write_text(text)
    done = run("lock", "--repair", "-o", "new.yml", *HOST, *here(small), folder=tmp_path)
    assert (done.returncode, "nothing to repair" in done.stderr) == (0, True)
    assert not (tmp_path / "new.yml").exists()


def test_every_form_says_that_the_channels_do_not_satisfy_the_file(small: Sources, tmp_path: Path) -> None:
    (tmp_path / "environment.yml").write_text("channels: [conda-forge]\ndependencies: [gone]\n")
    words = ["lock", *HOST, *here(small), "--platform", PLATFORM]
    said = {form: run(*words, "--format", form, folder=tmp_path) for form in ("text", "json", "markdown", "github")}
    for form, done in said.items():
        assert done.returncode == ExitCode.NEGATIVE
        assert "CU120" in done.stdout + done.stderr, form
    document = json.loads(said["json"].stdout)
    assert document["ok"] is False
    (found,) = document["findings"]
    assert found["fix"] == document["unsatisfiable"]["command"]
    assert f"hint: list the entries that can stay, and write a corrected file: {found['fix']}" in said["text"].stderr
    done = run(*shlex.split(found["fix"])[1:], folder=tmp_path)
    assert (done.returncode, done.stderr.count("the channels cannot satisfy")) == (ExitCode.OK, 1), done.stderr
    assert parse((tmp_path / "environment.new.yml").read_text(), "new.yml")[0].pins == ()


def test_what_has_nothing_to_do_with_cuda_is_not_decided_anew(small: Sources, tmp_path: Path) -> None:
    (tmp_path / "environment.yml").write_text("channels: [conda-forge]\ndependencies: [numpy>=9, gone]\n")
    done = run("lock", "--repair", *HOST, *here(small), "--platform", PLATFORM, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [pin.yaml_text() for pin in parse(done.stdout, "new.yml")[0].pins] == ["numpy"]  # and no torch
    assert "the channels cannot satisfy the environment file: the channels have no numpy>=9, gone" in done.stderr
    assert "replaced  numpy>=9 by numpy: the channels have no numpy>=9 for linux-64: conda-forge" in done.stderr
    assert "dropped   gone: the channels have no gone for linux-64: conda-forge" in done.stderr
