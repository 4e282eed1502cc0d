"""What a finding on a machine rests on: the rows of the table of states, and the facts with where they come from."""

from __future__ import annotations

import re

from cuenv.facts import HostFacts
from cuenv.knowledge import Knowledge

_NVML_ERROR = re.compile(r"\(NVML error ([0-9]{1,4})\)")


def means(knowledge: Knowledge, *states: str) -> tuple[str, ...]:
    """What the table says that some states mean, each with the titles of its sources."""
    rows = [row for about in states if (row := knowledge.state(about))]
    return tuple(
        f"{row.says} [{'; '.join(knowledge.sources[item].title for item in row.sources)}]"
        + (" (low confidence)" if row.low else "")
        for row in rows
    )


def seen(machine: HostFacts, *facts: str) -> tuple[str, ...]:
    """Facts of a machine in the words of their sources; those without evidence are left out."""
    found = [item for fact in facts if (item := machine.evidence_for(fact))]
    return tuple(f"{item.fact}: {item.text} ({item.source})" for item in found)


def nvml_error(machine: HostFacts) -> int | None:
    """The error with which NVML refused to start, as the gap tells it; ``None`` when it started, or was not asked."""
    reasons = (gap.reason for gap in machine.gaps if gap.fact == "driver" and gap.source.startswith("nvml:"))
    found = (_NVML_ERROR.search(reason) for reason in reasons)
    return next((int(match[1]) for match in found if match), None)
