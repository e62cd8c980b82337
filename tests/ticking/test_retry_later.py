"""What a store does not take costs only itself, and is tried again later."""

from __future__ import annotations

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.errors import StoreError, StoreUnavailableError
from go_scheduler.ticking.retry_later import RetryLater, write_in_halves
from tests.conftest import seconds


@pytest.fixture
def aside() -> RetryLater[str]:
    return RetryLater(at_first=seconds(1), at_most=seconds(10))


def test_so_many_are_taken_when_their_time_has_come_and_the_rest_stays_due(
    aside: RetryLater[str],
) -> None:
    aside.leave_failed("d", ZERO)
    assert aside.next_busy(ZERO) is None
    for row in "abc":
        aside.leave_busy(row, ZERO)
    assert aside.take_busy(seconds(0.09)) == []
    assert aside.take_busy(seconds(0.1), 2) == ["a", "b"]
    assert ("a" in aside, "c" in aside, len(aside)) == (False, True, 2)
    assert aside.next(seconds(2)) == aside.next_busy(seconds(2)) == ZERO
    assert aside.take_failed(seconds(2)) == ["d"]
    assert aside.take_busy(seconds(2)) == ["c"]
    assert aside.next(seconds(2)) is None


def test_what_is_forgotten_begins_anew(aside: RetryLater[str]) -> None:
    for row in "abca":
        aside.leave_failed(row, ZERO)
    aside.forget_beyond(3)
    assert len(aside) == 3
    # Those are known that were left aside last.
    aside.forget_beyond(2)
    assert [aside.has_failed(row) for row in "abc"] == [True, False, True]
    aside.forget("a")
    aside.forget_unless(lambda row: row != "c")
    assert len(aside) == 0
    assert aside.leave_failed("a", ZERO) == seconds(1)


@pytest.mark.parametrize(
    ("bad", "written", "most"),
    [
        ([], [range(1000)], 1),
        ([700], None, 21),
        (range(1000), [], 2000),
    ],
    ids=["none", "one", "all"],
)
def test_of_a_batch_each_bad_row_fails_alone(
    bad: list[int], written: list[range] | None, most: int
) -> None:
    calls, failed = [], []

    def write(rows: range) -> range:
        calls.append(rows)
        if {*bad} & {*rows}:
            raise StoreError("a row is bad")
        return rows

    answers = write_in_halves(
        range(1000),
        write,  # type: ignore[arg-type]
        lambda row, error: failed.append((row, str(error))),
    )
    assert failed == [(row, "a row is bad") for row in bad]
    good = [row for answer in answers for row in answer]
    assert good == [row for row in range(1000) if row not in bad]
    assert written is None or answers == written
    assert len(calls) <= most


def test_an_empty_batch_is_not_written_and_a_store_that_is_away_not_asked_again() -> (
    None
):
    calls = []

    def away(rows: object) -> None:
        calls.append(rows)
        raise StoreUnavailableError("away")

    fail = pytest.fail
    assert write_in_halves([], away, lambda *_: fail("no row is bad")) == []
    with pytest.raises(StoreUnavailableError):
        write_in_halves([1, 2], away, lambda *_: fail("no row is bad"))
    assert calls == [[1, 2]]
