"""The checks of an installed environment; `CHECKS` lists them in the order of the report."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping

from packaging.version import Version

from cuenv.binary.gpu_code import host_gpus
from cuenv.core.findings import Check, FileEdit, Finding, judged, skipped
from cuenv.core.record import replace
from cuenv.core.versions import Capability, parse_arch_list, target_for, version, version_or_none
from cuenv.host.describe import host_line
from cuenv.host.facts import HostFacts
from cuenv.host.request import Request
from cuenv.lockfile.host_check import as_findings, candidate_of, host_findings
from cuenv.prefix.checked import CheckedEnvironment, other_platforms
from cuenv.prefix.consistency import (
    compiler_findings,
    library_source_findings,
    numpy_findings,
    prefix_findings,
    runtime_findings,
    runtime_summary,
)
from cuenv.prefix.cuda_files import as_solution, cuda_release_of
from cuenv.prefix.device_code import (
    TORCH,
    CodeFile,
    bitsandbytes_choice,
    bitsandbytes_finding,
    bitsandbytes_libraries,
    bitsandbytes_override,
    code_findings,
    declared_findings,
)
from cuenv.prefix.fixes import conda_install_specs, pip_command, reinstall_owner, restore_package
from cuenv.prefix.io.activation import activation_variables
from cuenv.prefix.io.linkage_plan import library_packages
from cuenv.prefix.io.toolchain import (
    BuildTools,
    built_libraries,
    compile_sample,
    find_cuda_home,
    find_toolchain,
    library_folders,
    nvccs_in,
    read_nvcc,
    torch_includes,
)
from cuenv.prefix.linkage.check import check_linkage
from cuenv.prefix.lock_comparison import conda_findings, missing_file_findings, pip_findings
from cuenv.prefix.toolchain.build_checks import (
    BuildNeeds,
    build_needs,
    compiling_libraries,
    has_torch,
    hook_command,
    jit_findings,
    targets_of,
    trial_findings,
    with_origin,
    without_nvcc_findings,
)
from cuenv.prefix.toolchain.toolchain import Compilation, CudaToolchain, Nvcc
from cuenv.resolver.candidates import Candidate, bare_candidate
from cuenv.resolver.effective_driver import with_effective_driver
from cuenv.resolver.health import machine_findings
from cuenv.resolver.rules import Context, Judge
from cuenv.resolver.solution_policy import cpu_variants, cuda_components, one_channel_findings, unlisted_cpu_builds
from cuenv.resolver.wheels import INDEX, wheel_for
from cuenv.solve.model import Solution

_DRIVER_RULES = ("gpu", "driver-gpu", "driver-floor", "driver-level")
"""The rules that apply to an environment without torch: those on the driver, the GPUs and the CUDA release."""


def check_host(env: CheckedEnvironment) -> Check:
    """Apply the resolver's rules to the installed packages, and report the state of the machine."""
    facts, knowledge = env.facts, env.knowledge
    solution = as_solution(env.prefix, env.cuda_files, facts.platform)
    torch = candidate_of(solution, knowledge)
    known = _cuda_release(env, torch)
    candidate = torch or (bare_candidate(known[0], facts.platform) if known else None)
    found = [*machine_findings(facts, candidate, knowledge, env.profile)]
    if not facts.gpus:
        why = f"{facts.label} has no known GPU; name the host with --host, or with --gpu and --driver"
        return judged("host", why, found) if found else skipped("host", why)
    if candidate is None or known is None:
        return judged("host", f"{host_line(facts)}; the environment's records name no CUDA release", found)
    host = with_effective_driver(facts, knowledge)
    found += _rule_findings(solution, host, env) if torch else _driver_findings(candidate, host, env)
    return judged("host", f"CUDA {known[0]} (from {known[1]}) on {host_line(facts)}", found)


