"""Loop 1 fires one page of definitions a tick, and no bad one stops the others."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from go_scheduler.clock import ZERO, StoreClock
from go_scheduler.errors import StoreError, StoreUnavailableError
from go_scheduler.firing import definition_scheduler
from go_scheduler.firing.definition_scheduler import (
    DefinitionScheduler,
    longest_pause,
)
from go_scheduler.firing.planner import Guard, Planner
from go_scheduler.models import State
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.stores.messages import Answer, Fired
from go_scheduler.testing import ManualClock
from go_scheduler.testing.builders import (
    HOUR,
    HOURLY,
    MINUTE,
    SECOND,
    TICK,
    WAITING,
    claimant,
    definition,
    ids,
    instances,
    put,
    times,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers import (
    ExecuteOnceTrigger,
    IntervalTrigger,
    Trigger,
    UnknownTrigger,
)
from tests.conftest import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence, Set
    from uuid import UUID

    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.messages import Firing

WINDOW = SECOND
AHEAD = 3 * SECOND
UNKNOWN = UnknownTrigger("gone", {"a": 1}, "not installed")


@dataclass(frozen=True)
class Flaky(Trigger):
    """Raises unless it is well; counts how often it is asked."""

    kind: ClassVar[str] = "tests.definition_scheduler.flaky"

    asked: list[datetime] = field(default_factory=list, compare=False)
    well: list[bool] = field(default_factory=list, compare=False)

    def next_fire_time(self, after: datetime) -> datetime | None:
        self.asked.append(after)
        if not self.well:
            raise ZeroDivisionError("by zero")
        return after + HOUR


class Faulty(MemoryStore):
    """Fails as it is told, and notes the batches it was to write."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.batches: list[int] = []
        self.bad: set[UUID] = set()
        self.locked: set[UUID] = set()
        self.limits: list[int] = []
        self.fails_to_read: list[Exception] = []
        self.fails_to_write: list[Exception] = []
        self.edit: TaskDefinition | None = None

    def due_definitions(
        self, *, ahead: timedelta, after: TaskDefinition | None = None, limit: int
    ) -> Sequence[TaskDefinition]:
        if self.fails_to_read:
            raise self.fails_to_read.pop()
        self.limits.append(limit)
        page = super().due_definitions(ahead=ahead, after=after, limit=limit)
        if self.edit is not None:
            self.put_definitions([self.edit])
        return page

    def fire_definitions(self, firings: Sequence[Firing]) -> Answer[Set[UUID]]:
        self.batches.append(len(firings))
        if self.fails_to_write:
            raise self.fails_to_write.pop()
        if self.bad & {firing.definition.id for firing in firings}:
            raise StoreError("a bad row")
        free = [each for each in firings if each.definition.id not in self.locked]
        busy = self.locked & {firing.definition.id for firing in firings}
        return Answer(done=super().fire_definitions(free).done, busy=busy)


class Loop:
    """The loop on a manual clock, and how often it told the runner."""

    def __init__(
        self,
        clock: ManualClock,
        store: MemoryStore,
        read: Callable[[], datetime] | None = None,
    ) -> None:
        self.told = 0
        # Of which definitions it runs what they make itself.
        self.runs: set[UUID] = set()
        self._store = store
        self._loop = DefinitionScheduler(
            store,
            StoreClock(clock, read or store.now),
            planner=Planner(store, Guard(clock, patience=SECOND)),
            settings=SETTINGS,
            created=self._tell,
            run=self._run,
        )
        self.tick = self._loop.tick
        self.look = self._loop.look

    def _tell(self) -> None:
        self.told += 1

    def _run(
        self, firings: Sequence[Firing], told: Callable[[Fired], None]
    ) -> Fired | None:
        if not self.runs.intersection(each.definition.id for each in firings):
            return None
        fired = self._store.fire_and_start(firings, claimant())
        told(fired)
        started = [each for each in fired.started if each.definition.id in self.runs]
        return replace(fired, started=started)

    def tick_until_idle(self, most: int) -> int:
        """Tick while it asks for it, and return how often that was."""
        for number in range(1, most + 1):
            if self.tick() is None:
                return number
        raise AssertionError(f"there was still more to do after {most} ticks")


