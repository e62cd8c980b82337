"""A run that a server has handed to a worker."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from go_scheduler.json import NOTHING
from go_scheduler.working import given
from go_scheduler.working.work import Work, frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta


class Given(given.Given):
    """What a worker was handed and still has.

    Args:
        item: As the server sends it.
        extend: Asks the server for more time, without waiting for its answer.

    Attributes:
        times: When it began and ended by this machine's clock, as the server takes
            them; empty: it has not ended.
    """

    place = "a worker of an HTTP server"
    recorder = "the server"

    def __init__(
        self, item: Mapping[str, Any], extend: Callable[[Given, timedelta], None]
    ) -> None:
        super().__init__(_work_of(item), extend)
        self.token: str = item["token"]
        self.lease: float = item["lease"]
        self.times: Mapping[str, str] = {}


def _work_of(item: Mapping[str, Any]) -> Work:
    payload, metadata = item["payload"], item["metadata"]
    definition_id: str | None = item.get("definition_id")
    return Work(
        instance_id=UUID(item["instance_id"]),
        type=item["type"],
        payload=None if payload is None else frozen(payload, "payload"),
        metadata=frozen(metadata, "metadata") if metadata else NOTHING,
        attempt=item["attempt"],
        execute_at=datetime.fromisoformat(item["execute_at"]),
        # A server may be of a version without these.
        definition_id=None if definition_id is None else UUID(definition_id),
        queue=item.get("queue"),
        traceparent=item.get("traceparent"),
        tracestate=item.get("tracestate"),
    )
