"""Routes of login metadata, health, metrics, counts, previews and explanations."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel

from go_scheduler.client.awaitable import on_thread
from go_scheduler.errors import TaskDefinitionNotFoundError
from go_scheduler.http.access.authentication import (
    METADATA,
    Admin,
    JobReader,
    RunReader,
)
from go_scheduler.http.access.bearer import BearerAccess
from go_scheduler.http.access.caller import SCOPES
from go_scheduler.http.bodies.definitions import trigger_of
from go_scheduler.http.bodies.instances import (
    PreviewAnswer,
    PreviewBody,
    WhyAnswer,
    WhyOfQuery,
)
from go_scheduler.http.bodies.system import (
    HealthAnswer,
    NodeAnswer,
    NodesAnswer,
    StatsAnswer,
)
from go_scheduler.http.context import Context, Here
from go_scheduler.http.metrics import OfStore, written
from go_scheduler.http.problems import RETRY_AFTER, Problem
from go_scheduler.http.routes.visibility import (
    check_unrestricted,
    is_restricted,
    seen_definition,
    seen_instance,
    seen_why,
)
from go_scheduler.scheduler import Scheduler

login = APIRouter(tags=["login"])
router = APIRouter(tags=["system"])


class ProtectedResource(BaseModel):
    """The issuer of tokens for this server, and the supported scopes."""

    resource: str
    authorization_servers: list[str]
    scopes_supported: list[str] = sorted(SCOPES)
    bearer_methods_supported: list[str] = ["header"]
    client_id: str | None


@login.get(METADATA)
async def protected_resource(request: Request, here: Here) -> ProtectedResource:
    """The issuer of tokens for this server; this needs no token."""
    access = here.access
    issuer = access.issuer if isinstance(access, BearerAccess) else None
    if issuer is None:
        raise Problem(
            404,
            "no-issuer",
            "Nowhere to sign in",
            "this server has no issuer of tokens: send an API key, or nothing at all",
        )
    return ProtectedResource(
        resource=str(request.base_url).rstrip("/"),
        authorization_servers=[issuer.issuer],
        client_id=issuer.client_id,
    )


@router.get("/healthz")
async def healthz() -> HealthAnswer:
    """Whether the process runs; nothing else is checked."""
    return HealthAnswer()


@router.get("/readyz")
async def readyz(here: Here) -> HealthAnswer:
    """Whether the store answers, and the scheduler of this process is healthy."""
    await here.readiness.check()
    if not _is_well(here):
        raise Problem(
            503,
            "not-ready",
            "The server is not ready",
            "this server's scheduler is stopping, or not well",
            headers=RETRY_AFTER,
        )
    return HealthAnswer()


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(here: Here, caller: Admin) -> str:
    """The metrics for Prometheus; a restricted caller sees its queues and owners."""
    client, restricted = here.client, is_restricted(caller)
    counted = await client.acounts_up_to(queues=caller.queues, owners=caller.owners)
    # A backlog counts all owners of a queue together.
    hides = caller.owners is not None
    backlog = [] if hides else await client.abacklog(queues=caller.queues)
    of_store = OfStore(
        instances=counted,
        backlog=backlog,
        nodes=await client.anodes(),
        counts_nodes=not restricted,
        workers=None if here.work is None or restricted else here.work.waiting_workers,
        now=await on_thread(client._ready().now),
    )
    shown = None if here.metrics is None or restricted else here.metrics.gathered()
    return written(of_store, shown)


@router.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request, caller: JobReader) -> dict[str, Any]:
    """The description of the API, by OpenAPI 3.1."""
    described: dict[str, Any] = request.app.openapi()
    return described


@router.get("/v1/stats")
async def stats(here: Here, caller: RunReader) -> StatsAnswer:
    """How many instances are in each state, and how many nodes there are.

    For a restricted caller, only its instances are counted.
    """
    client = here.client
    counts = await client.acounts_up_to(queues=caller.queues, owners=caller.owners)
    if is_restricted(caller):
        return StatsAnswer.counted(counts, nodes=None, workers=None)
    nodes = await client.anodes()
    return StatsAnswer.counted(
        counts,
        nodes=sum(1 for each in nodes if each.alive),
        workers=None if here.work is None else here.work.waiting_workers,
    )


@router.get("/v1/nodes")
async def nodes(here: Here, caller: Admin) -> NodesAnswer:
    """The nodes that the store has seen within the last hour.

    A caller who is restricted to queues or owners may not see them.
    """
    check_unrestricted(caller)
    found = await here.client.anodes()
    return NodesAnswer(items=[NodeAnswer.of(each) for each in found])


@router.post("/v1/preview")
async def preview(body: PreviewBody, here: Here, caller: JobReader) -> PreviewAnswer:
    """The next fire times of a trigger; nothing is stored."""
    now = here.clock.now()

    def asked() -> PreviewAnswer:
        trigger = trigger_of(body.trigger, now)
        return PreviewAnswer.computed(trigger, body.n, body.after or now)

    return await on_thread(asked)


@router.get("/v1/why")
async def why(
    asked: Annotated[WhyOfQuery, Query()], here: Here, caller: RunReader
) -> WhyAnswer:
    """What happened or will happen at an instant, and the reason."""
    id = asked.definition_id
    if is_restricted(caller):
        try:
            await seen_definition(here, caller, id)
        except TaskDefinitionNotFoundError:
            # It may be an instance.
            await seen_instance(here, caller, id)
    return WhyAnswer.of(await seen_why(here, caller, id, asked.at))


def _is_well(here: Context) -> bool:
    """Whether the scheduler runs and its loops tick; a client has no scheduler."""
    if not isinstance(here.client, Scheduler):
        return True
    health = here.client.health()
    return health.node is not None and all(each.ok for each in health.loops.values())
