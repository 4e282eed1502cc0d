"""Commands as processes that are forked from one which has loaded cuenv: a fifth of the cost of starting each.

Each is a process of its own, with its own folder, environment, streams and exit code, and it leaves by
``cuenv.__main__.main`` as one that was typed does. What it does not show is how an interpreter starts: tests of that
start one. Run as a script, this is the process that forks (``SOCKET``), or a stand-in for ``cuenv`` in shell scripts
(``SOCKET cuenv WORDS``).
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Hashable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from select import select
from socket import AF_UNIX, SHUT_WR, recv_fds, send_fds, socket, socketpair
from typing import Any, NoReturn

FROZEN = Path(__file__).resolve().parent / "kb"
"""The copy of the tables that the tests' expectations rest on."""

_WAITS = (("solve.io.connection", "PAUSE"), ("solve.io.repodata_download", "PAUSE"), ("core.io.exclusive", "_PAUSE"))
"""The pauses before another attempt, which prove nothing by their length."""

# What cuenv imports late, and the tests' commands then would one by one.
_LATE = ("rattler", "requests", "yaml", "pynvml", "multiprocessing.pool", "concurrent.futures.thread", "zipfile")


def prepare() -> None:
    """Let cuenv read the frozen tables in this process, wait shortly between two attempts, and not for the disk.

    A package of the sample channel is packed once: its archive holds the same bytes each time.
    """
    packed: dict[Hashable, bytes] = {}
    sample = import_module("cuenv.demo.io.sample")
    pack = sample.archive

    def archive(package: Any) -> bytes:
        key = str(package.index()), *package.files.items()
        if key not in packed:
            packed[key] = pack(package)
        return packed[key]

    sample.archive = archive  # type: ignore[attr-defined]  # a module is any module here
    os.fsync = lambda fd: None
    import_module("cuenv.knowledge.io.load").FOLDER = FROZEN  # type: ignore[attr-defined]  # a module is any module here
    for module, name in _WAITS:
        setattr(import_module(f"cuenv.{module}"), name, 0.01)


def ask(place: str, words: list[str], folder: str, environ: dict[str, str], streams: tuple[int, int, int]) -> socket:
    """Have a command begun; what comes back is the connection that `answer` reads."""
    connection = socket(AF_UNIX)
    connection.connect(place)
    send_fds(connection, [b"."], streams)
    connection.sendall(json.dumps([words, folder, environ]).encode())
    connection.shutdown(SHUT_WR)
    return connection


def answer(connection: socket) -> int:
    """Wait for a number: the process first, then its exit code, negative for a signal.

    Raises:
        ValueError: the process that forks is gone.
    """
    found = b""
    while (more := connection.recv(1)) not in (b"\n", b""):
        found += more
    return int(found)


def serve(place: str) -> None:
    """Fork a command for everyone who asks, until standard input ends, and tell each its number and its end."""
    _load()
    ended, wake = socketpair()
    wake.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    running: dict[int, socket] = {}
    with socket(AF_UNIX) as listener:
        listener.bind(place)
        listener.listen(64)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        every = [0, listener.fileno(), ended.fileno()]
        while True:
            ready = select(every, [], [])[0]
            if ended.fileno() in ready:
                ended.recv(4096)
                _tell_ends(running, os.WNOHANG)
            if 0 in ready:
                break
            if listener.fileno() in ready:
                _begin(listener.accept()[0], running)
    _tell_ends(running, 0)


def _begin(connection: socket, running: dict[int, socket]) -> None:
    _, streams, *_ = recv_fds(connection, 1, 3)
    text = b""
    while more := connection.recv(1 << 16):
        text += more
    process = os.fork()
    if process == 0:
        words, folder, environ = json.loads(text)
        _become(words, folder, environ, streams)
    for number in streams:
        os.close(number)
    running[process] = connection
    _tell(connection, process)


def _tell_ends(running: dict[int, socket], options: int) -> None:
    while running:
        process, status = os.waitpid(-1, options)
        if not process:
            return
        with running.pop(process) as connection:
            _tell(connection, os.waitstatus_to_exitcode(status))


def _tell(connection: socket, number: int) -> None:
    with suppress(BrokenPipeError):  # whoever asked is gone
        connection.sendall(f"{number}\n".encode())


def _load() -> None:
    import gc
    from pkgutil import walk_packages

    import cuenv

    for found in walk_packages(cuenv.__path__, "cuenv."):
        if not found.name.startswith(("cuenv.data", "cuenv.__main__")):
            import_module(found.name)
    for name in _LATE:
        import_module(name)
    prepare()
    _warm()
    if len(os.listdir("/proc/self/task")) != 1:  # noqa: PTH208 - as short as it gets
        raise AssertionError("an import has started a thread: a fork would lose it")
    gc.collect()
    gc.freeze()


def _warm() -> None:
    """Decide once, for nobody: the tables, patterns and options that every command needs are there then."""
    from contextlib import redirect_stderr, redirect_stdout
    from io import StringIO

    from cuenv.cli.main import run

    for words in (["resolve", "--host", "rtx4090-535", "--no-config"], ["kb", "--json"]):
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            if code := run(words):
                raise AssertionError(f"{words} ended with {code}")


def _become(words: list[str], folder: str, environ: dict[str, str], streams: list[int]) -> NoReturn:
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.closerange(3, 1024)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environ)
        _open_streams()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from cuenv import __main__

        sys.argv = [str(__main__.__file__), *words]
        __main__.main()
    finally:
        os._exit(70)  # `main` does not return


def _open_streams() -> None:
    """The standard streams as an interpreter opens them."""
    old = sys.stdin, sys.stdout, sys.stderr
    for number, (name, stream) in enumerate(zip(("stdin", "stdout", "stderr"), old, strict=True)):
        new = open(number, "w" if number else "r", encoding=stream.encoding, errors=stream.errors, closefd=False)  # noqa: SIM115 - for life
        if number == 2:
            new.reconfigure(line_buffering=True)
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)


def stand_in(place: str, words: list[str]) -> int:
    """What ``cuenv WORDS`` does in a shell script that has this in its place."""
    connection = ask(place, words, str(Path.cwd()), dict(os.environ), (0, 1, 2))
    answer(connection)
    return answer(connection)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit(stand_in(sys.argv[1], sys.argv[3:]))
    serve(sys.argv[1])
