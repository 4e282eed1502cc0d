"""Whether the environment can compile CUDA extensions on first use; proven by compiling one where it may be run."""

from __future__ import annotations

from dataclasses import replace

from cuenv.checks import Check, judged, skipped
from cuenv.flows.prefix_checks import Subject
from cuenv.jit.laws import jit_findings, targets_of, trial_findings
from cuenv.jit.wants import Wants, compiling, has_torch, wants
from cuenv.jit.workshop import Compiled, Workshop
from cuenv.versions import Capability, target_for
from cuenv.world.activation import activated
from cuenv.world.compile import Toolchain, try_out
from cuenv.world.workshop import built_libraries, library_folders, look, nvccs_in, torch_includes


def check(subject: Subject) -> Check:
    """Compilers, headers, libraries and tools for builds on first use; skipped where nothing would build."""
    files = subject.cuda_files
    if files.torch is not None and files.cuda is None:
        return skipped("jit", f"torch {files.torch} is a CPU build: it compiles nothing for a GPU")
    wanted = _wanted(subject)
    if not wanted.why:
        return skipped("jit", "nothing compiles on first use: no nvcc, and no library here that needs one")
    running = subject.running
    environ, reason = activated(subject.prefix, subject.environ, running=running)
    names = [header.name for header in wanted.headers]
    found = look(subject.prefix, subject.facts.platform, names, environ, running=running)
    found = replace(found, activation=reason)
    findings = jit_findings(wanted, found, subject.prefix, subject.facts, subject.knowledge)
    there = [name for name in names if found.headers.get(name)]
    if not running:
        return judged("jit", _read(found, there), findings)
    tools = toolchain(found, environ)
    if tools is None:
        return judged("jit", f"no compiler to try: {wanted.why[0]}", findings)
    capabilities = _compilable(subject, found)
    tried = try_out(
        tools,
        headers=there,
        plain=[name for name in there if found.in_view(name) and not name.endswith("_kernel.h")],
        capabilities=capabilities,
        runtime="cudart" in found.links,
    )
    return judged("jit", _says(found, capabilities, there, tried), (*findings, *trial_findings(tried)))


def toolchain(found: Workshop, environ: dict[str, str]) -> Toolchain | None:
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


def _compilable(subject: Subject, found: Workshop) -> tuple[Capability, ...]:
    """What nvcc compiles for so that each GPU of the host is served; what it cannot serve is a finding already."""
    able = targets_of(found.nvcc, subject.knowledge) if found.nvcc else ()
    targets = (target_for(item, able) if able else item for item in subject.facts.capabilities)
    return tuple(dict.fromkeys(item for item in targets if item))


def _read(found: Workshop, there: list[str]) -> str:
    """What is there by its files alone."""
    nvcc = found.nvcc
    named = "no nvcc" if nvcc is None or nvcc.reason else f"nvcc {nvcc.release or 'of an unknown release'}"
    called = dict.fromkeys(f"{item.kind} {item.version}" for item in found.compilers if item.version)
    parts = [named, *called, f"{len(there)} CUDA headers"]
    return f"{', '.join(parts)}, by their files; --run compiles a program with them"


def _says(found: Workshop, capabilities: tuple[Capability, ...], there: list[str], tried: tuple[Compiled, ...]) -> str:
    release = found.nvcc.release if found.nvcc else None
    called = dict.fromkeys(f"{item.kind} {item.version}" for item in found.compilers if item.version)
    by = f" with {' and '.join(called)}" if called else ""
    target = f"for {', '.join(map(str, capabilities))}" if capabilities else "for its own choice of GPU"
    spent = sum(item.seconds for item in tried)
    verb = "stumbled over" if any(item.reason for item in tried) else "compiled"
    return f"nvcc {release}{by} {verb} a program with {len(there)} CUDA headers {target} ({spent:.1f} s)"
