"""How often callers may call, and how many of their workers may wait."""

from __future__ import annotations

from collections import Counter, OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.clock import ZERO
from go_scheduler.errors import ConfigurationError
from go_scheduler.http.access.refusals import too_many

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler.clock import Clock
    from go_scheduler.http.access.caller import Caller

_MOST_CALLERS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How often one caller may call.

    Args:
        per_second: So often in the long run.
        burst: So many at once.

    Raises:
        ConfigurationError: One of them is below one.
    """

    per_second: float
    burst: int

    def __post_init__(self) -> None:
        if not (self.per_second >= 1 and self.burst >= 1):
            raise ConfigurationError(
                "a rate must be at least 1 per second, and a burst of at least 1:"
                f" {self.per_second}, {self.burst}"
            )


class _Bucket(NamedTuple):
    left: float
    at: timedelta


class Rates:
    """Counts calls of callers; the one that called least lately is forgotten first.

    Args:
        rate: How often each may.
        clock: Measures how much time has passed.
        most: How many callers are remembered.
    """

    def __init__(self, rate: Rate, clock: Clock, *, most: int = _MOST_CALLERS) -> None:
        self._rate = rate
        self._clock = clock
        self._most = most
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, caller: str) -> timedelta:
        """Count a call.

        Returns:
            Zero; or how long the caller has to wait, and then nothing was counted.
        """
        now = self._clock.elapsed()
        found = self._buckets.pop(caller, None)
        left = float(self._rate.burst)
        if found is not None:
            gained = (now - found.at).total_seconds() * self._rate.per_second
            left = min(left, found.left + gained)
        may = left >= 1
        self._buckets[caller] = _Bucket(left - 1 if may else left, now)
        if len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        return ZERO if may else timedelta(seconds=(1 - left) / self._rate.per_second)


@lru_cache(maxsize=1024)
def network_of(address: str) -> str:
    """What one caller without a name is taken to have: an address, or a /64 of IPv6."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if parsed.version == 4:
        return address
    return str(ip_network((parsed, 64), strict=False))


_AGAIN = timedelta(seconds=5)


class Waiting:
    """Counts those that wait.

    Args:
        each: How many workers of one caller may wait.
        all: How many of all callers.
    """

    def __init__(self, *, each: int = 1_000, all: int = 10_000) -> None:
        self._each = each
        self._all = all
        self._of: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """How many wait, of all callers."""
        return self._of.total()

    @contextmanager
    def place(self, caller: Caller) -> Iterator[None]:
        """A place to wait in.

        Raises:
            Problem: 429, there is none left.
        """
        if self._of[caller.subject] >= self._each:
            raise too_many(
                f"{self._each} workers of this caller are waiting already", _AGAIN
            )
        if self._of.total() >= self._all:
            raise too_many(f"{self._all} workers are waiting already", _AGAIN)
        self._of[caller.subject] += 1
        try:
            yield
        finally:
            self._of[caller.subject] -= 1
            if not self._of[caller.subject]:
                del self._of[caller.subject]
