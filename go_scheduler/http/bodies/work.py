"""Bodies of workers: requests for work, work, and reports."""

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
from go_scheduler.running.remote_runs import times_text
from go_scheduler.trace_context import parted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from go_scheduler.http.work.long_poll import Work

_TOKEN = Field(
    max_length=2000,
    description="The token of the work. It is valid for that run and its caller.",
)


class WorkQuery(Query):
    """A request for work."""

    queues: str = Field(
        min_length=1,
        max_length=20_000,
        description="The queues, separated by commas.",
        examples=["default", "mail,reports"],
    )
    max: int = Field(1, ge=1, le=100, description="The most instances to take.")
    wait: float = Field(
        30, ge=0, le=60, description="How many seconds to wait for the first."
    )
    worker: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="The name of the worker, for people to read.",
    )

    @property
    def waits(self) -> timedelta:
        """How long to wait."""
        return timedelta(seconds=self.wait)


class WorkItem(Answer):
    """An instance to run."""

    instance_id: UUID
    token: str = Field(description="Send it with heartbeats and reports of this run.")
    attempt: int = Field(description="It rises each time the instance is handed out.")
    type: str | None = Field(description="The name of its definition.")
    payload: Object | None
    metadata: Object
    execute_at: Instant
    definition_id: UUID
    queue: str
    traceparent: str | None = Field(
        description="The W3C trace context of the request for the run, or of the"
        " definition."
    )
    tracestate: str | None = Field(description="The `tracestate` of that context.")
    lease: Seconds = Field(
        description="The lease. Without a heartbeat within this time the instance is"
        " handed to another worker."
    )


class WorkAnswer(Answer):
    """Work for a worker."""

    work: list[WorkItem]

    @classmethod
    def of(cls, found: Sequence[Work]) -> Self:
        """The answer for work that was handed out."""
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
    """A heartbeat."""

    token: str = _TOKEN


class ReleaseBody(Body):
    """The release of a run that has not begun."""

    token: str = _TOKEN
    delay: Seconds = Field(
        ZERO, description="The time until the instance is handed out again."
    )
    reason: str | None = Field(
        None, max_length=10_000, description="The reason, for people to read."
    )


class ExtendBody(Body):
    """A request for a longer lease."""

    token: str = _TOKEN
    seconds: Seconds = Field(description="The lease from now on; a longer lease stays.")


class EndedBody(Body):
    """The times of a run by the worker's clock."""

    token: str = _TOKEN
    started_at: Instant | None = Field(
        None, description="By the worker's clock; it is stored for people to read."
    )
    ended_at: Instant | None = Field(None, description="Likewise.")

    def client(self) -> str | None:
        """The times as they are stored.

        Raises:
            Problem: 422.
        """
        with of_field("", ("started_at", "ended_at")):
            return times_text(self.started_at, self.ended_at)


class CompleteBody(EndedBody):
    """The success of a run."""

    result: Any = Field(
        None, description="Stored with the instance: any JSON of at most 64 KiB."
    )


class CompletedItem(CompleteBody):
    """The success of a run, with its instance."""

    instance_id: Id


class CompletedBody(Body):
    """The successes of several runs."""

    completed: list[CompletedItem] = Field(min_length=1, max_length=100)


class ErrorBody(EndedBody):
    """The failure of a run."""

    message: str = Field(
        max_length=100_000, description="What went wrong, for people to read."
    )
    retry_after: Seconds | None = Field(
        None, description="The delay until the retry; null: by the retry policy."
    )
    fail: bool = Field(
        False, description="Whether it has failed for good, and is not retried."
    )


class GoOnAnswer(Answer):
    """Whether a run goes on."""

    answer: Literal["go_on", "stop"] = Field(
        description="stop: the run was cancelled or has timed out. The answer for a"
        " lost run is 409."
    )


class RecordedAnswer(Answer):
    """The report has been recorded."""

    answer: Literal["recorded"] = "recorded"


class CompletedAnswer(Answer):
    """The answer to one of several reports."""

    problem: dict[str, Any] | None = Field(
        description="null: it has been recorded; otherwise the problem that a single"
        " report would have been answered by."
    )


class CompletedAnswers(Answer):
    """The answers to several reports, in their order."""

    answers: list[CompletedAnswer]
