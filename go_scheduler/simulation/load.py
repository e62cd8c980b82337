"""How many runs there are at once, and where more than there are workers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What runs at once.

    Attributes:
        most: How many, at most.
        at: When that is first so; None: nothing runs.
        short: In how many minutes there are more than workers.
    """

    most: int
    at: datetime | None
    short: int


def load_of(
    spans: Iterable[tuple[datetime, datetime]], workers: int | None = None
) -> Load:
    """That of runs, each from its start to its end.

    Args:
        spans: One that ends when another begins does not run beside it, unless it has
            no length.
        workers: How many can run at once; None: any number.
    """
    events: list[tuple[datetime, int]] = []
    for start, end in spans:
        events.append((start, 1))
        events.append((max(end, start + timedelta.resolution), -1))
    # At one instant those end first that have run.
    events.sort()
    running = most = 0
    at = since = None
    short: set[datetime] = set()
    for instant, change in events:
        if workers is not None and running > workers and since is not None:
            short.update(_minutes(since, instant))
        running += change
        since = instant
        if running > most:
            most, at = running, instant
    return Load(most=most, at=at, short=len(short))


def minute_of(instant: datetime) -> datetime:
    """The minute that an instant is in."""
    return instant.replace(second=0, microsecond=0)


def _minutes(start: datetime, end: datetime) -> Iterable[datetime]:
    minute = minute_of(start)
    while minute < end:
        yield minute
        minute += MINUTE
