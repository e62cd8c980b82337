"""Work on demand: what is enqueued or run by hand starts at once, or at its time."""

from __future__ import annotations

import asyncio
import inspect
import pickle
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import event

from go_scheduler.client import Client
from go_scheduler.client.arguments import Job
from go_scheduler.errors import ConfigurationError, TaskDefinitionNotFoundError
from go_scheduler.events import Event, InstanceAdded
from go_scheduler.models import State, TaskDefinition
from go_scheduler.run import current_run
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.testing.builders import HOUR, MINUTE, NOBODY, SECOND, TICK
from go_scheduler.testing.clock import START, ManualClock
from go_scheduler.triggers.interval import IntervalTrigger
from go_scheduler.triggers.on_demand import OnDemandTrigger
from tests.conftest import SQL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.postgresql.store import PostgreSQLStore

SEND = TaskDefinition(
    trigger=OnDemandTrigger(), id=TaskDefinition.id_for("task send"), name="send"
)
NOW = timedelta(0)
# While nothing is to happen, for hours.
SELDOM: dict[str, Any] = {"schedule_window": MINUTE, "runner_window": MINUTE}


@pytest.fixture
def client(clock: ManualClock) -> Client:
    return Client(MemoryStore(clock))


def test_what_is_enqueued_for_later_runs_then(clock: ManualClock) -> None:
    seen: list[object] = []

    def note(instance: TaskInstance) -> None:
        seen.append((instance.payload, clock.now()))

    with Scheduler(note, MemoryStore(clock), clock=clock, **SELDOM) as scheduler:
        scheduler.schedule(SEND)
        scheduler.enqueue("send", at=START + HOUR, n=1)
        scheduler.enqueue("send", delay=2 * HOUR, n=2)
        scheduler.run_now(SEND.id, delay=3 * HOUR, payload={"n": 3})
        clock.advance(3 * HOUR)
    assert seen == [({"n": each}, START + each * HOUR) for each in (1, 2, 3)]


def test_of_many_each_has_its_own_time_and_key(client: Client) -> None:
    client.schedule(SEND)
    known = client.enqueue("send", key="order 7")
    jobs: list[Job | dict[str, object] | None] = [
        Job(payload={"order": 8}, at=START + HOUR, key="order 8"),
        Job(payload={"order": 9}, delay=HOUR),
        Job(key="order 7"),
        {"order": 10},
        None,
    ]
    found = client.enqueue_all("send", jobs)
    assert [each.payload for each in found] == [
        {"order": 8},
        {"order": 9},
        None,
        {"order": 10},
        None,
    ]
    assert [each.execute_at - START for each in found[:2]] == [HOUR, HOUR]
    made = [
        each.id == job.id
        for each, job in zip(found, jobs, strict=True)
        if isinstance(job, Job)
    ]
    assert (made, found[2]) == ([True, True, False], known)


@pytest.mark.parametrize(
    ("job", "text"),
    [
        (Job(at=START, delay=SECOND), "by at or by delay"),
        (Job(id="one"), "id must be a UUID"),  # type: ignore[arg-type]
        (Job(key=""), "key must have 1 to 200 characters"),
    ],
)
def test_a_job_that_cannot_be_is_refused_with_all_others(job: Job, text: str) -> None:
    client = Client(MemoryStore())
    client.schedule(SEND)
    with pytest.raises(ConfigurationError, match=text):
        client.enqueue_all("send", [{}, job])
    assert client.counts()[State.PENDING] == 0


def test_a_task_that_is_missing_is_named_with_how_to_make_it(client: Client) -> None:
    with pytest.raises(TaskDefinitionNotFoundError) as caught:
        client.enqueue("send")
    error = caught.value
    assert str(error) == (
        "there is no task 'send': it is made by @handlers.task('send') when"
        " a scheduler with these handlers starts, or by schedule() of a"
        " TaskDefinition(trigger=OnDemandTrigger(),"
        " id=TaskDefinition.id_for('task send'), name='send')"
    )
    assert (error.definition_id, error.task) == (SEND.id, "send")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.task) == (str(error), "send")
    with pytest.raises(TaskDefinitionNotFoundError, match="no task 'send'"):
        client.enqueue_all("send", [{}])
    with pytest.raises(TaskDefinitionNotFoundError, match=f"has the id {NOBODY}"):
        client.run_now(NOBODY)
    assert client.list_definitions() == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"at": START, "delay": SECOND}, "by at or by delay"),
        ({"delay": -SECOND}, "delay must be at least 0 s"),
        ({"delay": 5}, "delay must be a timedelta"),
        ({"at": START.replace(tzinfo=None)}, "at has no time zone"),
        ({"payload": {}, "order": 7}, "by keyword, not both"),
        ({"payload": [1]}, "payload must be a mapping"),
        ({"order": float("nan")}, r"payload\['order'\] is nan"),
        ({"key": ""}, "key must have 1 to 200 characters"),
        ({"key": "\0"}, "key holds a NUL"),
    ],
)
def test_what_cannot_be_enqueued_is_refused(
    arguments: dict[str, Any], text: str
) -> None:
    client = Client(MemoryStore())
    client.schedule(SEND)
    with pytest.raises(ConfigurationError, match=text):
        client.enqueue("send", **arguments)
    assert client.counts()[State.PENDING] == 0


