"""A repair keeps what was meant: each entry as near as can be, and the new file locks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from packaging.version import Version

from cases import collect, quick_and_slow
from channel_builder import PLATFORM, Server, pkg, write
from commands import HOST
from commands import inside as run
from cuenv.core.findings import FileEdit, Finding, report
from cuenv.core.record import replace
from cuenv.core.urls import channel_url
from cuenv.host.select import HostOptions
from cuenv.lockfile import engines
from cuenv.lockfile import lock as lock_module
from cuenv.lockfile.engines import Engine
from cuenv.lockfile.lock import Locked, LockRequest
from cuenv.lockfile.repair.draft_repair import _obstacles
from cuenv.lockfile.repair.drafts import Draft, forge_first, pythons_near, series_of, with_core
from cuenv.lockfile.repair.obey import loosening, obeyed
from cuenv.lockfile.repair.proving import odds
from cuenv.lockfile.repair.relax import blamed, entries_of, forms_of, relax
from cuenv.lockfile.repair.repair import repair
from cuenv.solve.environment_spec import EnvironmentSpec, Pin
from cuenv.solve.environment_yml import parse
from cuenv.solve.io import choosing
from cuenv.solve.io import pip as pip_module
from cuenv.solve.io.choosing import choose
from cuenv.solve.io.records import RecordIndex
from cuenv.solve.io.sources import Mirror, Sources
from cuenv.solve.match_spec import parse_spec
from cuenv.solve.model import Choice, LockedPackage, Solution, Solved, SolveRequest, Unsatisfiable
from given import options, shipped_base
from pip_index import index, wheel
from shell_terminal import Terminal

PY = {minor: f"python >=3.{minor},<3.{minor + 1}.0a0" for minor in (10, 12)}


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    """Torch 2.4.0 and 2.5.1 of the channel pytorch with their torchvision, and a little of conda-forge."""
    torches = [
        pkg("pytorch", number, f"py3.{minor}_cuda12.1_cudnn9.1.0_0", depends=(PY[minor], "pytorch-cuda 12.1.*"))
        for number in ("2.4.0", "2.5.1")
        for minor in (10, 12)
    ]
    visions = [
        pkg("torchvision", vision, f"py3{minor}_cu121", depends=(PY[minor], f"pytorch {torch}"))
        for vision, torch in (("0.19.0", "2.4.0"), ("0.20.1", "2.5.1"))
        for minor in (10, 12)
    ]
    forge = [
        *(pkg("python", "3.10.14"), pkg("python", "3.12.7"), pkg("mkl", "2023.2.0"), pkg("mkl", "2024.2.2")),
        pkg("pip", "25.0", subdir="noarch", noarch="python", depends=("python >=3.9",)),
        *(
            pkg("scipy", number, f"py3{minor}_0", depends=(PY[minor],))
            for number in ("1.11.4", "1.14.1")
            for minor in PY
        ),
        *(
            pkg("numpy", number, f"py3{minor}_0", depends=(PY[minor],))
            for number in ("1.26.4", "2.1.0")
            for minor in PY
        ),
        pkg("of-numpy", "1.0", depends=("numpy",)),
        pkg("old-one", "1.0", "py310_0", depends=(PY[10],)),
        pkg("new-one", "1.0", "py312_0", depends=(PY[12],)),
        pkg("open-one", "1.0", depends=("codec >=2", "nowhere >=1")),
        *(pkg("of-old-torch", "1.0", f"py3{minor}_0", depends=(PY[minor], "pytorch 2.4.0")) for minor in PY),
        pkg("of-new-torch", "1.0", depends=("pytorch 2.5.1",)),
        *(pkg(name, "1.0", depends=("shared 1.*",)) for name in ("first-user", "third-user")),
        *(pkg("jpeg", "9.0"), pkg("libjpeg-turbo", "2.1", constrains=("jpeg <0.0.0a",))),
        pkg("of-images", "1.0", depends=("libjpeg-turbo",)),
        *(pkg("second-user", "1.0", depends=("shared 2.*",)), pkg("shared", "1.0"), pkg("shared", "2.0")),
        pkg("tensorflow", "2.18.0", "cpu_py312_0", depends=(PY[12], "libtensorflow_cc 2.18.0 cpu_0")),
        *(pkg("libtensorflow_cc", "2.18.0", "cpu_0"), pkg("of-tensorflow", "1.0", depends=("tensorflow",))),
        pkg("faiss-cpu", "1.8.0", "py312_cpu", depends=(PY[12], "libfaiss 1.8.0 *_cpu")),
        *(pkg("libfaiss", "1.8.0", "h0_0_cpu"), pkg("libfaiss", "1.8.0", "h1_0_cuda12.9", depends=("nowhere >=1",))),
        pkg("pytorch", "2.5.1", "cpu_py312_0", depends=(PY[12],)),
        *(pkg("with-cuda", depends=("cuda-version",)), pkg("cuda-version", "12.9")),
        pkg("of-newer-driver", "1.0", depends=("__cuda >=12.8",)),
    ]
    extra = [pkg("pytorch-cuda", "12.1")]
    nvidia = [pkg("cuda-cudart", "12.1.105"), pkg("cuda-cccl", "13.0.50", depends=("cuda-of-13",))]
    nvidia.append(pkg("cuda-of-13", "13.0.50"))
    label = [pkg("cuda-cccl", "12.1.109")]
    folder = tmp_path_factory.mktemp("channels")
    channels = {"pytorch": [*torches, *visions, *extra], "nvidia": nvidia, "nvidia/label/cuda-12.1.1": label}
    made = write(folder, {**channels, "conda-forge": forge, "elsewhere": [pkg("other")]})
    default = (
        Mirror(origin=f"https://repo.anaconda.com/pkgs/{name}", target=str(folder / name)) for name in ("main", "r")
    )
    return replace(made, mirrors=(*made.mirrors, *default))  # no name server is asked for conda's default channels


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("index")
    wheel(folder, "legacy", "1.0", "numpy<2")
    wheel(folder, "legacy", "2.0", "numpy>=2")
    wheel(folder, "numpy", "2.5.0")
    wheel(folder, "vllm", "0.2.7", "torch>=2.1.2", extras=["s3"])
    wheel(folder, "vllm", "0.6.6", "torch==2.5.1", "numpy<2", extras=["s3"])
    with index(folder) as running:
        yield running


def repaired(
    folder: Path, channel: Sources, text: str, *more: str, url: str = ""
) -> tuple[subprocess.CompletedProcess[str], EnvironmentSpec]:
    """The run of a repair, and the file that it wrote, which locks with the same options."""
    (folder / "environment.yml").write_text(text)
    mirrors = [word for item in channel.mirrors for word in ("--mirror", f"{item.origin}={item.target}")]
    variables = {"UV_DEFAULT_INDEX": f"{url}/simple", "NO_PROXY": "*", "UV_HTTP_RETRIES": "0"} if url else {}
    options = (*HOST, *mirrors, *more)
    done = run("lock", "environment.yml", "--repair", "-o", "new.yml", *options, folder=folder, **variables)
    assert done.returncode == 0, done.stderr
    again = run("lock", "new.yml", *options, folder=folder, **variables)
    assert again.returncode == 0, again.stderr
    return done, parse((folder / "new.yml").read_text(), "new.yml")[0]


def pins(spec: EnvironmentSpec) -> dict[str, str]:
    return {pin.name: pin.yaml_text() for pin in spec.pins}


FILE = """\
channels: [pytorch, nvidia, conda-forge]
dependencies:
  - python={python}
  - pytorch={torch}
  - pytorch-cuda=12.1
  - torchvision={vision}
  - scipy=1.11.3=py38h1234_0
  - numpy=1.26.4
  - gone=1.0
