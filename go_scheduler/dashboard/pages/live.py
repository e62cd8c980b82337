"""The streams of events that tell pages of changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import StreamingResponse

from go_scheduler.dashboard.live import Restriction
from go_scheduler.dashboard.request import page
from go_scheduler.dashboard.visibility import check_sees_nodes

if TYPE_CHECKING:
    from starlette.responses import Response

    from go_scheduler.dashboard.request import PageRequest


async def live(visit: PageRequest) -> Response:
    """A stream of events of one kind."""
    kind = visit.request.path_params["kind"]
    if kind == "nodes":
        check_sees_nodes(visit.caller)
    return StreamingResponse(
        visit.here.live.stream(kind, Restriction.of(visit.caller)),
        media_type="text/event-stream",
        # A proxy that gathers what it passes on would keep events back.
        headers={"X-Accel-Buffering": "no"},
    )


ROUTES = [page("/live/{kind}", live)]
