"""What is asked of this machine, and of the way from it to the store."""

from __future__ import annotations

import sys
from datetime import timedelta
from importlib import metadata
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.doctor.kinds import CLOCK_OFFSET
from go_scheduler.stores.findings import well
from go_scheduler.version import __version__
from go_scheduler.why.words import length

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler.clock import Clock
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.findings import Finding

_DRIVERS = ("SQLAlchemy", "psycopg", "sqlalchemy-cockroachdb")
_READINGS = 5
LARGE_OFFSET = timedelta(seconds=1)
"""By so much clocks differ before anybody need look at them."""


def versions() -> Iterator[Finding]:
    """What runs here."""
    drivers = ", ".join(f"{each} {metadata.version(each)}" for each in _DRIVERS)
    python = ".".join(map(str, sys.version_info[:3]))
    yield well("versions", f"go_scheduler {__version__}, Python {python}, {drivers}")


def clocks(store: Store, clock: Clock) -> Iterator[Finding]:
    """How far the store is, and how far its clock is from this machine's.

    Of some answers that with the shortest round trip counts: the store's time was read
    somewhere within it.
    """
    best: tuple[timedelta, timedelta] | None = None
    for _ in range(_READINGS):
        sent = clock.elapsed()
        told = store.now()
        round_trip = clock.elapsed() - sent
        offset = told + round_trip / 2 - clock.now()
        best = min(best or (round_trip, offset), (round_trip, offset))
    assert best is not None
    round_trip, offset = best
    yield well("connection", f"it answers within {length(round_trip)}")
    ahead = "ahead of" if offset > ZERO else "behind"
    seen = f"the store's clock is {length(abs(offset))} {ahead} this machine's"
    if abs(offset) > LARGE_OFFSET + round_trip / 2:
        yield CLOCK_OFFSET.found(f"{seen}, give or take {length(round_trip / 2)}")
    else:
        yield well("clock", seen)
