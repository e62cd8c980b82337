"""Edits hold: what was deleted, paused or cancelled is not called after that."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from go_scheduler import (
    Cancelled,
    Deleted,
    ExecuteOnceTrigger,
    Scheduler,
    State,
    TaskDefinition,
)
from go_scheduler.clock import SystemClock
from go_scheduler.events import InstanceStarted
from tests.behaviour.house import (
    MILLISECOND,
    SECOND,
    Later,
    ThreadedWorld,
    World,
    once,
    take,
    wait_until,
)
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from go_scheduler import Store, TaskInstance
    from go_scheduler.stores.rules import Removed

APART = 25 * MILLISECOND
EARLIEST = 40 * MILLISECOND
EDITS = ["delete", "pause", "cancel"]


def edit(scheduler: Scheduler, kind: str, definition_id: UUID) -> object:
    """Do this to the definition, or to its only instance."""
    if kind == "delete":
        return scheduler.delete_definition(definition_id)
    if kind == "pause":
        return scheduler.pause(definition_id)
    for instance in scheduler.list_instances(definition_id=definition_id):
        return scheduler.cancel(instance.id)
    return None


@pytest.mark.parametrize("kind", EDITS)
def test_what_is_edited_after_its_start_was_recorded_is_not_called(
    world: World, kind: str
) -> None:
    scheduler = world.node(world.note)
    definition = scheduler.schedule(once(2))
    world.advance(1.99)
    assert world.only().state is State.RUNNING
    answer = edit(scheduler, kind, definition.id)
    world.advance(10)
    assert world.called == []
    if kind == "delete":
        assert answer == Deleted(running=0)
        return
    assert world.only().runs == 0
    if kind == "cancel":
        assert answer is Cancelled.CANCELLED
        assert world.only().state is State.CANCELLED
    else:
        assert world.only().state is State.PENDING
        scheduler.resume(definition.id)
        world.advance(1)
        assert len(world.called) == 1


@pytest.mark.parametrize("kind", EDITS)
@pytest.mark.parametrize(
    ("call", "due"),
    [
        ("claim_instances", 2),
        ("start_instances", 2),
        # By these what is due is started as well.
        ("claim_instances", 0),
        ("fire_definitions and start", 0),
    ],
)
def test_what_is_edited_while_a_store_answers_is_not_called(
    world: World, kind: str, call: str, due: float
) -> None:
    client = world.scheduler(None)
    definition = client.schedule(once(due))
    if (call, due) == ("claim_instances", 0):
        maker = world.node(None, "maker")
        world.advance(1)
        maker.stop()
    node = world.scheduler(world.note)
    if due > 0:
        # By the first look it is made.
        node.start()
        world.advance(0)
    world.faults.meanwhile[call] = lambda: edit(client, kind, definition.id)
    node.start()
    world.advance(10)
    assert call not in world.faults.meanwhile
    assert world.called == []
    assert (node.health().waiting, node.health().busy) == (0, 0)


@pytest.mark.parametrize("kind", EDITS)
def test_what_is_edited_while_it_waits_for_a_worker_is_not_called(
    world: World, kind: str
) -> None:
    later = Later()
    scheduler = world.node(world.note, executor=later)
    definition = scheduler.schedule(once(2))
    world.advance(2)
    edit(scheduler, kind, definition.id)
    later.run()
    world.advance(10)
    assert world.called == []


@pytest.mark.parametrize("kind", EDITS)
def test_what_is_edited_while_it_is_put_and_started_in_one_is_not_called(
    threaded: ThreadedWorld, kind: str
) -> None:
    called: list[object] = []
    scheduler = threaded.node(called.append)
    definition, mark = threaded.now(), threaded.now()
    wait_until(
        lambda: all(each.last_good for each in scheduler.health().loops.values())
    )
    threaded.faults.meanwhile["put_definitions and start"] = lambda: edit(
        scheduler, kind, definition.id
    )
    scheduler.schedule(definition)
    scheduler.schedule(mark)
    threaded.heard.wait(InstanceStarted)
    assert scheduler.stop()
    assert [each.definition_id for each in threaded.heard.of(InstanceStarted)] == [
        mark.id
    ]


@pytest.mark.parametrize("removed", ["delete", "pause"])
def test_what_is_declared_no_more_is_not_called(world: World, removed: Removed) -> None:
    scheduler = world.node(world.note)
    named = replace(once(2), id=TaskDefinition.id_for("report"))
    scheduler.declare([named], owner="shop")
    world.advance(1.99)
    assert world.only().state is State.RUNNING
    scheduler.declare([], owner="shop", removed=removed)
    world.advance(10)
    assert world.called == []


def tries(store: Store, kind: str, count: int) -> dict[UUID, float]:
    """Edit at so many offsets, from 40 ms before the fire time to its instant.

    What was being called when the edit returned counts as called before, though its
    handler may come to note that only later.

    Returns:
        What was called after the edit had returned, and how many seconds after.
    """
    clock = SystemClock()
    called: dict[UUID, float] = {}
    returned: dict[UUID, float] = {}
    over = threading.Event()

    def handler(instance: TaskInstance) -> None:
        called[instance.definition.id] = clock.elapsed().total_seconds()
        if instance.definition.name == "last":
            over.set()

    with Scheduler(handler, store) as scheduler:
        first = clock.now() + SECOND
        times: list[tuple[datetime, UUID]] = []
        for number in range(count):
            at = first + APART * number
            definition = scheduler.schedule(one_off(at))
            times.append((at - EARLIEST * (number * 7 % count) / count, definition.id))
        scheduler.schedule(one_off(first + APART * (count + 4), name="last"))
        for edit_at, id in sorted(times):
            take(clock, edit_at - clock.now())
            # There may be nothing to cancel yet, or any more.
            if edit(scheduler, kind, id) and scheduler.health().busy == 0:
                returned[id] = clock.elapsed().total_seconds()
        assert over.wait(FAILED_AFTER)
    # Whatever was called has come back by now.
    late = {id: called[id] - returned[id] for id in called if id in returned}
    return {id: after for id, after in late.items() if after > 0}


def one_off(at: datetime, **options: str) -> TaskDefinition:
    """What fires then, and once."""
    return TaskDefinition(trigger=ExecuteOnceTrigger(at), **options)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("kind", EDITS)
@pytest.mark.parametrize("count", [25, pytest.param(170, marks=pytest.mark.chaos)])
def test_nothing_is_called_after_an_edit_has_returned(
    own_time_store: Store, kind: str, count: int
) -> None:
    assert tries(own_time_store, kind, count) == {}
