"""The inline executor runs in the caller's thread and keeps whatever came of it."""

from __future__ import annotations

import threading

import pytest

from go_scheduler.testing import InlineExecutor


def test_a_call_runs_in_the_callers_thread_before_submit_returns() -> None:
    with InlineExecutor() as executor:
        thread = executor.submit(threading.get_ident)
        assert thread.done()
        assert thread.result() == threading.get_ident()
        assert executor.submit(sorted, [1, 3], reverse=True).result() == [3, 1]
        assert executor.submit(lambda: executor.submit(int).result()).result() == 0
    # After a shutdown as before.
    assert list(executor.map(abs, [-1, 2])) == [1, 2]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_whatever_is_raised_goes_into_the_future(error: type[BaseException]) -> None:
    def fail() -> None:
        raise error("no")

    assert isinstance(InlineExecutor().submit(fail).exception(), error)
