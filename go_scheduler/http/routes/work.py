"""Routes of workers: they take work, keep it by heartbeats, and report results."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request, Response

from go_scheduler.checks import check_at_least, check_positive
from go_scheduler.clock import ZERO
from go_scheduler.errors import GoSchedulerError
from go_scheduler.http.access.authentication import Worker
from go_scheduler.http.access.caller import Caller
from go_scheduler.http.bodies.body import of_field
from go_scheduler.http.bodies.work import (
    CompleteBody,
    CompletedAnswer,
    CompletedAnswers,
    CompletedBody,
    CompletedItem,
    ErrorBody,
    ExtendBody,
    GoOnAnswer,
    HeartbeatBody,
    RecordedAnswer,
    ReleaseBody,
    WorkAnswer,
    WorkQuery,
)
from go_scheduler.http.problems import Problem, invalid, problem_of
from go_scheduler.http.work.long_poll import LongPoll
from go_scheduler.models import Extension

if TYPE_CHECKING:
    from go_scheduler.http.context import Context

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
    asked: Annotated[WorkQuery, Query()],
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
                wait=asked.waits,
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
    client = body.client()
    with of_field("result"):
        await work.complete(
            instance_id, body.token, caller, result=body.result, client=client
        )
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
    return _told(await work.heartbeat(instance_id, body.token, caller))


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


async def _completed(
    item: CompletedItem, caller: Caller, work: LongPoll
) -> CompletedAnswer:
    try:
        client = item.client()
        with of_field("result"):
            await work.complete(
                item.instance_id, item.token, caller, result=item.result, client=client
            )
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
