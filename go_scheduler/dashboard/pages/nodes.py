"""Nodes: what each serves, holds and runs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from go_scheduler.dashboard.request import page
from go_scheduler.dashboard.visibility import check_sees_nodes
from go_scheduler.models import State

if TYPE_CHECKING:
    from starlette.responses import Response

    from go_scheduler.dashboard.request import PageRequest

_CLAIMS = 500


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


ROUTES = [page("/nodes", nodes, needs=("admin",))]
