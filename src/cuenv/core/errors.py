"""The errors that a user can cause, with their exit codes.

A "no" (nothing fits, a lock is out of date) is a value, not an exception. The errors here mean broken input or a broken
machine. Only ``cli`` turns an error into an exit code; only ``io`` packages catch exceptions of other libraries and
raise one of these *from* them. Any other exception is a bug.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

Progress = Callable[[str], None]  # a function that is called with one line on what happens next


class ExitCode(IntEnum):
    """The exit codes, which docs/commands.md documents; every code has a test."""

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
        message: what is wrong, with the numbers in it.
        hint: what to do, preferably one command that can be copied.
    """

    exit = ExitCode.OUTSIDE
    code = "outside"
    report: object = None  # the findings before the error, a `cuenv.core.findings.Report`; ``None`` without findings

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(CuenvError):
    """The command line asks for something that does not exist."""

    exit = ExitCode.USAGE
    code = "usage"


class InputError(CuenvError):
    """A file or stream cannot be read or is not what it should be.

    Attributes:
        line: the line of the file, from 1; 0 where it is not one line.
    """

    exit = ExitCode.INPUT
    code = "input"

    def __init__(self, message: str, *, hint: str | None = None, line: int = 0) -> None:
        super().__init__(message, hint=hint)
        self.line = line


class NotALockError(InputError):
    """An environment file is given where a lock belongs.

    Attributes:
        file: the environment file.
        lock: the lock of that file.
        make: the command that makes the lock; empty if the lock exists.
    """

    def __init__(self, file: str, lock: str, make: str, *, hint: str) -> None:
        super().__init__(f"{file} is an environment file, not a lock file", hint=hint)
        self.file, self.lock, self.make = file, lock, make


class KnowledgeError(InputError):
    """A row of the knowledge base is invalid."""

    code = "knowledge"


class ChannelError(InputError):
    """A channel cannot be read: missing, truncated, refused, offline.

    Attributes:
        channel: its name; empty where it is not one channel that fails.
        reason: the message without the channel, its part and its address.
    """

    code = "channel"

    def __init__(self, message: str, *, hint: str | None = None, channel: str = "", reason: str = "") -> None:
        super().__init__(message, hint=hint)
        self.channel, self.reason = channel, reason or message


class NoChannelError(ChannelError):
    """The server of a channel answers that the channel, or the platform in it, does not exist."""


class OfflineError(ChannelError):
    """Without a network the cache has to hold what is read, and does not."""


class NoHashError(ChannelError):
    """A channel records a package without a hash, so that no lock can pin it."""


class HashError(InputError):
    """A package is not what its hash says."""

    code = "hash"


class OutsideError(CuenvError):
    """Something outside of cuenv failed: a crash, a full disk, a program that cannot be run."""


class RequirementError(CuenvError):
    """This machine cannot run the lock that a program requires.

    Args:
        message: the message of the most severe finding.
        code: the code of that finding, such as ``CU401``.
        fix: the fix of that finding; ``None`` without one.
        report: all findings.
    """

    exit = ExitCode.NEGATIVE

    def __init__(self, message: str, *, code: str = "", fix: str | None = None, report: object = None) -> None:
        super().__init__(message, hint=fix)
        self.code = code
        self.fix = fix
        self.report = report

    def __str__(self) -> str:
        return f"{self.code} {self.message}" + (f" -> {self.fix}" if self.fix else "")
