"""When each of many is to run: evenly, whatever their count, and always the same."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest

from go_scheduler.errors import ConfigurationError
from go_scheduler.http.jobs.jitter import JobDefaults, Spread, drawn
from go_scheduler.testing.builders import SECOND

HOUR = 3600 * SECOND


@pytest.mark.parametrize("count", [10, 1000, 4321])
def test_a_window_is_filled_evenly_by_any_count(count: int) -> None:
    spread = Spread(window=HOUR)
    offsets = sorted(spread.offset(number) for number in range(1, count + 1))
    gaps = [later - earlier for earlier, later in pairwise([0 * HOUR, *offsets, HOUR])]
    assert timedelta(0) <= offsets[0]
    assert offsets[-1] < HOUR
    assert max(gaps) < 3 * HOUR / count


def test_an_interval_puts_one_after_the_other() -> None:
    spread = Spread(interval=2 * SECOND)
    assert [spread.offset(n) // SECOND for n in (1, 2, 3)] == [0, 2, 4]
    assert Spread().offset(7) == timedelta(0)


def test_a_jitter_is_always_the_same_for_the_same_key() -> None:
    many = [drawn(str(number), HOUR) for number in range(1000)]
    assert many == [drawn(str(number), HOUR) for number in range(1000)]
    assert timedelta(0) <= min(many) < HOUR / 100
    assert HOUR * 0.99 < max(many) <= HOUR
    assert drawn("7", None) == drawn("7", timedelta(0)) == timedelta(0)


def test_what_holds_for_all_is_no_time_that_has_passed() -> None:
    with pytest.raises(ConfigurationError, match="jitter must be at least 0 s"):
        JobDefaults(jitter=-SECOND)
    with pytest.raises(ConfigurationError, match="interval must be a timedelta"):
        JobDefaults(interval=5)  # type: ignore[arg-type]
