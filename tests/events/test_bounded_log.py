"""What the loops log is bounded: lines between two ticks, lines of a traceback."""

from __future__ import annotations

import logging

import pytest

from go_scheduler.errors import StoreError, StoreUnavailableError
from go_scheduler.events.bounded_log import BoundedLog, traceback_of

LOG = logging.getLogger("go_scheduler.tests.bounded_log")
AWAY = StoreUnavailableError("server closed the connection unexpectedly")


def test_of_a_store_that_is_away_one_line_is_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    BoundedLog(LOG).write(logging.ERROR, "not done: %r", AWAY, ids={}, error=AWAY)
    [record] = caplog.records
    assert logging.Formatter().format(record) == f"not done: {AWAY!r}"


def test_whoever_asks_for_all_there_is_gets_the_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    BoundedLog(LOG).write(logging.ERROR, "not done", ids={}, error=AWAY)
    [record] = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[1] is AWAY


@pytest.mark.parametrize("error", [StoreError("a table is gone"), ValueError("no")])
def test_every_other_error_is_written_with_its_traceback(
    caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    caplog.set_level(logging.INFO)
    assert traceback_of(error, LOG) is error
    BoundedLog(LOG).write(logging.ERROR, "not done", ids={}, error=error)
    [record] = caplog.records
    assert record.exc_info is not None


def test_after_five_lines_only_their_number_is_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = BoundedLog(LOG)
    for number in range(8):
        log.write(logging.WARNING, "%d", number, ids={"instance_id": number})
    log.begin()
    log.begin()
    assert caplog.messages == [*"01234", "3 more such lines were left out"]
    assert [getattr(each, "instance_id", "") for each in caplog.records][:2] == [0, 1]
