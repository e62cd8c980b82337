"""The timeline: a window of time, and what each definition does in it, and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain, pairwise
from typing import TYPE_CHECKING

from go_scheduler.dashboard.words import late, plain_instant, said, span, took
from go_scheduler.models import State, TaskDefinition, TaskInstance
from go_scheduler.triggers.local_time import zone_changes, zone_of
from go_scheduler.triggers.previews import PreviewedTime, ask, preview

if TYPE_CHECKING:
    from go_scheduler.client import Client


_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST = datetime(1900, 1, 1, tzinfo=UTC)
_LATEST = datetime(9900, 1, 1, tzinfo=UTC)

# The length of each, the distance of its ticks, and the format of their labels.
_ZOOMS = {
    "minute": (_MINUTE, _MINUTE / 6, "%H:%M:%S"),
    "10-minutes": (10 * _MINUTE, 2 * _MINUTE, "%H:%M"),
    "hour": (_HOUR, 10 * _MINUTE, "%H:%M"),
    "6-hours": (6 * _HOUR, _HOUR, "%H:%M"),
    "day": (_DAY, 4 * _HOUR, "%H:%M"),
    "week": (7 * _DAY, _DAY, "%d %b"),
    "month": (31 * _DAY, 7 * _DAY, "%d %b"),
}
ZOOMS = tuple(_ZOOMS)
"""The lengths of windows, from the shortest to the longest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A window of time.

    Attributes:
        start: When it begins.
        zoom: Its length, one of ``ZOOMS``.
    """

    start: datetime
    zoom: str

    def __post_init__(self) -> None:
        latest = _LATEST - self.length
        object.__setattr__(self, "start", max(_EARLIEST, min(latest, self.start)))

    @classmethod
    def around(cls, now: datetime, zoom: str) -> Window:
        """The window in which the present is near the end."""
        return cls(start=now - _ZOOMS[zoom][0] * 3 / 4, zoom=zoom)

    @property
    def length(self) -> timedelta:
        """How long it is."""
        return _ZOOMS[self.zoom][0]

    @property
    def end(self) -> datetime:
        """When it ends, exclusive."""
        return self.start + self.length

    def share(self, at: datetime) -> float:
        """The position of a time, from 0 to 1; of a time outside, the nearer end."""
        return max(0.0, min(1.0, (at - self.start) / self.length))

    def has(self, at: datetime) -> bool:
        """Whether a time is in it."""
        return self.start <= at < self.end

    @property
    def earlier(self) -> Window:
        """The window half a length before."""
        return Window(start=self.start - self.length / 2, zoom=self.zoom)

    @property
    def later(self) -> Window:
        """The window half a length after."""
        return Window(start=self.start + self.length / 2, zoom=self.zoom)

    @property
    def closer(self) -> Window | None:
        """The next shorter one around the same middle; None: there is none."""
        return self._zoomed(-1)

    @property
    def wider(self) -> Window | None:
        """The next longer one around the same middle; None: there is none."""
        return self._zoomed(1)

    def at_zoom(self, zoom: str) -> Window:
        """The one of another length around the same middle."""
        middle = self.start + self.length / 2
        return Window(start=middle - _ZOOMS[zoom][0] / 2, zoom=zoom)

    def bounds(self, number: int) -> list[datetime]:
        """The bounds of so many parts of equal length, both ends included."""
        return [self.start + self.length * i / number for i in range(number + 1)]

    def ticks(self) -> list[tuple[datetime, str]]:
        """The ticks of its axis, at round times of UTC, with their labels."""
        _, step, text = _ZOOMS[self.zoom]
        at = _EPOCH + -(-(self.start - _EPOCH) // step) * step
        found = []
        while at < self.end:
            found.append((at, at.strftime(text)))
            at += step
        return found

    def _zoomed(self, by: int) -> Window | None:
        place = ZOOMS.index(self.zoom) + by
        return self.at_zoom(ZOOMS[place]) if 0 <= place < len(ZOOMS) else None


PLANNED = "planned"
"""The kind of a fire time without an instance; with one it is the state of that."""
HEIGHT = 44.0
"""The height of the picture of a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A fire time in the picture.

    Attributes:
        kind: Its state, or ``planned``.
        at: Its fire time, or when it was to run.
        begun: When its run began, or what was skipped; else as ``at``.
        ended: When that ended, or the present.
        text: Its description.
        instance: Its instance; None: it has none yet.
    """

    kind: str
    at: datetime
    begun: datetime
    ended: datetime
    text: str
    instance: TaskInstance | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Heap:
    """The number of firings in a part of the window, instead of their marks.

    Attributes:
        since: When the part begins.
        until: When it ends.
        counts: Number of firings of each kind.
        more: Whether there are more than were counted.
    """

    since: datetime
    until: datetime
    counts: Mapping[str, int] = field(default_factory=dict)
    more: bool = False

    @property
    def total(self) -> int:
        """Number of firings, as far as was counted."""
        return sum(self.counts.values())

    @property
    def said(self) -> str:
        """The numbers as text."""
        plus = "+" if self.more else ""
        parts = [f"{count:,}{plus} {kind}" for kind, count in self.counts.items()]
        return ", ".join(parts) or "nothing"

    def bars(self, highest: int) -> list[tuple[str, float, float]]:
        """Kind, distance from above and height of each kind, the first at the bottom.

        Args:
            highest: The total of the highest heap beside it.
        """
        found, bottom = [], HEIGHT
        for kind, count in self.counts.items():
            height = HEIGHT * count / highest
            bottom -= height
            found.append((kind, bottom, height))
        return found

    @property
    def text(self) -> str:
        """Its description."""
        return f"{plain_instant(self.since)} UTC and on: {self.said}"


def mark_of(instance: TaskInstance, now: datetime) -> Mark:
    """The mark of an instance."""
    at = instance.fire_time or instance.execute_at
    begun, ended = instance.started_at, instance.completed_at or now
    if begun is None:
        begun = ended = at
        if instance.skipped is not None:
            begun, ended = instance.skipped.first, instance.skipped.last
    return Mark(
        kind=instance.state.value,
        at=at,
        begun=begun,
        ended=ended,
        text=_text(instance, at, now),
        instance=instance,
    )


def planned_mark(time: PreviewedTime) -> Mark:
    """The mark of a fire time that has no instance yet."""
    effect = "" if time.effect is None else f" ({time.effect})"
    text = f"{plain_instant(time.at)} UTC: planned{effect}"
    return Mark(kind=PLANNED, at=time.at, begun=time.at, ended=time.at, text=text)


def heap_of(
    span: tuple[datetime, datetime],
    *,
    fired: Mapping[State, int],
    planned: int,
    most: int,
) -> Heap:
    """The heap of a part of the window.

    Args:
        span: When the part begins, and when it ends.
        fired: Number of instances by state, up to one more than ``most``.
        planned: Number of planned fire times, likewise.
        most: The largest number that is shown.
    """
    counts = {each.value: fired[each] for each in State if fired.get(each)}
    if (total := sum(fired.values())) > most:
        largest = max(counts, key=lambda each: counts[each])
        counts[largest] -= total - most
    if planned:
        counts[PLANNED] = min(planned, most)
    return Heap(
        since=span[0],
        until=span[1],
        counts=counts,
        more=total > most or planned > most,
    )


def is_in(instance: TaskInstance, window: Window) -> bool:
    """Whether an instance is in a window, at least in part."""
    at = instance.fire_time or instance.execute_at
    last = at if instance.skipped is None else instance.skipped.last
    begun = instance.started_at
    if begun is not None and begun < window.end:
        end = instance.completed_at
        if end is None or end >= window.start:
            return True
    return at < window.end and last >= window.start


def _text(instance: TaskInstance, at: datetime, now: datetime) -> str:
    parts = [f"{plain_instant(at)} UTC: {instance.state.value}"]
    if instance.skipped is not None:
        parts.append(f"{instance.skipped.count:,}, {instance.skipped.reason}")
    if (delay := late(instance)) is not None:
        parts += [f"{span(delay)} late", f"took {span(took(instance, now))}"]
    if instance.runs > 1:
        parts.append(f"{instance.runs:,} runs")
    if instance.fire_time is None and instance.skipped is None:
        parts.append("by hand")
    if instance.error is not None and instance.state is State.FAILED:
        parts.append(said(instance.error))
    return ", ".join(parts)


MOST_MARKS = 200
"""With more marks a window shows counts of its parts instead."""
MOST_HEAPS = 48
"""The most parts of a window; several definitions share them."""
NEAREST = 0.01
"""The least distance of planned marks; nearer ones are counted instead."""
MOST_COUNTED = 10
"""The most that is counted in a part."""
_BEFORE = 10
_FEW = 5
_BY_HAND = 100
_MICROSECOND = timedelta(microseconds=1)
_BY_ITSELF = ("hour", "10-minutes")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineRow:
    """The timeline of one definition.

    Attributes:
        definition: The definition.
        window: The window.
        now: The present.
        marks: The firings, earliest first.
        heaps: In place of marks that are too many, or of planned marks that overlap.
        changes: The changes of the clocks of its zone, each with its description.
    """

    definition: TaskDefinition
    window: Window
    now: datetime
    marks: Sequence[Mark]
    heaps: Sequence[Heap]
    changes: Sequence[tuple[datetime, str]]

    @property
    def highest(self) -> int:
        """The total of the highest heap; at least one."""
        return max([1, *(each.total for each in self.heaps)])


def read_row(
    client: Client,
    definition: TaskDefinition,
    window: Window,
    *,
    now: datetime,
    heaps: int = MOST_HEAPS,
    queues: Set[str] | None = None,
) -> TimelineRow:
    """Read the timeline of a definition. The cost is bounded.

    Args:
        client: Reads it.
        definition: The definition.
        window: The window.
        now: The present.
        heaps: The most heaps.
        queues: Instances made by hand are shown if they are in these; None: in any.
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
        seen = (e for e in others if queues is None or e.definition.queue in queues)
        marks = [mark_of(each, now) for each in chain(seen, fired)]
        binned = _planned_heaps(planned, window, heaps)
        if not binned:
            marks += map(planned_mark, planned)
        marks.sort(key=lambda each: each.at)
    zone = zone_of(definition.trigger)
    return TimelineRow(
        definition=definition,
        window=window,
        now=now,
        marks=marks,
        heaps=binned,
        changes=[] if zone is None else zone_changes(zone, window.start, window.end),
    )


