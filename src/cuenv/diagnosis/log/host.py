"""The host of a log: from the log, from the options, or this machine where its facts agree with the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cuenv.core.record import dataclass
from cuenv.core.versions import driver_key
from cuenv.diagnosis.log.matches import Scan
from cuenv.host.facts import HostFacts
from cuenv.host.paste.one_host import PastedHost, pasted_host, traceback_paths
from cuenv.host.select import HostOptions, host_facts, host_of_log
from cuenv.knowledge.base import Knowledge

LABEL = "the machine of this log"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogHost:
    """The host of a log."""

    facts: HostFacts | None  # the known facts; ``None`` if nothing is known
    pasted: PastedHost  # the facts about the host and its software that the log shows
    contradictions: tuple[str, ...] = ()  # sentences about facts that disagree


def log_alone(found: Scan, knowledge: Knowledge, given: HostFacts | None = None) -> LogHost:
    """Return the host that the log shows, or the given host."""
    pasted = pasted_host(found.pasted, knowledge, LABEL)
    facts = given or (pasted.facts if pasted.says else None)
    return LogHost(facts=facts, pasted=pasted, contradictions=_contradictions(pasted, given))


def log_host(found: Scan, options: HostOptions, knowledge: Knowledge, is_here: Callable[[str], bool]) -> LogHost:
    """Return the host of a log.

    Options come first, then facts from the log. This machine is the host if its facts agree with those of the log, or
    if it has every file of the tracebacks. A log without facts, or with its platform alone, may come from this machine
    if it has a GPU.

    Args:
        found: the scanned log.
        options: the options that name a host.
        knowledge: the tables.
        is_here: returns whether this machine has a file.

    Raises:
        UsageError: an option names nothing that exists.
        InputError: a recorded host cannot be read.
    """
    pasted = pasted_host(found.pasted, knowledge, LABEL)
    if options.given:
        facts = host_of_log(options, pasted.facts, knowledge)
        return LogHost(facts=facts, pasted=pasted, contradictions=_contradictions(pasted, facts))
    paths = traceback_paths(found.pasted)
    elsewhere = bool(pasted.system) or not all(map(is_here, paths))
    here = None if elsewhere else host_facts(options, knowledge)
    shown = pasted.facts.driver or pasted.facts.gpus or paths or (here and here.driver and here.gpus)
    if here is not None and shown and (not pasted.says or _same(pasted.facts, here)):
        return LogHost(facts=here, pasted=pasted, contradictions=pasted.contradictions)
    return LogHost(facts=pasted.facts if pasted.says else None, pasted=pasted, contradictions=pasted.contradictions)


def _same(pasted: HostFacts, here: HostFacts) -> bool:
    """Return whether a machine has every fact that a log shows."""
    driver = here.driver.version if here.driver else None
    level = here.driver.cuda if here.driver else None
    said = pasted.driver
    return (
        (said is None or (said.version in (None, driver) and said.cuda in (None, level)))
        and (not pasted.gpus or pasted.capabilities == here.capabilities)
        and (pasted.libc is None or pasted.libc == here.libc)
        and (pasted.evidence_for("platform") is None or pasted.platform == here.platform)
    )


def _contradictions(pasted: PastedHost, given: HostFacts | None) -> tuple[str, ...]:
    return (*pasted.contradictions, *_against(pasted.facts, given)) if given else pasted.contradictions


def _against(pasted: HostFacts, given: HostFacts) -> Iterator[str]:
    """Yield a sentence for each fact of the log that contradicts the given host."""
    said = pasted.driver.version if pasted.driver else None
    named = [item.driver.version for item in given.machines if item.driver and item.driver.version]
    if said and named and all(driver_key(said) != driver_key(item) for item in named):
        yield f"the log shows driver {said}, but {given.label} was given with driver {' and '.join(named)}"
    if said and not named and given.label != LABEL and given.asked_as:
        yield f"the log shows driver {said}, but {given.label} was given without a driver"
    ours, theirs = set(pasted.capabilities), set(given.capabilities)
    if ours and theirs and not ours <= theirs:
        yield (
            f"the log names compute capability {', '.join(map(str, sorted(ours - theirs)))}, "
            f"and {given.label} was given with {', '.join(map(str, sorted(theirs)))}"
        )
