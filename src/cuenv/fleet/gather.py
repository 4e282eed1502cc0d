"""Gather the hosts of a cluster: from its nodes, from files, and from an existing fleet file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from cuenv.core.errors import InputError, Progress
from cuenv.core.record import dataclass, field
from cuenv.fleet.answers import NodeAnswer, NotAnswered, host_from_answer, name_key
from cuenv.fleet.io.cluster import HostSource, hosts_of_ansible, hosts_of_fleet_file, hosts_of_path
from cuenv.host.facts import HostFacts
from cuenv.knowledge.base import Knowledge


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherRequest:
    """The sources of hosts."""

    ssh: tuple[str, ...] = ()  # sets of nodes that are asked over ssh
    slurm: bool = False  # whether the nodes that Slurm lists are asked by srun
    nodes: str = ""  # of those only these
    ansible: tuple[Path, ...] = ()  # folders of Ansible's facts
    paths: tuple[str, ...] = ()  # files and folders of host records; ``-`` is standard input
    program: str = "cuenv"  # what cuenv is called on the nodes
    ssh_options: str = ""  # of ssh, as they are typed
    srun_options: str = ""  # of srun, as they are typed
    timeout: float = 60  # seconds for each node
    fanout: int = 64  # nodes that are asked at a time


@dataclass(slots=True)
class Gathering:
    """The hosts and failures so far."""

    hosts: dict[str, HostFacts] = field(default_factory=dict)
    # why there is no record of others, by what asked them: ``ssh``, ``slurm`` or ``files``
    failures: dict[str, list[NotAnswered]] = field(default_factory=dict)
    kept: tuple[str, ...] = ()  # names that were in the fleet file, and were not asked again
    asked: int = 0  # how many were asked or read
    origin: dict[str, str] = field(default_factory=dict)  # where the record of a name was read in this run

    def sorted(self) -> tuple[HostFacts, ...]:
        """The hosts in the order of their names."""
        return tuple(self.hosts[name] for name in sorted(self.hosts, key=name_key))

    def failed(self, by: str, failure: NotAnswered) -> None:
        """Record why there is no host for a node."""
        self.failures.setdefault(by, []).append(failure)

    def read(self, sources: Iterable[HostSource]) -> None:
        """Add the hosts of files; if two records of one name differ, the first is kept."""
        for source in sources:
            self.asked += 1
            if source.facts is None:
                self.failed("files", NotAnswered(source.where, source.reason))
                continue
            name = source.facts.name
            before = self.origin.get(name)
            if before is not None and not (source.own and self.hosts[name] == source.facts):
                why = f"{source.where} describes another host with this name; the one from {before} is kept"
                self.failed("files", NotAnswered(name, why))
                continue
            self.hosts[name] = source.facts
            self.origin.setdefault(name, source.where)


def gather(
    asked: GatherRequest,
    before: Path | None,
    knowledge: Knowledge,
    stdin: Callable[[], str],
    tell: Progress | None = None,
    *,
    again: bool = False,
    into: Gathering | None = None,
) -> Gathering:
    """Gather hosts; the failure of a node or a file does not stop the others.

    Args:
        before: a fleet file; its nodes are not asked again.
        again: ask also the nodes that are in the fleet file; its others stay in it.
        into: what is gathered goes there as it comes, so that somebody who stops it has what is there.

    Raises:
        UsageError: a set of nodes means nothing.
        InputError: a file or folder that is named cannot be read.
        OutsideError: ClusterShell is missing, or Slurm does not answer.
    """
    found = into or Gathering()
    if before is not None:
        for source in hosts_of_fleet_file(before, knowledge):
            if source.facts is None:
                found.failed("fleet", NotAnswered(source.where, source.reason))
            else:
                found.hosts[source.facts.name] = source.facts
    for path in asked.paths:
        found.read(hosts_of_path(path, stdin, knowledge))
    found.read(hosts_of_ansible(asked.ansible))
    if asked.ssh or asked.slurm:
        _ask(asked, found, set() if again else set(found.hosts), knowledge, tell)
    return found


def _ask(
    asked: GatherRequest, found: Gathering, known: Collection[str], knowledge: Knowledge, tell: Progress | None
) -> None:
    """Ask all nodes except those that are known."""
    from cuenv.fleet.answers import node_command  # noqa: PLC0415 - only where nodes are asked
    from cuenv.fleet.io import cluster  # noqa: PLC0415 - as above

    limits, command = cluster.AskLimits(asked.timeout, asked.fanout), node_command(asked.program)
    over_ssh = cluster.node_set(",".join(asked.ssh)) if asked.ssh else None
    listed = cluster.nodes_of_slurm(asked.nodes) if asked.slurm else None
    every = {*map(str, over_ssh or ()), *(listed.names() if listed else ())}
    found.kept = tuple(sorted(every.intersection(known), key=name_key))
    over_ssh = over_ssh and cluster.without(over_ssh, known)
    listed = listed and listed.without(known)
    total = len(over_ssh or ()) + (len(listed.names()) if listed else 0)
    found.asked += total
    done = 0

    def heard_from(by: str, program: str) -> Callable[[NodeAnswer], None]:
        def heard(answer: NodeAnswer) -> None:
            nonlocal done
            done += 1
            try:
                found.hosts[answer.node] = host_from_answer(answer, program, knowledge)
            except InputError as error:
                found.failed(by, NotAnswered(answer.node, error.message.replace("\n  ", "; ")))
            if tell:
                failed = sum(map(len, found.failures.values()))
                tell(f"{done} of {total} nodes answered" + (f", {failed} without a record" if failed else ""))

        return heard

    if over_ssh:
        cluster.ask_by_ssh(over_ssh, command, asked.ssh_options, limits, heard_from("ssh", "ssh"))
    if listed:
        for failure in listed.not_ready:
            found.failed("slurm", failure)
        cluster.ask_by_srun(listed, command, asked.srun_options, limits, heard_from("slurm", "srun"))


def command_again(asked: GatherRequest, by: str, nodes: str, output: Path | None) -> tuple[str, ...]:
    """The command that asks only the failed nodes again.

    Args:
        by: what asked them: ``ssh`` or ``slurm``.
        nodes: the set of those that failed.
    """
    own = {
        "ssh": ["--ssh", nodes, *(["--ssh-options", asked.ssh_options] if asked.ssh_options else [])],
        "slurm": ["--slurm", "--nodes", nodes, *(["--srun-options", asked.srun_options] if asked.srun_options else [])],
    }[by]
    usual = GatherRequest()
    options = (
        ("--program", asked.program, usual.program),
        ("--timeout", f"{asked.timeout:g}", f"{usual.timeout:g}"),
        ("--fanout", str(asked.fanout), str(usual.fanout)),
    )
    changed = [word for flag, value, standard in options if value != standard for word in (flag, value)]
    return ("cuenv", "fleet", "gather", *own, *changed, *(["-o", str(output)] if output else []))
