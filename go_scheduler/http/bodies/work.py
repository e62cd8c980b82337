"""Work over the wire: what workers wait for, are handed, and report."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, Self
from uuid import UUID

from pydantic import Field

from go_scheduler.clock import ZERO
from go_scheduler.handlers.job_types import unmarked
from go_scheduler.http.bodies.body import (
    Answer,
    Body,
    Id,
    Instant,
    Object,
    Query,
    Seconds,
    if_given,
    of_field,
)
from go_scheduler.running.desk import times_text
from go_scheduler.trace_context import parted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from go_scheduler.http.work.crews import Work

_TOKEN = Field(
    max_length=2000,
    description="As it came with the work; it holds for that run, and for its caller.",
)


class WorkQuery(Query):
    """What a worker waits for."""

    queues: str = Field(
        min_length=1,
        max_length=20_000,
        description="In which queues, separated by commas.",
        examples=["default", "mail,reports"],
    )
    max: int = Field(
        1, ge=1, le=100, description="How many instances it takes at most."
    )
    wait: float = Field(
        30, ge=0, le=60, description="How many seconds to wait for the first."
    )
    worker: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="What the worker calls itself, for people to read.",
    )

    @property
    def waits(self) -> timedelta:
        """How long to wait."""
        return timedelta(seconds=self.wait)


class WorkItem(Answer):
    """An instance to run."""

    instance_id: UUID
    token: str = Field(description="Shown to keep and to end this run.")
    attempt: int = Field(description="Rises with each time it is handed out.")
    type: str | None = Field(description="The name of its definition.")
    payload: Object | None
    metadata: Object
    execute_at: Instant
    definition_id: UUID
    queue: str
    traceparent: str | None = Field(
        description="The trace in which it was asked for, or else its definition was"
        " put, as the header of that name."
    )
    tracestate: str | None = Field(description="What belongs to that, likewise.")
    lease: Seconds = Field(
        description="So long the worker has it, unless it asks for more by a heartbeat:"
        " then it is handed to somebody else."
    )


class WorkAnswer(Answer):
    """What a worker is to run."""

    work: list[WorkItem]

    @classmethod
    def of(cls, found: Sequence[Work]) -> Self:
        """That of what was handed out."""
        return cls(
            work=[
                WorkItem(
                    instance_id=instance.id,
                    token=token,
                    attempt=instance.attempt,
                    type=instance.definition.name,
                    payload=if_given(instance.payload, dict),
                    metadata=unmarked(instance.metadata),
                    execute_at=instance.execute_at,
                    definition_id=instance.definition.id,
                    queue=instance.definition.queue,
                    traceparent=parted(instance.trace_context)[0],
                    tracestate=parted(instance.trace_context)[1],
                    lease=lease,
                )
                for instance, token, lease in found
            ]
        )


class HeartbeatBody(Body):
    """That a worker lives, and works."""

    token: str = _TOKEN


class ReleaseBody(Body):
    """That a run has not begun, and will not."""

    token: str = _TOKEN
    delay: Seconds = Field(ZERO, description="For so long nobody is handed it.")
    reason: str | None = Field(
        None, max_length=10_000, description="Why, for people to read."
    )


class ExtendBody(Body):
    """That a run takes longer."""

    token: str = _TOKEN
    seconds: Seconds = Field(
        description="It is kept for so long from now, unless it is for longer already."
    )


class EndedBody(Body):
    """That a run has ended, and when it was by the worker's clock."""

    token: str = _TOKEN
    started_at: Instant | None = Field(
        None, description="By the worker's clock: kept, and nothing is done with it."
    )
    ended_at: Instant | None = Field(None, description="Likewise.")

    def client(self) -> str | None:
        """The times, as they are kept.

        Raises:
            Problem: 422.
        """
        with of_field("", ("started_at", "ended_at")):
            return times_text(self.started_at, self.ended_at)


class CompleteBody(EndedBody):
    """That a run has succeeded."""

    result: Any = Field(
        None, description="Kept with the instance: any JSON of at most 64 KiB."
    )


class CompletedItem(CompleteBody):
    """The same, and of which."""

    instance_id: Id


class CompletedBody(Body):
    """That several runs have succeeded."""

    completed: list[CompletedItem] = Field(min_length=1, max_length=100)


class ErrorBody(EndedBody):
    """That a run has failed."""

    message: str = Field(
        max_length=100_000, description="What went wrong, for people to read."
    )
    retry_after: Seconds | None = Field(
        None, description="It runs again after so long; null: as its policy says."
    )
    fail: bool = Field(
        False, description="Whether it has failed for good, and is not tried again."
    )


class GoOnAnswer(Answer):
    """What a worker is to do with a run that it keeps."""

    answer: Literal["go_on", "stop"] = Field(
        description="stop: somebody has cancelled it. One that is lost is told by 409."
    )


class RecordedAnswer(Answer):
    """That it has been recorded."""

    answer: Literal["recorded"] = "recorded"


class CompletedAnswer(Answer):
    """What became of one of several."""

    problem: dict[str, Any] | None = Field(
        description="null: it has been recorded; else what would have been answered had"
        " it been said alone."
    )


class CompletedAnswers(Answer):
    """What became of each, in the order of what was said."""

    answers: list[CompletedAnswer]
