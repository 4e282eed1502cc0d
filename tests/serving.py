"""A server of this machine for as long as a block runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ssl import SSLContext


class Quiet(BaseHTTPRequestHandler):
    """Says nothing of what it is asked, and lets a client go away."""

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:
            self.close_connection = True  # the client went away, which is its right

    def log_message(self, *_: object) -> None:
        return


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler], context: SSLContext | None = None) -> Iterator[str]:
    """The URL at which a handler answers."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"{'https' if context else 'http'}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
