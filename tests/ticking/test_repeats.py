"""Repeats: a look is taken again while what is new may not be found yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.ticking.ticker import Repeats
from tests.conftest import seconds

if TYPE_CHECKING:
    from go_scheduler.testing import ManualClock


def test_a_look_is_repeated_four_times(clock: ManualClock) -> None:
    repeats = Repeats(clock, settling=seconds(0.1))
    assert repeats.wait is None
    repeats.begin()
    for wait in (0.02, 0.03, 0.05, 0.1):
        assert not repeats.take()
        assert repeats.wait == seconds(wait)
        clock.advance(seconds(wait))
        assert repeats.take()
    assert repeats.wait is None


def test_a_late_repeat_takes_the_place_of_those_before_it(clock: ManualClock) -> None:
    repeats = Repeats(clock, settling=seconds(0.1))
    repeats.begin()
    clock.advance(seconds(0.15))
    assert repeats.wait == ZERO
    assert repeats.take()
    assert repeats.wait == seconds(0.05)


def test_a_new_look_begins_them_anew(clock: ManualClock) -> None:
    repeats = Repeats(clock, settling=seconds(0.1))
    repeats.begin()
    clock.advance(seconds(0.01))
    repeats.begin()
    assert repeats.wait == seconds(0.02)


def test_nothing_is_repeated_where_nothing_settles(clock: ManualClock) -> None:
    repeats = Repeats(clock, settling=ZERO)
    repeats.begin()
    assert repeats.wait is None
    clock.advance(seconds(1))
    assert not repeats.take()
