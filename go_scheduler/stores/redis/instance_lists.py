"""The part of a Redis store that reads instances."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from go_scheduler.errors import (
    TaskInstanceNotFoundError,
)
from go_scheduler.models import State
from go_scheduler.stores.instance_store import InstanceStore
from go_scheduler.stores.orders import is_fired_within
from go_scheduler.stores.redis.calls import RedisCalls
from go_scheduler.stores.redis.rows import read_run

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.models import TaskInstance, TaskRun
    from go_scheduler.stores.messages import Position


class RedisInstanceLists(RedisCalls, InstanceStore):
    """What a ``RedisStore`` knows of instances."""

    def list_claimed(
        self, node: UUID, *, after: TaskInstance | None = None, limit: int = 100
    ) -> Sequence[TaskInstance]:
        """Read a page of what a node has claimed and has not ended."""
        last = None if after is None else after.id.hex
        answer = self._server.run(
            "list_claimed", node=node.hex, after=last, limit=limit
        )
        return self._reader.instances(answer)

    def get_instance(self, instance_id: UUID) -> TaskInstance:
        """Read one instance."""
        found = self._reader.instances(
            self._server.run("get_instance", id=instance_id.hex)
        )
        if not found:
            raise TaskInstanceNotFoundError(instance_id)
        return found[0]

    def slot_holder(self, slot: str) -> TaskInstance | None:
        """Read which instance has a slot."""
        found = self._reader.instances(self._server.run("get_instance", slot=slot))
        return found[0] if found else None

    def list_runs(self, instance_id: UUID) -> Sequence[TaskRun]:
        """Read what is kept of the runs of an instance."""
        kept = self._server.run("list_runs", id=instance_id.hex)
        return [read_run(instance_id, each) for each in kept]

    def list_instances(
        self,
        *,
        definition_id: UUID | None = None,
        name: str | None = None,
        key: str | None = None,
        state: State | None = None,
        since: datetime | None = None,
        fired_since: datetime | None = None,
        fired_before: datetime | None = None,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        newest_first: bool = False,
        after: Position | None = None,
        limit: int = 100,
    ) -> Sequence[TaskInstance]:
        """Read a page of the instances that meet every condition given."""
        walked = self._lists.instances(
            definition_id=definition_id,
            name=name,
            key=key,
            state=state,
            since=since,
            queues=queues,
            owners=owners,
            newest_first=newest_first,
            after=after,
            limit=limit,
        )
        found = (
            each
            for each in walked
            if (key is None or each.key == key)
            and (state is None or each.state is state)
            and is_fired_within(each, fired_since, fired_before)
        )
        return list(islice(found, limit))

    def counts(
        self,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
    ) -> Mapping[State, int]:
        """How many instances are in each state; every state has a number."""
        if queues is None and owners is None:
            states = [each.value for each in State]
            numbers = map(int, self._server.run("counts", states=states))
            return dict(zip(State, numbers, strict=True))
        walked = self._lists.instances(queues=queues, owners=owners)
        mine = Counter(each.state for each in walked)
        return {state: mine[state] for state in State}
