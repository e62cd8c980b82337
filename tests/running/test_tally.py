"""The tally: what begins and ends, in numbers that lose nothing."""

from __future__ import annotations

from datetime import timedelta

from go_scheduler.models import BOUNDS, Histogram, Outcome, QueueStats, TaskDefinition
from go_scheduler.running.tally import Tally
from go_scheduler.testing.builders import HOUR, MINUTE, SECOND, definition
from go_scheduler.testing.clock import START
from tests.conftest import seconds

MS = timedelta(milliseconds=1)
AT_FIRST = timedelta(0)


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


def test_ends_of_runs_that_began_elsewhere_are_counted() -> None:
    tally = Tally()
    for outcome in (*Outcome, None, None):
        tally.ended(named("default"), outcome)
    tally.look(START)
    [found] = tally.take(last=True)
    assert found.ended == {
        **dict.fromkeys(("completed", "failed", "cancelled", "skipped"), 1),
        "retried": 2,
    }


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
