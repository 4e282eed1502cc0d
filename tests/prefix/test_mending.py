"""Each fix that a check prints cures when it is run: an environment with a fault, the command, and a second look."""

from __future__ import annotations

import atexit
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from venv import EnvBuilder

import pytest
import uv
from packaging.version import Version

from cases import collect, quick
from channel_builder import PLATFORM, write
from commands import in_shell
from cuenv.core.findings import Finding
from cuenv.demo.io.sample import Package
from cuenv.host.select import HostOptions, host_facts
from cuenv.prefix.check import PrefixCheck, check_prefix
from cuenv.prefix.fixes import rebuild_for_torch
from cuenv.prefix.io.conda_meta import pins_torch
from cuenv.prefix.io.prefix import find_prefix
from cuenv.resolver.wheels import wheel_for
from given import base
from pip_index import pip_of_this_python
from prefixes import installed, lock_file, package, put, shared_object, wheel_file

SITE = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
GPU = ("8.9",)
DRIVER = "570.124.06"


def distribution(name: str, number: str, files: Mapping[str, str], installer: str = "conda") -> dict[str, str]:
    """A distribution with a true RECORD, by path inside an environment."""
    info = f"{name}-{number}.dist-info"
    texts = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n",
        f"{info}/INSTALLER": f"{installer}\n",
    }
    texts[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in (*texts, f"{info}/RECORD"))
    return {f"{SITE}/{path}": text for path, text in texts.items()}


def torch(cuda: str | None) -> dict[str, str]:
    """What torch says about itself."""
    return {"torch/version.py": f"__version__ = '2.7.1'\ncuda: Optional[str] = {cuda!r}\n", "torch/__init__.py": ""}


def packages() -> list[Package]:
    """A small environment of conda's with a CUDA torch."""
    libtorch = shared_object("libtorch_cuda.so", ("libcudart.so.12", "libcudnn.so.9"))
    return [
        package("python", "3.12.4", files={"bin/about-python": "x"}),
        package(
            "pytorch",
            "2.7.1",
            "cuda129_py312_0",
            files={**distribution("torch", "2.7.1", torch("12.9")), "lib/libtorch_cuda.so": libtorch},
        ),
        package("numpy", "2.3.1", "py312_0", files=distribution("numpy", "2.3.1", {"numpy/__init__.py": "conda\n"})),
        package("requests", "2.32.0", files=distribution("requests", "2.32.0", {"requests/__init__.py": "conda\n"})),
        package("cuda-version", "12.9"),
        package("cuda-cudart", "12.9.79", files={"lib/libcudart.so.12": shared_object("libcudart.so.12")}),
        package("libcudnn", "9.8.0.87", files={"lib/libcudnn.so.9": shared_object("libcudnn.so.9")}),
    ]


def surroundings(folder: Path, tools: Path, wheels: Path) -> dict[str, str]:
    """The variables of a user without network, and cuenv among the tools."""
    tools.mkdir()
    mirror = f'conda-forge="{folder}/channels/conda-forge"'
    program = tools / "cuenv"
    program.write_text(f'#!/bin/sh\nexec {in_shell()} "$@" --mirror {mirror}\n')
    program.chmod(0o755)
    return {
        "PATH": f"{tools}:{Path(uv.find_uv_bin()).parent}:/usr/bin:/bin",
        "HOME": str(folder),
        "CONDA_OVERRIDE_CUDA": "",
        "STAND_IN_CHANNELS": str(folder / "channels"),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "UV_OFFLINE": "1",
        "UV_FIND_LINKS": str(wheels),
        "UV_CACHE_DIR": str(folder / "uv-cache"),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }


