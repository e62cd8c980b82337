"""Calls that wait for the store have so many threads, and are refused what has none."""

from __future__ import annotations

import threading
from concurrent.futures import wait
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from go_scheduler import StoreUnavailableError
from go_scheduler.http.limits import Threads
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler.testing import ManualClock


class Held:
    """Two threads, four calls, and what holds those that were begun."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.threads = Threads(clock, threads=2, calls=4)
        self.go_on = threading.Event()
        self.begun = threading.Semaphore(0)

    def hold(self) -> bool:
        self.begun.release()
        return self.go_on.wait(FAILED_AFTER)

    def hold_all(self) -> None:
        for _ in range(2):
            self.threads.submit(self.hold)
        for _ in range(2):
            assert self.begun.acquire(timeout=FAILED_AFTER)


@pytest.fixture
def held(clock: ManualClock) -> Iterator[Held]:
    held = Held(clock)
    yield held
    held.go_on.set()
    held.threads.shutdown()


def test_a_call_is_answered_with_what_it_returned(held: Held) -> None:
    assert held.threads.submit(max, 1, 2).result(FAILED_AFTER) == 2


def test_what_has_no_thread_yet_waits_for_one(held: Held) -> None:
    held.hold_all()
    waiting = held.threads.submit(max, 1, 2)
    held.go_on.set()
    assert waiting.result(FAILED_AFTER) == 2


def test_more_calls_than_there_may_be_are_refused(held: Held) -> None:
    held.hold_all()
    waiting = [held.threads.submit(max, 1, 2) for _ in range(2)]
    with pytest.raises(StoreUnavailableError, match="too many"):
        held.threads.submit(max, 1, 2)
    held.go_on.set()
    wait(waiting, FAILED_AFTER)
    assert held.threads.submit(max, 1, 2).result(FAILED_AFTER) == 2


def test_while_all_threads_are_stuck_nobody_waits_behind_them(held: Held) -> None:
    held.hold_all()
    held.clock.advance(timedelta(seconds=6))
    with pytest.raises(StoreUnavailableError, match="too many"):
        held.threads.submit(max, 1, 2)


def test_what_is_shut_down_takes_no_more(held: Held) -> None:
    held.threads.shutdown()
    with pytest.raises(StoreUnavailableError, match="stopping"):
        held.threads.submit(max, 1, 2)
    with pytest.raises(StoreUnavailableError, match="stopping"):
        held.threads.submit(max, 1, 2)
