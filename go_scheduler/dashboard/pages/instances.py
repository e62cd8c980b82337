"""Instances, by what became of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.client.pages import Page
from go_scheduler.dashboard import asked
from go_scheduler.dashboard.routing import page
from go_scheduler.dashboard.seen import Theirs, full_page, theirs
from go_scheduler.models import Outcome, State

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.responses import Response

    from go_scheduler.client import Client
    from go_scheduler.dashboard.visit import Visit
    from go_scheduler.models import TaskInstance

_OUTCOMES = {each.value for each in Outcome}
_MOST = 200


async def instances(visit: Visit) -> Response:
    """A page of the instances in a state."""
    query = visit.request.query_params
    states = [each.value for each in State]
    state = asked.word(query, "state", states) or State.RUNNING.value
    asked.text(query, "after")
    found = await full_page(visit, _reader(visit.client, state, theirs(visit.caller)))
    return visit.show(
        "instances.html",
        instances=found,
        state=state,
        states=states,
        now=visit.now,
        is_cut=state not in _OUTCOMES and len(found) >= _MOST,
    )


def _reader(
    client: Client, state: str, of: Theirs
) -> Callable[[str | None, int], Awaitable[Page[TaskInstance]]]:
    async def ended(after: str | None, limit: int) -> Page[TaskInstance]:
        return await client.alist_ended(state, **of, after=after, limit=limit)

    async def waiting(after: str | None, limit: int) -> Page[TaskInstance]:
        return Page(await client.alist_waiting(**of, limit=_MOST))

    async def claimed(after: str | None, limit: int) -> Page[TaskInstance]:
        found = await client.alist_claims(**of, limit=_MOST)
        return Page(each for each in found if each.state.value == state)

    if state in _OUTCOMES:
        return ended
    return waiting if state == State.PENDING.value else claimed


ROUTES = [page("/instances", instances)]
