"""An instance: one firing of a definition, or one made by hand; and its runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from go_scheduler.formatting import brief
from go_scheduler.json import JSON
from go_scheduler.models.definition import METADATA_LIMIT, TaskDefinition
from go_scheduler.models.states import Outcome, State
from go_scheduler.policies import Overlap


class Stage(StrEnum):
    """How far a run has come that was handed on over a bus."""

    PUBLISHED = "published"
    """It is on the bus, and no worker has accepted it."""
    ACCEPTED = "accepted"
    """A worker has it, and has not begun it."""
    STARTED = "started"
    """It runs there."""


def stage_of(accepted_at: datetime | None, start_by: datetime | None) -> Stage | None:
    """The stage of a run, from its stored fields; None: it is not on a bus."""
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


PAYLOAD_LIMIT = METADATA_LIMIT
"""The most bytes the payload of an instance may have, as JSON text in UTF-8."""
RESULT_LIMIT = METADATA_LIMIT
"""The same of its result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """What will not run, recorded in one instance.

    Fire times for which no instance was made are one record of their own, without a
    ``fire_time``. An instance that was made and is not run after all stands for itself.

    Attributes:
        first: The first of the fire times; of one without, when it was to run.
        last: The last of them; if the reason says that there may be more, they are up
            to then.
        count: How many there are; at least so many if the reason says so.
        reason: Why they do not run, for a person to read.
    """

    first: datetime
    last: datetime
    count: int
    reason: str

    @classmethod
    def itself(cls, at: datetime, reason: str) -> Skipped:
        """The record of one instance that was made and will not run."""
        return cls(first=at, last=at, count=1, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInstance:
    """One firing of a definition. All times are the store's, in UTC.

    Attributes:
        id: Its identity, the same over all attempts: use it to recognise a repetition.
        definition: Its definition, as of this reading or of the start of its run, with
            the ``overrides`` in the place of its own values. One that has ended keeps
            its queue, whatever becomes of that of its definition.
        fire_time: The trigger's own time; None: it was made without one, or is the
            record of several.
        payload: What it was enqueued or run by hand with; read-only. None: nothing.
        key: No other instance of its definition has the same; None: it has none.
        backfilled: The overlap it was backfilled with; None: it was not.
        reopened_at: When it was last made to run again by hand; None: it was not.
        execute_at: When it is to run. A retry does not change it.
        due_at: When it may run next: ``execute_at`` at first, later for a retry.
        attempt: Rises with every claim: ``(id, attempt)`` is the fencing token.
        runs: How often its handler has been started.
        hangs: How many of its last runs in a row were presumed hung.
        claimed_by: The node that has it; None: no node.
        expires_at: Until when that claim holds unless it is renewed.
        started_at: When the present or last run began.
        completed_at: When it ended for good.
        outcome: How it ended; None: not yet.
        ended_attempt: The attempt whose run ended it; None: no run did, or not yet.
        error: The text and traceback of the last run that failed.
        cancel_requested: Whether its run has been asked to stop.
        parked: Whether it waits for another instance to end, by ``overlap`` or
            ``lock`` of its definition.
        skipped: Which fire times it stands for, and why they do not run.
        worker: Who runs it outside of that node, or did at last; None: nobody, or
            nobody knows. What a claim or a start answers is without it.
        result: What ``complete`` was told of its success, a read-only JSON value.
        created_at: When it was made; None: nobody knows.
        client: What a remote worker reported of its last run: when that began and
            ended by the worker's clock; a read-only JSON value, or None.
        own_trace_context: The trace in which it was asked for; None: that of its
            definition, or not known.
        accepted_at: When a worker on a bus accepted its present or last run; None: none
            has.
        start_by: Until when its run on a bus is to be accepted, or else to begin; None:
            it has begun, or is on none.
        progress: The last report of how far its run has come, a read-only JSON value.
        given_back: Why it was given back without having been run, until a node claims
            it again; None: it was not, or nobody has said.
        overrides: The fields of its definition that it has of its own, by their names;
            None: it has none.
        silence: What is known of the previous run, if its claim lapsed on a bus; only
            set in the answer of the claim that takes it over.
    """

    id: UUID
    definition: TaskDefinition
    fire_time: datetime | None
    execute_at: datetime
    due_at: datetime
    attempt: int = 0
    runs: int = 0
    hangs: int = 0
    claimed_by: UUID | None = None
    expires_at: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    outcome: Outcome | None = None
    ended_attempt: int | None = None
    error: str | None = None
    cancel_requested: bool = False
    parked: bool = False
    skipped: Skipped | None = None
    payload: Mapping[str, JSON] | None = field(default=None, hash=False)
    key: str | None = None
    backfilled: Overlap | None = None
    reopened_at: datetime | None = None
    worker: str | None = None
    result: JSON = field(default=None, hash=False)
    created_at: datetime | None = None
    client: JSON = field(default=None, hash=False)
    own_trace_context: str | None = None
    accepted_at: datetime | None = None
    start_by: datetime | None = None
    progress: JSON = field(default=None, hash=False)
    given_back: str | None = None
    overrides: Mapping[str, Any] | None = field(default=None, hash=False)
    silence: Silence | None = None

    def __repr__(self) -> str:
        return brief(self)

    @property
    def definition_id(self) -> UUID:
        """Its definition's id."""
        return self.definition.id

    @property
    def metadata(self) -> Mapping[str, JSON]:
        """Its definition's metadata."""
        return self.definition.metadata

    @property
    def trace_context(self) -> str | None:
        """The trace in which it was asked for, else that of its definition."""
        return self.own_trace_context or self.definition.trace_context

    @property
    def stage(self) -> Stage | None:
        """How far its present or last run has come on a bus; None: it is on none."""
        return stage_of(self.accepted_at, self.start_by)

    @property
    def state(self) -> State:
        """Where it stands, read from its fields."""
        if self.outcome is not None:
            return State(self.outcome.value)
        if self.claimed_by is None:
            return State.PENDING
        if self.started_at is None:
            return State.CLAIMED
        return State.CANCELLING if self.cancel_requested else State.RUNNING


RUNS_KEPT = 20
"""How many of the last runs of an instance are recorded with their end."""


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
        lost_in: With the outcome *lost*, the stage that it had on a bus; None: it was
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
