"""How far a run on a bus has come, and what is known of one that fell silent."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum


class Stage(StrEnum):
    """How far a run has come that was handed on over a bus."""

    PUBLISHED = "published"
    """It is on the bus, and no worker has said a word of it."""
    ACCEPTED = "accepted"
    """A worker has it, and has not begun it."""
    STARTED = "started"
    """It runs there."""


def stage_of(accepted_at: datetime | None, start_by: datetime | None) -> Stage | None:
    """The stage of a run, by what is kept of it; None: it is none of a bus."""
    if start_by is None:
        return None if accepted_at is None else Stage.STARTED
    return Stage.PUBLISHED if accepted_at is None else Stage.ACCEPTED


def step_of(stage: Stage | None) -> int:
    """A stage as a number, to be compared: 0 for none, 1 for the first."""
    return 0 if stage is None else _STEPS[stage]


_STEPS = {stage: number for number, stage in enumerate(Stage, start=1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """A run on a bus that has come no further in time.

    Attributes:
        stage: How far it had come.
        worker: Who had it; None: nobody, or nobody knows.
        within: In what time it was to be accepted, or to begin; None: it had begun.
    """

    stage: Stage
    worker: str | None = None
    within: timedelta | None = None
