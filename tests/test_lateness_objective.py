"""How late runs begin is measured always, and told when it is later than is wanted."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from go_scheduler import RetryAfter
from go_scheduler.client import Client
from go_scheduler.clock import ZERO
from go_scheduler.errors import ConfigurationError, StoreUnavailableError
from go_scheduler.events import ObjectiveBroken, ObjectiveMet, hears
from go_scheduler.health import Lateness, RecentLateness
from go_scheduler.models import QueueStats, TaskDefinition
from go_scheduler.run import HandedOn
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.testing.builders import MINUTE
from go_scheduler.testing.clock import START, ManualClock
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger
from go_scheduler.triggers.interval import IntervalTrigger
from tests.conftest import seconds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.events import Event
    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store

MOST_IN_TIME = seconds(0.0005)


def once(at: datetime, *, queue: str = "default") -> TaskDefinition:
    return TaskDefinition(trigger=ExecuteOnceTrigger(at), queue=queue)


def nothing(instance: TaskInstance) -> None:
    pass


def ended(found: Sequence[QueueStats]) -> list[tuple[datetime, str, object, int]]:
    return [(each.at, each.queue, each.ended, each.lateness.total) for each in found]


def test_what_ran_is_counted_and_written_by_the_minute(
    store: Store, clock: ManualClock
) -> None:
    def handler(instance: TaskInstance) -> None:
        if instance.definition.queue == "mail" and instance.runs < 3:
            raise RetryAfter(seconds(1))

    queues = ["default", "mail"]
    with Scheduler(handler, store, clock=clock, queues=queues) as scheduler:
        scheduler.schedule(once(START + seconds(20)))
        scheduler.schedule(once(START + seconds(20), queue="mail"))
        scheduler.schedule(once(START + seconds(80)))
        clock.advance(seconds(59))
        assert scheduler.stats_since(START) == []
        clock.advance(seconds(90))
        first = [
            (START, "default", {"completed": 1}, 1),
            (START, "mail", {"completed": 1, "retried": 2}, 3),
            (START + MINUTE, "default", {"completed": 1}, 1),
        ]
        assert ended(scheduler.stats_since(START)) == first
        assert ended(scheduler.stats_since(START + MINUTE)) == first[2:]
        assert ended(scheduler.stats_since(START, START + MINUTE)) == first[:2]
        assert scheduler.health().lateness == RecentLateness(
            hour=Lateness(runs=5, p50=MOST_IN_TIME, p99=MOST_IN_TIME),
            day=Lateness(runs=5, p50=MOST_IN_TIME, p99=MOST_IN_TIME),
        )


def test_what_ran_in_the_last_minute_is_written_as_a_node_stops(
    store: Store, clock: ManualClock
) -> None:
    for _ in range(2):
        with Scheduler(nothing, store, clock=clock) as scheduler:
            scheduler.schedule(once(START))
            clock.advance(seconds(1))
    # Two nodes have counted, and are told of as one.
    assert ended(Client(store).stats_since(START)) == [
        (START, "default", {"completed": 2}, 2)
    ]


def test_runs_that_are_handed_on_count_with_the_node_that_is_told_of_their_end(
    clock: ManualClock,
) -> None:
    store = MemoryStore(clock)
    tokens: list[tuple[UUID, int]] = []

    def handler(instance: TaskInstance) -> HandedOn:
        tokens.append((instance.id, instance.attempt))
        return HandedOn()

    with Scheduler(handler, store, clock=clock) as scheduler:
        for _ in range(2):
            scheduler.schedule(once(START))
        clock.advance(seconds(1))
        scheduler.complete(*tokens[0])
        scheduler.fail(*tokens[1], "no", retry=False)
        # Who runs nothing counts nothing.
        assert Client(store).complete(*tokens[1])
    assert ended(scheduler.stats_since(START)) == [
        (START, "default", {"completed": 1, "failed": 1}, 2)
    ]


class AwayForStats(MemoryStore):
    """Does not take what was counted while it is away."""

    away = True

    def note_stats(self, node: UUID, stats: Sequence[QueueStats]) -> None:
        if self.away:
            raise StoreUnavailableError("away")
        super().note_stats(node, stats)


def test_what_a_store_does_not_take_is_written_later(clock: ManualClock) -> None:
    store = AwayForStats(clock)
    with Scheduler(nothing, store, clock=clock) as scheduler:
        scheduler.schedule(once(START))
        clock.advance(seconds(100))
        assert scheduler.health().loops["takeover"].error is not None
        assert scheduler.stats_since(START) == []
        store.away = False
        clock.advance(seconds(100))
        assert scheduler.health().ok
        assert len(scheduler.stats_since(START)) == 1
        scheduler.schedule(once(clock.now()))
        clock.advance(seconds(1))
        store.away = True
    # It has stopped all the same.
    assert len(scheduler.stats_since(START)) == 1


def test_no_more_is_read_at_once_than_can_be() -> None:
    client, until = Client(MemoryStore()), START + 2000 * MINUTE
    assert client.stats_since(START, until) == []
    with pytest.raises(ConfigurationError, match="more than 2,000 minutes: ask in"):
        client.stats_since(START, until + seconds(1))


def test_times_without_a_zone_are_refused() -> None:
    client = Client(MemoryStore())
    with pytest.raises(ConfigurationError, match=r"^since has no time zone"):
        client.stats_since(START.replace(tzinfo=None))
    with pytest.raises(ConfigurationError, match=r"^until must be a datetime, not 7"):
        client.stats_since(START, 7)  # type: ignore[arg-type]


def test_an_objective_is_broken_and_met_again(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    told: list[Event] = []
    scheduler = Scheduler(
        nothing,
        MemoryStore(clock),
        clock=clock,
        lateness_objective=seconds(2),
        listeners=[hears(ObjectiveBroken, ObjectiveMet)(told.append)],
    )
    with scheduler:
        node = scheduler.health().node
        assert node is not None
        for _ in range(98):
            scheduler.schedule(once(START))
        scheduler.schedule(once(START - seconds(2)))
        scheduler.schedule(once(START - seconds(3)))
        clock.advance(seconds(10))
        assert told == []
        assert scheduler.health().lateness == RecentLateness(
            minute=(lateness := Lateness(runs=100, p50=MOST_IN_TIME, p99=seconds(2))),
            hour=lateness,
            day=lateness,
            objective=seconds(2),
            met=True,
        )
        scheduler.schedule(once(clock.now() - seconds(3)))
        clock.advance(seconds(10))
        broken = ObjectiveBroken(node=node, objective=seconds(2), runs=101, late=2)
        assert told == [broken]
        assert scheduler.health().lateness.met is False
        clock.advance(MINUTE)
        [_, met] = told
        assert isinstance(met, ObjectiveMet)
        assert seconds(50) < met.after <= MINUTE
        assert scheduler.health().lateness.met is True
    lines = [each for each in caplog.messages if "late" in each]
    assert lines == [
        "2 of the last minute's 101 runs are more than 2 s late",
        f"runs are at most 2 s late again, after {met.after.total_seconds():.0f} s",
    ]


class Wrong(ManualClock):
    """That of a node whose time of day is off, and may be set."""

    off = ZERO

    def now(self) -> datetime:
        return super().now() + self.off


def test_a_node_whose_clock_is_off_and_jumps_breaks_no_objective() -> None:
    wrong = Wrong()
    told: list[Event] = []
    store = MemoryStore(wrong)
    store._time = lambda: ManualClock.now(wrong)
    listeners = [hears(ObjectiveBroken, ObjectiveMet)(told.append)]
    begun: list[timedelta] = []

    def handler(instance: TaskInstance) -> None:
        begun.append(store.now() - instance.due_at)

    every = TaskDefinition(trigger=IntervalTrigger(seconds(1), anchor=START))
    with Scheduler(
        handler, store, clock=wrong, lateness_objective=seconds(2), listeners=listeners
    ) as scheduler:
        scheduler.schedule(every)
        for minutes in (5, -10, 0, -5):
            wrong.off = timedelta(minutes=minutes)
            wrong.advance(seconds(10))
        lateness = scheduler.health().lateness
    assert (told, {*begun}) == ([], {ZERO})
    assert lateness.minute is not None
    assert lateness.minute.p99 == MOST_IN_TIME
    # The store's minutes are those in which they ran.
    counted = store.list_stats(since=START, until=START + MINUTE)
    assert sum(each.lateness.total for each in counted) == len(begun) == 40


def test_no_objective_is_neither_met_nor_broken(clock: ManualClock) -> None:
    with Scheduler(nothing, MemoryStore(clock), clock=clock) as scheduler:
        clock.advance(timedelta(minutes=2))
        assert scheduler.health().lateness == RecentLateness()
