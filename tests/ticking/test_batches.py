"""A batch that fails is split, so that one bad row costs only itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest

from go_scheduler.errors import StoreError, StoreUnavailableError
from go_scheduler.ticking.retry_later import write_in_halves

Rows = Sequence[int]


def write(rows: Rows, *, written: list[Rows], bad: set[int]) -> Rows:
    if bad & {*rows}:
        raise StoreError("a row is bad")
    written.append(rows)
    return rows


def write_all(rows: Rows, bad: set[int]) -> tuple[list[Rows], list[int]]:
    written: list[Rows] = []
    failed: list[tuple[int, Exception]] = []
    answers = write_in_halves(
        rows,
        partial(write, written=written, bad=bad),
        lambda row, error: failed.append((row, error)),
    )
    assert answers == written
    assert all(str(error) == "a row is bad" for _, error in failed)
    return written, [row for row, _ in failed]


def test_a_good_batch_is_one_write() -> None:
    assert write_all([1, 2, 3], set()) == ([[1, 2, 3]], [])


def test_nothing_is_written_for_an_empty_batch() -> None:
    assert write_all([], set()) == ([], [])


def test_a_bad_row_fails_alone_and_the_others_are_written_in_order() -> None:
    written, failed = write_all([*range(8)], {5})
    assert failed == [5]
    assert written == [[0, 1, 2, 3], [4], [6, 7]]


def test_every_bad_row_is_told_of_once() -> None:
    written, failed = write_all([*range(9)], {*range(9)})
    assert failed == [*range(9)]
    assert written == []


def test_one_bad_row_among_many_costs_few_writes() -> None:
    calls: list[Rows] = []

    def counted(rows: Rows) -> Rows:
        calls.append(rows)
        return write(rows, written=[], bad={700})

    write_in_halves(range(1000), counted, lambda row, error: None)
    assert len(calls) <= 21


def test_a_store_that_is_away_is_not_asked_again() -> None:
    calls: list[Rows] = []

    def away(rows: Rows) -> Rows:
        calls.append(rows)
        raise StoreUnavailableError("away")

    with pytest.raises(StoreUnavailableError):
        write_in_halves([1, 2], away, lambda row, error: pytest.fail("no row is bad"))
    assert calls == [[1, 2]]
