"""The overview: what there is at the moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.dashboard.routing import page

if TYPE_CHECKING:
    from starlette.responses import Response

    from go_scheduler.dashboard.visit import Visit


async def overview(visit: Visit) -> Response:
    """How many instances are in each state."""
    return visit.show("overview.html", counts=await visit.client.acounts())


ROUTES = [page("/", overview)]
