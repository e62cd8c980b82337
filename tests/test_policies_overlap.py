"""Overlap and locks over the real loops: what runs, what waits, and what is skipped."""

from __future__ import annotations

import re
import threading
from collections import Counter
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, ParamSpec, TypeVar

import pytest

from go_scheduler import (
    Cancelled,
    ConfigurationError,
    DelayTrigger,
    ExecuteOnceTrigger,
    HandedOn,
    IntervalTrigger,
    MemoryStore,
    OnDemandTrigger,
    Outcome,
    Overlap,
    Run,
    Scheduler,
    State,
    TaskDefinition,
    TaskInstance,
    current_run,
)
from go_scheduler.events import (
    InstanceParked,
    InstanceReplaced,
    InstanceSkipped,
    InstanceUnparked,
    hears,
)
from go_scheduler.running.defaults import Defaults
from go_scheduler.running.desk import Desk
from go_scheduler.testing import InlineExecutor
from go_scheduler.testing.builders import claimant
from go_scheduler.testing.clock import START
from tests.conftest import seconds
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import timedelta
    from uuid import UUID

    from go_scheduler.events import Event
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import Claimant, Reviewed
    from go_scheduler.testing import ManualClock

P = ParamSpec("P")
T = TypeVar("T")

CONCEPTS = (Path(__file__).parents[1] / "docs/concepts.md").read_text()
HOUR = seconds(3600)
BEGIN = START + seconds(1)


class Stopped(Exception):
    """What a handler raises that was asked to stop."""


class Called(NamedTuple):
    """One run that goes on until the test ends it."""

    at: int
    instance: TaskInstance
    run: Run
    thread: threading.Thread
    goes: threading.Event

    def end(self) -> None:
        """Let its handler return, and wait until it has."""
        self.goes.set()
        self.thread.join(FAILED_AFTER)


class Slow(Executor):
    """Calls handlers on threads, where each goes on until the test ends it."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._entered = threading.Event()
        self.called: list[Called] = []

    def submit(
        self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        self._entered.clear()
        threading.Thread(target=fn, args=args, kwargs=kwargs, daemon=True).start()
        assert self._entered.wait(FAILED_AFTER)
        return Future()

    def handle(self, instance: TaskInstance) -> None:
        """The handler."""
        run = current_run()
        at = round((self._clock.now() - BEGIN).total_seconds())
        called = Called(
            at, instance, run, threading.current_thread(), threading.Event()
        )
        self.called.append(called)
        self._entered.set()
        assert called.goes.wait(FAILED_AFTER)
        if run.cancelled:
            raise Stopped

    @property
    def times(self) -> list[int]:
        """When runs began, in seconds since ``BEGIN``."""
        return [each.at for each in self.called]

    @property
    def fire_times(self) -> list[int]:
        """The fire times of what ran, in seconds since ``BEGIN``."""
        times = [each.instance.fire_time for each in self.called]
        return [round((at - BEGIN).total_seconds()) for at in times if at is not None]


class Told:
    """Keeps what it is told of slots."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        kinds = (InstanceParked, InstanceUnparked, InstanceSkipped, InstanceReplaced)
        self.listener = hears(*kinds)(self.events.append)

    @property
    def kinds(self) -> list[str]:
        return [type(each).__name__.removeprefix("Instance") for each in self.events]


@pytest.fixture
def slow(clock: ManualClock) -> Iterator[Slow]:
    """The handler, all of whose runs end with the test."""
    slow = Slow(clock)
    yield slow
    for each in slow.called:
        each.end()


@contextmanager
def running(store: Store, slow: Slow, told: Told | None = None) -> Iterator[Scheduler]:
    """A scheduler on the store's clock; what runs at its stop is left behind."""
    listeners = [] if told is None else [told.listener]
    scheduler = Scheduler(
        slow.handle, store, executor=slow, clock=store.clock, listeners=listeners
    )
    scheduler.start()
    yield scheduler
    scheduler.stop(timeout=seconds(0))


def every(step: timedelta, **options: object) -> TaskDefinition:
    """Fires at ``BEGIN``, and so often from then on."""
    return TaskDefinition(trigger=IntervalTrigger(step, anchor=BEGIN), **options)  # type: ignore[arg-type]


