"""Health, metrics, counts and the description of a server."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import ExitStack, closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel, TypeAdapter

from go_scheduler import MemoryStore, Scheduler
from go_scheduler.client import Client
from go_scheduler.http import create_app
from go_scheduler.http.access.caller import Caller
from go_scheduler.http.bodies import (
    BackfillBody,
    DefinitionAnswer,
    DefinitionBody,
    InstanceAnswer,
    RunBody,
    StatsAnswer,
)
from go_scheduler.http.limits import Limits, Waiting
from go_scheduler.http.work.long_poll import LongPoll
from go_scheduler.models import State, counts
from go_scheduler.stores import open_store
from go_scheduler.stores.filters import Page
from go_scheduler.testing import ManualClock
from go_scheduler.testing.builders import pending
from tests.conftest import seconds
from tests.http.serving import (
    Calling,
    called,
    client_of,
    field_of,
    in_a_loop,
    is_problem,
)
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable

    from go_scheduler import TaskDefinition

SOON = timedelta(milliseconds=50)


def test_an_application_makes_its_routes_before_the_first_request(
    shared: Calling, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[object] = []
    monkeypatch.setattr(TypeAdapter, "__init__", lambda _, of, **__: made.append(of))
    for path in ("/v1/definitions", "/v1/instances", "/v1/types", "/v1/stats"):
        assert (shared.get(path).status_code, made) == (200, [])


@pytest.mark.slow
@pytest.mark.parametrize("is_silent", [False, True], ids=["refuses", "is silent"])
def test_while_the_store_is_away_the_server_lives_and_tells_no_secret(
    is_silent: bool,
) -> None:
    limits = Limits(answer=SOON, threads=2, calls=2) if is_silent else Limits()
    with ExitStack() as stack:
        port = 1
        if is_silent:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            port = listener.getsockname()[1]
        url = f"postgresql://x:secret@127.0.0.1:{port}/no"
        store = stack.enter_context(closing(open_store(url)))
        http = stack.enter_context(client_of(create_app(Client(store), limits=limits)))
        # The first calls of the silent store wait; later calls are refused at once.
        for _ in range(6 if is_silent else 1):
            assert http.get("/healthz").status_code == 200
            for path in ("/readyz", "/v1/stats", "/v1/definitions"):
                answer = http.get(path)
                assert is_problem(answer, 503, "store-unavailable")
                assert answer.headers["Retry-After"] == "2"
                for word in ("127.0.0.1", "secret", "psycopg", "sql"):
                    assert word not in answer.text.lower()


class Counted(MemoryStore):
    """Counts its reads, and answers once a test allows it."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.may_answer = threading.Event()

    def select_definitions(self, *where: Any, **page: Any) -> Page[TaskDefinition]:
        self.reads += 1
        assert self.may_answer.wait(FAILED_AFTER)
        return super().select_definitions(*where, **page)


@in_a_loop
async def test_readiness_asks_the_store_once_a_second_at_most() -> None:
    clock, store = ManualClock(), Counted()
    async with called(create_app(Client(store), clock=clock)) as http:
        waiting = [asyncio.create_task(http.get("/readyz"))]
        while not store.reads:
            await asyncio.sleep(0.001)
        # However long an answer takes, there is one read at a time.
        clock.advance(seconds(5))
        waiting += [asyncio.create_task(http.get("/readyz")) for _ in range(4)]
        for _ in range(100):
            await asyncio.sleep(0)
        store.may_answer.set()
        assert {(await each).status_code for each in waiting} == {200}
        assert store.reads == 1
        for passed, reads in [(0, 2), (0.9, 2), (0.2, 3)]:
            clock.advance(seconds(passed))
            assert (await http.get("/readyz")).status_code == 200
            assert store.reads == reads


