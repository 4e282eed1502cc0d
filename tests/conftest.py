"""What every test may rely on, and how the test process ends."""

from __future__ import annotations

import atexit
import os
import sys
from pathlib import Path

import pytest

RECORDS = Path(__file__).resolve().parents[2] / "shared" / "channels"

_sessions: list[pytest.Session] = []


def pytest_sessionstart(session: pytest.Session) -> None:
    _sessions.append(session)


@atexit.register
def _leave() -> None:
    """Leave as cuenv itself does: py-rattler can kill an interpreter that finalises, and with it the exit status.

    This runs after everything that pytest has to say, in the workers of xdist as in the process that leads them.
    """
    if _sessions and "rattler" in sys.modules:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(int(_sessions[0].exitstatus))


@pytest.fixture(scope="session")
def records() -> Path:
    """The real channel records. They lie beside the project; CI demands them with CUENV_DEMAND_RECORDS=1."""
    if not RECORDS.is_dir():
        if os.environ.get("CUENV_DEMAND_RECORDS"):
            pytest.fail(f"the channel records are demanded, and {RECORDS} is missing")
        pytest.skip(f"no channel records at {RECORDS}")
    return RECORDS
