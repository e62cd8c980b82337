"""A hint has the node look; whether it has any makes no other difference."""

from __future__ import annotations

from datetime import timedelta
from queue import SimpleQueue
from typing import TYPE_CHECKING

import pytest

from go_scheduler.clock import ZERO, SystemClock
from go_scheduler.errors import StoreUnavailableError
from go_scheduler.models import TaskDefinition
from go_scheduler.node import HintedLooks
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.hints import Hints, News
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.triggers.simple import ExecuteOnceTrigger
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


BOTH = ["definitions", "instances"]


@pytest.mark.parametrize(
    ("news", "blind", "looked"),
    [
        (News.DEFINITIONS, ZERO, [["definitions"]]),
        (News.INSTANCES, ZERO, [["instances"]]),
        (News.ANYTHING, ZERO, [BOTH]),
        # What a hint may leave out is looked for a moment later, and once.
        (News.DEFINITIONS, seconds(0.01), [["definitions"], BOTH]),
        (News.INSTANCES, seconds(0.01), [["instances"], BOTH]),
        (News.NOTHING, seconds(0.01), [[]]),
    ],
)
def test_each_hint_has_the_node_look_for_what_it_is_about(
    news: News, blind: timedelta, looked: list[list[str]]
) -> None:
    given, looks = Given(blind), list[str]()
    hinted = HintedLooks(
        HintingStore(given),
        SystemClock(),
        runs=True,
        looks={
            News.DEFINITIONS: lambda: looks.append("definitions"),
            News.INSTANCES: lambda: looks.append("instances"),
        },
    )
    for _ in range(2):
        given.give(news)
        for number, expected in enumerate(looked, start=1):
            assert hinted.tick() == (ZERO if number == len(looked) else blind)
            assert looks == expected
            looks.clear()
    hinted.close()
    assert given.closed
    assert hinted.tick() == ZERO
    assert not looks


def test_on_a_driving_clock_or_to_run_nothing_no_hint_is_asked_for(
    clock: ManualClock,
) -> None:
    driven, real = HintingStore(Given(), clock), HintingStore(Given())
    with Scheduler(lambda _: None, driven, clock=clock), Scheduler(None, real):
        clock.advance(seconds(1))
    assert (driven.asked, real.asked) == (0, 0)


def test_a_scheduler_is_well_whatever_becomes_of_its_hints() -> None:
    given = Given()
    given.failures = [StoreUnavailableError("nothing is heard")]
    store = HintingStore(given)
    with Scheduler(lambda _: None, store) as scheduler:
        assert "listener" not in scheduler.health().loops
        assert scheduler.health().store_reachable
    assert given.closed


@pytest.mark.parametrize("by_hand", [True, False])
def test_what_another_has_put_in_runs_as_soon_as_there_is_a_hint(by_hand: bool) -> None:
    store = HintingStore(Given())
    called: SimpleQueue[TaskInstance] = SimpleQueue()
    runner = Scheduler(
        called.put, store, schedule_window=HOUR, runner_window=HOUR, lease=HOUR
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
