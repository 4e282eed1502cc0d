"""What if: two whole resolves, for the host as it is and as it would be, and their difference."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cuenv.errors import UsageError
from cuenv.facts import Driver, Gpu
from cuenv.flows.hosts import HostOptions, host_facts
from cuenv.flows.resolving import Resolution, resolve
from cuenv.knowledge import Knowledge
from cuenv.profile import Profile
from cuenv.what_if import Change, WhatIf, bounds, changed, difference

_BRANCH_DIGITS = 4
"""A driver of at most so many digits and no dot is a branch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOptions:
    """The change as it was typed.

    Attributes:
        driver: a driver, or a branch such as 580, which means its first driver.
        add, remove: GPUs by product name or capability.
    """

    driver: str | None = None
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The answer, and the two resolves that it is the difference of."""

    answer: WhatIf
    before: Resolution
    after: Resolution


def what_if(host: HostOptions, options: ChangeOptions, wish: Profile, knowledge: Knowledge) -> Asked:
    """Resolve for a host and for the same host changed.

    Raises:
        UsageError: nothing changes, a GPU that goes is not there, or a text names no GPU or driver.
        InputError: a recorded host cannot be read.
    """
    if not (options.driver or options.add or options.remove):
        raise UsageError("what-if needs a change", hint="cuenv what-if --driver 580.65.06")
    change = Change(
        driver=_driver(options.driver, knowledge),
        add=_gpus(options.add, knowledge),
        remove=_gpus(options.remove, knowledge),
    )
    facts = host_facts(host, knowledge, wish)
    try:
        then = changed(facts, change, knowledge)
    except ValueError as error:
        raise UsageError(f"--remove-gpu: {error}", hint="cuenv inspect") from error
    before, after = resolve(facts, wish, knowledge), resolve(then, wish, knowledge)
    answer = difference(before.decision, after.decision)
    if before.spec and after.spec:
        answer = replace(answer, bounds=bounds(before.spec, after.spec))
    return Asked(answer=answer, before=before, after=after)


def _gpus(texts: tuple[str, ...], knowledge: Knowledge) -> tuple[Gpu, ...]:
    """GPUs as ``--gpu`` reads them."""
    return host_facts(HostOptions(gpus=texts, environ={}), knowledge).gpus if texts else ()


def _driver(text: str | None, knowledge: Knowledge) -> Driver | None:
    """A driver as ``--driver`` reads it."""
    if text is None:
        return None
    branch = text.strip()
    if branch.isascii() and branch.isdigit() and len(branch) <= _BRANCH_DIGITS:
        text = knowledge.first_driver(int(branch))
    return host_facts(HostOptions(gpus=("8.0",), driver=text, environ={}), knowledge).driver
