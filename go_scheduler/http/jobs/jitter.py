"""When each of many jobs is to run (pure): staggered, and moved by a jitter."""

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
    """What holds for jobs that do not say it themselves.

    Attributes:
        jitter: How much later each runs, at most; None: not at all.
        interval: How long after the one before each of an import is to run; None: all
            as soon as possible.

    Raises:
        ConfigurationError: One is no duration, or negative.
    """

    jitter: timedelta | None = None
    interval: timedelta | None = None

    def __post_init__(self) -> None:
        for name in ("jitter", "interval"):
            if (value := getattr(self, name)) is not None:
                check_at_least(name, value, ZERO)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """When those run that do not say when: each by its number, whatever their count.

    Attributes:
        start: From when on; None: as soon as possible.
        window: Over how long they are staggered.
        interval: How long after the one before each is to run, instead of a window.
        jitter: How much later each runs, at most.
    """

    start: datetime | None = None
    window: timedelta | None = None
    interval: timedelta | None = None
    jitter: timedelta | None = None

    def offset(self, number: int) -> timedelta:
        """How long after the start one is to run, without a jitter.

        Within a window those up to any number are spread evenly: each falls into one of
        the widest gaps that those before it have left, by the golden ratio. So neither
        has the count to be known, nor does it matter where a batch ends.

        Args:
            number: The first is 1.
        """
        if self.window is not None:
            part = number * _GOLDEN % (1 << _WHOLE)
            return (self.window // _MICROSECOND * part >> _WHOLE) * _MICROSECOND
        return ZERO if self.interval is None else (number - 1) * self.interval


def drawn(key: str, most: timedelta | None) -> timedelta:
    """From zero up to a jitter: always the same for the same key."""
    if most is None:
        return ZERO
    number = int.from_bytes(blake2b(key.encode(), digest_size=8).digest())
    return number % (most // _MICROSECOND + 1) * _MICROSECOND
