"""What others send is told in a few lines a second."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from go_scheduler.dispatch.recording import PacedLog
from go_scheduler.testing import ManualClock
from go_scheduler.testing.builders import SECOND

if TYPE_CHECKING:
    import pytest


def test_a_second_has_five_lines_and_the_next_one_says_how_many_more_there_were(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    caplog.set_level(logging.WARNING, "tests.paced")
    log = PacedLog(logging.getLogger("tests.paced"), clock)
    for number in range(7):
        log.write(logging.INFO, "nobody reads this")
        log.write(logging.WARNING, "line %d", number)
    clock.advance(SECOND)
    for _ in range(6):
        log.write(logging.WARNING, "another", error=OSError("why"))
    log.close()
    assert caplog.messages == [
        *(f"line {number}" for number in range(5)),
        "2 more such lines were left out",
        *["another"] * 5,
        "1 more such lines were left out",
    ]


def test_what_comes_often_leaves_nothing_else_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "tests.paced")
    log = PacedLog(logging.getLogger("tests.paced"), ManualClock())
    for number in range(9):
        log.write(logging.INFO, "%d is given back", number)
    log.write(logging.ERROR, "a message is dropped")
    log.close()
    assert caplog.messages[-2:] == [
        "a message is dropped",
        "4 more such lines were left out",
    ]
