"""The hosts of a fleet: asked by ssh or srun, or read from files.

ClusterShell names sets of nodes, and runs a command on many; Slurm lists its own. Files are fleet files, records, what
other tools print, and what Ansible keeps of the facts of its nodes.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuenv.core.errors import InputError, OutsideError, UsageError
from cuenv.core.io.files import exists, is_folder, names_in, path_text, read_text
from cuenv.core.io.process import environment, run
from cuenv.core.reading import describe
from cuenv.core.record import NamedTuple, dataclass
from cuenv.core.regex import regex
from cuenv.fleet.answers import NodeAnswer, NotAnswered, with_name
from cuenv.host import host_json
from cuenv.host.facts import HostFacts
from cuenv.host.paste.ansible import cuenv_record, host_name, unpack
from cuenv.host.select import recorded_hosts
from cuenv.knowledge.base import Knowledge

if TYPE_CHECKING:
    from ClusterShell.NodeSet import NodeSet


MOST_NODES = 50_000
LIMIT = 4 * 1024 * 1024  # bytes of an answer; a node that writes more is cut off
_LAST_WORDS = 2000  # characters of standard error that are kept
_RANGE = regex(r"([0-9]{1,18})-([0-9]{1,18})")


class AskLimits(NamedTuple):
    """The time limit for each node in seconds, and the number of nodes that are asked at a time."""

    timeout: float
    fanout: int


def node_set(text: str) -> NodeSet:
    """The nodes in a text: ``gpu[001-064]``, ``gpu1,gpu2``, ``@group``.

    Raises:
        UsageError: it means none, or more than a cluster has.
        OutsideError: ClusterShell is not installed.
    """
    try:
        from ClusterShell.NodeSet import NodeSet, NodeSetException  # noqa: PLC0415 - few commands ask nodes
    except ImportError as error:
        install = f"{shlex.quote(sys.executable)} -m pip install ClusterShell"
        raise OutsideError("asking nodes needs ClusterShell, which is not installed", hint=install) from error
    hint = "cuenv fleet gather --ssh 'gpu[001-064]' -o fleet.ndjson"
    if any(int(to) - int(start) >= MOST_NODES for start, to in _RANGE.findall(text)):
        raise UsageError(f"{text!r} means more than {MOST_NODES} nodes", hint=hint)
    try:
        found = NodeSet(text)
    except NodeSetException as error:
        raise UsageError(f"{text!r} is not a set of nodes: {error}", hint=hint) from error
    if not found or len(found) > MOST_NODES:
        raise UsageError(f"{text!r} means {len(found)} nodes", hint=hint)
    odd = next((node for node in found if node.startswith("-") or not node.isprintable()), None)
    if odd is not None:
        raise UsageError(f"{odd!r} is not a node name", hint=hint)
    return found


def without(nodes: NodeSet, names: Collection[str]) -> NodeSet:
    """The nodes of a set but those of these names."""
    from ClusterShell.NodeSet import NodeSet  # noqa: PLC0415 - as in `node_set`

    return NodeSet.fromlist([node for node in map(str, nodes) if node not in names])


Heard = Callable[[NodeAnswer], None]  # what hears each answer when it is there


def ask_by_ssh(nodes: NodeSet, command: str, options: str, limits: AskLimits, heard: Heard) -> None:
    """Run a command on nodes by the local ssh; every node gets exactly one answer.

    Args:
        options: of ssh, as they are typed; the user's own configuration of ssh counts as well.

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


def _bounded(worker: Any, client: Any) -> Any:
    """A ClusterShell worker that stops a node which writes too much, even without line ends."""

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


class _AnswerCollector:
    """Collects the output of nodes and passes on one answer for each."""

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

    handler = type("Handler", (_AnswerCollector, EventHandler), {})
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


_PATIENCE = 20.0  # seconds for sinfo, which waits for minutes where the controller does not answer
_ASKED = "%N|%R|%a|%G|%T"
_FREE = ("idle", "mixed", "completing")
_MARKS = re.compile(r"[*~#!%$@^+-]+$")
_SOCKETS = re.compile(r"\([^()]*\)")
_BUSY = "Slurm says that it is in use by other jobs"


class _Group(NamedTuple):
    """Nodes that srun asks with the same options."""

    partition: str
    gpus: str


@dataclass(frozen=True, slots=True)
class SlurmNodes:
    """The nodes of a cluster that Slurm lists."""

    ready: Mapping[_Group, NodeSet]  # the nodes that srun may ask, by the options that it needs
    not_ready: tuple[NotAnswered, ...]

    def names(self) -> tuple[str, ...]:
        """The names of all of them."""
        return (*(str(node) for some in self.ready.values() for node in some), *(item.node for item in self.not_ready))

    def without(self, names: Collection[str]) -> SlurmNodes:
        """The nodes but those of these names."""
        ready = {group: left for group, some in self.ready.items() if (left := without(some, names))}
        return SlurmNodes(ready, tuple(item for item in self.not_ready if item.node not in names))