"""


@pytest.mark.slow
def test_a_library_of_torch_by_pip_takes_the_releases_that_are_made_for_the_torch_of_the_file(
    channel: Sources, server: Server, tmp_path: Path
) -> None:
    head = "channels: [pytorch, nvidia, conda-forge]\ndependencies: [python=3.12, pytorch=2.5.1, pytorch-cuda=12.1, "
    done, made = repaired(tmp_path, channel, f"{head}numpy, pip, pip: ['vllm[s3]']]\n", url=server.url)
    assert made.pip == ("vllm[s3]>=0.6.6,<0.8",), "0.2.7 admits this torch, and its compiled code was made for 2.1"
    assert pins(made)["numpy"] == "numpy<2"
    assert pins(made)["python"] == "python=3.12"
    assert "vllm==0.2.7 does not work here" in done.stdout + done.stderr


def test_the_stack_of_a_file_stays_and_the_rest_moves_to_the_nearest(channel: Sources, tmp_path: Path) -> None:
    done, made = repaired(tmp_path, channel, FILE.format(python="3.10.9", torch="2.5.1", vision="0.20.0"))
    kept = pins(made)
    assert kept["pytorch"] == "pytorch=2.5.1.*=*_cuda*"
    assert kept["pytorch-cuda"] == "pytorch-cuda=12.1"
    assert kept["python"] == "python=3.10.*"
    assert kept["torchvision"] == "torchvision=0.20.1.*=*_cu*"
    assert kept["scipy"] == "scipy=1.11.*"
    assert kept["numpy"] == "numpy=1.26.4"
    assert "gone" not in kept
    assert "dropped   gone=1.0: the channels have no gone for linux-64: pytorch, nvidia, conda-forge" in done.stderr
    assert "replaced  torchvision=0.20.0 by torchvision=0.20.1.*=*_cu*: torchvision=0.20.0 requires" in done.stderr
    assert "kept      pytorch=2.5.1 as pytorch=2.5.1.*=*_cuda*: pytorch=2.5.1 has no CUDA build string" in done.stderr
    assert "kept      scipy" not in done.stderr


def test_an_entry_stays_in_the_channel_that_it_alone_names(channel: Sources, tmp_path: Path) -> None:
    """conda reads the channel of an entry as well; plotly::plotly moved to conda-forge, and torch with it."""
    listed = ["python=3.12", "pytorch::pytorch=2.5.1=*cuda12.1*", "pytorch::pytorch-cuda=12.1", "pytorch::torchvision"]
    text = f"channels: [conda-forge]\ndependencies: {json.dumps([*listed, 'elsewhere::scipy=1.14.1'])}\n"
    done, made = repaired(tmp_path, channel, text)
    kept = pins(made)
    assert kept["pytorch"] == "pytorch::pytorch=2.5.1=*cuda12.1*"
    assert kept["torchvision"].startswith("pytorch::torchvision")
    assert kept["scipy"] == "scipy=1.14.1"
    assert "dropped" not in done.stderr


def test_a_channel_that_is_not_there_is_left_out_and_told(channel: Sources, tmp_path: Path) -> None:
    missing = replace(
        channel, mirrors=(*channel.mirrors, Mirror(origin=channel_url("gone-channel"), target=str(tmp_path)))
    )
    text = FILE.format(python="3.12", torch="2.5.1", vision="0.20.1").replace("[pytorch", "[gone-channel, pytorch")
    done, made = repaired(tmp_path, missing, text.replace("  - gone=1.0\n", "  - gone-channel::numpy\n"))
    assert made.channels == ("pytorch", "nvidia", "conda-forge")
    assert "by pytorch, nvidia, conda-forge: channel gone-channel, linux-64: " in done.stderr
    assert pins(made)["pytorch"].startswith("pytorch=2.5.1")


@collect("way", ["pytorch=1.7, cpuonly", "pytorch=1.7=*cpu*", "pytorch=1.7, cpu-only"])
def test_a_file_for_the_cpu_stays_one(way: str, channel: Sources, tmp_path: Path) -> None:
    """Its torch is decided anew, beside a library that brings a part of CUDA."""
    listed = f"{way}, numpy, with-cuda"
    done, made = repaired(tmp_path, channel, f"channels: [conda-forge]\ndependencies: [python=3.12, {listed}]\n")
    torch = made.pin("pytorch")
    assert torch
    assert "cpu" in torch.build
    assert "/pytorch-2.5.1-cpu_py312_0" in (tmp_path / "conda-linux-64.lock").read_text()
    assert "names CUDA" not in done.stderr
    assert "though conda-forge has CUDA builds" not in done.stderr


def test_torchvision_goes_with_torch(channel: Sources, tmp_path: Path) -> None:
    """The torchvision that is asked for belongs to another torch."""
    _, made = repaired(tmp_path, channel, FILE.format(python="3.10", torch="2.4.0", vision="0.20.1"))
    kept = pins(made)
    assert kept["pytorch"] == "pytorch=2.4.0.*=*_cuda*"
    assert kept["torchvision"].startswith("torchvision")
    locked = (tmp_path / "conda-linux-64.lock").read_text()
    assert "torchvision-0.19.0" in locked


def test_tensorflow_gpu_becomes_the_cuda_build_that_it_requires(tmp_path: Path) -> None:
    cuda = pkg("tensorflow", "2.12.1", "cuda112py310h0_0", depends=("python",))
    cpu = pkg("tensorflow", "2.18.0", "cpu_py310h0_0", depends=("python",))
    made = write(tmp_path / "channels", {"conda-forge": [cuda, cpu, pkg("python", "3.10.14")]})
    text = "channels: [conda-forge, nodefaults]\ndependencies:\n  - python=3.10\n  - tensorflow-gpu=2.6\n"
    done, spec = repaired(tmp_path, made, text)
    assert pins(spec)["tensorflow"] == "tensorflow[version='>=2.6,<3',build='*cu*']"
    assert "replaced  tensorflow-gpu=2.6 by tensorflow[" in done.stderr
    assert "tensorflow-gpu for linux-64, which only requires a CUDA build of tensorflow" in done.stderr


def test_a_driver_that_is_too_old_is_told_of_an_entry_of_cuda() -> None:
    asked = EnvironmentSpec(name="", channels=("conda-forge",), pins=(Pin(name="gcc"), parse_spec("cuda-nvcc=12.8")))
    error = Finding(code="CU401", severity="error", subject="driver-floor", message="CUDA 12.x needs a later driver")
    answer = Locked(report=report("x", [error]), spec=asked, facts=options("7.0", driver="470.82.01"))
    assert [*_obstacles(asked, answer)] == [("cuda-nvcc=12.8", error.message)]
    bare = replace(asked, pins=asked.pins[:1])
    assert [*_obstacles(bare, answer)] == [("the file", error.message)]
    old = Finding(
        code="CU505", severity="error", subject="extensions", message="x needs 8.0", about=("x==1", "torch==2")
    )
    both = replace(bare, pip=("torch==2", "x==1"))
    answer = Locked(report=report("x", [old]), spec=both, facts=answer.facts)
    assert [*_obstacles(both, answer)] == [("pip: x==1", old.message)], "the library is in the way, not torch"


@pytest.mark.slow
def test_python_moves_before_a_package_is_lost(channel: Sources, tmp_path: Path) -> None:
    text = FILE.format(python="3.12", torch="2.5.1", vision="0.20.1") + "  - old-one\n"
    done, made = repaired(tmp_path, channel, text)
    assert pins(made)["old-one"] == "old-one"
    assert pins(made)["python"] == "python=3.10.*"
    assert (
        "replaced  python=3.12 by python=3.10.*: python=3.12 cannot be satisfied together with the rest" in done.stderr
    )


def test_torch_moves_before_a_package_is_lost(channel: Sources, tmp_path: Path) -> None:
    """One package is worth more than the release of torch, which takes its torchvision along."""
    text = FILE.format(python="3.12", torch="2.5.1", vision="0.20.1") + "  - of-old-torch\n"
    done, made = repaired(tmp_path, channel, text)
    kept = pins(made)
    assert kept["of-old-torch"] == "of-old-torch"
    assert kept["pytorch"].startswith("pytorch=2.4.0")
    assert kept["python"] == "python=3.12"
    assert "/torchvision-0.19.0-" in (tmp_path / "conda-linux-64.lock").read_text()
    assert "replaced  pytorch=2.5.1 by pytorch=2.4.0" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("line", ["einops", "torch-scatter==2.1.2+pt25cu121"])
def test_torch_of_another_channel_is_taken_before_a_package_is_lost(tmp_path: Path, line: str) -> None:
    """Only conda-forge's torch takes it; what pip has for one release of torch keeps that torch."""
    own = [pkg("pytorch", "2.5.1", "py3.12_cuda12.1_cudnn9.1.0_0", depends=(PY[12], "pytorch-cuda 12.1.*"))]
    own += [pkg("torchvision", "0.20.1", "py312_cu121", depends=(PY[12], "pytorch 2.5.1")), pkg("pytorch-cuda", "12.1")]
    forge = [
        *(pkg("python", "3.12.7"), pkg("cuda-version", "12.6"), pkg("cudnn", "9.10"), pkg("nccl", "2.27")),
        pkg("of-forge", depends=("pytorch 2.7.1",)),
        pkg("pip", "25.0", subdir="noarch", noarch="python", depends=("python >=3.9",)),
    ]
    moves = line == "einops"
    for torch, vision in (*([("2.5.1", "0.20.1")] if moves else []), ("2.7.1", "0.22.1")):
        depends = (PY[12], "cuda-version >=12.6,<13")
        forge.append(pkg("pytorch", torch, "cuda126_mkl_py312_h0_300", depends=depends))
        forge.append(pkg("torchvision", vision, "cuda126_py312_h0_0", depends=(PY[12], f"pytorch {torch}")))
    nvidia = [pkg("cuda-cudart", "12.1.105")]
    made = write(tmp_path / "channels", {"pytorch": own, "conda-forge": forge, "nvidia": nvidia})
    text = "channels: [pytorch, nvidia, conda-forge, nodefaults]\ndependencies: [python=3.12, pip, pytorch=2.5.1, "
    text += f"torchvision=0.20.1, pytorch-cuda=12.1, of-forge, {{pip: [{line}]}}]\n"
    done, spec = repaired(tmp_path, made, text, "--allow", "CU501")
    kept = pins(spec)
    assert ("of-forge" in kept, "dropped   of-forge" in done.stderr) == (moves, not moves)
    assert kept["pytorch"].startswith("conda-forge::pytorch=2.7.1" if moves else "pytorch=2.5.1")
    assert "torchvision" in kept


