"""How the server and the store are, as they say themselves."""

from __future__ import annotations

import asyncio
import threading
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from pydantic import BaseModel, TypeAdapter

from go_scheduler import MemoryStore, Scheduler
from go_scheduler.client import Client
from go_scheduler.http import create_app
from go_scheduler.http.access.caller import Caller
from go_scheduler.http.access.rate_limits import Waiting
from go_scheduler.http.bodies.definitions import DefinitionAnswer, DefinitionBody
from go_scheduler.http.bodies.instances import BackfillBody, InstanceAnswer, RunBody
from go_scheduler.http.bodies.system import StatsAnswer
from go_scheduler.http.work.crews import Crews
from go_scheduler.models import State, counts
from go_scheduler.stores import open_store
from go_scheduler.testing import ManualClock
from go_scheduler.testing.builders import pending
from tests.conftest import seconds
from tests.http.serving import Calling, called
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from go_scheduler import Store, TaskDefinition


def test_a_process_that_lives_says_so(http: Calling) -> None:
    answer = http.get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


def test_routes_are_made_before_the_first_request(
    http: Calling, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has nothing to wait for; and two applications may have it at one time."""
    made: list[object] = []
    monkeypatch.setattr(TypeAdapter, "__init__", lambda _, of, **__: made.append(of))
    for path in ("/v1/definitions", "/v1/instances", "/v1/types", "/v1/stats"):
        assert (http.get(path).status_code, made) == (200, [])


def test_one_whose_store_answers_is_ready(http: Calling) -> None:
    answer = http.get("/readyz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


@pytest.mark.slow
def test_one_whose_store_is_away_is_not_and_says_no_more() -> None:
    with (
        closing(open_store("postgresql://x:secret@127.0.0.1:1/no")) as store,
        Calling(create_app(Client(store))) as http,
    ):
        assert http.get("/healthz").status_code == 200
        for path in ("/readyz", "/v1/stats", "/v1/definitions"):
            answer = http.get(path)
            assert answer.status_code == 503
            assert answer.headers["Retry-After"] == "2"
            assert answer.json()["type"] == "urn:go_scheduler:store-unavailable"
            for word in ("127.0.0.1", "secret", "psycopg", "sql"):
                assert word not in answer.text.lower()


class Counted(MemoryStore):
    """One that counts how often it is asked, and answers once it may."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.may = threading.Event()

    def list_definitions(self, **query: Any) -> Sequence[TaskDefinition]:
        self.asked += 1
        assert self.may.wait(FAILED_AFTER)
        return super().list_definitions(**query)


def test_the_store_is_asked_once_a_second_whether_it_answers() -> None:
    clock, store = ManualClock(), Counted()

    async def asking() -> None:
        async with called(create_app(Client(store), clock=clock)) as http:
            waiting = [asyncio.create_task(http.get("/readyz"))]
            while not store.asked:
                await asyncio.sleep(0.001)
            # However long it takes: there is one question at a time.
            clock.advance(timedelta(seconds=5))
            waiting += [asyncio.create_task(http.get("/readyz")) for _ in range(4)]
            for _ in range(100):
                await asyncio.sleep(0)
            store.may.set()
            assert {(await each).status_code for each in waiting} == {200}
            assert store.asked == 1
            for seconds, asked in [(0, 2), (0.9, 2), (0.2, 3)]:
                clock.advance(timedelta(seconds=seconds))
                assert (await http.get("/readyz")).status_code == 200
                assert store.asked == asked

    asyncio.run(asking())


def test_one_whose_scheduler_does_not_run_is_not_ready() -> None:
    clock = ManualClock()
    scheduler = Scheduler(lambda instance: None, MemoryStore(clock), clock=clock)
    with Calling(create_app(scheduler)) as http:
        assert http.get("/readyz").status_code == 503
        scheduler.start()
        assert http.get("/readyz").status_code == 200
        scheduler.stop()
        answer = http.get("/readyz")
        assert answer.status_code == 503
        assert answer.json()["type"] == "urn:go_scheduler:not-ready"


def test_how_much_there_is_is_told(store: Store, http: Calling) -> None:
    pending(store)
    stats = http.get("/v1/stats").json()
    assert stats["instances"]["pending"] == 1
    assert (stats["nodes"], stats["workers"]) == (0, None)
    answer = http.get("/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert 'go_scheduler_instances{state="pending"} 1.0\n' in answer.text
    assert "waiting_workers" not in answer.text


def test_of_more_than_is_counted_it_is_said() -> None:
    found = {
        State.PENDING: counts.Counted(count=5, more=True),
        State.RUNNING: counts.Counted(count=1),
    }
    answer = StatsAnswer.of(found, nodes=1, workers=None)
    assert answer.instances == {State.PENDING: 5, State.RUNNING: 1}
    assert answer.more == [State.PENDING]


def test_those_who_wait_for_work_are_counted() -> None:
    scheduler, waiting = Scheduler(None, MemoryStore()), Waiting()
    worker = Caller(subject="worker", scopes={"workers"})
    app = create_app(scheduler, work=Crews(scheduler, waiting=waiting))
    with Calling(app) as http, waiting.place(worker):
        assert http.get("/v1/stats").json()["workers"] == 1
        assert "go_scheduler_waiting_workers 1.0\n" in http.get("/metrics").text


def test_nodes_are_listed() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    with (
        Scheduler(lambda instance: None, store, clock=clock) as one,
        Scheduler(None, store, clock=clock),
        Calling(create_app(one)) as http,
    ):
        clock.advance(seconds(10))
        found = http.get("/v1/nodes").json()["items"]
        assert [each["alive"] for each in found] == [True, True]
        assert sorted(each["queues"] for each in found) == [[], ["default"]]
        assert http.get("/v1/stats").json()["nodes"] == 2


def test_a_trigger_is_previewed_without_being_stored(http: Calling) -> None:
    body: dict[str, Any] = {
        "trigger": {"phrase": "every weekday at 9:00", "timezone": "Europe/Berlin"},
        "n": 2,
        "after": "2030-01-01T00:00:00Z",
    }
    answer = http.post("/v1/preview", json=body)
    assert answer.status_code == 200, answer.text
    assert [each["at"] for each in answer.json()["times"]] == [
        "2030-01-01T08:00:00Z",
        "2030-01-02T08:00:00Z",
    ]
    assert answer.json()["description"] == "every weekday at 09:00 (Europe/Berlin)"
    del body["after"]
    assert len(http.post("/v1/preview", json=body).json()["times"]) == 2
    wrong = http.post("/v1/preview", json={"trigger": {"phrase": "now and then"}})
    assert wrong.status_code == 422
    assert wrong.json()["errors"][0]["field"] == "trigger.phrase"


def test_why_is_told_of_definitions_and_instances(store: Store, http: Calling) -> None:
    instance = pending(store)
    for id in (instance.id, instance.definition.id):
        answer = http.get("/v1/why", params={"definition_id": str(id)})
        assert answer.status_code == 200
        assert answer.json()["text"]
    nothing = http.get("/v1/why", params={"definition_id": str(uuid4())})
    assert nothing.status_code == 404


def test_it_describes_itself(http: Calling) -> None:
    described = http.get("/openapi.json").json()
    assert described == http.get("/openapi.json").json()
    # A type that the server runs is not deleted.
    assert "409" in described["paths"]["/v1/types/{type}"]["delete"]["responses"]
    assert described["openapi"].startswith("3.1")
    operations = {
        each["operationId"]: each
        for path in described["paths"].values()
        for each in path.values()
    }
    assert operations.keys() >= {
        "create_definition",
        "put_definition",
        "change_definition",
        "list_definitions",
        "run_now",
        "cancel",
        "preview",
        "why",
        "stats",
    }
    for operation in operations.values():
        for status, answer in operation["responses"].items():
            if int(status) >= 400:
                assert [*answer["content"]] == ["application/problem+json"]
    assert "412" in operations["put_definition"]["responses"]
    assert "HTTPValidationError" not in described["components"]["schemas"]


@pytest.mark.parametrize("path", ["/docs", "/redoc"])
def test_it_loads_nothing_from_elsewhere(http: Calling, path: str) -> None:
    assert http.get(path).status_code == 404


@pytest.mark.parametrize(
    "kind", [DefinitionBody, DefinitionAnswer, InstanceAnswer, RunBody, BackfillBody]
)
def test_what_it_shows_as_an_example_is_one(kind: type[BaseModel]) -> None:
    examples = kind.model_json_schema()["examples"]
    assert examples
    for example in examples:
        shown = kind.model_validate(example)
        assert shown.model_fields_set == example.keys()
