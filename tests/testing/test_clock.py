"""The manual clock: time moves when told, and what falls due runs in order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest

from go_scheduler.errors import ConfigurationError, SchedulerStateError
from go_scheduler.testing import ManualClock
from go_scheduler.testing.builders import MINUTE, SECOND

ZERO = timedelta(0)


@dataclass(eq=False)
class Step:
    """Notes when it is called; due once, or every so often."""

    clock: ManualClock
    due: timedelta | None
    every: timedelta | None = None
    called: Callable[[], object] = lambda: None
    at: list[timedelta] = field(default_factory=list)

    def step(self) -> None:
        self.at.append(self.clock.elapsed())
        self.due = None if self.every is None else self.clock.elapsed() + self.every
        self.called()


def attached(clock: ManualClock, due: timedelta | None, **how: Any) -> Step:
    step = Step(clock, due, **how)
    clock.attach(step)
    return step


def test_it_starts_where_it_is_told_and_tells_utc() -> None:
    start = datetime(2024, 2, 29, 12, tzinfo=timezone(timedelta(hours=-3)))
    clock = ManualClock(start)
    assert clock.now() == start
    assert clock.now().utcoffset() == ZERO


def test_it_refuses_a_start_without_a_zone() -> None:
    with pytest.raises(ConfigurationError, match="start has no time zone"):
        ManualClock(datetime(2030, 1, 1))  # noqa: DTZ001 - what is refused


def test_it_stands_still_until_it_is_advanced(clock: ManualClock) -> None:
    before = clock.now()
    assert clock.now() == before
    clock.advance(MINUTE)
    clock.advance(SECOND)
    assert clock.now() - before == clock.elapsed() == MINUTE + SECOND


@pytest.mark.parametrize("delta", [-timedelta(microseconds=1), 5, None])
def test_it_refuses_to_go_back(clock: ManualClock, delta: object) -> None:
    with pytest.raises(ConfigurationError, match="zero or more"):
        clock.advance(delta)  # type: ignore[arg-type]
    assert clock.elapsed() == ZERO


@pytest.mark.parametrize("delta", [timedelta.max, timedelta(days=366 * 8000)])
def test_it_refuses_to_pass_the_year_9999(clock: ManualClock, delta: timedelta) -> None:
    with pytest.raises(ConfigurationError, match="past the year 9999"):
        clock.advance(delta)
    with pytest.raises(ConfigurationError, match="past the year 9999"):
        wait(clock, delta)
    attached(clock, ZERO, called=lambda: wait(clock, delta))
    with pytest.raises(ConfigurationError, match="past the year 9999"):
        clock.advance(ZERO)
    assert clock.elapsed() == ZERO
    clock.advance(SECOND)


@pytest.mark.parametrize(
    ("due", "every", "advances", "at"),
    [
        (1, None, [1], [1]),
        (1, None, [60], [1]),
        (1, 1, [3], [1, 2, 3]),
        (0, None, [0], [0]),
        (1, None, [0], []),
        (1, None, [0.999999], []),
        (1, None, [0.999999, 60], [1]),
        (None, None, [60], []),
    ],
)
def test_a_step_runs_at_each_instant_that_it_is_due(
    clock: ManualClock,
    due: float | None,
    every: float | None,
    advances: list[float],
    at: list[float],
) -> None:
    step = attached(
        clock,
        None if due is None else due * SECOND,
        every=None if every is None else every * SECOND,
    )
    for each in advances:
        clock.advance(each * SECOND)
    assert step.at == [each * SECOND for each in at]
    assert clock.elapsed() == sum(advances) * SECOND


def test_steps_run_in_the_order_of_their_time_and_may_wake_and_attach_others(
    clock: ManualClock,
) -> None:
    order: list[object] = []
    asleep = attached(clock, None, called=partial(order.append, "woken"))

    def wake() -> None:
        asleep.due = clock.elapsed()
        attached(clock, ZERO, called=partial(order.append, "attached"))

    for due in (3, 1):
        attached(clock, due * SECOND, called=partial(order.append, due))
    attached(clock, 2 * SECOND, called=wake)
    clock.advance(MINUTE)
    assert order == [1, "attached", "woken", 3]


def test_steps_of_one_instant_run_in_the_order_of_attachment(
    clock: ManualClock,
) -> None:
    order: list[int] = []
    first, second = (Step(clock, SECOND) for _ in range(2))
    first.called, second.called = partial(order.append, 1), partial(order.append, 2)
    for each in (second, first, second):
        clock.attach(each)
    clock.advance(SECOND)
    assert order == [2, 1]


def test_a_step_may_detach_another_and_itself(clock: ManualClock) -> None:
    other = Step(clock, SECOND, every=SECOND)
    itself = Step(clock, SECOND, every=SECOND)

    def detach() -> None:
        clock.detach(other)
        clock.detach(itself)

    itself.called = detach
    clock.attach(itself)
    clock.attach(other)
    clock.detach(Step(clock, ZERO))
    clock.advance(MINUTE)
    assert (itself.at, other.at) == ([SECOND], [])


def test_an_error_in_a_step_leaves_the_clock_there(clock: ManualClock) -> None:
    def fail() -> None:
        raise ValueError("no")

    attached(clock, SECOND, called=fail)
    after = attached(clock, MINUTE)
    with pytest.raises(ValueError, match="no"):
        clock.advance(MINUTE)
    assert clock.elapsed() == SECOND
    clock.advance(MINUTE)
    assert after.at == [MINUTE]


def test_a_step_may_not_advance_the_clock(clock: ManualClock) -> None:
    attached(clock, SECOND, called=lambda: clock.advance(SECOND))
    with pytest.raises(SchedulerStateError, match="a step of this clock"):
        clock.advance(MINUTE)
    assert clock.elapsed() == SECOND


def test_another_thread_may_read_the_time_and_not_advance_it(
    clock: ManualClock,
) -> None:
    start, read, errors = clock.now(), list[object](), list[str]()

    def advance() -> None:
        read.append((clock.now(), clock.elapsed()))
        try:
            clock.advance(SECOND)
        except SchedulerStateError as error:
            errors.append(str(error))

    def in_a_thread() -> None:
        thread = threading.Thread(target=advance)
        thread.start()
        thread.join(30)

    attached(clock, SECOND, called=in_a_thread)
    clock.advance(MINUTE)
    assert read == [(start + SECOND, SECOND)]
    assert "another thread" in errors[0]
    assert clock.elapsed() == MINUTE


def test_steps_that_never_let_the_time_go_on_are_stopped(clock: ManualClock) -> None:
    step = attached(clock, SECOND, every=ZERO)
    with pytest.raises(SchedulerStateError, match="again and again"):
        clock.advance(MINUTE)
    assert len(step.at) == 100_000
    assert clock.elapsed() == SECOND


def test_many_steps_are_fine_while_the_time_goes_on(clock: ManualClock) -> None:
    step = attached(clock, ZERO, every=timedelta(microseconds=1))
    clock.advance(timedelta(microseconds=100_500))
    assert len(step.at) == 100_501


def wait(clock: ManualClock, until: timedelta | None) -> None:
    condition = threading.Condition()
    with condition:
        clock.wait(condition, until)


@pytest.mark.parametrize(
    ("dues", "until", "at"),
    [([60], 1, 1), ([1, 2], 60, 1), ([1, 1, 1], 1, 1), ([], 1, 1)],
)
def test_a_wait_runs_all_that_is_due_next_and_returns(
    clock: ManualClock, dues: list[int], until: int, at: int
) -> None:
    steps = [attached(clock, due * SECOND) for due in dues]
    wait(clock, until * SECOND)
    assert clock.elapsed() == at * SECOND
    for due, step in zip(dues, steps, strict=True):
        assert step.at == [due * SECOND] * (due <= at)


@pytest.mark.parametrize("until", [ZERO, SECOND, MINUTE])
def test_a_wait_returns_at_once_if_its_end_has_been_reached(
    clock: ManualClock, until: timedelta
) -> None:
    clock.advance(MINUTE)
    step = attached(clock, ZERO)
    wait(clock, until)
    assert step.at == []
    assert clock.elapsed() == MINUTE


@pytest.mark.parametrize("asleep", [True, False])
def test_a_wait_for_ever_is_refused(clock: ManualClock, asleep: bool) -> None:
    if asleep:
        attached(clock, None)
    with pytest.raises(SchedulerStateError, match="would never end"):
        wait(clock, None)
    clock.advance(SECOND)


def test_the_condition_is_released_meanwhile_and_held_after(clock: ManualClock) -> None:
    condition = threading.Condition(threading.Lock())

    def use() -> None:
        assert condition.acquire(blocking=False)
        condition.notify_all()
        condition.release()

    attached(clock, SECOND, called=use)
    with condition:
        clock.wait(condition, None)
        assert not condition.acquire(blocking=False)
    attached(clock, SECOND, called=partial(int, "no"))
    with condition:
        with pytest.raises(ValueError, match="no"):
            clock.wait(condition, None)
        assert not condition.acquire(blocking=False)


def test_a_step_that_waits_takes_its_time_and_runs_no_other(clock: ManualClock) -> None:
    ends: list[timedelta] = []

    def work() -> None:
        wait(clock, 10 * SECOND)
        ends.append(clock.elapsed())

    attached(clock, SECOND, called=work)
    other = attached(clock, 2 * SECOND)
    clock.advance(MINUTE)
    assert ends == [10 * SECOND]
    assert other.at == [10 * SECOND]
    assert clock.elapsed() == MINUTE


def test_a_step_may_wait_beyond_the_end(clock: ManualClock) -> None:
    attached(clock, SECOND, called=lambda: wait(clock, MINUTE))
    late, later = attached(clock, 30 * SECOND), attached(clock, 61 * SECOND)
    clock.advance(2 * SECOND)
    assert clock.elapsed() == MINUTE
    assert (late.at, later.at) == ([MINUTE], [])


def test_a_step_may_not_wait_for_ever(clock: ManualClock) -> None:
    attached(clock, SECOND, called=lambda: wait(clock, None))
    attached(clock, 2 * SECOND)
    with pytest.raises(SchedulerStateError, match="waits without a bound"):
        clock.advance(MINUTE)
