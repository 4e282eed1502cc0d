"""torch's CUDA against libcudart, nvcc, cuDNN and NCCL, all of them read from files."""

from __future__ import annotations

from cuenv.core.findings import Check, judged, skipped
from cuenv.prefix.checks import Subject
from cuenv.prefix.io.linkage_plan import library_packages
from cuenv.prefix.runtime_policy import runtime_findings, runtime_line


def check(subject: Subject) -> Check:
    """The law of `cuenv.prefix.runtime_policy` on what the files say."""
    files = subject.cuda_files
    if files.torch is None:
        return skipped("runtime", "no torch in the environment")
    if files.cuda is None:
        return skipped("runtime", f"torch {files.torch} is a CPU build: it uses no CUDA")
    packages = library_packages(subject.prefix)
    findings = runtime_findings(files, subject.prefix, subject.knowledge.extensions, packages)
    return judged("runtime", runtime_line(files), findings)
