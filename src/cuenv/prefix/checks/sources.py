"""Where the CUDA of an environment comes from: one channel, one release, each library once."""

from __future__ import annotations

import shlex
from dataclasses import replace

from cuenv.core.findings import Check, judged, skipped
from cuenv.prefix.checks import Subject
from cuenv.prefix.policy import two_sources
from cuenv.resolver.solution_policy import cuda_components, one_source


def check(subject: Subject) -> Check:
    """The law of one channel, as for locks, and no library of NVIDIA's twice."""
    components = cuda_components(subject.prefix.conda, subject.knowledge)
    files = subject.cuda_files
    if not components and not files.libraries:
        return skipped("sources", "no CUDA component and no library of NVIDIA's")
    anew = subject.prefix.anew or f"cuenv lock && cuenv install --prefix {shlex.quote(f'{subject.prefix.path}.new')}"
    mixed = (replace(item, fix=anew) if item.code == "CU101" else item for item in one_source(components))
    findings = [*mixed, *two_sources(files, subject.prefix)]
    channels = sorted({package.channel_name for package in components})
    parts = [f"{len(components)} CUDA components from {' and '.join(channels)}"] if components else []
    sources = sorted({library.source for library in files.libraries} - {"conda"})
    parts.append(
        f"{len(files.libraries)} libraries of NVIDIA's{f', {len(sources)} sources beside conda' if sources else ''}"
    )
    return judged("sources", "; ".join(parts), findings)
