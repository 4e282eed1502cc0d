"""Nodes that a real OpenSSH client reaches: one server of asyncssh on this machine plays all of them.

The name of the node comes as the name of the user. What a node has installed is a folder of programs, and one with a
script `answer` runs that in place of what it is asked. The server is a process of its own, which this file is as well.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

NAMES = ("old1", "gpu08", "gpu09", *(f"gpu{number}" for number in range(1, 12)))
"""The nodes that there are; on those whose name begins with ``closed`` nobody listens."""

_CONFIGURATION = """\
Host closed*
  HostName 127.0.0.1
  Port 1
Host *
  HostName 127.0.0.1
  Port {port}
  IdentityFile {folder}/id
  IdentitiesOnly yes
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
"""


@dataclass(frozen=True)
class SshNodes:
    """Nodes behind a server that runs.

    Attributes:
        folder: keys, the configuration of the client, and ``nodes`` with a folder for each node.
    """

    folder: Path

    @property
    def options(self) -> str:
        """The options by which ssh finds them."""
        return f"-F {self.folder / 'config'}"

    @property
    def asked(self) -> list[str]:
        """The names of the nodes that were asked, in their order."""
        return (self.folder / "asked").read_text().split()

    def has(self, node: str, program: str, script: str) -> None:
        """Install a program on a node."""
        path = self.folder / "nodes" / node / program
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)


def missing() -> bool:
    """Whether the client does not exist."""
    return shutil.which("ssh") is None


@contextmanager
def reachable(folder: Path) -> Iterator[SshNodes]:
    """Start the server, and stop it with all that its nodes still run."""
    (folder / "nodes").mkdir()
    (folder / "asked").touch()
    words = [sys.executable, __file__, str(folder)]
    server = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert server.stdout
        text = _CONFIGURATION.format(folder=folder, port=int(server.stdout.readline()))
        users = "".join(f"Host {name}\n  User {name}\n" for name in NAMES)
        (folder / "config").write_text(text + users)
        yield SshNodes(folder)
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.communicate()


async def _serve(folder: Path) -> None:
    import asyncssh  # it takes most of a second, and only the server needs it

    key = asyncssh.generate_private_key("ssh-ed25519")
    key.write_private_key(str(folder / "id"))
    (folder / "id").chmod(0o600)
    key.write_public_key(str(folder / "authorized"))

    async def handle(process: asyncssh.SSHServerProcess[bytes]) -> None:
        node = str(process.get_extra_info("username"))
        with (folder / "asked").open("a") as log:
            log.write(f"{node}\n")
        own = folder / "nodes" / node
        answer = own / "answer"
        words = (str(answer),) if answer.exists() else ("/bin/sh", "-c", process.command or "true")
        child = await asyncio.create_subprocess_exec(
            *words,
            env={"PATH": f"{own}:/usr/bin:/bin", "HOME": str(own)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        await asyncio.gather(pass_on(child.stdout, process.stdout), pass_on(child.stderr, process.stderr))
        process.exit(await child.wait())

    async def pass_on(source: asyncio.StreamReader | None, target: asyncssh.SSHWriter[bytes]) -> None:
        assert source
        while data := await source.read(65536):
            target.write(data)
            await target.drain()

    server = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[asyncssh.generate_private_key("ssh-ed25519")],
        authorized_client_keys=str(folder / "authorized"),
        process_factory=handle,
        encoding=None,
    )
    sys.stdout.write(f"{server.get_port()}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
