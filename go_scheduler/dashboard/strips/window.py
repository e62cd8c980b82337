"""The part of time that a strip shows, and how it is moved."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST = datetime(1900, 1, 1, tzinfo=UTC)
_LATEST = datetime(9900, 1, 1, tzinfo=UTC)

# How long each is, how far its ticks are from each other, and how they are written.
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
"""What there is, from the shortest to the longest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A place on the axis.

    Attributes:
        at: When it is.
        share: Where it is, from 0 to 1.
        text: What stands there.
    """

    at: datetime
    share: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A part of time.

    Attributes:
        start: When it begins.
        zoom: How long it is, of ``ZOOMS``.
    """

    start: datetime
    zoom: str

    def __post_init__(self) -> None:
        latest = _LATEST - self.length
        object.__setattr__(self, "start", max(_EARLIEST, min(latest, self.start)))

    @classmethod
    def around(cls, now: datetime, zoom: str) -> Window:
        """The one in which the present is near the end."""
        return cls(start=now - _ZOOMS[zoom][0] * 3 / 4, zoom=zoom)

    @property
    def length(self) -> timedelta:
        """How long it is."""
        return _ZOOMS[self.zoom][0]

    @property
    def end(self) -> datetime:
        """When it ends; that belongs to the next."""
        return self.start + self.length

    def share(self, at: datetime) -> float:
        """Where an instant is, from 0 to 1; outside it is at the nearer end."""
        return max(0.0, min(1.0, (at - self.start) / self.length))

    def has(self, at: datetime) -> bool:
        """Whether an instant is in it."""
        return self.start <= at < self.end

    @property
    def earlier(self) -> Window:
        """Half of it before."""
        return Window(start=self.start - self.length / 2, zoom=self.zoom)

    @property
    def later(self) -> Window:
        """Half of it behind."""
        return Window(start=self.start + self.length / 2, zoom=self.zoom)

    @property
    def closer(self) -> Window | None:
        """Less of it, around its middle; None: there is no less."""
        return self._zoomed(-1)

    @property
    def wider(self) -> Window | None:
        """More around it; None: there is no more."""
        return self._zoomed(1)

    def at_zoom(self, zoom: str) -> Window:
        """As long as another, around its middle."""
        middle = self.start + self.length / 2
        return Window(start=middle - _ZOOMS[zoom][0] / 2, zoom=zoom)

    def parts(self, number: int) -> list[tuple[datetime, datetime]]:
        """So many parts of it, each as long as the others."""
        bounds = [self.start + self.length * i / number for i in range(number + 1)]
        return list(itertools.pairwise(bounds))

    def ticks(self) -> list[Tick]:
        """Places on its axis, at round times of UTC."""
        _, step, text = _ZOOMS[self.zoom]
        at = _EPOCH + -(-(self.start - _EPOCH) // step) * step
        found = []
        while at < self.end:
            found.append(Tick(at=at, share=self.share(at), text=at.strftime(text)))
            at += step
        return found

    def _zoomed(self, by: int) -> Window | None:
        place = ZOOMS.index(self.zoom) + by
        return self.at_zoom(ZOOMS[place]) if 0 <= place < len(ZOOMS) else None
