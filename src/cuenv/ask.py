"""The questions of the public API: why a choice is as it is, why not another, and what an error means.

They stand here for `cuenv` alone, which offers them; like it, this module loads nothing until it is asked.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # types only: `import cuenv` stays light
    from cuenv.decision import Decision
    from cuenv.diagnosis import Diagnosis
    from cuenv.facts import HostFacts
    from cuenv.questions import Answer


def why(decision: Decision, subject: str) -> Answer:
    """Why a decision is as it is, down to sourced facts.

    Raises:
        UsageError: nothing is known about such a subject.
    """
    from cuenv.questions import why as answer  # noqa: PLC0415 - see the module docstring

    return answer(decision, subject)


def why_not(decision: Decision, question: str) -> Answer:
    """Why something else was not chosen: ``cuda=13.0``, ``pytorch=2.12``, ``stack=pytorch``, ``python=3.13``.

    Raises:
        UsageError: the question has another form.
    """
    from cuenv.questions import why_not as answer  # noqa: PLC0415 - see the module docstring

    return answer(decision, question)


def diagnose(log: str | bytes, host: HostFacts | None = None, *, prefix: Path | str | None = None) -> Diagnosis:
    """What an error means, why it happens on a host, and the one command that cures it.

    Args:
        log: a traceback or a whole log, as text or as it was read.
        host: from `cuenv.read_host`, `cuenv.make_host` or `cuenv.inspect_host`; without one the log speaks alone.
        prefix: the environment that it is from.

    Raises:
        InputError: the folder is no environment.
    """
    from cuenv.diagnosis import diagnose as judge  # noqa: PLC0415 - see the module docstring
    from cuenv.world.guidance import load_guidance  # noqa: PLC0415 - as above
    from cuenv.world.knowledge import load  # noqa: PLC0415 - as above
    from cuenv.world.prefix import find_prefix  # noqa: PLC0415 - as above

    knowledge = load(None)
    data = log.encode("utf-8", "surrogateescape") if isinstance(log, str) else log
    environment = find_prefix(Path(prefix)) if prefix else None
    return judge([data], load_guidance(knowledge).symptoms, knowledge, host, environment)
