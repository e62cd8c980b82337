"""Execution times of many jobs (pure): staggered, with a jitter."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b

from go_scheduler.checks import check_at_least
from go_scheduler.clock import ZERO

_MICROSECOND = timedelta(microseconds=1)
_GOLDEN = 0x9E3779B97F4A7C15
_WHOLE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDefaults:
    """The defaults of jobs.

    Attributes:
        jitter: The longest random delay of each job; None: no delay.
        interval: The time between two jobs of an import; None: all run as soon as
            possible.

    Raises:
        ConfigurationError: A value is no duration, or negative.
    """

    jitter: timedelta | None = None
    interval: timedelta | None = None

    def __post_init__(self) -> None:
        for name in ("jitter", "interval"):
            if (value := getattr(self, name)) is not None:
                check_at_least(name, value, ZERO)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Staggers jobs without a time of their own, each by its number.

    Attributes:
        start: The time of the first job; None: as soon as possible.
        window: The time over which jobs are staggered evenly.
        interval: The time between two jobs, instead of a window.
        jitter: The longest random delay of each job.
    """

    start: datetime | None = None
    window: timedelta | None = None
    interval: timedelta | None = None
    jitter: timedelta | None = None

    def offset(self, number: int) -> timedelta:
        """The offset of a job from the start, without a jitter.

        Within a window any number of jobs is spread evenly. Each job falls into one of
        the widest gaps between the jobs before it, by the golden ratio. So the count of
        jobs need not be known.

        Args:
            number: The number of the job, from 1.
        """
        if self.window is not None:
            part = number * _GOLDEN % (1 << _WHOLE)
            return (self.window // _MICROSECOND * part >> _WHOLE) * _MICROSECOND
        return ZERO if self.interval is None else (number - 1) * self.interval


def drawn(key: str, most: timedelta | None) -> timedelta:
    """A delay from zero up to a jitter; the same key has the same delay."""
    if most is None:
        return ZERO
    number = int.from_bytes(blake2b(key.encode(), digest_size=8).digest())
    return number % (most // _MICROSECOND + 1) * _MICROSECOND
