"""Rules on the libraries beside torch: cuDNN and NCCL support every GPU, the C library is new enough.

The weakest one decides: a torch build may contain code for a GPU that its cuDNN has dropped.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from packaging.version import Version

from cuenv.core.record import NamedTuple
from cuenv.core.versions import Capability
from cuenv.host.facts import Libc
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.requirement import Requirement
from cuenv.knowledge.rows import WHEELS, Cuda, LibrarySupport, Program, TorchBuild
from cuenv.resolver.engine import reading, rule
from cuenv.resolver.verdict import HOST, Reason, Verdict, host_reason, of_capability, row_reason

_NAMES = {"cudnn": "cuDNN", "nccl": "NCCL"}


class Range(NamedTuple):
    """Which releases of a library support a GPU."""

    # ``any`` release that the build admits, only those ``below`` a release, ``none``, or ``unknown``
    answer: Literal["any", "below", "none", "unknown"]
    below: Version | None = None  # the first release that no longer supports it
    rows: tuple[LibrarySupport, ...] = ()  # the rows that say so


def range_for(
    library: str, requirement: Requirement | None, device: Capability, cuda: Version, knowledge: Knowledge
) -> Range:
    """Which of the releases that a build for a CUDA release admits support a GPU.

    A row can vouch for a GPU. Its silence about an older one is a no only where it is of full confidence and builds
    for this CUDA major were looked at; else it is *unknown*.
    """
    of_library = knowledge.layers_of(library, cuda)
    rows = [row for row in of_library if requirement is None or requirement.overlaps(row.first, row.below)]
    serving = [row for row in rows if row.serves_from <= device]
    if requirement is None and len(serving) < len(rows):
        return Range("unknown", None, tuple(rows))
    if not serving:
        silent = not rows or any(_silent(row, cuda) for row in rows)
        return Range("unknown" if silent else "none", None, tuple(rows))
    if len(serving) == len(rows):
        return Range("any", None, tuple(serving))
    cuts = [row.below for row in serving if row.below]
    if not cuts:
        return Range("unknown", None, tuple(rows))  # only the releases without an end support it: no bound can be given
    return Range("below", max(cuts), tuple(rows))


def _silent(row: LibrarySupport, cuda: Version) -> bool:
    """Whether the row says nothing about GPUs older than those it vouches for."""
    return row.low or (row.cuda is not None and cuda.major < row.cuda)


@rule("cudnn", code="CU405", order=90, title="cuDNN supports the GPUs", about=("cudnn",))
def cudnn(
    asked_cudnn: Requirement | None,
    cudnn: Version | None,
    built_cuda: Version | None,
    capabilities: tuple[Capability, ...],
    kb: Knowledge,
) -> Verdict:
    """A release of cuDNN supports every GPU; it may have to be older than the one that dropped the oldest GPU.

    It is the cuDNN that the build admits: a newer toolkit in the environment does not make it newer.
    """
    return _layer("cudnn", asked_cudnn, cudnn, built_cuda=built_cuda, devices=capabilities, kb=kb)


@rule("nccl", code="CU406", order=100, title="NCCL supports the GPUs", about=("nccl",))
def nccl(
    *,
    asked_nccl: Requirement | None,
    nccl: Version | None,
    built_cuda: Version | None,
    capabilities: tuple[Capability, ...],
    alone: bool,
    kb: Knowledge,
) -> Verdict:
    """A release of NCCL supports every GPU; a machine with a single GPU that was inspected does not need NCCL."""
    found = _layer("nccl", asked_nccl, nccl, built_cuda=built_cuda, devices=capabilities, kb=kb)
    if found.outcome != "reject" or not alone:
        return found
    return found._replace(outcome="warn", because=f"{found.because}; PyTorch calls NCCL only with several GPUs")


def _layer(
    library: str,
    requirement: Requirement | None,
    release: Version | None,
    *,
    built_cuda: Version | None,
    devices: tuple[Capability, ...],
    kb: Knowledge,
) -> Verdict:
    name = _NAMES[library]
    if built_cuda is None or not devices:
        because = f"a CPU build needs no {name}" if built_cuda is None else f"without a GPU, {name} is not used"
        return Verdict(rule=library, outcome="pass", because=because)
    oldest = devices[0]
    young = [device for device in devices if younger(device, built_cuda, kb)]
    if young:
        older = tuple(device for device in devices if device not in young)
        rest = _layer(library, requirement, release, built_cuda=built_cuda, devices=older, kb=kb)
        if rest.outcome == "reject":
            return rest
        inside = requirement.first if requirement and not requirement.package else None
        what = " ".join(filter(None, (name, str(release or inside or ""), f"for CUDA {built_cuda}")))
        rows = _of_releases(library, requirement, release, built_cuda, kb)
        if rows and all(row.forward for row in rows):
            return _younger_than(library, what, young, rows)
        because = f"the cuenv tables do not say whether {what} supports the newer {of_capability(*young)}"
        return Verdict(rule=library, outcome="unknown", because=because)
    if release is not None:
        return _known(library, release, devices, built_cuda, kb, exact=_inside(requirement, release))
    found = range_for(library, requirement, oldest, built_cuda, kb)
    reasons = tuple(row_reason(row, _says(row)) for row in found.rows)
    if found.answer == "any" and _doubtful(found.rows, oldest, kb.layers_of(library, built_cuda)):
        because = (
            f"the {name} that this build allows probably supports {of_capability(oldest)} (evidence of low confidence)"
        )
        return Verdict(rule=library, outcome="warn", because=because, reasons=reasons)
    if found.answer == "any":
        because = f"every {name} release that this build allows supports {of_capability(oldest)}"
        return Verdict(rule=library, outcome="pass", because=because, reasons=reasons)
    if found.answer == "below":
        because = f"{name} {found.below} dropped {of_capability(oldest)}, so {name} is pinned below {found.below}"
        return Verdict(rule=library, outcome="warn", because=because, reasons=reasons)
    if found.answer == "none":
        because = f"the {name} that this build needs ({requirement}) has dropped {of_capability(oldest)}"
        return Verdict(rule=library, outcome="reject", because=because, reasons=reasons)
    because = f"the cuenv tables do not say whether the {name} of this build supports {of_capability(oldest)}"
    return Verdict(rule=library, outcome="unknown", because=because, reasons=reasons)


def _of_releases(
    library: str, requirement: Requirement | None, release: Version | None, cuda: Version, knowledge: Knowledge
) -> tuple[LibrarySupport, ...]:
    """The rows on a release that is known, else on those that a build admits; on all where those say one thing."""
    if release is not None:
        row = knowledge.library_support(library, release, cuda)
        return (row,) if row else ()
    rows = knowledge.layers_of(library, cuda)
    if requirement is None:
        return rows if all(row.forward == "no" for row in rows) else ()
    return tuple(row for row in rows if requirement.overlaps(row.first, row.below))


def _younger_than(library: str, what: str, young: list[Capability], rows: tuple[LibrarySupport, ...]) -> Verdict:
    """What is said of GPUs of a later architecture than a CUDA release: whether the library's PTX runs there."""
    reasons = tuple(row_reason(row, _says(row)) for row in rows)
    newer = f"the newer {of_capability(*young)}"
    if all(row.forward == "no" for row in rows):
        because = f"{what} does not support {newer}: it runs on no GPU of a later architecture"
        return Verdict(library, "reject", because, reasons)
    because = f"{what} has no machine code for {newer}: the driver compiles its PTX (hardware forward compatibility)"
    return Verdict(library, "warn", because, reasons)


