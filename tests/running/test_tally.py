"""The tally: what begins and ends, in numbers that lose nothing."""

from __future__ import annotations

from datetime import timedelta

from go_scheduler.models import BOUNDS, Outcome
from go_scheduler.running.tally import Tally
from go_scheduler.testing.builders import HOUR, MINUTE, SECOND, definition
from go_scheduler.testing.clock import START
from tests.conftest import seconds

MS = timedelta(milliseconds=1)


def run(tally: Tally, at: timedelta) -> None:
    tally.begun(definition(), MS, START + at)
    tally.ended(definition(), Outcome.COMPLETED)


def test_while_the_store_is_away_the_oldest_are_forgotten() -> None:
    tally = Tally()
    for number in range(1000):
        run(tally, number * MINUTE)
    taken = tally.take(last=True)
    assert 200 < len(taken) <= 241
    assert taken[-1].at == START + 999 * MINUTE


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
        tally.begun(definition(), late, START)
    assert tally.last_minute() == (3, 2)
    assert tally.recent().minute.quantile(0.3) == seconds(0.3)
    assert seconds(0.3) in BOUNDS