def once(at: float = 0, **options: object) -> TaskDefinition:
    trigger = ExecuteOnceTrigger(START + seconds(at))
    return TaskDefinition(trigger=trigger, **options)  # type: ignore[arg-type]


def begin(scheduler: Scheduler, clock: ManualClock, new: TaskDefinition) -> None:
    """Schedule it, and let ``BEGIN`` come."""
    scheduler.schedule(new)
    clock.advance(seconds(1))


def outcomes(scheduler: Scheduler) -> Counter[str]:
    return Counter(each.state.value for each in scheduler.list_instances(limit=1000))


class TestOverlap:
    """Each mode, with a handler that is slower than its schedule."""

    def test_allowed_runs_go_on_beside_each_other(
        self, store: Store, clock: ManualClock, slow: Slow
    ) -> None:
        with running(store, slow) as scheduler:
            begin(scheduler, clock, every(seconds(10)))
            clock.advance(seconds(25))
            assert slow.times == [0, 10, 20]

    def test_skip_leaves_out_what_is_due_meanwhile(
        self, store: Store, clock: ManualClock, slow: Slow
    ) -> None:
        told = Told()
        with running(store, slow, told) as scheduler:
            begin(scheduler, clock, every(seconds(10), overlap=Overlap.SKIP))
            clock.advance(seconds(25))
            assert slow.times == [0]
            assert outcomes(scheduler)["skipped"] == 2
            slow.called[0].end()
            clock.advance(seconds(10))
            assert slow.times == [0, 30]
        assert told.kinds == 2 * ["Parked", "Skipped"]
        skipped = told.events[1]
        assert isinstance(skipped, InstanceSkipped)
        assert not skipped.late
        assert (skipped.first, skipped.count) == (BEGIN + seconds(10), 1)

    def test_skip_runs_what_is_due_just_after_the_end(
        self, store: Store, clock: ManualClock, slow: Slow
    ) -> None:
        told = Told()
        with running(store, slow, told) as scheduler:
            begin(scheduler, clock, every(seconds(10), overlap=Overlap.SKIP))
            # Its start was tried, and its time has not come.
            clock.advance(seconds(9.99))
            assert told.kinds == ["Parked"]
            slow.called[0].end()
            clock.advance(seconds(1))
            assert slow.times == [0, 10]
        assert told.kinds == ["Parked", "Unparked"]

    def test_skip_runs_one_of_those_due_at_once_though_it_ends_at_once(
        self, store: Store, clock: ManualClock
    ) -> None:
        called: list[TaskInstance] = []
        new = TaskDefinition(trigger=OnDemandTrigger(), overlap=Overlap.SKIP)
        with Scheduler(
            called.append, store, executor=InlineExecutor(), clock=store.clock
        ) as scheduler:
            scheduler.schedule(new)
            scheduler.pause(new.id)
            for _ in range(3):
                scheduler.run_now(new.id)
            scheduler.resume(new.id)
            clock.advance(seconds(5))
            assert outcomes(scheduler) == {"completed": 1, "skipped": 2}
        assert len(called) == 1

    def test_buffer_one_runs_one_more_after_the_end(
        self, store: Store, clock: ManualClock, slow: Slow
    ) -> None:
        with running(store, slow) as scheduler:
            begin(scheduler, clock, every(seconds(10), overlap=Overlap.BUFFER_ONE))
            clock.advance(seconds(45))
            slow.called[0].end()
            clock.advance(seconds(1))
            assert slow.fire_times == [0, 10]
            assert slow.times == [0, 45]
            assert outcomes(scheduler)["skipped"] == 3

    def test_buffer_all_runs_each_in_its_turn(
        self, store: Store, clock: ManualClock, slow: Slow
    ) -> None:
        with running(store, slow) as scheduler:
            begin(scheduler, clock, every(seconds(10), overlap=Overlap.BUFFER_ALL))
            clock.advance(seconds(35))
            for number in range(3):
                assert len(slow.called) == number + 1
                slow.called[number].end()
                clock.advance(seconds(1))
            assert slow.fire_times == [0, 10, 20, 30]
            assert outcomes(scheduler)["skipped"] == 0

    def test_replace_asks_to_stop_and_runs_when_that_has_ended(
        self, store: Store, clock: ManualClock, slow: Slow
    ) -> None:
        told = Told()
        with running(store, slow, told) as scheduler:
            begin(scheduler, clock, every(seconds(30), overlap=Overlap.REPLACE))
            clock.advance(seconds(29))
            assert not slow.called[0].run.cancelled
            clock.advance(seconds(9))
            # It learns of it with the next renewal.
            assert slow.called[0].run.cancelled
            assert slow.times == [0]
            slow.called[0].end()
            clock.advance(seconds(1))
            assert slow.fire_times == [0, 30]
            first = scheduler.get_instance(slow.called[0].instance.id)
            assert first.outcome is Outcome.CANCELLED
        assert told.kinds == ["Parked", "Replaced", "Unparked"]

    def test_replace_waits_no_longer_than_expire_after(
        self, store: Store, clock: ManualClock, slow: Slow
    ) -> None:
        with running(store, slow) as scheduler:
            given = every(
                seconds(60), overlap=Overlap.REPLACE, expire_after=seconds(90)
            )
            begin(scheduler, clock, given)
            clock.advance(seconds(89))
            assert slow.fire_times == [0]
            clock.advance(seconds(3))
            assert slow.fire_times == [0, 60]

    def test_a_trigger_that_waits_has_its_own_rule(
        self, store: Store, clock: ManualClock, slow: Slow
    ) -> None:
        with running(store, slow) as scheduler:
            scheduler.schedule(
                TaskDefinition(trigger=DelayTrigger(seconds(10)), overlap=Overlap.SKIP)
            )
            clock.advance(seconds(25))
            slow.called[0].end()
            clock.advance(seconds(11))
            assert len(slow.called) == 2
            assert outcomes(scheduler)["skipped"] == 0

    def test_a_failed_run_has_its_slot_until_it_has_run_again(
        self, store: Store, clock: ManualClock, slow: Slow
    ) -> None:
        with running(store, slow) as scheduler:
            made = every(
                seconds(40), overlap=Overlap.BUFFER_ALL, expire_after=seconds(60)
            )
            begin(scheduler, clock, made)
            # It hangs, and runs again.
            clock.advance(seconds(62))
            assert slow.fire_times == [0, 0]
            slow.called[1].end()
            clock.advance(seconds(1))
            assert slow.fire_times == [0, 0, 40]


