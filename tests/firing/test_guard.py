"""A trigger that raises, misbehaves or hangs costs only its own definition."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from go_scheduler.clock import SystemClock
from go_scheduler.errors import InvalidTriggerError
from go_scheduler.firing.planner import Guard
from go_scheduler.testing import ManualClock
from go_scheduler.testing.builders import HOUR, HOURLY, definition, ids
from go_scheduler.testing.clock import START
from go_scheduler.ticking.ticker import Ticker
from go_scheduler.triggers import Trigger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from go_scheduler.clock import Clock
    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.messages import Firing

LONG = timedelta(seconds=30)
"""Reached by a test that fails, and by no other."""


class Says(Trigger):
    """A foreign trigger that calls what it is told to."""

    def __init__(self, answer: Callable[[datetime], object]) -> None:
        self.answer = answer
        self.threads: list[threading.Thread] = []

    def next_fire_time(self, after: datetime) -> datetime | None:
        self.threads.append(threading.current_thread())
        return self.answer(after)  # type: ignore[return-value]


class Ours(Says):
    """Looks as one of the package's own."""

    __module__ = "go_scheduler.triggers.fake"


class Contributed(Says):
    """Comes from a package whose name begins like this one's."""

    __module__ = "go_scheduler_contrib.triggers"


class Planned:
    """What came of planning some definitions."""

    def __init__(self, guard: Guard, *definitions: TaskDefinition) -> None:
        self.failures: list[tuple[TaskDefinition, Exception]] = []
        self.firings: Sequence[Firing] = guard.plan(
            definitions, now=START, until=START, failed=self._failed
        )

    def _failed(self, definition: TaskDefinition, error: Exception) -> None:
        self.failures.append((definition, error))

    @property
    def fired(self) -> Sequence[TaskDefinition]:
        return [firing.definition for firing in self.firings]

    @property
    def failed(self) -> Sequence[TaskDefinition]:
        return [definition for definition, _ in self.failures]

    @property
    def errors(self) -> Sequence[str]:
        return [str(error) for _, error in self.failures]


class JumpingClock(SystemClock):
    """The system's clock, but that it can be moved on; so no test waits for long."""

    def __init__(self) -> None:
        self.jumped = timedelta(0)

    def elapsed(self) -> timedelta:
        return super().elapsed() + self.jumped

    def wait(self, condition: threading.Condition, until: timedelta | None) -> None:
        condition.wait(0.001)


class Gate:
    """Triggers that hang until it is opened, and a guard that has no time for them."""

    def __init__(self) -> None:
        self._clock = JumpingClock()
        self.guard = Guard(self._clock, patience=LONG)
        self._open = threading.Event()
        self.triggers: list[Says] = []

    def trigger(self) -> Says:
        trigger = Says(self._wait)
        self.triggers.append(trigger)
        return trigger

    def definition(self) -> TaskDefinition:
        return definition(trigger=self.trigger())

    def open(self) -> None:
        """Let them answer, and wait for the threads that were left behind."""
        self._open.set()
        for trigger in self.triggers:
            for thread in trigger.threads:
                thread.join(LONG.total_seconds())
                assert not thread.is_alive()

    def _wait(self, after: datetime) -> datetime:
        self._clock.jumped += LONG
        assert self._open.wait(LONG.total_seconds())
        return after + HOUR


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open()


def healthy() -> TaskDefinition:
    return definition(trigger=Says(lambda after: after + HOUR))


def patient(clock: Clock | None = None) -> Guard:
    return Guard(clock or SystemClock(), patience=LONG)


def raise_it(error: BaseException) -> datetime:
    raise error


def test_the_packages_own_triggers_are_called_in_place() -> None:
    trigger = Ours(lambda after: after + HOUR)
    given = definition(trigger=trigger)
    planned = Planned(patient(), given)
    assert planned.fired == [given]
    assert trigger.threads == [threading.current_thread()]


