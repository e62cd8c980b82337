"""What takes more of a server than it may is refused, and costs nobody else."""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import httpx
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

from go_scheduler import (
    ClaimLostError,
    GoSchedulerError,
    MemoryStore,
    SchedulerStateError,
)
from go_scheduler.client import Client
from go_scheduler.http import create_app
from go_scheduler.http.limits import Limits
from tests.http.serving import called, client_of, served
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

SOON = timedelta(milliseconds=50)


def application(limits: Limits | None = None) -> FastAPI:
    """One with routes that take their time, or fail."""
    app = create_app(Client(MemoryStore()), limits=limits)

    @app.post("/echo")
    async def echo(body: dict[str, object]) -> dict[str, object]:
        return body

    @app.post("/v1/jobs/import")
    async def take_lines(request: Request) -> int:
        return len([each async for each in request.stream()])

    @app.get("/hang")
    async def hang() -> None:
        await asyncio.Event().wait()

    @app.get("/slow")
    async def time_out() -> None:
        raise TimeoutError

    @app.get("/fail")
    async def fail() -> None:
        raise OSError("/etc/secret")

    @app.get("/stopping")
    async def stop() -> None:
        raise SchedulerStateError("it stops")

    @app.get("/lost")
    async def lose() -> None:
        raise ClaimLostError("it is lost")

    @app.get("/strange")
    async def fail_strangely() -> None:
        raise GoSchedulerError("/etc/secret")

    @app.get("/half/{error}")
    async def answer_half(error: str) -> StreamingResponse:
        async def parts() -> AsyncIterator[bytes]:
            yield b"half"
            raise TimeoutError("late") if error == "late" else OSError("broken")

        return StreamingResponse(parts())

    return app


@contextmanager
def connected(app: FastAPI) -> Iterator[socket.socket]:
    with (
        served(app) as place,
        closing(socket.create_connection(place, timeout=FAILED_AFTER)) as connection,
    ):
        yield connection


def read_all(connection: socket.socket) -> str:
    """What comes until the server closes the connection."""
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts).decode()


def head(*lines: str) -> bytes:
    return "\r\n".join([*lines, "Host: 127.0.0.1", "", ""]).encode()


@pytest.mark.slow
def test_a_body_that_is_too_large_is_refused_by_what_it_says_of_its_length() -> None:
    with client_of(application(Limits(body_bytes=100))) as client:
        answer = client.post("/echo", json={"text": "x" * 200})
        assert answer.status_code == 413
        assert answer.json()["type"] == "urn:go_scheduler:too-large"
        assert client.post("/echo", json={"text": "x"}).json() == {"text": "x"}


@pytest.mark.slow
def test_one_in_chunks_is_refused_once_too_much_of_it_has_come() -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(200):
            yield b" "

    with client_of(application(Limits(body_bytes=100))) as client:
        headers = {"Content-Type": "application/json"}
        answer = client.post("/echo", content=parts(), headers=headers)
        assert answer.status_code == 413
        assert answer.json()["type"] == "urn:go_scheduler:too-large"


@pytest.mark.slow
def test_what_is_imported_may_be_of_any_size() -> None:
    with client_of(application(Limits(body_bytes=100))) as client:
        headers = {"Content-Type": "application/x-ndjson"}
        answer = client.post("/v1/jobs/import", content="x" * 200, headers=headers)
        assert answer.status_code == 200


def test_what_is_imported_may_be_so_wherever_the_application_is() -> None:
    host = FastAPI()
    host.mount("/tasks", application(Limits(body_bytes=100)))

    async def asked() -> None:
        transport = httpx.ASGITransport(host)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1"
        ) as client:
            for path, status in (("/v1/jobs/import", 200), ("/echo", 413)):
                kind = "x-ndjson" if status == 200 else "json"
                answer = await client.post(
                    f"/tasks{path}",
                    content="x" * 200,
                    headers={"Content-Type": f"application/{kind}"},
                )
                assert answer.status_code == status

    asyncio.run(asked())


@pytest.mark.parametrize(
    "headers",
    [{f"x-{number}": "x" for number in range(200)}, {"x": "x" * 40_000}],
    ids=["many", "long"],
)
def test_too_many_headers_are_refused(headers: dict[str, str]) -> None:
    async def call() -> None:
        async with called(application()) as client:
            answer = await client.get("/healthz", headers=headers)
            assert answer.status_code == 431
            assert answer.json()["type"] == "urn:go_scheduler:headers"

    asyncio.run(call())


