"""ClusterShell: sets of nodes, and one command on many of them, over ssh or by another program for each node."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from cuenv.core.errors import OutsideError, UsageError
from cuenv.core.record import dataclass
from cuenv.core.regex import regex
from cuenv.fleet.answers import NodeAnswer

if TYPE_CHECKING:
    from ClusterShell.NodeSet import NodeSet

MOST_NODES = 50_000
LIMIT = 4 * 1024 * 1024
"""Bytes of an answer; a node that writes more is cut off."""
_LAST_WORDS = 2000
"""Characters of standard error that are kept."""
_RANGE = regex(r"([0-9]{1,18})-([0-9]{1,18})")


@dataclass(frozen=True, slots=True, kw_only=True)
class AskLimits:
    """How nodes are asked.

    Attributes:
        timeout: seconds for each node.
        fanout: nodes that are asked at a time.
    """

    timeout: float = 60
    fanout: int = 64


def node_set(text: str) -> NodeSet:
    """The nodes that a text means: ``gpu[001-064]``, ``gpu1,gpu2``, ``@group``.

    Raises:
        UsageError: it means none, or more than a cluster has.
        OutsideError: ClusterShell is not installed.
    """
    _demand()
    from ClusterShell.NodeSet import NodeSet, NodeSetException  # noqa: PLC0415 - few commands ask nodes

    hint = "cuenv fleet gather --ssh 'gpu[001-064]' -o fleet.ndjson"
    if any(int(to) - int(start) >= MOST_NODES for start, to in _RANGE.findall(text)):
        raise UsageError(f"{text!r} means more than {MOST_NODES} nodes", hint=hint)
    try:
        found = NodeSet(text)
    except NodeSetException as error:
        raise UsageError(f"{text!r} is no set of nodes: {error}", hint=hint) from error
    if not found or len(found) > MOST_NODES:
        raise UsageError(f"{text!r} means {len(found)} nodes", hint=hint)
    odd = next((node for node in found if node.startswith("-") or not node.isprintable()), None)
    if odd is not None:
        raise UsageError(f"{odd!r} is no name of a node", hint=hint)
    return found


def _demand() -> None:
    try:
        import ClusterShell  # noqa: F401, PLC0415 - as in `node_set`
    except ImportError as error:
        raise OutsideError(
            "asking nodes needs ClusterShell, which is not installed", hint="pip install 'cuenv[fleet]'"
        ) from error


def without(nodes: NodeSet, names: Collection[str]) -> NodeSet:
    """The nodes of a set but those of these names."""
    from ClusterShell.NodeSet import NodeSet  # noqa: PLC0415 - as in `node_set`

    return NodeSet.fromlist([node for node in map(str, nodes) if node not in names])


Heard = Callable[[NodeAnswer], None]
"""What hears each answer when it is there."""


def ask_by_ssh(nodes: NodeSet, command: str, options: str, limits: AskLimits, heard: Heard) -> None:
    """Run a command on nodes by the ssh of this machine; every node is heard once, whatever becomes of it.

    Args:
        nodes: whom to ask.
        command: for the shell of the node.
        options: of ssh, as they are typed; the user's own configuration of ssh counts as well.
        limits: of time and number.
        heard: hears each answer.

    Raises:
        UsageError: the options have a quote that does not end.
    """
    from ClusterShell.Worker.Ssh import SshClient, WorkerSsh  # noqa: PLC0415 - as in `node_set`

    try:
        shlex.split(options)
    except ValueError as error:
        raise UsageError(f"--ssh-options: {error}", hint="--ssh-options '-F ssh_config -l admin'") from error
    about = {"ssh_options": options or None, "connect_timeout": max(1, int(min(limits.timeout, 20)))}
    _ask(_bounded(WorkerSsh, SshClient), {command: nodes}, about, limits, heard)


def ask_by_program(commands: Mapping[str, NodeSet], limits: AskLimits, heard: Heard) -> None:
    """Run a local command for each node, such as srun; ``%h`` in it is the node, and ``%%`` a percent sign."""
    from ClusterShell.Worker.Exec import ExecClient, ExecWorker  # noqa: PLC0415 - as in `node_set`

    _ask(_bounded(ExecWorker, ExecClient), commands, {}, limits, heard)


def _bounded(worker: Any, client: Any) -> Any:
    """A kind of worker that stops a node which writes too much, also without ever ending a line."""

    class BoundedClient(client):  # type: ignore[misc]  # ClusterShell has no types
        _count = 0

        def _read(self, sname: str, size: int = 65536) -> bytes:
            data: bytes = super()._read(sname, size)
            self._count += len(data)
            if self._count > LIMIT:
                self.worker.eh.too_large(self.key)
                self.popen.kill()
                # what is lost now would be cut anyway
                self.streams[sname].rbuf = b""
                return b"\n"
            return data

    class BoundedWorker(worker):  # type: ignore[misc]  # as above
        SHELL_CLASS = BoundedClient

    return BoundedWorker


class _Hearing:
    """Hears what nodes write and how they end; what a node wrote goes on as one answer, once."""

    def __init__(self, nodes: Iterable[str], limits: AskLimits, heard: Heard) -> None:
        self._open = set(nodes)
        self._limits = limits
        self._heard = heard
        self._out: dict[str, list[bytes]] = {}
        self._said: dict[str, str] = {}
        self._large: set[str] = set()

    def ev_read(self, _worker: Any, node: str, stream: str, line: bytes) -> None:
        """A line."""
        if stream == "stderr":
            self._said[node] = f"{self._said.get(node, '')}\n{_text(line)}"[-_LAST_WORDS:]
        elif node not in self._large:
            self._out.setdefault(node, []).append(line)

    def too_large(self, node: str) -> None:
        """A node wrote more than it may; it is being stopped."""
        self._large.add(node)
        self._out.pop(node, None)

    def ev_hup(self, _worker: Any, node: str, code: int | None) -> None:
        """The command of a node ended."""
        self._close(node, code, 0)

    def ev_close(self, worker: Any, _late: bool) -> None:
        """All commands of a worker ended; those that were stopped for their time say so here alone."""
        for node in map(str, worker.nodes):
            self._close(node, None, self._limits.timeout)

    def _close(self, node: str, code: int | None, late: float) -> None:
        if node not in self._open:
            return
        self._open.discard(node)
        text, said = _text(b"\n".join(self._out.pop(node, []))), self._said.pop(node, "")
        large = LIMIT if node in self._large else 0
        self._heard(NodeAnswer(node=node, text=text, code=code, said=said, late=late, large=large))


def _ask(worker: Any, commands: Mapping[str, Any], about: Mapping[str, Any], limits: AskLimits, heard: Heard) -> None:
    from ClusterShell.Event import EventHandler  # noqa: PLC0415 - as in `node_set`
    from ClusterShell.Task import task_self  # noqa: PLC0415 - as in `node_set`

    handler = type("Handler", (_Hearing, EventHandler), {})
    every = [str(node) for nodes in commands.values() for node in nodes]
    task = task_self()
    task.set_info("fanout", limits.fanout)
    task.set_default("stdout_msgtree", False)
    task.set_default("stderr_msgtree", False)
    for name, value in about.items():
        task.set_info(name, value)
    hearing = handler(every, limits, heard)
    for command, nodes in commands.items():
        one = worker(nodes, handler=hearing, timeout=limits.timeout, command=command, stderr=True)
        task.schedule(one)
        one.set_write_eof()
    try:
        task.resume()
    finally:
        task.abort(kill=True)  # ends what still runs; the next call has a task of its own


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
