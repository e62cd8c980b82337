"""The answer to the question why, for programs and for people."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from go_scheduler.models import NodeInfo, TaskInstance
from go_scheduler.triggers.previews import PreviewedTime


class Because(StrEnum):
    """What decided about it."""

    COMPLETED = "completed"
    """It ran."""
    FAILED = "failed"
    """It ran, and its last run failed."""
    CANCELLED = "cancelled"
    """Somebody cancelled it."""
    SKIPPED = "skipped"
    """It was skipped, or is within a range of skipped fire times, for the reason."""
    RUNNING = "running"
    """It runs."""
    HELD = "held"
    """A node has claimed it, and is about to call its handler."""
    RETRY = "retry"
    """A run of it failed, and the next run is due later."""
    PENDING = "pending"
    """It is due later."""
    WAITS_FOR_NODE = "waits for a node"
    """It is due, and no node has claimed it."""
    PARKED = "parked"
    """It is due, and waits for another instance to end, by its overlap or lock."""
    PAUSED = "paused"
    """Its definition is paused."""
    TO_COME = "to come"
    """It will fire then; its instance is made shortly before."""
    OVERDUE = "overdue"
    """It should have fired, and no node has made its instance."""
    WAITS_FOR_END = "waits for the end of a run"
    """Its trigger counts from the end of each run: nobody knows when that is."""
    NO_FIRE_TIME = "no fire time"
    """The schedule has no fire time then."""
    NOT_KEPT = "not kept"
    """The schedule has a fire time then, but no record of it is kept."""
    ENDED = "ended"
    """Its last fire time was before."""
    UNKNOWN_TRIGGER = "unknown trigger"
    """This process cannot read its trigger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """What happened, happens or will happen, and what decided about it.

    Attributes:
        definition_id: The definition.
        at: The instant that was asked about, in UTC.
        because: What decided it.
        text: The same in sentences, for people. They may change with any version.
        instance: The instance that the answer is about; None: there is none.
        node: The node that has that instance, or had it last; None: there is none, or
            it is no longer known.
        holder: The instance that it waits for, of this definition or of another one
            with the same lock; None: it waits for none.
        since: When it began or happened; None: it is not known.
        until: When it ends or is due; None: it is not known.
        reason: A recorded reason: the note of a pause, the error of the last run, or
            why fire times were skipped.
        nearest: The fire times before and after that instant, as far as they exist and
            are known, in the zone of the schedule.
    """

    definition_id: UUID
    at: datetime
    because: Because
    text: str
    instance: TaskInstance | None = None
    node: NodeInfo | None = None
    holder: TaskInstance | None = None
    since: datetime | None = None
    until: datetime | None = None
    reason: str | None = None
    nearest: tuple[PreviewedTime, ...] = ()

    def __str__(self) -> str:
        return self.text
