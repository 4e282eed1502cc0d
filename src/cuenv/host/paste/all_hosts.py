"""Read all hosts in a text: cuenv's own JSON, and everything that a reader of pasted output recognises."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from cuenv.core.errors import InputError
from cuenv.core.reading import describe, no_constant, unique_keys
from cuenv.core.record import NamedTuple, replace
from cuenv.core.regex import regex
from cuenv.core.urls import one_line
from cuenv.host import host_json
from cuenv.host.facts import FoundToolkit, Gap, HostFacts
from cuenv.host.paste import ansible
from cuenv.host.paste.reader import PastedFact, evidence_text
from cuenv.knowledge.base import Knowledge

if TYPE_CHECKING:
    from cuenv.host.paste.one_host import PastedHost


_OWN = '"cuenv/host/'
_DIGITS = 400  # the most digits of a number
_BLANK = regex(r"[\s\ufeff]*")
_JSON_NODE = r"[A-Za-z0-9][\w.@-]{0,250}"
_ANSIBLE = rf"(?P<host>{_JSON_NODE}) \| (?:SUCCESS|CHANGED|FAILED!?|UNREACHABLE!)[^\n]{{0,40}}(?:=> ?|>>\s)"
_BEFORE = rf"(?:(?P<node>{_JSON_NODE}): ?|{_ANSIBLE})?"
_FIRST = regex(rf"\A[\s\ufeff]*{_BEFORE}[\[{{]")
_START = regex(rf"{_BEFORE}(?=[\[{{])")
_NEXT = regex(rf"\n(?={_BEFORE}[\[{{])")


class JsonPart(NamedTuple):
    """One document of a text, or a part that is not a document."""

    line: int  # the number of its first line, from 1
    data: Any = None  # the decoded document; ``None`` if there is a fault
    node: str = ""  # the name of a node in front of it, as ``clush`` prints it
    fault: str = ""  # why it is not a document; empty if it is
    place: tuple[int, int] = (0, 0)  # its start and end in the text


def looks_like_json(text: str) -> bool:
    """Whether a text begins with JSON, possibly after the name of a node, or contains a host that cuenv wrote."""
    return _FIRST.match(text) is not None or _OWN in text


def split_json(text: str) -> Iterator[JsonPart]:
    """Every document of a text and every line outside of documents, in their order."""
    decoder = json.JSONDecoder(
        object_pairs_hook=unique_keys, parse_constant=no_constant, parse_int=_integer, parse_float=_float
    )
    at = counted = 0
    line = 1
    while at < len(text):
        blank = _BLANK.match(text, at)
        if blank and blank.end() > at:
            at = blank.end()
            continue
        line += text.count("\n", counted, at)
        counted = at
        start = _START.match(text, at)
        if start is None:
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            yield JsonPart(line, fault=f"expected the JSON of a host, got {describe(text[at : min(end, at + 200)])}")
            at = end
            continue
        try:
            data, at = _decode(decoder, text, start.end())
        except RecursionError:
            fault = "nested too deeply for the JSON of a host"
        except json.JSONDecodeError as error:
            fault = f"not JSON: {error.msg} (character {error.pos - (start.end() if error.doc is text else 0) + 1})"
        except ValueError as error:
            fault = f"not JSON: {error}"
        else:
            yield JsonPart(line, data, _node_name(start["node"] or start["host"]), place=(start.end(), at))
            continue
        yield JsonPart(line, None, _node_name(start["node"] or start["host"]), fault, (start.end(), start.end()))
        following = _NEXT.search(text, start.end())
        at = following.end() if following else len(text)


def _decode(decoder: json.JSONDecoder, text: str, at: int) -> tuple[Any, int]:
    """A document and its end. One line is tried first, because an error takes time in proportion to the text."""
    end = text.find("\n", at)
    line = text[at : len(text) if end < 0 else end]
    try:
        data, length = decoder.raw_decode(line)
    except json.JSONDecodeError as error:
        if end < 0 or error.pos < len(line.rstrip()):
            raise
        return decoder.raw_decode(text, at)
    return data, at + length


def _node_name(node: str | None) -> str:
    """The name of a node in a prefix; empty for the task number of ``srun -l``."""
    return "" if node is None or node.isdigit() else node


def _integer(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _float(digits: str) -> float:
    if len(digits) > _DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return float(digits)


HINT = "paste what nvidia-smi prints; complete is: cuenv inspect --json > host.json"


class UnreadablePart(NamedTuple):
    """A part of a text that describes no host: its first line, the reason, and its file if there are several."""

    line: int
    says: str
    file: str = ""


class PastedHosts(NamedTuple):
    """The hosts of a text in their order, and the parts that could not be read."""

    hosts: tuple[HostFacts, ...]
    broken: tuple[UnreadablePart, ...] = ()


def read_pasted_hosts(text: str, knowledge: Knowledge, source: str, label: str = "") -> PastedHosts:
    """Every host of a text.

    Args:
        text: pasted output; several outputs about one host are combined.
        knowledge: the tables, for GPU names and drivers.
        source: the name of the text in evidence and errors.
        label: the name of a host without a name.

    Raises:
        InputError: the text describes no host, or contradicts itself about the only host.
    """
    if not text.strip():
        raise InputError(f"{source}: it is empty, expected a host", hint=HINT)
    label = label or source
    hosts: list[HostFacts] = []
    broken: list[UnreadablePart] = []
    told: tuple[PastedFact, ...] = ()
    if looks_like_json(text):
        hosts, broken, told = _read_documents(text, source, label)
    if not hosts and not told:
        told = _facts_by_host(text)
        broken = broken if not told else []
    found = tuple(_group_by_host(told, knowledge, source, label))
    hosts += [facts for facts, _ in found if facts]
    broken += [fault for _, fault in found if fault]
    if not hosts and (len(broken) == 1 or not told):
        said = describe_text(text) or (broken[0].says if broken and (told or "{" in text) else "")
        raise InputError(f"{source}: {said or 'the text describes no host'}", hint=HINT)
    return PastedHosts(tuple(hosts), tuple(broken))


def _read_documents(
    text: str, source: str, label: str
) -> tuple[list[HostFacts], list[UnreadablePart], tuple[PastedFact, ...]]:
    """The hosts that cuenv wrote as JSON, the parts that could not be read, and the facts in documents of others."""
    hosts: list[tuple[int, HostFacts]] = []
    broken: list[UnreadablePart] = []
    told: list[PastedFact] = []
    alone: bool | None = None
    said = cache(lambda: describe_text(text))
    for document in split_json(text):
        alone = alone is None
        fault = document.fault
        if not fault:
            try:
                found = tuple(_cuenv_hosts(document, source, label))
            except InputError as error:
                head, *rest = error.message.removeprefix(f"{source}: ").splitlines()
                fault = f"{head}: {'; '.join(map(str.strip, rest))}" if rest else head
            else:
                hosts += ((document.line, facts) for facts in found)
                items = () if found else tuple(_facts_of_document(document, text))
                told += items
                fault = "" if found or items else said() or _unknown_document(document)
        if fault:
            broken.append(UnreadablePart(document.line, one_line(fault)))
        if len(broken) == _MOST_FAULTS:
            unread = f"{_MOST_FAULTS} parts before this one are not hosts, so the rest was not read"
            broken.append(UnreadablePart(document.line, unread))
            break
    single = alone and len(hosts) == 1
    called = (
        [facts for _, facts in hosts]
        if single
        else [_labelled(member, label, line) for line, facts in hosts for member in facts.machines]
    )
    return called, broken, tuple(told)


_MOST_FAULTS = 1000  # the most unreadable parts; after them the rest of the text is not read as JSON
_LONGEST_PASTE = 256 * 1024
"""The length from which a text is treated as a log, in which only passages around marks are read."""


_SILENT = "silent"  # the fact that the part of a host describes nothing


def _facts_by_host(text: str) -> tuple[PastedFact, ...]:
    """The facts that the readers find; if the text has a part for each host, with the name of the host."""
    parts = [(part, _facts_together(part.text)) for part in split_by_host(text)]
    telling = [part for part, told in parts if any(item.fact.startswith(("driver.", "gpu")) for item in told)]
    # Headings such as nvidia-smi and ldd may separate the output of one host; then only one part has driver and GPUs.
    if len(telling) < 2 and not (telling and all(names_hosts(part) for part, _ in parts)):
        return _facts_together(text)
    found: list[PastedFact] = []
    for part, told in parts:
        first = next((line for line in part.text.split("\n") if line.strip()), "")
        nothing = PastedFact(_SILENT, "", 1, evidence_text(first) or "nothing")
        for host in part.hosts:
            items = (item for item in told or (nothing,) if part.numbers)
            found += (item._replace(line=part.numbers[item.line - 1], host=item.host or host) for item in items)
    return tuple(found)


def _facts_together(text: str) -> tuple[PastedFact, ...]:
    """The facts that the readers find in a text as a whole."""
    from cuenv.host.paste.one_host import OF_MANY, OF_ONE, Passages, read_facts  # noqa: PLC0415 - records need no reader

    if len(text) <= _LONGEST_PASTE:
        return read_facts(text, (*OF_ONE, *OF_MANY))
    passages = Passages(OF_ONE)
    passages.look(text.encode("utf-8", "replace"), 1)
    return (*passages.facts(), *read_facts(text, OF_MANY))


def _unknown_document(document: JsonPart) -> str:

    data = document.data
    keys = f"keys {', '.join(map(str, list(data)[:6]))}" if isinstance(data, dict) and data else describe(data)
    return f"it is the JSON of something else: {keys}"


def _cuenv_hosts(document: JsonPart, source: str, label: str) -> Iterator[HostFacts]:
    """The hosts that cuenv wrote in a document: a host, a pool, a list of hosts, or a local fact of Ansible."""
    rows = document.data if isinstance(document.data, list) else [document.data]
    for row in rows:
        named = [(document.node, row)]
        if isinstance(row, dict) and "schema" not in row:
            named = [
                (name, own)
                for name, facts in ansible.hosts_of(row, document.node)
                if (own := ansible.cuenv_record(facts))
            ]
            if not named and not _looks_handwritten(row):
                continue
            named = named or [(document.node, row)]
        for name, own in named:
            if not isinstance(own, dict):
                continue
            facts = host_json.read_plain(own, source, name or ansible.host_name(row, label))
            facts = replace(facts, name=facts.name or name)
            yield facts


def _looks_handwritten(row: dict[str, object]) -> bool:
    """Whether the document looks like a host whose author forgot the schema."""
    return not row or ("gpus" in row and "platform" in row)


def _labelled(facts: HostFacts, label: str, line: int) -> HostFacts:
    """The host with a label of its own among many."""
    own = facts.label if facts.label != label else f"{label}, line {line}"
    return replace(facts, label=facts.name or own)


def _facts_of_document(document: JsonPart, text: str) -> Iterator[PastedFact]:
    """The facts in a document of another tool, by the readers of JSON, otherwise by the readers of text."""
    from cuenv.host.paste.one_host import OF_DOCUMENTS  # noqa: PLC0415 - as above

    for reader in OF_DOCUMENTS:
        if reader.looks_like(document.data):
            for item in reader.read(document.data, document.line):
                yield item._replace(host=item.host or document.node)
            return
    begin, end = document.place
    for item in _facts_by_host(text[begin:end]):
        yield item._replace(line=item.line + document.line - 1, host=item.host or document.node)


def _group_by_host(
    told: Iterable[PastedFact], knowledge: Knowledge, source: str, label: str
) -> Iterator[tuple[HostFacts | None, UnreadablePart | None]]:
    """Each host by its facts, or the reason why it is not a host."""
    by_host: dict[str, list[PastedFact]] = {}
    for item in told:
        by_host.setdefault(item.host, []).append(item)
    if not by_host:
        return
    from cuenv.host.paste.one_host import pasted_host  # noqa: PLC0415 - as above

    if len(by_host) > 1 and "" in by_host and not pasted_host(by_host[""], knowledge, label, source).says:
        del by_host[""]
    for name, all_items in by_host.items():
        items = [item for item in all_items if item.fact != _SILENT]
        if not items:
            yield None, UnreadablePart(all_items[0].line, f"{name}: it describes no host: {all_items[0].shows}")
            continue
        found = pasted_host(items, knowledge, name or label, source, name)
        fault = _refusal(found, name)
        if fault:
            yield None, UnreadablePart(min(item.line for item in items), f"{name}: {fault}" if name else fault)
        elif found.says or name:
            yield _complete(found, source), None


def _refusal(found: PastedHost, name: str) -> str:
    """Why cuenv cannot use the host; empty if it can."""
    if found.refused:
        return f"it contradicts itself about one host: {found.refused[0]}"
    if found.system in ("macOS", "ROCm") and not found.facts.gpus:
        kind = "a Mac" if found.system == "macOS" else "a machine with AMD GPUs (ROCm)"
        return f"it is from {kind}, and cuenv resolves for NVIDIA GPUs on Linux"
    return "" if found.says or name else "it names no driver, GPU, C library or platform"


def _complete(found: PastedHost, source: str) -> HostFacts:
    facts = found.facts
    gaps = facts.gaps
    if facts.evidence_for("platform") is None:
        reason = f"no line names the processor: {facts.platform} is assumed"
        gaps = (*gaps, Gap("platform", source, reason))
    if found.system == "Windows":
        gaps = (*gaps, Gap("platform", source, "it is from Windows: the result is for Linux in WSL2 on this machine"))
    nvcc = found.others.get("nvcc")
    toolkit = FoundToolkit(path=source, release=nvcc, on_path=True, via="paste") if nvcc else None
    return replace(facts, gaps=gaps, toolkits=(toolkit,) if toolkit else ())


_SMI = "paste the table of nvidia-smi beside it"
_KINDS = (
    (
        regex(r"(?m)^NVIDIA-SMI has failed|^Failed to initialize NVML|couldn't communicate with the NVIDIA driver"),
        "nvidia-smi reports there that it cannot reach the driver",
    ),
    (regex(r"No devices were found"), "nvidia-smi reports there that it finds no GPU"),
    (
        regex(r"NVIDIA System Management Interface -- v|--query-gpu=|(?m:^List of valid properties to query)"),
        "it is the help of nvidia-smi, which describes no machine",
    ),
    (
        regex(r"nvidia-smi: (?:command )?not found|'nvidia-smi' is not recognized"),
        "the shell reports there that nvidia-smi is not installed",
    ),
    (
        regex(r"ROCm System Manag|rocm-smi|amdgpu|AMD-SMI|gfx[0-9]{3}|\+rocm[0-9]|torch hip version \.+ [0-9]"),
        "it is from a machine with AMD GPUs (ROCm), and cuenv resolves for NVIDIA GPUs",
    ),
    (regex(r"npu-smi|Ascend|torch_npu"), "it is from a machine with Ascend NPUs, and cuenv is for NVIDIA GPUs"),
    (
        regex(r"DeepSpeed C\+\+/CUDA ext|real_accelerator\.py"),
        f"it is the part of ds_report that names neither driver nor GPU: {_SMI}",
    ),
    (regex(r"PyTorch version *:"), "it is the report of collect_env, and names neither driver, GPU nor Linux"),
    (
        regex(r"(?m)^[\w.-]+ {6,}(?:gpu:|\(null\))"),
        "it is an sinfo table whose columns are cut, so nodes are missing: use sinfo -o '%N|%G|%f'",
    ),
    (regex(r"Cuda compilation tools"), f"it is the banner of nvcc, which describes a toolkit: {_SMI}"),
    (regex(r"(?m)^# packages in environment at|^Package +Version"), f"it is a list of packages: {_SMI}"),
    (
        regex(r"(?m)^[ \t]*(?:Hardware|Chipset Model|Metal)\b.*(?:Apple|Metal)"),
        "it is from a Mac, and cuenv resolves for NVIDIA GPUs on Linux",
    ),
    (regex(r"VGA compatible controller|3D controller"), f"it is the output of lspci, which names no driver: {_SMI}"),
    (
        regex(r"(?mi)^(?:name:.*\n)?(?:channels|dependencies):\s*$"),
        "it is a conda environment file: cuenv lock locks it",
    ),
    (regex(r"(?m)^#SBATCH "), "it is a Slurm batch script, which describes a job, not a node"),
    (regex(r"(?m)^FROM \S+"), "it is a Dockerfile: cuenv lint checks it"),
    (regex(r"(?i)<!doctype html|<html"), "it is a web page: save its contents as text"),
    (regex(r"(?m)^Traceback \(most recent call last\)"), "it is the log of a program: cuenv diagnose reads it"),
    (
        regex(r"(?m)^[A-Za-z][\w.-]*(?:\[[\w,]+\])?(?:==|>=|~=)[0-9]"),
        "it is a list of requirements: cuenv lock reads it",
    ),
)
_EXAMINED = 200_000  # the number of characters that are examined


def describe_text(text: str) -> str:
    """A sentence on what a text is that describes no host; empty if that is unknown."""
    part = text[:_EXAMINED]
    return next((says for pattern, says in _KINDS if pattern.search(part)), "")


_NODE = r"[A-Za-z0-9][\w.-]{0,250}"
_NODES = r"[A-Za-z0-9][\w.,\[\]-]{0,4000}"
_RULE = regex(r"[-=]{4,80}")
_BETWEEN = regex(rf"({_NODES})(?: \(([0-9]{{1,6}})\))?:?")
"""The text between two rules; ``clush -b`` adds the number of nodes."""
_FRAMED = (
    regex(rf"==> ({_NODES}) <=="),
    regex(rf"-{{2,20}} ?({_NODES})(?: \([0-9]{{1,6}}\))? ?-{{2,20}}"),
    regex(rf"={{2,20}} ({_NODES})(?: \([0-9]{{1,6}}\))? ={{2,20}}"),
    regex(rf"#{{2,20}} ({_NODES}) #{{2,20}}"),
)
_BEGIN = ("--", "==", "##")
"""The beginnings of rules and frames."""
_PREFIX = regex(rf"(?:pdsh@[\w.-]{{1,250}}: )?({_NODE}):(?: (.*)|$)")
_PROMPT = regex(r"\s*(?:\$ |# |% |> |\[[^\]]{1,80}\][$#] |\S{1,80}@\S{1,80}[$#] ?)")
_FILE = regex(r"\.(?:txt|log|out|csv)$")
_NO_NAME = regex(r"GPU[0-9]+|(?i:(?:python|gcc|g\+\+|cuda|cudnn|nccl|torch|glibc|nvcc)[-_]?v?[0-9][\w.-]*)|[0-9.]+")
_DIGIT = regex(r"[0-9]")
_MOST_NODES = 5000  # the most nodes in one heading


class HostPart(NamedTuple):
    """The output of one host, or of several with the same output."""

    hosts: tuple[str, ...]  # the names of the hosts
    numbers: tuple[int, ...]  # the numbers of its lines in the whole text
    text: str  # its lines, without the names


def split_by_host(text: str) -> tuple[HostPart, ...]:
    """The parts of a text that headings or the beginnings of all lines assign to hosts; empty for any other text."""
    lines = [line.rstrip("\r") for line in text.split("\n")]
    return tuple(_parts_below_headings(lines)) or tuple(_parts_by_prefix(lines))


def _parts_below_headings(lines: list[str]) -> Iterator[HostPart]:
    places = list(_headings(lines))
    for (_, begin, nodes), (end, _, _) in zip(places, [*places, (len(lines), 0, "")][1:], strict=True):
        yield HostPart(_expand_names(nodes), tuple(range(begin + 1, end + 1)), "\n".join(lines[begin:end]))


def _headings(lines: list[str]) -> Iterator[tuple[int, int, str]]:
    """The position of each heading and of its part, and the nodes that it names."""
    at = 0
    while at < len(lines):
        line = lines[at].strip()
        if line[:2] not in _BEGIN:
            at += 1
            continue
        if _RULE.fullmatch(line) and at + 2 < len(lines) and _RULE.fullmatch(lines[at + 2].strip()):
            found = _BETWEEN.fullmatch(lines[at + 1].strip())
            if found:
                yield at, at + 3, found[1]
                at += 3
                continue
        framed = next((found for pattern in _FRAMED if (found := pattern.fullmatch(line))), None)
        if framed and not _RULE.fullmatch(line):
            yield at, at + 1, framed[1]
        at += 1


def names_hosts(part: HostPart) -> bool:
    """Whether the names of a part look like hosts, and not like a program, a GPU or a title."""
    return all(_DIGIT.search(name) and not _NO_NAME.fullmatch(name) for name in part.hosts)


def _expand_names(nodes: str) -> tuple[str, ...]:
    from cuenv.host.paste.slurm import expand_nodes  # noqa: PLC0415 - as above

    names = expand_nodes(_FILE.sub("", nodes))
    return names if 0 < len(names) <= _MOST_NODES else (nodes,)


def _parts_by_prefix(lines: list[str]) -> Iterator[HostPart]:
    """The lines of each node if every line begins with the name of a node; lines may be interleaved."""
    by_host: dict[str, list[tuple[int, str]]] = {}
    for number, line in enumerate(lines, 1):
        match = _PREFIX.fullmatch(line)
        if match:
            by_host.setdefault(match[1], []).append((number, match[2] or ""))
        elif line.strip() and not _PROMPT.match(line):
            return
    for name, rows in by_host.items():
        yield HostPart((name,), tuple(number for number, _ in rows), "\n".join(line for _, line in rows))
