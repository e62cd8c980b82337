"""What nodes have counted, and what all of them agree on, as SQL stores keep it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from go_scheduler.models import Histogram, QueueStats
from go_scheduler.models.counts import MINUTE
from go_scheduler.stores.sql.rows import (
    Unreadable,
    from_microseconds,
    to_microseconds,
)
from go_scheduler.stores.sql.statement import SQLPart
from go_scheduler.stores.sql.tables import settings
from go_scheduler.stores.sql.tables import stats as counted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy import Connection


SHARDS = "shards"
"""The setting that has the number of shards with which the database was made."""


_LATER = "later"
_EVERY = to_microseconds(MINUTE)
_KEY = (counted.c.every, counted.c.begins_at, counted.c.queue, counted.c.node)


class SQLStats(SQLPart):
    """Keeps what nodes count, and what they agree on."""

    def keep_setting(self, name: str, value: str) -> str:
        """Agree on a setting: the first to ask has set it."""
        # It waits for whoever sets it at this moment, so that what is read is there.
        new = self._dialect.insert(settings).values(name=name, value=value)
        query = select(settings.c.value).where(settings.c.name == name)

        def keep(connection: Connection) -> str:
            connection.execute(new.on_conflict_do_nothing())
            return str(connection.execute(query).scalar_one())

        return self._database.transact(keep)

    def note_stats(self, node: UUID, stats: Sequence[QueueStats]) -> None:
        """Keep what a node has counted."""
        new = self._dialect.insert(counted).values([_row(node, each) for each in stats])
        values = {"ended": new.excluded.ended, "lateness": new.excluded.lateness}
        noted = new.on_conflict_do_update(index_elements=_KEY, set_=values)
        self._database.transact(lambda each: each.execute(noted))

    def list_stats(self, *, since: datetime, until: datetime) -> Sequence[QueueStats]:
        """Read what was counted, but for what cannot be read."""
        column = counted.c
        query = (
            select(column.begins_at, column.queue, column.ended, column.lateness)
            .where(
                column.every == _EVERY,
                column.begins_at >= since,
                column.begins_at < until,
            )
            .order_by(*_KEY)
        )
        rows = self._list(lambda connection: connection.execute(query).all())
        return [each for each in map(_read, rows) if each is not None]


def _row(node: UUID, noted: QueueStats) -> dict[str, object]:
    return {
        "every": _EVERY,
        "begins_at": noted.at,
        "queue": noted.queue,
        "node": node,
        "ended": json.dumps(dict(noted.ended)),
        "lateness": json.dumps(
            {
                _LATER if bound is None else to_microseconds(bound): count
                for bound, count in noted.lateness.buckets()
            }
        ),
    }


def _read(row: Any) -> QueueStats | None:
    try:
        ended = {str(how): int(n) for how, n in json.loads(row.ended).items()}
        lateness = Histogram.of(
            (None if bound == _LATER else from_microseconds(int(bound)), int(count))
            for bound, count in json.loads(row.lateness).items()
        )
    # A row that was written by other means than this package may hold anything.
    except (ValueError, TypeError, AttributeError, OverflowError):
        return None
    if isinstance(row.begins_at, Unreadable):
        return None
    return QueueStats(at=row.begins_at, queue=row.queue, ended=ended, lateness=lateness)
