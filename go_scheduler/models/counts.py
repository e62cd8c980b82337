"""What a node has counted since its start, for those who show it as it grows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from go_scheduler.models.histogram import Histogram


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The instances of a queue that have one name, in numbers that only rise.

    Attributes:
        queue: Their queue.
        name: That of their definitions; None: they have none.
        fired: How many were made of fire times.
        ended: How many ended with which outcome, and under *retried* how many runs
            ended after which their instance runs again.
        lateness: How late their runs began.
        late: The sum of that.
        durations: How long their runs took, if anybody asks for it.
        took: The sum of that.
    """

    queue: str
    name: str | None
    fired: int = 0
    ended: Mapping[str, int] = field(default_factory=dict)
    lateness: Histogram = field(default_factory=Histogram)
    late: timedelta = timedelta(0)
    durations: Histogram = field(default_factory=Histogram)
    took: timedelta = timedelta(0)

    def __add__(self, other: Counts) -> Counts:
        """What two nodes have counted, under the queue and name of the first."""
        ended = dict(self.ended)
        for how, count in other.ended.items():
            ended[how] = ended.get(how, 0) + count
        return Counts(
            queue=self.queue,
            name=self.name,
            fired=self.fired + other.fired,
            ended=ended,
            lateness=self.lateness + other.lateness,
            late=self.late + other.late,
            durations=self.durations + other.durations,
            took=self.took + other.took,
        )