@pytest.fixture
def store(clock: ManualClock) -> Faulty:
    return Faulty(clock)


@pytest.fixture
def loop(clock: ManualClock, store: Faulty) -> Loop:
    return Loop(clock, store)


def once(at: datetime) -> TaskDefinition:
    return definition(at, trigger=ExecuteOnceTrigger(at))


def put_many(
    store: MemoryStore,
    count: int,
    trigger: Trigger = HOURLY,
    *,
    next_fire_time: datetime = START,
) -> Sequence[TaskDefinition]:
    return store.put_definitions(
        [definition(next_fire_time, trigger=trigger) for _ in range(count)]
    )


def pending(store: MemoryStore) -> int:
    return store.counts()[State.PENDING]


def lines(caplog: pytest.LogCaptureFixture) -> Sequence[str]:
    return [
        each.getMessage()
        for each in caplog.records
        if each.name == "go_scheduler.firing"
    ]


def test_what_fires_soon_is_given_its_instances_and_moved_on(
    store: Faulty, loop: Loop
) -> None:
    given = put(store, definition(trigger=IntervalTrigger(2 * SECOND, anchor=START)))
    assert loop.tick() is None
    assert times(instances(store, given)) == [START, START + 2 * SECOND]
    assert store.get_definition(given.id).next_fire_time == START + 4 * SECOND


def test_what_fires_and_runs_here_needs_nobody_told(store: Faulty, loop: Loop) -> None:
    runs = put(store, once(START))
    loop.runs = {runs.id}
    assert loop.tick() is None
    assert (loop.told, store.batches) == (0, [])
    [found] = instances(store, runs)
    assert found.state is State.RUNNING
    # One of two that fire is left to the runner.
    both = [put(store, once(START)) for _ in range(2)]
    loop.runs = {both[0].id}
    assert loop.tick() is None
    assert loop.told == 1


def test_what_fires_later_is_left_alone(store: Faulty, loop: Loop) -> None:
    given = put(store, definition(START + AHEAD + TICK))
    assert loop.tick() is None
    assert store.get_definition(given.id) == given
    assert instances(store, given) == []
    assert loop.told == 0


def test_nothing_due_writes_nothing(store: Faulty, loop: Loop) -> None:
    assert loop.tick() is None
    assert store.batches == []


def test_what_was_skipped_is_recorded(
    clock: ManualClock, store: Faulty, loop: Loop
) -> None:
    given = put(store)
    clock.advance(2 * HOUR)
    loop.tick()
    skipped, latest = instances(store, given)
    assert skipped.skipped is not None
    assert (skipped.skipped.first, skipped.skipped.count) == (START, 2)
    assert (skipped.state, latest.state) == (State.SKIPPED, State.PENDING)
    assert latest.fire_time == START + 2 * HOUR


def test_a_trigger_that_waits_fires_once(store: Faulty, loop: Loop) -> None:
    given = put(store, definition(trigger=WAITING))
    assert loop.tick() is None
    assert times(instances(store, given)) == [START]
    stored = store.get_definition(given.id)
    assert (stored.next_fire_time, stored.completed_at) == (None, None)


@pytest.mark.parametrize(
    ("fires_in", "told"),
    [(ZERO, 1), (WINDOW, 1), (WINDOW + TICK, 0), (AHEAD, 0), (-5 * SECOND, 1)],
)
def test_the_runner_is_told_of_what_is_due_within_its_window(
    store: Faulty, loop: Loop, fires_in: timedelta, told: int
) -> None:
    put(store, once(START + fires_in))
    loop.tick()
    assert pending(store) == 1
    assert loop.told == told


