"""Lateness, of what nodes have counted."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from go_scheduler import MemoryStore
from go_scheduler.clock import ZERO
from go_scheduler.dashboard.pages.lateness import Cell, bars, by_queue, heat_map
from go_scheduler.dashboard.words import late
from go_scheduler.models.counts import BOUNDS, Histogram
from go_scheduler.testing import ManualClock
from go_scheduler.testing.builders import HOUR, SECOND, claim, definition, fire, put
from go_scheduler.testing.clock import START


@pytest.mark.parametrize(
    ("seconds", "heat"), [(None, None), (0.01, 0), (0.02, 1), (5, 3), (3600, 6)]
)
def test_the_later_the_hotter(seconds: float | None, heat: int | None) -> None:
    most = None if seconds is None else timedelta(seconds=seconds)
    assert Cell(at=START, began=1, most=most).heat == heat


def test_what_is_later_than_all_bounds_has_a_bar() -> None:
    [first, last] = bars(Histogram.of([(timedelta(seconds=1), 4), (None, 1)]))
    assert (first.text, first.count, first.share) == ("up to 1 s", 4, 1)
    assert (last.text, last.count, last.share) == ("later", 1, 0.25)


def test_no_two_bars_are_called_the_same() -> None:
    found = bars(Histogram.of((each, 1) for each in BOUNDS))
    assert [each.text for each in found[:4]] == [
        "up to 0.5 ms",
        "up to 0.7 ms",
        "up to 1 ms",
        "up to 1.5 ms",
    ]
    assert len({each.text for each in found}) == len(BOUNDS)


def test_a_run_that_is_tried_again_is_late_by_when_it_was_due_again() -> None:
    store = MemoryStore(ManualClock(START))
    first = put(store, definition(START))
    fire(store, first, START)
    [claimed] = claim(store, lead=ZERO)
    assert late(claimed) == ZERO
    again = replace(claimed, due_at=START + HOUR, started_at=START + HOUR + SECOND)
    assert late(again) == SECOND


def test_without_numbers_there_is_nothing_but_hours() -> None:
    assert by_queue([]) == []
    assert bars(Histogram()) == []
    days = heat_map([], days=3, now=START + 5 * HOUR)
    assert [day for day, _ in days] == [START - 24 * n * HOUR for n in range(3)]
    assert {each.heat for _, cells in days for each in cells} == {None}
