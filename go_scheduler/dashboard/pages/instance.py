"""An instance: where it stands, which runs it had, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.dashboard.routing import page
from go_scheduler.http.routes.seen import seen_instance, seen_why
from go_scheduler.models import Outcome

if TYPE_CHECKING:
    from starlette.responses import Response

    from go_scheduler.dashboard.visit import Visit


async def instance(visit: Visit) -> Response:
    """Where an instance stands, with the runs that did not end it well."""
    id = visit.request.path_params["id"]
    found = await seen_instance(visit.here, visit.caller, id)
    runs = await visit.client.alist_runs(found.id)
    why = await seen_why(visit.here, visit.caller, found.id, None)
    return visit.show(
        "instance.html",
        instance=found,
        runs=runs,
        why=why,
        now=visit.now,
        can_cancel=found.outcome is None and not found.cancel_requested,
        can_retry=found.outcome is Outcome.FAILED,
    )


ROUTES = [page("/instances/{id:uuid}", instance)]