class TestLock:
    """A lock that several definitions share."""

    def test_of_all_that_share_it_one_runs_at_a_time(
        self, store: Store, clock: ManualClock, slow: Slow
    ) -> None:
        with running(store, slow) as scheduler:
            for number in range(4):
                scheduler.schedule(once(number, name=f"{number}", lock="printer"))
            clock.advance(seconds(10))
            for number in range(4):
                assert len(slow.called) == number + 1
                slow.called[number].end()
                clock.advance(seconds(1))
            assert [each.instance.definition.name for each in slow.called] == [
                "0",
                "1",
                "2",
                "3",
            ]

    def test_what_has_another_lock_waits_for_nobody(
        self, store: Store, clock: ManualClock, slow: Slow
    ) -> None:
        with running(store, slow) as scheduler:
            for lock in ("a", "b", "a", None):
                scheduler.schedule(once(lock=lock))
            clock.advance(seconds(1))
            locks = [each.instance.definition.lock for each in slow.called]
            assert sorted(map(str, locks)) == ["None", "a", "b"]

    def test_what_waits_can_be_cancelled(
        self, store: Store, clock: ManualClock, slow: Slow
    ) -> None:
        with running(store, slow) as scheduler:
            scheduler.schedule(once(lock="a"))
            clock.advance(seconds(1))
            waits = scheduler.schedule(once(1, lock="a"))
            clock.advance(seconds(1))
            [parked] = scheduler.list_instances(definition_id=waits.id)
            assert (parked.state, parked.parked) == (State.PENDING, True)
            assert scheduler.cancel(parked.id) is Cancelled.CANCELLED
            slow.called[0].end()
            clock.advance(seconds(5))
            assert len(slow.called) == 1

    def test_what_another_node_has_ended_is_noticed_within_a_second(
        self, store: Store, clock: ManualClock, slow: Slow
    ) -> None:
        with running(store, slow) as scheduler:
            first = scheduler.schedule(once(lock="a"))
            clock.advance(seconds(1))
            scheduler.schedule(once(1, lock="a"))
            clock.advance(seconds(1))
            store.delete_definitions([first.id])
            clock.advance(seconds(1.1))
            assert len(slow.called) == 2

    def test_a_run_that_is_claimed_from_outside_takes_the_lock(
        self, store: Store, clock: ManualClock, slow: Slow
    ) -> None:
        desk = Scheduler(None, store, clock=clock)
        for _ in range(3):
            desk.schedule(once(lock="a"))
        plain = desk.schedule(once())
        with Scheduler(None, store, clock=clock):
            clock.advance(seconds(1))
        claimed = claim_outside(store, clock)
        assert len(claimed) == 2
        assert plain.id in {each.definition.id for each in claimed}