@pytest.mark.slow
@collect(
    ("entries", "lost", "why"),
    [
        (("old-one", "new-one"), "old-one", "no release of old-one that the channels have goes with python=3.12"),
        (
            ("of-old-torch", "of-new-torch"),
            "of-old-torch",
            "no release of of-old-torch that the channels have goes with pytorch=2.5.1",
        ),
        (
            ("open-one",),
            "open-one",
            "no release of open-one that the channels have can be installed: the channels have no codec >=2",
        ),
        (
            ("first-user", "second-user", "third-user"),
            "second-user",
            "no release of second-user that the channels have goes with any release of first-user",
        ),
    ],
    one_in=4,
)
def test_what_is_lost_is_lost_for_a_proven_reason(
    entries: tuple[str, ...], lost: str, why: str, channel: Sources, tmp_path: Path
) -> None:
    """Where as much is lost in any case, torch and Python keep the releases that the file names."""
    text = FILE.format(python="3.12", torch="2.5.1", vision="0.20.1") + "".join(f"  - {text}\n" for text in entries)
    done, made = repaired(tmp_path, channel, text)
    assert f"dropped   {lost}: {why}" in done.stderr
    kept = pins(made)
    assert (kept["python"], kept["pytorch"]) == ("python=3.12", "pytorch=2.5.1.*=*_cuda*")
    assert kept["torchvision"] == "torchvision=0.20.1.*=*_cu*"
    assert {*entries} - {lost} <= set(kept)