class Place:
    """An environment that a test spoils, with a lock, clients and wheels beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env, self.solution = installed(folder, packages())
        write(folder / "channels", {"more": [package("scipy", "1.0", files={"lib/scipy": "x"})]})
        self.lock = lock_file(folder / "conda-lock.yml", self.solution)
        self.wheels = folder / "wheels"
        self.wheels.mkdir()
        self.tools = folder / "tools"
        self.environ = surroundings(folder, self.tools, self.wheels)

    def make_python(self) -> None:
        """Give the environment a real Python; it is no venv to cuenv, as it has conda-meta."""
        EnvBuilder(symlinks=True).create(self.env)

    def client(self, name: str) -> None:
        script = Path(__file__).parents[1] / "stand_in_conda.py"
        program = self.tools / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" {name} "{self.folder}/log" "$@"\n')
        program.chmod(0o755)

    def checked(self, *, lock: bool = True) -> PrefixCheck:
        options = HostOptions(gpus=GPU, driver=DRIVER, glibc="2.35", platform=PLATFORM, environ=self.environ)
        return check_prefix(self.env, options, base(), lock=self.lock if lock else None)

    def findings(self, *codes: str, lock: bool = True) -> list[Finding]:
        return [item for item in self.checked(lock=lock).report.findings if item.code in codes]

    def shell(self, command: str) -> None:
        done = subprocess.run(
            ["bash", "-c", command], env=self.environ, capture_output=True, text=True, cwd=self.folder, check=False
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    found = Place(tmp_path)
    found.make_python()
    return found


def pip_over(place: Place) -> None:
    """The commonest accident: pip takes conda's files away and leaves conda's record."""
    wheel = wheel_file(place.wheels, "numpy", "2.2.0", {"numpy/__init__.py": "pip\n"})
    place.shell(f"uv pip install -q --python {place.env}/bin/python --no-deps {wheel}")
    assert (place.env / SITE / "numpy/__init__.py").read_text() == "pip\n"


def pip_same(place: Place) -> None:
    """The same version, over conda's."""
    wheel = wheel_file(place.wheels, "numpy", "2.3.1", {"numpy/__init__.py": "pip\n"})
    place.shell(f"uv pip install -q --python {place.env}/bin/python --no-deps --reinstall {wheel}")


def beside(place: Place) -> None:
    put(place.env, distribution("requests", "2.33.0", {"requests/__init__.py": "pip\n"}, "pip"))


def gone(place: Place) -> None:
    shutil.rmtree(place.env / SITE / "requests-2.32.0.dist-info")


def cpu_torch(place: Place) -> None:
    wheel = wheel_file(
        place.wheels, "torch", "2.7.1+cpu", {"torch/version.py": "__version__ = '2.7.1+cpu'\ncuda = None\n"}
    )
    place.shell(f"uv pip install -q --python {place.env}/bin/python --no-deps {wheel}")


def missing(place: Place) -> None:
    stand_in(place, "remove", "libcudnn")


def other_build(place: Place) -> None:
    for path in (place.env / "conda-meta").glob("numpy-*.json"):
        path.write_text(path.read_text().replace('"py312_0"', '"py312_1"').replace("py312_0.tar", "py312_1.tar"))


def extra(place: Place) -> None:
    stand_in(place, "install", "https://conda.anaconda.org/more/linux-64/scipy-1.0-0.tar.bz2")


def damaged(place: Place) -> None:
    next((place.env / "conda-meta").glob("requests-*.json")).write_text("{")


def cut(place: Place) -> None:
    for name in ("lib/libcudnn.so.9",):
        (place.env / name).unlink()
        (place.env / name).write_bytes(b"\x7fELF")


def without_file(place: Place) -> None:
    (place.env / "lib/libcudnn.so.9").unlink()


def stand_in(place: Place, verb: str, what: str) -> None:
    """Do something to the environment, whatever client the test has."""
    script = str(Path(__file__).parents[1] / "stand_in_conda.py")
    words = [sys.executable, script, "conda", f"{place.folder}/log", verb, "-y", "--force", "-p", str(place.env), what]
    subprocess.run(words, env=place.environ, check=True, capture_output=True)


FAULTS = {
    "CU204": [pip_over, pip_same, beside],
    "CU205": [gone],
    "CU209": [cpu_torch],
    "CU201": [missing],
    "CU202": [other_build],
    "CU203": [extra],
    "CU207": [damaged],
    "CU231": [cut],
    "CU215": [without_file],
}


