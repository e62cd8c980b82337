"""The pace: loops look further ahead of a slow store, and repeat what may settle."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.ticking.ticker import Pace, Repeats
from tests.conftest import seconds

if TYPE_CHECKING:
    from go_scheduler.testing import ManualClock

WINDOW = seconds(1)
LEAD = timedelta(milliseconds=20)


@pytest.mark.parametrize(
    ("took", "ahead", "lead"),
    [
        ([], 0, 0.02),
        ([0], 0, 0.02),
        ([0.3] * 100, 1.5, 0.6),
        ([0.3] * 100 + [0] * 100, 0, 0.02),
        # One slow answer of many widens no window, and is reckoned with by the lead.
        ([0.01] * 20 + [5], 0.05, 0.525),
        ([60], 10, 5.5),
        ([0.01, 0.1, 0.02], 0.1, 0.2),
        ([2] * 100, 10, 4),
    ],
)
def test_a_slow_store_is_looked_ahead_of_and_given_twice_what_it_takes(
    took: list[float], ahead: float, lead: float
) -> None:
    pace = Pace(WINDOW)
    for each in took:
        pace.took(seconds(each))
    assert pace.ahead == WINDOW + seconds(ahead)
    assert pace.lead(0) == seconds(lead)


def test_the_lead_is_more_for_each_that_is_held_and_half_of_the_window_at_most() -> (
    None
):
    pace = Pace(WINDOW)
    assert pace.lead(1000) == LEAD + seconds(0.03)
    assert pace.lead(1_000_000) == WINDOW / 2


def test_a_look_is_repeated_four_times_while_the_store_settles(
    clock: ManualClock,
) -> None:
    repeats = Repeats(clock, settling=seconds(0.1))
    assert repeats.wait is None
    repeats.begin()
    clock.advance(seconds(0.01))
    # A new look begins them anew.
    repeats.begin()
    for wait in (0.02, 0.03, 0.05, 0.1):
        assert not repeats.take()
        assert repeats.wait == seconds(wait)
        clock.advance(seconds(wait))
        assert repeats.take()
    assert repeats.wait is None
    repeats.begin()
    clock.advance(seconds(0.15))
    # A late one takes the place of those before it.
    assert repeats.wait == ZERO
    assert repeats.take()
    assert repeats.wait == seconds(0.05)
