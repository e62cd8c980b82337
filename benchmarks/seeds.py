"""What is in a store before anything is measured."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING

from go_scheduler import ExecuteOnceTrigger, IntervalTrigger, TaskDefinition
from go_scheduler.stores import open_store
from go_scheduler.stores.messages import Firing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from go_scheduler import Store

SECOND = timedelta(seconds=1)
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
    now = store.now()
    if per_definition == 1:
        new = [once(now - SECOND) for _ in range(instances)]
    else:
        # Its next fire time is to come, so that none of these is one that was missed.
        hourly = IntervalTrigger(HOUR, anchor=now - SECOND)
        new = [
            TaskDefinition(trigger=hourly, next_fire_time=now - SECOND)
            for _ in range(-(-instances // per_definition))
        ]
    for batch in batches(new, _BATCH):
        put = store.put_definitions(batch)
        for few in batches(put, max(1, _BATCH // per_definition)):
            firings = [_firing(each, per_definition) for each in few]
            assert len(store.fire_definitions(firings).done) == len(firings)


def _firing(definition: TaskDefinition, instances: int) -> Firing:
    first = definition.next_fire_time
    assert first is not None
    return Firing(
        definition=definition,
        fire_times=tuple(first + number * MILLISECOND for number in range(instances)),
        next_fire_time=None if instances == 1 else first + 1000 * HOUR,
    )


def put_once(store: Store, times: Iterable[float]) -> None:
    """A one-off definition for each of these seconds since 1970."""
    new = [once(datetime.fromtimestamp(each, UTC)) for each in times]
    for batch in batches(new, _BATCH):
        store.put_definitions(batch)


def once(at: datetime) -> TaskDefinition:
    """A one-off as a store is given it."""
    return TaskDefinition(trigger=ExecuteOnceTrigger(at), next_fire_time=at)


def batches(
    values: Sequence[TaskDefinition], size: int
) -> Iterable[Sequence[TaskDefinition]]:
    """Parts of so many, and the rest."""
    rest = iter(values)
    while batch := list(islice(rest, size)):
        yield batch
