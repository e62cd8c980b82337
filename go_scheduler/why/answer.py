"""The answer to the question why, for programs and for people."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from go_scheduler.models import NodeInfo, TaskInstance
from go_scheduler.triggers.previews import PreviewedTime


class Because(StrEnum):
    """What decided it."""

    COMPLETED = "completed"
    """It ran."""
    FAILED = "failed"
    """It ran, and its last run failed."""
    CANCELLED = "cancelled"
    """Somebody cancelled it."""
    SKIPPED = "skipped"
    """It was not run, or is amid what was not, for the reason given."""
    RUNNING = "running"
    """It runs."""
    HELD = "held"
    """A node has it, and is about to call its handler."""
    RETRY = "retry"
    """A run of it failed, and the next is to come."""
    PENDING = "pending"
    """It is due later."""
    WAITS_FOR_NODE = "waits for a node"
    """It is due, and no node has taken it."""
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
    """The schedule has a fire time then, and nothing of it is kept."""
    ENDED = "ended"
    """Its last fire time was before."""
    UNKNOWN_TRIGGER = "unknown trigger"
    """This process cannot read its trigger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """What happened, happens or will happen, and what decided it; as text, for people.

    Attributes:
        definition_id: The definition.
        at: The instant that was asked about, in UTC.
        because: What decided it.
        text: The same in plain sentences. They may change with any version.
        instance: The instance that it is about; None: there is none.
        node: The node that has that instance, or had it; None: there is none, or
            nothing is known of it any more.
        holder: The instance that it waits for, of this definition or of another one
            with the same lock; None: it waits for none.
        since: Since when that is so, or when it was; None: it is not known.
        until: Until when, or when it is to be; None: it is not known.
        reason: What somebody wrote down of it: the note of a pause, the error of the
            last run, why fire times were skipped.
        nearest: The fire times before and after that instant, as far as there are any
            and they can be known, in the schedule's zone.
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
