"""Errors that a user can cause, the exit codes they lead to, and the type of what is told of progress.

A "no" (nothing fits, a lock that is out of date) is a value, not an exception. What stands here is broken
input or a broken machine. Only ``cli`` turns an error into an exit code; only ``io`` packages catch foreign
exceptions and raises one of these *from* them. Anything else that escapes is a bug and shows itself.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

Progress = Callable[[str], None]
"""What is told what happens next, one line at a time."""


class ExitCode(IntEnum):
    """What the process says when it leaves. Documented in docs/commands.md; every code has a test."""

    OK = 0
    NEGATIVE = 1
    """A negative answer: nothing fits, an impossible request, findings, a lock that is out of date."""
    USAGE = 2
    """The command line is wrong: unknown flag, GPU or platform, a driver string that is none."""
    INPUT = 3
    """Unreadable or invalid input: a file, a knowledge row, a channel, a hash that does not match."""
    OUTSIDE = 4
    """The outside failed: a probe or solver crashed, a tool failed, the disk is full."""
    INTERRUPTED = 130
    """Stopped by Ctrl-C."""
    TERMINATED = 143
    """Stopped by SIGTERM or SIGHUP."""


class CuenvError(Exception):
    """Base of all errors with a message for people.

    Args:
        message: What is wrong, with the numbers in it.
        hint: What to do, best as one command that can be copied.

    Attributes:
        report: what was found before it happened, a `cuenv.core.findings.Report`; ``None`` for nothing.
    """

    exit = ExitCode.OUTSIDE
    code = "outside"
    report: object = None

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(CuenvError):
    """The command line asks for something that does not exist."""

    exit = ExitCode.USAGE
    code = "usage"


class InputError(CuenvError):
    """A file or stream cannot be read or is not what it should be."""

    exit = ExitCode.INPUT
    code = "input"


class NotALockError(InputError):
    """An environment file is given where a lock belongs.

    Attributes:
        file: the environment file.
        lock: the lock of it.
        make: the command that makes the lock; empty where it is there.
    """

    def __init__(self, file: str, lock: str, make: str, *, hint: str) -> None:
        super().__init__(f"{file} is an environment file, not a lock file", hint=hint)
        self.file, self.lock, self.make = file, lock, make


class KnowledgeError(InputError):
    """A row of the knowledge base is invalid."""

    code = "knowledge"


class ChannelError(InputError):
    """A channel cannot be read: missing, truncated, refused, offline."""

    code = "channel"


class NoChannelError(ChannelError):
    """There is no such channel, or no such platform of it, at the place that answers for it."""


class NoHashError(ChannelError):
    """A channel records a package without a hash, so that no lock can pin it."""


class HashError(InputError):
    """A package is not what its hash says."""

    code = "hash"


class OutsideError(CuenvError):
    """The world failed: a crash, a full disk, a tool that cannot be run."""


class RequirementError(CuenvError):
    """A program requires a lock that this machine does not meet.

    Args:
        message: what is wrong, of the gravest finding.
        code: of that finding, such as ``CU401``.
        fix: what cures it; ``None`` where nothing does.
        report: all that was found.
    """

    exit = ExitCode.NEGATIVE

    def __init__(self, message: str, *, code: str = "", fix: str | None = None, report: object = None) -> None:
        super().__init__(message, hint=fix)
        self.code = code
        self.fix = fix
        self.report = report

    def __str__(self) -> str:
        return f"{self.code} {self.message}" + (f" -> {self.fix}" if self.fix else "")