def claim_outside(store: Store, clock: ManualClock) -> Sequence[TaskInstance]:
    """What somebody claims who is no node of ours."""
    desk = Desk(store, defaults=Defaults(), tell=lambda event: None)
    return desk.claim(claimant(), limit=10)


class CountingStore(MemoryStore):
    """Counts how often each instance is claimed, and what is asked for."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.claims: Counter[UUID] = Counter()
        self.looks = 0

    def claim_instances(
        self,
        claimant: Claimant,
        *,
        ahead: timedelta,
        lead: timedelta,
        limit: int,
        lapsed: timedelta | None,
    ) -> Sequence[TaskInstance]:
        claimed = super().claim_instances(
            claimant, ahead=ahead, lead=lead, limit=limit, lapsed=lapsed
        )
        self.claims.update(each.id for each in claimed)
        return claimed

    def review_parked(self, *, limit: int) -> Reviewed:
        self.looks += 1
        return super().review_parked(limit=limit)


class TestMany:
    """What waits delays nobody else, and costs next to nothing."""

    def test_ten_thousand_that_share_a_lock_delay_none_of_a_thousand_others(
        self, clock: ManualClock
    ) -> None:
        store = CountingStore(clock)
        late: list[timedelta] = []
        kept: list[TaskInstance] = []

        def handle(instance: TaskInstance) -> object:
            if instance.definition.lock is not None:
                kept.append(instance)
                return HandedOn(expire_after=HOUR)
            late.append(clock.now() - instance.execute_at)
            return None

        scheduler = Scheduler(handle, store, clock=clock)
        locked = [once(10 + number / 1000, lock="a") for number in range(10_000)]
        free = [once(10 + number / 100) for number in range(1000)]
        scheduler.schedule_all([*locked, *free])
        with scheduler:
            clock.advance(seconds(30))
            assert len(late) == 1000
            assert max(late) == seconds(0)
            assert len(kept) == 1
            assert max(store.claims.values()) == 1
            before = store.claims.total()
            clock.advance(seconds(60))
            assert store.claims.total() == before

    def test_where_nothing_is_parked_nobody_looks_every_second(
        self, clock: ManualClock
    ) -> None:
        store = CountingStore(clock)
        with Scheduler(lambda _: None, store, clock=clock) as scheduler:
            scheduler.schedule(every(seconds(1)))
            clock.advance(seconds(60))
        assert store.looks <= 5


def test_each_row_of_the_table_in_the_documentation_has_a_test_of_its_name() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)` \| .+ \|$", CONCEPTS, re.MULTILINE)
    assert rows == [each.name for each in Overlap]
    for row in rows:
        own = f"test_{row.lower()}"
        assert any(each.startswith(own) for each in dir(TestOverlap)), own


class Mine(str, Enum):  # noqa: UP042
    """An enumeration of a user, from before Python 3.11."""

    SKIP = "skip"


def test_an_overlap_may_be_a_text_of_an_enumeration_of_the_users() -> None:
    made = TaskDefinition(trigger=OnDemandTrigger(), overlap=Mine.SKIP)  # type: ignore[arg-type]
    assert made.overlap is Overlap.SKIP
    with pytest.raises(ConfigurationError, match="overlap must be"):
        TaskDefinition(trigger=OnDemandTrigger(), overlap="skipped")  # type: ignore[arg-type]