@pytest.mark.parametrize("given", ["text/plain", "application/x-ndjson"])
def test_a_body_that_is_no_json_is_refused(given: str) -> None:
    async def call() -> None:
        async with called(application()) as client:
            headers = {"Content-Type": given}
            answer = await client.post("/echo", content="{}", headers=headers)
            assert answer.status_code == 415
            assert "application/json" in answer.json()["detail"]

    asyncio.run(call())


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
def test_json_that_cannot_be_read_is_said_to_be_malformed(body: str | bytes) -> None:
    async def call() -> None:
        async with called(application()) as client:
            headers = {"Content-Type": "application/json"}
            answer = await client.post("/echo", content=body, headers=headers)
            assert answer.status_code == 400
            assert answer.json()["type"] == "urn:go_scheduler:malformed"

    asyncio.run(call())


@pytest.mark.slow
def test_a_sender_who_takes_too_long_is_let_go() -> None:
    with connected(application(Limits(read=SOON))) as connection:
        connection.sendall(
            head(
                "POST /echo HTTP/1.1",
                "Content-Type: application/json",
                "Content-Length: 5",
            )
            + b"{"
        )
        answer = read_all(connection)
        assert answer.startswith("HTTP/1.1 408 ")
        assert "urn:go_scheduler:too-slow" in answer


@pytest.mark.slow
def test_each_part_of_an_import_has_its_time() -> None:
    with connected(application(Limits(read=SOON))) as connection:
        connection.sendall(
            head(
                "POST /v1/jobs/import HTTP/1.1",
                "Content-Type: application/x-ndjson",
                "Transfer-Encoding: chunked",
            )
            + b"2\r\n{}\r\n"
        )
        assert "took too long to arrive" in read_all(connection)


@pytest.mark.slow
@pytest.mark.parametrize("length", ["9", "1" * 5000])
def test_a_false_length_costs_nobody_else_anything(length: str) -> None:
    with (
        client_of(application()) as client,
        closing(
            socket.create_connection(
                (client.base_url.host, client.base_url.port or 0), FAILED_AFTER
            )
        ) as connection,
    ):
        connection.sendall(
            head(
                "POST /echo HTTP/1.1",
                "Content-Type: application/json",
                f"Content-Length: {length}",
            )
            + b"{}"
        )
        # No more will come, and somebody still listens.
        connection.shutdown(socket.SHUT_WR)
        assert " 500 " not in read_all(connection)
        assert client.get("/healthz").status_code == 200


def test_what_is_not_answered_in_time_may_be_tried_again() -> None:
    async def call() -> None:
        async with called(application(Limits(answer=SOON))) as client:
            answer = await client.get("/hang")
            assert answer.status_code == 503
            assert answer.headers["Retry-After"] == "2"
            assert answer.json()["type"] == "urn:go_scheduler:store-unavailable"

    asyncio.run(call())


@pytest.mark.parametrize("path", ["/fail", "/slow", "/strange"])
def test_what_nobody_expected_is_logged_once_and_told_by_an_id(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def call() -> None:
        async with called(application()) as client:
            answer = await client.get(path)
            assert answer.status_code == 500
            body = answer.json()
            assert "secret" not in answer.text
            [record] = [
                each for each in caplog.records if each.levelno >= logging.ERROR
            ]
            assert body["detail"].rpartition(" ")[2] in record.getMessage()
            assert record.exc_info is not None

    asyncio.run(call())


@pytest.mark.parametrize("error", ["late", "broken"])
def test_an_answer_that_has_begun_is_broken_off(error: str) -> None:
    async def call() -> None:
        async with called(application()) as client:
            # Older versions of Starlette raise it as one of a group.
            with pytest.raises((OSError, ExceptionGroup)) as caught:
                await client.get(f"/half/{error}")
            assert error in repr(caught.value)

    asyncio.run(call())


@pytest.mark.parametrize(
    ("method", "path", "status", "slug"),
    [
        ("GET", "/nothing", 404, "no-path"),
        ("GET", "/v1/../etc/passwd", 404, "no-path"),
        ("BREW", "/healthz", 405, "method"),
        ("POST", "/healthz", 405, "method"),
        ("GET", "/stopping", 503, "stopping"),
        ("GET", "/lost", 409, "claim-lost"),
    ],
)
def test_what_is_not_there_is_a_problem(
    method: str, path: str, status: int, slug: str
) -> None:
    async def call() -> None:
        async with called(application()) as client:
            answer = await client.request(method, path)
            assert answer.status_code == status
            assert answer.headers["Content-Type"] == "application/problem+json"
            body = answer.json()
            assert body["type"] == f"urn:go_scheduler:{slug}"
            assert body["status"] == status
            assert body["title"]
            assert body["detail"]

    asyncio.run(call())
