"""What is kept of a run that did not end its instance well."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from go_scheduler.models.stage import Stage

RUNS_KEPT = 20
"""Of so many runs of an instance the end is kept: of the last ones."""


class RunEnd(StrEnum):
    """How a run ended that did not end its instance well."""

    FAILED = "failed"
    """Its handler raised, or it was said to have failed."""
    HUNG = "hung"
    """It had no end in time, and is presumed to hang."""
    CANCELLED = "cancelled"
    """It did not succeed after it had been asked to stop."""
    LOST = "lost"
    """It came to no end before its claim was taken over: its node died, perhaps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRun:
    """A run that did not end its instance well. All times are the store's, in UTC.

    Attributes:
        instance_id: What was run.
        attempt: As which attempt.
        node: The node that had claimed it.
        started_at: When it began.
        ended_at: When its end was recorded.
        outcome: How it ended.
        error: What it raised, with a traceback; None: nothing is known.
        worker: Who ran it outside of that node; None: nobody, or nobody knows.
        lost_in: With the outcome *lost*, in which stage it was on a bus; None: it was
            on none.
    """

    instance_id: UUID
    attempt: int
    node: UUID | None
    started_at: datetime | None
    ended_at: datetime
    outcome: RunEnd
    error: str | None
    worker: str | None = None
    lost_in: Stage | None = None
