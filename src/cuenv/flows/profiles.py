"""Profiles: which there are, whether they are valid, and whether a host can have what they ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cuenv.errors import InputError
from cuenv.explain import summary
from cuenv.flows.hosts import HostOptions, host_facts
from cuenv.flows.resolving import resolve
from cuenv.knowledge import Knowledge
from cuenv.world.configuration import Configuration
from cuenv.world.profiles import SHIPPED, Place, find_profile, places

__all__ = ["SHIPPED", "Listed", "Validated", "first_sentence", "listed", "own_names", "validated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One profile that has a name.

    Attributes:
        says: the first sentence of its story; empty for none.
        fault: what is wrong with it; empty when it is valid.
        hides: where the profiles of the same name stand that do not count beside it.
    """

    place: Place
    says: str
    fault: str
    hides: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Validated:
    """What became of one profile.

    Attributes:
        fault: what is wrong with it; empty when it is valid.
        fits: whether the host can have it; ``None`` when no host was asked about, or it is not valid.
        lines: what was decided, in words.
    """

    asked: str
    origin: str
    fault: str = ""
    fits: bool | None = None
    lines: tuple[str, ...] = ()


def listed(project: Configuration | None) -> tuple[Listed, ...]:
    """Every profile by its name, with the one that counts."""
    known = places(project)
    found = []
    for name in dict.fromkeys(place.name for place in known):
        place, *hidden = [item for item in known if item.name == name]
        says = fault = ""
        try:
            says = first_sentence(place.read().story)
        except InputError as error:
            fault = error.message
        found.append(Listed(place=place, says=says, fault=fault, hides=tuple(item.origin for item in hidden)))
    return tuple(found)


def own_names(project: Configuration | None) -> tuple[str, ...]:
    """The names of the project's own profiles."""
    own = [place.name for place in places(project) if place.origin != SHIPPED]
    return tuple(dict.fromkeys(own))


def first_sentence(text: str) -> str:
    """Up to the first full stop that ends a sentence, on one line."""
    words = " ".join(text.split())
    head, stop, _ = words.partition(". ")
    return head + "." if stop else words


def validated(
    asked: Sequence[str], project: Configuration | None, host: HostOptions, knowledge: Knowledge | None
) -> tuple[Validated, ...]:
    """Judge profiles, every one of them.

    Args:
        asked: files or names.
        project: for names.
        host: decided for when it names one.
        knowledge: the tables; only needed for a host.

    Raises:
        UsageError: a name that is no profile, or a host that is none.
        InputError: a recorded host cannot be read.
    """
    return tuple(_validated(item, find_profile(item, project), host, knowledge) for item in asked)


def _validated(asked: str, place: Place, host: HostOptions, knowledge: Knowledge | None) -> Validated:
    try:
        profile = place.read()
    except InputError as error:
        return Validated(asked=asked, origin=place.origin, fault=error.message)
    if not host.given or knowledge is None:
        return Validated(asked=asked, origin=place.origin)
    answer = resolve(host_facts(host, knowledge, profile), profile, knowledge)
    lines = tuple(summary(answer.decision, answer.findings))
    return Validated(asked=asked, origin=place.origin, fits=answer.fits, lines=lines)
