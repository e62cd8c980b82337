"""The overview: counts, backlog, lateness, failures, and what runs on which node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from go_scheduler.client.awaitable import on_thread
from go_scheduler.dashboard.request import page
from go_scheduler.dashboard.visibility import (
    sees_nodes,
    sees_queue,
    sees_queues,
    theirs,
)
from go_scheduler.http.routes.visibility import is_restricted
from go_scheduler.models import (
    Backlog,
    Counted,
    Histogram,
    NodeInfo,
    State,
    TaskInstance,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.responses import Response

    from go_scheduler.client import Client
    from go_scheduler.dashboard.request import PageRequest
    from go_scheduler.http.access.caller import Caller
    from go_scheduler.models import QueueStats

_HOUR = timedelta(hours=1)
_FAILURES = 10
_LOOKED_AT = 200
_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFigures:
    """What nodes have counted of a queue.

    Attributes:
        queue: The name of the queue.
        began: Number of runs that began.
        half: Half of them began no later than this; None: none began.
        most: 99 of a hundred began no later than this; None: none began.
        ended: Number of instances that ended, by outcome. *retried* is the number of
            runs that another run of their instance follows.
    """

    queue: str
    began: int
    half: timedelta | None
    most: timedelta | None
    ended: Mapping[str, int]


def by_queue(stats: Iterable[QueueStats]) -> list[QueueFigures]:
    """The figures of each queue, by its name."""
    late: dict[str, Histogram] = {}
    ended: dict[str, Counter[str]] = {}
    for each in stats:
        late[each.queue] = late.get(each.queue, Histogram()) + each.lateness
        ended.setdefault(each.queue, Counter()).update(each.ended)
    return [
        QueueFigures(
            queue=queue,
            began=found.total,
            half=found.quantile(0.5),
            most=found.quantile(0.99),
            ended=ended[queue],
        )
        for queue, found in sorted(late.items())
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The data of the overview.

    Attributes:
        now: When it was read.
        counts: Number of instances in each state; None: the caller is restricted, and
            these are of everybody.
        backlog: What is due and not claimed, by queue.
        failures: The instances that failed last.
        in_hand: The instances that nodes hold or run.
        in_hand_more: Whether there are more of these.
        by_node: How many of these each node has.
        figures: What nodes have counted in the last hour, by queue.
        nodes: The nodes; None: the caller may not see them.
    """

    now: datetime
    counts: Mapping[State, Counted] | None
    backlog: Sequence[Backlog]
    failures: Sequence[TaskInstance]
    in_hand: Sequence[TaskInstance]
    in_hand_more: bool
    by_node: Mapping[UUID | None, int]
    figures: Sequence[QueueFigures]
    nodes: Sequence[NodeInfo] | None

    @property
    def shown(self) -> Sequence[TaskInstance]:
        """The first of what nodes hold and run."""
        return self.in_hand[:_SHOWN]


def read_overview(client: Client, caller: Caller, now: datetime) -> Overview:
    """Read what a caller may see of it."""
    of = theirs(caller)
    in_hand = client.list_claims(**of, limit=_LOOKED_AT)
    backlog = client.backlog(queues=caller.queues) if sees_queues(caller) else []
    return Overview(
        now=now,
        counts=None if is_restricted(caller) else client.counts_up_to(),
        backlog=backlog,
        failures=client.list_ended("failed", **of, limit=_FAILURES),
        in_hand=in_hand,
        in_hand_more=len(in_hand) == _LOOKED_AT,
        by_node=Counter(each.claimed_by for each in in_hand),
        figures=by_queue(
            each
            for each in client.stats_since(now - _HOUR, now)
            if sees_queue(caller, each.queue)
        ),
        nodes=client.nodes() if sees_nodes(caller) else None,
    )


async def overview(visit: PageRequest) -> Response:
    """The overview."""
    now = visit.now
    found = await on_thread(read_overview, visit.client, visit.caller, now)
    return visit.show("overview.html", found=found)


ROUTES = [page("/", overview)]
