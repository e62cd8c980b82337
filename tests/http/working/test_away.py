"""A worker whose server is away, or refuses it."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any
from unittest.mock import ANY
from uuid import UUID

import pytest

from go_scheduler import current_run
from go_scheduler.errors import ConfigurationError, GoSchedulerError
from go_scheduler.http import Work, Worker, tell_progress
from go_scheduler.http.remote_errors import NotAllowedError
from go_scheduler.http.worker import Given, HTTPTransport
from go_scheduler.working.worker import Ending, Pauses
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ITEM = {
    "instance_id": str(UUID(int=7)),
    "token": "its token",
    "attempt": 1,
    "type": "x",
    "payload": None,
    "metadata": {},
    "execute_at": "2030-01-01T00:00:00Z",
    "lease": 30,
}
WORK = {"work": [ITEM]}
DONE = {"answers": [{"problem": None}]}
PROBLEM = {"type": "urn:go_scheduler:x", "title": "x", "detail": "for a reason"}


class Scripted(ThreadingHTTPServer):
    """Gives the answers that a test has set, and holds further requests open."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.answers: dict[str, list[tuple[int, object]]] = {}
        self.asked: SimpleQueue[tuple[str, str | None, Any]] = SimpleQueue()
        self.over = threading.Event()
        self.rest = threading.Event()
        self.rest.set()
        self.url = f"http://127.0.0.1:{self.server_port}"

    def say(self, what: str, *answers: tuple[int, object]) -> None:
        self.answers[what] = list(answers)

    def next(self, what: str) -> tuple[str | None, Any]:
        """The next request of a kind: its token and its body."""
        while True:
            found, token, body = self.asked.get(timeout=FAILED_AFTER)
            if found == what:
                return token, body


class _Answering(BaseHTTPRequestHandler):
    server: Scripted
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer("work")

    def do_POST(self) -> None:
        self._answer(self.path.rpartition("/")[2])

    def _answer(self, what: str) -> None:
        length = int(self.headers.get("content-length", 0))
        body = json.loads(self.rfile.read(length)) if length else None
        answers = self.server.answers.get(what, [])
        self.server.asked.put((what, self.headers.get("authorization"), body))
        if not answers:
            self.server.over.wait(FAILED_AFTER)
            self.close_connection = True
            return
        status, answer = answers.pop(0)
        if not status:
            self.close_connection = True
            return
        content = b"" if answer is None else json.dumps(answer).encode()
        self.send_response(status)
        is_problem = isinstance(answer, dict) and "title" in answer
        kind = "application/problem+json" if is_problem else "application/json"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        if status == 429:
            self.send_header("Retry-After", "0")
        self.end_headers()
        self.server.rest.wait(FAILED_AFTER)
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def server() -> Iterator[Scripted]:
    with Scripted() as found:
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        yield found
        found.over.set()
        found.shutdown()
        thread.join()


@contextmanager
def working(
    server: Scripted, handler: Callable[[Work], object], **options: Any
) -> Iterator[Worker]:
    worker = Worker(server.url, handler, **options)
    worker.start()
    yield worker
    worker.stop()


@pytest.mark.slow
def test_it_asks_again_when_the_server_is_back(
    server: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "go_scheduler.http.worker")
    server.say("work", (503, PROBLEM), (429, PROBLEM), (0, None), (200, WORK))
    server.say("complete", (502, None), (503, PROBLEM), (200, DONE), (200, DONE))
    with working(server, lambda _: 5):
        said = {
            "instance_id": ITEM["instance_id"],
            "token": "its token",
            "started_at": ANY,
            "ended_at": ANY,
            "result": 5,
        }
        for _ in range(3):
            assert server.next("complete") == (None, {"completed": [said]})
    assert caplog.text.count("no work at the moment") == 1
    assert "answers again" in caplog.text


def test_fewer_answers_than_successes_have_them_told_again(server: Scripted) -> None:
    server.say("work", (200, WORK))
    server.say("complete", (200, {"answers": []}), (200, DONE))
    with working(server, lambda _: None):
        assert server.next("complete") == server.next("complete")


