"""The lock for `conda env create`: an ordinary environment file in which nothing is left to choose."""

from __future__ import annotations

from dataclasses import replace

import yaml
from hypothesis import given
from hypothesis import strategies as st
from rattler import MatchSpec, PackageRecord
from rattler.package import BuildString

from cuenv.lockfile.formats.env_lock_yml import render
from cuenv.solve import environment_yml
from cuenv.solve.environment_spec import EnvironmentSpec, Pin
from cuenv.solve.model import LockedPackage, Solution

BASE = "https://conda.anaconda.org"


def package(name: str, version: str, build: str, channel: str = f"{BASE}/conda-forge") -> LockedPackage:
    return LockedPackage(
        name=name,
        version=version,
        build=build,
        subdir="linux-64",
        channel=channel,
        url=f"{channel}/linux-64/{name}-{version}-{build}.conda",
        md5="0" * 32,
        sha256=None,
    )


def solution(*packages: LockedPackage) -> Solution:
    return Solution(platform="linux-64", packages=packages, virtual_packages=(), solver="")


SPEC = EnvironmentSpec(
    name="dev",
    channels=("conda-forge", "pytorch"),
    pins=(Pin(name="pytorch", version="2.3.1", build="*cuda11.8*", why=("a reason",)),),
    platforms=("linux-64",),
    pip=("vllm==0.11.1",),
    variables={"TORCH_CUDA_ARCH_LIST": "8.0"},
    header=("why",),
)
SOLUTION = solution(
    package("x264", "1!164.3095", "h166bdaf_2"),
    package("pytorch", "2.3.1", "py3.10_cuda11.8_cudnn8.7.0_0", f"{BASE}/pytorch"),
    package("cuda-nvcc", "11.8.89", "0", f"{BASE}/nvidia/label/cuda-11.8.0"),
    package("tool", "1.0", "h1_0", "https://conda.example.org/team"),
    package("7zip", "16.02", "9e5_1"),
)
GOLDEN = """\
# made for linux-64
name: dev
channels:
  - conda-forge
  - pytorch
  - https://conda.example.org/team
  - nvidia/label/cuda-11.8.0
dependencies:
  - conda-forge::7zip=16.02=9e5_1
  - nvidia/label/cuda-11.8.0::cuda-nvcc=11.8.89=0
  - pytorch::pytorch=2.3.1=py3.10_cuda11.8_cudnn8.7.0_0
  - https://conda.example.org/team::tool=1.0=h1_0
  - conda-forge::x264=1!164.3095=h166bdaf_2
  - pip:
      - "vllm==0.11.1"
variables:
  TORCH_CUDA_ARCH_LIST: "8.0"
"""


def test_written_as_agreed_and_the_same_twice() -> None:
    assert render(SPEC, SOLUTION, head=("made for linux-64",)) == GOLDEN
    assert render(SPEC, replace(SOLUTION, packages=SOLUTION.packages[::-1]), head=("made for linux-64",)) == GOLDEN


def test_read_back_as_an_environment_file() -> None:
    spec, _ = environment_yml.parse(GOLDEN, "x.lock.yml")
    assert {(pin.channel, pin.name, pin.version, pin.build) for pin in spec.pins} == {
        (item.channel_name, item.name, item.version, item.build) for item in SOLUTION.packages
    }
    assert spec.variables == SPEC.variables


def test_each_entry_is_one_package() -> None:
    for text in yaml.safe_load(GOLDEN)["dependencies"][:-1]:
        spec = MatchSpec(text.rpartition("::")[2])
        found = [item for item in SOLUTION.packages if spec.matches(record(item.name, item.version, item.build))]
        assert len(found) == 1
        item = found[0]
        assert not spec.matches(record(item.name, item.version + ".1", item.build))
        assert not spec.matches(record(item.name, item.version, item.build + "0"))


def record(name: str, version: str, build: str) -> PackageRecord:
    return PackageRecord(name, version, BuildString(build), 0, "linux-64")


def test_credentials_are_never_written() -> None:
    secret = "https://u:s3cret@conda.example.org/t/tk-42/team"
    text = render(replace(SPEC, channels=(secret,)), solution(package("a", "1", "0", secret)), head=())
    assert "s3cret" not in text
    assert "tk-42" not in text
    assert yaml.safe_load(text)["channels"] == ["https://conda.example.org/team"]


names = st.from_regex(r"[a-z0-9_][a-z0-9._-]{0,8}", fullmatch=True).filter(lambda name: ".conda" not in name)
versions = st.sampled_from(["1.0", "1e3", "0o17", "2024.01.05", "1!2.3", "1.2+cu129", "12e34", "1_", "v1"])
builds = st.sampled_from(["0", "1e3", "py_0", "h1_0", "cuda129_py312_0", "py3.10_cuda11.8_0", "0o17", "a+b"])


@given(st.lists(st.builds(package, names, versions, builds), unique_by=lambda item: item.name, max_size=6))
def test_every_package_comes_back_exactly(packages: list[LockedPackage]) -> None:
    text = render(SPEC, solution(*packages), head=("x",))
    again, _ = environment_yml.parse(text, "x")
    found = {(pin.channel, pin.name, pin.version, pin.build) for pin in again.pins}
    assert found == {("conda-forge", item.name, item.version, item.build) for item in packages}