CASES = [(code, fault, "conda") for code, faults in FAULTS.items() for fault in faults]
CASES += [(code, FAULTS[code][0], "micromamba") for code in ("CU204", "CU209", "CU207", "CU215")]
CASES += [(code, FAULTS[code][0], "none") for code in ("CU204", "CU205", "CU202")]
QUICK = [("CU209", cpu_torch, "conda"), ("CU204", pip_over, "micromamba"), ("CU205", gone, "none")]


@pytest.mark.slow
@pytest.mark.parametrize(("code", "spoil", "client"), quick(CASES, *QUICK))
def test_the_fix_of_a_conda_environment_cures(
    place: Place, code: str, spoil: Callable[[Place], None], client: str
) -> None:
    """By conda, by micromamba, and where none is there by making the environment anew from its lock."""
    if client != "none":
        place.client(client)
    assert place.findings(code) == []
    spoil(place)
    found = place.findings(code)
    assert found, place.checked().report.findings
    for finding in found:
        assert finding.fix
        place.shell(finding.fix)
    left = [(item.code, item.message) for item in place.checked().report.findings if item.severity != "info"]
    assert left == []
    assert (place.env / SITE / "numpy/__init__.py").read_text() == "conda\n"
    assert "cuda: Optional[str] = '12.9'" in (place.env / SITE / "torch/version.py").read_text()


# wheels


@cache
def venv_with_pip() -> Path:
    """A venv with this Python's pip, made once, to be copied. Its scripts are not used, ``-m pip`` is.

    All copies share the files of pip, which Python thus compiles once.
    """
    pip = pip_of_this_python()
    folder = Path(tempfile.mkdtemp(prefix="cuenv-venv-"))
    atexit.register(shutil.rmtree, folder)
    EnvBuilder(symlinks=True).create(folder / "env")
    for part in (pip, *pip.parent.glob("pip-*.dist-info")):
        shutil.copytree(part, folder / part.name)
        (folder / "env" / SITE / part.name).symlink_to(folder / part.name)
    return folder / "env"


class Venv(Place):
    """A venv with wheels, and more of them to install from."""

    def __init__(self, folder: Path, *, pip: bool) -> None:
        self.folder, self.env, self.lock = folder, folder / "env", folder / "no-lock"
        self.wheels = folder / "wheels"
        self.wheels.mkdir()
        self.tools = folder / "tools"
        self.environ = surroundings(folder, self.tools, self.wheels)
        if pip:
            shutil.copytree(venv_with_pip(), self.env, symlinks=True)
        else:
            EnvBuilder(symlinks=True).create(self.env)

    def add(self, name: str, number: str, files: Mapping[str, str | bytes], *requires: str) -> None:
        self.shell(
            f"uv pip install -q --python {self.env}/bin/python --no-deps {self.offer(name, number, files, *requires)}"
        )

    def offer(self, name: str, number: str, files: Mapping[str, str | bytes], *requires: str) -> Path:
        return wheel_file(self.wheels, name, number, files, requires)

    @property
    def site(self) -> Path:
        return self.env / SITE


CUDNN = "nvidia/cudnn/lib/libcudnn.so.9"


@pytest.fixture(params=["uv", pytest.param("pip", marks=pytest.mark.slow)])
def venv(tmp_path: Path, request: pytest.FixtureRequest) -> Venv:
    """torch 2.9.1 as PyPI has it, with wheels of NVIDIA's that it pins."""
    made = Venv(tmp_path, pip=request.param == "pip")
    lib = shared_object("libtorch_cuda.so", ("libcudnn.so.9",))
    files: dict[str, str | bytes] = {
        "torch/version.py": "__version__ = '2.9.1+cu128'\ncuda = '12.8'\n",
        "torch/lib/libtorch_cuda.so": lib,
    }
    made.add("torch", "2.9.1", files, "nvidia-cudnn-cu12==9.10.2.21")
    made.add("nvidia-cudnn-cu12", "9.10.2.21", {CUDNN: shared_object("libcudnn.so.9")})
    made.offer("nvidia-cudnn-cu12", "9.28.0", {CUDNN: shared_object("libcudnn.so.9")})
    assert made.findings("CU213", "CU206", "CU211", "CU231", lock=False) == []
    return made


