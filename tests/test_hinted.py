"""A hint has the node look; whether it has any makes no other difference."""

from __future__ import annotations

from datetime import timedelta
from queue import SimpleQueue
from typing import TYPE_CHECKING

import pytest

from go_scheduler.clock import ZERO, SystemClock
from go_scheduler.errors import StoreUnavailableError
from go_scheduler.models import TaskDefinition
from go_scheduler.node_health import HintedLooks
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.hints import Hints, News
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger
from tests.conftest import seconds
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from go_scheduler.models import TaskInstance
    from go_scheduler.testing import ManualClock

HOUR = timedelta(hours=1)
"""What only a look that a hint asks for can explain is not found by windows of this."""


class Given(Hints):
    """Hints that a test gives."""

    def __init__(self, blind: timedelta = ZERO) -> None:
        self.blind = blind
        self.closed = False
        self.failures: list[Exception] = []
        self._given: SimpleQueue[News] = SimpleQueue()

    def give(self, news: News = News.ANYTHING) -> None:
        self._given.put(news)

    def wait(self) -> News:
        if self.failures:
            raise self.failures.pop()
        news = self._given.get(timeout=FAILED_AFTER)
        return News.NOTHING if self.closed else news

    def close(self) -> None:
        self.closed = True
        self.give()


class HintingStore(MemoryStore):
    """A store that others write to, as far as its nodes can tell."""

    def __init__(self, given: Given, clock: ManualClock | None = None) -> None:
        super().__init__(clock)
        self.given = given
        self.asked = 0

    def hints(self) -> Hints:
        self.asked += 1
        return self.given


def looks_of(given: Given) -> tuple[HintedLooks, list[str]]:
    looks: list[str] = []
    hinted = HintedLooks(
        HintingStore(given),
        SystemClock(),
        runs=True,
        looks={
            News.DEFINITIONS: lambda: looks.append("definitions"),
            News.INSTANCES: lambda: looks.append("instances"),
        },
    )
    return hinted, looks


@pytest.mark.parametrize(
    ("news", "looked"),
    [
        (News.DEFINITIONS, ["definitions"]),
        (News.INSTANCES, ["instances"]),
        (News.ANYTHING, ["definitions", "instances"]),
    ],
)
def test_each_hint_has_the_node_look_once_for_what_it_is_about(
    news: News, looked: list[str]
) -> None:
    given = Given()
    hinted, looks = looks_of(given)
    for number in range(3):
        given.give(news)
        assert hinted.tick() == ZERO
        assert looks == looked * (number + 1)


@pytest.mark.parametrize("news", [News.DEFINITIONS, News.INSTANCES])
def test_what_a_hint_may_leave_out_is_looked_for_a_moment_later_and_once(
    news: News,
) -> None:
    given = Given(blind=seconds(0.01))
    hinted, looks = looks_of(given)
    given.give(news)
    assert hinted.tick() == seconds(0.01)
    assert len(looks) == 1
    assert hinted.tick() == ZERO
    assert looks[1:] == ["definitions", "instances"]
    given.give(news)
    hinted.tick()
    assert len(looks) == 4


def test_hints_that_have_been_closed_have_nobody_look() -> None:
    given = Given(blind=seconds(0.01))
    hinted, looks = looks_of(given)
    hinted.close()
    assert given.closed
    assert hinted.tick() == ZERO
    assert not looks


def test_a_store_without_hints_has_no_thread_for_them() -> None:
    hinted = HintedLooks(MemoryStore(), SystemClock(), runs=True, looks={})
    assert not hinted.tickers
    hinted.close()


def test_on_a_driving_clock_no_hint_is_asked_for(clock: ManualClock) -> None:
    store = HintingStore(Given(), clock)
    with Scheduler(lambda _: None, store, clock=clock):
        clock.advance(seconds(1))
    assert store.asked == 0


def test_a_scheduler_that_runs_nothing_needs_none() -> None:
    store = HintingStore(Given())
    with Scheduler(None, store):
        pass
    assert store.asked == 0


def test_a_scheduler_is_well_whatever_becomes_of_its_hints() -> None:
    given = Given()
    given.failures = [StoreUnavailableError("nothing is heard")]
    store = HintingStore(given)
    with Scheduler(lambda _: None, store) as scheduler:
        assert "listener" not in scheduler.health().loops
        assert scheduler.health().store_reachable
    assert given.closed


@pytest.mark.parametrize("by_hand", [True, False])
def test_what_another_has_put_in_runs_as_soon_as_there_is_a_hint(
    by_hand: bool,
) -> None:
    store = HintingStore(Given())
    called: SimpleQueue[TaskInstance] = SimpleQueue()
    runner = Scheduler(
        called.put,
        store,
        schedule_window=HOUR,
        runner_window=HOUR,
        lease=HOUR,
    )
    other = Scheduler(None, store)
    once = TaskDefinition(trigger=ExecuteOnceTrigger(store.now()))
    with runner:
        other.schedule(once)
        store.given.give()
        called.get(timeout=FAILED_AFTER)
        if by_hand:
            other.run_now(once.id)
            store.given.give()
            called.get(timeout=FAILED_AFTER)