def test_the_runner_is_told_once_for_many(store: Faulty, loop: Loop) -> None:
    put_many(store, 50)
    loop.tick()
    assert loop.told == 1


def test_a_node_whose_copy_of_the_time_lags_creates_nothing_too_far_ahead(
    clock: ManualClock, store: Faulty
) -> None:
    given = put(store, once(START + AHEAD))
    lagging = Loop(clock, store, read=lambda: store.now() - TICK)
    assert lagging.tick() is None
    assert store.get_definition(given.id) == given
    assert instances(store, given) == []
    assert lagging.told == 0


def test_one_tick_is_one_page(store: Faulty, loop: Loop) -> None:
    put_many(store, 1200)
    assert loop.tick() == ZERO
    assert pending(store) == 500
    assert loop.tick() is None
    assert pending(store) == 1200
    assert store.batches == [250, 250, 250, 250, 200]


@pytest.mark.slow
def test_pages_grow_while_they_are_full_and_begin_anew_with_each_pass(
    store: Faulty, loop: Loop
) -> None:
    put_many(store, 6000)
    assert loop.tick_until_idle(most=5) == 5
    loop.tick()
    assert store.limits == [500, 1000, 2000, 2000, 2000, 500]
    assert pending(store) == 6000
    assert max(store.batches) == 250


def test_a_full_page_asks_for_the_next_which_may_be_empty(
    store: Faulty, loop: Loop
) -> None:
    put_many(store, 500)
    assert loop.tick() == ZERO
    assert loop.tick() is None
    assert store.batches == [250, 250]


def test_a_definition_with_more_to_do_is_fired_again_at_once(
    store: Faulty, loop: Loop
) -> None:
    trigger = IntervalTrigger(timedelta(milliseconds=2), anchor=START)
    given = put(store, definition(trigger=trigger))
    assert loop.tick() == ZERO
    assert pending(store) == 1000
    assert loop.tick() is None
    stored = store.get_definition(given.id)
    assert pending(store) == 1501
    assert stored.next_fire_time == START + AHEAD + timedelta(milliseconds=2)


def test_a_thousand_broken_definitions_do_not_block_a_healthy_one(
    store: Faulty, loop: Loop
) -> None:
    put_many(store, 1000, Flaky(), next_fire_time=START - HOUR)
    healthy = put(store)
    assert loop.tick_until_idle(most=2) == 2
    assert times(instances(store, healthy)) == [START]
    assert pending(store) == 1


def test_what_the_loop_is_told_of_fires_without_being_looked_for(
    store: Faulty, loop: Loop
) -> None:
    loop.tick()
    store.limits.clear()
    given = put(store, once(START))
    loop.look(given)
    assert loop.tick() == WINDOW
    assert times(instances(store, given)) == [START]
    assert loop.told == 1
    assert store.limits == []


def test_who_tells_the_loop_all_the_time_does_not_keep_it_from_looking(
    clock: ManualClock, store: Faulty, loop: Loop
) -> None:
    loop.tick()
    other = put(store, once(START + WINDOW / 4))
    for _ in range(3):
        loop.look(put(store, once(clock.now())))
        loop.tick()
        clock.advance(WINDOW / 2)
    assert times(instances(store, other)) == [START + WINDOW / 4]


def test_a_look_that_was_asked_for_follows_what_the_loop_is_told_of(
    store: Faulty, loop: Loop
) -> None:
    loop.tick()
    other, told = put(store, once(START)), put(store, once(START))
    loop.look(told)
    loop.look()
    assert loop.tick() is None
    assert [len(instances(store, each)) for each in (other, told)] == [1, 1]
    assert store.batches == [1, 1]


