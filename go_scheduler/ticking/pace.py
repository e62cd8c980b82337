"""How fast the store answers, and how far ahead of it a loop has to be for that."""

from __future__ import annotations

import threading
from collections import deque
from datetime import timedelta

from go_scheduler.clock import ZERO

_SAMPLES = 100
_SHORTEST_LEAD = timedelta(milliseconds=20)
_PER_INSTANCE = timedelta(microseconds=30)
_MOST_GROWTH = timedelta(seconds=10)
# Two for the turn of the loop before, one for its own, and two for the lead.
_ANSWERS_AHEAD = 5


class Pace:
    """A loop's window, which grows by itself while the store is slow.

    Nine in ten of the recent answers are as fast as is reckoned with, and no more than
    ten seconds are added.

    Args:
        window: How far ahead the loop looks when the store answers at once.
    """

    def __init__(self, window: timedelta) -> None:
        self.window = window
        # Several threads take note of what they have waited for.
        self._lock = threading.Lock()
        self._samples: deque[timedelta] = deque(maxlen=_SAMPLES)
        self._slow = ZERO
        self._slowest = ZERO

    def took(self, duration: timedelta) -> None:
        """Take note of how long an answer took."""
        with self._lock:
            self._samples.append(duration)
            ordered = sorted(self._samples)
            self._slow = ordered[(len(ordered) - 1) * 9 // 10]
            self._slowest = ordered[len(ordered) * 99 // 100]

    @property
    def ahead(self) -> timedelta:
        """How far ahead to look now."""
        return self.window + min(_ANSWERS_AHEAD * self._slow, _MOST_GROWTH)

    def lead(self, unstarted: int) -> timedelta:
        """How long before an instance is due its start is to be recorded.

        Twice the recent 99th percentile of the answers, and more for every instance
        that is held, so that a crowd due at one instant is started in time as well; at
        most half of what it looks ahead.

        Args:
            unstarted: How many are held and not started.
        """
        lead = max(_SHORTEST_LEAD, 2 * self._slowest) + unstarted * _PER_INSTANCE
        return min(lead, self.ahead / 2)
