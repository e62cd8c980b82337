"""The overview, the nodes, the search, and the streams that keep pages up to date."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from starlette.responses import StreamingResponse

from go_scheduler.checks import parse_id
from go_scheduler.client.store_access import on_thread
from go_scheduler.dashboard import request
from go_scheduler.dashboard.live import Restriction
from go_scheduler.dashboard.request import (
    LISTED,
    check_sees_nodes,
    page,
    sees_nodes,
    sees_queue,
    sees_queues,
    theirs,
)
from go_scheduler.errors import TaskDefinitionNotFoundError, TaskInstanceNotFoundError
from go_scheduler.http.routes.visibility import (
    is_restricted,
    seen_definition,
    seen_instance,
)
from go_scheduler.models import Histogram, State, TaskDefinition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from starlette.responses import Response

    from go_scheduler.dashboard.request import PageRequest
    from go_scheduler.models import QueueStats, TaskInstance


_HOUR = timedelta(hours=1)
_FAILURES = 10
_LOOKED_AT = 200
_SHOWN = 20
_CLAIMS = 500


def by_queue(
    stats: Iterable[QueueStats],
) -> list[tuple[str, Histogram, Mapping[str, int]]]:
    """The lateness of runs and the number of ends by outcome, for each queue.

    *retried* is the number of runs that another run of their instance follows.
    """
    late: dict[str, Histogram] = {}
    ended: dict[str, Counter[str]] = {}
    for each in stats:
        late[each.queue] = late.get(each.queue, Histogram()) + each.lateness
        ended.setdefault(each.queue, Counter()).update(each.ended)
    return [(queue, found, ended[queue]) for queue, found in sorted(late.items())]


def _read(visit: PageRequest) -> dict[str, Any]:
    """Read the values that the caller may see."""
    client, caller, now = visit.client, visit.caller, visit.now
    of = theirs(caller)
    in_hand = client.list_claims(**of, limit=_LOOKED_AT)
    counted = client.stats_since(now - _HOUR, now)
    return {
        "now": now,
        "counts": None if is_restricted(caller) else client.counts_up_to(),
        "backlog": client.backlog(queues=caller.queues) if sees_queues(caller) else [],
        "failures": client.list_ended("failed", **of, limit=_FAILURES),
        "in_hand": in_hand,
        "in_hand_more": len(in_hand) == _LOOKED_AT,
        "shown": in_hand[:_SHOWN],
        "by_node": Counter(each.claimed_by for each in in_hand),
        "figures": by_queue(e for e in counted if sees_queue(caller, e.queue)),
        "nodes": client.nodes() if sees_nodes(caller) else None,
    }


async def overview(visit: PageRequest) -> Response:
    """The overview."""
    return visit.show("overview.html", **await on_thread(_read, visit))


async def nodes(visit: PageRequest) -> Response:
    """The nodes that the store has seen within the last hour."""
    check_sees_nodes(visit.caller)
    found = await visit.client.anodes()
    claims = await visit.client.alist_claims(limit=_CLAIMS)
    held = [each for each in claims if each.state is State.CLAIMED]
    runs = [each for each in claims if each.state is not State.CLAIMED]
    return visit.show(
        "nodes.html",
        nodes=found,
        held=Counter(each.claimed_by for each in held),
        runs=Counter(each.claimed_by for each in runs),
        is_cut=len(claims) == _CLAIMS,
        now=visit.now,
    )


async def live(visit: PageRequest) -> Response:
    """A stream of events of one kind."""
    kind = visit.request.path_params["kind"]
    if kind == "nodes":
        check_sees_nodes(visit.caller)
    return StreamingResponse(
        visit.here.live.stream(kind, Restriction.of(visit.caller)),
        media_type="text/event-stream",
        # A proxy that buffers would delay the events.
        headers={"X-Accel-Buffering": "no"},
    )


async def search(visit: PageRequest) -> Response:
    """Search by a text. An id leads to the page of its definition or instance."""
    text = request.text(visit.query, "q")
    definitions: Sequence[TaskDefinition] = []
    instances: Sequence[TaskInstance] = []
    if text is not None:
        path = await _of_id(visit, text)
        if path is not None:
            return visit.go(path)
        of = theirs(visit.caller)
        keyed = [TaskDefinition.id_for(text)]
        found = await visit.client.alist_definitions(ids=keyed, **of, limit=1)
        named = await visit.client.asearch_names(text, **of, limit=LISTED)
        definitions = list({each.id: each for each in (*found, *named)}.values())
        instances = await visit.client.asearch_key(text, **of, limit=LISTED)
    return visit.show(
        "search.html",
        text=text,
        definitions=definitions,
        instances=instances,
        is_cut=len(definitions) >= LISTED,
        now=visit.now,
    )


async def _of_id(visit: PageRequest, text: str) -> str | None:
    """The path of the page for an id; None: it is no id, or nothing has it."""
    if (id := parse_id(text)) is None:
        return None
    with suppress(TaskDefinitionNotFoundError):
        definition = await seen_definition(visit.here, visit.caller, id)
        return f"/definitions/{definition.id}"
    with suppress(TaskInstanceNotFoundError):
        instance = await seen_instance(visit.here, visit.caller, id)
        return f"/instances/{instance.id}"
    return None


ROUTES = [
    page("/", overview),
    page("/nodes", nodes, needs=("admin",)),
    page("/live/{kind}", live),
    page("/search", search),
]
