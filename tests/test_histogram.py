"""A histogram of lateness: few numbers, and quantiles that are never too low."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest

from go_scheduler.models import BOUNDS, Histogram
from tests.conftest import seconds

DAY = timedelta(days=1)


def of(*lateness: timedelta) -> Histogram:
    return Histogram.of((each, 1) for each in lateness)


def test_the_bounds_rise_by_no_more_than_half_from_a_millisecond_to_two_hours() -> None:
    assert list(BOUNDS) == sorted(set(BOUNDS))
    fine = [each for each in BOUNDS if seconds(0.001) <= each <= seconds(7000)]
    assert all(after / before < 1.67 for before, after in pairwise(fine))
    assert BOUNDS[-1] == DAY


def test_without_runs_there_is_no_quantile() -> None:
    assert Histogram().quantile(0.5) is None
    assert Histogram().total == 0


@pytest.mark.parametrize("bound", BOUNDS)
def test_what_is_as_late_as_a_bound_stands_under_it(bound: timedelta) -> None:
    assert of(bound).quantile(0.99) == bound
    assert of(bound + timedelta(microseconds=1)).quantile(0.01) in (
        *(each for each in BOUNDS if each > bound),
        DAY,
    )


def test_a_quantile_is_that_of_the_share_asked_for() -> None:
    many = of(*[seconds(0.001)] * 98, seconds(1), seconds(5))
    assert many.quantile(0.5) == seconds(0.001)
    assert many.quantile(0.98) == seconds(0.001)
    assert many.quantile(0.99) == seconds(1)
    assert many.quantile(1) == seconds(5)
    assert many.total == 100


def test_a_day_stands_for_whatever_is_later() -> None:
    assert of(10 * DAY).quantile(0.5) == DAY
    assert list(of(10 * DAY).buckets()) == [(None, 1)]


def test_sums_and_buckets_come_back() -> None:
    both = of(seconds(0.002), seconds(0.0021)) + of(seconds(0.002), 2 * DAY)
    assert list(both.buckets()) == [(seconds(0.002), 2), (seconds(0.003), 1), (None, 1)]
    assert Histogram.of(both.buckets()) == both
