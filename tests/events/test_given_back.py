"""What is given back again and again is no news for a log."""

from __future__ import annotations

from uuid import UUID

from go_scheduler.events.event_bus import GivenBackLately
from go_scheduler.testing import ManualClock
from go_scheduler.testing.builders import MINUTE, SECOND

ONE, TWO = UUID(int=1), UUID(int=2)


def test_it_is_news_after_a_minute_without() -> None:
    clock = ManualClock()
    lately = GivenBackLately(clock)
    assert not lately.again(ONE, "away")
    assert not lately.again(TWO, "away")
    assert not lately.again(ONE, "full")
    for _ in range(3):
        clock.advance(MINUTE)
        assert lately.again(ONE, "away")
    clock.advance(MINUTE + SECOND)
    assert not lately.again(ONE, "away")


def test_no_more_than_a_thousand_are_remembered() -> None:
    lately = GivenBackLately(ManualClock())
    for number in range(1001):
        assert not lately.again(ONE, str(number))
    assert lately.again(ONE, "1")
    assert not lately.again(ONE, "0")
