"""What has failed is run again by hand: one, by filter, all."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler import (
    DelayTrigger,
    ExecuteOnceTrigger,
    Fail,
    HandlerRegistry,
    MemoryStore,
    Scheduler,
    State,
    TaskDefinition,
    TaskDefinitionNotFoundError,
    TaskInstanceStateError,
)
from go_scheduler.clock import ZERO
from go_scheduler.events import InstanceReopened, hears
from go_scheduler.testing.clock import START
from tests.conftest import seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler import TaskInstance
    from go_scheduler.events import Event
    from go_scheduler.testing import ManualClock

MINUTE = timedelta(minutes=1)


class Shop:
    """A scheduler of jobs that fail until they are repaired."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.broken = True
        self.error: Exception = Fail("no paper")
        self.ran: list[TaskInstance] = []
        self.told: list[Event] = []
        handlers = HandlerRegistry()
        for name in ("print", "mail"):
            handlers.register(name)(self._run)
        self.scheduler = Scheduler(
            handlers,
            MemoryStore(clock),
            clock=clock,
            listeners=[hears(InstanceReopened)(self.told.append)],
        )

    def _run(self, instance: TaskInstance) -> None:
        self.ran.append(instance)
        if self.broken:
            raise self.error

    def fail(
        self, name: str = "print", *, at: timedelta = ZERO, **policies: Any
    ) -> TaskInstance:
        """One that has failed."""
        trigger = ExecuteOnceTrigger(self.clock.now() + at)
        definition = TaskDefinition(trigger=trigger, name=name, **policies)
        self.scheduler.schedule(definition)
        self.clock.advance(at + seconds(1))
        [instance] = self.scheduler.list_instances(definition_id=definition.id)
        assert instance.state is State.FAILED
        return instance


@pytest.fixture
def shop(clock: ManualClock) -> Iterator[Shop]:
    shop = Shop(clock)
    with shop.scheduler:
        yield shop


def test_it_is_told(shop: Shop) -> None:
    instance = shop.fail()
    shop.scheduler.retry(instance.id)
    shop.scheduler.stop()
    [told] = shop.told
    assert isinstance(told, InstanceReopened)
    assert told.instance_id == instance.id


def test_without_its_definition_it_is_refused(shop: Shop) -> None:
    instance = shop.fail()
    shop.scheduler.delete_definition(instance.definition.id)
    # What has its id now is another one.
    trigger = ExecuteOnceTrigger(START + timedelta(hours=1))
    shop.scheduler.schedule(TaskDefinition(trigger=trigger, id=instance.definition.id))
    with pytest.raises(TaskDefinitionNotFoundError):
        shop.scheduler.retry(instance.id)


def test_while_its_definition_waits_for_another_one_it_is_refused(shop: Shop) -> None:
    scheduler = shop.scheduler
    definition = TaskDefinition(trigger=DelayTrigger(MINUTE), name="print")
    scheduler.schedule(definition)
    shop.clock.advance(2 * MINUTE + seconds(1))
    first, second = scheduler.list_instances(state=State.FAILED)
    scheduler.pause(definition.id)
    scheduler.retry(second.id)
    with pytest.raises(TaskInstanceStateError, match="waits for the end of another"):
        scheduler.retry(first.id)


def test_more_than_a_page_of_them_too(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("go_scheduler.client.instances._REOPENED_AT_ONCE", 2)
    for _ in range(5):
        shop.fail()
    assert shop.scheduler.retry_failed(limit=3) == 3
    shop.broken = False
    shop.clock.advance(seconds(1))
    assert shop.scheduler.counts()[State.FAILED] == 2
    assert shop.scheduler.retry_failed() == 2
