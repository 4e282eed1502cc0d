"""A server for channels that misbehaves on request: slow, cut short, redirected, closed, or simply wrong."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from serving import Quiet, serving


@dataclass(frozen=True, kw_only=True)
class Answer:
    """How one request is answered.

    Attributes:
        headers: more of them; one with the name of a usual one replaces it.
        sent: bytes of the body that are really sent before the connection closes; ``None`` for all.
        wait: seconds before the answer.
        hang_up: close the connection without a word.
    """

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    sent: int | None = None
    wait: float = 0.0
    hang_up: bool = False


@dataclass
class Faulty:
    """A running server.

    Attributes:
        fault: the answer for a path, given the good one and how often it was asked before; ``None`` for the good one.
        asked: method, path and conditional header of every request.
    """

    url: str
    folder: Path
    fault: Callable[[str, Answer, int], Answer | None] = lambda *_: None
    asked: list[tuple[str, str, str]] = field(default_factory=list)

    def good(self, path: str) -> Answer:
        """The file of the folder, with the marks that caches live on."""
        file = self.folder / path.lstrip("/").partition("?")[0]
        if not file.is_file():
            return Answer(status=404, body=b"nothing here")
        body = file.read_bytes()
        mark = hashlib.sha256(body).hexdigest()[:16]
        return Answer(body=body, headers={"ETag": f'"{mark}"', "Cache-Control": "public, max-age=0"})

    def answer(self, command: str, path: str, known: str) -> Answer:
        """What is sent, and a note that it was asked for; ``known`` is the mark that the client has."""
        before = sum(path == other for _, other, _ in self.asked)
        self.asked.append((command, path, known))
        good = self.good(path)
        wrong = self.fault(path, good, before)
        same = wrong is None and known and known == good.headers.get("ETag")
        return Answer(status=304, headers=good.headers) if same else wrong or good

    def paths(self) -> set[str]:
        """The names of the files that were asked for."""
        return {path.rpartition("/")[2] for _, path, _ in self.asked}


@contextmanager
def faulty(folder: Path) -> Iterator[Faulty]:
    """Serve a folder on a free port of this machine until the block ends."""
    state = Faulty(url="", folder=folder)

    class Handler(Quiet):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
            answer = state.answer(self.command, self.path, self.headers.get("If-None-Match", ""))
            time.sleep(answer.wait)
            self.close_connection = True
            if not answer.hang_up:
                self.tell(answer)

        def tell(self, answer: Answer) -> None:
            self.send_response(answer.status)
            usual = {"Content-Type": "application/octet-stream", "Connection": "close"}
            if answer.status != 304:
                usual["Content-Length"] = str(len(answer.body))
            for name, value in {**usual, **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(answer.body[: answer.sent])

        do_HEAD = do_GET  # noqa: N815 - the name that http.server calls

    with serving(Handler) as state.url:
        yield state
