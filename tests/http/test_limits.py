"""Requests and connections beyond the limits of a server are refused."""

from __future__ import annotations

import asyncio
import logging
import resource
import select
import socket
import ssl
import threading
from concurrent.futures import wait
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from starlette.routing import Mount
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from go_scheduler import (
    ClaimLostError,
    GoSchedulerError,
    MemoryStore,
    SchedulerStateError,
    StoreUnavailableError,
)
from go_scheduler.client import Client
from go_scheduler.http import create_app
from go_scheduler.http.limits import Limits, Threads
from go_scheduler.http.serving import Bounds, Loop, allow_files, bounded
from tests.http.certificates import certificate
from tests.http.serving import LINES, Calling, client_of, is_problem, sent, served
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from starlette.types import Receive, Scope, Send

    from go_scheduler.testing import ManualClock


SOON = timedelta(milliseconds=50)
JSON = {"Content-Type": "application/json"}
HOST = "Host: 127.0.0.1"
ERRORS = {
    "fail": OSError("/etc/secret"),
    "late": TimeoutError(),
    "lost": ClaimLostError("it is lost"),
    "stopping": SchedulerStateError("it stops"),
    "strange": GoSchedulerError("/etc/secret"),
}


def application(**limits: object) -> FastAPI:
    """An application with routes that wait, or fail."""
    given = Limits(**limits)  # type: ignore[arg-type]
    app = create_app(Client(MemoryStore()), limits=given)

    @app.post("/echo")
    async def echo(body: dict[str, object]) -> dict[str, object]:
        return body

    @app.post("/v1/jobs/import")
    async def count_parts(request: Request) -> int:
        return len([each async for each in request.stream()])

    @app.get("/hang")
    async def hang(request: Request) -> None:
        await request.app.state.hanging.wait()

    @app.get("/raise/{name}")
    async def fail(name: str) -> None:
        raise ERRORS[name]

    @app.get("/half/{name}")
    async def answer_half(name: str) -> StreamingResponse:
        async def parts() -> AsyncIterator[bytes]:
            yield b"half"
            raise ERRORS[name]

        return StreamingResponse(parts())

    return app


@pytest.fixture(scope="module")
def http() -> Iterator[Calling]:
    with Calling(application()) as http:
        yield http


@pytest.mark.slow
@pytest.mark.parametrize("at", ["", "/tasks"], ids=["alone", "mounted"])
def test_a_body_that_is_too_large_is_refused_but_for_imports(at: str) -> None:
    app = application(body_bytes=100)
    host = FastAPI(routes=[Mount(at, app)]) if at else app
    with client_of(host) as client:
        for content in (b'{"text": "%s"}' % (b"x" * 200), iter([b" "] * 200)):
            answer = client.post(f"{at}/echo", content=content, headers=JSON)
            assert is_problem(answer, 413, "too-large")
        assert client.post(f"{at}/echo", json={"text": "x"}).json() == {"text": "x"}
        answer = client.post(f"{at}/v1/jobs/import", content="x" * 200, headers=LINES)
        assert answer.status_code == 200


@pytest.mark.parametrize(
    "headers",
    [{f"x-{number}": "x" for number in range(200)}, {"x": "x" * 40_000}],
    ids=["many", "long"],
)
def test_too_many_headers_are_refused(http: Calling, headers: dict[str, str]) -> None:
    assert is_problem(http.get("/healthz", headers=headers), 431, "headers")


@pytest.mark.parametrize("given", ["text/plain", "application/x-ndjson"])
def test_a_body_that_is_not_json_is_refused(http: Calling, given: str) -> None:
    answer = http.post("/echo", content="{}", headers={"Content-Type": given})
    assert is_problem(answer, 415, "media-type")
    assert "application/json" in answer.json()["detail"]


@pytest.mark.parametrize(
    "body",
    [
        '{"a":',
        "[" * 100_000,
        b'"\xff"',
        '{"a": ' + "9" * 5000 + "}",
        '{"a": 1}'.encode("utf-16"),
        '{"a": 1}'.encode("utf-32-be"),
    ],
    ids=["half", "deep", "no UTF-8", "many digits", "UTF-16", "UTF-32"],
)
def test_malformed_json_is_refused(http: Calling, body: str | bytes) -> None:
    assert is_problem(http.post("/echo", content=body, headers=JSON), 400, "malformed")