def inside_slurm() -> bool:
    """Whether this process runs in a Slurm allocation."""
    return bool(environment().get("SLURM_JOB_ID"))


def nodes_of_slurm(chosen: str) -> SlurmNodes:
    """The nodes of the cluster, or inside an allocation those of the allocation.

    Args:
        chosen: only these nodes; empty for all of them.

    Raises:
        OutsideError: sinfo is not there, or its controller does not answer.
        UsageError: the set of nodes is none of this cluster.
    """
    within = environment().get("SLURM_JOB_NODELIST", "") if inside_slurm() else ""
    only = node_set(chosen) if chosen else None
    if within:
        kept = node_set(within) if only is None else node_set(within) & only
        _refuse_unknown(only, node_set(within), "the allocation")
        return SlurmNodes({_Group("", ""): kept}, ())
    argv = ["sinfo", "--noheader", f"--format={_ASKED}"]
    own = {name: value for name, value in environment().items() if name.startswith("SLURM")}
    done = run(argv, _PATIENCE, more=own)
    if done.reason:
        said = next((line for line in reversed(done.err.splitlines()) if line.strip()), "").strip()
        message = f"sinfo: {done.reason}{f': {said}' if said else ''}"
        hint = "scontrol ping" if done.late else "cuenv fleet gather --ssh 'gpu[001-064]' -o fleet.ndjson"
        raise OutsideError(message, hint=hint)
    return _listed(done.out, only)


def _listed(text: str, only: NodeSet | None) -> SlurmNodes:
    """The nodes in the output of sinfo; a node in several partitions is asked in the first that is up."""
    every = without(node_set("unknown"), {"unknown"})
    ready: dict[_Group, NodeSet] = {}
    why: dict[str, str] = {}
    taken = every.copy()
    for names, partition, up, gres, state in _rows(text):
        here = node_set(names)
        every |= here
        wanted = (here if only is None else here & only) - taken
        reason = _not_ready(state) if up == "up" else f"Slurm says that its partition is {up}"
        if reason:
            why.update({str(node): reason for node in wanted})
            continue
        taken |= wanted
        group = _Group(partition, _gpus(gres))
        if wanted:
            ready[group] = ready[group] | wanted if group in ready else wanted
    _refuse_unknown(only, every, "the cluster")
    return SlurmNodes(ready, tuple(NotAnswered(node, reason) for node, reason in why.items() if node not in taken))


def _rows(text: str) -> Iterator[list[str]]:
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == 5 and cells[0]:
            yield cells


def _refuse_unknown(only: NodeSet | None, every: NodeSet, what: str) -> None:
    if only is not None and only - every:
        raise UsageError(f"{only - every}: {what} has no node with this name", hint="sinfo --Node")


def _not_ready(state: str) -> str | None:
    """Why srun cannot ask a node in this state; asking a powered-down node would start it."""
    plain = _MARKS.sub("", state)
    if plain in _FREE and plain == state:
        return None
    if plain == "allocated":
        return _BUSY
    if "~" in state:
        return "Slurm powered it down"
    return f"Slurm says that it is {plain}" if plain != state or plain not in _FREE else None


def _gpus(gres: str) -> str:
    """The option of srun that requests all GPUs of a node, because confined jobs see only requested GPUs."""
    kinds = [_SOCKETS.sub("", kind) for kind in re.split(r",(?![^(]*\))", gres)]
    return ",".join(kind for kind in kinds if kind.partition(":")[0] == "gpu" and kind.count(":"))


def ask_by_srun(listed: SlurmNodes, command: str, options: str, limits: AskLimits, heard: Heard) -> None:
    """Run a command on every ready node with one srun each; every node gets exactly one answer.

    Args:
        options: more options of srun, as they are typed.

    Raises:
        UsageError: the options have a quote that does not end.
    """
    from ClusterShell.Worker.Exec import ExecClient, ExecWorker  # noqa: PLC0415 - as in `node_set`

    try:
        more = shlex.split(options)
    except ValueError as error:
        raise UsageError(f"--srun-options: {error}", hint="--srun-options '--account=physics'") from error
    commands = {_srun(group, command, more, limits): some for group, some in listed.ready.items()}
    _ask(_bounded(ExecWorker, ExecClient), commands, {}, limits, heard)


