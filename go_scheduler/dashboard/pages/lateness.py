"""How late runs began, as a histogram and by the hour."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

from go_scheduler.client.awaitable import on_thread
from go_scheduler.dashboard import request
from go_scheduler.dashboard.request import page
from go_scheduler.dashboard.visibility import sees_queue
from go_scheduler.dashboard.words import span
from go_scheduler.models.counts import Histogram

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.responses import Response

    from go_scheduler.dashboard.request import PageRequest
    from go_scheduler.models import QueueStats

_MILLISECOND = timedelta(milliseconds=1)
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)
_HEATS = tuple(timedelta(seconds=each) for each in (0.01, 0.1, 1, 10, 60, 600))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFigures:
    """What nodes have counted of a queue.

    Attributes:
        queue: Which.
        began: How many runs began.
        half: How late half of them began at most; None: none began.
        most: How late 99 of a hundred did at most.
        ended: How many instances ended with which outcome, and under ``retried`` how
            many runs ended after which theirs runs again.
    """

    queue: str
    began: int
    half: timedelta | None
    most: timedelta | None
    ended: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bucket of a histogram.

    Attributes:
        text: How late its runs began.
        count: How many there are.
        share: How many that is of the largest bucket, from 0 to 1.
    """

    text: str
    count: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One hour of a heat map.

    Attributes:
        at: When it begins.
        began: How many runs began.
        most: How late 99 of a hundred began at most; None: none began.
    """

    at: datetime
    began: int
    most: timedelta | None

    @property
    def heat(self) -> int | None:
        """How hot it is, from 0 to 6; None: nothing is known of it."""
        if self.most is None:
            return None
        return sum(self.most > each for each in _HEATS)


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


def bars(histogram: Histogram) -> list[Bar]:
    """Its buckets that are not empty."""
    found = list(histogram.buckets())
    largest = max((count for _, count in found), default=1)
    return [
        Bar(
            text="later" if bound is None else f"up to {_bound(bound)}",
            count=count,
            share=count / largest,
        )
        for bound, count in found
    ]


def _bound(bound: timedelta) -> str:
    """It exactly: the first ones lie less than a millisecond apart."""
    if bound < 10 * _MILLISECOND:
        return f"{bound / _MILLISECOND:g} ms"
    return span(bound)


def heat_map(
    stats: Iterable[QueueStats], *, days: int, now: datetime
) -> Sequence[tuple[datetime, Sequence[Cell]]]:
    """Each hour of the last days, by day, the last day first.

    Args:
        stats: What was counted in each hour.
        days: How many, with the present one.
        now: The present.
    """
    by_hour: dict[datetime, Histogram] = {}
    for each in stats:
        by_hour[each.at] = by_hour.get(each.at, Histogram()) + each.lateness
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return [
        (day, [_cell(day + hour * _HOUR, by_hour) for hour in range(24)])
        for day in (today - number * _DAY for number in range(days))
    ]


def _cell(at: datetime, by_hour: Mapping[datetime, Histogram]) -> Cell:
    found = by_hour.get(at, Histogram())
    return Cell(at=at, began=found.total, most=found.quantile(0.99))


DAYS = ("1", "2", "7", "31")
"""For how many days hours are shown."""


async def lateness(visit: PageRequest) -> Response:
    """How late runs began in the last hour, and in each hour of the last days."""
    query = visit.request.query_params
    days = int(request.word(query, "days", DAYS) or "2")
    queue = request.text(query, "queue")
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
    visit: PageRequest, stats: Sequence[QueueStats], queue: str | None
) -> list[QueueStats]:
    return [
        each
        for each in stats
        if queue in (None, each.queue) and sees_queue(visit.caller, each.queue)
    ]


ROUTES = [page("/lateness", lateness)]