@pytest.mark.slow
def test_a_package_that_another_excludes_is_replaced_by_that(channel: Sources, tmp_path: Path) -> None:
    text = FILE.format(python="3.12", torch="2.5.1", vision="0.20.1") + "  - jpeg=9.0\n  - of-images\n"
    done, made = repaired(tmp_path, channel, text)
    why = "libjpeg-turbo, which is installed, excludes every release of it"
    assert f"replaced  jpeg=9.0 by libjpeg-turbo: {why}" in done.stderr
    assert "of-images" in pins(made)


def test_components_of_another_cuda_release_become_those_of_torch(channel: Sources, tmp_path: Path) -> None:
    """The channel nvidia has the newest release alone: the one of torch comes from the channel of its label."""
    text = FILE.format(python="3.12", torch="2.5.1", vision="0.20.1") + "  - cuda-cccl\n"
    done, made = repaired(tmp_path, channel, text)
    assert pins(made)["cuda-cccl"] == "cuda-cccl=12.1"
    assert "cuda-of-13" not in pins(made)
    assert made.channels.index("nvidia/label/cuda-12.1.1") < made.channels.index("nvidia")
    assert "cuda-cccl-12.1.109" in (tmp_path / "conda-linux-64.lock").read_text()
    assert "CUDA 13.0, but torch is from CUDA 12.1" in done.stderr


@pytest.mark.slow
def test_a_repair_ends_with_what_was_dropped_and_why(channel: Sources, tmp_path: Path) -> None:
    text = FILE.format(python="3.12", torch="2.5.1", vision="0.20.1") + "  - lost=2.0\n  - open-one\n"
    done, _ = repaired(tmp_path, channel, text)
    told = (
        "dropped 3: gone, lost (the channels have none for linux-64); "
        "open-one (no release that the channels have can be installed: the channels have no codec >=2)"
    )
    assert done.stderr.splitlines()[-2] == told
    mirrors = [word for item in channel.mirrors for word in ("--mirror", f"{item.origin}={item.target}")]
    again = run("lock", "environment.yml", "--repair", "-o", "new.yml", *HOST, *mirrors, "--json", folder=tmp_path)
    assert json.loads(again.stdout)["dropped"] == told


def test_any_python_may_stand_for_one_that_has_to_move(channel: Sources) -> None:
    """What must be there is asked for in its last form, which was the farthest minor of Python alone."""
    shelf = RecordIndex(["python"], ("conda-forge",), PLATFORM, channel)
    forms = [pin.yaml_text() for pin in pythons_near(Pin(name="python", version="3.11"), shelf)]
    assert forms == ["python=3.12.*", "python=3.10.*", "python"]
    assert [pin.yaml_text() for pin in pythons_near(Pin(name="python", version="3.11"), shelf, only=10)] == forms[1:2]
    exact = Pin(name="python", version="==3.11")
    assert [pin.yaml_text() for pin in pythons_near(exact, shelf)] == forms


@pytest.mark.parametrize(
    ("channels", "order"),
    [
        ("pytorch nvidia conda-forge x", "nvidia conda-forge x pytorch"),
        ("conda-forge pytorch nvidia", ""),
        ("nvidia x conda-forge defaults", "conda-forge nvidia x defaults"),
        ("nvidia/label/cuda-11.8.0 conda-forge", "conda-forge nvidia/label/cuda-11.8.0"),
        ("nvidia conda-forge pytorch", ""),
        ("conda-forge nvidia", ""),
        ("nvidia defaults", ""),
    ],
)
def test_no_channel_hides_the_libraries_of_conda_forge(channels: str, order: str) -> None:
    assert forge_first(channels.split()) == (tuple(order.split()) or None)


