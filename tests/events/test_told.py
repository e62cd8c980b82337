"""What events say of each happening, and what listeners may do.

That each event is told at its happening, under faults as well, is tested with the
behaviour that it is of.
"""

from __future__ import annotations

import asyncio
import threading
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import create_engine

from go_scheduler import (
    ExecuteOnceTrigger,
    HandlerRegistry,
    RetryPolicy,
    Scheduler,
    TaskDefinition,
    node,
)
from go_scheduler.clock import ZERO, SystemClock
from go_scheduler.events import (
    Change,
    DefinitionChanged,
    DefinitionDeleted,
    DefinitionScheduled,
    Event,
    InstanceCancelRequested,
    InstanceClaimed,
    InstanceEvent,
    InstanceFinished,
    InstanceGivenBack,
    InstanceStarted,
    NodeStarted,
    NodeStopped,
    NoticeGiven,
    RunEnded,
    event_bus,
    hears,
)
from go_scheduler.models import Cancelled, Outcome, TaskInstance
from go_scheduler.run import HandedOn
from go_scheduler.testing.builders import SECOND
from go_scheduler.testing.clock import START
from tests.events.house import House
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from go_scheduler.stores.base import Store
    from go_scheduler.testing import ManualClock

LISTENER = "go_scheduler listener"


@pytest.fixture
def house(clock: ManualClock, store: Store) -> House:
    return House(clock, store)


def once(at: datetime = START + SECOND) -> TaskDefinition:
    return TaskDefinition(
        trigger=ExecuteOnceTrigger(at),
        name="report",
        retry=RetryPolicy(max_attempts=2, delay=10 * SECOND),
    )


def test_each_change_of_a_definition_is_told(house: House) -> None:
    scheduler = house.scheduler
    stored = [scheduler.schedule(once()) for _ in range(3)]
    assert house.of(DefinitionScheduled)[0] == DefinitionScheduled(
        definition_id=stored[0].id,
        name="report",
        queue="default",
        next_fire_time=START + SECOND,
        revision=stored[0].revision,
        joined=False,
    )
    scheduler.pause(stored[0].id, "a holiday")
    scheduler.resume(stored[0].id)
    changes = [(e.definition_id, e.change, e.note) for e in house.of(DefinitionChanged)]
    assert changes == [
        (stored[0].id, Change.PAUSED, "a holiday"),
        (stored[0].id, Change.RESUMED, None),
    ]
    for _ in range(2):
        scheduler.delete_definition(stored[0].id)
    scheduler.delete_definitions(metadata={})
    first, *others = (each.definition_id for each in house.of(DefinitionDeleted))
    assert first == stored[0].id
    assert sorted(others) == sorted(each.id for each in stored[1:])


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_what_is_scheduled_in_a_transaction_is_told_to_be_so(
    house: House, store_url: str
) -> None:
    engine = create_engine(store_url)
    house.scheduler.check()
    with engine.begin() as connection:
        house.scheduler.schedule(once(), connection=connection)
    engine.dispose()
    assert house.one(DefinitionScheduled).joined


def test_a_run_is_told_from_its_claim_to_its_end(
    clock: ManualClock, store: Store
) -> None:
    def handler(_: TaskInstance) -> None:
        condition = threading.Condition()
        with condition:
            clock.wait(condition, clock.elapsed() + 2 * SECOND)

    house = House(clock, store, handler)
    stored = house.scheduler.schedule(once())
    with house.scheduler:
        clock.advance(2 * SECOND)
    [claimed, *_] = found = house.of(InstanceEvent)
    at = START + SECOND
    of: Any = {
        "instance_id": claimed.instance_id,
        "attempt": 1,
        "definition_id": stored.id,
        "name": "report",
        "queue": "default",
    }
    done: Any = {"took": 2 * SECOND, "outcome": Outcome.COMPLETED}
    assert found == [
        InstanceClaimed(**of, due_at=at),
        InstanceStarted(**of, fire_time=at, execute_at=at, started_at=at, late=ZERO),
        RunEnded(**of, **done, late=ZERO, retry_in=None),
        InstanceFinished(**of, **done, started_at=at, error=None),
    ]


