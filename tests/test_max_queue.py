"""How many of a definition may wait, over the real loops and over HTTP."""

from __future__ import annotations

import asyncio
import pickle
from dataclasses import replace
from typing import TYPE_CHECKING, Literal
from uuid import uuid4

import pytest

from go_scheduler import (
    Job,
    MemoryStore,
    OnDemandTrigger,
    QueueFullError,
    Scheduler,
    State,
    TaskDefinition,
)
from go_scheduler.client import Client
from go_scheduler.events import Event, InstanceAdded, InstanceSkipped, hears
from go_scheduler.http import create_app
from go_scheduler.http.problems import problem_of
from go_scheduler.http.remote_errors import RefusedError, error_of
from go_scheduler.testing.builders import HOUR, MINUTE
from go_scheduler.testing.clock import START
from go_scheduler.why import Because
from tests.http.serving import called

if TYPE_CHECKING:
    from go_scheduler import Store
    from go_scheduler.testing import ManualClock


DROPPING = TaskDefinition(
    trigger=OnDemandTrigger(),
    id=TaskDefinition.id_for("task send"),
    name="send",
    max_queue=2,
    when_full="drop",
)
REASON = "2 of it wait, and no more may (max_queue)"


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    """What this module is about is the same on any store."""
    return MemoryStore(clock)


def test_what_is_dropped_is_answered_and_told(clock: ManualClock, store: Store) -> None:
    told: list[Event] = []
    scheduler = Scheduler(
        print,
        store,
        clock=clock,
        listeners=[hears(InstanceAdded, InstanceSkipped)(told.append)],
    )
    scheduler.schedule(DROPPING)
    jobs = [
        Job(delay=MINUTE),
        *(Job(key=each) for each in "ab"),
        Job(delay=HOUR),
        Job(),
    ]
    found = scheduler.enqueue_all("send", jobs)
    assert [each.state for each in found] == [State.PENDING] * 2 + [State.SKIPPED] * 3
    [skipped] = [each for each in told if isinstance(each, InstanceSkipped)]
    assert (skipped.first, skipped.last) == (START, START + HOUR)
    assert (skipped.count, skipped.reason, skipped.late) == (3, REASON, False)
    assert (skipped.added, skipped.joined) == (True, False)
    assert len(told) == 3
    # It is known as dropped, and nothing more is told of it.
    assert scheduler.enqueue("send", key="b") == found[2]
    assert len(told) == 3
    assert scheduler.run_now(DROPPING.id).skipped is not None
    assert len(told) == 4


@pytest.mark.parametrize("when_full", ["refuse", "drop"])
def test_why_says_that_it_is_full(
    clock: ManualClock, store: Store, when_full: Literal["refuse", "drop"]
) -> None:
    client = Client(store)
    client.schedule(replace(DROPPING, when_full=when_full))
    client.enqueue("send", delay=MINUTE)
    assert "full" not in client.why(DROPPING.id).text
    client.enqueue("send", delay=MINUTE)
    becomes = "recorded as skipped" if when_full == "drop" else "refused"
    says = f" It is full: {REASON}. What is added now is {becomes}."
    assert says in client.why(DROPPING.id).text
    client.pause(DROPPING.id)
    assert says in client.why(DROPPING.id).text
    if when_full == "drop":
        lost = client.enqueue("send", delay=HOUR)
        why = client.why(lost.id)
        assert why.because is Because.SKIPPED
        assert why.text.startswith("What was to run at 2030-01-01 01:00:00 UTC was")
        assert why.reason == REASON


def test_over_http_what_is_dropped_is_created_and_skipped(clock: ManualClock) -> None:
    client = Client(MemoryStore(clock))
    client.schedule(DROPPING)
    client.enqueue_all("send", [None, None])

    async def asking() -> None:
        async with called(create_app(client)) as http:
            answer = await http.post(f"/v1/definitions/{DROPPING.id}/run", json={})
            assert (answer.status_code, answer.json()["state"]) == (201, "skipped")
            assert answer.json()["skipped"]["reason"] == REASON
            job = {"type": "send", "payload": {}, "key": "a"}
            for status in (201, 200):
                answer = await http.post("/v1/jobs", json=job)
                assert (answer.status_code, answer.json()["state"]) == (
                    status,
                    "skipped",
                )

    asyncio.run(asking())


def test_over_http_it_is_refused_and_may_be_tried_again() -> None:
    error = QueueFullError(uuid4(), 7)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    problem = problem_of(error)
    assert (problem.status, problem.slug) == (429, "queue-full")
    assert problem.headers == {"Retry-After": "2"}
    there = error_of(429, problem.body, None)
    assert isinstance(there, RefusedError)
    assert "max_queue" in str(there)
