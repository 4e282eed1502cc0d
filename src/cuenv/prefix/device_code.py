"""The machine code of an environment's libraries against each GPU of a host, read from the binaries themselves."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator

from packaging.version import Version

from cuenv.binary.code import CodeObject, FileCode, summary
from cuenv.binary.gpu_code import GpuCode, HostGpu, gpu_code
from cuenv.core.findings import Finding, Severity
from cuenv.core.record import dataclass
from cuenv.core.regex import regex
from cuenv.core.versions import Target, version
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import Extension
from cuenv.prefix.fixes import pip_command
from cuenv.prefix.inventory import Prefix

TORCH = "torch"
_BITSANDBYTES = regex(r"libbitsandbytes_cuda(\d{2})(\d)\.so")
_HALF = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeFile:
    """A library with device code."""

    library: str  # the distribution that it belongs to, such as ``torch`` or ``flash-attn``
    version: str | None  # the version of that distribution; ``None`` if unknown
    path: str
    code: FileCode
    built: bool = False  # whether torch compiled it on first use

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.path.rpartition("/")[2]


def code_findings(
    files: Iterable[CodeFile], gpus: Iterable[HostGpu], knowledge: Knowledge, prefix: Prefix
) -> Iterator[Finding]:
    """Report, for each library and GPU, that files have no native code for the GPU (CU290, CU291)."""
    groups: dict[str, list[CodeFile]] = {}
    for file in files:
        objects = _portable_objects(file.code.objects)
        if objects:
            groups.setdefault(file.library, []).append(file)
    for library, members in groups.items():
        for gpu in gpus:
            served = [(file, gpu_code(_portable_objects(file.code.objects), gpu, knowledge)) for file in members]
            yield from _findings_for_gpu(library, served, gpu, prefix)


def _portable_objects(objects: tuple[CodeObject, ...]) -> tuple[CodeObject, ...]:
    """The code objects except those for one architecture alone (``9.0a``), which libraries do not need elsewhere."""
    return tuple(item for item in objects if any(not entry.target.suffix for entry in item.entries if not entry.bare))


def _findings_for_gpu(
    library: str, served: list[tuple[CodeFile, GpuCode]], gpu: HostGpu, prefix: Prefix
) -> Iterator[Finding]:
    for outcome in ("nothing", "partly", "jit"):
        lacking = [(file, how) for file, how in served if how.outcome == outcome]
        if not lacking:
            continue
        file, how = max(lacking, key=lambda pair: len(pair[1].missing) + len(pair[1].beyond))
        more = f" and {len(lacking) - 1} more of its files" if len(lacking) > 1 else ""
        name = f"{library} {file.version}" if file.version else library
        yield Finding(
            code="CU290" if library == TORCH else "CU291",
            severity=_severity(library, how, gpu),
            subject=f"{library} on {gpu.capability}",
            message=f"{name}: {file.name}{more} {_describe(file, how, gpu)}",
            evidence=tuple(f"{one.path}: {_code_summary(one.code)}" for one, _ in lacking),
            fix=_fix(file, how, gpu, prefix),
        )
        return


def _severity(library: str, how: GpuCode, gpu: HostGpu) -> Severity:
    if how.outcome == "jit":
        return "info" if gpu.level is None else "warning"
    if how.outcome == "nothing":
        return "error"
    return "error" if library == TORCH and how.native + how.jit < how.objects // _HALF else "warning"


def _describe(file: CodeFile, how: GpuCode, gpu: HostGpu) -> str:
    """The part of the message that says which code a file has for a GPU."""
    device = f"the GPU of compute capability {gpu.capability}"
    needs = f"a driver that supports CUDA {how.needs}" if how.needs else f"a driver that supports PTX {how.unknown_isa}"
    if how.outcome == "jit":
        speaks = f"; this driver supports CUDA {gpu.level}" if gpu.level else "; the driver is not known"
        return f"has only PTX for {device}, which {needs} must compile at the first start{speaks}"
    if how.outcome == "partly":
        return f"has no code for {device} in {len(how.missing) + len(how.beyond)} of {how.objects} code objects"
    if how.beyond:
        return f"has only PTX for {device}, which needs {needs}; this driver supports CUDA {gpu.level}"
    return f"has code for {_code_summary(file.code)}, but not for {device}"


def _code_summary(code: FileCode) -> str:
    held = summary(code.objects)
    ptx = [f"{target}+PTX" for target, _ in held.ptx]
    return " ".join([*map(str, held.sass), *ptx]) or "no machine code"


def _fix(file: CodeFile, how: GpuCode, gpu: HostGpu, prefix: Prefix) -> str | None:
    if how.outcome == "jit":
        return None
    if how.beyond and not how.missing and how.driver:
        return f"install driver {how.driver} or later"
    if file.library == TORCH:
        return f"cuenv resolve --gpu {gpu.capability} -o environment.new.yml"
    if file.built:
        return f"rm -r {shlex.quote(file.path.rpartition('/')[0])}"
    if prefix.package(file.library):  # pip's would lie over conda's
        return None
    number = (file.version or "").partition("+")[0]
    asked = f"{file.library}=={number}" if re.fullmatch(r"[0-9][\w.]*", number) else file.library
    again = ("--no-binary", file.library, "--force-reinstall", "--no-deps", asked)
    return f"TORCH_CUDA_ARCH_LIST={gpu.capability} {pip_command(prefix, 'install', '--no-build-isolation', *again)}"


# Which of its libraries bitsandbytes loads.


def bitsandbytes_libraries(names: Iterable[str]) -> dict[Version, str]:
    """The libraries of bitsandbytes by the CUDA release in their names: ``libbitsandbytes_cuda128.so`` is for 12.8."""
    found = ((match, name) for name in names if (match := _BITSANDBYTES.fullmatch(name)))
    return {version(f"{match[1]}.{match[2]}"): name for match, name in found}


def bitsandbytes_choice(
    there: Iterable[Version], cuda: Version, release: Version | None, rows: Iterable[Extension]
) -> Version | None:
    """The CUDA release of the library that bitsandbytes loads; ``None`` if it loads none.

    Args:
        there: the CUDA releases that it has libraries for.
        cuda: the CUDA release of torch.
        release: the release of bitsandbytes; newer releases also accept another minor version of CUDA.
    """
    known = tuple(there)
    loads = (row.loads(known, cuda) for row in rows if release and row.covers(release))
    return cuda if cuda in known else next(filter(None, loads), None)


def bitsandbytes_override(
    files: Iterable[CodeFile], cuda: Version, gpus: Iterable[HostGpu], knowledge: Knowledge
) -> str | None:
    """The variable that makes bitsandbytes load a library with native code for every GPU; ``None`` without one."""
    devices = list(gpus)
    named = {file.name: file for file in files}
    for release, name in sorted(bitsandbytes_libraries(named).items(), reverse=True):
        served = [gpu_code(_portable_objects(named[name].code.objects), gpu, knowledge).outcome for gpu in devices]
        if release.major == cuda.major and served and set(served) == {"native"}:
            return f"export BNB_CUDA_VERSION={release.major}{release.minor}"
    return None


def bitsandbytes_finding(there: Iterable[Version], cuda: Version, number: str, prefix: Prefix) -> Finding:
    """The finding that bitsandbytes has no library for torch's CUDA release."""
    has = ", ".join(map(str, sorted(there))) or "no CUDA"
    message = (
        f"bitsandbytes {number} has libraries for CUDA {has}, but torch was built with CUDA "
        f"{cuda}, so bitsandbytes loads none of them"
    )
    fix = pip_command(prefix, "install", "--upgrade", "bitsandbytes")
    return Finding(code="CU292", severity="error", subject="bitsandbytes", message=message, fix=fix)


# What libtorch's activation script declares.


def declared_findings(declared: Iterable[Target], torch: Iterable[CodeFile], script: str) -> Iterator[Finding]:
    """Report targets that the activation script declares, but for which torch's files have no code (CU293)."""
    files = list(torch)
    held = {target for file in files for target in summary(file.code.objects).sass}
    lacking = sorted(set(declared) - held)
    if files and lacking:
        message = f"{script} lists {', '.join(map(str, lacking))}, but torch's binaries have no code for it"
        evidence = tuple(f"{file.path}: {_code_summary(file.code)}" for file in files)
        subject = "CF_TORCH_CUDA_ARCH_LIST"
        yield Finding(code="CU293", severity="warning", subject=subject, message=message, evidence=evidence)
