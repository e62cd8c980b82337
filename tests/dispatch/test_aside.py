"""Calls that wait do it on a few threads, which end when nothing is to be called."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from go_scheduler.dispatch.bus import Aside
from tests.dispatch.conftest import eventually
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from concurrent.futures import Future


def test_a_few_are_called_at_once_and_the_others_after_them() -> None:
    before = {*threading.enumerate()}
    aside, begun, let = Aside(most=2), threading.Semaphore(0), threading.Event()
    called: list[int] = []

    def call(number: int) -> Future[None]:
        def wait() -> None:
            begun.release()
            assert let.wait(FAILED_AFTER)
            called.append(number)

        return aside.call(wait)

    futures = [call(each) for each in range(4)]
    assert begun.acquire(timeout=FAILED_AFTER)
    assert begun.acquire(timeout=FAILED_AFTER)
    assert len({*threading.enumerate()} - before) == 2
    assert not begun.acquire(blocking=False)
    assert futures[3].cancel()
    let.set()
    for each in futures[:3]:
        each.result(FAILED_AFTER)
    assert sorted(called) == [0, 1, 2]
    eventually(lambda: {*threading.enumerate()} <= before)


def test_what_is_raised_is_told_and_costs_no_thread() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    aside = Aside(most=1)
    with pytest.raises(ZeroDivisionError):
        aside.call(fail).result(FAILED_AFTER)
    aside.call(lambda: None).result(FAILED_AFTER)
