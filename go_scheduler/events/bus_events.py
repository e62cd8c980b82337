"""What happens between a scheduler and the message bus on which it has runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from go_scheduler.events.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class BusAway(Event):
    """The bus cannot be reached: what is to run over it waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BusBack(Event):
    """The bus answers again.

    Attributes:
        away: How long it did not.
    """

    away: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRefused(Event):
    """What a worker said over the bus is not recorded, and never will be.

    Attributes:
        instance_id: Of which instance it was; None: it could not be read.
        attempt: Of which attempt; None likewise.
        worker: Who said it; None likewise.
        reason: Why it is not recorded.
    """

    instance_id: UUID | None
    attempt: int | None
    worker: str | None
    reason: str
