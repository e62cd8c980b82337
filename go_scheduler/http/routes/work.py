"""Routes of workers: they take work, keep it by heartbeats, and report results."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self
from uuid import UUID

from fastapi import APIRouter, Depends, Request, Response
from fastapi import Query as InQuery
from pydantic import Field

from go_scheduler.checks import check_at_least, check_positive
from go_scheduler.clock import ZERO
from go_scheduler.errors import GoSchedulerError
from go_scheduler.handlers.job_types import unmarked
from go_scheduler.http.access.authentication import Worker
from go_scheduler.http.access.caller import Caller
from go_scheduler.http.bodies import (
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
from go_scheduler.http.problems import Problem, invalid, problem_of
from go_scheduler.http.work.long_poll import LongPoll, Work
from go_scheduler.models import Extension
from go_scheduler.running.remote_runs import times_text
from go_scheduler.trace_context import parted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from go_scheduler.http.context import Context


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
    progress: Any = Field(
        None,
        description="How far the run has come: any JSON of at most 64 KiB, which the"
        " instance shows; null: as it was.",
    )


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


# Routes are tried in this order: the most frequent stand first.
router = APIRouter(prefix="/v1/work", tags=["work"])

_NOT_KEPT = {"Cache-Control": "no-store"}
_ANSWERS: dict[int | str, dict[str, Any]] = {
    204: {"description": "No work came in that time."}
}


async def _long_poll(request: Request) -> LongPoll:
    # ``Here`` would be a second dependency, and cost time in each request.
    context: Context = request.app.state.context
    if context.work is None:
        raise Problem(
            404,
            "no-work",
            "No work here",
            "this server hands out no work: ask one that does",
        )
    return context.work


Handing = Annotated[LongPoll, Depends(_long_poll)]


@router.get("", response_model=WorkAnswer, responses=_ANSWERS)
async def take(
    request: Request,
    asked: Annotated[WorkQuery, InQuery()],
    caller: Worker,
    work: Handing,
) -> Response:
    """Wait for work, and take one or several instances.

    The worker has a lease on each instance. It sends a heartbeat after each third of
    the lease, and reports the end of each run.
    """
    gone = asyncio.ensure_future(_gone(request))
    try:
        with of_field("", ["queues", "worker"], otherwise="queues"):
            found = await work.take(
                asked.queues.split(","),
                most=asked.max,
                wait=timedelta(seconds=asked.wait),
                worker=asked.worker,
                caller=caller,
                gone=gone,
            )
    finally:
        gone.cancel()
    if not found:
        return Response(status_code=204, headers=_NOT_KEPT)
    content = WorkAnswer.of(found).model_dump_json()
    return Response(content, headers=_NOT_KEPT, media_type="application/json")


@router.post("/{instance_id}/complete")
async def complete(
    instance_id: UUID, body: CompleteBody, caller: Worker, work: Handing
) -> RecordedAnswer:
    """Report that a run has succeeded. The report may be repeated, and may be late.

    The first success of an instance counts, whichever attempt it is of.
    """
    await _complete(instance_id, body, caller, work)
    return RecordedAnswer()


@router.post("/complete")
async def complete_many(
    body: CompletedBody, caller: Worker, work: Handing
) -> CompletedAnswers:
    """Report several successes; each is answered on its own."""
    told = (_completed(each, caller, work) for each in body.completed)
    return CompletedAnswers(answers=await asyncio.gather(*told))


@router.post("/{instance_id}/error")
async def error(
    instance_id: UUID, body: ErrorBody, caller: Worker, work: Handing
) -> RecordedAnswer:
    """Report that a run has failed; its retry policy decides what follows."""
    if body.retry_after is not None:
        with of_field("retry_after"):
            check_at_least("retry_after", body.retry_after, ZERO)
        if body.fail:
            raise invalid("retry_after", "what has failed for good is not tried again")
    await work.error(
        instance_id,
        body.token,
        caller,
        message=body.message,
        retry=not body.fail,
        retry_in=body.retry_after,
        client=body.client(),
    )
    return RecordedAnswer()


@router.post("/{instance_id}/heartbeat")
async def heartbeat(
    instance_id: UUID, body: HeartbeatBody, caller: Worker, work: Handing
) -> GoOnAnswer:
    """Renew the lease of a run; the answer says whether the run goes on."""
    with of_field("progress"):
        answer = await work.heartbeat(
            instance_id, body.token, caller, progress=body.progress
        )
    return _told(answer)


@router.post("/{instance_id}/extend")
async def extend(
    instance_id: UUID, body: ExtendBody, caller: Worker, work: Handing
) -> GoOnAnswer:
    """Extend the lease of a run; the answer says whether the run goes on."""
    with of_field("seconds"):
        check_positive("seconds", body.seconds)
    return _told(await work.extend(instance_id, body.token, caller, by=body.seconds))


@router.post("/{instance_id}/release")
async def release(
    instance_id: UUID, body: ReleaseBody, caller: Worker, work: Handing
) -> RecordedAnswer:
    """Release a run that has not begun, for another worker; it does not count."""
    with of_field("delay"):
        check_at_least("delay", body.delay, ZERO)
    await work.release(
        instance_id, body.token, caller, delay=body.delay, reason=body.reason
    )
    return RecordedAnswer()


async def _complete(
    instance_id: UUID, body: CompleteBody, caller: Caller, work: LongPoll
) -> None:
    client = body.client()
    with of_field("result"):
        await work.complete(
            instance_id, body.token, caller, result=body.result, client=client
        )


async def _completed(
    item: CompletedItem, caller: Caller, work: LongPoll
) -> CompletedAnswer:
    try:
        await _complete(item.instance_id, item, caller, work)
    except Problem as problem:
        return CompletedAnswer(problem=problem.body)
    except GoSchedulerError as error:
        return CompletedAnswer(problem=problem_of(error).body)
    return CompletedAnswer(problem=None)


async def _gone(request: Request) -> None:
    """Wait until the client disconnects."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _told(answer: Extension) -> GoOnAnswer:
    return GoOnAnswer(answer="go_on" if answer is Extension.GO_ON else "stop")
