"""Rules on the request: the platform, CPU or CUDA, the versions, and packages for every role."""

from __future__ import annotations

from packaging.version import Version

from cuenv.core.versions import version
from cuenv.host.request import Request
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import WHEELS, LabelFit, TorchBuild
from cuenv.resolver.candidates import admits
from cuenv.resolver.engine import rule
from cuenv.resolver.verdict import HOST, Reason, Remedy, Verdict, host_reason, row_reason


@rule("platform", code="CU110", order=10, title="the build is for the platform of the host", locked=False)
def platform(built_for: str, platform: str) -> Verdict:
    """The build exists for the platform of the host."""
    reasons = (host_reason("platform", f"the platform of {HOST} is {platform}"),)
    if platform == built_for:
        return Verdict(rule="platform", outcome="pass", because=f"this build is for {built_for}", reasons=reasons)
    because = f"this build is for {built_for}, but the platform of the host is {platform}"
    return Verdict(rule="platform", outcome="reject", because=because, reasons=reasons)


@rule("cpu", code="CU110", order=20, title="a CPU build is chosen only on request", locked=False)
def cpu_only_when_asked_for(built_cuda: Version | None, cpu: bool) -> Verdict:
    """A CPU build is chosen when it is asked for, and only then."""
    is_cpu = built_cuda is None
    reasons = (Reason("wish", "--cpu was given" if cpu else "--cpu was not given"),)
    if is_cpu == cpu:
        because = "--cpu requests this CPU build" if is_cpu else "this is a CUDA build"
        return Verdict(rule="cpu", outcome="pass", because=because, reasons=reasons)
    because = (
        "a CPU build is chosen only with --cpu" if is_cpu else "--cpu requests a CPU build, but this is a CUDA build"
    )
    return Verdict(rule="cpu", outcome="reject", because=because, reasons=reasons)


_AS_ASKED = Verdict(rule="wish", outcome="pass", because="this build has the requested versions")


def _nothing_asked(request: Request) -> Verdict | None:
    asked = request.stack or request.pytorch or request.cuda or request.python
    return None if asked else _AS_ASKED


@rule(
    "wish",
    code="CU110",
    order=40,
    title="the build has the requested versions",
    about=("cuda", "python", "stack"),
    unless=_nothing_asked,
    locked=False,
)
def wish(
    *, build: TorchBuild, cuda: Version | None, label: LabelFit | None, python: str, request: Request, kb: Knowledge
) -> Verdict:
    """The versions and the stack are those that the options or the profile request."""
    asked = request
    if asked.stack and asked.stack != build.stack:
        return _refused(f"--stack {asked.stack}", f"this build is from the stack {build.stack}")
    if asked.pytorch and not asked.pytorch.admits(build.version):
        return _refused(f"--pytorch {asked.pytorch}", f"this build has pytorch {build.version}")
    if asked.cuda and cuda and not admits(asked.cuda, str(cuda)):
        return _refused(f"--cuda {asked.cuda}", f"this build has CUDA {cuda}")
    if asked.cuda and label and not asked.cuda.admits(version(label.label)):
        return _refused(f"--cuda {asked.cuda}", f"its CUDA toolkit is {label.label}")
    if asked.python and not admits(asked.python, python):
        return _refused(f"--python {asked.python}", f"this build has python {', '.join(build.pythons)}")
    return _library_of_wheel(build, asked, kb) or _AS_ASKED


def _library_of_wheel(build: TorchBuild, asked: Request, kb: Knowledge) -> Verdict | None:
    """A wheel requires its cuDNN and its NCCL exactly, so another release of them is another wheel."""
    if build.stack != WHEELS or not asked.packages:
        return None
    from cuenv.resolver.requirements import demands  # noqa: PLC0415 - most requests name no package

    for demand in demands(asked.packages, ()):
        row = kb.component(demand.name)
        inside = {"cudnn": build.cudnn, "nccl": build.nccl}.get(row.role) if row else None
        if inside and inside.first and not demand.admits(inside.first):
            return _refused(
                f"--with {demand.text}", f"this wheel of torch requires {demand.name} {inside.first} exactly"
            )
    return None


def _refused(asked: str, but: str) -> Verdict:
    because = f"the build does not match {asked}"
    return Verdict(
        rule="wish", outcome="reject", because=because, reasons=(Reason("wish", f"{asked} was requested, but {but}"),)
    )


_NO_DAY = Verdict(rule="as-of", outcome="pass", because="the request names no day, so the builds of today count")


def _no_day(as_of: str) -> Verdict | None:
    return None if as_of else _NO_DAY


