"""Work: what the handler of a worker is called with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID, uuid4

from go_scheduler.json import JSON, freeze
from go_scheduler.models import TaskDefinition, TaskInstance
from go_scheduler.models.definition import METADATA_LIMIT
from go_scheduler.traced import joined
from go_scheduler.triggers.on_demand import OnDemandTrigger

_LIMIT = 2 * METADATA_LIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What has been handed to a worker.

    Attributes:
        instance_id: Its identity, the same over all attempts.
        type: What it is: the name of its definition, if that has one.
        payload: What it was submitted or run with; read-only. None: nothing.
        metadata: Its definition's; read-only.
        attempt: Rises with each time it is handed out.
        execute_at: When it was to run.
        definition_id: Of what it is a run; None: that is not said.
        queue: From which queue it comes; likewise.
        traceparent: The trace in which it was asked for, as W3C writes it; None: none.
        tracestate: What belongs to that, likewise.
    """

    instance_id: UUID
    type: str | None
    payload: Mapping[str, JSON] | None = field(hash=False)
    metadata: Mapping[str, JSON] = field(hash=False)
    attempt: int
    execute_at: datetime
    definition_id: UUID | None = None
    queue: str | None = None
    traceparent: str | None = None
    tracestate: str | None = None


def instance_of(work: Work) -> TaskInstance:
    """What handlers of a registry take, as far as a worker knows it."""
    definition = TaskDefinition(
        id=work.definition_id or uuid4(),
        name=work.type,
        queue=work.queue or "default",
        trigger=OnDemandTrigger(),
        metadata=work.metadata,
    )
    return TaskInstance(
        id=work.instance_id,
        definition=definition,
        fire_time=None,
        execute_at=work.execute_at,
        due_at=work.execute_at,
        attempt=work.attempt,
        payload=work.payload,
        own_trace_context=joined(work.traceparent, work.tracestate),
    )


def frozen(value: Mapping[str, JSON], name: str) -> Mapping[str, JSON]:
    """What was sent as a payload or as metadata, read-only.

    Raises:
        ConfigurationError: It is no object, or none that a store can have kept.
    """
    return freeze(value, name=name, limit=_LIMIT)
