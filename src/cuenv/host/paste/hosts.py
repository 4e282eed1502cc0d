"""All hosts that a text tells of: cuenv's own JSON of one or many, and whatever a reader of a paste recognises."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from cuenv.core.errors import InputError
from cuenv.core.reading import describe
from cuenv.core.record import NamedTuple, replace
from cuenv.core.regex import regex
from cuenv.core.urls import one_line
from cuenv.host import host_json
from cuenv.host.facts import FoundToolkit, Gap, HostFacts
from cuenv.host.paste import ansible
from cuenv.host.paste.documents import Document, documents_of, looks_like_json
from cuenv.host.paste.told import Told, shown
from cuenv.knowledge.base import Knowledge

if TYPE_CHECKING:
    from cuenv.host.paste.reading import HostTold


HINT = "paste what nvidia-smi prints; complete is: cuenv inspect --json > host.json"


class Broken(NamedTuple):
    """A part of a text that tells no host: the number of its first line, why, and its file if there are several."""

    line: int
    says: str
    file: str = ""


class HostsTold(NamedTuple):
    """The hosts of a text in their order, and what of it could not be read."""

    hosts: tuple[HostFacts, ...]
    broken: tuple[Broken, ...] = ()


def hosts_told(text: str, knowledge: Knowledge, source: str, label: str = "") -> HostsTold:
    """Every host of a text.

    Args:
        text: as a person has it; several pastes of one host are joined.
        knowledge: the tables, for what names and drivers tell.
        source: what to call the text in evidence and errors.
        label: what to call a host that tells no name.

    Raises:
        InputError: nothing in the text tells of a host, or it tells two things of one.
    """
    if not text.strip():
        raise InputError(f"{source}: it is empty, expected a host", hint=HINT)
    label = label or source
    hosts: list[HostFacts] = []
    broken: list[Broken] = []
    told: tuple[Told, ...] = ()
    if looks_like_json(text):
        hosts, broken, told = _of_documents(text, source, label)
    if not hosts and not told:
        told = _told(text)
        broken = broken if not told else []
    found = tuple(_grouped(told, knowledge, source, label))
    hosts += [facts for facts, _ in found if facts]
    broken += [fault for _, fault in found if fault]
    if not hosts and (len(broken) == 1 or not told):
        said = what_it_is(text) or (broken[0].says if broken and (told or "{" in text) else "")
        raise InputError(f"{source}: {said or 'it describes no host'}", hint=HINT)
    return HostsTold(tuple(hosts), tuple(broken))


def _of_documents(text: str, source: str, label: str) -> tuple[list[HostFacts], list[Broken], tuple[Told, ...]]:
    """The hosts of JSON documents: those of cuenv's own, what could not be read, and what others tell."""
    hosts: list[tuple[int, HostFacts]] = []
    broken: list[Broken] = []
    told: list[Told] = []
    alone: bool | None = None
    said = cache(lambda: what_it_is(text))
    for document in documents_of(text):
        alone = alone is None
        fault = document.fault
        if not fault:
            try:
                found = tuple(_own(document, source, label))
            except InputError as error:
                head, *rest = error.message.removeprefix(f"{source}: ").splitlines()
                fault = f"{head}: {'; '.join(map(str.strip, rest))}" if rest else head
            else:
                hosts += ((document.line, facts) for facts in found)
                items = () if found else tuple(_of_others(document, text))
                told += items
                fault = "" if found or items else said() or _nobodys(document)
        if fault:
            broken.append(Broken(document.line, one_line(fault)))
        if len(broken) == _FAULTS:
            unread = f"{_FAULTS} parts before this one are not hosts, so the rest was not read"
            broken.append(Broken(document.line, unread))
            break
    single = alone and len(hosts) == 1
    called = (
        [facts for _, facts in hosts]
        if single
        else [_called(member, label, line) for line, facts in hosts for member in facts.machines]
    )
    return called, broken, tuple(told)


_FAULTS = 1000
"""Documents and lines that are no hosts, behind which the rest of a text is not read as JSON."""
_PASTE = 256 * 1024
"""Characters above which a text is a log, of which the parts are looked for that tell of its host."""


_SILENT = "silent"
"""The fact of a host that its part of a text tells nothing of it."""