def _doubtful(serving: tuple[LibrarySupport, ...], device: Capability, rows: tuple[LibrarySupport, ...]) -> bool:
    """Whether a row of low confidence vouches for a GPU that later releases are known to have dropped."""
    later = [row.serves_from for row in rows if not row.low]
    return any(row.low for row in serving) and device < max(later, default=device)


def younger(device: Capability, cuda: Version, knowledge: Knowledge) -> bool:
    """Whether a GPU came after a CUDA release: its libraries hold no machine code for it, at best PTX."""
    row = knowledge.compute_capability(device)
    return (
        row is not None
        and row.first_cuda is not None
        and cuda < row.first_cuda
        and device.major > max((target.major for target in _targets(cuda, knowledge)), default=device.major)
    )


def _targets(cuda: Version, knowledge: Knowledge) -> tuple[Capability, ...]:
    """What the nvcc of a CUDA release compiles for; of one before the first row, at most what that has."""
    row = knowledge.cuda(cuda)
    first = min(knowledge.cudas, key=lambda item: item.version, default=None)
    known = row or (first if first and cuda < first.version else None)
    return known.targets if known else ()


def _inside(requirement: Requirement | None, release: Version) -> bool:
    """Whether a build requires one release of a library, and no pin can give it another."""
    return requirement is not None and not requirement.package and requirement.first == release


