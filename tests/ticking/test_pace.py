"""The pace: loops look further ahead of a slow store, and start earlier."""

from __future__ import annotations

from datetime import timedelta

import pytest

from go_scheduler.ticking.ticker import Pace
from tests.conftest import seconds

WINDOW = seconds(1)
LEAD = timedelta(milliseconds=20)


@pytest.fixture
def pace() -> Pace:
    return Pace(WINDOW)


def test_a_store_that_answers_at_once_leaves_the_window_as_it_is(pace: Pace) -> None:
    assert (pace.ahead, pace.lead(0)) == (WINDOW, LEAD)
    pace.took(seconds(0))
    assert (pace.ahead, pace.lead(0)) == (WINDOW, LEAD)


def test_the_window_grows_by_five_of_the_recent_answers_and_shrinks_again(
    pace: Pace,
) -> None:
    for _ in range(100):
        pace.took(seconds(0.3))
    assert pace.ahead == WINDOW + 5 * seconds(0.3)
    for _ in range(100):
        pace.took(seconds(0))
    assert pace.ahead == WINDOW


def test_one_slow_answer_of_many_does_not_widen_it(pace: Pace) -> None:
    for _ in range(20):
        pace.took(seconds(0.01))
    pace.took(seconds(5))
    assert pace.ahead == WINDOW + 5 * seconds(0.01)


def test_it_grows_by_ten_seconds_at_most(pace: Pace) -> None:
    pace.took(seconds(60))
    assert pace.ahead == WINDOW + seconds(10)


def test_the_lead_is_twice_the_slowest_and_more_for_each_that_is_held(
    pace: Pace,
) -> None:
    for took in (0.01, 0.1, 0.02):
        pace.took(seconds(took))
    assert pace.lead(0) == 2 * seconds(0.1)
    assert pace.lead(1000) == 2 * seconds(0.1) + seconds(0.03)


def test_the_lead_is_at_most_half_of_what_is_looked_ahead(pace: Pace) -> None:
    assert pace.lead(1_000_000) == WINDOW / 2
    for _ in range(20):
        pace.took(seconds(0.01))
    pace.took(seconds(5))
    assert pace.lead(0) == (WINDOW + 5 * seconds(0.01)) / 2


@pytest.mark.parametrize("took", [0.1, 0.3, 1, 2])
def test_a_store_that_is_slow_all_the_time_is_given_twice_what_it_takes(
    pace: Pace, took: float
) -> None:
    for _ in range(100):
        pace.took(seconds(took))
    assert pace.lead(0) == 2 * seconds(took)
