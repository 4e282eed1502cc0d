"""What options and arguments complete to, by kind: ``shell_complete=completes("gpu")`` on an option.

Nothing here is read before a shell asks. What cannot be read completes to nothing, without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import click

from cuenv.core.errors import CuenvError

if TYPE_CHECKING:  # only when a shell asks
    from click.shell_completion import CompletionItem

Names: TypeAlias = Mapping[str, str]
"""Names, each with a few words about it."""

Completer: TypeAlias = "Callable[[click.Context, click.Parameter, str], list[CompletionItem[str]]]"

_FILE = "\0file"
"""Stands for the files that the shell itself knows."""


def completes(kind: str) -> Completer:
    """A callback for ``shell_complete`` that offers the names of a kind, one of `KINDS`."""

    def complete(context: click.Context, _: click.Parameter, text: str) -> list[CompletionItem[str]]:
        return items(KINDS[kind](context), text)

    return complete


def items(names: Names, text: str) -> list[CompletionItem[str]]:
    """Those of the names that begin with a text, in any case; else those of which a later word does.

    A shell puts what all offers share in place of what was typed: where that would lose it, nothing is offered.
    """
    from os.path import commonprefix  # noqa: PLC0415 - only when a shell asks

    from click.shell_completion import CompletionItem  # noqa: PLC0415 - only when a shell asks

    plain = {name: says for name, says in names.items() if name.isprintable()}
    wanted = text.casefold()
    fitting = [name for name in plain if name.casefold().startswith(wanted)]
    if not fitting:
        fitting = [name for name in plain if f" {wanted}" in name.casefold()]
        shared = commonprefix(fitting).casefold()  # noqa: RUF071 - letters are meant, these are no paths
        fitting = fitting if wanted in shared or not shared else []
    found = [CompletionItem(name, help=_short(plain[name])) for name in fitting]
    return [*found, CompletionItem(text, type="file")] if _FILE in names and text.isprintable() else found


def _short(text: str) -> str | None:
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return (line if len(line) <= 60 else f"{line[:57]}...") or None


def _schemas(_: click.Context) -> Names:
    from cuenv.config.io.completion_names import schemas  # noqa: PLC0415 - as above

    return dict.fromkeys(schemas(), "")


def _gpus(context: click.Context) -> Names:
    from cuenv.config.io.completion_names import gpus  # noqa: PLC0415 - only when a shell asks

    return gpus(context.params.get("tables"))


def _hosts(_: click.Context) -> Names:
    from cuenv.config.io.completion_names import hosts  # noqa: PLC0415 - as above

    return {**hosts(), "-": "standard input", _FILE: ""}


def _profiles(context: click.Context) -> Names:
    from cuenv.cli.configured import configuration  # noqa: PLC0415 - as above
    from cuenv.config.io.profiles import places  # noqa: PLC0415 - as above

    try:
        known = places(configuration(context))
    except CuenvError:
        known = places()
    names: dict[str, str] = {}
    for place in known:
        names.setdefault(place.name, place.origin)
    return {**names, _FILE: ""}


def _platforms(_: click.Context) -> Names:
    from cuenv.knowledge.rows import PLATFORMS  # noqa: PLC0415 - as above

    return dict.fromkeys(PLATFORMS, "")


def _releases(table: str) -> Callable[[click.Context], Names]:
    def releases(context: click.Context) -> Names:
        from cuenv.config.io.completion_names import TABLES  # noqa: PLC0415 - as above

        return TABLES[table](context.params.get("tables"))

    return releases


def _explained(_: click.Context) -> Names:
    from cuenv.config.io.completion_names import topics  # noqa: PLC0415 - as above

    return {**topics(), "gpu": "what to know when training on a card"}


def _explained_gpu(context: click.Context) -> Names:
    return _gpus(context) if context.params.get("topic") == "gpu" else {}


def _topics(_: click.Context) -> Names:
    from cuenv.cli.knowledge import SUBCOMMANDS  # noqa: PLC0415 - as above
    from cuenv.resolver.lookup import TOPICS  # noqa: PLC0415 - as above

    return dict.fromkeys((*TOPICS, *SUBCOMMANDS), "")


def _topic_subjects(context: click.Context) -> Names:
    from cuenv.config.io.completion_names import TABLES  # noqa: PLC0415 - as above

    names = TABLES.get(str(context.params.get("topic")))
    return names(context.params.get("tables")) if names else {}


def _subjects(_: click.Context) -> Names:
    from cuenv.config.io.completion_names import codes  # noqa: PLC0415 - as above
    from cuenv.resolver.why import SUBJECTS  # noqa: PLC0415 - as above

    return {**dict.fromkeys(SUBJECTS, ""), **codes()}


def _questions(context: click.Context) -> Names:
    from cuenv.resolver.why import KEYS  # noqa: PLC0415 - as above

    wishes = {f"{key}={name}": "" for key in ("pytorch", "cuda") for name in _releases(key)(context)}
    return {**dict.fromkeys((f"{key}=" for key in KEYS), ""), **wishes}


def _files(_: click.Context) -> Names:
    return {_FILE: ""}


KINDS: Mapping[str, Callable[[click.Context], Names]] = {
    "gpu": _gpus,
    "host": _hosts,
    "profile": _profiles,
    "platform": _platforms,
    "pytorch": _releases("pytorch"),
    "cuda": _releases("cuda"),
    "driver": _releases("driver"),
    "explain": _explained,
    "explain-gpu": _explained_gpu,
    "kb": _topics,
    "kb-subject": _topic_subjects,
    "why": _subjects,
    "why-not": _questions,
    "schema": _schemas,
    "file": _files,
}
"""What there is to complete, each read only when a shell asks."""
