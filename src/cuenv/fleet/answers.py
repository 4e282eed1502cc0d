"""The command that a node runs to describe itself, and the host that its answer describes."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from cuenv.core.errors import InputError
from cuenv.core.reading import describe
from cuenv.core.record import dataclass, replace
from cuenv.host import host_json
from cuenv.host.facts import Evidence, Gap, HostFacts
from cuenv.host.paste.one_host import pasted_host, read_facts
from cuenv.host.paste.reader import PastedFact
from cuenv.knowledge.base import Knowledge

_BEGIN = "cuenv-fleet"  # the first word of the lines that part the answer of a node without cuenv
_END = "end"
_FIELDS = ("index,name,driver_version,compute_cap,memory.total", "index,name,kmd_version,compute_cap,memory.total")
_OLDER = "index,name,driver_version,memory.total"
"""What nvidia-smi is asked by drivers before 510, which do not know the field compute_cap."""
_PARTS = {
    "system": "uname -srm",
    "libc": "getconf GNU_LIBC_VERSION || ldd --version",
    "module": "cat /proc/driver/nvidia/version",
    "smi": " || ".join(f"nvidia-smi --query-gpu={fields} --format=csv" for fields in (*_FIELDS, _OLDER)),
    "banner": "nvidia-smi",
}
"""What a node without cuenv runs, by the name of its part of the answer."""
_GLIBC = re.compile(r"(?:^|\b)(?:glibc |ldd \([^)]{0,80}\) )(2\.[0-9]{1,2})\b")
_SYSTEM = re.compile(r"Linux (\S{1,100}) (x86_64|aarch64)")
_OBJECT = re.compile(r"^\{", re.MULTILINE)
_SHOWN = 40  # characters of an answer that a reason repeats


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAnswer:
    """The answer of a node."""

    node: str
    text: str = ""  # its standard output, cut where it was too long
    code: int | None = 0  # the exit status of ssh or srun; ``None`` where it was stopped
    said: str = ""  # the end of standard error
    late: float = 0  # it was stopped at its time limit, these seconds
    large: int = 0  # it was stopped because it wrote more than these bytes


def node_command(program: str) -> str:
    """The words that a node runs in any shell: cuenv if it is installed, otherwise nvidia-smi, uname and ldd.

    Args:
        program: what cuenv is called on the nodes, or its path there.
    """
    cuenv = shlex.quote(program)
    parts = [f"echo {_BEGIN} {name}; {{ {command}; }} 2>&1 | head -n 200" for name, command in _PARTS.items()]
    script = "; ".join(
        [
            "PATH=$PATH:$HOME/.local/bin:/usr/sbin:/sbin",
            f"for more in --compact --json; do {cuenv} inspect --json $more 2>/dev/null && exit 0; done",
            *parts,
            f"echo {_BEGIN} {_END}",
        ]
    )
    return f"sh -c {shlex.quote(script)}"


def host_from_answer(answer: NodeAnswer, by: str, knowledge: Knowledge) -> HostFacts:
    """The host that the answer of a node describes, with the name of the node.

    Args:
        by: ``ssh`` or ``srun``, for sentences.

    Raises:
        InputError: it says nothing; the message is the reason, and names no node.
    """
    if answer.large:
        raise InputError(f"wrote more than {answer.large // 1024} KiB")
    record = _record(answer.text)
    if record is not None:
        facts = host_json.read_plain(record, "the answer", answer.node)
    elif f"{_BEGIN} {_END}" in answer.text:
        facts = _host_from_probes(answer, knowledge)
    elif answer.late:
        raise InputError(f"no answer in {answer.late:g} s")
    elif answer.code:
        raise InputError(f"{by}: {_reason(answer)}")
    elif answer.text.strip():
        raise InputError(f"the answer contains no host record; it begins with {describe(_first(answer.text))}")
    else:
        raise InputError("the answer is empty")
    return with_name(facts, answer.node)


def _record(text: str) -> Any:
    """The host record in an answer; other output before it and broken lines are ignored."""
    reader = json.JSONDecoder()
    for found in _OBJECT.finditer(text):
        try:
            data, _ = reader.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            continue
        if isinstance(data, dict) and str(data.get("schema")).startswith("cuenv/host/"):
            return data
    return None


def _first(text: str) -> str:
    return text.strip().partition("\n")[0][:_SHOWN]


def _reason(answer: NodeAnswer) -> str:
    """The last line of ssh or srun without the name of the node, so that equal reasons can be grouped."""
    lines = [line.strip() for line in answer.said.replace("\r", "\n").splitlines() if line.strip()]
    last = next((line for line in reversed(lines) if ": " in line), lines[-1] if lines else "")
    text = last.rpartition(": ")[2].strip().rstrip(".").replace(answer.node, "the node")
    return text[: 4 * _SHOWN] or f"exit status {answer.code}"


def _host_from_probes(answer: NodeAnswer, knowledge: Knowledge) -> HostFacts:
    """A host by the output of nvidia-smi, uname and the C library."""
    parts = dict(_parts(answer.text))
    source = f"the answer of {answer.node}"
    told = [*read_facts(parts.get("smi", "")), *read_facts(parts.get("module", ""))]
    # The table cuts names, and counts only for what the rows leave open.
    seen = {item.fact for item in told}
    told += [
        item for item in read_facts(parts.get("banner", "")) if item.fact not in seen and item.fact != "gpu.memory"
    ]
    if found := _GLIBC.search(parts.get("libc", "")):
        told.append(PastedFact("libc", found[1], 1, found[0]))
    system = _SYSTEM.search(parts.get("system", ""))
    if system:
        told.append(PastedFact("machine", system[2], 1, system[0]))
    elif text := parts.get("system", "").strip():
        raise InputError(f"neither linux-64 nor linux-aarch64: {describe(_first(text))}")
    facts = pasted_host(told, knowledge, answer.node, source).facts
    gaps = [gap for gap in facts.gaps if facts.gpus or gap.fact not in ("gpus", "driver")]
    if not facts.gpus:
        said = _first(parts.get("smi", "")) or "nothing"
        gaps.append(Gap("gpus", "nvidia-smi", f"says {describe(said)}"))
    if facts.driver is None and not any(gap.fact == "driver" for gap in gaps):
        gaps.append(Gap("driver", "nvidia-smi", "names no driver"))
    evidence = [Evidence(item.fact, item.source.partition(", line")[0], item.text) for item in facts.evidence]
    return replace(facts, kernel=system and system[1], detected=True, evidence=tuple(evidence), gaps=tuple(gaps))


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """The answer of a node without cuenv, split into its parts by name."""
    for part in f"\n{text}".split(f"\n{_BEGIN} ")[1:]:
        name, _, rest = part.partition("\n")
        yield name.strip(), rest


def with_name(facts: HostFacts, name: str) -> HostFacts:
    """The host with the name that it has in its cluster."""
    return replace(facts, name=name, label=name, members=())


@dataclass(frozen=True, slots=True)
class NotAnswered:
    """The reason why there is no record of a node."""

    node: str
    reason: str


def group_by_reason(failures: Iterable[NotAnswered]) -> Mapping[str, Sequence[str]]:
    """The nodes that failed, grouped by reason, the most frequent reason first."""
    found: dict[str, list[str]] = {}
    for item in failures:
        found.setdefault(item.reason, []).append(item.node)
    return dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))


def name_key(name: str) -> tuple[tuple[int, str], ...]:
    """The key by which names are sorted: gpu9 before gpu10."""
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"([0-9]{1,18})", name))


def fleet_line(facts: HostFacts) -> str:
    """A host as a line of a fleet file."""
    return host_json.dump(facts, compact=True)
