"""The list of instances, the page of each, and what its forms change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.client.arguments import Page
from go_scheduler.dashboard import request
from go_scheduler.dashboard.request import Theirs, change, full_page, page, theirs
from go_scheduler.errors import TaskInstanceStateError
from go_scheduler.http.routes.visibility import seen_instance, seen_why
from go_scheduler.models import Outcome, State

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.responses import Response

    from go_scheduler.client import Client
    from go_scheduler.dashboard.request import PageRequest
    from go_scheduler.models import TaskInstance


async def instance(visit: PageRequest) -> Response:
    """The state of an instance, and its runs that did not complete it."""
    found = await seen_instance(visit.here, visit.caller, visit.id)
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


async def cancel(visit: PageRequest) -> Response:
    """Cancel it, or ask its run to stop."""
    found = await seen_instance(visit.here, visit.caller, visit.id)
    if await visit.client.acancel(found.id) is None:
        ended = await visit.client.aget_instance(found.id)
        raise TaskInstanceStateError(found.id, ended.state.value, "it has ended")
    return visit.go(f"/instances/{found.id}")


async def retry(visit: PageRequest) -> Response:
    """Run a failed instance again as soon as possible."""
    found = await seen_instance(visit.here, visit.caller, visit.id)
    await visit.client.aretry(found.id)
    return visit.go(f"/instances/{found.id}")


_OUTCOMES = {each.value for each in Outcome}
_MOST_LISTED = 200


async def instances(visit: PageRequest) -> Response:
    """A page of the instances in a state."""
    query = visit.query
    states = [each.value for each in State]
    state = request.word(query, "state", states) or State.RUNNING.value
    request.text(query, "after")
    found = await full_page(visit, _reader(visit.client, state, theirs(visit.caller)))
    return visit.show(
        "instances.html",
        instances=found,
        state=state,
        states=states,
        now=visit.now,
        is_cut=state not in _OUTCOMES and len(found) >= _MOST_LISTED,
    )


def _reader(
    client: Client, state: str, of: Theirs
) -> Callable[[str | None, int], Awaitable[Page[TaskInstance]]]:
    async def ended(after: str | None, limit: int) -> Page[TaskInstance]:
        return await client.alist_ended(state, **of, after=after, limit=limit)

    async def waiting(after: str | None, limit: int) -> Page[TaskInstance]:
        return Page(await client.alist_waiting(**of, limit=_MOST_LISTED))

    async def claimed(after: str | None, limit: int) -> Page[TaskInstance]:
        found = await client.alist_claims(**of, limit=_MOST_LISTED)
        return Page(each for each in found if each.state.value == state)

    if state in _OUTCOMES:
        return ended
    return waiting if state == State.PENDING.value else claimed


ROUTES = [
    page("/instances", instances),
    page("/instances/{id:uuid}", instance),
    change("/instances/{id:uuid}/cancel", cancel, needs="runs:write"),
    change("/instances/{id:uuid}/retry", retry, needs="runs:write"),
]
