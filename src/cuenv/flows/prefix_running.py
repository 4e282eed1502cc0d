"""Run an environment: its own Python tries what it will be used for, one probe after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from cuenv.checks import Check, skipped
from cuenv.prefix import Prefix
from cuenv.probing import PROBES, Around, Outcome, check_of
from cuenv.world.python_probe import ask, bench

TIMEOUT = 300.0
"""Seconds for one probe: a build with nvcc on a slow machine takes one or two minutes."""


def run_checks(
    prefix: Prefix,
    gpus: int,
    environ: Mapping[str, str],
    *,
    timeout: float = TIMEOUT,
    say: Callable[[str], None] | None = None,
) -> tuple[Check, ...]:
    """What the environment does when it runs; nothing of it is changed.

    Args:
        prefix: the environment.
        gpus: how many GPUs this machine has.
        environ: the variables of this process.
        timeout: seconds for one probe.
        say: told what is tried at the moment.

    Returns:
        A check for each probe, in their order; without torch the others are skipped.

    Raises:
        OutsideError: no folder can be made for what the probes build.
    """
    return tuple(_checks(prefix, gpus, environ, timeout, say))


def _checks(
    prefix: Prefix, gpus: int, environ: Mapping[str, str], timeout: float, say: Callable[[str], None] | None
) -> Iterator[Check]:
    without: str | None = None
    with bench(prefix, environ) as place:
        around = Around(prefix=prefix.path, python=place.python, gpus=gpus, environ=place.given)
        for probe in PROBES:
            if without:
                yield skipped(f"run:{probe.name}", without)
                continue
            if say:
                say(f"run:{probe.name}")
            outcome = ask(probe.name, place, timeout)
            yield check_of(probe, outcome, around)
            if probe.name == "torch" and not _works(outcome):
                without = "torch cannot be imported"
            elif probe.name == "cuda" and outcome.answer is None:
                without = "torch does not get past asking for GPUs"


def _works(outcome: Outcome) -> bool:
    return outcome.answer is not None and bool(outcome.answer.done)
