"""What is left aside is tried again later, each time after twice as long."""

from __future__ import annotations

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.ticking.retry_later import RetryLater
from tests.conftest import seconds


@pytest.fixture
def aside() -> RetryLater[str]:
    return RetryLater(at_first=seconds(1), at_most=seconds(10))


def test_what_is_locked_is_tried_again_soon_and_every_second_at_last(
    aside: RetryLater[str],
) -> None:
    told = []
    for delay in (0.1, 0.2, 0.4, 0.8, 1, 1):
        told.append(aside.leave_busy("a", ZERO))
        assert aside.next(ZERO) == seconds(delay)
    assert told == [False, False, False, True, False, False]


def test_what_has_failed_is_tried_again_within_bounds(aside: RetryLater[str]) -> None:
    delays = [aside.leave_failed("a", ZERO) for _ in range(6)]
    assert delays == [seconds(each) for each in (1, 2, 4, 8, 10, 10)]


def test_what_has_failed_badly_waits_longer_the_first_time(
    aside: RetryLater[str],
) -> None:
    assert aside.leave_failed("a", ZERO, at_least=seconds(3)) == seconds(3)
    assert aside.leave_failed("a", ZERO, at_least=seconds(3)) == seconds(6)
    assert aside.leave_failed("b", ZERO, at_least=seconds(60)) == seconds(10)


def test_a_lock_after_a_failure_begins_anew_and_so_does_a_failure_after_a_lock(
    aside: RetryLater[str],
) -> None:
    aside.leave_failed("a", ZERO)
    aside.leave_busy("a", ZERO)
    assert aside.next(ZERO) == seconds(0.1)
    assert (aside.was_busy("a"), aside.has_failed("a")) == (True, False)
    assert aside.leave_failed("a", ZERO) == seconds(1)
    assert (aside.was_busy("a"), aside.has_failed("a")) == (False, True)


def test_so_many_are_taken_when_their_time_has_come_and_the_rest_stays_due(
    aside: RetryLater[str],
) -> None:
    for row in "abc":
        aside.leave_busy(row, ZERO)
    aside.leave_failed("d", ZERO)
    assert aside.take_busy(seconds(0.09)) == []
    assert aside.take_busy(seconds(0.1), 2) == ["a", "b"]
    assert ("a" in aside, "c" in aside, len(aside)) == (False, True, 2)
    assert aside.next(seconds(2)) == ZERO
    assert aside.take_failed(seconds(2)) == ["d"]
    assert aside.take_busy(seconds(2)) == ["c"]
    assert aside.next(seconds(2)) is None


def test_what_was_locked_may_be_waited_for_alone(aside: RetryLater[str]) -> None:
    aside.leave_failed("a", ZERO)
    assert aside.next_busy(ZERO) is None
    aside.leave_busy("b", seconds(5))
    assert aside.next_busy(seconds(5)) == seconds(0.1)


def test_what_is_forgotten_begins_anew(aside: RetryLater[str]) -> None:
    for row in "abc":
        aside.leave_failed(row, ZERO)
    aside.forget("a")
    aside.forget_unless(lambda row: row != "b")
    assert [aside.has_failed(row) for row in "abc"] == [False, False, True]
    assert aside.leave_failed("a", ZERO) == seconds(1)


def test_of_too_many_those_are_known_that_were_left_aside_last(
    aside: RetryLater[str],
) -> None:
    for row in "abca":
        aside.leave_failed(row, ZERO)
    aside.forget_beyond(3)
    assert len(aside) == 3
    aside.forget_beyond(2)
    assert [aside.has_failed(row) for row in "abc"] == [True, False, True]
