"""torch's CUDA against libcudart, nvcc, cuDNN and NCCL, all of them read from files."""

from __future__ import annotations

from cuenv.checks import Check, judged, skipped
from cuenv.flows.prefix_checks import Subject
from cuenv.installed.runtime_laws import runtime_findings, runtime_line
from cuenv.world.library_names import library_packages


def check(subject: Subject) -> Check:
    """The law of `cuenv.installed.runtime_laws` on what the files say."""
    files = subject.cuda_files
    if files.torch is None:
        return skipped("runtime", "no torch in the environment")
    if files.cuda is None:
        return skipped("runtime", f"torch {files.torch} is a CPU build: it uses no CUDA")
    packages = library_packages(subject.prefix)
    findings = runtime_findings(files, subject.prefix, subject.knowledge.extensions, packages)
    return judged("runtime", runtime_line(files), findings)
