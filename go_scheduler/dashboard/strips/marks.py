"""What a strip shows: a mark for each firing, or heaps where they are too many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from go_scheduler.dashboard.words import late, plain_instant, said, span, took
from go_scheduler.models import State

if TYPE_CHECKING:
    from go_scheduler.dashboard.strips.window import Window
    from go_scheduler.models import TaskInstance
    from go_scheduler.triggers.previews import PreviewedTime

PLANNED = "planned"
"""What a fire time is that has no instance yet; others are what their state says."""
HEIGHT = 44.0
"""How high the picture of a lane is."""
_NARROWEST = 0.003


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One firing.

    Attributes:
        kind: Its state, or ``planned``.
        at: When it fires or fired, or was to run.
        fired: Where that is in the window, from 0 to 1.
        start: Where its bar begins; that is its run, if it has begun.
        width: How wide that is.
        retried: Whether it has run more than once.
        text: What it is, for a person to read.
        late: How late its run began; None: it has not.
        took: How long its run took, or takes; None: it has not begun.
        instance_id: Its instance; None: it has none.
    """

    kind: str
    at: datetime
    fired: float
    start: float
    width: float
    text: str
    retried: bool = False
    late: timedelta | None = None
    took: timedelta | None = None
    instance_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Those of one kind in a heap.

    Attributes:
        kind: Which.
        top: Where they begin, from above.
        height: How high they are.
    """

    kind: str
    top: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Heap:
    """All firings of a part of the window, of which only the numbers are shown.

    Attributes:
        since: When the part begins.
        until: When it ends.
        start: Where it begins, from 0 to 1.
        width: How wide it is.
        counts: How many there are of each kind.
        more: Whether there are more than were counted.
    """

    since: datetime
    until: datetime
    start: float
    width: float
    counts: Mapping[str, int] = field(default_factory=dict)
    more: bool = False

    @property
    def total(self) -> int:
        """How many there are, as far as was counted."""
        return sum(self.counts.values())

    @property
    def said(self) -> str:
        """The numbers, for a person to read."""
        plus = "+" if self.more else ""
        parts = [f"{count:,}{plus} {kind}" for kind, count in self.counts.items()]
        return ", ".join(parts) or "nothing"

    def parts(self, highest: int) -> list[Part]:
        """Its parts on each other, the first at the bottom.

        Args:
            highest: How many the highest heap beside it has.
        """
        found, bottom = [], HEIGHT
        for kind, count in self.counts.items():
            height = HEIGHT * count / highest
            bottom -= height
            found.append(Part(kind=kind, top=bottom, height=height))
        return found

    @property
    def text(self) -> str:
        """What it is, for a person to read."""
        return f"{plain_instant(self.since)} UTC and on: {self.said}"


def mark_of(instance: TaskInstance, window: Window, now: datetime) -> Mark:
    """The mark of an instance."""
    at = instance.fire_time or instance.execute_at
    begun = instance.started_at
    end = instance.completed_at or now
    if begun is None:
        begun = end = at
        if instance.skipped is not None:
            begun, end = instance.skipped.first, instance.skipped.last
    start = window.share(begun)
    return Mark(
        kind=instance.state.value,
        at=at,
        fired=window.share(at),
        start=start,
        width=max(_NARROWEST, window.share(end) - start),
        text=_text(instance, at, now),
        retried=instance.runs > 1,
        late=late(instance),
        took=took(instance, now),
        instance_id=instance.id,
    )


def planned_mark(time: PreviewedTime, window: Window) -> Mark:
    """The mark of a fire time that has no instance yet."""
    share = window.share(time.at)
    effect = "" if time.effect is None else f" ({time.effect})"
    return Mark(
        kind=PLANNED,
        at=time.at,
        fired=share,
        start=share,
        width=_NARROWEST,
        text=f"{plain_instant(time.at)} UTC: planned{effect}",
    )


def heap_of(
    window: Window,
    since: datetime,
    until: datetime,
    *,
    fired: Mapping[State, int],
    planned: int,
    most: int,
) -> Heap:
    """The heap of a part of the window.

    Args:
        window: It.
        since: When the part begins.
        until: When it ends.
        fired: How many were fired in it, up to one more than the most.
        planned: How many are planned, likewise.
        most: So many of either are shown; of more, that there are.
    """
    counts = {each.value: fired[each] for each in State if fired.get(each)}
    if (total := sum(fired.values())) > most:
        largest = max(counts, key=lambda each: counts[each])
        counts[largest] -= total - most
    if planned:
        counts[PLANNED] = min(planned, most)
    start = window.share(since)
    return Heap(
        since=since,
        until=until,
        start=start,
        width=window.share(until) - start,
        counts=counts,
        more=total > most or planned > most,
    )


def is_in(instance: TaskInstance, window: Window) -> bool:
    """Whether anything of an instance is in a window."""
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