def _cuda_release(env: CheckedEnvironment, torch: Candidate | None) -> tuple[Version, str] | None:
    """The CUDA release of the environment, and the source of that information."""
    if torch and torch.cuda and env.cuda_files.by_pip:
        return torch.cuda, f"torch {env.cuda_files.torch} (its files)"
    found = cuda_release_of(env.prefix)
    if found or torch is None or torch.cuda is None:
        return found
    return torch.cuda, f"pytorch {torch.build.version} {torch.build.build} (conda-meta)"


def _rule_findings(solution: Solution, host: HostFacts, env: CheckedEnvironment) -> Iterator[Finding]:
    # The check of device code reads the code of a torch from pip; the check of packages reports CU106.
    silent = ("CU111", "CU403", "CU106") if env.cuda_files.by_pip else ("CU106",)
    for finding in host_findings(solution, host, env.knowledge):
        by_files = (finding.code, finding.subject) == ("CU116", "numpy")  # reported as CU216
        if finding.code not in silent and not by_files:
            yield _with_install_command(finding, env)


def _with_install_command(finding: Finding, env: CheckedEnvironment) -> Finding:
    """The finding with a conda command in place of the entry that it would add to an environment file.

    conda-forge splits cuDNN: an environment can contain ``libcudnn`` alone, where a bound on ``cudnn`` has no effect.
    """
    if not finding.edits or not finding.mended_by_edits or any(edit.how != "add" or edit.pip for edit in finding.edits):
        return finding
    prefix = env.prefix
    split = not prefix.package("cudnn") and prefix.package("libcudnn")
    entries = tuple(
        f"lib{text}" if split and re.match(r"cudnn\b", text) else text
        for edit in finding.edits
        for text in edit.entries
    )
    return replace(finding, edits=(FileEdit(how="add", entries=entries),), fix=conda_install_specs(prefix, *entries))


def _driver_findings(candidate: Candidate, host: HostFacts, env: CheckedEnvironment) -> Iterator[Finding]:
    context = Context(facts=host, request=Request(dev=False), knowledge=env.knowledge)
    for verdict in Judge(context).verdicts(candidate):
        if verdict.rule in _DRIVER_RULES:
            yield from as_findings(verdict, candidate, context)


def check_runtime(env: CheckedEnvironment) -> Check:
    """Compare torch's CUDA with the runtime, the compiler, cuDNN and NCCL of the environment."""
    files = env.cuda_files
    if files.torch is None:
        return skipped("runtime", "no torch in the environment")
    if files.cuda is None:
        return skipped("runtime", f"torch {files.torch} is a CPU build and uses no CUDA")
    packages = library_packages(env.prefix)
    findings = runtime_findings(files, env.prefix, env.knowledge.extensions, packages)
    return judged("runtime", runtime_summary(files), findings)


def check_sources(env: CheckedEnvironment) -> Check:
    """Check that all CUDA packages come from one channel, and that no NVIDIA library is installed twice."""
    components = cuda_components(env.prefix.conda, env.knowledge)
    files = env.cuda_files
    if not components and not files.libraries:
        return skipped("sources", "neither a CUDA component nor an NVIDIA library is installed")
    anew = env.prefix.remake or f"cuenv lock && cuenv install --prefix {shlex.quote(f'{env.prefix.path}.new')}"
    mixed = (
        replace(item, fix=anew) if item.code == "CU101" else item
        for item in one_channel_findings(env.prefix.conda, env.knowledge)
    )
    findings = [*mixed, *library_source_findings(files, env.prefix)]
    channels = sorted({package.channel_name for package in components})
    parts = [f"{len(components)} CUDA components from {' and '.join(channels)}"] if components else []
    sources = sorted({library.source for library in files.libraries} - {"conda"})
    parts.append(
        f"{len(files.libraries)} libraries of NVIDIA's{f', {len(sources)} sources beside conda' if sources else ''}"
    )
    return judged("sources", "; ".join(parts), findings)