def zoom_of(definitions: Sequence[TaskDefinition], now: datetime) -> str:
    """The longest window, up to an hour, that keeps the next fire times apart.

    Args:
        definitions: The definitions.
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
    """Instances that ran into the window, and those without a fire time."""
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
    bounds = window.bounds(number)
    spans = list(pairwise(bounds))
    fired = client.count_fired(definition.id, bounds, most=MOST_COUNTED + 1)
    planned = _planned(definition, spans, MOST_COUNTED + 1)
    return [
        heap_of(span, fired=made, planned=len(coming), most=MOST_COUNTED)
        for span, made, coming in zip(spans, fired, planned, strict=True)
    ]


def _planned_heaps(
    planned: Sequence[PreviewedTime], window: Window, number: int
) -> list[Heap]:
    """Heaps of the planned fire times, if their marks overlap."""
    times = [each.at for each in planned]
    if all((b - a) / window.length >= NEAREST for a, b in pairwise(times)):
        return []
    spans = list(pairwise(window.bounds(number)))
    counts = [sum(since <= each < until for each in times) for since, until in spans]
    return [
        heap_of(span, fired={}, planned=count, most=MOST_MARKS)
        for span, count in zip(spans, counts, strict=True)
        if count
    ]


def _planned(
    definition: TaskDefinition, spans: Sequence[tuple[datetime, datetime]], most: int
) -> list[list[PreviewedTime]]:
    """Fire times within each span that have no instance yet."""
    try:
        return ask(
            definition.trigger,
            lambda: [_planned_within(definition, *each, most) for each in spans],
        )
    except Exception:
        # This process cannot read the trigger, or the trigger of a user raises or
        # hangs. The page of the definition says so.
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
        # Each fire time costs time, and there are few as a rule.
        after, number = more[-1].at, number * 5
    return found
