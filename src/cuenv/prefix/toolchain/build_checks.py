"""Whether builds of CUDA extensions would work in an environment: the findings CU250 to CU261."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

from cuenv.core.findings import Finding, Severity
from cuenv.core.record import dataclass, replace
from cuenv.core.versions import Capability, target_for, version
from cuenv.host.facts import HostFacts
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import Extension
from cuenv.prefix.fixes import conda_install, conda_install_specs, pip_command, reinstall_wheel
from cuenv.prefix.inventory import Prefix, Wheel
from cuenv.prefix.toolchain.toolchain import Compilation, CudaToolchain, HostCompiler, Nvcc, library_of
from cuenv.solve.environment_spec import NVCC
from cuenv.solve.model import Solution


def hook_command(prefix: Prefix) -> str:
    """The command that lets builds find the environment's CUDA."""
    where = shlex.quote(prefix.path)
    return (
        f"cuenv hook --prefix {where}" if prefix.kind == "conda" else f'eval "$(cuenv hook --prefix {where} --print)"'
    )


def nvcc_command(prefix: Prefix) -> str:
    """How to install an nvcc for this environment, as a command or in words."""
    if prefix.kind == "conda":
        return conda_install(prefix, "cuda-nvcc")
    cuda = _cuda_major_of_wheels(prefix)
    toolkit = f"install a CUDA {cuda or ''} toolkit".replace("  ", " ") + " and export CUDA_HOME=DIR"
    # The wheels for CUDA 11 and 12 hold ptxas alone.
    return toolkit if cuda and cuda < 13 else f"{pip_command(prefix, 'install', 'nvidia-cuda-nvcc>=13')}, or {toolkit}"


def header_command(prefix: Prefix, package: str | None, cuda: int | None) -> str | None:
    """The command that installs a conda package, or the wheel with the same files for a CUDA major version."""
    if package is None:
        return None
    if prefix.kind == "conda":
        return conda_install(prefix, package)
    name = package if package == "ninja" else wheel_of(package, cuda or _cuda_major_of_wheels(prefix))
    there = prefix.wheel(name)
    return reinstall_wheel(prefix, there) if there else pip_command(prefix, "install", name)


def _cuda_major_of_wheels(prefix: Prefix) -> int | None:
    """The CUDA major version of the environment's NVIDIA wheels."""
    runtime = prefix.wheel("nvidia-cuda-runtime")
    if runtime:
        return version(runtime.version).major
    return next((major for major in (12, 11) if prefix.wheel(f"nvidia-cuda-runtime-cu{major}")), None)


_BY_VARIABLES = frozenset({"CU250", "CU251", "CU252", "CU254", "CU255", "CU256", "CU257", "CU258", "CU259"})
"""Findings that depend on variables, and therefore on activation."""


_BY_NVCC = frozenset({"CU252", "CU254", "CU256", "CU257", "CU258"})  # findings that depend on which nvcc is used


def jit_findings(
    wanted: BuildNeeds, found: CudaToolchain, prefix: Prefix, facts: HostFacts, knowledge: Knowledge
) -> tuple[Finding, ...]:
    """Everything that would prevent a build, the most basic first."""
    told = (
        *_nvcc(wanted, found, prefix),
        *_home(found, prefix),
        *_targets(found.nvcc, facts, knowledge),
        *_headers(wanted, found, prefix),
        *_links(wanted, found, prefix),
        *_tools(wanted, found, prefix),
        *_compilers(found, prefix, knowledge),
        *_folder(found),
        *_activation(found, prefix),
    )
    if found.activation is None:
        return told
    # Activation may set variables that avoid these errors, so none of them is certain.
    return tuple(replace(item, severity="warning") if item.code in _BY_VARIABLES else item for item in told)


def with_origin(finding: Finding, nvcc: Nvcc, wanted: BuildNeeds, mend: str | None = None) -> Finding:
    """A finding on an nvcc outside of the environment, with the variable that names it and the library that builds.

    Args:
        finding: CU212, an error.
        wanted: what builds need; empty if no library compiles on first use.
        mend: the command that makes builds use the environment's own nvcc, if there is one.
    """
    finding = replace(finding, fix=mend or finding.fix)
    text = f"{finding.message}; {nvcc.via} leads builds to {nvcc.path}"
    if wanted.libraries:
        return replace(finding, message=f"{text}, and {wanted.libraries[0]} compiles on first use")
    weight: Severity = "info" if not wanted.why and nvcc.via.startswith("/") else "warning"
    return replace(finding, severity=weight, message=text)