def check_packages(env: CheckedEnvironment) -> Check:
    """Check the packages: against the lock, pip over conda, duplicates, CPU builds, damaged records, missing files."""
    from cuenv.prefix.io.conda_meta import find_missing_files  # noqa: PLC0415 - many files are looked for, by this check alone
    from cuenv.prefix.io.prefix import outside_sites  # noqa: PLC0415 - as above
    from cuenv.solve.io.pip import pypi_names  # noqa: PLC0415 - a table that only this check needs

    prefix = env.prefix
    sites = outside_sites(prefix, env.environ)
    torch = env.cuda_files.torch
    findings = [*_platform_findings(env), *missing_file_findings(find_missing_files(prefix), prefix)]
    findings += numpy_findings(prefix, torch, env.knowledge)
    findings += [*prefix_findings(prefix, sites, env.knowledge, pypi_names(), torch), *_cpu_build_findings(env)]
    solution = env.lock.solution(prefix.platform or env.facts.platform) if env.lock else None
    if solution:
        findings += _lock_findings(env, solution)
    by_pip = sum(wheel.conda is None for wheel in prefix.wheels)
    counts = [f"{len(prefix.conda)} conda packages"] if prefix.kind == "conda" else []
    if by_pip or not counts:
        counts.append(f"{by_pip} by pip" if counts else f"{by_pip} distributions")
    told = "against the lock" if solution else other_platforms(env.lock) if env.lock else env.no_lock
    return judged("packages", f"{' and '.join(counts)}; {told}", findings)


def _platform_findings(env: CheckedEnvironment) -> Iterator[Finding]:
    """Report packages for another platform, which conda installs without a warning."""
    prefix, facts = env.prefix, env.facts
    if prefix.platform in (None, facts.platform):
        return
    made = prefix.remake or f"cuenv install --prefix {shlex.quote(f'{prefix.path}.new')}"
    steps = [] if env.solution else [f"cuenv lock --platform {prefix.platform} --platform {facts.platform}"]
    message = (
        f"the environment has packages for {prefix.platform}, but {facts.label} is {facts.platform} and cannot run them"
    )
    yield Finding(code="CU106", severity="error", subject="platform", message=message, fix=" && ".join([*steps, made]))


def _lock_findings(env: CheckedEnvironment, solution: Solution) -> Iterator[Finding]:
    prefix = env.prefix
    if prefix.kind == "conda":
        yield from conda_findings(prefix, solution)
    elif solution.packages:
        message = f"the lock contains {len(solution.packages)} conda packages, but this is not a conda environment"
        fix = "name the environment that was made from the lock: cuenv check --prefix DIR"
        yield Finding(code="CU201", severity="error", subject="conda", message=message, fix=fix)
    yield from pip_findings(prefix, solution)


def _cuda_build_command(name: str, env: CheckedEnvironment) -> str | None:
    """The command that replaces conda's CPU build: by the locked build, otherwise by the CUDA build of the release."""
    prefix = env.prefix
    locked = env.solution.package(name) if env.solution else None
    mine = prefix.package(name)
    variant = env.knowledge.cuda_variant(name, mine.channel_name) if mine else None
    if locked and mine and locked.build != mine.build:
        return restore_package(locked, prefix)
    return conda_install_specs(prefix, f"{name}={mine.version}={variant.any_cuda}") if mine and variant else None


def _cuda_torch_command(release: str, env: CheckedEnvironment) -> str:
    """The pip command that installs a CUDA build of torch which the host's driver and GPUs support."""
    wheel = wheel_for(version_or_none(release), env.facts, env.knowledge)
    if wheel is None:
        return pip_command(env.prefix, "install", "--force-reinstall", f"torch=={release}")
    index = ("--index-url", f"{INDEX}{wheel.build}")
    return pip_command(env.prefix, "install", "--force-reinstall", *index, f"torch=={wheel.name}")


