"""The ticker: it ticks until it is stopped, as far ahead as a slow store needs it."""

from __future__ import annotations

import logging
import threading
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from go_scheduler.clock import ZERO, SystemClock
from go_scheduler.errors import StoreUnavailableError
from go_scheduler.ticking.ticker import Pace, Repeats, Ticker
from tests.conftest import seconds
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from go_scheduler.testing import ManualClock


class WaitingClock:
    """Its waits move it on at once, so that a loop runs in the thread of its test."""

    def __init__(self) -> None:
        self.time = ZERO
        self.waits: list[timedelta] = []

    def now(self) -> object:
        raise AssertionError("a ticker measures elapsed time")

    def elapsed(self) -> timedelta:
        return self.time

    def wait(self, condition: threading.Condition, until: timedelta | None) -> None:
        assert until is not None, "it would wait for ever"
        self.waits.append(until - self.time)
        self.time = until


def looped(
    tick: Callable[[int, Ticker], timedelta | None],
    *,
    count: int,
    interval: timedelta | None = None,
) -> Sequence[timedelta]:
    """The waits of a ticker whose loop ran here until it had ticked so often."""
    clock = WaitingClock()
    calls = 0

    def counted() -> timedelta | None:
        nonlocal calls
        calls += 1
        if calls == count:
            ticker.stop()
        return tick(calls, ticker)

    ticker = Ticker("test", counted, interval=interval, clock=clock)  # type: ignore[arg-type]
    ticker.wake()
    ticker._run()
    assert calls == count
    return clock.waits


def test_it_ticks_at_its_interval_shortened_by_up_to_a_fifth() -> None:
    waits = looped(lambda *_: None, count=200, interval=seconds(10))
    assert seconds(8) <= min(waits) < seconds(8.5)
    assert seconds(9.5) < max(waits) <= seconds(10)


@pytest.mark.parametrize(
    ("asked", "most"), [(2, [2, 2, 2]), (60, [10, 10, 10]), (0, [])]
)
def test_a_tick_may_ask_to_be_called_sooner_and_not_later_than_the_interval(
    asked: float, most: list[float]
) -> None:
    waits = looped(lambda *_: seconds(asked), count=4, interval=seconds(10))
    for wait, longest in zip(waits, most, strict=True):
        assert seconds(longest) * 0.8 <= wait <= seconds(longest)


@pytest.mark.parametrize(
    ("error", "shown"), [(StoreUnavailableError("away"), 1), (ValueError("no"), 2)]
)
def test_that_the_store_is_away_is_one_line(
    caplog: pytest.LogCaptureFixture, error: Exception, shown: int
) -> None:
    def tick(*_: object) -> timedelta:
        raise error

    caplog.set_level(logging.INFO)
    looped(tick, count=3)
    [record] = caplog.records
    lines = logging.Formatter().format(record).splitlines()
    assert lines[0] == f"the test failed and will try again: {error!r}"
    assert min(len(lines), 2) == shown


def test_a_wake_during_the_tick_that_ends_a_backing_off_is_not_lost() -> None:
    def tick(call: int, ticker: Ticker) -> None:
        if call == 1:
            raise ValueError("no")
        if call == 2:
            ticker.wake()

    assert len(looped(tick, count=3)) == 1


def test_a_wake_does_not_shorten_a_backing_off() -> None:
    clock = WaitingClock()

    def tick() -> None:
        ticker.wake()
        raise ValueError("no")

    ticker = Ticker("test", tick, interval=None, clock=clock)  # type: ignore[arg-type]
    ticker.step()
    due = ticker.due
    assert due is not None
    assert due >= seconds(0.1)
    ticker.wake()
    assert ticker.due == due


def test_a_stop_during_a_tick_lets_no_other_begin(clock: ManualClock) -> None:
    ticks = []

    def tick() -> timedelta:
        ticks.append(clock.elapsed())
        ticker.stop()
        return ZERO

    ticker = Ticker("test", tick, interval=None, clock=clock)
    ticker.start()
    assert not ticker.ended
    clock.advance(seconds(60))
    assert ticks == [ZERO]
    assert ticker.ended


def test_it_is_late_from_when_a_tick_was_due() -> None:
    own = WaitingClock()
    ticker = Ticker("test", lambda: None, interval=seconds(2), clock=own)  # type: ignore[arg-type]
    assert ticker.late == ZERO
    ticker.wake()
    own.time = seconds(3)
    assert ticker.late == seconds(3)
    ticker.step()
    assert ticker.late == ZERO


