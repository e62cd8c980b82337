"""Slow or surplus connections do not disturb other connections."""

from __future__ import annotations

import asyncio
import logging
import resource
import select
import socket
import ssl
import threading
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from go_scheduler.http.serving import Bounds, Loop, allow_files, bounded
from tests.http.certificates import certificate
from tests.http.serving import served
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from starlette.types import Receive, Scope, Send

Protocol = type[asyncio.Protocol]
SOON, LATE = timedelta(milliseconds=50), timedelta(hours=1)
LARGE = 20_000_000
REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.fixture(params=[H11Protocol, HttpToolsProtocol], ids=["h11", "httptools"])
def protocol(request: pytest.FixtureRequest) -> Protocol:
    found: Protocol = request.param
    return found


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers without reading the body; below ``/large`` by a long answer."""
    if scope["path"] == "/wait":
        while (await receive())["type"] != "http.disconnect":
            pass
        return
    size = LARGE if scope["path"] == "/large" else 2
    length = [(b"content-length", str(size).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": length})
    await send({"type": "http.response.body", "body": b"x" * size})


class Server:
    """A server with bounds; ``ended`` is set when a connection has ended."""

    def __init__(self, protocol: Protocol, bounds: Bounds) -> None:
        ended = self.ended = threading.Event()

        class Noted(protocol):  # type: ignore[misc, valid-type]
            def connection_lost(self, error: Exception | None) -> None:
                super().connection_lost(error)
                ended.set()

        self.made: Any = bounded(bounds, Noted)

    def bound(self, **given: Any) -> None:
        """Change the bounds."""
        self.made.bounds = replace(self.made.bounds, **given)

    def connected(self) -> closing[socket.socket]:
        return closing(socket.create_connection(self.where, timeout=FAILED_AFTER))

    where: tuple[str, int]


@contextmanager
def serving(protocol: Protocol, **given: Any) -> Iterator[Server]:
    bounds = {"most": 100, "head": LATE, "head_bytes": 1000, "answer": LATE, **given}
    server = Server(protocol, Bounds(**bounds))
    with served(application, lifespan="off", http=server.made) as server.where:
        yield server


def read_all(connection: socket.socket) -> bytes:
    """Read until the server ends the connection."""
    parts: list[bytes] = []
    with suppress(ConnectionResetError):
        parts.extend(iter(lambda: connection.recv(65536), b""))
    return b"".join(parts)


def ask(connection: socket.socket) -> bytes:
    connection.sendall(REQUEST)
    found = b""
    while not found.endswith(b"\r\n\r\nxx"):
        part = connection.recv(65536)
        assert part, found
        found += part
    return found


@pytest.mark.slow
def test_a_head_that_takes_too_long_or_has_no_end_is_refused(
    protocol: Protocol,
) -> None:
    with serving(protocol) as server:
        with server.connected() as connection:
            ask(connection)
            connection.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * 1000)
            assert read_all(connection).startswith(b"HTTP/1.1 431 ")
        with server.connected() as connection:
            ask(connection)
            server.bound(head=SOON)
            connection.sendall(b"GET / HTTP/1.1\r\nX: ")
            while not select.select([connection], [], [], 0.01)[0]:
                connection.sendall(b"x")
            told = read_all(connection)
            assert told.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
            assert b'"type":"urn:go_scheduler:too-slow"' in told
        # A new connection that sends nothing is closed without an answer.
        with server.connected() as silent:
            assert read_all(silent) == b""


@pytest.mark.parametrize("bounds", [{"head": SOON}, {}], ids=["time", "size"])
def test_the_rest_of_a_body_that_is_answered_is_read_within_bounds(
    protocol: Protocol, bounds: dict[str, Any]
) -> None:
    with serving(protocol) as server, server.connected() as connection:
        long = REQUEST[:-2] + b"Content-Length: 9999999\r\n\r\n"
        connection.sendall(long.replace(b"GET", b"POST"))
        assert connection.recv(1) == b"H"
        server.bound(**bounds)
        with suppress(ConnectionError):
            connection.sendall(b"x" * (2000 if bounds else 1_200_000))
        # The data is no request, and has no answer.
        told = read_all(connection)
        assert not any(status in told for status in (b" 408 ", b" 431 "))


def test_a_head_without_end_is_cut_off_while_another_request_is_answered() -> None:
    """The parser of httptools goes on meanwhile."""
    with serving(HttpToolsProtocol) as server, server.connected() as connection:
        connection.sendall(REQUEST.replace(b"/ ", b"/wait "))
        with suppress(ConnectionError):
            connection.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * 1_200_000)
        assert read_all(connection) == b""


@pytest.mark.slow
def test_surplus_connections_are_refused_and_the_others_are_answered(
    protocol: Protocol, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(protocol, most=200) as server, ExitStack() as stack:
        idle = [stack.enter_context(server.connected()) for _ in range(200)]
        for each in idle[0], idle[-1]:
            assert ask(each).startswith(b"HTTP/1.1 200 ")
        surplus = [stack.enter_context(server.connected()) for _ in range(101)]
        assert read_all(surplus[-1]) == b""
        for each in surplus[:2]:
            server.ended.clear()
            each.sendall(REQUEST)
            told = read_all(each)
            assert told.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
            assert b"\r\nretry-after: 2\r\n" in told
            assert server.ended.wait(FAILED_AFTER)
        assert ask(idle[0]).startswith(b"HTTP/1.1 200 ")
    [warned] = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert warned.getMessage().startswith("there are 200 connections, and more are")


@pytest.mark.slow
def test_a_client_that_does_not_read_is_cut_off(protocol: Protocol) -> None:
    large = REQUEST.replace(b"/ ", b"/large ")
    with serving(protocol, answer=SOON) as server, server.connected() as connection:
        connection.sendall(large)
        assert server.ended.wait(FAILED_AFTER)
        assert len(read_all(connection)) < LARGE
    with serving(protocol) as server, server.connected() as connection:
        connection.sendall(large)
        while not connection.recv(65536).endswith(b"x"):
            pass
        connection.shutdown(socket.SHUT_WR)
        assert len(read_all(connection)) > LARGE - 2 * 65536


def test_a_process_may_open_as_many_files_as_it_needs() -> None:
    before = soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert allow_files(1) == 1
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before
    few = min(soft, 512)
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, hard))
    try:
        assert allow_files(few) == few
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (few + 256, hard)
        if hard != resource.RLIM_INFINITY:
            assert allow_files(hard) == hard - 256
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_client_that_does_not_agree_on_tls_is_cut_off(tmp_path: Path) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*certificate(tmp_path))

    async def be_silent() -> object:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(asyncio.Protocol, "127.0.0.1", ssl=tls)
        plain = await loop.create_server(asyncio.Protocol, "127.0.0.1")
        async with server, plain, asyncio.timeout(FAILED_AFTER):
            where = server.sockets[0].getsockname()
            reader, writer = await asyncio.open_connection(*where)
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()
            return plain.sockets[0].getsockname()

    with asyncio.Runner(loop_factory=lambda: Loop(SOON)) as runner:
        assert runner.run(be_silent())
