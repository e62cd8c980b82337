"""The tally: what begins and ends, in numbers that lose nothing."""

from __future__ import annotations

import threading
from datetime import timedelta

from go_scheduler.models import BOUNDS, Histogram, Outcome, QueueStats, TaskDefinition
from go_scheduler.running.tally import Tally
from go_scheduler.testing.builders import HOUR, MINUTE, SECOND, definition
from go_scheduler.testing.clock import START
from tests.conftest import seconds

MS = timedelta(milliseconds=1)
AT_FIRST = timedelta(0)
THREADS = 8


def stats(at: timedelta, count: int, *, queue: str = "default") -> QueueStats:
    return QueueStats(
        at=START + at,
        queue=queue,
        ended={"completed": count},
        lateness=Histogram.of([(MS, count)]),
    )


def named(queue: str, name: str | None = None) -> TaskDefinition:
    return definition(queue=queue, name=name)


def run(tally: Tally, at: timedelta, *, queue: str = "default") -> None:
    tally.begun(named(queue), MS, START + at)
    tally.ended(named(queue), Outcome.COMPLETED)


def test_what_was_counted_is_taken_once_its_minute_is_over() -> None:
    tally = Tally()
    run(tally, seconds(1))
    run(tally, seconds(59))
    tally.look(START + seconds(59.9))
    assert tally.take() == []
    tally.look(START + MINUTE)
    assert tally.take() == [stats(AT_FIRST, 2)]
    assert tally.take() == []


def test_minutes_and_queues_are_taken_apart() -> None:
    tally = Tally()
    run(tally, seconds(1))
    run(tally, seconds(61), queue="mail")
    run(tally, seconds(61))
    run(tally, seconds(121))
    tally.look(START + 2 * MINUTE)
    assert tally.take() == [
        stats(AT_FIRST, 1),
        stats(MINUTE, 1, queue="mail"),
        stats(MINUTE, 1),
    ]


def test_nothing_is_taken_where_nothing_was_counted() -> None:
    tally = Tally()
    for number in range(100):
        tally.look(START + number * MINUTE)
        assert tally.take() == []
    assert tally.take(last=True) == []


def test_the_last_time_all_is_taken_and_afterwards_nothing() -> None:
    tally = Tally()
    run(tally, seconds(1))
    assert tally.take(last=True) == [stats(AT_FIRST, 1)]
    assert tally.take(last=True) == []


def test_what_could_not_be_written_is_taken_again_with_what_came_since() -> None:
    tally = Tally()
    run(tally, seconds(1))
    tally.look(START + MINUTE)
    assert tally.take() == [stats(AT_FIRST, 1)]
    run(tally, seconds(61))
    tally.look(START + 2 * MINUTE)
    tally.put_back()
    both = [stats(AT_FIRST, 1), stats(MINUTE, 1)]
    assert tally.take() == both
    assert tally.take() == []


def test_while_the_store_is_away_the_oldest_are_forgotten() -> None:
    tally = Tally()
    for number in range(1000):
        run(tally, number * MINUTE)
    taken = tally.take(last=True)
    assert 200 < len(taken) <= 241
    assert taken[-1].at == START + 999 * MINUTE


def test_ends_of_each_kind_are_counted_by_queue() -> None:
    tally = Tally()
    # Before anything has begun here: it ran elsewhere.
    for outcome in (*Outcome, None, None):
        tally.ended(named("default"), outcome)
    tally.ended(named("mail"), Outcome.FAILED)
    tally.look(START)
    found = tally.take(last=True)
    assert [(each.queue, each.ended) for each in found] == [
        (
            "default",
            {"completed": 1, "failed": 1, "cancelled": 1, "skipped": 1, "retried": 2},
        ),
        ("mail", {"failed": 1}),
    ]


def test_what_is_recent_is_forgotten_in_time() -> None:
    tally = Tally()

    def totals() -> list[int]:
        return [each.total for each in tally.recent()]

    run(tally, seconds(0))
    assert totals() == [1, 1, 1]
    tally.look(START + seconds(50))
    assert totals() == [1, 1, 1]
    tally.look(START + seconds(60))
    assert totals() == [0, 1, 1]
    run(tally, seconds(60))
    assert totals() == [1, 2, 2]
    tally.look(START + HOUR + seconds(70))
    assert totals() == [0, 0, 2]
    tally.look(START + timedelta(days=1, minutes=15))
    assert totals() == [0, 0, 0]


def test_a_clock_that_is_set_back_leaves_nothing_of_a_time_to_come() -> None:
    tally = Tally()
    run(tally, 5 * HOUR)
    tally.look(START)
    assert [each.total for each in tally.recent()] == [0, 0, 0]
    run(tally, SECOND)
    assert tally.recent().minute.total == 1


def test_what_is_later_than_wanted_is_counted_to_the_microsecond() -> None:
    tally = Tally()
    tally.watch(seconds(0.25))
    for late in (seconds(0.25), seconds(0.250001), seconds(9)):
        tally.begun(named("default"), late, START)
    assert tally.last_minute() == (3, 2)
    assert tally.recent().minute.quantile(0.3) == seconds(0.3)
    assert seconds(0.3) in BOUNDS


def test_many_threads_lose_nothing() -> None:
    tally = Tally()

    def count() -> None:
        for number in range(500):
            run(tally, number * SECOND, queue=str(number % 3))

    threads = [threading.Thread(target=count) for _ in range(THREADS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    taken = tally.take(last=True)
    assert sum(each.ended["completed"] for each in taken) == 500 * THREADS
    assert sum(each.lateness.total for each in taken) == 500 * THREADS