def _known(
    library: str, release: Version, devices: tuple[Capability, ...], cuda: Version, knowledge: Knowledge, *, exact: bool
) -> Verdict:
    name = _NAMES[library]
    row = knowledge.library_support(library, release, cuda)
    if row is None:
        because = f"the cuenv tables do not list the GPUs that {name} {release} supports"
        return Verdict(rule=library, outcome="unknown", because=because)
    lacking = [device for device in devices if device < row.serves_from]
    reasons = (row_reason(row, _says(row)),)
    if not lacking:
        because = f"{name} {release} supports compute capability {row.serves_from} and later"
        return Verdict(rule=library, outcome="pass", because=because, reasons=reasons)
    gone = of_capability(*lacking)
    because = f"{name} {release} supports compute capability {row.serves_from} and later, but not {gone}"
    because += f"; this build of PyTorch requires {name} {release} exactly" if exact else ""
    outcome: Literal["unknown", "reject"] = "unknown" if _silent(row, cuda) else "reject"
    return Verdict(rule=library, outcome=outcome, because=because, reasons=reasons)


_NAMES_ALL = 10  # the last CUDA major whose libraries bear the minor in their names


def program_verdict(program: Program, cuda: Version | None) -> Verdict:
    """Whether a wheel that loads the libraries of a CUDA release when it starts, such as TensorFlow, finds them.

    Args:
        cuda: the release of the environment; ``None`` without any part of CUDA: the libraries are those of the host.
    """
    loaded = program.cuda
    if loaded is None:
        return Verdict("program", "reject", f"is not a CUDA build, so it does not use the GPUs of {HOST}")
    if cuda is None:
        cudnn = f" and cuDNN {program.cudnn}" if program.cudnn else ""
        because = f"loads CUDA {loaded}{cudnn} when it starts, but the lock has no CUDA: it uses the GPUs only if the "
        return Verdict("program", "unknown", f"{because}host has these libraries")
    if loaded.major == cuda.major and (cuda.major > _NAMES_ALL or loaded == cuda):
        return Verdict("program", "pass", f"loads the libraries of CUDA {loaded}, which the environment has")
    because = f"loads the libraries of CUDA {loaded} by name, but the environment has those of CUDA {cuda}"
    return Verdict("program", "reject", f"{because}, so it uses no GPU")


class GlibcNeed(NamedTuple):
    """The latest glibc that a part of an environment needs, the part, and the sources of the row that says so.

    The row itself is left out: rows on many builds say the same.
    """

    lowest: Version
    what: str
    sources: tuple[str, ...]
    low: bool


def _need(row: Cuda | LibrarySupport | TorchBuild | None, what: str) -> GlibcNeed | None:
    return GlibcNeed(row.glibc, what, row.sources, row.low) if row and row.glibc else None