def _told(text: str) -> tuple[Told, ...]:
    """What the readers of text tell, of one host and of many; each host by its name where the text has parts."""
    parts = [(part, _told_together(part.text)) for part in parts_by_host(text)]
    telling = [part for part, told in parts if any(item.fact.startswith(("driver.", "gpu")) for item in told)]
    # Titles such as nvidia-smi and ldd stand over what one host tells: only one of them has its driver and its GPUs.
    if len(telling) < 2 and not (telling and all(surely_names(part) for part, _ in parts)):
        return _told_together(text)
    found: list[Told] = []
    for part, told in parts:
        first = next((line for line in part.text.split("\n") if line.strip()), "")
        nothing = Told(_SILENT, "", 1, shown(first) or "nothing")
        for host in part.hosts:
            items = (item for item in told or (nothing,) if part.numbers)
            found += (item._replace(line=part.numbers[item.line - 1], host=item.host or host) for item in items)
    return tuple(found)


def _told_together(text: str) -> tuple[Told, ...]:
    """What the readers tell of a text as a whole."""
    from cuenv.host.paste.reading import OF_MANY, OF_ONE, Passages, told_by  # noqa: PLC0415 - records need no reader

    if len(text) <= _PASTE:
        return told_by(text, (*OF_ONE, *OF_MANY))
    passages = Passages(OF_ONE)
    passages.look(text.encode("utf-8", "replace"), 1)
    return (*passages.told(), *told_by(text, OF_MANY))


def _nobodys(document: Document) -> str:

    data = document.data
    keys = f"keys {', '.join(map(str, list(data)[:6]))}" if isinstance(data, dict) and data else describe(data)
    return f"it is the JSON of something else: {keys}"


def _own(document: Document, source: str, label: str) -> Iterator[HostFacts]:
    """The hosts of cuenv's own in a document: a host, a pool, a list of hosts, or a local fact of Ansible."""
    rows = document.data if isinstance(document.data, list) else [document.data]
    for row in rows:
        named = [(document.node, row)]
        if isinstance(row, dict) and "schema" not in row:
            named = [
                (name, own) for name, facts in ansible.hosts_of(row, document.node) if (own := ansible.own_of(facts))
            ]
            if not named and not _by_hand(row):
                continue
            named = named or [(document.node, row)]
        for name, own in named:
            if not isinstance(own, dict):
                continue
            facts = host_json.read_plain(own, source, name or ansible.called(row, label))
            facts = replace(facts, name=facts.name or name)
            yield facts


def _by_hand(row: dict[str, object]) -> bool:
    """Whether somebody meant a host of ours and forgot its schema."""
    return not row or ("gpus" in row and "platform" in row)


def _called(facts: HostFacts, label: str, line: int) -> HostFacts:
    """A host of many by its own name."""
    own = facts.label if facts.label != label else f"{label}, line {line}"
    return replace(facts, label=facts.name or own)


def _of_others(document: Document, text: str) -> Iterator[Told]:
    """What the readers of JSON tell of a document; of one that is nobody's, what the readers of text find in it."""
    from cuenv.host.paste.reading import OF_DOCUMENTS  # noqa: PLC0415 - as above

    for reader in OF_DOCUMENTS:
        if reader.looks_like(document.data):
            for item in reader.read(document.data, document.line):
                yield item._replace(host=item.host or document.node)
            return
    begin, end = document.place
    for item in _told(text[begin:end]):
        yield item._replace(line=item.line + document.line - 1, host=item.host or document.node)


def _grouped(
    told: Iterable[Told], knowledge: Knowledge, source: str, label: str
) -> Iterator[tuple[HostFacts | None, Broken | None]]:
    """Each host that is told of, or why it is none."""
    by_host: dict[str, list[Told]] = {}
    for item in told:
        by_host.setdefault(item.host, []).append(item)
    if not by_host:
        return
    from cuenv.host.paste.reading import host_told  # noqa: PLC0415 - as above

    if len(by_host) > 1 and "" in by_host and not host_told(by_host[""], knowledge, label, source).says:
        del by_host[""]
    for name, all_items in by_host.items():
        items = [item for item in all_items if item.fact != _SILENT]
        if not items:
            yield None, Broken(all_items[0].line, f"{name}: it describes no host: {all_items[0].shows}")
            continue
        found = host_told(items, knowledge, name or label, source, name)
        fault = _refusal(found, name)
        if fault:
            yield None, Broken(min(item.line for item in items), f"{name}: {fault}" if name else fault)
        elif found.says or name:
            yield _completed(found, source), None


