"""Texts of many nodes in one: what ``clush``, ``pdsh``, ``dshbak`` and loops over ssh print, split by host."""

from __future__ import annotations

from collections.abc import Iterator

from cuenv.core.record import NamedTuple
from cuenv.core.regex import regex
from cuenv.host.paste.slurm import expanded

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
    names = expanded(_FILE.sub("", nodes))
    return names if 0 < len(names) <= _MOST else (nodes,)


def _prefixed(lines: list[str]) -> Iterator[HostPart]:
    """The lines of each node, where every line begins with the name of one; they may be mixed."""
    whole = [(number, line) for number, line in enumerate(lines, 1) if line.strip() and not _PROMPT.match(line)]
    found = [(number, match) for number, line in whole if (match := _PREFIX.fullmatch(line))]
    if not found or len(found) < len(whole):
        return
    by_host: dict[str, list[tuple[int, str]]] = {}
    for number, match in found:
        by_host.setdefault(match[1], []).append((number, match[2] or ""))
    for name, rows in by_host.items():
        yield HostPart((name,), tuple(number for number, _ in rows), "\n".join(line for _, line in rows))
