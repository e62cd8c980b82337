"""The routes of jobs, one or an import of many, and of their instances."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from go_scheduler.client.store_access import on_thread
from go_scheduler.errors import TaskInstanceStateError
from go_scheduler.http.access.authentication import JobWriter, RunReader, RunWriter
from go_scheduler.http.access.caller import is_restricted, seen_instance
from go_scheduler.http.bodies import (
    CancelAnswer,
    InstanceAnswer,
    InstancesQuery,
    Name,
    PageOf,
    RunAnswer,
    RunsAnswer,
    of_field,
)
from go_scheduler.http.context import Here
from go_scheduler.http.jobs import Import, ImportQuery, JobBody, SubmittedAnswer, write
from go_scheduler.http.paths import set_location
from go_scheduler.http.problems import Problem, invalid
from go_scheduler.http.staggering import Spread

router = APIRouter(prefix="/v1", tags=["jobs"])

_READ_AT = "a job that was submitted is read at /v1/instances/{instance_id}"


@router.post(
    "/jobs",
    status_code=201,
    responses={
        200: {
            "model": SubmittedAnswer,
            "description": "A job with this key exists already.",
        }
    },
)
async def submit(
    here: Here,
    caller: JobWriter,
    body: JobBody,
    request: Request,
    response: Response,
    idempotency_key: Annotated[
        Name | None, Header(description="The `key`, if the body has none.")
    ] = None,
) -> SubmittedAnswer:
    """Submit a job; jobs with the same key are made once."""
    if body.key is not None and idempotency_key not in (None, body.key):
        raise invalid("key", "it is another one than the header Idempotency-Key has")
    known = await here.job_types.find(body.type)
    job = known.plan(
        body,
        caller,
        key=idempotency_key if body.key is None else body.key,
        spread=Spread(jitter=here.jobs.jitter),
    )
    found = (await write(here, caller, {body.type: [job]}))[job.id]
    if isinstance(found, Problem):
        raise found
    set_location(request, response, f"/v1/instances/{found.id}")
    response.status_code = 201 if found.id == job.id else 200
    return SubmittedAnswer(
        instance_id=found.id,
        definition_id=found.definition.id,
        state=found.state,
    )


@router.get("/jobs", include_in_schema=False)
async def list_jobs() -> None:
    """Point to the path where jobs are listed.

    Raises:
        Problem: 405.
    """
    detail = f"this path takes POST alone; {_READ_AT}"
    raise Problem(
        405, "method", "Method Not Allowed", detail, headers={"Allow": "POST"}
    )


@router.api_route(
    "/jobs/{id}", methods=["DELETE", "GET", "PATCH", "PUT"], include_in_schema=False
)
async def get_job() -> None:
    """Point to the path where a job is read.

    Raises:
        Problem: 404.
    """
    detail = f"there is nothing under this path; {_READ_AT}"
    raise Problem(404, "no-path", "Not Found", detail)


_LINES = "application/x-ndjson"


class _Told(StreamingResponse):
    """An answer that is sent while the body is still being read."""

    media_type = _LINES

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The reader of the body notices a disconnect.
        await self.stream_response(send)


@router.post(
    "/jobs/import",
    response_class=_Told,
    responses={200: {"content": {_LINES: {"schema": {"type": "string"}}}}},
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {_LINES: {"schema": {"type": "string"}}},
        }
    },
)
async def import_jobs(
    here: Here,
    caller: JobWriter,
    asked: Annotated[ImportQuery, Query()],
    request: Request,
) -> _Told:
    """Submit a job for each line of JSON; lines of the answer show the progress."""
    asked.check()
    if request.headers.get("content-encoding", "identity") != "identity":
        raise Problem(
            415,
            "media-type",
            "Unsupported Media Type",
            "the lines must not be compressed: leave out Content-Encoding",
        )
    each = Import(here, caller, asked)
    parts = request.stream()
    if "expect" in request.headers:
        parts = await _asked_for(parts)

    async def told() -> AsyncIterator[bytes]:
        async with aclosing(each.events(parts)) as events:
            async for event in events:
                yield json.dumps(event, ensure_ascii=True).encode() + b"\n"

    # It may end before the body does; the rest must not be read as a request.
    headers = {"Cache-Control": "no-store", "Connection": "close"}
    return _Told(told(), headers=headers)


async def _asked_for(parts: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Begin to read, so that the server sends 100 Continue before the answer."""
    first = asyncio.ensure_future(anext(parts, b""))
    await asyncio.sleep(0)

    async def all_of_them() -> AsyncGenerator[bytes]:
        yield await first
        async for part in parts:
            yield part

    return all_of_them()


instances = APIRouter(prefix="/v1/instances", tags=["instances"])


@instances.get("")
async def list_instances(
    asked: Annotated[InstancesQuery, Query()], here: Here, caller: RunReader
) -> PageOf[InstanceAnswer]:
    """List instances by the time when they are to run, a page at a time."""
    with of_field("", tuple(InstancesQuery.model_fields)):
        page = await here.client.alist_instances(
            **dict(asked), queues=caller.queues, owners=caller.owners
        )
    answers = await on_thread(lambda: [InstanceAnswer.of(each) for each in page])
    return PageOf(items=answers, next=page.next)


@instances.get("/{id}")
async def get_instance(id: UUID, here: Here, caller: RunReader) -> InstanceAnswer:
    """Read an instance."""
    return InstanceAnswer.of(await seen_instance(here, caller, id))


@instances.get("/{id}/runs")
async def list_runs(id: UUID, here: Here, caller: RunReader) -> RunsAnswer:
    """The failed runs of an instance, at most the last twenty."""
    await seen_instance(here, caller, id)
    runs = await here.client.alist_runs(id)
    return RunsAnswer(items=[RunAnswer.of(each) for each in runs])


@instances.post("/{id}/cancel")
async def cancel(id: UUID, here: Here, caller: RunWriter) -> CancelAnswer:
    """Cancel an instance that has not started, or ask its run to stop."""
    if is_restricted(caller):
        await seen_instance(here, caller, id)
    cancelled = await here.client.acancel(id)
    if cancelled is None:
        instance = await here.client.aget_instance(id)
        raise TaskInstanceStateError(id, instance.state.value, "it has ended")
    return CancelAnswer(cancelled=cancelled)


@instances.post("/{id}/retry")
async def retry(id: UUID, here: Here, caller: RunWriter) -> InstanceAnswer:
    """Run a failed instance again, as soon as possible."""
    if is_restricted(caller):
        await seen_instance(here, caller, id)
    return InstanceAnswer.of(await here.client.aretry(id))
