"""Work on demand: what is enqueued or run by hand starts at once, or at its time."""

from __future__ import annotations

import pickle
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler.client import Client
from go_scheduler.client.on_demand import Job
from go_scheduler.errors import ConfigurationError, TaskDefinitionNotFoundError
from go_scheduler.events import Event, InstanceAdded
from go_scheduler.models import State, TaskDefinition
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.testing.builders import HOUR, NOBODY, SECOND
from go_scheduler.testing.clock import START, ManualClock
from go_scheduler.triggers.simple import OnDemandTrigger

if TYPE_CHECKING:
    from collections.abc import Callable


SEND = TaskDefinition(
    trigger=OnDemandTrigger(), id=TaskDefinition.id_for("task send"), name="send"
)


@pytest.fixture
def client(clock: ManualClock) -> Client:
    return Client(MemoryStore(clock))


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
        (Job(at=START, delay=SECOND), "by at or by delay"),
        (Job(id="one"), "id must be a UUID"),  # type: ignore[arg-type]
        (Job(key=""), "key must have 1 to 200 characters"),
        (Job(overrides={"priority": 4}), "priority must be"),
        (Job(overrides={"retry": 3}), "retry must be a RetryPolicy"),
        (Job(overrides={"overlap": "skip"}), "overrides has 'overlap'.* queue, prior"),
        (Job(overrides=[7]), "overrides must be a Mapping"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_enqueued_is_refused_with_all_others(
    arguments: dict[str, Any] | Job, text: str
) -> None:
    client = Client(MemoryStore())
    client.schedule(SEND)
    call: Callable[[], object] = partial(client.enqueue_all, "send", [{}, arguments])
    if not isinstance(arguments, Job):
        call = partial(client.enqueue, "send", **arguments)
    with pytest.raises(ConfigurationError, match=text):
        call()
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


def test_a_job_may_have_settings_of_its_own(clock: ManualClock) -> None:
    of = replace(SEND, timeout=SECOND)
    with Scheduler(None, MemoryStore(clock), clock=clock) as scheduler:
        scheduler.schedule(of)
        own = {"queue": "slow", "priority": None, "metadata": {"a": [1]}}
        [plain, made] = scheduler.enqueue_all("send", [{}, Job(overrides=own)])
        assert (plain.overrides, plain.definition) == (None, of)
        assert made.overrides == {"queue": "slow", "metadata": {"a": [1]}}
        assert made.definition == replace(of, queue="slow", metadata={"a": [1]})
        assert pickle.loads(pickle.dumps(made)) == made
