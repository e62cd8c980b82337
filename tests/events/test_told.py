"""Each event is told at its happening, by the loops of a scheduler and its calls."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar

import pytest

from go_scheduler import (
    CatchUp,
    DelayTrigger,
    ExecuteOnceTrigger,
    IntervalTrigger,
    Scheduler,
    TaskDefinition,
    Trigger,
    node,
)
from go_scheduler.clock import SystemClock
from go_scheduler.errors import StoreUnavailableError
from go_scheduler.events import (
    Change,
    DefinitionChanged,
    DefinitionCompleted,
    DefinitionDeleted,
    DefinitionLocked,
    DefinitionScheduled,
    DefinitionSetAside,
    Event,
    InstanceCancelRequested,
    InstanceCreated,
    InstanceFinished,
    InstanceSkipped,
    LoopFailed,
    LoopRecovered,
    NodeStarted,
    NodeStopped,
    NoticeGiven,
    QueueUnserved,
    StoreAway,
    StoreBack,
    delivery,
    hears,
)
from go_scheduler.firing import definition_scheduler
from go_scheduler.models import Cancelled, Outcome, TaskInstance
from go_scheduler.run import HandedOn
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.stores.messages import Answer
from go_scheduler.testing.builders import HOUR, SECOND
from go_scheduler.testing.clock import START
from tests.events.house import House
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import Firing
    from go_scheduler.testing import ManualClock


LISTENER = "go_scheduler listener"


@pytest.fixture
def house(clock: ManualClock, store: Store) -> House:
    return House(clock, store)


def once(at: datetime = START + SECOND, name: str | None = "report") -> TaskDefinition:
    return TaskDefinition(trigger=ExecuteOnceTrigger(at), name=name)


class TestDefinitions:
    def test_what_is_scheduled_is_told_with_what_the_store_made_of_it(
        self, house: House
    ) -> None:
        stored = house.scheduler.schedule(once())
        assert house.one(DefinitionScheduled) == DefinitionScheduled(
            definition_id=stored.id,
            name="report",
            queue="default",
            next_fire_time=START + SECOND,
            revision=stored.revision,
            joined=False,
        )

    def test_a_pause_and_its_end_are_told(self, house: House) -> None:
        stored = house.scheduler.schedule(once())
        house.scheduler.pause(stored.id, "a holiday")
        house.scheduler.resume(stored.id)
        paused, resumed = house.of(DefinitionChanged)
        assert (paused.change, paused.note) == (Change.PAUSED, "a holiday")
        assert (resumed.change, resumed.note) == (Change.RESUMED, None)
        assert paused.definition_id == resumed.definition_id == stored.id

    def test_what_is_deleted_is_told_if_it_was_there(self, house: House) -> None:
        scheduler = house.scheduler
        stored = [scheduler.schedule(once()) for _ in range(3)]
        scheduler.delete_definition(stored[0].id)
        scheduler.delete_definition(stored[0].id)
        scheduler.delete_definitions(metadata={})
        ids = [each.definition_id for each in house.of(DefinitionDeleted)]
        assert ids[0] == stored[0].id
        assert set(ids[1:]) == {each.id for each in stored[1:]}
        assert len(ids) == 3

    def test_one_that_fires_no_more_is_completed_when_its_last_instance_is_made(
        self, house: House, clock: ManualClock
    ) -> None:
        stored = house.scheduler.schedule(once(START + 5 * SECOND))
        with house.scheduler:
            clock.advance(SECOND)
            assert house.of(InstanceCreated) == []
            clock.advance(3 * SECOND)
            created = house.one(InstanceCreated)
            assert created.fire_time == START + 5 * SECOND
            assert created.definition_id == stored.id
            assert house.one(DefinitionCompleted).definition_id == stored.id

    def test_each_fire_time_has_its_instance_and_those_that_were_missed_one(
        self, house: House, clock: ManualClock
    ) -> None:
        trigger = IntervalTrigger(SECOND)
        grace = CatchUp(grace=SECOND)
        house.scheduler.schedule(TaskDefinition(trigger=trigger, catch_up=grace))
        clock.advance(10 * SECOND)
        with house.scheduler:
            clock.advance(SECOND)
        skipped = house.one(InstanceSkipped)
        assert (skipped.first, skipped.last) == (START + SECOND, START + 8 * SECOND)
        assert skipped.count == 8
        assert skipped.reason.startswith("missed by more than the grace of 0:00:01")
        fire_times = [each.fire_time for each in house.of(InstanceCreated)]
        assert fire_times == [START + each * SECOND for each in range(9, 15)]
        assert house.of(DefinitionCompleted) == []

    def test_one_that_waits_is_not_completed_by_its_firing(
        self, house: House, clock: ManualClock
    ) -> None:
        trigger = DelayTrigger(3 * SECOND)
        house.scheduler.schedule(TaskDefinition(trigger=trigger))
        with house.scheduler:
            clock.advance(SECOND)
        assert len(house.of(InstanceCreated)) == 1
        assert house.of(DefinitionCompleted) == []

    def test_a_run_was_asked_to_stop(self, clock: ManualClock, store: Store) -> None:
        def handler(instance: TaskInstance) -> HandedOn:
            return HandedOn(worker="anna")

        house = House(clock, store, handler)
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

    def test_a_cancelled_instance_has_finished(
        self, house: House, clock: ManualClock, store: Store
    ) -> None:
        stored = house.scheduler.schedule(once(START + 2 * SECOND))
        with Scheduler(None, store, clock=clock):
            clock.advance(SECOND)
        [instance] = house.scheduler.list_instances(definition_id=stored.id)
        house.scheduler.cancel(instance.id)
        house.scheduler.cancel(instance.id)
        finished = house.one(InstanceFinished)
        assert finished.outcome is Outcome.CANCELLED
        assert finished.instance_id == instance.id
        assert (finished.started_at, finished.took, finished.error) == (None,) * 3


@dataclass(frozen=True)
class Broken(Trigger):
    kind: ClassVar[str] = "tests.events.broken"

    def next_fire_time(self, after: datetime) -> datetime | None:
        if after > START + SECOND:
            raise ZeroDivisionError("by zero")
        return after + SECOND


class Faulty(MemoryStore):
    """Fails, and has locked rows, as it is told."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.is_away = False
        self.locked: set[UUID] = set()

    def now(self) -> datetime:
        self._reach()
        return super().now()

    def due_definitions(
        self, *, ahead: timedelta, after: TaskDefinition | None = None, limit: int
    ) -> Sequence[TaskDefinition]:
        self._reach()
        return super().due_definitions(ahead=ahead, after=after, limit=limit)

    def fire_definitions(self, firings: Sequence[Firing]) -> Answer[set[UUID]]:
        free = [each for each in firings if each.definition.id not in self.locked]
        return Answer(
            done={*super().fire_definitions(free).done},
            busy={each.definition.id for each in firings} & self.locked,
        )

    def _reach(self) -> None:
        if self.is_away:
            raise StoreUnavailableError("no route to the host")


