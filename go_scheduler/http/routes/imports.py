"""Imports: many jobs in one request, a line each."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from go_scheduler.http.access.caller import Caller
from go_scheduler.http.access.guard import allowed
from go_scheduler.http.bodies.jobs import ImportAsked
from go_scheduler.http.context import Here
from go_scheduler.http.jobs.importing import Import
from go_scheduler.http.problems import Problem

router = APIRouter(prefix="/v1", tags=["jobs"])

_LINES = "application/x-ndjson"


class _Told(StreamingResponse):
    """An answer that goes out while the body is still being read."""

    media_type = _LINES

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Whoever reads the body notices that nobody is there any more.
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
    caller: Annotated[Caller, allowed("jobs:write")],
    asked: Annotated[ImportAsked, Query()],
    request: Request,
) -> _Told:
    """Submit a job by each line of JSON, and tell by lines how far it has come."""
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

    # It may end before the body does, of which the rest must be nobody's next request.
    headers = {"Cache-Control": "no-store", "Connection": "close"}
    return _Told(told(), headers=headers)


async def _asked_for(parts: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Have the sender told to go on, which a server does until the answer begins."""
    first = asyncio.ensure_future(anext(parts, b""))
    await asyncio.sleep(0)

    async def all_of_them() -> AsyncGenerator[bytes]:
        yield await first
        async for part in parts:
            yield part

    return all_of_them()