def _cpu_build_findings(env: CheckedEnvironment) -> Iterator[Finding]:
    """Report CPU builds where a CUDA build is wanted; conda's by the build string, pip's by ``torch/version.py``."""
    from cuenv.prefix.io.conda_meta import find_torch  # noqa: PLC0415 - as above

    prefix = env.prefix
    cuda = cuda_components(prefix.conda, env.knowledge)
    twins = (
        [variant for judge in (cpu_variants, unlisted_cpu_builds) for variant in judge(prefix.conda, env.knowledge)]
        if cuda
        else []
    )
    conda = [replace(item, fix=_cuda_build_command(item.subject, env) or item.fix) for item in twins]
    yield from conda
    torch = find_torch(prefix)
    if torch is None or torch.cuda or any(item.subject == "pytorch" for item in conda):
        return
    wheels = [wheel.name for wheel in prefix.wheels if wheel.name.startswith("nvidia-")]
    locked = env.solution.package("pytorch") if env.solution else None
    if locked and "cuda" in locked.build:
        wanted = f"the lock says {locked.version} {locked.build}"
    elif cuda or wheels:
        wanted = (
            f"CUDA packages are installed beside it ({', '.join(sorted({*wheels, *(item.name for item in cuda)})[:3])})"
        )
    else:
        wanted = "the host has a GPU" if env.facts.gpus and not locked else ""
    if not wanted:
        return
    release = torch.version.partition("+")[0]
    own = None if env.cuda_files.by_pip else _cuda_build_command("pytorch", env)
    fix = own or _cuda_torch_command(release, env)
    if locked:
        out = [pip_command(prefix, "uninstall", "-y", "torch")] if env.cuda_files.by_pip else []
        fix = " && ".join([*out, restore_package(locked, prefix)])
    yield Finding(
        code="CU209",
        severity="error" if locked or cuda or wheels else "warning",
        subject="torch",
        message=f"torch {torch.version} is a CPU build, but {wanted}",
        evidence=("torch/version.py names no CUDA release",),
        fix=fix,
    )


_BNB = "bitsandbytes"


def check_device_code(env: CheckedEnvironment) -> Check:
    """Check which code each library has for each GPU: native code, PTX, or nothing."""
    from cuenv.prefix.io.cuda_files import find_code_files  # noqa: PLC0415 - as the other checks

    installed = env.cuda_files
    known = frozenset(row.package for row in env.knowledge.extensions)
    cuda = str(installed.cuda) if installed.cuda else None
    found = find_code_files(env.prefix, known, env.environ, cuda)
    gpus = host_gpus(env.facts)
    loaded, findings = _bitsandbytes(env, found.files)
    files = [file for file in found.files if file.library != _BNB or loaded is None or file.name == loaded]
    judgements = code_findings(files, gpus, env.knowledge, env.prefix)
    findings += [_with_other_bitsandbytes(item, env, found.files) for item in judgements]
    findings += _unreadable_findings(found.unreadable, env)
    if found.declared:
        findings += _declared_findings(found.declared, found.script, [file for file in files if file.library == TORCH])
    if not files and not findings:
        return skipped("device_code", "the environment contains no library with device code")
    libraries = ", ".join(dict.fromkeys(f"{file.library} {file.version or ''}".rstrip() for file in files))
    devices = ", ".join(str(gpu.capability) for gpu in gpus)
    told = f"for {devices}" if gpus else "the host has no known GPU: name it with --gpu"
    return judged("device_code", f"{len(files)} libraries{f' of {libraries}' if libraries else ''}; {told}", findings)


def _bitsandbytes(env: CheckedEnvironment, files: tuple[CodeFile, ...]) -> tuple[str | None, list[Finding]]:
    """The library that bitsandbytes loads (``None`` if unknown, empty if none), and the finding that it loads none."""
    installed = env.cuda_files
    there = bitsandbytes_libraries(file.name for file in files if file.library == _BNB)
    number = dict(installed.extensions).get(_BNB)
    if installed.cuda is None or number is None or not there:
        return None, []
    asked = env.environ.get("BNB_CUDA_VERSION", "")
    own = version(f"{asked[:2]}.{asked[2:]}") if re.fullmatch(r"[0-9]{3}", asked) else installed.cuda
    taken = bitsandbytes_choice(there, own, version_or_none(number), env.knowledge.extension(_BNB))
    return (there[taken], []) if taken else ("", [bitsandbytes_finding(there, own, number, env.prefix)])


