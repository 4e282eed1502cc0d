"""What ``python -m torch.utils.collect_env`` prints, in the dialects of torch and of vLLM."""

from __future__ import annotations

from collections.abc import Iterator

from cuenv.core.regex import regex
from cuenv.host.paste.told import DRIVER, PasteReader, Told, numbered, searched, shown

MARKS = (
    *("Collecting environment information", "PyTorch version", "Nvidia driver version", "GPU models and configuration"),
    *("CUDA used to build PyTorch", "[pip3] torch", "[conda] pytorch"),
)
_FACTS = (
    ("driver.version", regex(rf"Nvidia driver version *: *({DRIVER})\b")),
    ("libc", regex(r"Libc version *: *glibc-([0-9]\.[0-9]{1,2})\b")),
    ("machine", regex(r"Python platform *: Linux-.*-(x86_64|aarch64)-")),
    ("machine", regex(r"\bOS *: .*\((x86_64|aarch64)\)")),
    ("system", regex(r"\bOS *: .{0,20}(Windows|[Mm]ac ?OS)")),
    ("system", regex(r"Python platform *: (Windows|macOS)")),
    ("wsl", regex(r"Python platform *: Linux-.*(WSL2)")),
    ("torch", regex(r"PyTorch version *: *([0-9]\S{2,40})")),
    ("torch.cuda", regex(r"CUDA used to build PyTorch *: *([0-9]{1,2}\.[0-9]{1,2}|None)\b")),
    ("torch.hip", regex(r"ROCM used to build PyTorch *: *([0-9][0-9.]*)")),
    ("nvcc", regex(r"CUDA runtime version *: *([0-9]{1,2}\.[0-9]{1,2})\b")),
    ("gcc", regex(r"GCC version *: *\(.*\) ([0-9]{1,2}\.[0-9]{1,2}(?:\.[0-9]{1,2})?)\b")),
    ("python", regex(r"Python version *: *(3\.[0-9]{1,2})\b")),
)
_PACKAGE = regex(r"\[(?:pip3?|conda)\] ([A-Za-z][\w.-]{1,60})(?:==| +\(?)([0-9][\w.+!-]*)(?: +(\S+))?")
_GPU = regex(r"\bGPU ([0-9]{1,2}): (\S.{2,60}?) *(?=$|GPU [0-9]{1,2}: |MIG [1-9]|Nvidia driver version|cuDNN version)")


def looks_like(text: str) -> bool:
    """Whether collect_env printed it."""
    return any(mark in text for mark in MARKS)


def read(text: str) -> tuple[Told, ...]:
    """Driver, GPUs, C library, platform, torch and packages."""
    return (*searched(text, _FACTS), *_rest(text))


def _rest(text: str) -> Iterator[Told]:
    inside = False
    for number, line in numbered(text):
        if "GPU models and configuration" in line:
            inside = True
        elif inside and not line.lstrip().startswith(("GPU ", "MIG ")):
            inside = False
        for gpu in _GPU.finditer(line) if inside else ():
            yield Told("gpu.name", gpu[2], number, shown(line), gpu[1])
        package = _PACKAGE.search(line)
        if package:
            yield Told("package", f"{package[2]} {package[3] or ''}".strip(), number, shown(line), package[1])


READER = PasteReader("torch.utils.collect_env", MARKS, 130, looks_like, read)
