"""What every test may rely on, and how the test process ends."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import slurm_cluster
from forking import prepare

TESTS = Path(__file__).resolve().parent
RECORDS = TESTS.parents[1] / "shared" / "channels"

# Expectations rest on the tables of one day: a new row in src/cuenv/data breaks only the tests that it contradicts.
prepare()

_FIXTURES_WITH_FILES = {"tmp_path", "tmp_path_factory", "records", "slurm"}
_MODULES_WITH_PROCESSES = {"subprocess", "socket", "commands", "deliveries", "faulty_server", "prefixes", "serving"}
_sessions: list[pytest.Session] = []


def pytest_sessionstart(session: pytest.Session) -> None:
    _sessions.append(session)
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        # Started in the background by a shell: children would inherit the deafness to Ctrl-C that some tests are about.
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """One worker more than processors: many tests wait, for a server, a client or a clock; those without io do not."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    return len(os.sched_getaffinity(0)) + ("not io" not in config.getoption("markexpr"))


@atexit.register
def _leave() -> None:
    """Leave as cuenv itself does: py-rattler can kill an interpreter that finalises, and with it the exit status.

    This runs after everything that pytest has to say, in the workers of xdist as in the process that leads them.
    """
    if _sessions and "rattler" in sys.modules:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(int(_sessions[0].exitstatus))


def pytest_collection(session: pytest.Session) -> None:
    """Load another part of the tests first in each worker: in a new checkout each compiles its own, and reads the rest.

    What cannot be loaded is tried again by pytest, which says so.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None or [Path(item).resolve() for item in session.config.args] != [TESTS]:
        return
    number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    for path in sorted(TESTS.rglob("test_*.py"))[number::count]:
        sys.path.insert(0, str(path.parent))
        with suppress(Exception, pytest.skip.Exception):
            import_module(path.stem)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what touches the machine as ``io``; for mutation testing, put first what is quick and notices most."""
    for item in items:
        if _touches_the_machine(item):
            item.add_marker("io")
    if config.getoption("hypothesis_profile", None) == "mutate":
        items.sort(
            key=lambda item: ("sentences" not in item.path.name, item.get_closest_marker("hypothesis") is not None)
        )


def pytest_collection_finish() -> None:
    """Spare the garbage collector what is there for good, all modules and tests: it took a fifth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Collect once what the tests have left: pytest looks for it ten times, which is quick where nothing is left."""
    gc.collect()
    gc.freeze()


def _touches_the_machine(item: pytest.Item) -> bool:
    """Whether a test has a folder or the channel records, or its module can start a process or a server."""
    if _FIXTURES_WITH_FILES & set(getattr(item, "fixturenames", ())) or item.get_closest_marker("records"):
        return True
    return bool(_MODULES_WITH_PROCESSES & _modules_in(getattr(item, "module", object)))


@cache
def _modules_in(module: object) -> frozenset[str]:
    """The modules that a test module imports, or imports something from."""
    held = vars(module).values()
    return frozenset(
        value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "") for value in held
    )


@pytest.fixture(scope="session")
def records() -> Path:
    """The real channel records, which lie beside the project; the test is skipped without them."""
    if not RECORDS.is_dir():
        pytest.skip(f"no channel records at {RECORDS}")
    return RECORDS


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[slurm_cluster.Slurm]:
    """A real Slurm that runs on this machine; the test is skipped where it is not installed."""
    if lacking := slurm_cluster.missing():
        pytest.skip(f"no {', '.join(lacking)}: apt-get install slurmctld slurmd slurm-client")
    with slurm_cluster.running(tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


def pytest_configure(config: pytest.Config) -> None:
    """With CUENV_REQUIRE_RECORDS=1, as in continuous integration, a test run without the records is an error."""
    if os.environ.get("CUENV_REQUIRE_RECORDS") and not RECORDS.is_dir():
        raise pytest.UsageError(f"CUENV_REQUIRE_RECORDS is set, and the channel records are not at {RECORDS}")
    if sys.dont_write_bytecode and hasattr(config, "cache") and config.cache is not None:
        # PYTHONDONTWRITEBYTECODE keeps folders clean. To compile all tests anew in every worker takes longer than to
        # import them: what is compiled lies in pytest's own cache.
        sys.dont_write_bytecode, sys.pycache_prefix = False, str(config.cache.mkdir("bytecode"))
    _set_up_hypothesis()


def _set_up_hypothesis() -> None:
    """Register the profiles: few examples each time, and other ones.

    Hypothesis is imported once its bytecode can be kept: pytest rewrites every assertion in its ninety modules, which
    took a second in each worker.
    """
    from hypothesis import Phase, settings

    # A deadline measures the machine, not the code: speed is shown by benchmarks/.
    # `nox -s slow` runs the laws with --hypothesis-profile=thorough.
    settings.register_profile("cuenv", deadline=None, max_examples=5)
    settings.register_profile("thorough", deadline=None, max_examples=500)
    # For mutation testing: the same examples for every mutant, and none made smaller once one fails.
    settings.register_profile(
        "mutate",
        deadline=None,
        max_examples=40,
        derandomize=True,
        database=None,
        phases=(Phase.explicit, Phase.generate),
    )
    settings.load_profile("cuenv")


_CONNECT = socket.socket.connect


@pytest.fixture
def online(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that asks the usual package index: cuenv may read there what uv found there."""
    monkeypatch.setattr(socket.socket, "connect", _CONNECT)


@pytest.fixture(autouse=True, scope="session")
def _loopback_only() -> Iterator[None]:
    """No test reaches a network by accident: Python's sockets connect to this machine or not at all."""

    def guarded(self: socket.socket, address: object) -> None:
        if isinstance(address, tuple) and address[0] not in ("127.0.0.1", "::1", "localhost"):
            raise AssertionError(f"a test wanted to reach {address[0]}")
        _CONNECT(self, address)  # type: ignore[arg-type]  # whatever form it has, the real one judges it

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded)
        yield
