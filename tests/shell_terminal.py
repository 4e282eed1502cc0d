"""A shell in a terminal of its own, typed at as people do."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

_PATIENCE = 30.0
_ON_TERMINAL = 'exec "$@" <"$0" >"$0" 2>&1'
"""The first terminal that a process with a session of its own opens becomes the one that controls it."""


class Terminal:
    """A shell that reads from a terminal; what it prints is collected."""

    def __init__(self, words: list[str], folder: Path, environ: Mapping[str, str]) -> None:
        self.leader, follower = pty.openpty()
        self.shell = subprocess.Popen(
            ["sh", "-c", _ON_TERMINAL, os.ttyname(follower), *words],
            cwd=folder,
            env=dict(environ),
            start_new_session=True,
        )
        self.follower = follower
        self.seen = ""

    def close(self) -> None:
        """End the shell."""
        self.shell.kill()
        self.shell.wait()
        os.close(self.follower)
        os.close(self.leader)

    def type(self, text: str) -> None:
        os.write(self.leader, text.encode())

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Read until the pattern was printed after the last one that was waited for."""
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            found = re.search(pattern, self.seen)
            if found:
                self.seen = self.seen[found.end() :]
                return found
            if select.select([self.leader], [], [], 0.2)[0]:
                self.seen += os.read(self.leader, 65536).decode(errors="replace")
        raise AssertionError(f"waited for {pattern!r}; on the screen is {self.seen!r}")
