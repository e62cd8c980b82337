"""One definition on a strip: what is read of it, and what is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain, pairwise
from typing import TYPE_CHECKING

from go_scheduler.dashboard.strips.clock_changes import ClockChange, clock_changes
from go_scheduler.dashboard.strips.marks import (
    Heap,
    Mark,
    heap_of,
    is_in,
    mark_of,
    planned_mark,
)
from go_scheduler.dashboard.strips.window import Window
from go_scheduler.models import TaskDefinition
from go_scheduler.triggers.asking import asked
from go_scheduler.triggers.previews import preview
from go_scheduler.triggers.wall.zones import zone_of

if TYPE_CHECKING:
    from go_scheduler.client import Client
    from go_scheduler.models import TaskInstance
    from go_scheduler.triggers.previews import PreviewedTime

MOST_MARKS = 200
"""Of more of them in a window only the numbers are shown, part by part."""
MOST_HEAPS = 48
"""Parts of a window, for one definition; several share them."""
NEAREST = 0.01
"""Marks of what is planned are so far from each other, or heaps."""
MOST_COUNTED = 10
"""So many are counted in a part."""
_BEFORE = 10
_FEW = 5
_BY_HAND = 100
_MICROSECOND = timedelta(microseconds=1)
_HOUR = timedelta(hours=1)
_BY_ITSELF = ("hour", "10-minutes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """What a strip shows of one definition.

    Attributes:
        definition: Which.
        window: The part of time.
        now: Where the present is, from 0 to 1; None: it is not in it.
        marks: What fires, fired or was to run there, earliest first.
        heaps: Instead of marks, where those would be too many; of what is planned also
            where its marks would overlap.
        changes: When the clocks of its zone are changed.
    """

    definition: TaskDefinition
    window: Window
    now: float | None
    marks: Sequence[Mark]
    heaps: Sequence[Heap]
    changes: Sequence[ClockChange]

    @property
    def highest(self) -> int:
        """The most that there are in a heap; at least one."""
        return max([1, *(each.total for each in self.heaps)])


def read_lane(
    client: Client,
    definition: TaskDefinition,
    window: Window,
    *,
    now: datetime,
    heaps: int = MOST_HEAPS,
) -> Lane:
    """Read what a strip shows of a definition: bounded, however much there is.

    Args:
        client: Reads it.
        definition: Which.
        window: The part of time.
        now: The present.
        heaps: The most parts that the window may be read in.
    """
    fired = client.list_fired(
        definition.id, since=window.start, before=window.end, limit=MOST_MARKS + 1
    )
    [planned] = _planned(definition, [(window.start, window.end)], MOST_MARKS + 1)
    marks: list[Mark] = []
    if len(fired) + len(planned) > MOST_MARKS:
        binned = _heaps(client, definition, window, heaps)
    else:
        others = _others(client, definition, window)
        marks = [mark_of(each, window, now) for each in chain(others, fired)]
        binned = _planned_heaps(planned, window, heaps)
        if not binned:
            marks += [planned_mark(each, window) for each in planned]
        marks.sort(key=lambda each: each.at)
    return Lane(
        definition=definition,
        window=window,
        now=window.share(now) if window.has(now) else None,
        marks=marks,
        heaps=binned,
        changes=clock_changes(zone_of(definition.trigger), window),
    )


def zoom_of(definitions: Sequence[TaskDefinition], now: datetime) -> str:
    """How long a window is in which what fires next is told apart; an hour at most.

    Args:
        definitions: What it shows.
        now: The present.
    """
    gaps = []
    for each in definitions:
        [planned] = _planned(each, [(now, now + _HOUR)], 2)
        gaps += [b.at - a.at for a, b in pairwise(planned)]
    for zoom in _BY_ITSELF:
        length = Window(start=now, zoom=zoom).length
        if all(gap / length >= NEAREST for gap in gaps):
            return zoom
    return "minute"


def _others(
    client: Client, definition: TaskDefinition, window: Window
) -> list[TaskInstance]:
    """What was fired before and still ran, and what has no fire time."""
    before = client.list_fired(
        definition.id,
        since=window.start - 10 * window.length,
        before=window.start,
        newest_first=True,
        limit=_BEFORE,
    )
    by_hand = client.list_unscheduled(definition.id, limit=_BY_HAND)
    return [each for each in chain(before, by_hand) if is_in(each, window)]


def _heaps(
    client: Client, definition: TaskDefinition, window: Window, number: int
) -> list[Heap]:
    found = []
    spans = window.parts(number)
    bounds = [window.start, *(until for _, until in spans)]
    counted = client.count_fired(definition.id, bounds, most=MOST_COUNTED + 1)
    planned = _planned(definition, spans, MOST_COUNTED + 1)
    for (since, until), fired, coming in zip(spans, counted, planned, strict=True):
        found.append(
            heap_of(
                window,
                since,
                until,
                fired=fired,
                planned=len(coming),
                most=MOST_COUNTED,
            )
        )
    return found


def _planned_heaps(
    planned: Sequence[PreviewedTime], window: Window, number: int
) -> list[Heap]:
    """Those of what is planned, if its marks would overlap."""
    times = [each.at for each in planned]
    if all((b - a) / window.length >= NEAREST for a, b in pairwise(times)):
        return []
    found = []
    for since, until in window.parts(number):
        count = sum(since <= each < until for each in times)
        if count:
            heap = heap_of(
                window, since, until, fired={}, planned=count, most=MOST_MARKS
            )
            found.append(heap)
    return found


def _planned(
    definition: TaskDefinition, spans: Sequence[tuple[datetime, datetime]], most: int
) -> list[list[PreviewedTime]]:
    """Fire times within each span that have no instance yet."""
    try:
        return asked(
            definition.trigger,
            lambda: [_planned_within(definition, *each, most) for each in spans],
        )
    except Exception:
        # This process cannot read the trigger, or it is a third party's and raises, or
        # hangs: the page of the definition says so.
        return [[] for _ in spans]


def _planned_within(
    definition: TaskDefinition, since: datetime, until: datetime, most: int
) -> list[PreviewedTime]:
    first = definition.next_fire_time
    if first is None or first >= until:
        return []
    found: list[PreviewedTime] = []
    after, number = max(first, since) - _MICROSECOND, _FEW
    while len(found) < most:
        number = min(number, most - len(found))
        more = preview(definition.trigger, number, after)
        found += [each for each in more if each.at < until]
        if len(more) < number or more[-1].at >= until:
            break
        # Each costs time, and commonly there are few.
        after, number = more[-1].at, number * 5
    return found
