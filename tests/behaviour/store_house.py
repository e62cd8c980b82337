"""A scheduler on a store, whose runs go on until the test ends them."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from go_scheduler import (
    ExecuteOnceTrigger,
    HandedOn,
    OnDemandTrigger,
    Scheduler,
    State,
    TaskDefinition,
)
from go_scheduler.stores import open_store
from go_scheduler.testing.clock import START

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime
    from uuid import UUID

    from go_scheduler import Store, TaskInstance
    from go_scheduler.testing import ManualClock

NOW = timedelta(0)
MOMENT = timedelta(milliseconds=1)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
SELDOM: dict[str, Any] = {"schedule_window": DAY, "runner_window": DAY, "lease": DAY}
"""Settings of a node that looks by itself once a day."""


class House:
    """A scheduler, what its handler was called with, and what that answers.

    Until it is told otherwise the handler hands its work on: the run goes on until
    somebody calls ``complete``, ``fail`` or ``release``.

    Args:
        store: What it runs on.
        clock: Drives it.
        settings: Of the scheduler.
    """

    def __init__(self, store: Store, clock: ManualClock, **settings: Any) -> None:
        self.clock = clock
        self.called: list[TaskInstance] = []
        self.answer: Callable[[TaskInstance], object] = lambda _: HandedOn(
            expire_after=HOUR
        )
        self.scheduler = Scheduler(self._handle, store, clock=clock, **settings)

    def _handle(self, instance: TaskInstance) -> object:
        self.called.append(instance)
        return self.answer(instance)

    def rest(self, span: timedelta) -> None:
        """Let time pass in which no node runs, then start it again.

        However long that is, it costs the store nothing.
        """
        self.scheduler.stop()
        self.clock.advance(span)
        self.scheduler.start()
        self.clock.advance(NOW)

    def task(self, name: str = "send", **fields: Any) -> TaskDefinition:
        """Schedule what runs when it is asked to."""
        return self.scheduler.schedule(task(name, **fields))

    def once(self, after: timedelta = NOW, **fields: Any) -> TaskDefinition:
        """Schedule what is due once, after so long."""
        trigger = ExecuteOnceTrigger(self.clock.now() + after)
        return self.scheduler.schedule(TaskDefinition(trigger=trigger, **fields))

    def run(self, **fields: Any) -> TaskInstance:
        """Have something begin that goes on until it is ended."""
        made = self.scheduler.run_now(self.task(str(len(self.called)), **fields).id)
        self.clock.advance(SECOND)
        return self.again(made)

    def again(self, instance: TaskInstance) -> TaskInstance:
        """An instance as it is now."""
        return self.scheduler.get_instance(instance.id)

    def state(self, instance: TaskInstance) -> State:
        """Where it stands now."""
        return self.again(instance).state

    def of(self, definition: TaskDefinition) -> list[TaskInstance]:
        """The instances of a definition."""
        return list(self.scheduler.list_instances(definition_id=definition.id))

    def states(self, definition: TaskDefinition) -> list[str]:
        """Where the instances of a definition stand, in their order."""
        return [each.state.value for each in self.of(definition)]

    def complete(self, run: TaskInstance, **said: Any) -> bool:
        """Say that a run has succeeded."""
        return self.scheduler.complete(run.id, run.attempt, **said)

    def fail(self, run: TaskInstance, error: str = "no paper", **said: Any) -> bool:
        """Say that a run has failed."""
        return self.scheduler.fail(run.id, run.attempt, error, **said)


@contextmanager
def running(store: Store, clock: ManualClock, **settings: Any) -> Iterator[House]:
    """A house whose scheduler runs meanwhile."""
    house = House(store, clock, **settings)
    with house.scheduler:
        yield house


@contextmanager
def opened(
    url: str, clock: ManualClock | None = None, **options: Any
) -> Iterator[Store]:
    """A store of a URL, as a user opens it."""
    store = open_store(url, clock=clock, **options)
    try:
        yield store
    finally:
        store.close()


def task(name: str = "send", **fields: Any) -> TaskDefinition:
    """What runs when it is asked to."""
    id = TaskDefinition.id_for(f"task {name}")
    given = {"id": id, "name": name, **fields}
    return TaskDefinition(trigger=OnDemandTrigger(), **given)


def once(at: datetime = START, **fields: Any) -> TaskDefinition:
    """What is due once."""
    return TaskDefinition(trigger=ExecuteOnceTrigger(at), **fields)


def ids(given: Iterable[TaskDefinition | TaskInstance]) -> list[UUID]:
    """Their ids, in their order."""
    return [each.id for each in given]


def pages(
    read: Callable[..., Any], *, limit: int, **conditions: Any
) -> Iterator[list[Any]]:
    """All pages of a list, one after the other."""
    page = read(limit=limit, **conditions)
    yield list(page)
    while page.next is not None:
        page = read(limit=limit, after=page.next, **conditions)
        yield list(page)
