"""The planner: what has fired last, and on which thread users' triggers are asked."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from go_scheduler import MemoryStore
from go_scheduler.clock import SystemClock
from go_scheduler.firing import planner
from go_scheduler.firing.planner import Planner
from go_scheduler.firing.steps import DisplacedError, LastFired
from go_scheduler.policies import Overlap
from go_scheduler.stores.messages import Addition
from go_scheduler.testing.builders import HOUR, SECOND, definition, firing, ids, put
from go_scheduler.testing.clock import START
from go_scheduler.triggers import Trigger

if TYPE_CHECKING:
    from go_scheduler import TaskDefinition
    from go_scheduler.stores.messages import Firing
    from go_scheduler.testing import ManualClock


@pytest.mark.parametrize(
    "how", ["never", "fired", "with a jitter", "by hand too", "backfilled"]
)
def test_what_has_fired_last_has_the_latest_fire_time(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    known: list[LastFired] = []

    def displaced(_: TaskDefinition, *, last: LastFired | None, **__: object) -> Firing:
        if last is None:
            raise DisplacedError
        known.append(last)
        return step

    monkeypatch.setattr(planner, "plan", displaced)
    store = MemoryStore(clock)
    read, last = put(store), START
    step = firing(read, START)
    if how == "with a jitter":
        # The last one runs first.
        last = START + 2 * SECOND
        step = firing(read, START, START + SECOND, last)
        later = (START + 2 * HOUR, START + 3 * HOUR, START + HOUR)
        step = replace(step, execute_times=later)
    if how in ("never", "backfilled"):
        store.backfill_instances(
            read, [START + HOUR] * (how != "never"), overlap=Overlap.ALLOW
        )
    else:
        store.fire_definitions([step])
    if how == "by hand too":
        store.add_instances(read.id, [Addition(at=START + HOUR)])
    planned = Planner(store, clock).plan(
        [read], now=START, until=START, failed=lambda *_: pytest.fail("it failed")
    )
    assert planned == ([step], True)
    expected = None if how in ("never", "backfilled") else last
    assert known == [LastFired(expected)]


LONG = timedelta(seconds=30)
"""Reached by a test that fails, and by no other."""


class Hourly(Trigger):
    """A user's trigger, which notes on which threads it was called."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []

    def next_fire_time(self, after: datetime) -> datetime:
        self.threads.append(threading.current_thread())
        return after + HOUR


class Ours(Hourly):
    """Looks as one of the package's own."""

    __module__ = "go_scheduler.triggers.fake"


class Contributed(Hourly):
    """Comes from a package whose name begins like this one's."""

    __module__ = "go_scheduler_contrib.triggers"


def plan(clock: SystemClock, *triggers: Trigger) -> None:
    """Plan a definition of each of these, of which none fails."""
    given = [definition(trigger=each) for each in triggers]
    planned = Planner(MemoryStore(), clock, patience=LONG).plan(
        given, now=START, until=START, failed=lambda *_: pytest.fail("one failed")
    )
    assert {each.definition.id for each in planned.firings} == {*ids(given)}


@pytest.mark.parametrize("kind", [Hourly, Contributed])
def test_triggers_of_users_are_called_on_one_daemon_thread_that_ends(
    kind: type[Hourly],
) -> None:
    one, other, own = kind(), kind(), Ours()
    plan(SystemClock(), one, other, own)
    [thread] = one.threads
    assert other.threads == [thread]
    assert own.threads == [threading.current_thread()]
    assert thread.daemon
    assert thread.name == "go_scheduler trigger helper"
    thread.join(LONG.total_seconds())
    assert not thread.is_alive()


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
    plan(clock, Hourly())
    assert clock.waits[0] is None


def test_one_that_hangs_is_called_again_once_it_has_answered() -> None:
    go = threading.Event()

    class Hanging(Hourly):
        def next_fire_time(self, after: datetime) -> datetime:
            following = super().next_fire_time(after)
            go.wait(LONG.total_seconds())
            return following

    trigger, failed = Hanging(), []
    of = definition(trigger=trigger)
    impatient = timedelta(milliseconds=1)
    asking = Planner(MemoryStore(), SystemClock(), patience=impatient)
    for _ in range(2):
        asking.plan(
            [of], now=START, until=START, failed=lambda each, _: failed.append(each)
        )
    assert (failed, asking.hanging) == ([of, of], {of.id})
    [thread] = trigger.threads
    go.set()
    thread.join(LONG.total_seconds())
    assert asking.hanging == set()