def _with_other_bitsandbytes(finding: Finding, env: CheckedEnvironment, files: tuple[CodeFile, ...]) -> Finding:
    """A finding on bitsandbytes with the variable that makes it load a library for the GPUs, if it has one."""
    cuda = env.cuda_files.cuda
    if not finding.subject.startswith(f"{_BNB} on ") or finding.severity == "info" or cuda is None:
        return finding
    own = [file for file in files if file.library == _BNB]
    return replace(finding, fix=bitsandbytes_override(own, cuda, host_gpus(env.facts), env.knowledge))


def _declared_findings(text: str, script: str, torch: list[CodeFile]) -> Iterator[Finding]:
    try:
        declared = parse_arch_list(text, None).sass
    except ValueError:
        return
    yield from declared_findings(declared, torch, script)


def _unreadable_findings(found: tuple[tuple[str, str], ...], env: CheckedEnvironment) -> Iterator[Finding]:
    for path, reason in found:
        message = f"{path} cannot be read as a library: {reason}"
        fix = reinstall_owner(env.owner(path), env.prefix)
        yield Finding(code="CU294", severity="warning", subject=path.rpartition("/")[2], message=message, fix=fix)


def check_jit(env: CheckedEnvironment) -> Check:
    """Check compilers, headers, libraries and tools for builds on first use; skipped if nothing would be built."""
    files = env.cuda_files
    if files.torch is not None and files.cuda is None:
        return skipped("jit", f"torch {files.torch} is a CPU build and compiles nothing for a GPU")
    wanted = _build_needs(env)
    running = env.running
    if not wanted.why:
        told = "the environment has no nvcc, and no installed library needs one"
        other = _later_build_findings(env)
        return judged("jit", told, other) if other else skipped("jit", told)
    environ, reason = activation_variables(env.prefix, env.environ, running=running)
    names = [header.name for header in wanted.headers]
    found = find_toolchain(env.prefix, env.facts.platform, names, environ, running=running)
    found = replace(found, activation=reason)
    other = _other_nvcc_findings(found.nvcc, env, wanted)
    findings = jit_findings(wanted, found, env.prefix, env.facts, env.knowledge)
    findings = (*other, *without_nvcc_findings(findings, other))
    there = [name for name in names if found.headers.get(name)]
    if not running:
        return judged("jit", _tools_summary(found, there), findings)
    tools = build_tools(found, environ)
    if tools is None:
        return judged("jit", f"not tried, because no compiler runs ({wanted.why[0]})", findings)
    if any(item.subject == "nvcc" for item in other):
        return judged(
            "jit",
            f"{_tools_summary(found, there, tried=False)}; not tried, because this nvcc is of another CUDA release",
            findings,
        )
    capabilities = _compile_targets(env, found)
    tried = compile_sample(
        tools,
        headers=there,
        plain=[name for name in there if found.is_visible(name) and not name.endswith("_kernel.h")],
        capabilities=capabilities,
        runtime="cudart" in found.links,
    )
    return judged("jit", _compile_summary(found, capabilities, there, tried), (*findings, *trial_findings(tried)))


def build_tools(found: CudaToolchain, environ: dict[str, str]) -> BuildTools | None:
    """The programs and folders of a build; ``None`` if no nvcc runs."""
    if found.nvcc is None or found.nvcc.release is None:
        return None
    cxx = next((item.path for item in found.compilers if item.role == "C++" and item.version), None)
    own = [f"{environ['CONDA_PREFIX']}/lib"] if environ.get("CONDA_PREFIX") else []
    return BuildTools(
        nvcc=found.nvcc.path,
        cxx=cxx,
        ccbin=environ.get("CC") or None,
        includes=found.includes,
        libraries=tuple(dict.fromkeys([*library_folders(found.home), *own])),
        environ=environ,
    )


