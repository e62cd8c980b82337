"""What all nodes of a process have counted, one after another and side by side."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from go_scheduler.events import InstanceDropped, InstanceSkipped
from go_scheduler.events.instrument import Instrument

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from go_scheduler.events import Event
    from go_scheduler.events.instrument import Watched
    from go_scheduler.health import Health
    from go_scheduler.models import Counts, TaskInstance

Labels: TypeAlias = tuple[str, str]
"""A queue and a name."""

_MOST = 200
_OTHERS = ("other", "other")
_UNNAMED = "unnamed"
_NOTHING: AbstractContextManager[object] = nullcontext()


class Gathered(NamedTuple):
    """What has been gathered.

    Attributes:
        counts: What was counted, by queue and name.
        skipped: How many fire times do not run, and how many of these were missed.
        health: How each node is that has not stopped.
    """

    counts: dict[Labels, Counts]
    skipped: dict[Labels, tuple[int, int]]
    health: Sequence[Health]


class Gathering(Instrument):
    """Gathers what the nodes of all schedulers count that have it as a listener.

    At most 200 pairs of queue and name are told apart; further ones are *other*.
    """

    surrounds = False

    def __init__(self) -> None:
        super().__init__(self._hear, (InstanceSkipped, InstanceDropped))
        self._lock = threading.Lock()
        self._nodes: list[Watched] = []
        self._stopped: dict[Labels, Counts] = {}
        self._skipped: Counter[Labels] = Counter()
        self._missed: Counter[Labels] = Counter()

    def watch(self, node: Watched) -> None:
        """Look at a node from now on, until it has stopped."""
        with self._lock:
            self._nodes.append(node)

    def around(self, instance: TaskInstance) -> AbstractContextManager[object]:
        """Nothing."""
        return _NOTHING

    def gathered(self) -> Gathered:
        """What has been counted up to now; no number of it ever falls."""
        with self._lock:
            # In this order: what a node counts as it stops is not lost.
            over = [each for each in self._nodes if each.stopped]
            self._nodes = [each for each in self._nodes if each not in over]
            _add(self._stopped, _counts_of(over))
            counts = dict(self._stopped)
            _add(counts, _counts_of(self._nodes))
            skipped = {
                labels: (count, self._missed[labels])
                for labels, count in self._skipped.items()
            }
        return Gathered(counts, skipped, [each.health() for each in self._nodes])

    def _hear(self, event: Event) -> None:
        assert isinstance(event, InstanceSkipped | InstanceDropped)
        count, late = 1, True
        if isinstance(event, InstanceSkipped):
            count, late = event.count, event.late
        with self._lock:
            labels = _bounded(_labels(event.queue, event.name), self._skipped)
            self._skipped[labels] += count
            self._missed[labels] += count if late else 0


def _counts_of(nodes: Iterable[Watched]) -> Iterable[Counts]:
    return (each for node in nodes for each in node.tally.totals())


def _add(to: dict[Labels, Counts], counts: Iterable[Counts]) -> None:
    for each in counts:
        labels = _bounded(_labels(each.queue, each.name), to)
        to[labels] = to[labels] + each if labels in to else each


def _labels(queue: str, name: str | None) -> Labels:
    return queue, _UNNAMED if name is None else name


def _bounded(labels: Labels, known: Mapping[Labels, object]) -> Labels:
    return labels if labels in known or len(known) < _MOST else _OTHERS
