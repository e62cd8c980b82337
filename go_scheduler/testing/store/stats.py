"""Store suite: what nodes have counted."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.models import BOUNDS, Histogram, QueueStats
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    NODE,
    OTHER_NODE,
    TICK,
    clean_up,
)
from go_scheduler.testing.clock import START

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock

DAY = timedelta(days=1)
COUNTS = QueueStats(
    at=START,
    every=MINUTE,
    queue="default",
    ended={"completed": 2**40, "failed": 1, "retried": 3},
    lateness=Histogram.of([(BOUNDS[0], 1), (BOUNDS[7], 2**40), (None, 7)]),
)


class StatsTests:
    """``note_stats`` and ``list_stats``; a store that keeps none is left alone."""

    def test_what_was_counted_is_read_as_it_was_noted(self, store: Store) -> None:
        nothing = QueueStats(at=START, every=MINUTE, queue="ä \"'\\,{}%s:x")
        store.note_stats(NODE, [COUNTS, nothing])
        assert self.listed(store) in ([COUNTS, nothing], [])

    def test_what_a_node_notes_takes_the_place_of_what_it_has_noted(
        self, store: Store
    ) -> None:
        later = replace(COUNTS, ended={"skipped": 1}, lateness=Histogram())
        store.note_stats(NODE, [COUNTS])
        store.note_stats(NODE, [later, replace(later, queue="mail")])
        assert self.listed(store) in ([later, replace(later, queue="mail")], [])

    def test_nodes_queues_minutes_and_hours_are_kept_apart(self, store: Store) -> None:
        hour = replace(COUNTS, every=HOUR)
        store.note_stats(OTHER_NODE, [COUNTS, hour])
        store.note_stats(NODE, [replace(COUNTS, at=START + MINUTE), COUNTS])
        next_one = replace(COUNTS, at=START + MINUTE)
        assert self.listed(store) in ([COUNTS, COUNTS, next_one], [])
        assert self.listed(store, every=HOUR) in ([hour], [])

    def test_only_what_begins_within_the_bounds_is_read(self, store: Store) -> None:
        minutes = [replace(COUNTS, at=START + n * MINUTE) for n in range(5)]
        store.note_stats(NODE, minutes)
        found = self.listed(store, START + MINUTE, START + 3 * MINUTE)
        assert found in (minutes[1:3], [])
        assert self.listed(store, START + MINUTE, START + MINUTE) == []

    def test_minutes_are_kept_for_two_days_and_hours_for_a_month(
        self, store: Store, clock: ManualClock
    ) -> None:
        hour = replace(COUNTS, every=HOUR)
        store.note_stats(NODE, [COUNTS, hour])
        clock.advance(2 * DAY)
        assert clean_up(store, older_than=ZERO, limit=10) == 0
        assert self.listed(store) in ([COUNTS], [])
        clock.advance(TICK)
        assert clean_up(store, older_than=ZERO, limit=10) == 0
        assert self.listed(store) == []
        clock.advance(29 * DAY - TICK)
        clean_up(store, older_than=ZERO, limit=10)
        assert self.listed(store, every=HOUR) in ([hour], [])
        clock.advance(TICK)
        clean_up(store, older_than=ZERO, limit=10)
        assert self.listed(store, every=HOUR) == []

    @staticmethod
    def listed(
        store: Store,
        since: datetime = START,
        until: datetime = START + HOUR,
        *,
        every: timedelta = MINUTE,
    ) -> Sequence[QueueStats]:
        """What was counted."""
        return list(store.list_stats(every=every, since=since, until=until))
