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
from go_scheduler.stores.sql.tables import settings, stats

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy import Connection, Row

    from go_scheduler.stores.sql.tables import Dialect


SHARDS = "shards"
"""The setting that has the number of shards with which the database was made."""


def keep_setting(
    connection: Connection, dialect: Dialect, *, name: str, value: str
) -> str:
    """Set what nobody has set, as ``Store.keep_setting``."""
    # It waits for whoever sets it at this moment, so that what is read is there.
    new = dialect.insert(settings).values(name=name, value=value)
    connection.execute(new.on_conflict_do_nothing())
    query = select(settings.c.value).where(settings.c.name == name)
    return str(connection.execute(query).scalar_one())


_LATER = "later"
_EVERY = to_microseconds(MINUTE)
_KEY = (stats.c.every, stats.c.begins_at, stats.c.queue, stats.c.node)


def note_stats(
    connection: Connection, dialect: Dialect, node: UUID, noted: Sequence[QueueStats]
) -> None:
    """Keep what a node has counted, as ``Store.note_stats``."""
    new = dialect.insert(stats).values([_row(node, each) for each in noted])
    connection.execute(
        new.on_conflict_do_update(
            index_elements=_KEY,
            set_={"ended": new.excluded.ended, "lateness": new.excluded.lateness},
        )
    )


def list_stats(
    connection: Connection, *, since: datetime, until: datetime
) -> Sequence[QueueStats]:
    """Read it, as ``Store.list_stats``; but for what cannot be read."""
    query = (
        select(stats.c.begins_at, stats.c.queue, stats.c.ended, stats.c.lateness)
        .where(
            stats.c.every == _EVERY,
            stats.c.begins_at >= since,
            stats.c.begins_at < until,
        )
        .order_by(*_KEY)
    )
    read = (_read(row) for row in connection.execute(query))
    return [each for each in read if each is not None]


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


def _read(row: Row[Any]) -> QueueStats | None:
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
