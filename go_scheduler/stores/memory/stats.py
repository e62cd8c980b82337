"""What nodes have counted, in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.stores.base import STATS_KEPT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    from go_scheduler.models import QueueStats


class StatsKey(NamedTuple):
    """Which counts: one node's, of a queue, in a minute or hour."""

    every: timedelta
    at: datetime
    queue: str
    node: UUID


class StatsTable:
    """The counts of each minute, hour, queue and node.

    Attributes:
        rows: All of them.
    """

    def __init__(self, rows: Mapping[StatsKey, QueueStats] | None = None) -> None:
        self.rows: dict[StatsKey, QueueStats] = dict(rows or {})

    def note(self, node: UUID, noted: Sequence[QueueStats]) -> None:
        """Keep counts, in the place of what was kept of the same."""
        for each in noted:
            key = StatsKey(each.every, each.at, each.queue, node)
            self.rows[key] = each

    def within(
        self, every: timedelta, since: datetime, until: datetime
    ) -> Sequence[QueueStats]:
        """Those of one length that begin within these bounds, in order."""
        keys = (key for key in self.rows if key.every == every)
        found = sorted(key for key in keys if since <= key.at < until)
        return [self.rows[key] for key in found]

    def forget(self, now: datetime) -> None:
        """Forget what began long ago."""
        self.rows = {
            key: each
            for key, each in self.rows.items()
            if now - key.at <= STATS_KEPT[key.every]
        }