class TestNodes:
    @pytest.fixture
    def store(self, clock: ManualClock) -> Faulty:
        return Faulty(clock)

    def test_a_start_and_a_stop_are_told(self, house: House) -> None:
        with house.scheduler:
            node = house.scheduler.health().node
        started = house.one(NodeStarted)
        assert started == NodeStarted(
            node=started.node, queues=("default",), max_workers=32
        )
        assert started.node == node
        assert house.told[-1] == NodeStopped(node=started.node, clean=True)

    def test_a_listener_in_place_may_stop_its_scheduler(
        self, clock: ManualClock, store: Store
    ) -> None:
        @hears(InstanceCreated)
        def stop(_: InstanceCreated) -> None:
            assert not scheduler.stop()

        scheduler = Scheduler(print, store, clock=clock, listeners=[stop])
        scheduler.start()
        scheduler.schedule(once())
        clock.advance(SECOND)
        assert scheduler.health().trouble == "it has been stopped"

    @pytest.mark.parametrize("stops", [False, True])
    def test_a_listener_in_place_may_start_its_scheduler(
        self, clock: ManualClock, store: Store, stops: bool
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

    def test_one_without_a_handler_serves_no_queue_and_says_so(
        self, clock: ManualClock, store: Store
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

    def test_what_is_scheduled_where_nobody_may_run_it_is_noticed_once(
        self, house: House
    ) -> None:
        for _ in range(2):
            house.scheduler.schedule(replace(once(), queue="mail"))
        notice = house.one(NoticeGiven)
        assert notice.text.startswith("queue 'mail' is not among those")
        assert not notice.is_warning

    def test_a_queue_that_no_node_serves_is_told(
        self, house: House, clock: ManualClock
    ) -> None:
        house.scheduler.schedule(replace(once(), queue="mail"))
        with house.scheduler:
            clock.advance(timedelta(minutes=3))
        unserved = house.one(QueueUnserved)
        assert unserved.queue == "mail"
        assert unserved.text.startswith("queue 'mail' is served by no node")

    def test_a_store_that_is_away_is_told_with_the_loops_that_miss_it(
        self, house: House, clock: ManualClock, store: Faulty
    ) -> None:
        with house.scheduler:
            clock.advance(SECOND)
            store.is_away = True
            clock.advance(2 * SECOND)
            away = house.one(StoreAway)
            assert away.loop == "definition scheduler"
            assert "no route to the host" in away.error
            failures = [
                each.failures for each in house.of(LoopFailed) if each.loop == away.loop
            ]
            assert failures == list(range(1, len(failures) + 1))
            store.is_away = False
            clock.advance(10 * SECOND)
            recovered = house.of(LoopRecovered)
            assert LoopRecovered(loop=away.loop, failures=len(failures)) in recovered
            assert SECOND < house.one(StoreBack).away < 10 * SECOND

    def test_a_definition_that_cannot_fire_is_told_when_it_is_set_aside(
        self, house: House, clock: ManualClock
    ) -> None:
        stored = house.scheduler.schedule(TaskDefinition(trigger=Broken()))
        with house.scheduler:
            clock.advance(5 * SECOND)
        aside = house.one(DefinitionSetAside)
        assert aside.definition_id == stored.id
        assert aside.retry_in == timedelta(minutes=1)
        assert isinstance(aside.exception, ZeroDivisionError)
        assert "by zero" in aside.error

    def test_a_definition_that_is_locked_for_long_is_told(
        self, house: House, clock: ManualClock, store: Faulty
    ) -> None:
        stored = house.scheduler.schedule(once())
        store.locked.add(stored.id)
        with house.scheduler:
            clock.advance(5 * SECOND)
        assert house.one(DefinitionLocked).definition_id == stored.id


def test_what_nobody_hears_is_not_made(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> None:
        raise AssertionError("nobody hears this")

    for name in ("InstanceCreated", "InstanceSkipped", "DefinitionCompleted"):
        monkeypatch.setattr(definition_scheduler, name, refuse)
    scheduler = Scheduler(print, MemoryStore(clock), clock=clock)
    trigger = IntervalTrigger(SECOND)
    scheduler.schedule(once(START + HOUR))
    scheduler.schedule(TaskDefinition(trigger=trigger, catch_up=CatchUp(grace=SECOND)))
    clock.advance(HOUR - SECOND)
    with scheduler:
        clock.advance(SECOND)
        assert all(each.ok for each in scheduler.health().loops.values())


class TestInRealTime:
    def test_a_stop_is_heard_and_leaves_no_thread(self) -> None:
        told: list[Event] = []

        def listen(event: Event) -> None:
            told.append(event)

        before = set(threading.enumerate())
        with Scheduler(print, listeners=[listen]):
            pass
        assert [type(each) for each in told] == [NodeStarted, NodeStopped]
        started = set(threading.enumerate()) - before
        assert not [each for each in started if each.name.startswith(LISTENER)]

    def test_a_listener_that_blocks_delays_no_run_and_no_stop_for_long(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(node, "_LISTENING", timedelta(milliseconds=10))
        goes_on, ran = threading.Event(), threading.Event()

        def block(_: Event) -> None:
            assert goes_on.wait(FAILED_AFTER)

        scheduler = Scheduler(lambda _: ran.set(), listeners=[block])
        with scheduler:
            scheduler.schedule(once(SystemClock().now()))
            assert ran.wait(FAILED_AFTER)
        assert not goes_on.is_set()
        goes_on.set()

    def test_a_listener_may_stop_its_scheduler(self) -> None:
        answers: list[bool] = []
        stopped = threading.Event()

        @hears(NodeStarted)
        def stop(_: NodeStarted) -> None:
            answers.append(scheduler.stop())

        @hears(NodeStopped)
        def note(_: NodeStopped) -> None:
            stopped.set()

        scheduler = Scheduler(print, listeners=[stop, note])
        scheduler.start()
        assert stopped.wait(FAILED_AFTER)
        assert answers == [False]
        assert scheduler.stop()

    def test_what_a_listener_is_too_slow_for_is_counted_in_the_health(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(delivery, "MOST_WAITING", 0)
        scheduler = Scheduler(print, listeners=[print])
        for _ in range(3):
            scheduler.schedule(once(SystemClock().now()))
        assert scheduler.health().events_dropped == 3

    def test_an_event_loop_goes_on_while_a_listener_hears_of_the_stop(self) -> None:
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