@pytest.mark.parametrize("text", ["pytorch==1.12.1", "pytorch=1.12.1", "pytorch=1.12.*", "pytorch=1.12"])
def test_a_release_is_kept_to_however_it_is_written(text: str) -> None:
    assert series_of(parse_spec(text)) == Version("1.12")
    assert series_of(parse_spec("pytorch>=1.12")) is None
    assert series_of(Pin(name="pytorch")) is None


@pytest.mark.slow
def test_a_package_without_a_place_for_its_cuda_build_stays_as_its_cpu_build(channel: Sources, tmp_path: Path) -> None:
    """What requires it is not lost either: the file asks for the CPU build in so many words."""
    text = FILE.format(python="3.12", torch="2.5.1", vision="0.20.1")
    done, made = repaired(tmp_path, channel, f"{text}  - tensorflow=2.18\n  - of-tensorflow\n")
    assert pins(made)["tensorflow"] == "tensorflow=2.18.*=*cpu*"
    assert "of-tensorflow" in pins(made)
    assert ": no CUDA build that the channels have of tensorflow goes with the rest" in done.stderr


def test_a_package_that_is_for_the_cpu_by_its_name_stays(channel: Sources, tmp_path: Path) -> None:
    text = FILE.format(python="3.12", torch="2.5.1", vision="0.20.1") + "  - faiss-cpu==1.7.0\n"
    done, made = repaired(tmp_path, channel, text)
    assert pins(made)["faiss-cpu"].startswith("faiss-cpu>=1.7.0")
    assert "libfaiss" not in done.stderr


@pytest.mark.slow
def test_an_entry_that_only_repeats_a_name_does_not_free_the_other(channel: Sources, tmp_path: Path) -> None:
    text = FILE.format(python="3.12", torch="2.5.1", vision="0.20.1") + "  - scipy=1.11.2\n  - scipy\n"
    _, made = repaired(tmp_path, channel, text)
    assert [pin.yaml_text() for pin in made.pins if pin.name == "scipy"] == ["scipy=1.11.*"]


@pytest.mark.slow
def test_torchvision_comes_from_pip_where_torch_does(channel: Sources, tmp_path: Path) -> None:
    entries = "[python=3.12, torchvision=0.20.1=py312_cpu, scipy=1.11.3, pip, {pip: ['torch==2.5.1']}]"
    done, made = repaired(tmp_path, channel, f"channels: [pytorch, nvidia, conda-forge]\ndependencies: {entries}\n")
    assert made.pip == ("torch==2.5.1", "torchvision")
    assert "torchvision" not in pins(made)
    assert "replaced  torchvision=0.20.1=py312_cpu by pip: torchvision: torch comes from pip, and the " in done.stderr


def test_a_file_without_torch_gets_none_and_one_for_the_cpu_stays_one(channel: Sources, tmp_path: Path) -> None:
    _, made = repaired(tmp_path, channel, "channels: [conda-forge]\ndependencies: [python=3.10, numpy=1.25.0]\n")
    assert set(pins(made)) == {"python", "numpy"}
    text = "channels: [conda-forge]\ndependencies: [python=3.12, pytorch=2.5.1=cpu_py312_9, numpy=1.25.0]\n"
    done, made = repaired(tmp_path, channel, text)
    assert "cpu" in pins(made)["pytorch"], done.stderr
    assert "cuda-version" not in pins(made)


def test_a_channel_that_has_what_the_others_lack_is_added_behind_them(channel: Sources, tmp_path: Path) -> None:
    text = "channels: [pytorch, nvidia]\ndependencies: [python=3.12, pytorch=2.5.1, pytorch-cuda=12.1, mkl<2024.1]\n"
    done, made = repaired(tmp_path, channel, text)
    assert made.channels == ("pytorch", "nvidia", "conda-forge")
    assert "added     channels conda-forge: the file's channels do not have everything that it lists" in done.stderr


@collect(
    ("conda", "pip", "expected"),
    [
        ("numpy=2.1.0", "legacy==1.0", ("numpy=2.1.0", "legacy==2.0")),
        ("scipy", "legacy==2.0", ("scipy", "legacy==2.0")),
    ],
)
def test_a_pin_of_pip_that_conda_contradicts_moves(conda: str, pip: str, expected: tuple[str, str]) -> None:
    found = Finding(
        code="CU510",
        severity="error",
        subject="legacy",
        message="",
        edits=(FileEdit(how="write", entries=(expected[1],), pip=True),),
    )
    spec = EnvironmentSpec(name="", channels=("conda-forge",), pins=(parse_spec(conda),), pip=(pip,))
    made, _ = obeyed(spec, [found])
    assert (*(pin.yaml_text() for pin in made.pins), *made.pip) == expected


def test_a_conflict_of_pip_with_conda_is_resolved(channel: Sources, server: Server, tmp_path: Path) -> None:
    text = "channels: [conda-forge]\ndependencies: [python=3.12, pip, numpy=2.1.0, {pip: [legacy==1.0]}]\n"
    done, made = repaired(tmp_path, channel, text, url=server.url)
    assert made.pip == ("legacy==2.0",)
    assert "replaced  pip: legacy==1.0 by legacy==2.0: pip: " in done.stderr


def test_a_release_that_only_pip_has_gives_way_to_that_of_conda(
    channel: Sources, server: Server, tmp_path: Path
) -> None:
    text = "channels: [conda-forge]\ndependencies: [python=3.12, pip, of-numpy, {pip: [numpy==2.5.0]}]\n"
    done, made = repaired(tmp_path, channel, text, url=server.url)
    assert made.pip == ("numpy",)
    assert "kept      of-numpy" in done.stderr
    because = "pip: the environment file requires numpy==2.5.0, and conda's numpy is "
    assert f"replaced  pip: numpy==2.5.0 by numpy: {because}" in done.stderr


