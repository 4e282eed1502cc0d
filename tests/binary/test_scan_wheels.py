"""Real device code: files compiled for known targets, and the libraries of wheels, with cuobjdump as the oracle.

Everything comes from the Python index, also the compiler: no CUDA toolkit and no GPU is needed, and without the index
the tests are skipped. The wheel of torch (0.9 GB) is used where it lies in the cache of wheels, or with
CUENV_TEST_LARGE=1.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from cuenv.binary.code import LOADABLE, RELOCATABLE, Entry, FatbinReader, FileCode, summary
from cuenv.binary.elf import read_elf
from cuenv.binary.io.binaries import open_binary, scan
from wheels import CACHE, wheel

pytestmark = pytest.mark.slow

TOOLKIT = (
    "nvidia-cuda-nvcc==13.0.88",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-nvvm==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
)
CUOBJDUMP = "nvidia-cuda-cuobjdump==13.5.37"
LIBRARIES = ("bitsandbytes==0.46.1", "nvidia-cusparse-cu12==12.3.1.170", "nvidia-curand-cu12==10.3.10.19")
TORCH = "torch==2.9.1"

KERNEL = """
__global__ void add(float *a, const float *b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) a[i] += b[i];
}
extern "C" void run(float *a, const float *b, int n) { add<<<1, n>>>(a, b, n); }
"""


def unpacked(requirement: str, folder: Path) -> Path:
    with ZipFile(wheel(requirement)) as archive:
        archive.extractall(folder)
    for path in folder.rglob("bin/*"):
        path.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def toolkit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if sys.platform != "linux" or os.uname().machine != "x86_64" or not shutil.which("gcc"):
        pytest.skip("the compiler's wheels need gcc on x86-64")
    folder = tmp_path_factory.mktemp("toolkit")
    for requirement in TOOLKIT:
        unpacked(requirement, folder)
    return folder / "nvidia" / "cu13"


@pytest.fixture(scope="module")
def cuobjdump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(CUOBJDUMP, tmp_path_factory.mktemp("cuobjdump")) / "nvidia" / "cu13" / "bin" / "cuobjdump"


def compiled(toolkit: Path, folder: Path, *options: str, source: str = KERNEL, cudart: str = "none") -> FileCode:
    (folder / "one.cu").write_text(source)
    words = ["-shared", "-Xcompiler", "-fPIC", f"-L{toolkit / 'lib'}", "-cudart", cudart, "-o", "one.so", "one.cu"]
    done = subprocess.run(
        [toolkit / "bin" / "nvcc", *words, *options], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return scan(folder / "one.so")


COMPRESSION = {
    "default": (),
    "none": ("-no-compress",),
    "size": ("-compress-mode=size",),
    "speed": ("-compress-mode=speed",),
}


@pytest.mark.parametrize("options", COMPRESSION.values(), ids=COMPRESSION)
def test_what_was_asked_of_nvcc_is_found(toolkit: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    codes = ("75", "80", "86", "90a", "100f", "103a", "120")
    gencode = [f"-gencode=arch=compute_{code},code=sm_{code}" for code in codes]
    found = compiled(toolkit, tmp_path, *gencode, "-gencode=arch=compute_90,code=compute_90", *options)
    held = summary(found.objects)
    assert [str(target) for target in held.everywhere] == ["7.5", "8.0", "8.6", "9.0a", "10.0f", "10.3a", "12.0"]
    assert [(str(target), isa, count) for (target, isa), count in held.ptx.items()] == [("9.0", (9, 0), 1)]
    assert (held.objects, found.bare) == (1, 0)


def test_a_source_without_kernels_makes_a_bare_object(toolkit: Path, tmp_path: Path) -> None:
    for arch in ("sm_75", "sm_90", "sm_100", "sm_120"):
        found = compiled(toolkit, tmp_path, f"-arch={arch}", source='extern "C" int nothing() { return 0; }\n')
        assert (len(found.objects), found.bare) == (0, 1), arch


def test_the_smallest_kernel_makes_an_object(toolkit: Path, tmp_path: Path) -> None:
    for arch in ("sm_75", "sm_90", "sm_100", "sm_120"):
        found = compiled(toolkit, tmp_path, f"-arch={arch}", source="__global__ void k() {}\n")
        assert (len(found.objects), found.bare) == (1, 0), arch


def test_relocatable_and_intermediate_code(toolkit: Path, tmp_path: Path) -> None:
    held = summary(compiled(toolkit, tmp_path, "-gencode=arch=compute_80,code=lto_80").objects)
    assert [str(target) for target in held.lto] == ["8.0"]
    alone = compiled(toolkit, tmp_path, "-rdc=true", "-arch=sm_86")
    assert (alone.objects, len(alone.possible)) == ((), 1)  # without a runtime, nvcc does not link device code
    linked = compiled(toolkit, tmp_path, "-rdc=true", "-arch=sm_86", cudart="static")
    for objects in (linked.objects, linked.possible):
        assert "8.6" in map(str, summary(objects).everywhere)


def entries(path: Path) -> Iterator[Entry]:
    """Every entry that cuobjdump sees: those of the two sections, bare ones as well."""
    with open_binary(path) as data:
        elf = read_elf(data)
        reader = FatbinReader(data)
        for name in (LOADABLE, RELOCATABLE):
            section = elf.section(name)
            if section:
                for _, found in reader.containers(section.offset, section.offset + section.size):
                    yield from found


def agreed(path: Path, cuobjdump: Path) -> bool:
    """As many of each kind and target. cuobjdump prints machine code for 100f as 100."""
    machine, intermediate = (_listed(cuobjdump, what, path) for what in ("--list-elf", "--list-ptx"))
    if machine is None or intermediate is None:
        return False
    own = {kind: Counter(_name(item) for item in entries(path) if item.kind == kind) for kind in ("sass", "ptx")}
    theirs = {
        "sass": Counter(re.findall(r"sm_(\w+)\.(?:\w+\.)*cubin", machine)),
        "ptx": Counter(re.findall(r"sm_(\w+)\.ptx", intermediate)),
    }
    assert own == theirs, path
    return True


def _name(item: Entry) -> str:
    name = str(item.target).replace(".", "")
    return name.removesuffix("f") if item.kind == "sass" else name


def _listed(cuobjdump: Path, what: str, path: Path) -> str | None:
    """What it prints; ``None`` where it gives up, as it does on some files with old architectures."""
    done = subprocess.run([cuobjdump, what, "-all", path], capture_output=True, text=True, check=False, timeout=300)
    return None if "fatal" in done.stderr else done.stdout


def test_cuobjdump_says_the_same_of_what_was_compiled(toolkit: Path, cuobjdump: Path, tmp_path: Path) -> None:
    for options in (
        ["-arch=sm_80"],
        ["-rdc=true", "-arch=sm_90"],
        ["-gencode=arch=compute_100f,code=[sm_100f,compute_100f]"],
    ):
        compiled(toolkit, tmp_path, *options)
        assert agreed(tmp_path / "one.so", cuobjdump)


@pytest.mark.parametrize("requirement", LIBRARIES)
def test_cuobjdump_says_the_same_of_real_libraries(requirement: str, cuobjdump: Path, tmp_path: Path) -> None:
    folder = unpacked(requirement, tmp_path)
    found = [path for path in sorted(folder.rglob("*.so*")) if scan(path).holds_code]
    assert [path for path in found if agreed(path, cuobjdump)]
    shutil.rmtree(tmp_path)  # hundreds of megabytes


_MEASURED = """
import resource, sys
from cuenv.binary.io.binaries import scan
found = scan(sys.argv[1])
print(len(found.objects), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def test_a_library_of_a_gigabyte_needs_little_memory(tmp_path: Path) -> None:
    if not os.environ.get("CUENV_TEST_LARGE") and not list(CACHE.glob(f"{TORCH.replace('==', '-')}-*.whl")):
        pytest.skip(f"{TORCH} is not in {CACHE}, and CUENV_TEST_LARGE is not set")
    with ZipFile(wheel(TORCH)) as archive:
        path = Path(archive.extract("torch/lib/libtorch_cuda.so", tmp_path))
    held = summary(scan(path).objects)
    assert path.stat().st_size > 1_000_000_000
    assert [str(target) for target in held.everywhere] == ["7.0", "7.5", "8.0", "8.6", "9.0", "10.0", "12.0"]
    assert {str(target) for target in held.partial} == {"8.9", "9.0a", "10.0a", "12.0a"}
    done = subprocess.run([sys.executable, "-c", _MEASURED, path], capture_output=True, text=True, check=True)
    objects, megabytes = map(int, done.stdout.split())
    path.unlink()
    assert objects == held.objects
    assert megabytes < 64
