"""A real Slurm on this machine: Debian's slurmctld and slurmd, with GPUs that are made up in its configuration.

The controller knows nodes of four kinds; on those of `RUNNING` a slurmd runs, so that srun starts real processes there.
It needs neither root nor munge nor a database. A test that wants it takes the fixture `slurm` of `conftest.py`.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("slurmctld", "slurmd", "sinfo", "srun", "sbatch")
"""What has to be there; Debian calls the packages slurmctld, slurmd and slurm-client."""
RUNNING = ("gpu01", "gpu02", "mix01", "cpu01")
"""The nodes that start what they are asked to."""
_SBIN = "/usr/sbin:/usr/local/sbin:/sbin"
_PATIENCE = 30.0

_CONFIGURATION = """\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/none
CredType=cred/none
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={controller}
SlurmdPort={daemon}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
KillWait=1
GresTypes=gpu
SlurmdParameters=config_overrides
NodeName=gpu[01-04] {here} Port=[{gpu}] CPUs=2 RealMemory=1000 Gres=gpu:a100:4 Feature=a100,ampere
NodeName=v[01-02] {here} Port=[{v}] CPUs=2 RealMemory=1000 Gres=gpu:v100:2 Feature=v100,volta
NodeName=mix01 {here} Port={mix} CPUs=2 RealMemory=1000 Gres=gpu:v100:1,gpu:rtx_5090:1 Feature=mixed
NodeName=cpu01 {here} Port={cpu} CPUs=2 RealMemory=1000
PartitionName=gpu Nodes=gpu[01-04],v[01-02],mix01 Default=YES State=UP
PartitionName=cpu Nodes=cpu01 State=UP
"""
_DEVICES = """\
NodeName=gpu[01-04] Name=gpu Type=a100 File=/dev/full
NodeName=gpu[01-04] Name=gpu Type=a100 File=/dev/null
NodeName=gpu[01-04] Name=gpu Type=a100 File=/dev/random
NodeName=gpu[01-04] Name=gpu Type=a100 File=/dev/zero
NodeName=v[01-02] Name=gpu Type=v100 File=/dev/full
NodeName=v[01-02] Name=gpu Type=v100 File=/dev/null
NodeName=mix01 Name=gpu Type=v100 File=/dev/full
NodeName=mix01 Name=gpu Type=rtx_5090 File=/dev/null
"""
"""Slurm wants a character device for each GPU, and asks nothing of it."""


@dataclass(frozen=True)
class Slurm:
    """A cluster that runs.

    Attributes:
        folder: its configuration, state and logs.
        environ: what a command of Slurm needs to find it.
    """

    folder: Path
    environ: Mapping[str, str]

    def ask(self, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command of Slurm."""
        return subprocess.run(
            words,
            env={**os.environ, **self.environ},
            input=text,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )

    def nodes_run(self, folder: Path) -> dict[str, str]:
        """The variables by which srun finds programs of a folder first on each node."""
        return {**self.environ, "PATH": f"{folder}:{self.environ['PATH']}"}

    def would_take(self, script: str) -> subprocess.CompletedProcess[str]:
        """What ``sbatch --test-only`` says of a batch script: the exit status is 0 where a node of the cluster fits."""
        return self.ask("sbatch", "--test-only", text=script)


def missing() -> tuple[str, ...]:
    """The programs that are not there."""
    return tuple(name for name in PROGRAMS if shutil.which(name, path=_path()) is None)


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:{_SBIN}"


@contextmanager
def running(folder: Path) -> Iterator[Slurm]:
    """Start a cluster in a folder, and stop it in the end."""
    environ = {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": _path()}
    _configure(folder)
    cluster = Slurm(folder, environ)
    with ExitStack() as stack:
        stack.enter_context(_daemon(folder, environ, "slurmctld", "-D", "-c"))
        for node in RUNNING:
            stack.enter_context(_daemon(folder, environ, "slurmd", "-D", "-N", node))
        _wait(cluster)
        yield cluster


def _configure(folder: Path) -> None:
    for name in ("state", *(f"spool/{node}" for node in RUNNING)):
        (folder / name).mkdir(parents=True)
    ports = [str(port) for port in _free_ports(10)]
    host = socket.gethostname().partition(".")[0]
    text = _CONFIGURATION.format(
        folder=folder,
        host=host,
        user=pwd.getpwuid(os.getuid()).pw_name,
        here=f"NodeAddr=127.0.0.1 NodeHostname={host}",
        controller=ports[0],
        daemon=ports[1],
        gpu=",".join(ports[2:6]),
        v=",".join(ports[6:8]),
        mix=ports[8],
        cpu=ports[9],
    )
    (folder / "slurm.conf").write_text(text)
    (folder / "gres.conf").write_text(_DEVICES)


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(closing(socket.socket())) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


@contextmanager
def _daemon(folder: Path, environ: Mapping[str, str], *words: str) -> Iterator[None]:
    program = shutil.which(words[0], path=_path())
    assert program
    with (folder / f"{words[-1].strip('-')}.out").open("w") as log:
        # Called by its own name, and not by that of a link's target: Slurm compares what it is called.
        process = subprocess.Popen(
            [words[0], *words[1:], "-f", environ["SLURM_CONF"]],
            executable=program,
            env={**os.environ, **environ},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            yield
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(1)
            if process.poll() is None:
                process.kill()
                process.wait()


def _wait(cluster: Slurm) -> None:
    """Wait until the nodes that run are idle."""
    deadline = time.monotonic() + _PATIENCE
    seen = ""
    while time.monotonic() < deadline:
        with suppress(subprocess.TimeoutExpired):
            seen = subprocess.run(
                ["sinfo", "-h", "-N", "-o", "%N %T"],
                env={**os.environ, **cluster.environ},
                capture_output=True,
                text=True,
                timeout=2,
                check=False,
            ).stdout
        if {line.split()[0] for line in seen.splitlines() if line.split()[1:] == ["idle"]} >= set(RUNNING):
            return
        time.sleep(0.1)
    logs = "\n".join(path.read_text()[-2000:] for path in cluster.folder.glob("*.log"))
    raise AssertionError(f"Slurm did not start: {seen}\n{logs}")