def test_lines_that_pip_does_not_take_are_written_as_it_does(channel: Sources, server: Server, tmp_path: Path) -> None:
    lines = '"legacy numpy", "--pre legacy numpy", "not a requirement=="'
    text = f"channels: [conda-forge]\ndependencies: [python=3.12, pip, numpy, {{pip: [{lines}]}}]\n"
    done, made = repaired(tmp_path, channel, text, url=server.url)
    assert sorted(made.pip) == ["--pre", "legacy", "numpy"]
    assert "replaced  pip: legacy numpy by legacy, numpy: several names are on one line" in done.stderr
    assert "dropped   pip: not a requirement==: pip: not a requirement== cannot be locked" in done.stderr


def test_the_lines_for_pip_that_a_conflict_names_give_up_their_releases_one_after_the_other() -> None:
    lines = ("first==1.0", "second[extra]==2.0 ; python_version > '3'", "third==3.0", "--no-index")
    spec = EnvironmentSpec(name="", channels=("conda-forge",), pins=(), pip=lines)
    evidence = ("Because first==1.0 depends on base>=2 and you require second==2.0, ...",)
    found = Finding(code="CU510", severity="error", subject="first", message="", evidence=evidence)
    once, _ = obeyed(spec, [loosening(spec, found)])
    assert once.pip == ("first", *lines[1:])
    twice, _ = obeyed(once, [loosening(once, found)])
    assert [text.split(";")[0].strip() for text in twice.pip] == ["first", "second[extra]", "third==3.0", "--no-index"]
    assert loosening(twice, found) == found
    mended = replace(found, edits=(FileEdit(how="remove", entries=("first==1.0",), pip=True),))
    assert loosening(spec, mended) == mended


def test_what_is_in_the_way_is_named(channel: Sources, tmp_path: Path) -> None:
    text = "channels: [conda-forge]\ndependencies: [python=3.12, pip, {pip: ['torch==2.3.1']}]\n"
    host = ("--gpu", "A100", "--driver", "390.48", "--glibc", "2.35")
    (tmp_path / "environment.yml").write_text(text)
    mirrors = [word for item in channel.mirrors for word in ("--mirror", f"{item.origin}={item.target}")]
    done = run(*("lock", "--repair", "-o", "new.yml", *host, *mirrors, "--allow", "CU501"), folder=tmp_path)
    assert done.returncode == 1
    assert "in the way: pip: torch==2.3.1: " in done.stderr
    assert "no change to these entries gives a file that can be locked" in done.stderr
    told = run("lock", "--repair", "-o", "new.yml", *host, *mirrors, "--allow", "CU501", "--json", folder=tmp_path)
    assert {item["entry"] for item in json.loads(told.stdout)["obstacles"]} == {"pip: torch==2.3.1"}
    assert not (tmp_path / "new.yml").exists()


@collect(
    ("entry", "forms"),
    [
        ("numpy", ["numpy"]),
        ("numpy>=1.2,<2", ["numpy>=1.2,<2", "numpy"]),
        ("numpy=1.2.3", ["numpy=1.2.3", "numpy=1.2.*", "numpy>=1.2.3,<2", "numpy>=1.2.3", "numpy"]),
        ("numpy=1.2=h1_0", ["numpy=1.2=h1_0", "numpy=1.2", "numpy>=1.2,<2", "numpy>=1.2", "numpy"]),
        (
            "ca-certificates=2022.4.26",
            ["ca-certificates=2022.4.26", "ca-certificates=2022.4.*", "ca-certificates>=2022.4.26", "ca-certificates"],
        ),
    ],
)
def test_the_forms_of_an_entry(entry: str, forms: list[str]) -> None:
    assert list(dict.fromkeys(pin.yaml_text() for pin in forms_of(parse_spec(entry)))) == forms


def test_a_cuda_build_stays_one_as_long_as_there_is_one() -> None:
    forms = [pin.yaml_text() for pin in forms_of(parse_spec("torchvision=0.13.1=py38_cu113"))]
    assert forms[1] == "torchvision=0.13.1=*cu*"
    assert forms.index("torchvision=*=*cu*") < forms.index("torchvision=0.13.1")


def test_whom_the_solver_blames() -> None:
    one = "Cannot solve the request because of: tool * cannot be installed because there are no viable options:"
    many = "Cannot solve the request because of: The following packages are incompatible\n├─ a ==1 can be\n└─ B >2 is"
    told = [blamed(Unsatisfiable(platform="linux-64", missing=(), text=text)) for text in (one, many)]
    assert "tool" in told[0]
    assert {"a", "b"} <= told[1]


