"""Looks that a hint of the store asks for: others may have put something in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO, DrivingClock
from go_scheduler.events.hub import LOG_ALONE, Events
from go_scheduler.stores.hints import News
from go_scheduler.ticking.ticker import Ticker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta

    from go_scheduler.clock import Clock
    from go_scheduler.stores.base import Store


class HintedLooks:
    """Waits for hints on a thread of its own, and has the node look.

    On a driving clock nothing waits, and there the loops look by themselves alone.

    Args:
        store: Gives the hints, if it has any.
        clock: Measures the time between ticks.
        runs: Whether the node runs anything: else it is for others to look.
        looks: What to call for each that may be new.
        events: Told when nothing is heard of.

    Attributes:
        tickers: That of the thread, if there is one.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        runs: bool,
        looks: Mapping[News, Callable[[], None]],
        events: Events = LOG_ALONE,
    ) -> None:
        waits = runs and not isinstance(clock, DrivingClock)
        self._hints = store.hints() if waits else None
        self._looks = looks
        self._again = False
        self.tickers: list[Ticker] = []
        if self._hints is not None:
            self.tickers.append(
                Ticker("listener", self.tick, interval=None, clock=clock, events=events)
            )

    def tick(self) -> timedelta:
        """Wait for a hint, and look; answer how soon to look for what it left out."""
        assert self._hints is not None, "else nothing ticks"
        # What is left out may be of the other kind.
        news = News.ANYTHING if self._again else self._hints.wait()
        for each, look in self._looks.items():
            if each in news:
                look()
        self._again = bool(news) and not self._again and self._hints.blind > ZERO
        return self._hints.blind if self._again else ZERO

    def close(self) -> None:
        """Wait no longer."""
        for each in self.tickers:
            each.stop()
        if self._hints is not None:
            self._hints.close()
