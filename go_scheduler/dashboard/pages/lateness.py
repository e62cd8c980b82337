"""Lateness: how late runs began, as a histogram and by the hour."""

from __future__ import annotations

from datetime import timedelta
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

from go_scheduler.client.awaitable import on_thread
from go_scheduler.dashboard import asked
from go_scheduler.dashboard.lateness import bars, by_queue, heat_map
from go_scheduler.dashboard.routing import page
from go_scheduler.dashboard.seen import sees_queue
from go_scheduler.models.histogram import Histogram

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.responses import Response

    from go_scheduler.dashboard.visit import Visit
    from go_scheduler.models import QueueStats

_HOUR = timedelta(hours=1)
DAYS = ("1", "2", "7", "31")
"""For how many days hours are shown."""


async def lateness(visit: Visit) -> Response:
    """How late runs began in the last hour, and in each hour of the last days."""
    query = visit.request.query_params
    days = int(asked.word(query, "days", DAYS) or "2")
    queue = asked.text(query, "queue")
    now = visit.now

    def read() -> tuple[list[QueueStats], list[QueueStats]]:
        first = now.replace(hour=0, minute=0, second=0, microsecond=0)
        first -= timedelta(days=days - 1)
        minutes = visit.client.stats_since(now - _HOUR, now)
        hours = visit.client.stats_since(first, now, every=_HOUR)
        return _seen(visit, minutes, queue), _seen(visit, hours, queue)

    minutes, hours = await on_thread(read)
    last_hour = reduce(add, (each.lateness for each in minutes), Histogram())
    return visit.show(
        "lateness.html",
        now=now,
        days=days,
        all_days=DAYS,
        queue=queue,
        figures=by_queue(minutes),
        bars=bars(last_hour),
        heat=heat_map(hours, days=days, now=now),
    )


def _seen(
    visit: Visit, stats: Sequence[QueueStats], queue: str | None
) -> list[QueueStats]:
    return [
        each
        for each in stats
        if queue in (None, each.queue) and sees_queue(visit.caller, each.queue)
    ]


ROUTES = [page("/lateness", lateness)]