def _build_needs(env: CheckedEnvironment) -> BuildNeeds:
    prefix, knowledge = env.prefix, env.knowledge
    included = torch_includes(prefix) if has_torch(prefix) else ()
    return build_needs(
        prefix,
        knowledge,
        nvcc=bool(nvccs_in(prefix)),
        built=built_libraries(prefix, [wheel.name for wheel, _ in compiling_libraries(prefix, knowledge)]),
        torch_includes=[name for name in included if knowledge.package_with_header(name)],
        solution=env.solution,
        profile=env.profile,
    )


def _compile_targets(env: CheckedEnvironment, found: CudaToolchain) -> tuple[Capability, ...]:
    """The targets that nvcc compiles for to cover the host's GPUs; CU252 reports GPUs that it cannot compile for."""
    able = targets_of(found.nvcc, env.knowledge) if found.nvcc else ()
    targets = (target_for(item, able) if able else item for item in env.facts.capabilities)
    return tuple(dict.fromkeys(item for item in targets if item))


def _other_nvcc_findings(nvcc: Nvcc | None, env: CheckedEnvironment, wanted: BuildNeeds) -> tuple[Finding, ...]:
    """Compare the nvcc that a build would use with torch's CUDA; `check_runtime` covers the environment's own."""
    files = env.cuda_files
    if nvcc is None or nvcc.release is None or (files.nvcc and files.nvcc[1] == nvcc.path):
        return ()
    led = replace(files, nvcc=(nvcc.release, nvcc.path))
    found = compiler_findings(led, env.prefix, env.knowledge.extensions)
    mend = hook_command(env.prefix) if any(path != nvcc.path for path in nvccs_in(env.prefix)) else None
    return tuple(with_origin(item, nvcc, wanted, mend) for item in found if item.severity != "info")


def _later_build_findings(env: CheckedEnvironment) -> tuple[Finding, ...]:
    """The finding, if nothing is built now, that a later build would use an nvcc of another CUDA than torch's."""
    if env.cuda_files.cuda is None:
        return ()
    environ, _ = activation_variables(env.prefix, env.environ, running=False)
    home, via = find_cuda_home(environ)
    nvcc = read_nvcc(home, via, running=False) if home else None
    found = _other_nvcc_findings(nvcc, env, BuildNeeds(why=()))
    return tuple(item for item in found if item.subject == "nvcc")


def _tools_summary(found: CudaToolchain, there: list[str], *, tried: bool = True) -> str:
    """The tools in one line, as their files describe them."""
    nvcc = found.nvcc
    named = "no nvcc" if nvcc is None or nvcc.reason else f"nvcc {nvcc.release or 'of an unknown release'}"
    called = dict.fromkeys(f"{item.kind} {item.version}" for item in found.compilers if item.version)
    parts = [named, *called, f"{len(there)} CUDA headers"]
    return f"{', '.join(parts)}{', by their files; --run compiles a program with them' if tried else ''}"


def _compile_summary(
    found: CudaToolchain, capabilities: tuple[Capability, ...], there: list[str], tried: tuple[Compilation, ...]
) -> str:
    release = found.nvcc.release if found.nvcc else None
    called = dict.fromkeys(f"{item.kind} {item.version}" for item in found.compilers if item.version)
    by = f" with {' and '.join(called)}" if called else ""
    target = f"for {', '.join(map(str, capabilities))}" if capabilities else "for its own choice of GPU"
    spent = sum(item.seconds for item in tried)
    verb = "stumbled over" if any(item.reason for item in tried) else "compiled"
    return f"nvcc {release}{by} {verb} a program with {len(there)} CUDA headers {target} ({spent:.1f} s)"


CHECKS: Mapping[str, Callable[[CheckedEnvironment], Check]] = {
    "packages": check_packages,
    "sources": check_sources,
    "runtime": check_runtime,
    "device_code": check_device_code,
    "linkage": check_linkage,
    "jit": check_jit,
    "host": check_host,
}
"""The checks in the order of the report."""
