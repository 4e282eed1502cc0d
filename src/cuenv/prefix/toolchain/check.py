"""The check `jit`: compilers, headers and libraries for what builds on first use, tried where that is allowed."""

from __future__ import annotations

from cuenv.core.findings import Check, Finding, judged, skipped
from cuenv.core.record import replace
from cuenv.core.versions import Capability, target_for
from cuenv.prefix.io.activation import activated
from cuenv.prefix.io.compile import Toolchain, try_out
from cuenv.prefix.io.toolchain import built_libraries, home_of, library_folders, look, nvcc_at, nvccs_in, torch_includes
from cuenv.prefix.runtime_policy import compiler_findings
from cuenv.prefix.subject import Subject
from cuenv.prefix.toolchain.policy import (
    Wants,
    compiling,
    has_torch,
    hook,
    jit_findings,
    led_by,
    targets_of,
    trial_findings,
    wants,
    without_its,
)
from cuenv.prefix.toolchain.toolchain import Compiled, CudaToolchain, Nvcc


def check_jit(subject: Subject) -> Check:
    """Compilers, headers, libraries and tools for builds on first use; skipped where nothing would build."""
    files = subject.cuda_files
    if files.torch is not None and files.cuda is None:
        return skipped("jit", f"torch {files.torch} is a CPU build: it compiles nothing for a GPU")
    wanted = _wanted(subject)
    running = subject.running
    if not wanted.why:
        told = "the environment has no nvcc, and no installed library needs one"
        other = _later(subject)
        return judged("jit", told, other) if other else skipped("jit", told)
    environ, reason = activated(subject.prefix, subject.environ, running=running)
    names = [header.name for header in wanted.headers]
    found = look(subject.prefix, subject.facts.platform, names, environ, running=running)
    found = replace(found, activation=reason)
    other = _other_cuda(found.nvcc, subject, wanted)
    findings = jit_findings(wanted, found, subject.prefix, subject.facts, subject.knowledge)
    findings = (*other, *without_its(findings, other))
    there = [name for name in names if found.headers.get(name)]
    if not running:
        return judged("jit", _read(found, there), findings)
    tools = toolchain(found, environ)
    if tools is None:
        return judged("jit", f"not tried, because no compiler runs ({wanted.why[0]})", findings)
    if any(item.subject == "nvcc" for item in other):
        return judged(
            "jit",
            f"{_read(found, there, tried=False)}; not tried, because this nvcc is of another CUDA release",
            findings,
        )
    capabilities = _compilable(subject, found)
    tried = try_out(
        tools,
        headers=there,
        plain=[name for name in there if found.in_view(name) and not name.endswith("_kernel.h")],
        capabilities=capabilities,
        runtime="cudart" in found.links,
    )
    return judged("jit", _jit_says(found, capabilities, there, tried), (*findings, *trial_findings(tried)))


def toolchain(found: CudaToolchain, environ: dict[str, str]) -> Toolchain | None:
    """What a build would run; ``None`` when there is no nvcc that runs."""
    if found.nvcc is None or found.nvcc.release is None:
        return None
    cxx = next((item.path for item in found.compilers if item.does == "C++" and item.version), None)
    libraries = dict.fromkeys([*library_folders(found.home), *_folders(environ)])
    return Toolchain(
        nvcc=found.nvcc.path,
        cxx=cxx,
        ccbin=environ.get("CC") or None,
        includes=found.includes,
        libraries=tuple(libraries),
        environ=environ,
    )


def _folders(environ: dict[str, str]) -> list[str]:
    return [f"{environ['CONDA_PREFIX']}/lib"] if environ.get("CONDA_PREFIX") else []


def _wanted(subject: Subject) -> Wants:
    prefix, knowledge = subject.prefix, subject.knowledge
    included = torch_includes(prefix) if has_torch(prefix) else ()
    return wants(
        prefix,
        knowledge,
        nvcc=bool(nvccs_in(prefix)),
        built=built_libraries(prefix, [wheel.name for wheel, _ in compiling(prefix, knowledge)]),
        torch_includes=[name for name in included if knowledge.holder_of(name)],
        solution=subject.solution,
        profile=subject.profile,
    )


def _compilable(subject: Subject, found: CudaToolchain) -> tuple[Capability, ...]:
    """What nvcc compiles for so that each GPU of the host is served; what it cannot serve is a finding already."""
    able = targets_of(found.nvcc, subject.knowledge) if found.nvcc else ()
    targets = (target_for(item, able) if able else item for item in subject.facts.capabilities)
    return tuple(dict.fromkeys(item for item in targets if item))


def _other_cuda(nvcc: Nvcc | None, subject: Subject, wanted: Wants) -> tuple[Finding, ...]:
    """The nvcc that a build would take, wherever it lies, against torch's CUDA; the environment's own is told of."""
    files = subject.cuda_files
    if nvcc is None or nvcc.release is None or (files.nvcc and files.nvcc[1] == nvcc.path):
        return ()
    led = replace(files, nvcc=(nvcc.release, nvcc.path))
    found = compiler_findings(led, subject.prefix, subject.knowledge.extensions)
    mend = hook(subject.prefix) if any(path != nvcc.path for path in nvccs_in(subject.prefix)) else None
    return tuple(led_by(item, nvcc, wanted, mend) for item in found if item.severity != "info")


def _later(subject: Subject) -> tuple[Finding, ...]:
    """Where nothing builds: an nvcc of another CUDA than torch's, to which the machine would lead a later build."""
    if subject.cuda_files.cuda is None:
        return ()
    environ, _ = activated(subject.prefix, subject.environ, running=False)
    home, via = home_of(environ)
    nvcc = nvcc_at(home, via, running=False) if home else None
    found = _other_cuda(nvcc, subject, Wants(why=()))
    return tuple(item for item in found if item.subject == "nvcc")


def _read(found: CudaToolchain, there: list[str], *, tried: bool = True) -> str:
    """What is there by its files alone."""
    nvcc = found.nvcc
    named = "no nvcc" if nvcc is None or nvcc.reason else f"nvcc {nvcc.release or 'of an unknown release'}"
    called = dict.fromkeys(f"{item.kind} {item.version}" for item in found.compilers if item.version)
    parts = [named, *called, f"{len(there)} CUDA headers"]
    return f"{', '.join(parts)}{', by their files; --run compiles a program with them' if tried else ''}"


def _jit_says(
    found: CudaToolchain, capabilities: tuple[Capability, ...], there: list[str], tried: tuple[Compiled, ...]
) -> str:
    release = found.nvcc.release if found.nvcc else None
    called = dict.fromkeys(f"{item.kind} {item.version}" for item in found.compilers if item.version)
    by = f" with {' and '.join(called)}" if called else ""
    target = f"for {', '.join(map(str, capabilities))}" if capabilities else "for its own choice of GPU"
    spent = sum(item.seconds for item in tried)
    verb = "stumbled over" if any(item.reason for item in tried) else "compiled"
    return f"nvcc {release}{by} {verb} a program with {len(there)} CUDA headers {target} ({spent:.1f} s)"
