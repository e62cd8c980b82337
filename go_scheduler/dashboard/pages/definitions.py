"""Definitions: a list of those that are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.dashboard import asked
from go_scheduler.dashboard.routing import page
from go_scheduler.dashboard.seen import LISTED, theirs
from go_scheduler.models import DefinitionState

if TYPE_CHECKING:
    from starlette.responses import Response

    from go_scheduler.dashboard.visit import Visit

_TEXTS = ("name", "queue", "owner")
_ORDERS = ("id", "soonest")


async def definitions(visit: Visit) -> Response:
    """A page of the definitions that meet every condition."""
    query = visit.request.query_params
    name, queue, owner = (asked.text(query, each) for each in _TEXTS)
    state = asked.word(query, "state", [each.value for each in DefinitionState])
    order = asked.word(query, "order", _ORDERS)
    page_of = await visit.client.alist_definitions(
        name=name,
        queue=queue,
        owner=owner,
        state=state,
        metadata=asked.json_object(query, "metadata"),
        **theirs(visit.caller),
        soonest_first=order == "soonest",
        after=asked.text(query, "after"),
        limit=LISTED,
    )
    given = {
        "name": name,
        "queue": queue,
        "owner": owner,
        "state": state,
        "order": order,
        "metadata": asked.text(query, "metadata"),
    }
    return visit.show(
        "definitions.html",
        definitions=page_of,
        given=given,
        states=list(DefinitionState),
        now=visit.now,
    )


ROUTES = [page("/definitions", definitions)]
