"""What workers are told to do: run, and cancel."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field, TypeAdapter

from go_scheduler.dispatch.messages.message import (
    Instant,
    Message,
    Name,
    Object,
    Seconds,
    read,
)


class Run(Message):
    """Run an instance: one attempt of it, by whoever is the first to accept it."""

    action: Literal["run"] = "run"
    """What to do."""

    task: str | None
    """The name of its definition: which task it is; null: it has no name."""

    queue: Name
    """The queue it is in."""

    definition_id: UUID
    """Its definition."""

    fire_time: Instant | None
    """The trigger's own time; null: it was made without one."""

    execute_at: Instant
    """When it was to run."""

    payload: Object | None
    """What it is to run with; null: nothing."""

    metadata: Object
    """That of its definition."""

    key: str | None
    """Its key: no other instance of its definition has the same; null: none."""

    runs: Annotated[int, Field(strict=True, ge=0)]
    """How often it has been run before: more than zero, it is a repetition."""

    start_by: Instant | None
    """When it is taken for lost unless somebody has accepted it; null: never."""

    heartbeat_timeout: Seconds
    """How long it may be silent, once begun, before it is taken for lost."""

    timeout: Seconds | None
    """How long it may run; null: as long as it gives signs of life."""

    trace_context: str | None = None
    """The trace it was asked for in, as the header ``traceparent`` has it."""

    trace_state: str | None = None
    """What belongs to that, as the header ``tracestate`` has it."""


class Cancel(Message):
    """End a run, if it is there: somebody asked for it, or it is another's now."""

    action: Literal["cancel"] = "cancel"
    """What to do."""

    reason: Literal["cancelled", "lost"]
    """Asked for; or the run has been lost, and nothing that it says counts."""


_ACTION: TypeAdapter[Run | Cancel] = TypeAdapter(
    Annotated[Run | Cancel, Field(discriminator="action")]
)


def read_action(body: bytes) -> Run | Cancel:
    """What a worker is told to do.

    Raises:
        ConfigurationError: It is no such message, or in a version that is not known;
            the text says which field, and does not repeat the message.
    """
    return read(_ACTION, body)
