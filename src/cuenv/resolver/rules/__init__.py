"""The rules, most basic first. The first objection leads; all of them stay in the data.

One truth: acceptance, ``why``, ``why-not``, ``check`` and hints all read the verdicts of these rules.
"""

from __future__ import annotations

from collections.abc import Iterator

from packaging.version import Version

from cuenv.core.record import replace
from cuenv.core.versions import Capability, driver_key
from cuenv.host.facts import HostFacts
from cuenv.knowledge.base import Knowledge
from cuenv.knowledge.rows import TorchBuild
from cuenv.resolver.candidates import Candidate
from cuenv.resolver.engine import Judge, Rule, rule, rules
from cuenv.resolver.rules import device, driver, libraries, requested  # noqa: F401 - each holds rules
from cuenv.resolver.verdict import Context, Outcome, Reason, Remedy, Verdict

__all__ = [
    "LAYERS",
    "RULES",
    "Context",
    "Judge",
    "Outcome",
    "Reason",
    "Remedy",
    "Rule",
    "Verdict",
    "inferred",
    "minimum_driver",
    "minimum_drivers",
    "rule_named",
    "verdict_of",
]

_NO_LIBRARY = Verdict(rule="extensions", outcome="pass", because="no library that uses PyTorch was requested")


def _no_library(packages: tuple[str, ...], pip: tuple[str, ...]) -> Verdict | None:
    return None if packages or pip else _NO_LIBRARY


@rule("extensions", code="CU505", order=130, title="the requested libraries work with this build", unless=_no_library)
def requested_libraries(
    *,
    build: TorchBuild,
    cuda: Version | None,
    capabilities: tuple[Capability, ...],
    packages: tuple[str, ...],
    pip: tuple[str, ...],
    dev: bool,
    offload: str,
    kb: Knowledge,
) -> Verdict:
    """A requested release of each library (such as DeepSpeed) works with this torch, CUDA, GPUs and compiler."""
    from cuenv.resolver.requirements import demands  # noqa: PLC0415 - 5 ms, and most runs ask for no library
    from cuenv.resolver.rules.extensions import judged  # noqa: PLC0415 - as above

    asked = demands(packages, pip)
    return judged(build, cuda, capabilities, asked, kb, dev=dev, offload=offload) if asked else _NO_LIBRARY


RULES: tuple[Rule, ...] = rules()
LAYERS = ("device-code", "cudnn", "nccl")
"""The rules on what must hold code for the GPUs: what nobody vouches for there is never fine."""
_BY_NAME = {one.name: one for one in RULES}


def rule_named(name: str) -> Rule:
    """A rule by its name."""
    return _BY_NAME[name]


def verdict_of(name: str, candidate: Candidate, context: Context) -> Verdict:
    """What one rule says of one candidate."""
    (verdict,) = Judge(context, (_BY_NAME[name],)).verdicts(candidate)
    return verdict


_OF_DRIVERS = tuple(one for one in RULES if one.reads & {"driver", "level"})


def minimum_driver(candidate: Candidate, context: Context) -> str | None:
    """The lowest driver that runs a candidate, by what the rules say where no driver is known.

    Of a pool, that of the machine that needs most; the others may need less, see `minimum_drivers`. ``None`` for a CPU
    build and where no row says it.
    """
    return max((lowest for _, lowest in minimum_drivers(candidate, context)), key=driver_key, default=None)


def minimum_drivers(candidate: Candidate, context: Context) -> tuple[tuple[HostFacts, str], ...]:
    """Each machine with the lowest driver that runs a candidate on its own GPUs; those of which no row says it are out.

    Machines of a pool have drivers of their own: one may drive a GPU that the driver of another has dropped.
    """
    needs = (
        (machine, [lowest for lowest, _ in _needs(machine, candidate, context)]) for machine in context.facts.machines
    )
    return tuple((machine, max(drivers, key=driver_key)) for machine, drivers in needs if drivers)


def inferred(candidate: Candidate, context: Context) -> bool:
    """Whether the lowest driver of a candidate is that of a GPU of which the first driver is only inferred."""
    needs = [pair for machine in context.facts.machines for pair in _needs(machine, candidate, context)]
    lowest = max((need for need, _ in needs), key=driver_key, default=None)
    return any(need == lowest and any(reason.low for reason in verdict.reasons) for need, verdict in needs)


def _needs(machine: HostFacts, candidate: Candidate, context: Context) -> Iterator[tuple[str, Verdict]]:
    """The drivers that the rules ask for on each GPU of a machine, as if it had none, with the verdict on each."""
    if candidate.cuda is None:
        return
    for gpu in {gpu.capability: gpu for gpu in machine.gpus}.values() or (None,):
        alone = replace(machine, driver=None, gpus=(gpu,) if gpu else ())
        for verdict in Judge(replace(context, facts=alone), _OF_DRIVERS).verdicts(candidate):
            if verdict.remedy and verdict.remedy.driver:
                yield verdict.remedy.driver, verdict
