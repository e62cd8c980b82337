"""What became of the runs of a queue in a minute or an hour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from go_scheduler.models.histogram import Histogram

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)

RETRIED = "retried"
"""What stands beside the outcomes: a run has ended, and its instance runs again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStats:
    """What nodes have counted of a queue in one minute, or one hour.

    Attributes:
        at: When that begins, by the store's time.
        every: How long it is: a minute, or an hour.
        queue: The queue.
        ended: How many instances ended with which outcome, by its name, and under
            *retried* how many runs ended after which their instance runs again.
        lateness: How late the runs were that began.
    """

    at: datetime
    every: timedelta
    queue: str
    ended: Mapping[str, int] = field(default_factory=dict)
    lateness: Histogram = field(default_factory=Histogram)

    def __add__(self, other: QueueStats) -> QueueStats:
        """What two nodes have counted, of the same time and queue."""
        ended = dict(self.ended)
        for how, count in other.ended.items():
            ended[how] = ended.get(how, 0) + count
        return QueueStats(
            at=self.at,
            every=self.every,
            queue=self.queue,
            ended=ended,
            lateness=self.lateness + other.lateness,
        )
