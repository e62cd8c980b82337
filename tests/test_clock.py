"""The clocks: the machine's, and a node's copy of its store's."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from queue import SimpleQueue
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from go_scheduler.clock import ZERO, StoreClock, SystemClock
from go_scheduler.errors import StoreUnavailableError
from go_scheduler.testing.builders import HOUR, TICK
from tests.conftest import seconds
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from go_scheduler.testing import ManualClock


class DistantStore:
    """A store's clock that may be set, whose answers take time, and a copy of it."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.copy = StoreClock(clock, self.read)
        self.ahead = ZERO
        self.there = ZERO
        self.back = ZERO
        self.asked = 0

    def now(self) -> datetime:
        return self.clock.now() + self.ahead

    def read(self) -> datetime:
        self.asked += 1
        self.clock.advance(self.there)
        time = self.now()
        self.clock.advance(self.back)
        return time

    def refresh_in(self, by: timedelta) -> None:
        self.clock.advance(by)
        self.copy.refresh()

    @property
    def lag(self) -> timedelta:
        return self.now() - self.copy.now()


@pytest.fixture
def distant(clock: ManualClock) -> DistantStore:
    return DistantStore(clock)


def test_a_system_wait_until_a_time_that_has_passed_returns_at_once() -> None:
    clock, condition = SystemClock(), threading.Condition()
    with condition:
        clock.wait(condition, clock.elapsed())
        clock.wait(condition, clock.elapsed() - HOUR)


@pytest.mark.parametrize("until", [None, timedelta.max])
def test_a_system_wait_ends_when_it_is_notified(until: timedelta | None) -> None:
    clock, condition = SystemClock(), threading.Condition()
    waiting, woken = threading.Event(), threading.Event()

    def wait() -> None:
        with condition:
            waiting.set()
            clock.wait(condition, until)
        woken.set()

    threading.Thread(target=wait, daemon=True).start()
    assert waiting.wait(FAILED_AFTER)
    with condition:
        condition.notify()
    assert woken.wait(FAILED_AFTER)


def test_the_store_is_asked_again_after_ten_seconds(distant: DistantStore) -> None:
    distant.copy.refresh()
    distant.refresh_in(seconds(10) - TICK)
    assert distant.asked == 1
    distant.refresh_in(TICK)
    assert distant.asked == 2


def test_it_waits_as_the_nodes_own_clock_does(distant: DistantStore) -> None:
    condition = threading.Condition()
    with condition:
        distant.copy.wait(condition, seconds(2))
    assert distant.clock.elapsed() == seconds(2)


@pytest.mark.parametrize(("there", "back"), [(0.2, 0.0), (0.0, 0.2), (0.1, 0.1)])
def test_it_lags_by_no_more_than_a_round_trip_and_never_leads(
    distant: DistantStore, there: float, back: float
) -> None:
    distant.there, distant.back = seconds(there), seconds(back)
    distant.copy.refresh()
    assert distant.lag == seconds(back)
    assert distant.copy.round_trip == seconds(0.2)
    assert distant.copy.now() + distant.copy.round_trip >= distant.now()


SHORT, LONG = [(0.1, ZERO)], [(0.3, ZERO)]


# How long answers came back, with how far the store was ahead then, each ten seconds.
@pytest.mark.parametrize(
    ("answers", "lag", "round_trip"),
    [
        ([*LONG, *SHORT, (0.2, ZERO)], 0.1, 0.1),
        (SHORT + 11 * LONG, 0.1, 0.1),
        # What is shown does not go back.
        (SHORT + 12 * LONG, 0.1, 0.3),
        ([(0, ZERO), (0, HOUR), (0, HOUR)], 0, 0),
        ([(0, ZERO), (0, -HOUR), (0, -HOUR)], 0, 0),
        ([(0, ZERO), (0.5, HOUR)], 0.5, 0.5),
    ],
    ids=["best", "for two minutes", "longer", "set ahead", "set back", "set since"],
)
def test_the_best_answer_of_two_minutes_counts_until_the_store_is_set(
    distant: DistantStore,
    answers: list[tuple[float, timedelta]],
    lag: float,
    round_trip: float,
) -> None:
    for back, ahead in answers:
        distant.back, distant.ahead = seconds(back), ahead
        distant.refresh_in(seconds(10))
    assert distant.lag == seconds(lag)
    assert distant.copy.round_trip == seconds(round_trip)


def test_when_the_best_answer_is_forgotten_it_stands_until_the_time_catches_up(
    distant: DistantStore,
) -> None:
    distant.copy.refresh()
    distant.back = seconds(5)
    distant.refresh_in(timedelta(minutes=2))
    shown = distant.now()
    assert distant.copy.now() == shown
    distant.clock.advance(seconds(4))
    assert distant.copy.now() == shown
    distant.clock.advance(seconds(4))
    assert distant.copy.now() == shown + seconds(3) == distant.now() - seconds(5)


