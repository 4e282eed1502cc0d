"""``cuenv lock --resolve``: choose on the channels, write the environment file, and lock it, in one step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuenv.cli.configured import typed
from cuenv.cli.options import channel_sources, host_from, several_platforms, wish_from
from cuenv.cli.output import emit_json, progress, progress_done, say
from cuenv.core.errors import UsageError
from cuenv.host.facts import Driver

if TYPE_CHECKING:
    from cuenv.knowledge.base import Knowledge
    from cuenv.lockfile.lock import LockRequest
    from cuenv.resolver.resolve import Resolution

WISHES = {
    "profile": "--profile",
    "stack": "--stack",
    "pytorch": "--pytorch",
    "cuda": "--cuda",
    "python": "--python",
    "packages": "--with",
    "dev": "--dev",
    "cpu": "--cpu",
    "prefer": "--prefer",
    "name": "--name",
}
_ALONE = {"check": "--check", "update": "--update", "repair": "--repair", "output": "-o"}


def refuse_wishes(values: dict[str, Any]) -> None:
    """Refuse what chooses an environment beside a file that says what it is, and what --resolve cannot stand beside.

    Raises:
        UsageError: such an option was typed.
    """
    if values["resolve_first"]:
        other = next((flag for name, flag in _ALONE.items() if values[name]), None)
        if other:
            raise UsageError(
                f"--resolve writes the file anew, and {other} starts from the one that is there",
                hint="cuenv lock --resolve",
            )
        return
    wish = next((flag for name, flag in WISHES.items() if typed(name)), None)
    if wish:
        raise UsageError(
            f"{wish} chooses an environment, and cuenv lock takes the one that the file asks for",
            hint="cuenv lock --resolve writes the file first; cuenv resolve writes it alone: cuenv resolve --help",
        )


def resolve_first(path: Path, values: dict[str, Any], knowledge: Knowledge, request: LockRequest) -> LockRequest | None:
    """Choose on the channels and write the file; ``None`` when nothing fits, and the reasons were said.

    The lock that follows is for the host that the file names, as it is when the file is locked later.

    Raises:
        InputError: a channel cannot be read.
        OutsideError: the file cannot be written.
    """
    from cuenv.cli.resolve import write_file  # noqa: PLC0415 - most locks resolve nothing
    from cuenv.lockfile.files import host_for  # noqa: PLC0415 - as above

    answer = _resolution(values, knowledge)
    if answer.spec is None or not answer.fits:
        if values["as_json"]:
            from cuenv.resolver.decision_json import decision_plain  # noqa: PLC0415 - only for JSON

            emit_json(decision_plain(answer.decision, answer.findings))
        return None
    write_file(answer.spec, path, quiet=values["quiet"] or values["as_json"])
    nobody = replace(request.host, hosts=(), gpus=(), driver=None, glibc=None, platform=None)
    facts, named = host_for(path, nobody, knowledge, answer.spec.platforms)
    if not named:  # the head names a host that only this run could read, such as standard input
        facts = answer.decision.case.facts
        lowest = answer.decision.minimum_driver
        if lowest and not facts.driver:
            facts = replace(facts, driver=Driver(version=lowest, cuda=knowledge.cuda_of(lowest)))
    return replace(request, facts=facts)


def _resolution(values: dict[str, Any], knowledge: Knowledge) -> Resolution:
    from cuenv.cli.resolve import talk  # noqa: PLC0415 - as above
    from cuenv.host.select import host_facts  # noqa: PLC0415 - as above
    from cuenv.resolver.resolve import resolve  # noqa: PLC0415 - as above

    wish = wish_from(values)
    facts = host_facts(host_from(values), knowledge, wish)
    sources = channel_sources(values)
    show = progress(quiet=values["quiet"])
    name, platforms = values["name"] or wish.name, several_platforms(values)
    answer = resolve(facts, wish, knowledge, name=name, platforms=platforms, prove=sources, progress=show)
    progress_done(show)
    say(talk(answer, platforms, values), quiet=values["as_json"] or (values["quiet"] and answer.fits))
    return answer