def test_it_has_not_ended_while_its_thread_is_being_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended: list[bool] = []
    start = threading.Thread.start

    def asked_before(thread: threading.Thread) -> None:
        ended.append(ticker.ended)
        start(thread)

    ticker = Ticker("test", lambda: None, interval=None, clock=SystemClock())
    monkeypatch.setattr(threading.Thread, "start", asked_before)
    ticker.start()
    ticker.stop()
    assert ended == [False]


@pytest.mark.slow
def test_tickers_that_ten_threads_start_wake_and_stop_all_end() -> None:
    barrier = threading.Barrier(10)
    clock = SystemClock()
    hanging = []

    def rounds() -> None:
        barrier.wait(FAILED_AFTER)
        for _ in range(50):
            ticked = threading.Event()

            ticker = Ticker("test", ticked.set, interval=seconds(1), clock=clock)
            ticker.start()
            ticker.wake()
            if not ticked.wait(FAILED_AFTER):
                hanging.append(ticker)
            ticker.stop()
            assert ticker._thread is not None
            ticker._thread.join(FAILED_AFTER)
            if not ticker.ended:
                hanging.append(ticker)

    threads = [threading.Thread(target=rounds, daemon=True) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(FAILED_AFTER)
        assert not thread.is_alive()
    assert hanging == []


def test_no_wake_from_another_thread_is_lost() -> None:
    clock = SystemClock()
    wanted = 0
    served = 0
    seen = threading.Condition()

    def tick() -> None:
        nonlocal served
        with seen:
            served = wanted
            seen.notify()

    ticker = Ticker("test", tick, interval=None, clock=clock)
    ticker.start()
    for number in range(1, 301):
        with seen:
            wanted = number
        ticker.wake()
        with seen:
            while served < number:
                assert seen.wait(FAILED_AFTER)
    ticker.stop()


WINDOW = seconds(1)
LEAD = timedelta(milliseconds=20)


@pytest.mark.parametrize(
    ("took", "ahead", "lead"),
    [
        ([], 0, 0.02),
        ([0], 0, 0.02),
        ([0.3] * 100, 1.5, 0.6),
        ([0.3] * 100 + [0] * 100, 0, 0.02),
        # One slow answer of many widens no window, and is reckoned with by the lead.
        ([0.01] * 20 + [5], 0.05, 0.525),
        ([60], 10, 5.5),
        ([0.01, 0.1, 0.02], 0.1, 0.2),
        ([2] * 100, 10, 4),
    ],
)
def test_a_slow_store_is_looked_ahead_of_and_given_twice_what_it_takes(
    took: list[float], ahead: float, lead: float
) -> None:
    pace = Pace(WINDOW)
    for each in took:
        pace.took(seconds(each))
    assert pace.ahead == WINDOW + seconds(ahead)
    assert pace.lead(0) == seconds(lead)


def test_what_one_look_waits_for_the_others_is_looked_ahead_of() -> None:
    pace = Pace(WINDOW)
    pace.took(seconds(0.1))
    pace.waited(seconds(2))
    assert pace.ahead == WINDOW + seconds(0.5) + seconds(2)
    assert pace.lead(0) == seconds(0.2)
    # It is forgotten once they are few again.
    for _ in range(200):
        pace.waited(ZERO)
    assert pace.ahead < WINDOW + seconds(0.501)
    pace.waited(seconds(60))
    assert pace.ahead == WINDOW + seconds(10)


def test_the_lead_is_more_for_each_that_is_held_and_half_of_the_window_at_most() -> (
    None
):
    pace = Pace(WINDOW)
    assert pace.lead(1000) == LEAD + seconds(0.03)
    assert pace.lead(1_000_000) == WINDOW / 2


def test_a_look_is_repeated_four_times_while_the_store_settles(
    clock: ManualClock,
) -> None:
    repeats = Repeats(clock, settling=seconds(0.1))
    assert repeats.wait is None
    repeats.begin()
    clock.advance(seconds(0.01))
    # A new look begins them anew.
    repeats.begin()
    for wait in (0.02, 0.03, 0.05, 0.1):
        assert not repeats.take()
        assert repeats.wait == seconds(wait)
        clock.advance(seconds(wait))
        assert repeats.take()
    assert repeats.wait is None
    repeats.begin()
    clock.advance(seconds(0.15))
    # A late one takes the place of those before it.
    assert repeats.wait == ZERO
    assert repeats.take()
    assert repeats.wait == seconds(0.05)