@pytest.fixture(scope="module")
def hiding(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    """The channel of torch has an old library, which hides the one that a package of conda-forge requires."""
    depends = (PY[10], "pytorch-cuda 12.1.*", "jpeg")
    torch = pkg("pytorch", "2.4.0", "py3.10_cuda12.1_cudnn9.1.0_0", depends=depends)
    forge = [
        *(pkg("python", "3.10.14"), pkg("mkl", "2023.2.0"), pkg("numpy", "1.26.4", "py310_0", depends=(PY[10],))),
        *(pkg("jpeg", "9"), pkg("images", "4.1", depends=("jpeg >=9",)), pkg("pytorch", "2.4.0", "cpu_py310_0")),
    ]
    own = [torch, pkg("pytorch-cuda", "12.1"), pkg("jpeg", "8")]
    return write(tmp_path_factory.mktemp("hiding"), {"pytorch": own, "conda-forge": forge})


def test_a_channel_that_hides_a_library_comes_last(hiding: Sources, tmp_path: Path) -> None:
    text = "channels: [pytorch, conda-forge]\ndependencies: [python=3.10, pytorch=2.4.0, numpy=1.26.4, images=4]\n"
    done, made = repaired(tmp_path, hiding, text)
    assert made.channels == ("conda-forge", "pytorch")
    assert pins(made)["images"] == "images=4"
    assert pins(made)["pytorch"].startswith("pytorch::pytorch=2.4.0")
    assert "the channel pytorch has old libraries, which hide those" in done.stderr
    assert "dropped" not in done.stderr


class _Shelf:
    """Records of all releases of each package."""

    def has(self, pin: Pin) -> bool:
        return bool(pin.name)


@collect(("clash", "kept"), [((), 60), (("p7",), 59), (("p7", "p30", "p59"), 57)])
def test_of_many_entries_only_those_go_that_have_no_place(clash: tuple[str, ...], kept: int) -> None:
    """A release that cannot be had costs no entry, and few solves find what can."""
    asked = 0

    def able(pin: Pin) -> bool:
        return pin.name not in clash and not (pin.name == "p12" and pin.version)

    def ask(pins: Sequence[Pin], choices: Sequence[Choice]) -> Solved | Unsatisfiable:
        nonlocal asked
        asked += 1
        taken = [next((n for n, some in enumerate(each) if all(map(able, some))), None) for each in choices]
        if not all(map(able, pins)) or None in taken:
            return Unsatisfiable(platform="linux-64", missing=(), text="")
        there = [*pins, *(pin for each, n in zip(choices, taken, strict=True) for pin in each[n or 0])]
        return Solved(solution=_solution(there), taken=tuple(n or 0 for n in taken))

    entries = entries_of([Pin(name=f"p{number}", version="2") for number in range(60)], _Shelf())
    found = relax(entries, ask)
    assert found
    stands = {pin.name: pin for pin in found.pins if pin}
    assert len(stands) == kept
    assert not set(stands) & set(clash)
    assert stands["p12"].version == ""
    assert sum(pin.version == "2" for pin in stands.values()) == kept - 1
    assert asked <= 10


def test_what_moves_with_torch_says_why() -> None:
    """pytorch-cuda=12.4 became 12.1 without a word."""
    pins = tuple(map(parse_spec, ("python=3.11", "pytorch=2.3.0", "pytorch-cuda=2.4", "scipy", "pip=19.2")))
    solution = _solution([Pin(name="pytorch", version="2"), Pin(name="pytorch-cuda"), Pin(name="pip", version="25.0")])
    made = with_core(Draft(spec=EnvironmentSpec(name="", channels=(), pins=pins)), pins[1], solution, shipped_base())
    assert dict(made.why)["pytorch-cuda"] == "the release that goes with that torch"
    assert dict(made.why)["pip"] == "the release that was found beside that torch"
    assert "python" not in dict(made.why)


def test_the_release_of_another_entry_that_excludes_a_package_is_named() -> None:
    """A file named mkl, whose bound is for torch, and heard that no file with mkl-service was found."""
    texts = ("python=3.11", "pytorch=2.0.1", "llvm-openmp=14.0.6", "pytorch::mkl<2024.1", "scipy=1.11")
    spec = EnvironmentSpec(name="", channels=("conda-forge",), pins=tuple(map(parse_spec, texts)))

    def able(pins: Sequence[Pin]) -> bool:
        there = {(pin.name, pin.version) for pin in pins}
        excluded = {("mkl", "<2024.1"), ("llvm-openmp", "14.0.6")}
        return ("mkl-service", "") not in there or not excluded & there

    def ask(pins: Sequence[Pin], choices: Sequence[Choice]) -> Solved | Unsatisfiable:
        if not able(pins):
            return Unsatisfiable(platform="linux-64", missing=(), text="")
        taken = [next(n for n, some in enumerate(each) if able([*pins, *some])) for each in choices]
        return Solved(solution=_solution(pins), taken=tuple(taken))

    told = odds(spec, "mkl-service", ask, lambda *_: pytest.fail("no record is looked up"))
    assert told == "no release of mkl-service that the channels have goes with mkl<2024.1"


def test_a_name_that_is_listed_twice_is_one_package() -> None:
    def ask(pins: Sequence[Pin], choices: Sequence[Choice]) -> Solved:
        there = {pin.name: pin for pin in [*(pin for each in choices for pin in each[0]), *pins]}
        return Solved(solution=_solution([*there.values()]), taken=(0,) * len(choices))

    found = relax(entries_of([Pin(name="a", version="1.0.0"), Pin(name="a")], _Shelf()), ask)
    assert found
    assert [pin.name for pin in found.pins if pin] == ["a", "a"]


def _solution(pins: Sequence[Pin]) -> Solution:
    found = [
        LockedPackage(
            name=pin.name,
            version="2" if pin.version else "1",
            build="0",
            subdir="noarch",
            channel="https://conda.anaconda.org/conda-forge",
            url=f"https://conda.anaconda.org/conda-forge/noarch/{pin.name}-1-0.conda",
            md5=None,
            sha256=None,
        )
        for pin in pins
    ]
    return Solution(platform="linux-64", packages=tuple(found), virtual_packages=(), solver="")


@collect(
    ("edit", "words", "entries"),
    [
        (
            FileEdit(how="add", entries=("mkl<2024.1", "numpy<2")),
            "add to dependencies: mkl<2024.1, numpy<2",
            {"mkl<2024.1", "numpy<2"},
        ),
        (
            FileEdit(how="write", entries=("conda-forge::numpy=1.26.4",)),
            "write conda-forge::numpy=1.26.4",
            {"conda-forge::numpy=1.26.4"},
        ),
        (
            FileEdit(how="write", entries=("numpy=2.3",), near=True),
            "write numpy=2.3",
            {"numpy=2.3"},
        ),
        (
            FileEdit(how="write", entries=("numba",), over="numpy"),
            "use numba instead of numpy",
            {"numba"},
        ),
        (
            FileEdit(how="remove", entries=("numpy=2.1",)),
            "remove numpy=2.1 from the dependencies",
            set(),
        ),
        (
            FileEdit(how="write", entries=("torch==2.7.0+cu128",), pip=True),
            "write torch==2.7.0+cu128 in the pip part",
            {"numpy=2.1", "torch==2.7.0+cu128", "torchvision"},
        ),
        (
            FileEdit(how="add", entries=("--extra-index-url https://example.org",), pip=True),
            "add to the pip part: --extra-index-url https://example.org",
            {"numpy=2.1", "--extra-index-url https://example.org", "torch==2.0", "torchvision==0.15"},
        ),
        (
            FileEdit(how="remove", entries=("torch==2.0",), pip=True),
            "remove torch==2.0 from the pip part",
            {"numpy=2.1", "torchvision==0.15"},
        ),
    ],
)
def test_an_edit_is_obeyed_and_its_words_are_the_fix(edit: FileEdit, words: str, entries: set[str]) -> None:
    spec = EnvironmentSpec(
        name="", channels=(), pins=(Pin(name="numpy", version="2.1"),), pip=("torch==2.0", "torchvision==0.15")
    )
    found = Finding(code="CU116", severity="error", subject="numpy", message="", edits=(edit,))
    assert found.fix == words
    made, asked = obeyed(spec, [found])
    pip = () if edit.pip else spec.pip
    assert {*(pin.yaml_text() for pin in made.pins), *made.pip} == {*entries, *pip}
    assert all(pin in made.pins for pin in asked)
    assert obeyed(spec, [replace(found, severity="warning")]) == (spec, ())


@pytest.mark.slow
@pytest.mark.parametrize("seconds", quick_and_slow(100, 0), ids=["no time left", "time enough"])
def test_a_repair_says_how_far_it_is_and_ends(
    seconds: int, channel: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D22: each step is told; and where every solve costs all the time there is, few are made, and the file locks."""
    entries = "".join(f"  - {name}\n" for name in ("old-one", "new-one", "of-old-torch", "first-user", "second-user"))
    path = tmp_path / "environment.yml"
    path.write_text(FILE.format(python="3.12", torch="2.5.1", vision="0.20.1") + entries)
    solves: list[object] = []

    def counted(*arguments: object, **named: object) -> object:
        solves.append(arguments)
        return choose(*arguments, **named)  # type: ignore[arg-type] # as it was called

    monkeypatch.setattr(choosing, "choose", counted)
    told: list[str] = []
    request = LockRequest(path=path, host=HostOptions(hosts=("rtx4090-535",), environ={}), sources=channel)
    found = repair(request, shipped_base(), progress=told.append, clock=lambda: float(seconds * len(solves)))
    assert found.spec is not None
    assert {"pytorch", "torchvision", "python"} <= set(pins(found.spec))
    assert any(text.startswith("looking for what can stay beside") for text in told)
    assert len(told) >= len(solves), "a step of many solves tells nothing"
    assert len(solves) <= (50 if seconds == 0 else 25)


def test_a_repair_solves_no_conda_part_twice(
    channel: Sources, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the pip part alone gives way, conda's packages stay, and so does the answer on them."""
    path = tmp_path / "environment.yml"
    path.write_text("channels: [conda-forge]\ndependencies: [python=3.12, pip, numpy=2.1.0, {pip: [legacy==1.0]}]\n")
    asked: list[object] = []
    resolved: list[object] = []
    solve, compile_ = engines.solve_with, pip_module._compile

    def counted(engine: Engine, question: SolveRequest, *more: object) -> object:
        asked.append(([pin.match_spec() for pin in question.spec.pins], question.channels, question.virtual_packages))
        return solve(engine, question, *more)  # type: ignore[arg-type] # as it was called

    def watched(*arguments: object, **named: object) -> object:
        resolved.append(arguments)
        return compile_(*arguments, **named)  # type: ignore[arg-type] # as it was called

    monkeypatch.setattr(lock_module, "solve_with", counted)
    monkeypatch.setattr(pip_module, "_compile", watched)
    variables = {"UV_DEFAULT_INDEX": f"{server.url}/simple", "NO_PROXY": "*", "UV_HTTP_RETRIES": "0"}
    host = HostOptions(hosts=("rtx4090-535",), environ={**os.environ, "HOME": str(tmp_path), **variables})
    found = repair(LockRequest(path=path, host=host, sources=channel), shipped_base())
    assert found.spec is not None
    assert pins(found.spec)["numpy"] == "numpy=2.1.0"
    assert found.spec.pip == ("legacy==2.0",)
    assert len(resolved) > 1, "the pip part never gave way"
    assert all(question not in asked[:place] for place, question in enumerate(asked))


@pytest.mark.parametrize(("name", "solves"), [("open-one", 1), ("of-newer-driver", 2)])
def test_a_newer_driver_is_tried_only_where_the_driver_is_in_the_conflict(
    name: str, solves: int, channel: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "environment.yml"
    path.write_text(f"channels: [conda-forge]\ndependencies: [python=3.12, {name}]\n")
    asked: list[object] = []
    solve = engines.solve_with

    def counted(*arguments: object) -> object:
        asked.append(arguments)
        return solve(*arguments)  # type: ignore[arg-type] # as it was called

    monkeypatch.setattr(lock_module, "solve_with", counted)
    request = LockRequest(path=path, host=HostOptions(hosts=("rtx4090-535",), environ={}), sources=channel)
    answer = lock_module.lock(request, shipped_base())
    assert answer.lock is None
    assert len(asked) == solves


@pytest.mark.slow
def test_a_terminal_shows_what_a_repair_is_at(channel: Sources, tmp_path: Path) -> None:
    """D22: not only the result, half a minute later."""
    text = FILE.format(python="3.12", torch="2.5.1", vision="0.20.1") + "  - of-old-torch\n  - of-new-torch\n"
    (tmp_path / "environment.yml").write_text(text)
    mirrors = [word for item in channel.mirrors for word in ("--mirror", f"{item.origin}={item.target}")]
    words = [sys.executable, "-m", "cuenv", "lock", "--repair", "-o", "new.yml", *HOST, *mirrors, "--no-config"]
    terminal = Terminal(words, tmp_path, {**os.environ, "HOME": str(tmp_path)})
    try:
        for step in (
            "choosing what can stay: ",
            "looking for what can stay beside ",
            "finding what of-old-torch conflicts with",
        ):
            terminal.wait_for(re.escape(step))
        terminal.wait_for(r"wrote +new\.yml")
    finally:
        terminal.close()
