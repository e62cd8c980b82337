"""The part of a Redis store that is about instances which users make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.errors import QueueFullError, TaskDefinitionNotFoundError
from go_scheduler.stores.changes import check_is_as_read
from go_scheduler.stores.full import FULL
from go_scheduler.stores.hand_over_store import HandOverStore
from go_scheduler.stores.hints import SOON
from go_scheduler.stores.redis.calls import RedisCalls
from go_scheduler.stores.redis.definition_calls import write_claimant
from go_scheduler.stores.redis.texts import (
    fresh_id,
    maybe_time_text,
    micros,
    present,
    read_time,
    time_text,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.policies import Overlap
    from go_scheduler.stores.messages import Addition, Claimant


class RedisAdditions(RedisCalls, HandOverStore):
    """What a ``RedisStore`` makes by hand."""

    def add_instances(
        self, definition_id: UUID, additions: Sequence[Addition]
    ) -> Sequence[TaskInstance]:
        """Make instances of a definition that are no fire times'."""
        return self._add(definition_id, additions, {})

    def add_and_start(
        self,
        definition_id: UUID,
        additions: Sequence[Addition],
        claimant: Claimant,
        *,
        names: Collection[str] | None,
    ) -> Sequence[TaskInstance]:
        """Make instances, and start those that are due."""
        served: object = "all" if names is None else dict.fromkeys(names, True)
        queues = dict.fromkeys(claimant.queues, True)
        node = {"names": served, "queues": queues, **write_claimant(claimant)}
        return self._add(definition_id, additions, node)

    def _add(
        self,
        definition_id: UUID,
        additions: Sequence[Addition],
        node: Mapping[str, object],
    ) -> Sequence[TaskInstance]:
        answer = self._server.run(
            "add_instances",
            now=self._now(),
            of=definition_id.hex,
            soon=micros(SOON),
            full=FULL,
            additions=[
                present(
                    {
                        "id": each.id.hex,
                        "at": maybe_time_text(each.at),
                        "delay": micros(each.delay),
                        "payload": each.payload_text,
                        "key": each.key,
                        "trace_context": each.trace_context,
                    }
                )
                for each in additions
            ],
            **node,
        )
        if answer is None:
            raise TaskDefinitionNotFoundError(definition_id)
        if isinstance(answer, int):
            raise QueueFullError(definition_id, answer)
        return self._reader.instances(answer)

    def backfill_instances(
        self,
        definition: TaskDefinition,
        fire_times: Sequence[datetime],
        *,
        overlap: Overlap,
    ) -> Sequence[datetime]:
        """Make instances for fire times of a definition that have none."""
        revision, *made = self._server.run(
            "backfill_instances",
            now=self._now(),
            of=definition.id.hex,
            revision=definition.revision,
            overlap=overlap.value,
            trace_context=definition.trace_context,
            soon=micros(SOON),
            fire_times=[[time_text(each), fresh_id()] for each in fire_times],
        )
        if revision is None:
            raise TaskDefinitionNotFoundError(definition.id)
        check_is_as_read(definition, revision)
        return [read_time(each) for each in made[0]]  # type: ignore[misc]