def test_a_name_that_none_can_be_is_refused() -> None:
    client = Client(MemoryStore())
    for name in (7, "", "x" * 201):
        with pytest.raises(ConfigurationError, match="name must"):
            client.enqueue(name)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="definition_id must be a UUID"):
        client.run_now("send")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="by at or by delay"):
        client.run_now(SEND.id, at=START, delay=SECOND)
    with pytest.raises(ConfigurationError, match="payloads must be several"):
        client.enqueue_all("send", 7)  # type: ignore[arg-type]


def test_a_run_by_hand_is_once_more_and_moves_no_schedule(clock: ManualClock) -> None:
    seen: list[TaskInstance] = []
    with Scheduler(seen.append, MemoryStore(clock), clock=clock, **SELDOM) as scheduler:
        every = scheduler.schedule(
            TaskDefinition(trigger=IntervalTrigger(HOUR, anchor=START))
        )
        clock.advance(SECOND)
        scheduler.run_now(every.id, payload={"by": "hand"})
        clock.advance(SECOND)
        assert [each.payload for each in seen] == [{"by": "hand"}]
        assert scheduler.get_definition(every.id) == every
        clock.advance(HOUR)
    assert [each.fire_time for each in seen] == [None, START + HOUR]


def test_a_handler_enqueues_what_follows(clock: ManualClock) -> None:
    seen: list[object] = []

    def count_down(instance: TaskInstance) -> None:
        assert instance.payload is not None
        seen.append(left := instance.payload["left"])
        assert isinstance(left, int)
        assert current_run().instance.payload == instance.payload
        if left:
            scheduler.enqueue("send", left=left - 1)

    with Scheduler(count_down, MemoryStore(clock), clock=clock) as scheduler:
        scheduler.schedule(SEND)
        scheduler.enqueue("send", left=3)
        clock.advance(SECOND)
    assert seen == [3, 2, 1, 0]


def test_each_that_was_made_is_told_of(clock: ManualClock) -> None:
    heard: list[Event] = []
    store = MemoryStore(clock)
    with Scheduler(None, store, clock=clock, listeners=[heard.append]) as scheduler:
        scheduler.schedule(SEND)
        first = scheduler.enqueue("send", key="k", delay=HOUR)
        scheduler.enqueue("send", key="k")
        clock.advance(SECOND)
    assert [each for each in heard if isinstance(each, InstanceAdded)] == [
        InstanceAdded(
            definition_id=SEND.id,
            name="send",
            queue="default",
            instance_id=first.id,
            execute_at=START + HOUR,
            key="k",
            joined=False,
        )
    ]


def test_the_awaitable_forms_do_the_same(client: Client) -> None:
    client.schedule(SEND)

    async def enqueue() -> None:
        await client.aenqueue("send", order=7)
        await client.aenqueue_all("send", [{"order": 8}])
        await client.arun_now(SEND.id, payload={"order": 9})

    asyncio.run(enqueue())
    found = client.list_instances(definition_id=SEND.id)
    assert sorted(str(each.payload) for each in found) == [
        "{'order': 7}",
        "{'order': 8}",
        "{'order': 9}",
    ]
    assert inspect.signature(client.aenqueue) == inspect.signature(client.enqueue)


@contextmanager
def counted(store: PostgreSQLStore) -> Iterator[list[str]]:
    executed: list[str] = []

    def note(connection: object, cursor: object, statement: str, *_: object) -> None:
        executed.append(statement)

    # On SQLite several lanes have one engine.
    engines = {*store._database._engines.values()}
    for engine in engines:
        event.listen(engine, "before_cursor_execute", note)
    yield executed
    for engine in engines:
        event.remove(engine, "before_cursor_execute", note)


@pytest.mark.parametrize("engine", SQL[1:], indirect=True)
def test_to_enqueue_to_a_task_that_is_known_is_one_statement(
    store: PostgreSQLStore,
) -> None:
    client = Client(store)
    client.schedule(SEND)
    client.enqueue("send", order=6)
    with counted(store) as executed:
        client.enqueue("send", order=7)
        client.enqueue("send", order=8, key="k", delay=TICK)
        client.enqueue_all("send", [{"order": number} for number in range(100)])
    assert len(executed) == 3
    assert all("INSERT INTO task_instances" in each for each in executed)
