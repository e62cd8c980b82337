"""The part of a Redis store that people look at: each read is of the end of a set."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from go_scheduler.models.looked_up import Backlog, Counted
from go_scheduler.stores.declared import is_among
from go_scheduler.stores.messages import Position
from go_scheduler.stores.redis.calls import RedisCalls
from go_scheduler.stores.redis.rows import given_time
from go_scheduler.stores.redis.texts import maybe_time_text, time_text
from go_scheduler.stores.view_store import (
    KEYS_LOOKED_AT,
    LOOKED_AT,
    Stretch,
    ViewStore,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.models import Outcome, TaskDefinition, TaskInstance

_QUEUES = 100


class RedisViews(RedisCalls, ViewStore):
    """What pages show of a Redis store."""

    def count_waiting(self, definition_id: UUID, *, most: int) -> int:
        """How many instances of a definition have not ended, and have not begun."""
        found: int = self._server.run("count_waiting", of=definition_id.hex, most=most)
        return found

    def list_backlog(
        self, most: int, *, queues: Collection[str] | None = None
    ) -> Sequence[Backlog]:
        """What is due and has not been claimed, by queue."""
        limit = _QUEUES if queues is None else LOOKED_AT
        found = self._server.run("list_backlog", now=self._now(), limit=limit)
        return [
            Backlog(
                queue=queue,
                due=Counted.up_to(most, number),
                oldest=given_time(oldest),
            )
            for queue, number, oldest in found
            if queues is None or queue in queues
        ][:_QUEUES]

    def list_waiting(
        self,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        limit: int,
    ) -> Sequence[TaskInstance]:
        """Read what can be claimed, or will be when it is due, earliest due first."""
        return self._first("list_waiting", queues, owners, limit)

    def list_ended(
        self,
        outcome: Outcome,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        before: Position | None = None,
        limit: int,
    ) -> Stretch:
        """Read instances that ended in one way, those that ended last first."""
        last = "+"
        if before is not None:
            last = f"({maybe_time_text(before.at)}{before.id.hex}"
        sets = {"sets": [f"e:{outcome.value}"]}
        walked = self._lists.walk(sets, "-", last, newest_first=True, limit=limit + 1)
        page: list[TaskInstance] = []
        most, end = _looked_at(limit, queues, owners), None
        for number, each in enumerate(walked):
            if number == most or len(page) == limit:
                return Stretch(found=page, next=end)
            page += _among([each], queues, owners)
            end = Position(at=each.completed_at, id=each.id)
        return Stretch(found=page, next=None)

    def list_claims(
        self,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        limit: int,
    ) -> Sequence[TaskInstance]:
        """Read what nodes hold and run, those first whose claims expire first."""
        return self._first("list_claims", queues, owners, limit)

    def _first(
        self,
        script: str,
        queues: Collection[str] | None,
        owners: Collection[str] | None,
        limit: int,
    ) -> Sequence[TaskInstance]:
        most = _looked_at(limit, queues, owners)
        found = self._reader.instances(self._server.run(script, limit=most))
        return list(islice(_among(found, queues, owners), limit))

    def list_fired(
        self,
        definition_id: UUID,
        *,
        since: datetime,
        before: datetime,
        newest_first: bool = False,
        limit: int,
    ) -> Sequence[TaskInstance]:
        """Read what a definition has fired, in the order of fire times."""
        walked = self._lists.walk(
            {"of": definition_id.hex, "set": "df:"},
            f"[{time_text(since)}",
            f"({time_text(before)}",
            newest_first=newest_first,
            limit=limit,
        )
        return list(islice(walked, limit))

    def list_unscheduled(
        self, definition_id: UUID, *, limit: int
    ) -> Sequence[TaskInstance]:
        """Read what a definition has without a fire time, the latest first."""
        sets = {"of": definition_id.hex, "set": "du:"}
        walked = self._lists.walk(sets, "-", "+", newest_first=True, limit=limit)
        return list(islice(walked, limit))

    def search_names(
        self,
        prefix: str,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        limit: int,
    ) -> Sequence[TaskDefinition]:
        """Read definitions whose name begins with a text, of ten thousand such."""
        most = _looked_at(limit, queues, owners)
        found = self._reader.definitions(
            self._server.run("search_names", prefix=prefix, limit=most, most=LOOKED_AT)
        )
        return [each for each in found if is_among(each, queues, owners)][:limit]

    def search_key(
        self,
        key: str,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        limit: int,
    ) -> Sequence[TaskInstance]:
        """Read the instances that have a key, of a thousand such at most."""
        most = _looked_at(limit, queues, owners)
        found = self._reader.instances(
            self._server.run("search_key", key=key, limit=most, most=KEYS_LOOKED_AT)
        )
        return list(islice(_among(found, queues, owners), limit))


def _looked_at(
    limit: int, queues: Collection[str] | None, owners: Collection[str] | None
) -> int:
    """Of how many some are picked."""
    return limit if queues is None and owners is None else LOOKED_AT


def _among(
    instances: Iterable[TaskInstance],
    queues: Collection[str] | None,
    owners: Collection[str] | None,
) -> Iterable[TaskInstance]:
    return (each for each in instances if is_among(each.definition, queues, owners))
