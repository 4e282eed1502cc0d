"""Environments for tests: conda prefixes made by the embedded installer, venvs filled by uv, tiny shared objects."""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from venv import EnvBuilder
from zipfile import ZipFile, ZipInfo

import pytest

from channel_builder import PLATFORM, request, write
from commands import know_python
from cuenv.demo.io.sample import Package
from cuenv.install.io.installer import install
from cuenv.lockfile.formats.conda_lock import render
from cuenv.prefix.toolchain.toolchain import library_of
from cuenv.solve.environment_spec import EnvironmentSpec
from cuenv.solve.io.solver import solve
from cuenv.solve.io.sources import Sources
from cuenv.solve.model import Lock, PipLocked, Solution
from given import base

SITE = "lib/python3.12/site-packages"


@lru_cache(maxsize=64)
def shared_object(soname: str, needed: tuple[str, ...] = ()) -> bytes:
    """A real shared object of some kilobytes, made by the compiler and linked to others by name alone."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here to build shared objects")
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for other in needed:
            target = folder / other
            target.write_bytes(shared_object(other))
        out = folder / "made.so"
        words = [compiler, "-shared", "-nostdlib", "-x", "c", "/dev/null", f"-Wl,-soname,{soname}", "-o", str(out)]
        others = ["-x", "none", "-Wl,--no-as-needed", *(str(folder / other) for other in needed)]
        subprocess.run([*words, *others] if needed else words, check=True, capture_output=True)
        return out.read_bytes()


def package(name: str, version: str, build: str = "0", *, files: Mapping[str, bytes | str] | None = None) -> Package:
    """A package of linux-64 with files, text or bytes."""
    content = {path: data.encode() if isinstance(data, str) else data for path, data in (files or {}).items()}
    return Package(name=name, version=version, build=build, subdir=PLATFORM, files=content)


def dist(name: str, version: str, installer: str = "conda") -> dict[str, str]:
    """The dist-info of a distribution, by path inside a prefix."""
    folder = f"{SITE}/{name}-{version}.dist-info"
    return {
        f"{folder}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nHome-page: of {installer}\n",
        f"{folder}/INSTALLER": f"{installer}\n",
        f"{folder}/RECORD": "",
    }


def torch_files(version: str, cuda: str | None, installer: str = "conda") -> dict[str, str]:
    """What torch says about itself."""
    told = f"__version__ = '{version}'\ncuda: Optional[str] = {cuda!r}\n"
    return {f"{SITE}/torch/version.py": told, **dist("torch", version, installer)}


_HEADERS = sorted({name for row in base().components for name in row.headers})
_MAKES = 'while [ "$#" -gt 1 ]; do if [ "$1" = -o ]; then : > "$2"; fi; shift; done\n'
TOOLCHAIN = {
    "bin/nvcc": f'#!/bin/sh\ncase "$1" in --version) echo "release 12.8, V12.8.93"; exit;; esac\n{_MAKES}',
    "bin/ninja": "#!/bin/sh\n",
    "bin/env-g++": f'#!/bin/sh\ncase "$1" in -dumpfullversion) echo 13.3.0; exit;; esac\n{_MAKES}',
    "etc/conda/activate.d/gxx.sh": "export CXX=env-g++ CC=env-g++\n",
    **{f"include/{name}": "" for name in _HEADERS},
    **{f"lib64/lib{name}.so": "" for name in map(library_of, _HEADERS) if name},
}
"""What a build needs: headers and links that are empty, and scripts in the place of nvcc and of a host compiler, which
answer and make the files that they are asked for."""


def make_buildable(env: Path) -> None:
    """Put it into an environment, whose files may be links into a cache."""
    for name, text in TOOLCHAIN.items():
        path = env / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(text)
        path.chmod(0o755 if name.startswith("bin/") else 0o644)


def standard() -> list[Package]:
    """An environment of conda-forge with a CUDA torch, its runtime, cuDNN, NCCL and a compiler."""
    torch = shared_object("libtorch_cuda.so", ("libcudart.so.12", "libcudnn.so.9", "libnccl.so.2"))
    cudnn = "#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 8\n#define CUDNN_PATCHLEVEL 0\n"
    return [
        package("python", "3.12.4", files={"bin/python3.12": "#!/bin/sh\n", f"{SITE}/README.txt": "x\n"}),
        package(
            "pytorch",
            "2.7.1",
            "cuda128_py312_0",
            files={**torch_files("2.7.1", "12.8"), "lib/libtorch_cuda.so": torch},
        ),
        package("numpy", "2.3.1", "py312_0", files=dist("numpy", "2.3.1")),
        package("requests", "2.32.0", "py312_0", files=dist("requests", "2.32.0")),
        package("cuda-version", "12.8"),
        package("cuda-cudart", "12.8.90", files={"lib/libcudart.so.12": shared_object("libcudart.so.12")}),
        package(
            "libcudnn",
            "9.8.0.87",
            files={"lib/libcudnn.so.9": shared_object("libcudnn.so.9"), "include/cudnn_version.h": cudnn},
        ),
        package("nccl", "2.27.5.1", files={"lib/libnccl.so.2": shared_object("libnccl.so.2")}),
        package("cuda-nvcc", "12.8.93", files=TOOLCHAIN),
    ]


def installed(folder: Path, packages: Iterable[Package], channel: str = "conda-forge") -> tuple[Path, Solution]:
    """Packages in a channel, solved and really installed into ``folder/env``."""
    made = list(packages)
    sources: Sources = write(folder / "channels", {channel: made})
    answer = solve(request(*(item.name for item in made), channels=(channel,)), sources)
    assert isinstance(answer, Solution)
    install(answer, folder / "env", sources)
    return folder / "env", answer


def lock_file(path: Path, solution: Solution, pip: tuple[PipLocked, ...] = ()) -> Path:
    """A conda-lock.yml of a solution."""
    from dataclasses import replace

    lock = Lock(channels=("conda-forge",), sources=(), solutions=(replace(solution, pip=pip),))
    path.write_text(render(lock, EnvironmentSpec(name="test", channels=("conda-forge",), pins=())))
    return path


def wheel_file(
    folder: Path,
    name: str,
    version: str,
    files: Mapping[str, bytes | str] | None = None,
    requires: Iterable[str] = (),
) -> Path:
    """A wheel with files and a true RECORD."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{name.replace('-', '_')}-{version}"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {item}\n" for item in requires)
    content = {path: data.encode() if isinstance(data, str) else data for path, data in (files or {}).items()}
    content[f"{stem}.dist-info/METADATA"] = metadata.encode()
    content[f"{stem}.dist-info/WHEEL"] = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    rows = []
    for path, data in content.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={digest},{len(data)}\n")
    content[f"{stem}.dist-info/RECORD"] = "".join([*rows, f"{stem}.dist-info/RECORD,,\n"]).encode()
    made = folder / f"{stem}-py3-none-any.whl"
    with ZipFile(made, "w") as archive:
        for path, data in content.items():
            archive.writestr(ZipInfo(path), data)
    return made


def venv(folder: Path, *wheels: Path, shared: bool = False) -> Path:
    """A real venv of this Python with wheels that uv installed, without what they require."""
    import uv

    EnvBuilder(system_site_packages=shared, symlinks=True).create(folder)
    if wheels:
        cache = folder.parent / "uv-cache"
        know_python(cache)
        words = [uv.find_uv_bin(), "pip", "install", "--no-config", "--offline", "--no-deps", "--quiet"]
        where = ["--python", sys.executable, "--prefix", str(folder), "--cache-dir", str(cache)]
        subprocess.run([*words, *where, *map(str, wheels)], check=True)
    return folder


def put(root: Path, files: Mapping[str, bytes | str]) -> None:
    """Write files below a folder, as somebody else than the installer does."""
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # the installer linked it to its cache
        path.write_bytes(data.encode() if isinstance(data, str) else data)
