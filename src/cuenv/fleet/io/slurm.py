"""Slurm: which nodes there are by sinfo, and how srun asks each of them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from cuenv.core.errors import OutsideError, UsageError
from cuenv.core.io.process import environment, run
from cuenv.core.record import NamedTuple, dataclass
from cuenv.fleet.answers import NotAnswered
from cuenv.fleet.io.cluster import AskLimits, Heard, ask_by_program, node_set, without

if TYPE_CHECKING:
    from ClusterShell.NodeSet import NodeSet

_PATIENCE = 20.0
"""Seconds for sinfo, which waits for minutes where the controller does not answer."""
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
    """The nodes of a cluster as Slurm lists them.

    Attributes:
        ready: the nodes that srun may ask, by the options that it needs.
        not_ready: why others cannot be asked now.
    """

    ready: Mapping[_Group, NodeSet]
    not_ready: tuple[NotAnswered, ...]

    def names(self) -> tuple[str, ...]:
        """The names of all of them."""
        return (*(str(node) for some in self.ready.values() for node in some), *(item.node for item in self.not_ready))

    def without(self, names: Collection[str]) -> SlurmNodes:
        """The nodes but those of these names."""
        ready = {group: left for group, some in self.ready.items() if (left := without(some, names))}
        return SlurmNodes(ready, tuple(item for item in self.not_ready if item.node not in names))


def _variables() -> dict[str, str]:
    return {name: value for name, value in environment().items() if name.startswith("SLURM")}


def inside() -> bool:
    """Whether this process runs in an allocation of Slurm."""
    return bool(environment().get("SLURM_JOB_ID"))


def nodes(chosen: str) -> SlurmNodes:
    """The nodes of the cluster, or inside an allocation those of the allocation.

    Args:
        chosen: only these nodes; empty for all of them.

    Raises:
        OutsideError: sinfo is not there, or its controller does not answer.
        UsageError: the set of nodes is none of this cluster.
    """
    within = environment().get("SLURM_JOB_NODELIST", "") if inside() else ""
    only = node_set(chosen) if chosen else None
    if within:
        kept = node_set(within) if only is None else node_set(within) & only
        _refuse_unknown(only, node_set(within), "the allocation")
        return SlurmNodes({_Group("", ""): kept}, ())
    argv = ["sinfo", "--noheader", f"--format={_ASKED}"]
    done = run(argv, _PATIENCE, more=_variables())
    if done.reason:
        said = next((line for line in reversed(done.err.splitlines()) if line.strip()), "").strip()
        raise OutsideError(
            f"sinfo: {done.reason}{f': {said}' if said else ''}",
            hint="scontrol ping" if done.late else "cuenv fleet gather --ssh 'gpu[001-064]' -o fleet.ndjson",
        )
    return _listed(done.out, only)


def _listed(text: str, only: NodeSet | None) -> SlurmNodes:
    """The nodes in the lines of sinfo; one of several partitions is asked in the first that is up."""
    every = node_set("unknown") - node_set("unknown")
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
        raise UsageError(f"{only - every}: no node of {what} is called so", hint="sinfo --Node")


def _not_ready(state: str) -> str | None:
    """Why srun cannot ask a node in this state now; asking one that is powered down would start it."""
    plain = _MARKS.sub("", state)
    if plain in _FREE and plain == state:
        return None
    if plain == "allocated":
        return _BUSY
    if "~" in state:
        return "Slurm has powered it down"
    return f"Slurm says that it is {plain}" if plain != state or plain not in _FREE else None


def _gpus(gres: str) -> str:
    """All GPUs of a node as an option of srun: where devices are confined, a job sees those alone that it asks for."""
    kinds = [_SOCKETS.sub("", kind) for kind in re.split(r",(?![^(]*\))", gres)]
    return ",".join(kind for kind in kinds if kind.partition(":")[0] == "gpu" and kind.count(":"))


def ask_by_srun(listed: SlurmNodes, command: str, options: str, limits: AskLimits, heard: Heard) -> None:
    """Run a command on every node that is ready by a srun of its own; each node is heard once.

    Args:
        listed: the nodes.
        command: for a shell.
        options: more options of srun, as they are typed.
        limits: of time and number.
        heard: hears each answer.

    Raises:
        UsageError: the options have a quote that does not end.
    """
    try:
        more = shlex.split(options)
    except ValueError as error:
        raise UsageError(f"--srun-options: {error}", hint="--srun-options '--account=physics'") from error
    ask_by_program({_srun(group, command, more, limits): some for group, some in listed.ready.items()}, limits, heard)


def _srun(group: _Group, command: str, more: list[str], limits: AskLimits) -> str:
    words = ["srun", "--nodes=1", "--ntasks=1", "--input=none", "--job-name=cuenv-fleet"]
    if inside():
        words.append("--overlap")
    else:
        wait = max(1, int(limits.timeout) - 5)
        words += [f"--partition={group.partition}", f"--immediate={wait}", f"--time={int(limits.timeout) // 60 + 1}"]
    words += [f"--gres={group.gpus}"] if group.gpus else []
    shown = " ".join(shlex.quote(word).replace("%", "%%") for word in [*words, *more])
    return f"exec {shown} --nodelist=%h {command.replace('%', '%%')}"
