"""A trigger of a user is asked on a thread, and costs itself if it misbehaves."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from go_scheduler.clock import SystemClock
from go_scheduler.firing.planner import Guard
from go_scheduler.testing.builders import HOUR, HOURLY, definition, ids
from go_scheduler.testing.clock import START
from go_scheduler.triggers import Trigger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.messages import Firing

LONG = timedelta(seconds=30)
"""Reached by a test that fails, and by no other."""


class Says(Trigger):
    """A user's trigger that calls what it is told to."""

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
            definitions,
            now=START,
            until=START,
            failed=lambda *failure: self.failures.append(failure),
        )

    @property
    def fired(self) -> Sequence[TaskDefinition]:
        return [firing.definition for firing in self.firings]

    @property
    def failed(self) -> Sequence[TaskDefinition]:
        return [definition for definition, _ in self.failures]


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
        self._triggers: list[Says] = []

    def definition(self) -> TaskDefinition:
        self._triggers.append(Says(self._wait))
        return definition(trigger=self._triggers[-1])

    def open(self) -> None:
        """Let them answer, and wait for the threads that were left behind."""
        self._open.set()
        for trigger in self._triggers:
            join(*trigger.threads)

    def _wait(self, after: datetime) -> datetime:
        self._clock.jumped += LONG
        assert self._open.wait(LONG.total_seconds())
        return after + HOUR


def join(*threads: threading.Thread) -> None:
    for thread in threads:
        thread.join(LONG.total_seconds())
        assert not thread.is_alive()


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open()


def says(
    answer: Callable[[datetime], object] = lambda after: after + HOUR,
    kind: type[Says] = Says,
) -> TaskDefinition:
    return definition(trigger=kind(answer))


def threads_of(of: TaskDefinition) -> list[threading.Thread]:
    assert isinstance(of.trigger, Says)
    return of.trigger.threads


def patient() -> Guard:
    return Guard(SystemClock(), patience=LONG)


def raise_it(error: BaseException) -> datetime:
    raise error


@pytest.mark.parametrize("kind", [Says, Contributed])
def test_triggers_of_users_are_called_on_one_daemon_thread_that_ends(
    kind: type[Says],
) -> None:
    one, other, own = says(kind=kind), says(kind=kind), says(kind=Ours)
    assert {*ids(Planned(patient(), one, other, own).fired)} == {
        one.id,
        other.id,
        own.id,
    }
    [thread] = threads_of(one)
    assert threads_of(other) == [thread]
    assert threads_of(own) == [threading.current_thread()]
    assert thread.daemon
    assert thread.name == "go_scheduler trigger helper"
    join(thread)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (lambda after: raise_it(ZeroDivisionError("by zero")), "by zero"),
        (lambda after: raise_it(SystemExit(3)), "the trigger raised SystemExit(3)"),
        (lambda after: after, "which is not later"),
        (lambda after: "tomorrow", "must be a datetime, not 'tomorrow'"),
    ],
)
def test_one_that_misbehaves_fails_and_the_others_are_planned(
    answer: Callable[[datetime], object], error: str
) -> None:
    before, bad, after = says(), says(answer), says()
    guard = patient()
    planned = Planned(guard, before, bad, after)
    assert planned.fired == [before, after]
    assert planned.failed == [bad]
    assert error in str(planned.failures[0][1])
    assert guard.hanging() == set()


def test_one_that_hangs_costs_the_patience_once_and_is_called_again_when_it_answers(
    gate: Gate,
) -> None:
    others, hanging = [says() for _ in range(20)], gate.definition()
    late = Planned(gate.guard, hanging, *others)
    assert late.fired == others
    assert late.failed == [hanging]
    assert gate.guard.hanging() == {hanging.id}
    assert Planned(gate.guard, hanging).failed == [hanging]
    assert len(threads_of(hanging)) == 1
    gate.open()
    assert gate.guard.hanging() == set()
    assert late.fired == others
    assert Planned(gate.guard, hanging).fired == [hanging]


def test_the_places_of_those_that_answered_are_free_again(gate: Gate) -> None:
    hanging = [gate.definition() for _ in range(6)]
    other, own = says(), definition(trigger=HOURLY)
    planned = Planned(gate.guard, own, *hanging, other)
    assert planned.fired == [own]
    assert planned.failed == [*hanging, other]
    assert [len(threads_of(each)) for each in hanging] == [1, 1, 1, 1, 0, 0]
    assert gate.guard.hanging() == {*ids(hanging[:4])}
    gate.open()
    assert Planned(gate.guard, other).fired == [other]


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
    given = says()
    assert Planned(Guard(clock, patience=LONG), given).fired == [given]
    assert clock.waits[0] is None
