"""The inline executor runs in the caller's thread and keeps whatever came of it."""

from __future__ import annotations

import threading
from concurrent.futures import wait

import pytest

from go_scheduler.testing import InlineExecutor


def test_a_call_runs_in_the_callers_thread_before_submit_returns() -> None:
    threads: list[threading.Thread] = []
    InlineExecutor().submit(lambda: threads.append(threading.current_thread()))
    assert threads == [threading.current_thread()]


def test_the_future_is_done_and_has_the_result() -> None:
    future = InlineExecutor().submit(divmod, 7, 2)
    assert future.done()
    assert future.result() == (3, 1)


def test_arguments_are_passed_by_position_and_by_name() -> None:
    future = InlineExecutor().submit(sorted, [1, 3, 2], reverse=True)
    assert future.result() == [3, 2, 1]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_whatever_is_raised_goes_into_the_future(error: type[BaseException]) -> None:
    def fail() -> None:
        raise error("no")

    future = InlineExecutor().submit(fail)
    assert isinstance(future.exception(), error)


def test_a_call_may_submit_another() -> None:
    executor = InlineExecutor()
    outer = executor.submit(lambda: executor.submit(int, "7").result() + 1)
    assert outer.result() == 8


def test_a_finished_future_cannot_be_cancelled() -> None:
    assert not InlineExecutor().submit(int).cancel()


def test_it_is_a_standard_executor() -> None:
    with InlineExecutor() as executor:
        assert list(executor.map(abs, [-1, 2])) == [1, 2]
        done, waiting = wait([executor.submit(int)])
    assert (len(done), len(waiting)) == (1, 0)


def test_it_can_be_used_after_shutdown() -> None:
    executor = InlineExecutor()
    executor.shutdown()
    assert executor.submit(int, "1").result() == 1
