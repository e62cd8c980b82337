"""Instances: read, cancel and retry them."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query

from go_scheduler.client.awaitable import on_thread
from go_scheduler.errors import TaskInstanceStateError
from go_scheduler.http.access.authentication import RunReader, RunWriter
from go_scheduler.http.bodies.body import PageOf, of_field
from go_scheduler.http.bodies.instances import (
    CancelAnswer,
    InstanceAnswer,
    InstancesQuery,
    RunAnswer,
    RunsAnswer,
)
from go_scheduler.http.context import Here
from go_scheduler.http.routes.visibility import is_restricted, seen_instance

router = APIRouter(prefix="/v1/instances", tags=["instances"])


@router.get("")
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


@router.get("/{id}")
async def get_instance(id: UUID, here: Here, caller: RunReader) -> InstanceAnswer:
    """Read an instance."""
    return InstanceAnswer.of(await seen_instance(here, caller, id))


@router.get("/{id}/runs")
async def list_runs(id: UUID, here: Here, caller: RunReader) -> RunsAnswer:
    """The failed runs of an instance, at most the last twenty."""
    await seen_instance(here, caller, id)
    runs = await here.client.alist_runs(id)
    return RunsAnswer(items=[RunAnswer.of(each) for each in runs])


@router.post("/{id}/cancel")
async def cancel(id: UUID, here: Here, caller: RunWriter) -> CancelAnswer:
    """Cancel an instance that has not started, or ask its run to stop."""
    if is_restricted(caller):
        await seen_instance(here, caller, id)
    cancelled = await here.client.acancel(id)
    if cancelled is None:
        instance = await here.client.aget_instance(id)
        raise TaskInstanceStateError(id, instance.state.value, "it has ended")
    return CancelAnswer(cancelled=cancelled)


@router.post("/{id}/retry")
async def retry(id: UUID, here: Here, caller: RunWriter) -> InstanceAnswer:
    """Run a failed instance again, as soon as possible."""
    if is_restricted(caller):
        await seen_instance(here, caller, id)
    return InstanceAnswer.of(await here.client.aretry(id))
