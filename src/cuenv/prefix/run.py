"""Run an environment: its own Python tries what it will be used for, one probe after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from cuenv.core.findings import Check, report, skipped
from cuenv.host.select import this_machine
from cuenv.knowledge.base import Knowledge
from cuenv.prefix.causes import FIRST
from cuenv.prefix.check import PrefixChecked
from cuenv.prefix.inventory import Prefix
from cuenv.prefix.io.probe import ask, bench
from cuenv.prefix.probing import PROBES, Around, Outcome, check_of


def with_runs(
    checked: PrefixChecked,
    environ: Mapping[str, str],
    knowledge: Knowledge,
    *,
    limit: float,
    say: Callable[[str], None] | None = None,
) -> PrefixChecked:
    """What was found without running the environment, and what running it on this machine adds.

    Args:
        checked: the first; it may have been judged for another host.
        environ: the variables of this process.
        knowledge: the tables.
        limit: seconds for each probe.
        say: told what runs at the moment.

    Raises:
        OutsideError: no folder can be made for what the probes build.
    """
    here = checked.facts if checked.facts.detected else this_machine(environ, knowledge)
    ran = run_checks(checked.prefix, len(here.gpus), environ, timeout=limit, say=say)
    findings = (*checked.report.findings, *(finding for check in ran for finding in check.findings))
    told = report(checked.report.title, findings, checked.report.looked_at, FIRST)
    return replace(checked, checks=(*checked.checks, *ran), report=told)


def run_checks(
    prefix: Prefix,
    gpus: int,
    environ: Mapping[str, str],
    *,
    timeout: float,
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
            if probe.name == "torch":
                without = _without_torch(outcome)
            elif probe.name == "cuda" and outcome.answer is None:
                without = "torch does not get past asking for GPUs"


def _without_torch(outcome: Outcome) -> str | None:
    """Why nothing else can be tried; ``None`` when torch is there."""
    if outcome.answer is None or outcome.answer.failed:
        return "torch does not run"
    return None if outcome.answer.done else "there is no torch"
