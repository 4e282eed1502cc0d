"""The rule on libraries that use torch: a requested release works with this torch, CUDA, GPUs and compiler."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache

from packaging.version import Version

from cuenv.core.record import NamedTuple, replace
from cuenv.core.versions import Capability, minor, version
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import Extension, TorchBuild
from cuenv.resolver.requirements import Demand, broken, broken_when, covered, meets
from cuenv.resolver.verdict import Reason, Remedy, Verdict, and_list, of_capability, row_reason, worst

_NAME = "extensions"
_PASS = Verdict(rule=_NAME, outcome="pass", because="no library that uses PyTorch was requested")
_DEV = Remedy(text="an environment with a compiler (--dev)", option="--dev")


class _Torch(NamedTuple):
    """What a library sits on: the torch, the CUDA that it is made with, the toolkit beside it, and its channel."""

    release: Version
    cuda: Version
    toolkit: Version
    stack: str
    platform: str


class _Fault(NamedTuple):
    """Why the releases of a row do not suit."""

    row: Extension
    says: str
    remedy: Remedy | None = None

    def leads(self) -> tuple[bool, bool, Version]:
        """The larger the better it says why: what can be remedied, then what is still made, and newest."""
        row = self.row
        newest = max(row.releases, default=row.first or version("0"))
        return self.remedy is not None, not row.releases and row.below is None, newest


class _Asked(NamedTuple):
    """What was asked for, and where it must run."""

    capabilities: tuple[Capability, ...]
    dev: bool
    offload: str
    knowledge: Knowledge


def judged(
    build: TorchBuild,
    cuda: Version | None,
    capabilities: tuple[Capability, ...],
    asked: tuple[Demand, ...],
    kb: Knowledge,
    *,
    dev: bool,
    offload: str,
) -> Verdict:
    """A requested release of each library (such as DeepSpeed) works with this torch, CUDA, GPUs and compiler."""
    context = _Asked(capabilities, dev, offload, kb)
    if build.cuda is None or cuda is None:
        because = "the requested libraries need no CUDA with a CPU build"
        return Verdict(rule=_NAME, outcome="pass", because=because)
    torch = _Torch(build.version, build.cuda, cuda, build.stack, build.platform)
    verdicts = [
        _judged(item, torch, context) for item in asked if kb.extension(item.name) and not _idle(item, torch, kb)
    ]
    strange = [item for item in asked if not kb.extension(item.name) and not kb.is_component(item.name)]
    verdicts += [_not_judged(strange)] if strange else []
    return worst(verdicts) if verdicts else _PASS


def _idle(demand: Demand, torch: _Torch, kb: Knowledge) -> bool:
    """A triton beside a torch that no row joins with one: torch before 2.0 requires none, so that it bounds nothing."""
    rows = kb.extension(demand.name)
    return demand.name == "triton" and not any(row.torch and row.torch.admits(torch.release) for row in rows)


def _not_judged(strange: list[Demand]) -> Verdict:
    """Libraries that no row knows: they may need another torch, and nobody here can say."""
    names = ", ".join(dict.fromkeys(item.name for item in strange))
    because = f"the cuenv tables do not list which PyTorch and CUDA {names} need{'' if len(strange) > 1 else 's'}"
    reasons = tuple(Reason("wish", item.text) for item in strange)
    return Verdict(rule=_NAME, outcome="unknown", because=because, reasons=reasons)


def _judged(demand: Demand, torch: _Torch, context: _Asked) -> Verdict:
    asked = Reason("wish", demand.text)
    too_old = gpu_too_old(demand, context.capabilities, context.knowledge)
    if too_old:
        return too_old
    bad = [(row, out) for row, out in broken(demand, context.knowledge) if row.when in broken_when(context.offload)]
    out = tuple(release for _, releases in bad for release in releases)
    rows = context.knowledge.extension(demand.name)
    meant, left = _open_to(demand, rows, out, torch.stack, torch.platform)
    if meant and not left:
        because = f"{demand.text} fails with {bad[0][0].when}: {bad[0][0].says} ({bad[0][0].issue})"
        reasons = (asked, *(row_reason(row, f"{row.package} {', '.join(map(str, row.releases))}") for row, _ in bad))
        return Verdict(rule=_NAME, outcome="reject", because=because, reasons=reasons)
    if not left:
        because = f"the cuenv tables do not list which PyTorch and CUDA {demand.text} needs"
        return Verdict(rule=_NAME, outcome="unknown", because=because, reasons=(asked,))
    speaking = _speaking(left, torch.cuda, torch.toolkit)
    faults = [(row, _fault(row, same, torch, context, ships=ships)) for row, same, ships in reversed(speaking)]
    suits = [row for row, fault in faults if fault is None]
    if suits:
        return _not_compiled(demand, suits, context, asked) or _suits(demand, suits, meant, torch, asked)
    found = [fault for _, fault in faults if fault]
    return _rejected(demand, found, asked, whole=covered(demand, meant, rows))


def _suits(
    demand: Demand, suits: list[Extension], meant: tuple[Extension, ...], torch: _Torch, asked: Reason
) -> Verdict:
    """Some release suits: a warning where it has ready wheels, and none of them is for this torch."""
    ready = [row for row in suits if "source" not in row.comes]
    row = (ready or suits)[0]
    says = f"{demand.name} ({row.span()}) works with pytorch {torch.release} and CUDA {torch.toolkit}"
    reasons = (asked, row_reason(row, says))
    if ready or not any("wheel" in item.comes for item in meant):
        return Verdict(rule=_NAME, outcome="pass", because=says, reasons=reasons)
    because = (
        f"no prebuilt wheel of {demand.text} works with pytorch {torch.release} and CUDA {torch.toolkit}, so pip "
        "compiles it with nvcc, which can take an hour"
    )
    return Verdict(rule=_NAME, outcome="warn", because=because, reasons=reasons)


def _not_compiled(demand: Demand, suits: list[Extension], context: _Asked, asked: Reason) -> Verdict | None:
    """A library that compiles for each GPU with the ptxas inside it, where none of those that suit knows a GPU."""
    able = [set[Capability]().union(*map(context.knowledge.compiles_for, row.ptxas)) for row in suits if row.ptxas]
    lacking = [
        item for item in context.capabilities if len(able) == len(suits) and not any(item in each for each in able)
    ]
    if not lacking:
        return None
    row = suits[0]
    holds = and_list(row.ptxas)
    gpus = of_capability(*lacking)
    because = (
        f"{demand.text} compiles with the ptxas of CUDA {holds} that it contains, which does not support {gpus}, "
        "so torch.compile fails there"
    )
    reason = row_reason(row, f"{row.package} {row.span()} holds ptxas of CUDA {holds}")
    return Verdict(rule=_NAME, outcome="warn", because=because, reasons=(asked, reason))


def gpu_too_old(demand: Demand, capabilities: tuple[Capability, ...], kb: Knowledge) -> Verdict | None:
    """The rejection of a library if no requested release supports a GPU, beside any torch; ``None`` if one may.

    Wheels and conda builds count alike: both are made of the same sources.
    """
    rows = kb.extension(demand.name)
    if not any(row.serves_from and item < row.serves_from for row in rows for item in capabilities):
        return None
    however = replace(demand, ways=tuple({way for row in rows for way in row.comes}))
    meant = tuple(row for row in rows if meets(however, row))
    limits = [row.serves_from for row in meant if row.serves_from]
    if not limits or len(limits) < len(meant) or not covered(however, meant, rows):
        return None
    below = [item for item in capabilities if item < min(limits)]
    if not below:
        return None
    because = f"{demand.text} {_needs_gpu(min(limits), below[0])}"
    reasons = (
        Reason("wish", demand.text),
        *(
            row_reason(row, f"{row.package} {row.span()} needs compute capability {row.serves_from} or later")
            for row in meant
        ),
    )
    return Verdict(rule=_NAME, outcome="reject", because=because, reasons=reasons)


def _rejected(demand: Demand, faults: list[_Fault], asked: Reason, *, whole: bool) -> Verdict:
    """No release that a row speaks of suits: the newest says why."""
    last = max(faults, key=_Fault.leads)
    reasons = (asked, *(row_reason(item.row, f"{demand.name} {item.row.span()} {item.says}") for item in faults))
    if whole:
        because = f"{demand.text} does not work here: {demand.name} ({last.row.span()}) {last.says}"
        return Verdict(rule=_NAME, outcome="reject", because=because, reasons=reasons, remedy=last.remedy)
    because = (
        f"the cuenv tables list no release of {demand.text} that works here, but a release that they do not list may: "
        f"{demand.name} ({last.row.span()}) {last.says}"
    )
    return Verdict(rule=_NAME, outcome="unknown", because=because, reasons=reasons, remedy=last.remedy)


@lru_cache(maxsize=512)
def _open_to(
    demand: Demand, rows: tuple[Extension, ...], out: tuple[Version, ...], stack: str, platform: str
) -> tuple[tuple[Extension, ...], tuple[Extension, ...]]:
    """The rows that are meant beside a torch of a channel, and those of them that are left without broken releases."""
    meant = tuple(row for row in rows if meets(demand, row) and _from_here(row, demand, stack, platform))
    return meant, tuple(row for row in meant if meets(demand, row, out))


def _from_here(row: Extension, demand: Demand, stack: str, platform: str) -> bool:
    """Whether a conda build comes from a channel of the candidate, for its platform; pip's ways are open to all."""
    if row.platforms and platform not in row.platforms:
        return False
    if "conda-forge" in demand.ways and stack == "conda-forge":
        return "conda-forge" in row.comes
    # A CUDA build of conda-forge that names a torch asks for one of conda-forge.
    return not (row.comes == ("conda-forge",) and row.torch and row.cuda)


