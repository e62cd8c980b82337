"""What a request may take of the server."""

from __future__ import annotations

from dataclasses import dataclass

from go_scheduler.http.access.rates import Rate

_RATE = Rate(per_second=5_000, burst=10_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a request may take of the server.

    Attributes:
        threads: How many calls may wait for the store at once.
        rate: How often one caller may call; None: as often as they like.
    """

    threads: int = 32
    rate: Rate | None = _RATE
