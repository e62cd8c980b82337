"""How many of a definition may wait, over the real loops and over HTTP."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from go_scheduler import (
    CatchUp,
    DelayTrigger,
    IntervalTrigger,
    MemoryStore,
    OnDemandTrigger,
    QueueFullError,
    Scheduler,
    State,
    TaskDefinition,
)
from go_scheduler.firing.full import within_queue
from go_scheduler.http.problems import problem_of
from go_scheduler.http.remote_errors import RefusedError, error_of
from go_scheduler.models import Skipped
from go_scheduler.stores.messages import Firing
from go_scheduler.testing.builders import MINUTE, SECOND, definition
from go_scheduler.testing.clock import START
from tests.conftest import seconds
from tests.test_policies_overlap import Slow

if TYPE_CHECKING:
    from go_scheduler.testing import ManualClock


def test_what_fires_beyond_it_is_skipped_and_what_is_added_refused(
    clock: ManualClock,
) -> None:
    slow = Slow(clock)
    every = TaskDefinition(
        trigger=IntervalTrigger(MINUTE, anchor=START),
        catch_up=CatchUp(mode="all"),
        max_per_node=1,
        max_queue=2,
    )
    with Scheduler(
        slow.handle, MemoryStore(clock), executor=slow, clock=clock
    ) as scheduler:
        scheduler.schedule(every)
        scheduler.schedule(
            TaskDefinition(trigger=DelayTrigger(MINUTE), name="after", max_queue=1)
        )
        clock.advance(seconds(270))
        found = scheduler.list_instances(definition_id=every.id)
        states = [each.state for each in found if each.skipped is None]
        assert states.count(State.RUNNING) == 1
        assert len(states) == 3
        skipped = [each.skipped for each in found if each.skipped is not None]
        assert skipped
        assert {each.reason for each in skipped} == {
            "2 of it wait, and no more may (max_queue)"
        }
        with pytest.raises(QueueFullError):
            scheduler.run_now(every.id)
        task = TaskDefinition(trigger=OnDemandTrigger(), max_queue=1)
        scheduler.schedule(task)
        scheduler.run_now(task.id, delay=MINUTE)
        with pytest.raises(QueueFullError):
            scheduler.run_now(task.id)
        for each in slow.called:
            each.end()


def test_a_step_ends_where_there_is_no_more_room() -> None:
    times = (START, START + SECOND, START + 2 * SECOND)
    of = replace(definition(), max_queue=5)
    step = Firing(definition=of, fire_times=times, execute_times=times)
    assert within_queue(step, 3) is step
    shorter = within_queue(step, 2)
    assert shorter.fire_times == shorter.execute_times == times[:2]
    assert shorter.next_fire_time == times[2]
    assert shorter.skipped is None
    before = Skipped(first=START - MINUTE, last=START - SECOND, count=4, reason="late")
    none = within_queue(replace(step, skipped=before), -1)
    assert (none.fire_times, none.execute_times) == ((), ())
    assert none.skipped == Skipped(
        first=START - MINUTE,
        last=times[2],
        count=7,
        reason="late; 5 of it wait, and no more may (max_queue)",
    )


def test_over_http_it_is_refused_and_may_be_tried_again() -> None:
    error = QueueFullError(uuid4(), 7)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    problem = problem_of(error)
    assert (problem.status, problem.slug) == (429, "queue-full")
    assert problem.headers == {"Retry-After": "2"}
    there = error_of(429, problem.body, None)
    assert isinstance(there, RefusedError)
    assert "max_queue" in str(there)