def _srun(group: _Group, command: str, more: list[str], limits: AskLimits) -> str:
    words = ["srun", "--nodes=1", "--ntasks=1", "--input=none", "--job-name=cuenv-fleet"]
    if inside_slurm():
        words.append("--overlap")
    else:
        wait = max(1, int(limits.timeout) - 5)
        words += [f"--partition={group.partition}", f"--immediate={wait}", f"--time={int(limits.timeout) // 60 + 1}"]
    words += [f"--gres={group.gpus}"] if group.gpus else []
    shown = " ".join(shlex.quote(word).replace("%", "%%") for word in [*words, *more])
    return f"exec {shown} --nodelist=%h {command.replace('%', '%%')}"


_ANSIBLE_LIMIT = 16 * 1024 * 1024  # bytes that Ansible's facts of one node may have
_FACT = "the cuenv fact (ansible_local.cuenv)"
_LINE = regex(r", line ([0-9]+)$")


class HostSource(NamedTuple):
    """A host in a file, or why a part of the file is not a host."""

    where: str  # the file, and the line of one that is broken
    facts: HostFacts | None
    reason: str = ""
    own: bool = True  # it tells its name, and is not called by its label or file alone


def hosts_of_fleet_file(path: Path, knowledge: Knowledge) -> Iterator[HostSource]:
    """The hosts of an existing fleet file; empty if the file does not exist.

    Raises:
        InputError: it cannot be read, or is a file of another kind, which must not be replaced.
    """
    if not exists(path):
        return
    if not is_folder(path) and not read_text(path).strip():
        return
    try:
        yield from hosts_of_path(str(path), str, knowledge)
    except InputError as error:
        hint = "cuenv fleet gather --ssh 'gpu[001-064]' -o fleet.ndjson"
        message = f"-o {path_text(path)}: it is not a fleet file, so it is not replaced: {error.message}"
        raise InputError(message, hint=hint) from error


def hosts_of_path(path: str, stdin: Callable[[], str], knowledge: Knowledge) -> Iterator[HostSource]:
    """The hosts of a file, of the files in a folder, or of standard input (``-``).

    Raises:
        InputError: it is not there, or tells of no host at all.
    """
    broken: list[HostSource] = []
    where = "standard input" if path == "-" else path_text(path)

    def note(file: str, line: int, says: str) -> None:
        broken.append(HostSource(f"{file or where}, line {line}", None, says))

    for facts in recorded_hosts(path, knowledge, note, stdin):
        name = facts.name or _LINE.sub(r"-\1", facts.label)
        yield HostSource(where, with_name(facts, name), own=bool(facts.name))
    yield from broken


def hosts_of_ansible(folders: Iterable[Path]) -> Iterator[HostSource]:
    """The hosts in Ansible's folders with one file each: its cache of facts as JSON, or the output of ``--tree``.

    Raises:
        InputError: a folder is not there, or has no files.
    """
    for folder in folders:
        names = [name for name in sorted(names_in(folder)) if not name.startswith(".")] if is_folder(folder) else []
        if not names:
            message = f"{path_text(folder)} is not a folder with the facts of hosts"
            hint = "ANSIBLE_CACHE_PLUGIN=jsonfile ANSIBLE_CACHE_PLUGIN_CONNECTION=facts ansible all -m setup"
            raise InputError(message, hint=hint)
        yield from (_by_ansible(folder / name, name) for name in names)


def _by_ansible(path: Path, name: str) -> HostSource:
    try:
        name, facts = _facts(path, name)
        return HostSource(path_text(path), _fact(facts, name))
    except InputError as error:
        return HostSource(name, None, error.message)


def _facts(path: Path, name: str) -> tuple[str, Any]:
    """The name of a host in Ansible's inventory, by its file name, and its facts.

    Raises:
        InputError: the file contains something else.
    """
    try:
        whole: Any = json.loads(read_text(path, limit=_ANSIBLE_LIMIT))
        data: Any = unpack(whole)
    except (ValueError, RecursionError) as error:
        raise InputError("the file is not the JSON of Ansible's facts") from error
    return host_name(whole, name), data.get("ansible_facts", data) if isinstance(data, dict) else {}


def _fact(facts: Any, name: str) -> HostFacts:
    """The host record that cuenv wrote as a local fact.

    Raises:
        InputError: it has no record of cuenv.
    """
    told = cuenv_record(facts) if isinstance(facts, dict) else None
    if isinstance(told, str):
        raise InputError(f"{_FACT} failed: {describe(told)}")
    if told is None:
        raise InputError(f"the facts do not contain {_FACT}")
    return with_name(host_json.read_plain(told, _FACT, name), name)
