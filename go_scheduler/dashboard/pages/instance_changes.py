"""What is changed from the page of an instance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.dashboard.routing import change
from go_scheduler.errors import TaskInstanceStateError
from go_scheduler.http.routes.seen import seen_instance

if TYPE_CHECKING:
    from uuid import UUID

    from starlette.responses import Response

    from go_scheduler.dashboard.visit import Visit


async def cancel(visit: Visit) -> Response:
    """Cancel it, or ask its run to stop."""
    id = await _id(visit)
    if await visit.client.acancel(id) is None:
        ended = await visit.client.aget_instance(id)
        raise TaskInstanceStateError(id, ended.state.value, "it has ended")
    return visit.go(f"/instances/{id}")


async def retry(visit: Visit) -> Response:
    """Run it again that has failed, as soon as possible."""
    id = await _id(visit)
    await visit.client.aretry(id)
    return visit.go(f"/instances/{id}")


async def _id(visit: Visit) -> UUID:
    id: UUID = visit.request.path_params["id"]
    await seen_instance(visit.here, visit.caller, id)
    return id


ROUTES = [
    change("/instances/{id:uuid}/cancel", cancel, needs="runs:write"),
    change("/instances/{id:uuid}/retry", retry, needs="runs:write"),
]
