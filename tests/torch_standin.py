"""Environments that tests make on disk: this Python, and a stand-in of torch that they write."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

PYTHON = f"python{sys.version_info[0]}.{sys.version_info[1]}"

TORCH = """
import os, signal, sys, time, types

__version__ = "2.7.1+standin"
version = types.SimpleNamespace(cuda={cuda!r})
float32, float64, bfloat16, float16 = "float32", "float64", "bfloat16", "float16"
GPUS = {gpus!r}  # a list of (name, major, minor, free bytes)


class Tensor:
    def __init__(self, value, device="cpu"):
        self.value, self.device = value, str(device)

    def to(self, target):
        return Tensor(self.value, target if str(target).startswith(("cpu", "cuda")) else self.device)

    def cpu(self):
        return Tensor(self.value)

    def double(self):
        return Tensor(self.value, "double")

    def __matmul__(self, other):
        product = self.value * other.value
        return Tensor(product * (1 + ERROR.get(self.device, 0)), self.device)

    def __sub__(self, other):
        return Tensor(self.value - other.value)

    def __truediv__(self, other):
        return Tensor(self.value / other.value)

    def norm(self):
        return Tensor(abs(self.value))

    def __float__(self):
        return float(self.value)


ERROR = {error!r}


def randn(*size, dtype=None, device="cpu"):
    return Tensor(1.5, device)


def manual_seed(seed):
    pass


def set_float32_matmul_precision(text):
    assert text == "highest"


class cuda:
    is_available = staticmethod(lambda: bool(GPUS))
    device_count = staticmethod(lambda: len(GPUS))
    mem_get_info = staticmethod(lambda index: (GPUS[number(index)][3], 80 * 1024**3))
    get_device_capability = staticmethod(lambda index: GPUS[number(index)][1:3])
    get_device_properties = staticmethod(
        lambda index: types.SimpleNamespace(name=GPUS[index][0], major=GPUS[index][1], minor=GPUS[index][2])
    )

    @staticmethod
    def init():
        raise RuntimeError("Found no NVIDIA driver on your system.\\nPlease check that you have an NVIDIA GPU.")


def number(index):
    return int(str(index).rpartition(":")[2])


distributed = types.SimpleNamespace(is_available=lambda: False)
{body}
"""

NCCL = '''
class Numbers:
    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return types.SimpleNamespace(all=lambda: self.value == other)

    def __getitem__(self, index):
        return self.value


class Group:
    """Ranks that meet in files beside the rendezvous file."""

    is_available = is_nccl_available = staticmethod(lambda: True)
    destroy_process_group = staticmethod(lambda: None)

    def init_process_group(self, backend, init_method, rank, world_size, timeout):
        assert backend == "nccl"
        self.meet, self.rank, self.world = init_method.partition("file://")[2], rank, world_size

    def all_reduce(self, numbers):
        with open(self.meet + str(self.rank) + ".new", "w") as stream:
            stream.write(str(numbers.value))
        os.rename(self.meet + str(self.rank) + ".new", self.meet + str(self.rank))
        files = [self.meet + str(rank) for rank in range(self.world)]
        while not all(map(os.path.exists, files)):
            time.sleep(0.01)
        numbers.value = sum(float(open(file).read()) for file in files) + EXTRA


EXTRA = 0
distributed = Group()
cuda.nccl = types.SimpleNamespace(version=lambda: (2, 27, 3))
cuda.set_device = cuda.synchronize = staticmethod(lambda *index: None)
full = lambda size, value, device: Numbers(value)
'''
"""A stand-in for NCCL in that torch: put into the body."""

GIB = 1024**3
H100 = ("NVIDIA H100", 9, 0, 70 * GIB)
V100 = ("Tesla V100", 7, 0, 30 * GIB)


def torch_like(
    body: str = "",
    *,
    cuda: str | None = None,
    gpus: tuple[object, ...] = (),
    error: Mapping[str, float] | None = None,
) -> str:
    """The text of a stand-in for ``torch/__init__.py``.

    Args:
        body: what stands at its end, and runs on import.
        cuda: the CUDA release that it says it is built for.
        gpus: the devices that it says are there.
        error: relative errors of products by device.
    """
    return TORCH.format(cuda=cuda, gpus=list(gpus), error=dict(error or {}), body=body)


def make_venv(folder: Path, **modules: str) -> Path:
    """A virtual environment of this Python, with packages of one file each."""
    real = Path(sys.executable).resolve()
    site = folder / "lib" / PYTHON / "site-packages"
    site.mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to(real)
    (folder / "bin" / "python3").symlink_to("python")
    (folder / "pyvenv.cfg").write_text(f"home = {real.parent}\ninclude-system-site-packages = false\n")
    for name, text in modules.items():
        package = site / name
        package.mkdir()
        (package / "__init__.py").write_text(text)
    return folder