def test_the_time_of_a_store_never_reached_is_not_known(clock: ManualClock) -> None:
    def read() -> datetime:
        raise StoreUnavailableError("away")

    copy = StoreClock(clock, read)
    with pytest.raises(StoreUnavailableError):
        copy.now()


def test_it_begins_with_the_best_of_five_answers(distant: DistantStore) -> None:
    backs = iter([0.3, 0.2, 0.05, 0.4, 0.1])
    read = distant.read

    def vary() -> datetime:
        distant.back = seconds(next(backs))
        return read()

    distant.copy = StoreClock(distant.clock, vary)
    distant.copy.refresh()
    assert distant.asked == 5
    assert distant.copy.round_trip == seconds(0.05)
    assert distant.lag == seconds(0.05)


def test_a_fast_answer_at_the_start_needs_no_second(distant: DistantStore) -> None:
    distant.there = seconds(0.0001)
    distant.copy.refresh()
    assert distant.asked == 1


def test_a_loop_that_has_the_time_does_not_wait_while_another_asks_for_it(
    distant: DistantStore,
) -> None:
    copy: StoreClock
    nested = []

    def read() -> datetime:
        time = distant.read()
        if distant.asked > 1:
            thread = threading.Thread(target=copy.refresh, daemon=True)
            thread.start()
            thread.join(FAILED_AFTER)
            nested.append(thread.is_alive())
        return time

    copy = StoreClock(distant.clock, read)
    copy.refresh()
    distant.clock.advance(seconds(10))
    copy.refresh()
    assert nested == [False]
    assert distant.asked == 2


@pytest.mark.parametrize(("there", "back"), [(0.05, 0.0), (0.0, 0.05)])
@pytest.mark.parametrize("off", [-0.025, 0, 0.025])
def test_with_a_clock_that_is_vouched_for_it_lags_by_twice_its_error_at_most(
    distant: DistantStore, there: float, back: float, off: float
) -> None:
    error = seconds(0.025)
    distant.there, distant.back, distant.ahead = (
        seconds(there),
        seconds(back),
        seconds(off),
    )
    copy = StoreClock(distant.clock, distant.read, error=error)
    for _ in range(10):
        copy.refresh()
        for _ in range(10):
            distant.clock.advance(seconds(0.9))
            assert ZERO <= distant.now() - copy.now() <= 2 * error


@pytest.mark.parametrize("off", [-HOUR, HOUR])
def test_a_clock_that_is_not_as_vouched_for_leads_by_a_round_trip_at_most(
    distant: DistantStore, off: timedelta
) -> None:
    distant.there, distant.back, distant.ahead = seconds(0.03), seconds(0.02), off
    copy = StoreClock(distant.clock, distant.read, error=ZERO)
    copy.refresh()
    lag = distant.now() - copy.now()
    assert lag == (seconds(0.02) if off > ZERO else -seconds(0.03))


def test_with_a_vouched_clock_an_instant_has_the_time_it_had(
    distant: DistantStore,
) -> None:
    distant.back = seconds(0.5)
    copy = StoreClock(distant.clock, distant.read, error=seconds(0.1))
    copy.refresh()
    then, time = distant.clock.elapsed(), copy.now()
    distant.clock.advance(seconds(3))
    assert copy.at(then + seconds(1)) == time + seconds(1)
    assert copy.now() == distant.clock.now() - seconds(0.1)


@pytest.mark.parametrize("waits", [False, True])
def test_one_that_waits_does_not_go_on_with_an_old_copy_while_another_asks(
    clock: ManualClock, waits: bool
) -> None:
    asked, may_answer = threading.Event(), threading.Event()
    may_answer.set()
    ahead = ZERO
    known: list[datetime] = []

    def read() -> datetime:
        asked.set()
        assert may_answer.wait(FAILED_AFTER)
        return clock.now() + ahead

    copy = StoreClock(clock, read)
    copy.refresh()
    ahead = HOUR
    clock.advance(seconds(60))
    asked.clear()
    may_answer.clear()

    def look() -> None:
        copy.refresh(waits=waits)
        known.append(copy.now())

    def acquire(*, blocking: bool) -> bool:
        came.put(blocking)
        return lock.acquire(blocking=blocking)

    lock, came = copy._lock, SimpleQueue[bool]()
    copy._lock = SimpleNamespace(acquire=acquire, release=lock.release)  # type: ignore[assignment]
    first = threading.Thread(target=copy.refresh, daemon=True)
    first.start()
    assert asked.wait(FAILED_AFTER)
    second = threading.Thread(target=look, daemon=True)
    second.start()
    # The second finds it asked for; what it waits for is the answer to the first.
    assert [came.get(timeout=FAILED_AFTER) for _ in range(2)] == [False, waits]
    if not waits:
        second.join(FAILED_AFTER)
    may_answer.set()
    for thread in (first, second):
        thread.join(FAILED_AFTER)
    assert known == [clock.now() + (HOUR if waits else ZERO)]