def _fault(row: Extension, same: list[Extension], torch: _Torch, context: _Asked, *, ships: bool) -> _Fault | None:
    """Why the releases of a row do not suit, or ``None``; beside it the rows on the same releases."""
    if row.torch and not row.torch.admits(torch.release):
        # of triton each torch requires one release, and triton requires none of torch
        of = f"is what torch {row.torch.span} requires" if row.package == "triton" else f"needs torch {row.torch.span}"
        return _Fault(row, of)
    if row.cuda and not ships:
        shipped = ", ".join(map(str, sorted({item for each in same for item in each.cuda})))
        what = "the environment has" if row.match == "toolkit" else "PyTorch is built with"
        own = _own(row, torch.cuda, torch.toolkit)
        return _Fault(row, f"has libraries for CUDA {shipped}, but {what} CUDA {own}")
    below = [item for item in context.capabilities if row.serves_from and item < row.serves_from]
    if row.serves_from and below:
        return _Fault(row, _needs_gpu(row.serves_from, below[0]))
    if row.nvcc and not context.dev:
        return _Fault(row, "compiles its kernels with nvcc, but the environment has no nvcc", _DEV)
    if row.nvcc and not row.nvcc.admits(torch.toolkit):
        return _Fault(row, f"needs nvcc {row.nvcc.span}, but the environment has nvcc {torch.toolkit}")
    # What brings its kernels compiles further ones on first use, where there is a compiler.
    refuses = context.dev and row.refuses(torch.cuda, torch.toolkit)
    return _refused(row, torch.cuda, torch.toolkit) if refuses else None