@pytest.mark.slow
def test_a_slow_sender_is_cut_off() -> None:
    """The body has a time limit; for an import, each part has."""
    with served(application(read=SOON)) as where:
        told = sent(
            where,
            "POST /echo HTTP/1.1",
            HOST,
            "Content-Type: application/json",
            "Content-Length: 5",
            body=b"{",
        )
        assert told.startswith("HTTP/1.1 408 ")
        assert "urn:go_scheduler:too-slow" in told
        told = sent(
            where,
            "POST /v1/jobs/import HTTP/1.1",
            HOST,
            "Content-Type: application/x-ndjson",
            "Transfer-Encoding: chunked",
            body=b"2\r\n{}\r\n",
        )
        assert "took too long to arrive" in told


def test_an_answer_that_takes_too_long_may_be_asked_for_again() -> None:
    app = application(answer=SOON)
    app.state.hanging = asyncio.Event()
    with Calling(app) as http:
        answer = http.get("/hang")
    assert is_problem(answer, 503, "store-unavailable")
    assert answer.headers["Retry-After"] == "2"


@pytest.mark.parametrize("name", ["fail", "late", "strange"])
def test_an_unexpected_error_is_logged_once_with_the_id_that_is_answered(
    http: Calling, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer = http.get(f"/raise/{name}")
    assert is_problem(answer, 500, "unexpected")
    assert "secret" not in answer.text
    [record] = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert answer.json()["detail"].rpartition(" ")[2] in record.getMessage()
    assert record.exc_info is not None


@pytest.mark.parametrize("name", ["late", "fail"])
def test_an_answer_that_has_begun_is_broken_off(http: Calling, name: str) -> None:
    # Older versions of Starlette raise a group.
    with pytest.raises((OSError, ExceptionGroup)) as caught:
        http.get(f"/half/{name}")
    assert repr(ERRORS[name]) in repr(caught.value)


@pytest.mark.parametrize(
    ("method", "path", "status", "slug"),
    [
        ("GET", "/nothing", 404, "no-path"),
        ("GET", "/v1/../etc/passwd", 404, "no-path"),
        ("BREW", "/healthz", 405, "method"),
        ("POST", "/healthz", 405, "method"),
        ("GET", "/raise/stopping", 503, "stopping"),
        ("GET", "/raise/lost", 409, "claim-lost"),
    ],
)
def test_a_refusal_is_a_problem_of_rfc_9457(
    http: Calling, method: str, path: str, status: int, slug: str
) -> None:
    answer = http.request(method, path)
    assert is_problem(answer, status, slug)
    assert answer.headers["Content-Type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == status
    assert body["title"]
    assert body["detail"]


def test_calls_of_the_store_have_threads_and_a_bounded_backlog(
    clock: ManualClock, request: pytest.FixtureRequest
) -> None:
    threads = Threads(clock, threads=2, calls=4)
    begun, go_on = threading.Semaphore(0), threading.Event()
    # No thread hangs if the test fails.
    request.addfinalizer(go_on.set)

    def hold() -> bool:
        begun.release()
        return go_on.wait(FAILED_AFTER)

    for _ in range(2):
        threads.submit(hold)
        assert begun.acquire(timeout=FAILED_AFTER)
    waiting = [threads.submit(max, 1, 2) for _ in range(2)]
    with pytest.raises(StoreUnavailableError, match="too many"):
        threads.submit(max, 1, 2)
    go_on.set()
    wait(waiting, FAILED_AFTER)
    assert {each.result() for each in waiting} == {2}
    go_on.clear()
    for _ in range(2):
        threads.submit(hold)
        assert begun.acquire(timeout=FAILED_AFTER)
    # All threads hang: a call that waits for one would wait in vain.
    clock.advance(timedelta(seconds=6))
    with pytest.raises(StoreUnavailableError, match="too many"):
        threads.submit(max, 1, 2)
    go_on.set()
    threads.shutdown()
    for _ in range(2):
        with pytest.raises(StoreUnavailableError, match="stopping"):
            threads.submit(max, 1, 2)


Protocol = type[asyncio.Protocol]
LATE = timedelta(hours=1)
LARGE = 20_000_000
REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.fixture(params=[H11Protocol, HttpToolsProtocol], ids=["h11", "httptools"])
def protocol(request: pytest.FixtureRequest) -> Protocol:
    found: Protocol = request.param
    return found


async def answering(scope: Scope, receive: Receive, send: Send) -> None:
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
    with served(answering, lifespan="off", http=server.made) as server.where:
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