@pytest.mark.parametrize("kind", [Says, Contributed])
def test_foreign_triggers_are_called_on_a_daemon_thread(kind: type[Says]) -> None:
    one, other = kind(lambda after: after + HOUR), kind(lambda after: None)
    given = [definition(trigger=one), definition(trigger=other)]
    planned = Planned(patient(), *given)
    assert planned.fired == given
    (thread,) = one.threads
    assert other.threads == [thread]
    assert thread is not threading.current_thread()
    assert thread.daemon
    assert thread.name == "go_scheduler trigger helper"


def test_the_helper_thread_ends_when_all_is_planned() -> None:
    given = healthy()
    Planned(patient(), given)
    assert isinstance(given.trigger, Says)
    (thread,) = given.trigger.threads
    thread.join(LONG.total_seconds())
    assert not thread.is_alive()


def test_on_a_driving_clock_foreign_triggers_are_called_in_place() -> None:
    clock = ManualClock()
    given = healthy()
    planned: list[Planned] = []

    def tick() -> None:
        planned.append(Planned(patient(clock), given))

    # As in the loop: a tick of the clock, which cannot wait for another one.
    ticker = Ticker("test", tick, interval=None, clock=clock)
    ticker.start()
    clock.advance(HOUR)
    assert ticker.error is None
    assert planned[0].fired == [given]
    assert isinstance(given.trigger, Says)
    assert given.trigger.threads == [threading.current_thread()]


def test_nothing_to_plan_starts_no_thread() -> None:
    before = helpers()
    assert Planned(patient()).firings == []
    assert Planned(patient(), definition(trigger=HOURLY)).failed == []
    assert helpers() <= before


def helpers() -> set[threading.Thread]:
    named = "go_scheduler trigger helper"
    return {each for each in threading.enumerate() if each.name == named}


@pytest.mark.parametrize("clock", [ManualClock(), SystemClock()])
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (lambda after: raise_it(ZeroDivisionError("by zero")), "by zero"),
        (lambda after: raise_it(SystemExit(3)), "the trigger raised SystemExit(3)"),
        (
            lambda after: raise_it(KeyboardInterrupt()),
            "the trigger raised KeyboardInterrupt()",
        ),
        (lambda after: after, "which is not later"),
        (lambda after: after - HOUR, "which is not later"),
        (lambda after: (after + HOUR).replace(tzinfo=None), "has no time zone"),
        (lambda after: "tomorrow", "must be a datetime, not 'tomorrow'"),
    ],
)
def test_a_trigger_that_misbehaves_fails_and_the_others_are_planned(
    answer: Callable[[datetime], object], error: str, clock: Clock
) -> None:
    before, bad, after = healthy(), definition(trigger=Says(answer)), healthy()
    guard = patient(clock)
    planned = Planned(guard, before, bad, after)
    assert planned.fired == [before, after]
    assert planned.failed == [bad]
    assert error in planned.errors[0]
    assert guard.hanging() == set()


def test_what_a_trigger_raised_is_told_of_as_it_is() -> None:
    error = ZeroDivisionError("by zero")
    bad = definition(trigger=Says(lambda after: raise_it(error)))
    assert Planned(patient(), bad).failures == [(bad, error)]


def test_a_trigger_that_hangs_is_left_behind_and_the_others_are_planned(
    gate: Gate,
) -> None:
    before, hanging, after = healthy(), gate.definition(), healthy()
    own = definition(trigger=HOURLY)
    planned = Planned(gate.guard, before, hanging, after, own)
    assert {*ids(planned.fired)} == {before.id, after.id, own.id}
    assert planned.failed == [hanging]
    assert planned.errors == ["its trigger hangs: it did not answer within 0:00:30"]
    assert isinstance(planned.failures[0][1], InvalidTriggerError)
    assert gate.guard.hanging() == {hanging.id}


def test_a_trigger_that_hangs_is_not_called_again(gate: Gate) -> None:
    hanging, other = gate.definition(), healthy()
    Planned(gate.guard, hanging)
    planned = Planned(gate.guard, hanging, other)
    assert planned.fired == [other]
    assert planned.failed == [hanging]
    assert planned.errors == ["its trigger hangs: it has not answered yet"]
    assert len(gate.triggers[0].threads) == 1


