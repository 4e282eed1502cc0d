"""Which CUDA toolkit of the machine an environment should build with, and the shell lines that switch to it.

They are sourced or evaluated by whatever shell the user has, under ``set -u`` and ``set -e`` as well: POSIX sh, every
expansion quoted, no command that may fail. What was set before is kept in variables, so that a second switch begins
where the first one did. LD_LIBRARY_PATH only ever loses entries: torch has its own libraries, and those of a toolkit
would be loaded in their place.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import Version

from cuenv.core import __version__
from cuenv.core.io.templates import fill
from cuenv.core.record import dataclass
from cuenv.core.urls import one_line
from cuenv.core.versions import Capability, minor, version
from cuenv.export.container import Refused
from cuenv.export.export import Exported, read_lock_with_spec
from cuenv.host.facts import FoundToolkit, Gpu, HostFacts
from cuenv.host.request import Request
from cuenv.host.select import HostOptions, host_facts, this_machine
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import PLATFORMS
from cuenv.lockfile.host_check import candidate_of
from cuenv.resolver.candidates import bare_candidate
from cuenv.resolver.rules import Context, verdict_of
from cuenv.solve.environment_spec import NVCC, WRITTEN_BY

if TYPE_CHECKING:  # types alone
    from cuenv.export.documents import ExportFields


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolkitNeed:
    """What a toolkit is needed for."""

    cuda: Version | None = None  # the minor that torch was built with; ``None`` when not known
    gpus: tuple[Capability, ...] = ()  # what nvcc has to compile for
    release: Version | None = None  # the release that was asked for; ``None`` for any
    own: str = ""  # the package by which the environment has an nvcc of its own; empty for none
    cpu: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolkitChoice:
    """The CUDA toolkit with which an environment should compile."""

    toolkit: FoundToolkit | None  # what to use; ``None`` where none is needed, or none fits
    needed: bool
    because: tuple[str, ...]
    others: tuple[FoundToolkit, ...] = ()  # the other toolkits, whose folders have to leave the paths


def choose_toolkit(toolkits: Iterable[FoundToolkit], need: ToolkitNeed, knowledge: Knowledge) -> ToolkitChoice:
    """Choose a toolkit: torch's own minor first, then the nearest of its major, the older of two as near."""
    found = tuple(toolkits)
    if need.release is None and need.own:
        own = f"the environment has {need.own}: activate it; `cuenv hook` lets builds find it"
        return ToolkitChoice(toolkit=None, needed=False, because=(own,), others=found)
    if need.release is None and need.cpu:
        return ToolkitChoice(
            toolkit=None, needed=False, because=("torch is a CPU build: it compiles no CUDA",), others=found
        )
    judged = [(item, _objection(item, need, knowledge)) for item in found]
    fitting = [item for item, objection in judged if not objection]
    if not fitting:
        why = tuple(f"{item.path}: {objection}" for item, objection in judged) or ("this machine has no CUDA toolkit",)
        return ToolkitChoice(toolkit=None, needed=True, because=why, others=found)
    best = min(fitting, key=lambda item: (_distance(item, need), item.path))
    because = [f"{best.path} is CUDA {best.release}, {_relation(best, need)}"]
    if need.gpus:
        because.append(f"its nvcc compiles for compute capability {', '.join(map(str, need.gpus))}")
    because += [f"not {item.path}: {objection}" for item, objection in judged if objection]
    return ToolkitChoice(
        toolkit=best, needed=True, because=tuple(because), others=tuple(item for item in found if item is not best)
    )


def _release(toolkit: FoundToolkit) -> Version | None:
    return minor(version(toolkit.release)) if toolkit.release else None


def _objection(toolkit: FoundToolkit, need: ToolkitNeed, knowledge: Knowledge) -> str:
    """Why a toolkit cannot be used; empty if it can."""
    release = _release(toolkit)
    if release is None:
        return "its release is not known"
    if ":" in toolkit.path:
        return "its path contains a colon, which PATH cannot contain"
    if need.release is not None and need.release != release:
        return f"it is CUDA {release}, but CUDA {need.release} was requested"
    if need.cuda is not None and need.cuda.major != release.major:
        return f"it is CUDA {release}, but torch is built with CUDA {need.cuda} and refuses another CUDA major version"
    gpus = tuple(Gpu(index=index, name="", capability=item) for index, item in enumerate(need.gpus))
    facts = HostFacts(label="the host", platform=PLATFORMS[0], gpus=gpus)
    context = Context(facts=facts, request=Request(dev=True), knowledge=knowledge)
    verdict = verdict_of("nvcc", bare_candidate(release, facts.platform), context)
    return verdict.because if gpus and verdict.outcome != "pass" else ""


def _distance(toolkit: FoundToolkit, need: ToolkitNeed) -> tuple[int, int]:
    release = _release(toolkit) or Version("0")
    if need.cuda is None:  # the newest that compiles for the GPUs
        return -release.major, -release.minor
    away = release.minor - need.cuda.minor
    return abs(away), away


