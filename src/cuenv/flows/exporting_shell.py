"""Export of lines for a shell that switch to a toolkit of the machine."""

from __future__ import annotations

from pathlib import Path

from packaging.version import Version

from cuenv import __version__
from cuenv.delivery.container import Refused
from cuenv.delivery.toolkit_choice import Need, choose
from cuenv.environment import NVCC
from cuenv.facts import HostFacts
from cuenv.flows.exporting import Exported, lock_at
from cuenv.flows.hosts import HostOptions, host_facts, this_machine
from cuenv.formats import toolkit_sh
from cuenv.knowledge import Knowledge
from cuenv.verify import candidate_of
from cuenv.versions import Capability, minor, version


def export_off() -> Exported:
    """Lines that undo the last switch."""
    return Exported(kind="shell", files={"shell": toolkit_sh.off(__version__)})


def export_shell(lock: Path | None, options: HostOptions, knowledge: Knowledge, release: Version | None) -> Exported:
    """Lines that make one of a machine's toolkits the one that builds find, or why none is needed.

    Args:
        lock: what the environment was made from; ``None`` for the torch that is found on the machine.
        options: the host.
        knowledge: the tables.
        release: the CUDA release that has to be it; ``None`` for the one that fits best.

    Raises:
        InputError: the lock or the host cannot be read.
    """
    # Toolkits and torch are this machine's, unless a recorded host is named; GPUs may be those of another one.
    around = None if options.hosts else this_machine(options.environ, knowledge, deep=True)
    facts = around if around and not options.given else host_facts(options, knowledge)
    around = around or facts
    need = _of_lock(lock, facts, knowledge, release) if lock else _of_torch(around, facts.capabilities, release)
    made = choose(around.toolkits, need, knowledge)
    more = {
        "needed": made.needed,
        "toolkit": {"path": made.toolkit.path, "release": made.toolkit.release} if made.toolkit else None,
        "because": list(made.because),
    }
    head = [f"{__version__}, export shell", *made.because]
    if made.toolkit is None and made.needed:
        hint = "cuenv resolve --dev"
        return Exported(kind="shell", more=more, refused=Refused("; ".join(made.because), hint))
    if made.toolkit is None:
        text = toolkit_sh.none_needed([f"{head[0]}: no toolkit of the machine is needed", *made.because])
        return Exported(kind="shell", files={"shell": text}, talk=(f"none    {made.because[0]}",), more=more)
    text = toolkit_sh.switch(made.toolkit.path, [item.path for item in made.others], head)
    talk = tuple(f"{'choice ' if number == 0 else '       '} {line}" for number, line in enumerate(made.because))
    return Exported(kind="shell", files={"shell": text}, talk=talk, more=more)


def _of_lock(path: Path, facts: HostFacts, knowledge: Knowledge, release: Version | None) -> Need:
    _, lock, _ = lock_at(path)
    solution = lock.solution(facts.platform) or next(iter(lock.solutions), None)
    if solution is None:
        return Need(gpus=facts.capabilities, release=release)
    candidate = candidate_of(solution, knowledge)
    own = next((package for name in NVCC if (package := solution.package(name))), None)
    return Need(
        # What matters is what torch was built with: its builder compares that, and cuda-version may be later.
        cuda=candidate.build.cuda if candidate else None,
        gpus=facts.capabilities,
        release=release,
        own=f"{own.name} {own.version}" if own else "",
        cpu=candidate is not None and candidate.build.cuda is None,
    )


def _of_torch(around: HostFacts, gpus: tuple[Capability, ...], release: Version | None) -> Need:
    """By the torch of the active environment, else by the one on PATH."""
    torch = next(iter(around.torch), None)
    cuda = minor(version(torch.cuda)) if torch and torch.cuda else None
    return Need(cuda=cuda, gpus=gpus, release=release, cpu=torch is not None and torch.cuda is None)