def test_a_trigger_that_answers_at_last_is_called_again(gate: Gate) -> None:
    hanging = gate.definition()
    late = Planned(gate.guard, hanging)
    gate.open()
    assert gate.guard.hanging() == set()
    assert late.fired == []
    again = Planned(gate.guard, hanging)
    assert again.fired == [hanging]
    assert again.failed == []


def test_a_definition_that_was_edited_is_planned_while_its_old_trigger_hangs(
    gate: Gate,
) -> None:
    hanging = replace(gate.definition(), revision=1)
    Planned(gate.guard, hanging)
    edited = replace(hanging, trigger=healthy().trigger, revision=2)
    assert Planned(gate.guard, edited).fired == [edited]
    assert gate.guard.hanging() == {hanging.id}


def test_four_triggers_may_hang_and_then_no_foreign_one_is_called(gate: Gate) -> None:
    hanging = [gate.definition() for _ in range(6)]
    healthy_one, own = healthy(), definition(trigger=HOURLY)
    planned = Planned(gate.guard, own, *hanging, healthy_one)
    assert planned.fired == [own]
    assert planned.failed == [*hanging, healthy_one]
    assert [len(trigger.threads) for trigger in gate.triggers] == [1, 1, 1, 1, 0, 0]
    assert planned.errors[4:] == 3 * [
        "its trigger hangs: as many as are allowed to do so already"
    ]
    assert gate.guard.hanging() == {*ids(hanging[:4])}


def test_the_places_of_those_that_answered_are_free_again(gate: Gate) -> None:
    Planned(gate.guard, *(gate.definition() for _ in range(4)))
    other = healthy()
    assert Planned(gate.guard, other).failed == [other]
    gate.open()
    assert Planned(gate.guard, other).fired == [other]


def test_one_that_hangs_costs_the_patience_once_and_not_for_each_behind_it(
    gate: Gate,
) -> None:
    others = [healthy() for _ in range(50)]
    planned = Planned(gate.guard, gate.definition(), *others)
    assert planned.fired == others


class NotedWait(SystemClock):
    """Tells when somebody waits, and until when."""

    def __init__(self) -> None:
        self.waited = threading.Event()
        self.until: timedelta | None = None

    def wait(self, condition: threading.Condition, until: timedelta | None) -> None:
        # The wait before the call, if there is one, ends as soon as it is made.
        if until is not None:
            self.until = until
            self.waited.set()
        super().wait(condition, until)


def test_a_trigger_may_take_as_long_as_the_patience_lasts() -> None:
    clock = NotedWait()

    def answer(after: datetime) -> datetime:
        assert clock.waited.wait(LONG.total_seconds())
        return after + HOUR

    given = definition(trigger=Says(answer))
    begun = clock.elapsed()
    planned = Planned(patient(clock), given)
    clock.waited.set()
    assert planned.fired == [given]
    assert clock.until is not None
    assert begun + LONG <= clock.until <= clock.elapsed() + LONG


class LateThread(SystemClock):
    """A clock on which the helper thread begins long after it was started."""

    def __init__(self) -> None:
        self.waits: list[timedelta | None] = []
        self._main = threading.current_thread()
        self._late = timedelta(0)
        self._waiting = threading.Event()

    def elapsed(self) -> timedelta:
        if threading.current_thread() is not self._main:
            assert self._waiting.wait(LONG.total_seconds())
        return self._late

    def wait(self, condition: threading.Condition, until: timedelta | None) -> None:
        if threading.current_thread() is self._main:
            self.waits.append(until)
            self._late = 10 * LONG
            self._waiting.set()
        condition.wait(LONG.total_seconds())


def test_the_patience_counts_from_the_call_and_not_from_the_threads_start() -> None:
    clock = LateThread()
    given = healthy()
    planned = Planned(patient(clock), given)
    assert planned.fired == [given]
    assert planned.failed == []
    assert clock.waits[0] is None
