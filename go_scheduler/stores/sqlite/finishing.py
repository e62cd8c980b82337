"""What the ends of runs come to, in a SQLite file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.stores.sql.sweep import LATE_AFTER
from go_scheduler.stores.sql.types import to_microseconds
from go_scheduler.stores.sqlite.batches import (
    ends,
    kept_runs,
    key_of,
    long_histories,
    retries,
    run_batch,
    time_of,
    write_all,
)
from go_scheduler.stores.sqlite.statements import definitions, history, runs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set
    from datetime import datetime
    from typing import Any

    from sqlalchemy import Connection, Row

    from go_scheduler.stores.messages import RunOutcome

_LATE = to_microseconds(LATE_AFTER)


def finish_in_full(
    connection: Connection, by_id: Mapping[str, RunOutcome], now: int
) -> Set[str]:
    """Record what became of runs, whatever it is; the ids of those that counted."""
    batch = [(*key_of(each.claim), each.outcome) for each in by_id.values()]
    rows = run_batch(connection, runs.FINISH_FOUND, batch)
    recorded = [(row, by_id[row.id]) for row in rows]
    write_all(connection, runs.FINISH_END, ends(recorded, now))
    write_all(connection, runs.FINISH_RETRY, retries(recorded, now))
    kept = kept_runs(recorded, now)
    write_all(connection, history.KEEP_RUN, kept)
    write_all(connection, history.TRIM_RUNS, long_histories(kept))
    waiting = {
        row.definition_key: each.next_fire_time
        for row, each in recorded
        if row.waits and each.outcome
    }
    go_on(connection, waiting, now)
    free_slots(connection, [row for row, each in recorded if each.outcome])
    return {row.id for row in rows}


def go_on(
    connection: Connection, waiting: Mapping[str, datetime | None], now: int
) -> None:
    """Move the definitions on, by their keys, that waited for what has ended."""
    late = now - _LATE
    moved = [
        {"key": key, "next_at": time_of(at), "now": now, "late": late}
        for key, at in waiting.items()
    ]
    write_all(connection, definitions.GO_ON, moved)


def free_slots(connection: Connection, rows: Sequence[Row[Any]]) -> None:
    """Let instances that have ended go of their slots."""
    freed = [(row.slot, row.id) for row in rows if row.slot is not None]
    write_all(connection, runs.FREE_SLOT, freed)