def test_a_server_is_ready_while_its_scheduler_runs() -> None:
    clock = ManualClock()
    scheduler = Scheduler(lambda instance: None, MemoryStore(clock), clock=clock)
    with Calling(create_app(scheduler)) as http:
        assert http.get("/readyz").status_code == 503
        with scheduler:
            assert http.get("/readyz").status_code == 200
            clock.advance(seconds(10))
            assert http.get("/v1/stats").json()["nodes"] == 1
        assert is_problem(http.get("/readyz"), 503, "not-ready")


def test_instances_are_counted(
    http: Calling, memory: MemoryStore, clock: ManualClock
) -> None:
    due_at = pending(memory).due_at
    clock.advance(due_at + seconds(30) - clock.now())
    stats = http.get("/v1/stats").json()
    assert stats["instances"]["pending"] == 1
    assert (stats["nodes"], stats["workers"]) == (0, None)
    answer = http.get("/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert 'go_scheduler_instances{state="pending"} 1.0\n' in answer.text
    for name, value in (("backlog_age_seconds", 30.0), ("serving_nodes", 0.0)):
        assert f'go_scheduler_{name}{{queue="default"}} {value}\n' in answer.text
    assert "waiting_workers" not in answer.text


def test_a_bounded_count_says_that_there_are_more() -> None:
    found = {
        State.PENDING: counts.Counted(count=5, more=True),
        State.RUNNING: counts.Counted(count=1),
    }
    answer = StatsAnswer.counted(found, nodes=1, workers=None)
    assert answer.instances == {State.PENDING: 5, State.RUNNING: 1}
    assert answer.more == [State.PENDING]


def test_waiting_workers_are_counted(calling: Callable[..., Calling]) -> None:
    scheduler, waiting = Scheduler(None, MemoryStore()), Waiting()
    http = calling(scheduler, work=LongPoll(scheduler, waiting=waiting))
    with waiting.place(Caller(subject="worker", scopes={"workers"})):
        assert http.get("/v1/stats").json()["workers"] == 1
        assert "go_scheduler_waiting_workers 1.0\n" in http.get("/metrics").text


def test_a_trigger_is_previewed_without_being_stored(refusing: Calling) -> None:
    body: dict[str, Any] = {
        "trigger": {"phrase": "every weekday at 9:00", "timezone": "Europe/Berlin"},
        "n": 2,
    }
    answer = refusing.post(
        "/v1/preview", json=body | {"after": "2030-01-01T00:00:00Z"}
    ).json()
    times = [each["at"] for each in answer["times"]]
    assert times == ["2030-01-01T08:00:00Z", "2030-01-02T08:00:00Z"]
    assert answer["description"] == "every weekday at 09:00 (Europe/Berlin)"
    assert len(refusing.post("/v1/preview", json=body).json()["times"]) == 2
    wrong = refusing.post("/v1/preview", json={"trigger": {"phrase": "now and then"}})
    assert field_of(wrong) == "trigger.phrase"


def test_a_server_describes_itself(shared: Calling) -> None:
    described = shared.get("/openapi.json").json()
    assert described == shared.get("/openapi.json").json()
    assert described["openapi"].startswith("3.1")
    paths = described["paths"]
    # Nobody deletes a type that the server runs.
    assert "409" in paths["/v1/types/{type}"]["delete"]["responses"]
    assert "412" in paths["/v1/definitions/{id}"]["put"]["responses"]
    for operation in (each for path in paths.values() for each in path.values()):
        for status, answer in operation["responses"].items():
            if int(status) >= 400:
                assert [*answer["content"]] == ["application/problem+json"]
    assert "HTTPValidationError" not in described["components"]["schemas"]


@pytest.mark.parametrize("path", ["/docs", "/redoc"])
def test_no_page_loads_scripts_from_elsewhere(shared: Calling, path: str) -> None:
    assert shared.get(path).status_code == 404


@pytest.mark.parametrize(
    "kind", [DefinitionBody, DefinitionAnswer, InstanceAnswer, RunBody, BackfillBody]
)
def test_the_examples_of_bodies_are_valid(kind: type[BaseModel]) -> None:
    examples = kind.model_json_schema()["examples"]
    assert examples
    for example in examples:
        assert kind.model_validate(example).model_fields_set == example.keys()
