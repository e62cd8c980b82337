"""Rate limits of callers, and limits of waiting workers."""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.clock import ZERO
from go_scheduler.errors import ConfigurationError
from go_scheduler.http.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler.clock import Clock
    from go_scheduler.http.access.caller import Caller

_MOST_CALLERS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """The rate limit of one caller.

    Args:
        per_second: The calls per second in the long run.
        burst: The most calls at once.

    Raises:
        ConfigurationError: A value is below one.
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
    """Token buckets, one for each caller; the least recent caller is forgotten first.

    Args:
        rate: The rate limit of each caller.
        clock: Measures time.
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
            Zero; or how long the caller has to wait: then the call is not counted.
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
    """The network of a caller without a name: an IPv4 address, or a /64 of IPv6."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if parsed.version == 4:
        return address
    return str(ip_network((parsed, 64), strict=False))


_AGAIN = timedelta(seconds=5)


class Waiting:
    """Limits the number of workers that wait.

    Args:
        each: The limit for the workers of one caller.
        all: The limit for the workers of all callers.
    """

    def __init__(self, *, each: int = 1_000, all: int = 10_000) -> None:
        self._each = each
        self._all = all
        self._of: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """The number of waiting workers of all callers."""
        return self._of.total()

    @contextmanager
    def place(self, caller: Caller) -> Iterator[None]:
        """Count a worker as waiting within the context.

        Raises:
            Problem: 429, the limit is reached.
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


def too_many(detail: str, wait: timedelta, *, field: str | None = None) -> Problem:
    """429: try again later, or change this field."""
    seconds = max(1, math.ceil(wait.total_seconds()))
    return Problem(
        429,
        "too-many",
        "Too many requests",
        detail,
        errors=[] if field is None else [{"field": field, "detail": detail}],
        headers={"Retry-After": str(seconds)},
    )
