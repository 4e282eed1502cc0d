"""Profiles: which there are, whether they are valid, and whether a host can have what they ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cuenv.config.io.configuration import Configuration
from cuenv.config.io.profiles import SHIPPED, ProfilePlace, find_profile, places
from cuenv.core.errors import InputError
from cuenv.core.record import dataclass, replace
from cuenv.core.yaml_write import quote, scalar
from cuenv.host.select import HostOptions, host_facts
from cuenv.knowledge.base import Knowledge
from cuenv.resolver.explain import summary
from cuenv.resolver.resolve import resolve

_TEMPLATE = """\
# A profile: what a team wants from its environment. Remove the keys that you do not need.
name: {name}
story: >-
  Who uses this, on which machines, and why it is as it is.

# GPUs that the environment must support on any machine (names or compute capabilities), and their oldest driver.
# gpus: [RTX 3090, A100, "9.0"]
# lowest_driver: 535.129.03

# Versions: a prefix, exact or a range. Quote them: 3.10 without quotes is the number 3.1.
# python: "3.12"
# pytorch: ">=2.5"
# cuda: "12.6"

# stack: conda-forge    # or pytorch; cuenv chooses when absent
# prefer: newest        # or native: a toolkit within the driver's CUDA version first
# dev: true             # compiler and headers for extensions that are built on first use

# Further conda packages, and requirements for the pip part.
# with: ["transformers>=4.36"]
# pip: ["deepspeed>=0.15"]
"""


def template(name: str) -> str:
    """The text of a valid profile that explains every key."""
    return _TEMPLATE.format(name=scalar(name))


def render(data: Mapping[str, Any]) -> str:
    """The text of a profile from another format, with its keys in order and without empty texts."""
    return "".join(f"{scalar(key)}: {_value(value)}\n" for key, value in data.items() if value not in ("", None))


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_value(item) for item in value)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{quote(str(key))}: {_value(item)}' for key, item in value.items())}}}"
    return quote(value) if isinstance(value, str) else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One named profile."""

    place: ProfilePlace
    says: str  # the first sentence of its story; empty for none
    fault: str  # what is wrong with it; empty when it is valid
    hides: tuple[str, ...]  # where the profiles of the same name stand that do not count beside it


@dataclass(frozen=True, slots=True, kw_only=True)
class Validated:
    """The result of validating one profile."""

    asked: str
    origin: str
    fault: str = ""  # what is wrong with it; empty when it is valid
    hint: str = ""  # what to do about the fault
    fits: bool | None = None  # whether the host can have it; ``None`` when no host was asked about, or it is not valid
    lines: tuple[str, ...] = ()  # what was decided, in words


def listed(project: Configuration | None) -> tuple[Listed, ...]:
    """Every profile by name, with the one that counts."""
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
    """The text up to the first full stop that ends a sentence, on one line."""
    words = " ".join(text.split())
    head, stop, _ = words.partition(". ")
    return head + "." if stop else words


def validated(
    asked: Sequence[str], project: Configuration | None, host: HostOptions, knowledge: Knowledge | None
) -> tuple[Validated, ...]:
    """Validate profiles, and if a host is given check that they fit it.

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


def _validated(asked: str, place: ProfilePlace, host: HostOptions, knowledge: Knowledge | None) -> Validated:
    try:
        profile = place.read()
    except InputError as error:
        return Validated(asked=asked, origin=place.origin, fault=error.message, hint=error.hint or "")
    if not host.given or knowledge is None:
        return Validated(asked=asked, origin=place.origin)
    request = replace(profile, origin=(asked, profile))  # so the commands of hints name it
    answer = resolve(host_facts(host, knowledge, profile), request, knowledge)
    lines = tuple(summary(answer.decision, answer.findings))
    return Validated(asked=asked, origin=place.origin, fits=answer.fits, lines=lines)
