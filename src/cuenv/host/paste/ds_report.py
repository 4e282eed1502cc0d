"""What ``ds_report`` of DeepSpeed prints: torch, its CUDA, nvcc and ``/dev/shm``, and neither driver nor GPU."""

from __future__ import annotations

from cuenv.core.regex import regex
from cuenv.host.paste.told import PasteReader, Told, searched

MARKS = ("DeepSpeed general environment info", "torch cuda version ...", "nvcc version ...", "shared memory (/dev/shm)")
_FACTS = (
    ("report", regex(r"(torch cuda version \.{3,})")),
    ("torch", regex(r"torch version \.{3,} ([0-9]\S{2,40})")),
    ("torch.cuda", regex(r"torch cuda version \.{3,} ([0-9]{1,2}\.[0-9]{1,2}|None)\b")),
    ("torch.hip", regex(r"torch hip version \.{3,} ([0-9]\S*)")),
    ("nvcc", regex(r"nvcc version \.{3,} ([0-9]{1,2}\.[0-9]{1,2})\b")),
    ("package", regex(r"(?P<about>deepspeed) info \.{3,} (?P<value>[0-9]+\.[0-9]+\.[0-9]+)")),
    ("python", regex(r"torch install path .*/python(3\.[0-9]{1,2})/")),
    ("shm", regex(r"shared memory \(/dev/shm\) size \.{2,} ([0-9.]+ [MGTK]i?B)")),
)


def looks_like(text: str) -> bool:
    """Whether ds_report printed it."""
    return any(mark in text for mark in MARKS)


def read(text: str) -> tuple[Told, ...]:
    """That it is a report of a host, and its torch, nvcc, DeepSpeed and shared memory."""
    return tuple(searched(text, _FACTS))


READER = PasteReader("ds_report", MARKS, 16, looks_like, read)