def test_what_has_no_handler_here_is_noticed_with_its_ids(
    clock: ManualClock, store: Store
) -> None:
    house = House(clock, store, HandlerRegistry())
    stored = house.scheduler.schedule(once())
    with house.scheduler:
        clock.advance(2 * SECOND)
    given_back = house.of(InstanceGivenBack)[0]
    _, notice = house.of(NoticeGiven)
    assert notice.text == f"{given_back.reason}; such instances are given back"
    assert notice.definition_id == stored.id
    assert notice.instance_id == given_back.instance_id
    assert house.of(InstanceClaimed) == []


def test_a_run_was_asked_to_stop(clock: ManualClock, store: Store) -> None:
    house = House(clock, store, lambda _: HandedOn(worker="anna"))
    told: list[Event] = []
    with house.scheduler as scheduler:
        with scheduler._hub.told(told.append, InstanceCancelRequested):
            scheduler.schedule(once(START))
            clock.advance(SECOND)
            [instance] = scheduler.list_instances()
            assert scheduler.cancel(instance.id) is Cancelled.REQUESTED
        scheduler.cancel(instance.id)
    first, again = house.of(InstanceCancelRequested)
    assert first == again
    assert told == [first]
    assert (first.instance_id, first.attempt) == (instance.id, instance.attempt)
    assert first.worker == "anna"


def test_a_start_and_a_stop_are_told(house: House) -> None:
    with house.scheduler:
        node = house.scheduler.health().node
    assert node is not None
    started = NodeStarted(node=node, queues=("default",), max_workers=32)
    assert house.told == [started, NodeStopped(node=node, clean=True)]


def test_one_without_a_handler_serves_no_queue_and_says_so(
    clock: ManualClock, store: Store
) -> None:
    told: list[Event] = []
    with Scheduler(None, store, clock=clock, listeners=[told.append]):
        pass
    notice, started = told[:2]
    assert isinstance(notice, NoticeGiven)
    assert notice.is_warning
    assert notice.text.startswith("this scheduler has no handler")
    assert isinstance(started, NodeStarted)
    assert started.queues == ()


@pytest.mark.parametrize("stops", [False, True])
def test_a_listener_in_place_may_start_its_scheduler(
    clock: ManualClock, store: Store, stops: bool
) -> None:
    told: list[NodeStarted] = []

    @hears(NodeStarted)
    def start(event: NodeStarted) -> None:
        told.append(event)
        if len(told) == 1:
            assert not (stops and scheduler.stop())
            scheduler.start()

    scheduler = Scheduler(print, store, clock=clock, listeners=[start])
    starting = threading.Thread(target=scheduler.start, daemon=True)
    starting.start()
    starting.join(FAILED_AFTER)
    assert not starting.is_alive()
    clock.advance(SECOND)
    assert scheduler.health().ok
    assert scheduler.health().node == told[-1].node
    assert len(told) == 1 + stops
    assert scheduler.stop()


def test_in_real_time_a_stop_is_heard_and_leaves_no_thread() -> None:
    told: list[Event] = []
    before = set(threading.enumerate())
    with Scheduler(print, listeners=[told.append]):
        pass
    assert [type(each) for each in told] == [NodeStarted, NodeStopped]
    started = set(threading.enumerate()) - before
    assert not [each for each in started if each.name.startswith(LISTENER)]


def test_a_listener_that_blocks_delays_no_run_and_no_stop_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(node, "_LISTENING", timedelta(milliseconds=10))
    goes_on, ran = threading.Event(), threading.Event()

    def block(_: Event) -> None:
        assert goes_on.wait(FAILED_AFTER)

    with Scheduler(lambda _: ran.set(), listeners=[block]) as scheduler:
        scheduler.schedule(once(SystemClock().now()))
        assert ran.wait(FAILED_AFTER)
    assert not goes_on.is_set()
    goes_on.set()


def test_what_a_listener_is_too_slow_for_is_counted_in_the_health(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_bus, "MOST_WAITING", 0)
    scheduler = Scheduler(print, listeners=[print])
    for _ in range(3):
        scheduler.schedule(once(SystemClock().now()))
    assert scheduler.health().events_dropped == 3


def test_an_event_loop_goes_on_while_a_listener_hears_of_the_stop() -> None:
    goes_on = threading.Event()

    def block(event: Event) -> None:
        if isinstance(event, NodeStopped):
            assert goes_on.wait(FAILED_AFTER)

    async def live() -> None:
        loop = asyncio.get_running_loop()
        async with Scheduler(print, listeners=[block]):
            loop.call_later(0.01, goes_on.set)

    asyncio.run(live())
    assert goes_on.is_set()