@reading
def own_glibc(build: TorchBuild) -> GlibcNeed | None:
    """The glibc that a PyTorch build needs."""
    return _need(build, "this PyTorch build")


@reading
def toolkit_glibc(stack: str, cuda: Version | None, kb: Knowledge) -> GlibcNeed | None:
    """The glibc that the CUDA toolkit needs: its rows are about the libraries of conda-forge."""
    return _need(kb.cuda(cuda), "the CUDA toolkit of this build") if stack != WHEELS else None


@reading
def library_glibc(
    stack: str,
    asked_cudnn: Requirement | None,
    asked_nccl: Requirement | None,
    built_cuda: Version | None,
    kb: Knowledge,
) -> GlibcNeed | None:
    """The CUDA library of conda-forge that needs the latest glibc, in the oldest release that a build admits."""
    needs = []
    for library, requirement in (("cudnn", asked_cudnn), ("nccl", asked_nccl)) if stack == "conda-forge" else ():
        first = requirement.first if requirement else None
        layer = kb.library_support(library, first, built_cuda) if first else None
        needs.append(_need(layer, f"the {_NAMES[library]} of this PyTorch build"))
    return _latest(*needs)


@reading
def glibc_need(
    own_glibc: GlibcNeed | None, toolkit_glibc: GlibcNeed | None, library_glibc: GlibcNeed | None
) -> GlibcNeed | None:
    """The part of an environment that needs the latest glibc."""
    return _latest(own_glibc, toolkit_glibc, library_glibc)


def _latest(*needs: GlibcNeed | None) -> GlibcNeed | None:
    return max(filter(None, needs), key=lambda need: need.lowest, default=None)


def _no_need(glibc_need: GlibcNeed | None, built_cuda: Version | None) -> Verdict | None:
    if glibc_need is None and built_cuda is None:
        return Verdict(
            rule="glibc", outcome="pass", because="the cuenv tables list no glibc requirement of a CPU build"
        )
    if glibc_need is None:
        return Verdict(
            rule="glibc", outcome="unknown", because="the cuenv tables do not list the glibc that this build needs"
        )
    return None


@rule(
    "glibc",
    code="CU407",
    order=110,
    title="the C library (glibc) is new enough",
    about=("cuda",),
    per="machine",
    unless=_no_need,
)
def glibc(glibc_need: GlibcNeed, libc: Libc | None) -> Verdict:
    """The C library of each machine is new enough for the build, its toolkit and its CUDA libraries."""
    lowest, what, sources, low = glibc_need
    return glibc_verdict(lowest, Reason("row", f"{what} needs glibc {lowest} or later", sources, low), libc)


def glibc_verdict(lowest: Version, reason: Reason, libc: Libc | None) -> Verdict:
    """What the rule on the C library says where something needs a release of glibc."""
    if libc is None:
        because = f"the C library is not known, and the packages need glibc {lowest} or later"
        return Verdict(rule="glibc", outcome="unknown", because=because, reasons=(reason,))
    reasons = (host_reason("libc", f"{HOST} has {libc.family} {libc.version}"), reason)
    if libc.family != "glibc":
        because = f"conda packages for Linux need glibc {lowest} or later, but {HOST} has {libc.family}"
        return Verdict(rule="glibc", outcome="reject", because=because, reasons=reasons)
    if libc.version >= lowest:
        because = f"glibc {libc.version} is new enough, because the packages need glibc {lowest} or later"
        return Verdict(rule="glibc", outcome="pass", because=because, reasons=reasons)
    because = f"{reason.says}, but {HOST} has glibc {libc.version}"
    return Verdict(rule="glibc", outcome="reject", because=because, reasons=reasons)


@lru_cache(maxsize=512)
def _says(row: LibrarySupport) -> str:
    bounds = [f">={row.first}" if row.first else "", f"<{row.below}" if row.below else ""]
    which = f" {','.join(bound for bound in bounds if bound)}".rstrip()
    return f"{_NAMES[row.library]}{which} supports compute capability {row.serves_from} and later"