def _relation(toolkit: FoundToolkit, need: ToolkitNeed) -> str:
    release = _release(toolkit)
    if need.cuda is None:
        return "the newest that fits; torch's CUDA release is unknown"
    if release == need.cuda:
        return "the CUDA release that torch is built with"
    return f"the nearest to CUDA {need.cuda}, which torch is built with; torch only warns of another minor version"


VARIABLES = ("CUDA_HOME", "CUDA_PATH", "PATH", "LD_LIBRARY_PATH")  # every variable that is set, and restored


def switch_lines(root: str, others: Iterable[str], head: Sequence[str]) -> str:
    """The lines that make builds use a toolkit.

    Args:
        others: the folders of the machine's other toolkits, which leave the paths.
        head: comment lines: why this one.
    """
    # An entry may name a toolkit by the link /usr/local/cuda, with or without a slash at its end.
    roots = sorted({"/usr/local/cuda", *(item.rstrip("/") or "/" for item in (root, *others))})
    patterns = " | ".join(f"{shlex.quote(item)} | {shlex.quote(item)}/*" for item in roots)
    return _filled(head, switch=True, place=shlex.quote(root), patterns=patterns)


def restore_lines() -> str:
    """The lines that restore the values before the last switch; without a switch they have no effect."""
    return _filled([f"{__version__}, export shell: restores the values from before the last switch"], switch=False)


def _filled(head: Sequence[str], *, switch: bool, **values: str) -> str:
    known = {"head": no_change_lines(head).removeprefix("# ").rstrip("\n"), "variables": " ".join(VARIABLES), **values}
    return fill("toolkit.sh", known, {"back": switch, "switch": switch})


def no_change_lines(head: Sequence[str]) -> str:
    """Lines that change nothing and say why."""
    plain = [one_line(line) for line in head]
    return "".join(f"{line}\n" for line in (f"{WRITTEN_BY} {plain[0]}", *(f"# {line}" for line in plain[1:])))


def export_off() -> Exported:
    """The lines that undo the last switch."""
    return Exported(kind="shell", files={"shell": restore_lines()})


def export_shell(lock: Path | None, options: HostOptions, knowledge: Knowledge, release: Version | None) -> Exported:
    """The lines that make builds use one of the machine's toolkits, or why none is needed.

    Args:
        lock: what the environment was made from; ``None`` for the torch that is found on the machine.
        release: the CUDA release that has to be it; ``None`` for the one that fits best.

    Raises:
        InputError: the lock or the host cannot be read.
    """
    # Toolkits and torch are this machine's, unless a recorded host is named; GPUs may be those of another one.
    around = None if options.hosts else this_machine(options.environ, knowledge, deep=True)
    facts = around if around and not options.given else host_facts(options, knowledge)
    around = around or facts
    need = (
        _toolkit_of_lock(lock, facts, knowledge, release)
        if lock
        else _toolkit_of_torch(around, facts.capabilities, release)
    )
    made = choose_toolkit(around.toolkits, need, knowledge)
    more: ExportFields = {
        "needed": made.needed,
        "toolkit": {"path": made.toolkit.path, "release": made.toolkit.release} if made.toolkit else None,
        "because": list(made.because),
    }
    head = [f"{__version__}, export shell", *made.because]
    if made.toolkit is None and made.needed:
        known = [item.release for item in around.toolkits if item.release] if release else []
        hint = f"cuenv export shell --release {known[-1]}" if known else "cuenv resolve --dev"
        return Exported(kind="shell", more=more, refused=Refused("; ".join(made.because), hint))
    if made.toolkit is None:
        text = no_change_lines([f"{head[0]}: you need no toolkit of this machine", *made.because])
        return Exported(kind="shell", files={"shell": text}, talk=(f"none    {made.because[0]}",), more=more)
    text = switch_lines(made.toolkit.path, [item.path for item in made.others], head)
    talk = tuple(f"{'choice ' if number == 0 else '       '} {line}" for number, line in enumerate(made.because))
    return Exported(kind="shell", files={"shell": text}, talk=talk, more=more)


def _toolkit_of_lock(path: Path, facts: HostFacts, knowledge: Knowledge, release: Version | None) -> ToolkitNeed:
    _, lock, _ = read_lock_with_spec(path)
    solution = lock.solution(facts.platform) or next(iter(lock.solutions), None)
    if solution is None:
        return ToolkitNeed(gpus=facts.capabilities, release=release)
    candidate = candidate_of(solution, knowledge)
    own = next((package for name in NVCC if (package := solution.package(name))), None)
    return ToolkitNeed(
        # What matters is what torch was built with: its builder compares that, and cuda-version may be later.
        cuda=candidate.build.cuda if candidate else None,
        gpus=facts.capabilities,
        release=release,
        own=f"{own.name} {own.version}" if own else "",
        cpu=candidate is not None and candidate.build.cuda is None,
    )


def _toolkit_of_torch(around: HostFacts, gpus: tuple[Capability, ...], release: Version | None) -> ToolkitNeed:
    """Choose a toolkit for the torch of the active environment, otherwise for the one on PATH."""
    torch = next(iter(around.torch), None)
    cuda = minor(version(torch.cuda)) if torch and torch.cuda else None
    return ToolkitNeed(cuda=cuda, gpus=gpus, release=release, cpu=torch is not None and torch.cuda is None)
