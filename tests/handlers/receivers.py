"""A receiver of webhooks, for tests: a real server, in plain or with TLS."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator


class Received(NamedTuple):
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Receiver(ThreadingHTTPServer):
    """Answers by the path: ``/500`` with that status, others as they are told to."""

    daemon_threads = True
    # A deaf client is told so when the test ends, and not before.
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: list[Received] = []
        self.headers: dict[str, str] = {}
        self.answers: dict[str, Callable[[_Handler], object]] = {}
        self.ending = threading.Event()

    @property
    def port(self) -> int:
        return self.server_port

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients may hang up."""


class _Handler(BaseHTTPRequestHandler):
    server: Receiver
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.received.append(
            Received(self.command, self.path, dict(self.headers), body)
        )
        self.close_connection = True
        if self.path in self.server.answers:
            self.server.answers[self.path](self)
            return
        status = int(self.path.partition("?")[0].strip("/") or 200)
        text = b"" if status == 204 else f"status {status}".encode()
        self.answer(status, text, **self.server.headers)

    def answer(self, status: int, text: bytes = b"", **headers: str) -> None:
        """Answer with a status."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _answer

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is written."""


@contextmanager
def receiving(context: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """A receiver that is there."""
    with Receiver() as receiver:
        if context is not None:
            receiver.socket = context.wrap_socket(receiver.socket, server_side=True)
        serving = threading.Thread(target=receiver.serve_forever, args=(0.01,))
        serving.start()
        try:
            yield receiver
        finally:
            receiver.ending.set()
            receiver.shutdown()
            serving.join()