def _refusal(found: HostTold, name: str) -> str:
    """Why it is no host that cuenv can serve; empty where it is one."""
    if found.refused:
        return f"it contradicts itself about one host: {found.refused[0]}"
    if found.system in ("macOS", "ROCm") and not found.facts.gpus:
        kind = "a Mac" if found.system == "macOS" else "a machine with AMD GPUs (ROCm)"
        return f"it is from {kind}, and cuenv resolves for NVIDIA GPUs on Linux"
    return "" if found.says or name else "it names no driver, GPU, C library or platform"


def _completed(found: HostTold, source: str) -> HostFacts:
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
_LOOKED = 200_000
"""Characters that are looked at."""


def what_it_is(text: str) -> str:
    """What a text looks like, as a main clause; empty where it looks like nothing known."""
    part = text[:_LOOKED]
    return next((says for pattern, says in _KINDS if pattern.search(part)), "")


_NODE = r"[A-Za-z0-9][\w.-]{0,250}"
_NODES = r"[A-Za-z0-9][\w.,\[\]-]{0,4000}"
_RULE = regex(r"[-=]{4,80}")
_BETWEEN = regex(rf"({_NODES})(?: \(([0-9]{{1,6}})\))?:?")
"""What stands between two rules: ``clush -b`` adds the number of nodes."""
_FRAMED = (
    regex(rf"==> ({_NODES}) <=="),
    regex(rf"-{{2,20}} ?({_NODES})(?: \([0-9]{{1,6}}\))? ?-{{2,20}}"),
    regex(rf"={{2,20}} ({_NODES})(?: \([0-9]{{1,6}}\))? ={{2,20}}"),
    regex(rf"#{{2,20}} ({_NODES}) #{{2,20}}"),
)
_BEGIN = ("--", "==", "##")
"""How each rule and each frame begins."""
_PREFIX = regex(rf"(?:pdsh@[\w.-]{{1,250}}: )?({_NODE}):(?: (.*)|$)")
_PROMPT = regex(r"\s*(?:\$ |# |% |> |\[[^\]]{1,80}\][$#] |\S{1,80}@\S{1,80}[$#] ?)")
_FILE = regex(r"\.(?:txt|log|out|csv)$")
_NO_NAME = regex(r"GPU[0-9]+|(?i:(?:python|gcc|g\+\+|cuda|cudnn|nccl|torch|glibc|nvcc)[-_]?v?[0-9][\w.-]*)|[0-9.]+")
_DIGIT = regex(r"[0-9]")
_MOST = 5000
"""Nodes that one heading may name."""


class HostPart(NamedTuple):
    """What one host, or several alike, printed.

    Attributes:
        hosts: their names.
        numbers: of its lines in the whole text.
        text: its lines, without what names the host.
    """

    hosts: tuple[str, ...]
    numbers: tuple[int, ...]
    text: str


def parts_by_host(text: str) -> tuple[HostPart, ...]:
    """The parts of a text in which headings or the beginnings of all lines name hosts; nothing for any other text."""
    lines = [line.rstrip("\r") for line in text.split("\n")]
    return tuple(_headed(lines)) or tuple(_prefixed(lines))


def _headed(lines: list[str]) -> Iterator[HostPart]:
    """The parts below headings."""
    places = list(_headings(lines))
    for (_, begin, nodes), (end, _, _) in zip(places, [*places, (len(lines), 0, "")][1:], strict=True):
        yield HostPart(_named(nodes), tuple(range(begin + 1, end + 1)), "\n".join(lines[begin:end]))


def _headings(lines: list[str]) -> Iterator[tuple[int, int, str]]:
    """Where each heading begins, where its part does, and which nodes it names."""
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


def surely_names(part: HostPart) -> bool:
    """Whether what names a part looks like hosts, and not like a program, a GPU or a title."""
    return all(_DIGIT.search(name) and not _NO_NAME.fullmatch(name) for name in part.hosts)


def _named(nodes: str) -> tuple[str, ...]:
    from cuenv.host.paste.slurm import expanded  # noqa: PLC0415 - as above

    names = expanded(_FILE.sub("", nodes))
    return names if 0 < len(names) <= _MOST else (nodes,)


def _prefixed(lines: list[str]) -> Iterator[HostPart]:
    """The lines of each node, where every line begins with the name of one; they may be mixed."""
    by_host: dict[str, list[tuple[int, str]]] = {}
    for number, line in enumerate(lines, 1):
        match = _PREFIX.fullmatch(line)
        if match:
            by_host.setdefault(match[1], []).append((number, match[2] or ""))
        elif line.strip() and not _PROMPT.match(line):
            return
    for name, rows in by_host.items():
        yield HostPart((name,), tuple(number for number, _ in rows), "\n".join(line for _, line in rows))