def without_nvcc_findings(findings: Iterable[Finding], other: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings without those that depend on an nvcc which is itself reported as the wrong one."""
    wrong = any(item.subject == "nvcc" for item in other)
    return tuple(item for item in findings if not (wrong and item.code in _BY_NVCC))


def trial_findings(tried: Iterable[Compilation]) -> tuple[Finding, ...]:
    """The errors of the sample compilation (CU260)."""
    return tuple(
        Finding(
            code="CU260",
            severity="error",
            subject=item.what,
            message=f"{item.what} does not compile: {item.tail[0] if item.tail else item.reason}",
            evidence=(shlex.join(item.command), *([item.reason] if item.reason else []), *item.tail),
            fix="-v shows the tool's output",
        )
        for item in tried
        if item.reason
    )


def targets_of(nvcc: Nvcc, knowledge: Knowledge) -> tuple[Capability, ...]:
    """The targets of an nvcc: those that it lists, otherwise those of its release in the tables; empty if unknown."""
    if nvcc.targets or nvcc.release is None:
        return nvcc.targets
    row = knowledge.cuda(nvcc.release)
    return row.targets if row else ()


def compiler_bound(nvcc: Nvcc, knowledge: Knowledge, kind: str) -> tuple[int | None, str]:
    """The newest major version of a host compiler that an nvcc accepts, and the source of that information."""
    if nvcc.bounds and nvcc.bounds.newest(kind):
        return nvcc.bounds.newest(kind), "its host_config.h"
    row = knowledge.cuda(nvcc.release) if nvcc.release and kind == "gcc" else None
    return (row.gcc_max if row else None), "the cuenv tables"


def _nvcc(wanted: BuildNeeds, found: CudaToolchain, prefix: Prefix) -> Iterator[Finding]:
    nvcc = found.nvcc
    if nvcc is None and found.inside:
        message = (
            f"a build does not find the environment's nvcc, {found.inside[0]}: it is not on PATH, and neither "
            "CUDA_HOME nor CUDA_PATH leads to it"
        )
        yield Finding(code="CU257", severity="error", subject="nvcc", message=message, fix=hook_command(prefix))
    elif nvcc is None:
        yield Finding(
            code="CU250",
            severity="error",
            subject="nvcc",
            message=f"no nvcc in the environment, on PATH or in CUDA_HOME, and {wanted.why[0]}",
            evidence=wanted.why,
            fix=nvcc_command(prefix),
        )
    elif nvcc.reason:
        yield Finding(
            code="CU251",
            severity="error",
            subject=nvcc.path,
            message=f"{nvcc.path}, to which {nvcc.via} leads, does not run: {nvcc.reason}",
            fix=hook_command(prefix) if found.inside and nvcc.path not in found.inside else nvcc_command(prefix),
        )
    elif nvcc.release is None:
        message = (
            f"the release of {nvcc.path}, to which {nvcc.via} leads, is not known: no file contains it, "
            "and nvcc was not run"
        )
        fix = _run_check_command(prefix)
        yield Finding(code="CU251", severity="warning", subject=nvcc.path, message=message, fix=fix)


def _run_check_command(prefix: Prefix) -> str:
    """The command that also runs the programs, whose files alone were read."""
    return shlex.join(["cuenv", "check", "--prefix", prefix.path, "--run"])


def _home(found: CudaToolchain, prefix: Prefix) -> Iterator[Finding]:
    """Compare CUDA_HOME, CUDA_PATH and PATH with the nvcc of the environment."""
    nvcc = found.nvcc
    if nvcc and nvcc.release and found.inside and nvcc.path not in found.inside:
        yield Finding(
            code="CU257",
            severity="warning",
            subject=nvcc.via,
            message=f"{nvcc.via} leads builds to {nvcc.path}, but the environment has its own nvcc, {found.inside[0]}",
            evidence=tuple(f"{name}={value}" for name, value in found.named.items()),
            fix=hook_command(prefix),
        )
    home, path = found.named.get("CUDA_HOME"), found.named.get("CUDA_PATH")
    if home and path and home.rstrip("/") != path.rstrip("/"):
        message = (
            f"CUDA_PATH is {path}, but CUDA_HOME is {home}; torch uses CUDA_HOME, and other programs use CUDA_PATH"
        )
        fix = f"export CUDA_PATH={shlex.quote(home)}"
        yield Finding(code="CU257", severity="warning", subject="CUDA_PATH", message=message, fix=fix)


def _targets(nvcc: Nvcc | None, facts: HostFacts, knowledge: Knowledge) -> Iterator[Finding]:
    if nvcc is None or nvcc.release is None:
        return
    able = targets_of(nvcc, knowledge)
    for capability in facts.capabilities:
        if not able or target_for(capability, able):
            continue
        generation = knowledge.compute_capability(capability)
        first, last = (generation.first_cuda, generation.last_cuda) if generation else (None, None)
        bounds = " ".join(part for part in (first and f"from CUDA {first} on", last and f"up to CUDA {last}") if part)
        yield Finding(
            code="CU252",
            severity="error",
            subject=str(capability),
            message=f"nvcc {nvcc.release} cannot compile for compute capability {capability}; it compiles for "
            f"{', '.join(map(str, sorted(able)))}",
            evidence=(nvcc.path, *(generation.sources if generation else ())),
            fix=f"use a toolkit {bounds}: cuenv resolve --gpu {capability}" if bounds else None,
        )


def _headers(wanted: BuildNeeds, found: CudaToolchain, prefix: Prefix) -> Iterator[Finding]:
    for header in wanted.headers:
        if not found.headers.get(header.name):
            yield _missing_header(header, found, prefix)
    hidden = [item for item in wanted.headers if found.headers.get(item.name) and not found.is_visible(item.name)]
    if hidden:
        folders = dict.fromkeys(found.headers[item.name][0] for item in hidden)
        yield Finding(
            code="CU254",
            severity="error",
            subject=", ".join(item.name for item in hidden),
            message=f"{', '.join(item.name for item in hidden)} {'lies' if len(hidden) == 1 else 'lie'} in "
            f"{', '.join(folders)}, which builds of C++ files do not search",
            evidence=(
                f"a build looks in {', '.join(found.include_path) or 'no folder of CUDA'}",
                *(f"{item.name}: for {', '.join(item.by)}" for item in hidden),
            ),
            fix=hook_command(prefix),
        )


def _missing_header(header: NeededHeader, found: CudaToolchain, prefix: Prefix) -> Finding:
    cuda = found.nvcc.release.major if found.nvcc and found.nvcc.release else None
    brings = f"; {header.holder} contains it" if header.holder else ""
    message = f"{header.name} is not in the environment, but {', '.join(header.by)} includes it{brings}"
    fix = header_command(prefix, header.holder, cuda) if header.holder else None
    return Finding(code="CU253", severity="error", subject=header.name, message=message, fix=fix)


def _links(wanted: BuildNeeds, found: CudaToolchain, prefix: Prefix) -> Iterator[Finding]:
    """Report missing links without version, which options such as ``-lcudart`` need."""
    asked = {library: item for item in wanted.headers if (library := library_of(item.name))}
    for library, header in sorted(asked.items()):
        if library in found.links or not found.headers.get(header.name):
            continue
        there = found.versioned.get(library)
        have = f"{there} exists, but the linker does not use it" if there else "no file of it is there"
        holder = "cuda-cudart-dev" if library == "cudart" else header.holder
        fix = header_command(prefix, holder, None) if holder and prefix.kind == "conda" else None
        if there and prefix.kind != "conda":
            fix = shlex.join(["ln", "-s", there.rpartition("/")[2], f"{there.rpartition('/')[0]}/lib{library}.so"])
        yield Finding(
            code="CU258",
            severity="error" if library == "cudart" else "warning",
            subject=f"lib{library}.so",
            message=f"-l{library} finds no lib{library}.so: {have}",
            evidence=(f"for {', '.join(header.by)}",),
            fix=fix,
        )


def _tools(wanted: BuildNeeds, found: CudaToolchain, prefix: Prefix) -> Iterator[Finding]:
    if "ninja" in wanted.tools and found.ninja is None:
        message = "ninja is not on PATH, but torch needs it to build extensions"
        fix = header_command(prefix, "ninja", None)
        yield Finding(code="CU255", severity="error", subject="ninja", message=message, fix=fix)


def _compilers(found: CudaToolchain, prefix: Prefix, knowledge: Knowledge) -> Iterator[Finding]:
    told: set[str] = set()
    for compiler in found.compilers:
        finding = _compiler(compiler, found.nvcc, prefix, knowledge)
        if finding and (compiler.path or compiler.asked) not in told:
            told.add(compiler.path or compiler.asked)
            yield finding


def _compiler(compiler: HostCompiler, nvcc: Nvcc | None, prefix: Prefix, knowledge: Knowledge) -> Finding | None:
    newest, says = compiler_bound(nvcc, knowledge, compiler.kind) if nvcc else (None, "")
    row = knowledge.cuda(nvcc.release) if nvcc and nvcc.release else None
    oldest = row.gcc_min if row and compiler.kind == "gcc" else None
    if compiler.unread:
        return Finding(
            code="CU256",
            severity="warning",
            subject=compiler.path or compiler.asked,
            message=(
                f"the version of {compiler.path} (from {compiler.via}), the host compiler for "
                f"{compiler.role}, is unknown: no file contains it, and the compiler was not run"
            ),
            fix=_run_check_command(prefix),
        )
    if compiler.path is None or compiler.major is None:
        what = f"{compiler.asked} (from {compiler.via})"
        lacks = f"{what} does not exist" if compiler.path is None else f"{what} prints no version"
        message = f"no usable host compiler for {compiler.role}: {lacks}"
    elif nvcc and newest and compiler.major > newest:
        message = (
            f"{compiler.kind} {compiler.version} ({compiler.path}, from {compiler.via}) is newer than {compiler.kind} "
            f"{newest}, the newest that nvcc {nvcc.release} supports ({says})"
        )
    elif nvcc and oldest and compiler.major < oldest:
        message = (
            f"{compiler.kind} {compiler.version} ({compiler.path}, from {compiler.via}) is older than {compiler.kind} "
            f"{oldest}, the oldest that nvcc {nvcc.release} supports"
        )
    else:
        return None
    below = f"<{newest + 1}" if newest and compiler.kind != "clang" else ""
    if prefix.kind == "conda":
        # The metapackage names the compiler of whatever platform conda installs for.
        fix = conda_install_specs(prefix, f"gxx{below}")
    else:
        number = f" {newest}" if newest else ""
        name = compiler.kind if newest and compiler.kind == "clang" else "g++"
        fix = f"install {name}{number} and name it: export CXX=... CC=... NVCC_PREPEND_FLAGS='-ccbin ...'"
    return Finding(code="CU256", severity="error", subject=compiler.path or compiler.asked, message=message, fix=fix)


def _folder(found: CudaToolchain) -> Iterator[Finding]:
    if found.folder and found.folder.reason:
        message = f"torch cannot build extensions in {found.folder.path} ({found.folder.via}): {found.folder.reason}"
        fix = "export TORCH_EXTENSIONS_DIR=DIR, a folder on a local disk that is writable and not mounted noexec"
        yield Finding(code="CU259", severity="error", subject=found.folder.path, message=message, fix=fix)


def _activation(found: CudaToolchain, prefix: Prefix) -> Iterator[Finding]:
    if found.activation:
        message = f"cuenv could not determine all variables that `conda activate` would set: {found.activation}"
        fix = _run_check_command(prefix)
        yield Finding(code="CU261", severity="warning", subject="activate.d", message=message, fix=fix)


_ALWAYS = "cuda_runtime.h"
_TOOLS = ("gxx", "ninja")


@dataclass(frozen=True, slots=True, kw_only=True)
class NeededHeader:
    """A header that builds include."""

    name: str
    by: tuple[str, ...]  # what includes it
    holder: str | None  # the conda package that contains it; ``None`` if the tables do not know


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildNeeds:
    """What builds on first use need."""

    why: tuple[str, ...]  # the reasons to expect such builds; empty if none are expected
    libraries: tuple[str, ...] = ()  # the libraries that compile on first use, with their versions
    headers: tuple[NeededHeader, ...] = ()
    tools: tuple[str, ...] = ()  # other programs: ``gxx``, ``ninja``


def has_torch(prefix: Prefix) -> bool:
    """Whether torch is installed, by conda or pip."""
    return any(prefix.package(name) for name in ("pytorch", "libtorch")) or prefix.wheel("torch") is not None


def compiling_libraries(prefix: Prefix, knowledge: Knowledge) -> tuple[tuple[Wheel, Extension], ...]:
    """The installed libraries that always compile with nvcc according to the tables, however they were installed."""
    found = []
    for wheel in prefix.wheels:
        rows = _rows(wheel, prefix, knowledge)
        if rows and all(row.nvcc for row in rows):
            found.append((wheel, rows[-1]))
    return tuple(found)


def _rows(wheel: Wheel, prefix: Prefix, knowledge: Knowledge) -> list[Extension]:
    rows = knowledge.extension(wheel.name)
    if not rows:
        return []
    try:
        release = version(wheel.version)
    except ValueError:
        return []
    package = prefix.package(wheel.name) if wheel.installer == "conda" else None
    ways = {package.channel_name} if package else {"source", "wheel"}
    return [row for row in rows if row.covers(release) and ways & set(row.comes)]


def build_needs(
    prefix: Prefix,
    knowledge: Knowledge,
    *,
    nvcc: bool,
    built: frozenset[str] = frozenset(),
    torch_includes: Iterable[str] = (),
    solution: Solution | None = None,
    profile: Request | None = None,
) -> BuildNeeds:
    """What builds in an environment need.

    Builds are expected where a library compiles on first use, where an nvcc is installed or locked, and where the
    profile asks for one.

    Args:
        built: libraries that contain compiled code, because they were built when they were installed.
        torch_includes: the CUDA headers that torch's own headers include.
    """
    libraries = [(wheel, row) for wheel, row in compiling_libraries(prefix, knowledge) if wheel.name not in built]
    why = [f"{wheel.name} {wheel.version} compiles on first use" for wheel, _ in libraries]
    if nvcc:
        why.append("the environment contains nvcc")
    locked = [item for item in solution.packages if item.name in NVCC] if solution else []
    why += [f"the lock contains {item.name} {item.version}" for item in locked]
    if profile is not None and profile.dev and not profile.cpu:
        why.append(f"the profile {profile.name} requests a compiler")
    if not why:
        return BuildNeeds(why=())
    asked: dict[str, list[str]] = {_ALWAYS: ["nvcc"]}
    for name in torch_includes:
        asked.setdefault(name, []).append("torch")
    for wheel, row in libraries:
        for name in row.headers:
            asked.setdefault(name, []).append(f"{wheel.name} {wheel.version}")
    for name, package in _headers_of_packages(prefix, knowledge):
        asked.setdefault(name, []).append(package)
    headers = tuple(
        NeededHeader(name=name, by=tuple(dict.fromkeys(by)), holder=knowledge.package_with_header(name))
        for name, by in sorted(asked.items())
    )
    extra = {tool for _, row in libraries for tool in row.tools} | set(_TOOLS if has_torch(prefix) else ("gxx",))
    names = tuple(f"{wheel.name} {wheel.version}" for wheel, _ in libraries)
    return BuildNeeds(why=tuple(why), libraries=names, headers=headers, tools=tuple(sorted(extra)))


def _headers_of_packages(prefix: Prefix, knowledge: Knowledge) -> Iterator[tuple[str, str]]:
    """The headers that installed conda packages contain according to the tables, each with its package."""
    for package in prefix.conda:
        component = knowledge.component(package.name)
        if component and component.name == package.name:
            yield from ((header, package.name) for header in component.headers)


def wheel_of(package: str, cuda: int | None) -> str:
    """The wheel with the headers of a conda package: ``nvidia-cusparse-cu12`` or ``nvidia-cusparse``.

    Since CUDA 13 the wheels of the toolkit have no suffix; those of cuDNN and NCCL still have one.
    """
    part = package.removeprefix("lib").removesuffix("-dev").replace("cudart", "runtime")
    suffix = f"-cu{cuda}" if cuda and (cuda < 13 or part in ("cudnn", "nccl")) else ""
    return f"nvidia-{part}{suffix}"
