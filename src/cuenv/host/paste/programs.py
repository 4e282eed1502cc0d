"""What compilers and programs say in passing: nvcc's banner, the GPU that a framework names, torch's own release."""

from __future__ import annotations

from cuenv.core.regex import regex
from cuenv.host.paste.told import DRIVER, PasteReader, searched

_GPU = r"(?P<value>(?:NVIDIA|Tesla|GeForce|Quadro|TITAN|GRID) [\w -]{2,40}?)"

NVCC_MARKS = ("Cuda compilation tools, release",)
_NVCC = (("nvcc", regex(r"Cuda compilation tools, release ([0-9]{1,2}\.[0-9]{1,2})\b")),)

GPU_MARKS = ("with CUDA capability sm_", "which is of c", "compute capability: ", "compute capability ", "cuda:0 ")
_NAMES = (
    ("gpu.name", regex(rf"(?:^|\s){_GPU} with CUDA capability sm_[0-9]+ is not compatible")),
    (
        "gpu.name",
        regex(r"Found GPU(?P<about>[0-9]{1,2}) (?P<value>\S.{2,50}?) which is of (?:cuda|compute) capability"),
    ),
    ("gpu.name", regex(rf"\bname: {_GPU}, pci bus id: \S+, compute capability: [0-9]")),
    ("gpu.name", regex(rf"\bDevice (?P<about>[0-9]{{1,2}}): {_GPU}, compute capability [0-9]")),
    ("gpu.name", regex(rf"\bcuda:(?P<about>[0-9]{{1,2}}) {_GPU}(?: :|$)")),
)

TORCH_MARKS = (
    "ytorch version: ",
    "orch version: ",
    "site-packages/",
    "dist-packages/",
    "linux-x86_64",
    "linux-aarch64",
    'File "/',
    ":\\",
)
_TORCH = (
    ("torch", regex(r"\b(?:[Pp]y)?[Tt]orch [Vv]ersion: ([12]\.[0-9]{1,2}\.[0-9](?:\+cu[0-9]{2,3})?)\b")),
    ("python", regex(r"/python(3\.[0-9]{1,2})/(?:site|dist)-packages/")),
    ("path", regex(r'\bFile "(/[^"\n]{3,240})", line [0-9]')),
    ("drive", regex(r"(?:^|[\s\"'(=])([A-Z]):\\{1,2}[A-Za-z]")),
    ("machine", regex(r"\b(?:temp|lib|bdist)\.linux-(x86_64|aarch64)\b")),
)

KERNEL_MARKS = ("kernel reported version is", "libcuda reported version is", "NVRM version")
_KERNEL = (
    ("driver.version", regex(rf"libcuda reported version is: ({DRIVER})")),
    ("driver.module", regex(rf"kernel reported version is: ({DRIVER})")),
    ("driver.module", regex(rf"NVRM version: NVIDIA UNIX .*Kernel Module(?: for \S+)? +({DRIVER})\b")),
)


def _looks(marks: tuple[str, ...], text: str) -> bool:
    return any(mark in text for mark in marks)


NVCC = PasteReader(
    "nvcc --version", NVCC_MARKS, 0, lambda text: _looks(NVCC_MARKS, text), lambda text: tuple(searched(text, _NVCC))
)
GPUS = PasteReader(
    "a message about the GPU",
    GPU_MARKS,
    0,
    lambda text: _looks(GPU_MARKS, text),
    lambda text: tuple(searched(text, _NAMES)),
)
PROGRAM = PasteReader(
    "the program", TORCH_MARKS, 0, lambda text: _looks(TORCH_MARKS, text), lambda text: tuple(searched(text, _TORCH))
)
KERNEL = PasteReader(
    "the driver's messages",
    KERNEL_MARKS,
    0,
    lambda text: _looks(KERNEL_MARKS, text),
    lambda text: tuple(searched(text, _KERNEL)),
)
