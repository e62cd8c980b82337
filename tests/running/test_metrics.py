"""The metrics: what begins and ends, in numbers that lose nothing."""

from __future__ import annotations

from datetime import timedelta

from go_scheduler.models import BOUNDS, Outcome
from go_scheduler.running.metrics import Metrics
from go_scheduler.testing.builders import HOUR, MINUTE, SECOND, TICK, definition
from go_scheduler.testing.clock import START
from tests.conftest import seconds

MS = timedelta(milliseconds=1)


def run(metrics: Metrics, at: timedelta) -> None:
    metrics.begun(definition(), MS, START + at)
    metrics.ended(definition(), Outcome.COMPLETED)


def test_while_the_store_is_away_the_oldest_are_forgotten() -> None:
    metrics = Metrics()
    for number in range(1000):
        run(metrics, number * MINUTE)
    taken = metrics.take(last=True)
    assert 200 < len(taken) <= 241
    assert taken[-1].at == START + 999 * MINUTE


def test_a_clock_that_is_set_back_leaves_nothing_of_a_time_to_come() -> None:
    metrics = Metrics()
    run(metrics, 5 * HOUR)
    metrics.look(START)
    assert [each.total for each in metrics.recent()] == [0, 0, 0]
    run(metrics, SECOND)
    assert metrics.recent().minute.total == 1


def test_what_is_later_than_wanted_is_counted_to_the_microsecond() -> None:
    metrics = Metrics()
    metrics.watch(seconds(0.25))
    for late in (seconds(0.25), seconds(0.250001), seconds(9)):
        metrics.begun(definition(), late, START)
    assert metrics.last_minute() == (3, 2)
    assert metrics.recent().minute.quantile(0.3) == seconds(0.3)
    assert seconds(0.3) in BOUNDS


def test_the_store_keeps_the_lateness_of_a_minute_in_twelve_buckets() -> None:
    metrics = Metrics()
    for late in (0, 0.001, 0.0011, 0.005, 0.006, 0.1, 9, 43_200, 43_201, 10**6):
        metrics.begun(definition(), seconds(late), START)
    [stats] = metrics.take(last=True)
    kept = {0.001: 2, 0.005: 2, 0.02: 1, 0.1: 1, 10: 1, 43_200: 1}
    expected = [*((seconds(bound), count) for bound, count in kept.items()), (None, 2)]
    assert list(stats.lateness.buckets()) == expected
    for each in BOUNDS:
        metrics.begun(definition(), each + TICK, START + MINUTE)
    [stats] = metrics.take(last=True)
    assert len(list(stats.lateness.buckets())) == 12
