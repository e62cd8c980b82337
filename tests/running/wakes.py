"""Whom a part wakes: its own ticker."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from go_scheduler.ticking.ticker import Ticker


def noted_wakes(ticker: Ticker) -> list[None]:
    """One for each time that it is woken from now on; the test lets it tick."""
    wakes: list[None] = []
    ticker.wake = lambda: wakes.append(None)  # type: ignore[method-assign]
    return wakes
