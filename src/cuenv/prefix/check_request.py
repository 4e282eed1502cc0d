"""What ``cuenv check`` is asked to look at, and the reports on it: a lock, an environment, or both."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cuenv.core.errors import InputError, UsageError
from cuenv.core.findings import CheckResult
from cuenv.core.io.files import exists
from cuenv.host.describe import host_line
from cuenv.host.request import Request
from cuenv.host.select import HostOptions, checked_host, outside
from cuenv.knowledge.base import Knowledge
from cuenv.lockfile.check import check
from cuenv.lockfile.files import LOCK_NAME, lock_file


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRequest:
    """What is looked at.

    Attributes:
        lock: the lock that is checked by itself.
        prefix: the environment that is checked.
        against: the lock that the environment is compared with.
        named: the user named that lock for it; else the environment need not be made from it.
    """

    lock: Path | None = None
    prefix: Path | None = None
    against: Path | None = None
    named: bool = False


def asked(
    path: Path | None,
    environ: Mapping[str, str],
    *,
    prefix: Path | None = None,
    name: str | None = None,
    lock: Path | None = None,
) -> CheckRequest:
    """What the arguments mean.

    A lock that is named is checked by itself, an environment that is named as well. With neither, both that are at
    hand are: the lock in the working folder, and the environment that is active.

    Args:
        path: the argument LOCK.
        environ: for the active environment and for names.
        prefix: of ``--prefix``.
        name: of ``--name``.
        lock: of ``--lock``: what the environment was made from.

    Raises:
        UsageError: options exclude each other, or nothing has that name.
        InputError: there is nothing to check.
    """
    if prefix and name:
        raise UsageError("--prefix and --name exclude each other", hint="cuenv check --prefix DIR")
    if path and lock:
        hint = f"cuenv check --lock {shlex.quote(str(lock))}"
        raise UsageError("a lock was named twice: LOCK and --lock", hint=hint)
    if path and prefix is None and name is None:
        return CheckRequest(lock=path)
    from cuenv.prefix.io.environments import active_environment, named_environment  # noqa: PLC0415 - not for a lock

    here = Path(LOCK_NAME)
    if name is not None:
        prefix = named_environment(name, environ)
    if prefix is None and lock is not None:
        prefix = active_environment(environ)
        if prefix is None:
            raise UsageError(
                "--lock says what an environment was made from, and none is named or active",
                hint=f"cuenv check --prefix DIR --lock {shlex.quote(str(lock))}",
            )
    against = lock or path or (here if exists(here) else None)
    if prefix is not None:
        return CheckRequest(lock=path, prefix=prefix, against=against, named=bool(lock or path))
    return _at_hand(here, active_environment(environ))


def _at_hand(here: Path, active: Path | None) -> CheckRequest:
    from cuenv.prefix.io.environments import is_conda_base  # noqa: PLC0415 - only without arguments

    if exists(here):
        # Shells activate conda's own environment unasked: beside a lock it is nobody's.
        return CheckRequest(lock=here, prefix=None if active is None or is_conda_base(active) else active, against=here)
    if active is None:
        raise InputError(
            f"{LOCK_NAME} is not there, and no environment is active",
            hint="cuenv lock environment.yml, or cuenv check --prefix DIR",
        )
    return CheckRequest(prefix=active)


def checked(
    what: CheckRequest,
    options: HostOptions,
    knowledge: Knowledge,
    wish: Request | None = None,
    *,
    limit: float | None = None,
    say: Callable[[str], None] | None = None,
) -> tuple[CheckResult, ...]:
    """The reports, the lock's first.

    Args:
        what: the lock and the environment.
        options: the host.
        knowledge: the tables.
        wish: the profile whose memory and disk the machine should have.
        limit: run the environment as well, with so many seconds for each probe.
        say: told what runs at the moment.

    Raises:
        InputError: the lock or the environment cannot be read.
        UsageError: there is no environment to run.
    """
    if limit is not None and what.prefix is None:
        raise UsageError(
            "--run needs an environment, and none is named or active", hint="cuenv check --run --prefix DIR"
        )
    facts = None
    if what.lock and what.prefix:  # asked once for both
        facts = checked_host(outside(options, str(what.prefix)), knowledge, wish)
    found = []
    if what.lock:
        one = check(what.lock, options, knowledge, wish, facts)
        file = str(lock_file(what.lock))
        found.append(CheckResult(report=one.report, host=host_line(one.facts), file=file, layers=one.layers))
    if what.prefix:
        from cuenv.prefix.check import check_prefix  # noqa: PLC0415 - 15 ms that a lock does not need

        other = check_prefix(
            what.prefix,
            options,
            knowledge,
            lock=what.against,
            named=what.named,
            wish=wish,
            facts=facts,
            running=limit is not None,
        )
        if limit is not None:
            from cuenv.prefix.run import with_runs  # noqa: PLC0415 - only with --run

            other = with_runs(other, options.environ, knowledge, limit=limit, say=say)
        found.append(CheckResult(report=other.report, host=host_line(other.facts), checks=other.checks))
    return tuple(found)
