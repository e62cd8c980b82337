"""Requests beyond the limits of a server are refused."""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import wait
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

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
from tests.http.serving import LINES, Calling, client_of, is_problem, sent, served
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

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
def test_a_body_that_is_too_large_is_refused_but_for_imports() -> None:
    with client_of(application(body_bytes=100)) as client:
        for content in (b'{"text": "%s"}' % (b"x" * 200), iter([b" "] * 200)):
            answer = client.post("/echo", content=content, headers=JSON)
            assert is_problem(answer, 413, "too-large")
        assert client.post("/echo", json={"text": "x"}).json() == {"text": "x"}
        answer = client.post("/v1/jobs/import", content="x" * 200, headers=LINES)
        assert answer.status_code == 200


def test_a_mounted_application_takes_imports_of_any_size() -> None:
    host = FastAPI()
    host.mount("/tasks", application(body_bytes=100))
    with Calling(host) as http:
        for path, headers, status in (
            ("/v1/jobs/import", LINES, 200),
            ("/echo", JSON, 413),
        ):
            answer = http.post(f"/tasks{path}", content="x" * 200, headers=headers)
            assert answer.status_code == status


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
    answer = http.post("/echo", content=body, headers=JSON)
    assert is_problem(answer, 400, "malformed")


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


@pytest.mark.slow
def test_a_false_length_does_no_harm() -> None:
    with client_of(application()) as client:
        where = client.base_url.host, client.base_url.port or 0
        for length in ("9", "1" * 5000):
            told = sent(
                where,
                "POST /echo HTTP/1.1",
                HOST,
                "Content-Type: application/json",
                f"Content-Length: {length}",
                body=b"{}",
                ends=True,
            )
            assert " 500 " not in told
            assert client.get("/healthz").status_code == 200


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
