"""What is in a store before anything is measured."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from go_scheduler import (
    ExecuteOnceTrigger,
    IntervalTrigger,
    Scheduler,
    TaskDefinition,
)
from go_scheduler.stores import Firing, open_store

if TYPE_CHECKING:
    from collections.abc import Iterable

    from go_scheduler import Store

SECOND = timedelta(seconds=1)
LATEST = datetime.max.replace(tzinfo=UTC)
HOUR = timedelta(hours=1)
MILLISECOND = timedelta(milliseconds=1)
_BATCH = 500


def due(url: str, *, instances: int, per_definition: int = 1) -> None:
    """Instances that are due, each of its own definition or so many of one."""
    with closing(open_store(url)) as store:
        store.initialize()
        put_due(store, instances=instances, per_definition=per_definition)


def put_due(store: Store, *, instances: int, per_definition: int = 1) -> None:
    """The same, in a store that is open."""
    first = store.now() - SECOND
    fire_times = tuple(first + n * MILLISECOND for n in range(per_definition))
    # The next fire time of the hourly ones is to come, so that none was missed.
    trigger = (
        ExecuteOnceTrigger(first)
        if per_definition == 1
        else IntervalTrigger(HOUR, anchor=first)
    )
    client, definitions = Scheduler(None, store), -(-instances // per_definition)
    at_once = max(1, _BATCH // per_definition)
    for start in range(0, definitions, at_once):
        firings = [
            Firing(
                definition=each,
                fire_times=fire_times,
                next_fire_time=trigger.next_fire_time(first),
            )
            for each in client.schedule_all(
                TaskDefinition(trigger=trigger)
                for _ in range(min(at_once, definitions - start))
            )
        ]
        assert len(store.fire_definitions(firings).done) == len(firings)


def put_once(store: Store, times: Iterable[float]) -> None:
    """A one-off definition for each of these seconds since 1970."""
    triggers = [ExecuteOnceTrigger(datetime.fromtimestamp(each, UTC)) for each in times]
    Scheduler(None, store).schedule_all(
        [TaskDefinition(trigger=each) for each in triggers]
    )