def test_what_the_loop_is_told_of_fires_once_however_often_it_is_told(
    store: Faulty, loop: Loop
) -> None:
    given = put(store, once(START))
    for _ in range(3):
        loop.look(given)
    assert loop.tick() is None
    assert times(instances(store, given)) == [START]
    assert store.batches == [1]


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(once(START + HOUR), id="later"),
        pytest.param(replace(once(START), paused=True), id="paused"),
        pytest.param(replace(once(START), next_fire_time=None), id="never"),
    ],
)
def test_of_what_the_loop_is_told_of_nothing_else_fires(
    store: Faulty, loop: Loop, given: TaskDefinition
) -> None:
    loop.look(put(store, given))
    assert loop.tick() is None
    assert store.batches == []


def test_what_was_changed_since_the_loop_was_told_of_it_fires_as_it_is_now(
    store: Faulty, loop: Loop
) -> None:
    given = put(store, once(START))
    loop.look(given)
    store.put_definitions([replace(once(START + SECOND), id=given.id)])
    assert loop.tick() is None
    assert times(store.list_instances(state=State.PENDING)) == [START + SECOND]


def test_what_the_loop_is_told_of_is_bounded_and_found_all_the_same(
    store: Faulty, loop: Loop
) -> None:
    for each in put_many(store, 1_200, ExecuteOnceTrigger(START)):
        loop.look(each)
    loop.tick_until_idle(most=5)
    assert pending(store) == 1_200


@pytest.mark.slow
def test_who_schedules_all_the_time_does_not_keep_the_later_pages_from_firing(
    store: Faulty, loop: Loop
) -> None:
    put_many(store, 1500, Flaky(), next_fire_time=START - HOUR)
    healthy = put(store)
    for _ in range(3):
        loop.look()
        assert loop.tick() == ZERO
    assert times(instances(store, healthy)) == [START]


def test_a_definition_that_never_catches_up_does_not_keep_the_others_from_firing(
    store: Faulty, loop: Loop
) -> None:
    endless = IntervalTrigger(timedelta(milliseconds=1), anchor=START)
    put(store, definition(START - HOUR / 2, trigger=endless))
    put_many(store, 499, Flaky(), next_fire_time=START - HOUR)
    healthy = put(store)
    assert loop.tick() == ZERO
    assert loop.tick() == ZERO
    assert times(instances(store, healthy)) == [START]


def test_what_is_new_is_looked_for_as_soon_as_the_pass_has_ended(
    store: Faulty, loop: Loop
) -> None:
    put_many(store, 600)
    assert loop.tick() == ZERO
    new = put(store, once(START - HOUR))
    loop.look()
    assert loop.tick() == ZERO
    assert loop.tick() is None
    assert times(instances(store, new)) == [START - HOUR]


def test_a_new_pass_begins_without_having_to_look(store: Faulty, loop: Loop) -> None:
    put_many(store, 600)
    assert loop.tick_until_idle(most=2) == 2
    new = put(store, once(START - HOUR))
    assert loop.tick() is None
    assert times(instances(store, new)) == [START - HOUR]


def test_a_look_before_a_pass_needs_no_second_one(store: Faulty, loop: Loop) -> None:
    loop.look()
    assert loop.tick() is None


def test_a_broken_definition_is_reported_once_and_tried_again_each_minute(
    clock: ManualClock, store: Faulty, loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    trigger = Flaky()
    given = put(store, definition(trigger=trigger))
    assert loop.tick() is None
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage() == (
        f"definition {given.id} cannot fire and is left alone for 60 s:"
        " ZeroDivisionError('by zero')"
    )
    assert record.__dict__["definition_id"] == str(given.id)
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ZeroDivisionError)
    for wait, asked in [(ZERO, 1), (MINUTE - TICK, 1), (TICK, 2), (MINUTE, 3)]:
        clock.advance(wait)
        assert loop.tick() is None
        assert len(trigger.asked) == asked
    assert len(lines(caplog)) == 1
    assert store.get_definition(given.id) == given