@rule("as-of", code="CU110", order=45, title="the build existed on the requested day", unless=_no_day, locked=False)
def existed(build: TorchBuild, cuda: Version | None, as_of: str, kb: Knowledge, *, proving: bool) -> Verdict:
    """The build existed on the day of --as-of: PyTorch was released by then, or its channel had the build."""
    asked = Reason("wish", f"--as-of {as_of} was given")
    row, what = kb.released(build.version), f"PyTorch {build.version.public}"
    released = row_reason(row, f"{what} was released on {row.released}") if row else None
    there = build.since or build.seen
    undated = not proving and cuda is not None and cuda != build.cuda and kb.cuda_days.get(cuda, "9999") > as_of
    if undated and not (row and row.released > as_of):
        because = f"the cuenv tables do not say when CUDA {cuda} was published: --prove asks the channel"
        return Verdict("as-of", "unknown", because, (asked,))
    if build.stack != WHEELS and there and there <= as_of:
        because = f"this build was in its channel on {there}, so it existed as of {as_of}"
        return Verdict("as-of", "pass", because, (asked, row_reason(build, f"{build.shown} was there on {there}")))
    if row and released and row.released > as_of:
        because = f"this release of PyTorch came after {as_of}"
        return Verdict("as-of", "reject", because, (asked, released))
    if row and released and build.stack == WHEELS:
        because = f"{released.says}, so its wheels existed as of {as_of}"
        return Verdict("as-of", "pass", because, (asked, released))
    reasons = (asked, released) if released else (asked,)
    if proving:
        because = f"the records of its channel decide which builds existed as of {as_of}"
        return Verdict("as-of", "pass", because, reasons)
    since = f"{released.says}, but the" if released else "the"
    because = f"{since} cuenv tables do not say when its channel got this build: --prove asks the channel"
    return Verdict("as-of", "unknown", because, reasons)


@rule(
    "roles",
    code="CU110",
    order=120,
    title="packages exist for every requested role",
    about=("cuda", "stack", "cudatoolkit-dev"),
    locked=False,
)
def roles(
    stack: str, of_cudatoolkit: bool, cuda: Version | None, label: LabelFit | None, *, dev: bool, kb: Knowledge
) -> Verdict:
    """Packages with hashes from the stack's one CUDA channel fill every requested role."""
    if cuda is None:
        return Verdict(rule="roles", outcome="pass", because="a CPU build needs no CUDA packages")
    if of_cudatoolkit and not dev:
        because = f"conda-forge has cudatoolkit {cuda}, and the PyTorch build contains cuDNN and NCCL"
        return Verdict(rule="roles", outcome="pass", because=because)
    if stack == "pytorch" and not of_cudatoolkit:
        return _pytorch(cuda, label)
    if stack == WHEELS:
        return _wheels(cuda, kb, dev=dev)
    if not dev:
        return Verdict(rule="roles", outcome="pass", because="conda-forge has the CUDA runtime, cuDNN and NCCL")
    return _conda_forge(cuda, kb)


def _pytorch(cuda: Version, label: LabelFit | None) -> Verdict:
    if label:
        because = f"the packages of nvidia/label/cuda-{label.label} fit pytorch-cuda {cuda}"
        reason = row_reason(label, f"the packages of label {label.label} are within the bounds of pytorch-cuda {cuda}")
        return Verdict(rule="roles", outcome="pass", because=because, reasons=(reason,))
    because = f"the cuenv tables list no label of the nvidia channel that fits pytorch-cuda {cuda}"
    return Verdict(rule="roles", outcome="unknown", because=because)


def _wheels(cuda: Version, kb: Knowledge, *, dev: bool) -> Verdict:
    if not dev:
        because = "the torch wheel installs the CUDA runtime, cuDNN and NCCL"
        return Verdict(rule="roles", outcome="pass", because=because)
    row = kb.conda_compiler(cuda)
    if row:
        reason = row_reason(row, f"conda-forge has cuda-nvcc and headers of CUDA {row.version}")
        because = f"conda-forge has nvcc and headers of CUDA {row.version} for a torch built with CUDA {cuda}"
        return Verdict(rule="roles", outcome="pass", because=because, reasons=(reason,))
    because = (
        f"conda-forge has no nvcc of CUDA {cuda.major} that a lock file can pin, "
        f"so the environment of this torch, built with CUDA {cuda}, has no compiler"
    )
    return Verdict(rule="roles", outcome="warn", because=because)


def _conda_forge(cuda: Version, kb: Knowledge) -> Verdict:
    row = kb.cuda(cuda)
    if row and row.conda_nvcc:
        reason = row_reason(row, f"conda-forge has cuda-nvcc and headers of CUDA {row.version}")
        because = f"conda-forge has the runtime, nvcc and headers of CUDA {row.version}, cuDNN and NCCL"
        return Verdict(rule="roles", outcome="pass", because=because, reasons=(reason,))
    able = [row.version for row in kb.cudas if row.conda_nvcc]
    lowest = min(able, default=None)
    ends = (kb.discontinued("cudatoolkit-dev"), kb.discontinued("nvcc_linux-64"))
    reasons: tuple[Reason, ...] = tuple(row_reason(end, f"{end.package}: {end.says}") for end in ends if end)
    because = f"conda-forge has no nvcc of CUDA {cuda} that a lock file can pin"
    if lowest and cuda < lowest:
        because = f"conda-forge has no nvcc older than CUDA {lowest} that a lock file can pin"
    remedy = Remedy(text="an environment without a compiler (--no-dev)", option="--no-dev")
    return Verdict(rule="roles", outcome="reject", because=because, reasons=reasons, remedy=remedy)