def _refused(row: Extension, own: Version, toolkit: Version) -> _Fault:
    """The library compares nvcc with the CUDA that torch is made with."""
    list_of = [item for item in row.tolerates if item.major == own.major]
    span = f"both must be within CUDA {list_of[0]} to {list_of[-1]}" if list_of else "both must have one CUDA release"
    return _Fault(row, f"refuses nvcc {toolkit} with a torch built with CUDA {own}: {span}")


def _needs_gpu(least: Capability, have: Capability) -> str:
    return f"needs compute capability {least} or later, but the host has {of_capability(have)}"


@lru_cache(maxsize=1024)
def _speaking(
    rows: tuple[Extension, ...], cuda: Version, toolkit: Version
) -> tuple[tuple[Extension, list[Extension], bool], ...]:
    """Of rows on the same releases the one with the library that would be loaded; all of them where none has it.

    Beside each row stand those on the same releases, and whether the library that would be loaded is one of its own.
    """
    alike: dict[Hashable, list[Extension]] = {}
    for row in rows:
        alike.setdefault((row.comes, row.releases, row.first, row.below), []).append(row)
    beside = [(row, alike[row.comes, row.releases, row.first, row.below]) for row in rows]
    found = [
        (row, same, row.loads((item for each in same for item in each.cuda), _own(row, cuda, toolkit)) in row.cuda)
        for row, same in beside
    ]
    able = {id(same) for _, same, ships in found if ships}
    return tuple(entry for entry in found if entry[2] or id(entry[1]) not in able)


def _own(row: Extension, cuda: Version, toolkit: Version) -> Version:
    """The CUDA release by which the library is chosen that is loaded, beside a torch made with ``cuda``."""
    return minor(toolkit) if row.match == "toolkit" else cuda
