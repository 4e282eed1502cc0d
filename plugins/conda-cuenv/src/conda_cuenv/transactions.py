"""Refuse to install packages of a lock on a machine that is below the lock's minimum host.

That is for those who ask for it: the setting ``plugins.cuenv_lock`` (``CONDA_PLUGINS_CUENV_LOCK``) names the lock.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from conda_cuenv.program import Unanswered, answer, line, say

SECONDS = 60
_SHOWN = 5


def lock_setting() -> str:
    """The lock that the setting names; empty where none is named."""
    from conda.base.context import context  # noqa: PLC0415 - loaded by conda

    return str(getattr(context.plugins, "cuenv_lock", "") or "")


def refusal(lock: str, link: Iterable[Any]) -> str:
    """Why this machine is below the minimum host of a lock; empty where it is not, or where that is not known.

    Args:
        lock: as the setting names it.
        link: records of what is about to be installed. The lock says nothing of packages that it does not hold.
    """
    path = Path(os.path.expandvars(lock)).expanduser()
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        say(f"\ncuenv: the lock {line(path)} of plugins.cuenv_lock cannot be read ({error.strerror})", sys.stderr)
        return ""
    names = (str(getattr(record, "fn", "") or "") for record in link)
    if not any(name and name in text for name in names):
        return ""
    try:
        document = answer("check", str(path), "--json", seconds=SECONDS)
    except Unanswered as error:
        say(f"\ncuenv: {line(path)} was not checked for this machine: {error}", sys.stderr)
        return ""
    found = document.get("findings")
    wrong = [
        f"{line(item.get('message'))} ({line(item['code'])})"
        for item in (found if isinstance(found, list) else ())
        if isinstance(item, dict) and item.get("severity") == "error" and of_the_host(str(item.get("code")))
    ]
    if not wrong:
        return ""
    more = f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
    return f"this machine cannot run the lock {line(path)}: {'; '.join(wrong[:_SHOWN])}{more}"


def of_the_host(code: str) -> bool:
    """Whether a finding compares a lock with a host: the codes CU4xx, and that of the platform."""
    return code.startswith("CU4") or code == "CU106"


def action_class() -> Any:
    """The class that conda makes an object of in each transaction."""
    from conda.core.path_actions import Action  # noqa: PLC0415 - loaded by conda
    from conda.exceptions import CondaVerificationError  # noqa: PLC0415 - loaded by conda

    class RefuseBelowHost(Action):  # type: ignore[misc]  # conda has no types here
        """Say no before anything is changed."""

        def verify(self) -> Exception | None:
            """An error where the machine is below the minimum host of the lock."""
            try:
                why = refusal(lock_setting(), self.link_precs or ())
            except Exception as error:  # noqa: BLE001 - a mistake here must not stop a transaction
                say(f"\ncuenv: the lock was not checked for this machine: {line(error)}", sys.stderr)
                why = ""
            self._verified = not why
            return CondaVerificationError(f"cuenv: {why}") if why else None

        def execute(self) -> None:
            """Nothing."""

        def reverse(self) -> None:
            """Nothing."""

        def cleanup(self) -> None:
            """Nothing."""

    return RefuseBelowHost