def test_a_definition_that_is_well_again_fires_and_is_reported_anew(
    clock: ManualClock, store: Faulty, loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    trigger = Flaky()
    given = put(store, definition(trigger=trigger))
    loop.tick()
    clock.advance(MINUTE)
    trigger.well.append(True)
    loop.tick()
    assert times(instances(store, given)) == [START]
    trigger.well.clear()
    clock.advance(HOUR)
    loop.tick()
    assert len(lines(caplog)) == 2


def test_a_definition_that_was_edited_is_tried_again_at_once(
    store: Faulty, loop: Loop
) -> None:
    broken = put(store, definition(trigger=Flaky()))
    loop.tick()
    put(store, replace(broken, trigger=HOURLY))
    loop.tick()
    assert times(store.list_instances(state=State.PENDING)) == [START]


def test_an_edit_that_mends_nothing_is_reported_as_well(
    store: Faulty, loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    broken = put(store, definition(trigger=Flaky()))
    loop.tick()
    put(store, replace(broken, name="report"))
    loop.tick()
    loop.tick()
    assert len(lines(caplog)) == 2


def test_an_unknown_trigger_is_reported_and_left_for_a_node_that_knows_it(
    clock: ManualClock, store: Faulty, loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    given = put(store, definition(trigger=UNKNOWN))
    healthy = put(store)
    for _ in range(3):
        assert loop.tick() is None
        clock.advance(MINUTE)
    stored = store.get_definition(given.id)
    assert stored == given
    assert (stored.next_fire_time, stored.revision) == (START, given.revision)
    assert instances(store, given) == []
    assert times(instances(store, healthy)) == [START]
    assert lines(caplog) == [
        f"definition {given.id} cannot fire and is left alone for 60 s:"
        " UnknownTriggerError('not installed')"
    ]


def test_a_few_lines_tell_of_many_broken_definitions(
    store: Faulty, loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    put_many(store, 550, Flaky())
    loop.tick_until_idle(most=2)
    loop.tick()
    assert len(lines(caplog)) == 2 * 5 + 2
    assert [each for each in lines(caplog) if "left out" in each] == [
        "495 more such lines were left out",
        "45 more such lines were left out",
    ]


def test_the_memory_of_broken_definitions_is_bounded(
    store: Faulty, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(definition_scheduler, "_MOST_ASIDE", 2)
    triggers = [Flaky() for _ in range(3)]
    for key, trigger in enumerate(triggers):
        put(store, definition(trigger=trigger, key=key))
    loop.tick()
    loop.tick()
    assert [len(trigger.asked) for trigger in triggers] == [2, 1, 1]


def test_a_row_that_cannot_be_written_costs_only_itself(
    clock: ManualClock, store: Faulty, loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    given = put_many(store, 100)
    bad = given[37]
    store.bad = {bad.id}
    assert loop.tick() is None
    assert pending(store) == 99
    assert instances(store, bad) == []
    assert len(store.batches) <= 15
    assert loop.tick() is None
    assert lines(caplog) == [
        f"definition {bad.id} cannot fire and is left alone for 1 s:"
        " StoreError('a bad row')"
    ]
    written = len(store.batches)
    loop.tick()
    assert len(store.batches) == written
    for wait in (1, 2, 4, 8, 16, 32, 60, 60):
        clock.advance(wait * SECOND - TICK)
        loop.tick()
        assert len(store.batches) == written
        clock.advance(TICK)
        loop.tick()
        written += 1
        assert store.batches[written - 1 :] == [1]
    assert len(lines(caplog)) == 1
    store.bad.clear()
    clock.advance(MINUTE)
    loop.tick()
    assert times(instances(store, bad)) == [START]


def test_of_what_failed_alone_a_few_are_tried_in_one_tick(
    clock: ManualClock,
    store: Faulty,
    loop: Loop,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(definition_scheduler, "_MOST_ALONE", 2)
    given = put_many(store, 3)
    store.bad = set(ids(given))
    loop.tick()
    store.bad.clear()
    clock.advance(SECOND)
    for count in (2, 3):
        loop.tick()
        assert pending(store) == count


def test_a_locked_definition_is_left_aside_and_delays_no_other(
    clock: ManualClock, store: Faulty, loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    given = put_many(store, 100)
    locked = given[37]
    store.locked = {locked.id}
    assert loop.tick() == SECOND / 10
    assert store.batches == [100]
    assert pending(store) == 99
    for length in (0.1, 0.2, 0.4, 0.8, 1, 1, 1):
        assert loop.tick() == length * SECOND
        clock.advance(length * SECOND)
    assert store.batches == [100, *[1] * 6]
    assert lines(caplog) == [
        f"definition {locked.id}: another transaction has locked it, its firing has"
        " to wait"
    ]
    store.locked.clear()
    assert loop.tick() is None
    assert times(instances(store, locked)) == [START]


def test_what_was_locked_is_tried_apart_from_the_others(
    clock: ManualClock, store: Faulty, loop: Loop
) -> None:
    store.locked = set(ids(put_many(store, 3)))
    loop.tick()
    put_many(store, 5)
    clock.advance(SECOND / 10)
    store.batches.clear()
    loop.tick()
    assert store.batches == [5, 3]


def test_what_was_locked_and_is_gone_is_waited_for_no_more(
    clock: ManualClock, store: Faulty, loop: Loop
) -> None:
    given = put(store)
    store.locked = {given.id}
    assert loop.tick() == SECOND / 10
    store.delete_definitions([given.id])
    clock.advance(SECOND / 10)
    assert loop.tick() is None


def test_what_was_locked_and_then_fails_is_reported_as_failing(
    clock: ManualClock, store: Faulty, loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    given = put(store)
    store.locked = {given.id}
    loop.tick()
    store.bad = {given.id}
    clock.advance(SECOND / 10)
    assert loop.tick() is None
    assert "cannot fire and is left alone for 1 s" in caplog.text
    store.bad.clear()
    clock.advance(SECOND)
    assert loop.tick() == SECOND / 10


def test_what_has_few_fire_times_is_written_before_what_has_many(
    store: Faulty, loop: Loop
) -> None:
    fast = IntervalTrigger(timedelta(milliseconds=1), anchor=START)
    put(store, definition(START - HOUR / 60, trigger=fast))
    put_many(store, 20)
    assert loop.tick() == ZERO
    assert store.batches == [21]
    put_many(store, 300)
    store.batches.clear()
    loop.tick()
    assert store.batches == [250, 51]


def test_the_runner_is_told_once_a_look_is_over_whatever_has_fired(
    store: Faulty, clock: ManualClock
) -> None:
    loop = Loop(clock, store)
    loop.tick()
    assert loop.told == 0
    loop.look()
    assert loop.told == 0
    loop.tick()
    assert loop.told == 1


def test_repeats_are_counted_from_the_end_of_a_look(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Faulty(clock)
    store.settling = SECOND / 10
    loop = Loop(clock, store)
    read = store.due_definitions

    def read_slowly(**arguments: Any) -> Sequence[TaskDefinition]:
        clock.advance(SECOND / 10)
        return read(**arguments)

    monkeypatch.setattr(store, "due_definitions", read_slowly)
    loop.look()
    assert loop.tick() == timedelta(milliseconds=20)


def test_a_look_is_repeated_on_a_store_that_settles(
    clock: ManualClock, store: Faulty
) -> None:
    store.settling = SECOND / 10
    loop = Loop(clock, store)
    assert loop.tick() is None
    loop.look()
    for wait in (0.02, 0.03, 0.05, 0.1):
        assert loop.tick() == wait * SECOND
        clock.advance(wait * SECOND)
    assert loop.tick() is None


def test_it_creates_further_ahead_while_the_store_is_slow(
    clock: ManualClock, store: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = put(store, once(START + AHEAD + SECOND))
    due = store.due_definitions

    def slow(**how: object) -> Sequence[TaskDefinition]:
        found = due(**how)  # type: ignore[arg-type]
        clock.advance(SECOND / 10)
        return found

    monkeypatch.setattr(store, "due_definitions", slow)
    loop = Loop(clock, store)
    loop.tick()
    clock.advance(SECOND / 2)
    loop.tick()
    assert times(instances(store, given)) == [START + AHEAD + SECOND]


def test_a_store_that_cannot_be_read_fails_the_tick_and_nothing_else(
    store: Faulty, loop: Loop
) -> None:
    given = put(store)
    store.fails_to_read = [StoreUnavailableError("away")]
    with pytest.raises(StoreUnavailableError):
        loop.tick()
    assert loop.tick() is None
    assert times(instances(store, given)) == [START]


def test_a_store_that_cannot_be_written_sets_nothing_aside(
    store: Faulty, loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    given = put_many(store, 10)
    store.fails_to_write = [StoreUnavailableError("away")]
    with pytest.raises(StoreUnavailableError):
        loop.tick()
    assert store.batches == [10]
    assert loop.tick() is None
    assert pending(store) == len(given)
    assert lines(caplog) == []


def test_after_a_failure_the_loop_begins_with_the_first_page(
    store: Faulty, loop: Loop
) -> None:
    put_many(store, 600)
    assert loop.tick() == ZERO
    store.fails_to_read = [StoreUnavailableError("away")]
    with pytest.raises(StoreUnavailableError):
        loop.tick()
    new = put(store, once(START - HOUR))
    loop.tick()
    assert times(instances(store, new)) == [START - HOUR]


def test_who_was_overtaken_by_an_edit_creates_nothing(
    store: Faulty, loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    given = put(store)
    moved = START + 5 * HOUR
    store.edit = replace(
        given,
        trigger=IntervalTrigger(HOUR, anchor=moved),
        next_fire_time=moved,
        revision=None,
    )
    assert loop.tick() is None
    assert [each.state for each in instances(store, given)] == [State.SKIPPED]
    assert store.get_definition(given.id).next_fire_time == moved
    assert loop.told == 0
    assert lines(caplog) == []


def test_two_nodes_create_each_instance_once(
    clock: ManualClock, store: Faulty, loop: Loop
) -> None:
    other = Loop(clock, store)
    given = put_many(store, 20)
    loop.tick()
    other.tick()
    assert pending(store) == 20
    assert {*ids(given)} == {
        each.definition.id for each in store.list_instances(state=State.PENDING)
    }


def test_a_paused_definition_does_not_fire(store: Faulty, loop: Loop) -> None:
    given = put(store)
    store.pause_definitions([given.id])
    assert loop.tick() is None
    assert instances(store, given) == []


def test_the_stores_time_is_read_again_as_time_passes(
    clock: ManualClock, store: Faulty
) -> None:
    own = ManualClock()
    node = Loop(own, store)
    node.tick()
    given = put(store, once(START + HOUR))
    clock.advance(HOUR)
    own.advance(MINUTE)
    node.tick()
    assert times(instances(store, given)) == [START + HOUR]


def test_what_was_missed_is_judged_by_the_stores_time(store: Faulty) -> None:
    given = put(store, definition(START))
    wrong = ManualClock(START + 1000 * HOUR)
    assert Loop(wrong, store).tick() is None
    assert times(instances(store, given)) == [START]
    assert store.get_definition(given.id).next_fire_time == START + HOUR


@pytest.mark.parametrize(
    ("window", "pause"), [(0.2, 0.2), (1, 1), (1.5, 1), (2, 1), (10, 5)]
)
def test_only_short_windows_are_whole_between_two_looks(
    window: float, pause: float
) -> None:
    assert longest_pause(window * SECOND) == pause * SECOND
