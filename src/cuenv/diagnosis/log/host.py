"""Of which host a log is: what it tells itself, what the options say, and whether this machine can be meant."""

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
    """The host of a log.

    Attributes:
        facts: what is known of it; ``None`` where nothing is.
        told: what the log itself tells, of the host and of the software on it.
        contradictions: sentences on what is told in two ways.
    """

    facts: HostFacts | None
    told: PastedHost
    contradictions: tuple[str, ...] = ()


def log_alone(found: Scan, knowledge: Knowledge, given: HostFacts | None = None) -> LogHost:
    """The host of a log as the log tells it; one that is given counts in its place."""
    told = pasted_host(found.told, knowledge, LABEL)
    facts = given or (told.facts if told.says else None)
    return LogHost(facts=facts, told=told, contradictions=_contradictions(told, given))


def log_host(found: Scan, options: HostOptions, knowledge: Knowledge, is_here: Callable[[str], bool]) -> LogHost:
    """The host of a log.

    Options come first, then what the log tells. This machine counts where the log tells what this machine shows, or
    where every file of its tracebacks lies here; a log that tells nothing, or its platform alone, may be from here if
    this machine has a GPU.

    Args:
        found: what was read.
        options: that name a host.
        knowledge: the tables.
        is_here: whether a file is on this machine.

    Raises:
        UsageError: an option names nothing that exists.
        InputError: a recorded host cannot be read.
    """
    told = pasted_host(found.told, knowledge, LABEL)
    if options.given:
        facts = host_of_log(options, told.facts, knowledge)
        return LogHost(facts=facts, told=told, contradictions=_contradictions(told, facts))
    paths = traceback_paths(found.told)
    elsewhere = bool(told.system) or not all(map(is_here, paths))
    here = None if elsewhere else host_facts(options, knowledge)
    shown = told.facts.driver or told.facts.gpus or paths or (here and here.driver and here.gpus)
    if here is not None and shown and (not told.says or _same(told.facts, here)):
        return LogHost(facts=here, told=told, contradictions=told.contradictions)
    return LogHost(facts=told.facts if told.says else None, told=told, contradictions=told.contradictions)


def _same(told: HostFacts, here: HostFacts) -> bool:
    """Whether a machine shows everything that a log tells."""
    driver = here.driver.version if here.driver else None
    level = here.driver.cuda if here.driver else None
    said = told.driver
    return (
        (said is None or (said.version in (None, driver) and said.cuda in (None, level)))
        and (not told.gpus or told.capabilities == here.capabilities)
        and (told.libc is None or told.libc == here.libc)
        and (told.evidence_for("platform") is None or told.platform == here.platform)
    )


def _contradictions(told: PastedHost, given: HostFacts | None) -> tuple[str, ...]:
    return (*told.contradictions, *_against(told.facts, given)) if given else told.contradictions


def _against(told: HostFacts, given: HostFacts) -> Iterator[str]:
    """What a log tells otherwise than the host that was named for it."""
    said = told.driver.version if told.driver else None
    named = [item.driver.version for item in given.machines if item.driver and item.driver.version]
    if said and named and all(driver_key(said) != driver_key(item) for item in named):
        yield f"the log shows driver {said}, but {given.label} was given with driver {' and '.join(named)}"
    if said and not named and given.label != LABEL and given.asked_as:
        yield f"the log shows driver {said}, but {given.label} was given without a driver"
    ours, theirs = set(told.capabilities), set(given.capabilities)
    if ours and theirs and not ours <= theirs:
        yield (
            f"the log names compute capability {', '.join(map(str, sorted(ours - theirs)))}, "
            f"and {given.label} was given with {', '.join(map(str, sorted(theirs)))}"
        )
