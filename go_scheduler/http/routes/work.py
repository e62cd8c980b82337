"""Work for workers elsewhere: they wait for it, keep it and say what became of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request, Response

from go_scheduler.checks import check_at_least, check_positive
from go_scheduler.clock import ZERO
from go_scheduler.errors import GoSchedulerError
from go_scheduler.http.access.authentication import allowed
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
from go_scheduler.http.work.crews import Crews
from go_scheduler.models import Extension

if TYPE_CHECKING:
    from go_scheduler.http.context import Context

# Tried in the order in which they stand: what is asked most stands first.
router = APIRouter(prefix="/v1/work", tags=["work"])

Worker = Annotated[Caller, allowed("workers")]
_NOT_KEPT = {"Cache-Control": "no-store"}
_ANSWERS: dict[int | str, dict[str, Any]] = {
    204: {"description": "There was nothing to do in that time."}
}


async def _crews(request: Request) -> Crews:
    # Not by what it depends on in turn: that would be solved anew each time.
    context: Context = request.app.state.context
    if context.work is None:
        raise Problem(
            404,
            "no-work",
            "No work here",
            "this server hands out no work: ask one that does",
        )
    return context.work


Handing = Annotated[Crews, Depends(_crews)]


@router.get("", response_model=WorkAnswer, responses=_ANSWERS)
async def take(
    request: Request,
    asked: Annotated[WorkQuery, Query()],
    caller: Worker,
    crews: Handing,
) -> Response:
    """Wait for work, and be handed one instance or several.

    They are the worker's until their lease is over: it keeps them by a heartbeat each
    third of that, and says of each what became of it.
    """
    gone = asyncio.ensure_future(_gone(request))
    try:
        with of_field("", ["queues", "worker"], otherwise="queues"):
            found = await crews.take(
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
    instance_id: UUID, body: CompleteBody, caller: Worker, crews: Handing
) -> RecordedAnswer:
    """Say that a run has succeeded; it may be said again, and late.

    The first success of an instance counts, of whichever attempt.
    """
    client = body.client()
    with of_field("result"):
        await crews.complete(
            instance_id, body.token, caller, result=body.result, client=client
        )
    return RecordedAnswer()


@router.post("/complete")
async def complete_many(
    body: CompletedBody, caller: Worker, crews: Handing
) -> CompletedAnswers:
    """Say that several runs have succeeded, each as by itself."""
    told = (_completed(each, caller, crews) for each in body.completed)
    return CompletedAnswers(answers=await asyncio.gather(*told))


@router.post("/{instance_id}/error")
async def error(
    instance_id: UUID, body: ErrorBody, caller: Worker, crews: Handing
) -> RecordedAnswer:
    """Say that a run has failed: its policy says what follows."""
    if body.retry_after is not None:
        with of_field("retry_after"):
            check_at_least("retry_after", body.retry_after, ZERO)
        if body.fail:
            raise invalid("retry_after", "what has failed for good is not tried again")
    await crews.error(
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
    instance_id: UUID, body: HeartbeatBody, caller: Worker, crews: Handing
) -> GoOnAnswer:
    """Keep a run for another lease, and hear whether it is to go on."""
    return _told(await crews.heartbeat(instance_id, body.token, caller))


@router.post("/{instance_id}/extend")
async def extend(
    instance_id: UUID, body: ExtendBody, caller: Worker, crews: Handing
) -> GoOnAnswer:
    """Keep a run for so long, and hear whether it is to go on."""
    with of_field("seconds"):
        check_positive("seconds", body.seconds)
    return _told(await crews.extend(instance_id, body.token, caller, by=body.seconds))


@router.post("/{instance_id}/release")
async def release(
    instance_id: UUID, body: ReleaseBody, caller: Worker, crews: Handing
) -> RecordedAnswer:
    """Give back what has not begun: it counts as no run, and somebody else gets it."""
    with of_field("delay"):
        check_at_least("delay", body.delay, ZERO)
    await crews.release(
        instance_id, body.token, caller, delay=body.delay, reason=body.reason
    )
    return RecordedAnswer()


async def _completed(
    item: CompletedItem, caller: Caller, crews: Crews
) -> CompletedAnswer:
    try:
        client = item.client()
        with of_field("result"):
            await crews.complete(
                item.instance_id, item.token, caller, result=item.result, client=client
            )
    except Problem as problem:
        return CompletedAnswer(problem=problem.body)
    except GoSchedulerError as error:
        return CompletedAnswer(problem=problem_of(error).body)
    return CompletedAnswer(problem=None)


async def _gone(request: Request) -> None:
    """Wait until whoever asks is not there any more."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _told(answer: Extension) -> GoOnAnswer:
    return GoOnAnswer(answer="go_on" if answer is Extension.GO_ON else "stop")