def cures(venv: Venv, *codes: str) -> None:
    found = venv.findings(*codes, lock=False)
    assert {item.code for item in found} == set(codes)
    for finding in found:
        assert finding.fix
        venv.shell(finding.fix)
    assert venv.findings("CU206", "CU210", "CU211", "CU213", "CU215", "CU230", "CU231", lock=False) == []


def test_a_library_that_is_gone_comes_back_in_the_release_that_torch_pins(venv: Venv) -> None:
    (venv.site / CUDNN).unlink()
    cures(venv, "CU215")
    shutil.rmtree(venv.site / "nvidia")
    shutil.rmtree(venv.site / "nvidia_cudnn_cu12-9.10.2.21.dist-info")
    cures(venv, "CU213")
    assert [item.name for item in venv.site.glob("nvidia_cudnn*")] == ["nvidia_cudnn_cu12-9.10.2.21.dist-info"]


def test_a_library_that_torch_does_not_pin_is_put_right(venv: Venv) -> None:
    venv.add("nvidia-cudnn-cu12", "9.1.0", {CUDNN: shared_object("libcudnn.so.9")})
    cures(venv, "CU213")


@pytest.mark.parametrize("stale", ["2.5.1", "2.10.0"])
def test_a_second_record_of_torch_is_taken_away_and_its_pins_are_nobodys(venv: Venv, stale: str) -> None:
    """What torch pins is said by the record that its files are of, whichever is listed first."""
    info = f"torch-{stale}.dist-info"
    put(
        venv.site,
        {
            f"{info}/METADATA": f"Name: torch\nVersion: {stale}\nRequires-Dist: nvidia-cudnn-cu12==9.1.0.70\n",
            f"{info}/RECORD": f"{info}/METADATA,,\n{info}/RECORD,,\n",
        },
    )
    assert venv.findings("CU213", "CU211", lock=False) == []
    cures(venv, "CU206")
    assert "2.9.1" in (venv.site / "torch/version.py").read_text()


def test_a_spoiled_file_is_brought_again_by_its_owner(venv: Venv) -> None:
    """By RECORD, and not by the folder's name."""
    (venv.site / "torch/lib/libtorch_cuda.so").unlink()
    (venv.site / "torch/lib/libtorch_cuda.so").write_bytes(b"\x7fELF")
    (finding,) = [item for item in venv.checked(lock=False).report.findings if item.code in ("CU231", "CU294")][:1]
    assert (finding.fix or "").endswith(
        f" --force-reinstall --no-deps file://{venv.wheels}/torch-2.9.1-py3-none-any.whl"
    )
    venv.shell(finding.fix or "")
    assert venv.findings("CU231", "CU294", lock=False) == []


def test_nvidias_files_without_a_record_are_removed_and_pip_stays(place: Place) -> None:
    """What no package owns is not a package called pip."""
    place.client("conda")
    put(place.env, {f"{SITE}/nvidia/cuda_runtime/lib/libcudart.so.12": shared_object("libcudart.so.12")})
    (finding,) = place.findings("CU210")
    assert finding.fix == f"rm -r {place.env}/{SITE}/nvidia/cuda_runtime"
    place.shell(finding.fix)
    assert place.findings("CU210") == []


@pytest.mark.slow
@collect(
    ("library", "release", "torch", "expected"),
    [
        ("torchvision", "0.20.1", "2.9.1", " install --force-reinstall --no-deps torchvision==0.24.1"),
        ("torchaudio", "2.5.1", "2.9.1", " install --force-reinstall --no-deps torchaudio==2.9.1"),
        (
            "torchvision",
            "0.20.1",
            "2.9.1+cu126",
            " --no-deps --index-url https://download.pytorch.org/whl/cu126 torchvision==0.24.1",
        ),
        ("pinned", "1.0", "2.9.1", " install --upgrade pinned torch==2.9.1"),
        ("free", "1.0+cu12", "2.9.1", " --no-build-isolation --no-cache-dir --no-binary free free==1.0"),
        ("torchvision", "0.20.1", "2.9.0", " install --upgrade torchvision torch==2.9.0"),  # no row knows it: pip does
    ],
)
def test_a_library_for_another_torch_is_fetched_in_the_release_for_this_one(
    tmp_path: Path, library: str, release: str, torch: str, expected: str
) -> None:
    """Not in the newest, which is made for the newest PyTorch, nor once more as it is."""
    made = Venv(tmp_path, pip=True)
    made.add("torch", torch, {"torch/version.py": f"__version__ = '{torch}'\ncuda = '12.8'\n"})
    made.add(library, release, {}, *(["torch==2.5.1"] if library != "free" else ["torch"]))
    prefix = find_prefix(made.env)
    command = rebuild_for_torch(prefix, library, Version(torch), base().extensions, pins_torch)
    assert command.endswith(expected)