@pytest.mark.parametrize("status", [200, 404])
def test_what_is_handed_out_as_it_stops_is_given_back(
    server: Scripted, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The answer has begun, so a disconnect would lose the work."""
    server.say("work", (200, WORK))
    server.say("release", (status, PROBLEM))
    server.rest.clear()
    called: list[Work] = []
    with working(server, called.append) as worker:
        loop = worker._loop
        assert loop is not None
        transport = loop._transport
        assert isinstance(transport, HTTPTransport)
        server.next("work")

        async def hand_out() -> None:
            while not transport.hands_out:
                await asyncio.sleep(0.001)
            loop.stopping.set_result(None)
            for _ in range(10):
                await asyncio.sleep(0)
            server.rest.set()

        asyncio.run_coroutine_threadsafe(hand_out(), loop._loop).result(FAILED_AFTER)
        assert server.next("release") == (None, {"token": "its token"})
    assert not called
    assert ("is not given back" in caplog.text) == (status == 404)


@pytest.mark.parametrize(
    ("status", "error", "text"),
    [
        (401, NotAllowedError, "for a reason"),
        (403, NotAllowedError, "for a reason"),
        (422, ConfigurationError, "for a reason"),
        (404, GoSchedulerError, "for a reason"),
    ],
)
def test_a_server_that_refuses_it_ends_it(
    server: Scripted, status: int, error: type[Exception], text: str
) -> None:
    server.say("work", (status, PROBLEM | {"status": status}))
    with pytest.raises(error, match=text):
        Worker(server.url, print, token="mine").run()
    assert server.next("work")[0] == "Bearer mine"


def test_one_that_was_refused_may_start_again(server: Scripted) -> None:
    server.say("work", (401, PROBLEM))
    worker = Worker(server.url, print)
    worker.start()
    server.next("work")
    assert worker._loop is not None
    worker._loop.join(FAILED_AFTER)
    server.say("work", (200, WORK))
    server.say("complete", (200, DONE))
    worker.start()
    server.next("complete")
    assert worker.stop()


def test_a_token_that_is_old_is_asked_for_again(server: Scripted) -> None:
    tokens = ["one", "two"]
    server.say("work", (401, PROBLEM), (200, WORK))
    server.say("complete", (200, DONE))
    with working(server, print, token=lambda: tokens.pop(0)):
        assert server.next("work")[0] == "Bearer one"
        assert server.next("work")[0] == "Bearer two"
        assert server.next("complete")[0] == "Bearer two"


def test_a_token_that_is_not_to_be_had_is_asked_for_again(
    server: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    answers = ["one"]

    def token() -> str:
        if answers:
            raise OSError(answers.pop())
        return "two"

    with working(server, print, token=token):
        assert server.next("work")[0] == "Bearer two"
    assert "token() raised OSError('one')" in caplog.text


def test_a_success_that_is_refused_is_logged(
    server: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    gone = {"answers": [{"problem": PROBLEM | {"status": 409}}]}
    server.say("work", (200, WORK))
    server.say("complete", (200, gone))
    with working(server, print):
        server.next("complete")
    assert "is not recorded: for a reason" in caplog.text


@pytest.mark.slow
def test_heartbeats_go_on_while_the_server_is_away(server: Scripted) -> None:
    heard = threading.Event()

    def handler(_: Work) -> None:
        assert heard.wait(FAILED_AFTER)

    server.say("work", (200, {"work": [ITEM | {"lease": 0.3}]}))
    go_on = (200, {"answer": "go_on"})
    server.say("heartbeat", (503, PROBLEM), (500, None), go_on, go_on)
    server.say("complete", (200, DONE))
    with working(server, handler):
        for _ in range(5):
            server.next("heartbeat")
        heard.set()
        server.next("complete")


def test_progress_that_the_server_did_not_hear_is_in_the_next_heartbeat(
    server: Scripted,
) -> None:
    told = threading.Event()

    def handler(_: Work) -> None:
        tell_progress([1])
        assert told.wait(FAILED_AFTER)

    server.say("work", (200, {"work": [ITEM | {"lease": 0.3}]}))
    server.say("heartbeat", (503, PROBLEM), *[(200, {"answer": "go_on"})] * 2)
    server.say("complete", (200, DONE))
    with working(server, handler):
        bodies = [server.next("heartbeat")[1] for _ in range(3)]
        told.set()
        server.next("complete")
    assert [each.get("progress") for each in bodies] == [[1], [1], None]


def test_a_heartbeat_without_an_answer_holds_up_no_result(server: Scripted) -> None:
    beats = threading.Event()
    server.say("work", (200, {"work": [ITEM | {"lease": 0.6}]}))
    server.say("complete", (200, DONE))
    with working(server, lambda _: beats.wait(FAILED_AFTER)):
        server.next("heartbeat")
        server.next("heartbeat")
        beats.set()
        server.next("complete")


def test_progress_that_is_refused_costs_nothing_else(
    server: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    told = threading.Event()

    def handler(_: Work) -> None:
        tell_progress(1)
        assert told.wait(FAILED_AFTER)

    server.say("work", (200, {"work": [ITEM | {"lease": 0.6}]}))
    refused = (422, PROBLEM | {"status": 422})
    server.say("heartbeat", refused, *[(200, {"answer": "go_on"})] * 9)
    server.say("complete", (200, DONE))
    with working(server, handler):
        server.next("heartbeat")
        server.next("heartbeat")
        told.set()
        server.next("complete")
    assert "the progress of" in caplog.text
    assert "is lost" not in caplog.text


def test_a_call_for_which_no_thread_can_be_started_has_failed(
    server: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("go_scheduler.working.worker._start", refuse)
    server.say("work", (200, WORK))
    server.say("error", (200, {}))
    with working(server, print):
        _, body = server.next("error")
    assert "can't start new thread" in body["message"]


@pytest.mark.parametrize("status", [409, 403])
def test_a_run_for_which_more_time_is_refused_is_lost(
    server: Scripted, status: int
) -> None:
    lost = threading.Event()

    def handler(_: Work) -> None:
        current_run().extend(timedelta(minutes=1))

        async def wait() -> None:
            while not current_run().lost:
                await asyncio.sleep(0.001)

        asyncio.run(asyncio.wait_for(wait(), FAILED_AFTER))
        lost.set()

    server.say("work", (200, WORK))
    server.say("extend", (status, PROBLEM))
    server.say("complete", (200, DONE))
    with working(server, handler):
        assert server.next("extend")[1]["seconds"] == 60
        assert lost.wait(FAILED_AFTER)


def test_more_time_is_not_asked_for_twice(
    server: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    server.say("work", (200, WORK))
    server.say("extend", (503, PROBLEM))
    server.say("complete", (200, DONE))
    with working(server, lambda _: current_run().extend(timedelta(minutes=1))):
        server.next("complete")
    assert "gets no more time" in caplog.text


def telling(
    server: Scripted, *endings: Ending, beyond: timedelta = timedelta(minutes=1)
) -> None:
    """Report what came of some runs, all at once."""

    async def tell() -> None:
        transport = HTTPTransport(
            server.url,
            queues="default",
            max_workers=1,
            token=None,
            name="a worker",
            wait=timedelta(0),
            beyond=beyond,
        )
        given = Given(ITEM | {"lease": 0.1}, loop=None)  # type: ignore[arg-type]
        given.began_at = given.ended_at = datetime(2030, 1, 1, tzinfo=UTC)
        await asyncio.gather(*(transport.report(given, each) for each in endings))
        await transport.close()

    asyncio.run(tell())


def test_what_nobody_takes_is_told_no_longer_at_last(
    server: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    server.say("complete", *[(503, PROBLEM)] * 20)
    telling(server, Ending(), beyond=timedelta(seconds=0.2))
    assert "is not recorded: the server: for a reason" in caplog.text


def test_who_cannot_tell_what_came_of_runs_takes_no_more(server: Scripted) -> None:
    called = threading.Semaphore(0)
    server.say("work", *[(200, WORK)] * 9)
    worker = Worker(server.url, lambda _: called.release(), max_workers=1)
    worker.start()
    loop = worker._loop
    assert loop is not None
    transport = loop._transport
    assert isinstance(transport, HTTPTransport)
    for _ in range(2):
        assert called.acquire(timeout=FAILED_AFTER)

    async def wait() -> None:
        while transport.room():
            await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(wait(), FAILED_AFTER))
    assert len(server.answers["work"]) == 7
    assert not worker.stop(timedelta(0))


def test_large_results_are_told_apart(server: Scripted) -> None:
    server.answers["complete"] = [
        (200, {"answers": [{"problem": None}] * count}) for count in (4, 3)
    ]
    telling(server, *[Ending(result="x" * 60_000)] * 7)
    assert len(server.next("complete")[1]["completed"]) == 4
    assert len(server.next("complete")[1]["completed"]) == 3


def test_pauses_grow_and_differ() -> None:
    pauses = Pauses(longest=1)
    found = [pauses.next() for _ in range(20)]
    assert all(0.1 <= each <= 1.5 for each in found)
    assert min(found[4:]) >= 1
    assert len(set(found)) > 1
    pauses.reset()
    assert pauses.next() < 0.2
    assert Pauses().next(least=7) >= 7
