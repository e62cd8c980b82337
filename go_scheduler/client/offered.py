"""What waits for a node though its time has come: due, or given back and due again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from go_scheduler.models import Backlog
from go_scheduler.models.looked_up import Counted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import datetime

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store

_LOOKED_AT = 500
"""What was given back is looked for among so many that wait, those due first."""
_QUEUES = 100


def backlog_of(
    store: Store, most: int, *, queues: Collection[str] | None = None
) -> Sequence[Backlog]:
    """The backlog, with what nodes have given back and will be offered again.

    Args:
        store: Read.
        most: So many are counted of a queue.
        queues: Of these alone; None: of all.
    """
    due = store.list_backlog(most, queues=queues)
    now = store.now()
    waiting = store.list_waiting(queues=queues, limit=_LOOKED_AT)
    again = [each for each in waiting if now < each.due_at and _was_due(each, now)]
    return _with(due, again, most)


def _was_due(instance: TaskInstance, now: datetime) -> bool:
    """Whether its time has come, and it waits for no other reason than a give-back.

    One that has failed waits for its retry, unless it was given back after that.
    """
    given_back = instance.given_back is not None or (
        instance.attempt > instance.runs and instance.error is None
    )
    return instance.execute_at <= now and given_back


def _with(
    backlog: Iterable[Backlog], again: Iterable[TaskInstance], most: int
) -> Sequence[Backlog]:
    found = {each.queue: each for each in backlog}
    for each in again:
        queue, at = each.definition.queue, each.execute_at
        known = found.get(queue)
        if known is None:
            found[queue] = Backlog(queue=queue, due=Counted(count=1), oldest=at)
            continue
        more = known.due.more or known.due.count >= most
        due = Counted(count=min(most, known.due.count + 1), more=more)
        found[queue] = replace(known, due=due, oldest=min(known.oldest, at))
    return [found[queue] for queue in sorted(found)][:_QUEUES]