def test_a_library_of_condas_for_another_torch_is_solved_anew_beside_the_torch_that_is_here(place: Place) -> None:
    prefix = find_prefix(place.env)
    command = rebuild_for_torch(prefix, "numpy", Version("2.7.1"), base().extensions, pins_torch)
    asked = "--override-channels -c conda-forge numpy pytorch=2.7.1=cuda129_py312_0"
    assert command == f"CONDA_OVERRIDE_CUDA=12.9 conda install -y --force-reinstall -p {place.env} {asked}"


@collect(
    ("release", "gpus", "driver", "expected"),
    [
        ("2.13.0", ("8.9",), "575.57.08", "2.13.0 cu129"),  # 13.0, which PyPI has, asks for driver 580
        ("2.13.0", ("8.9",), "580.65.06", "2.13.0 cu130"),
        ("2.9.1", ("8.9",), "535.129.03", "2.9.1 cu126"),  # above the driver's 12.2: the lowest, by its major
        ("2.9.1", ("12.0",), "570.124.06", "2.9.1 cu128"),
        ("2.15.0", ("12.0",), "570.124.06", "2.13.0 cu129"),  # what came later holds code for it with CUDA 13 alone
        ("2.5.1", ("8.6",), "470.82.01", "2.5.1 cu118"),
        ("2.13.0", ("8.0",), "450.80.02", "2.7.1 cu118"),
    ],
)
def test_a_cuda_torch_for_a_host_is_one_that_its_driver_and_gpus_run(
    release: str, gpus: tuple[str, ...], driver: str, expected: str
) -> None:
    facts = host_facts(HostOptions(gpus=gpus, driver=driver, platform=PLATFORM, environ={}), base())
    wheel = wheel_for(Version(release), facts, base())
    assert wheel is not None
    assert f"{wheel.version} {wheel.build}" == expected


def test_a_cpu_torch_beside_nvidias_wheels_is_replaced_by_one_for_the_driver(venv: Venv) -> None:
    venv.offer("torch", "2.9.1+cpu", {"torch/version.py": "__version__ = '2.9.1+cpu'\ncuda = None\n"})
    venv.shell(f"uv pip install -q --python {venv.env}/bin/python --no-deps torch==2.9.1+cpu")
    (finding,) = venv.findings("CU209", lock=False)
    assert (finding.fix or "").endswith(" --index-url https://download.pytorch.org/whl/cu128 torch==2.9.1+cu128")
    told = "__version__ = '2.9.1+cu128'\ncuda = '12.8'\n"
    venv.offer("torch", "2.9.1+cu128", {"torch/version.py": told}, "nvidia-cudnn-cu12==9.10.2.21")
    venv.shell(re.sub(r"--index-url \S+", "", finding.fix or ""))  # its index is not here
    assert venv.findings("CU209", "CU213", "CU401", lock=False) == []


def test_nvidias_files_that_a_link_brings_from_elsewhere_are_never_removed(place: Place, tmp_path: Path) -> None:
    """The folder that a link leads to belongs to somebody else."""
    place.client("conda")
    put(tmp_path / "usr", {"lib/libcudart.so.12": shared_object("libcudart.so.12")})
    (place.env / SITE / "nvidia/cuda_runtime").mkdir(parents=True)
    (place.env / SITE / "nvidia/cuda_runtime/lib").symlink_to(tmp_path / "usr/lib")
    (finding,) = place.findings("CU210")
    assert "rm " not in (finding.fix or "")
