"""Connections that take too long, or are too many, cost nobody else anything."""

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

SOON, LATE = timedelta(milliseconds=50), timedelta(hours=1)
LARGE = 20_000_000
ASKED = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
Place = tuple[str, int]


@pytest.fixture(params=[H11Protocol, HttpToolsProtocol], ids=["h11", "httptools"])
def protocol(request: pytest.FixtureRequest) -> type[asyncio.Protocol]:
    """Each of those that uvicorn has."""
    found: type[asyncio.Protocol] = request.param
    return found


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer without reading the body, by much if that is asked for."""
    assert scope["type"] == "http"
    if scope["path"] == "/wait":
        while (await receive())["type"] != "http.disconnect":
            pass
        return
    size = LARGE if scope["path"] == "/large" else 2
    length = [(b"content-length", str(size).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": length})
    await send({"type": "http.response.body", "body": b"x" * size})


class Answering:
    """A server with bounds, which may be others from now on."""

    def __init__(self, made: type[asyncio.Protocol], place: Place) -> None:
        self._made: Any = made
        self.place = place

    def bound(self, **given: Any) -> None:
        self._made.bounds = replace(self._made.bounds, **given)

    def connected(self) -> closing[socket.socket]:
        return closing(socket.create_connection(self.place, timeout=FAILED_AFTER))


@contextmanager
def answering(
    protocol: type[asyncio.Protocol], ended: threading.Event | None = None, **given: Any
) -> Iterator[Answering]:
    """A server with bounds; it is told when a connection has ended."""
    bounds = {"most": 100, "head": LATE, "head_bytes": 1000, "answer": LATE, **given}

    class Noted(protocol):  # type: ignore[misc, valid-type]
        def connection_lost(self, error: Exception | None) -> None:
            super().connection_lost(error)
            if ended is not None:
                ended.set()

    made = bounded(Bounds(**bounds), Noted)
    with served(answer, lifespan="off", http=made) as place:
        yield Answering(made, place)


def read_all(connection: socket.socket) -> bytes:
    """What comes until the server ends the connection."""
    parts: list[bytes] = []
    with suppress(ConnectionResetError):
        parts.extend(iter(lambda: connection.recv(65536), b""))
    return b"".join(parts)


def ask(connection: socket.socket) -> bytes:
    connection.sendall(ASKED)
    found = b""
    while not found.endswith(b"\r\n\r\nxx"):
        part = connection.recv(65536)
        assert part, found
        found += part
    return found


@pytest.mark.slow
def test_who_sends_a_head_byte_by_byte_is_cut_off(
    protocol: type[asyncio.Protocol],
) -> None:
    with answering(protocol) as server, server.connected() as connection:
        # Each has its time.
        ask(connection)
        server.bound(head=SOON)
        connection.sendall(b"GET / HTTP/1.1\r\nX: ")
        while not select.select([connection], [], [], 0.01)[0]:
            connection.sendall(b"x")
        told = read_all(connection)
        assert told.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        assert b'"type":"urn:go_scheduler:too-slow"' in told
        # One that asks for nothing is not kept, and hears nothing.
        with server.connected() as silent:
            assert read_all(silent) == b""


def test_a_head_without_end_is_not_kept(protocol: type[asyncio.Protocol]) -> None:
    with answering(protocol) as server, server.connected() as connection:
        ask(connection)
        connection.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * 1000)
        assert read_all(connection).startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize("given", [{"head": SOON}, {}], ids=["time", "size"])
def test_what_is_left_of_an_answered_body_is_read_within_bounds(
    protocol: type[asyncio.Protocol], given: dict[str, Any]
) -> None:
    with answering(protocol) as server, server.connected() as connection:
        long = ASKED[:-2] + b"Content-Length: 9999999\r\n\r\n"
        connection.sendall(long.replace(b"GET", b"POST"))
        assert connection.recv(1) == b"H"
        server.bound(**given)
        with suppress(ConnectionError):
            connection.sendall(b"x" * (2000 if given else 1_200_000))
        # What is sent on is no request, and answered nothing.
        assert b" 408 " not in (told := read_all(connection))
        assert b" 431 " not in told


def test_a_head_without_end_is_not_kept_while_another_request_is_answered() -> None:
    """Where the parser goes on meanwhile."""
    with (
        answering(HttpToolsProtocol) as server,
        server.connected() as connection,
    ):
        connection.sendall(ASKED.replace(b"/ ", b"/wait "))
        with suppress(ConnectionError):
            connection.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * 1_200_000)
        assert read_all(connection) == b""


@pytest.mark.slow
def test_those_that_are_too_many_are_told_and_the_others_are_answered(
    protocol: type[asyncio.Protocol], caplog: pytest.LogCaptureFixture
) -> None:
    ended = threading.Event()
    with answering(protocol, ended, most=200) as server, ExitStack() as stack:
        idle = [stack.enter_context(server.connected()) for _ in range(200)]
        for each in idle[0], idle[-1]:
            assert ask(each).startswith(b"HTTP/1.1 200 ")
        surplus = [stack.enter_context(server.connected()) for _ in range(101)]
        assert read_all(surplus[-1]) == b""
        for each in surplus[:2]:
            ended.clear()
            each.sendall(ASKED)
            told = read_all(each)
            assert told.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
            assert b"\r\nretry-after: 2\r\n" in told
            assert ended.wait(FAILED_AFTER)
        assert ask(idle[0]).startswith(b"HTTP/1.1 200 ")
    [told_once] = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert told_once.getMessage().startswith("there are 200 connections, and more are")


@pytest.mark.slow
def test_who_does_not_read_is_cut_off(protocol: type[asyncio.Protocol]) -> None:
    ended = threading.Event()
    asked = ASKED.replace(b"/ ", b"/large ")
    with (
        answering(protocol, ended, answer=SOON) as server,
        server.connected() as connection,
    ):
        connection.sendall(asked)
        assert ended.wait(FAILED_AFTER)
        assert len(read_all(connection)) < LARGE
    with answering(protocol) as server, server.connected() as connection:
        connection.sendall(asked)
        while not connection.recv(65536).endswith(b"x"):
            pass
        connection.shutdown(socket.SHUT_WR)
        assert len(read_all(connection)) > LARGE - 2 * 65536


def test_a_process_is_let_have_as_many_files_as_it_needs() -> None:
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


def test_who_does_not_agree_on_tls_is_cut_off(tmp_path: Path) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*certificate(tmp_path))

    async def be_silent() -> object:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(asyncio.Protocol, "127.0.0.1", ssl=tls)
        plain = await loop.create_server(asyncio.Protocol, "127.0.0.1")
        async with server, plain, asyncio.timeout(FAILED_AFTER):
            place = server.sockets[0].getsockname()
            reader, writer = await asyncio.open_connection(*place)
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()
            return plain.sockets[0].getsockname()

    with asyncio.Runner(loop_factory=lambda: Loop(SOON)) as runner:
        assert runner.run(be_silent())
