"""Batches as SQLite's statements take them: as JSON, or as rows to be written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from uuid import uuid4

from go_scheduler.models import RUNS_KEPT, Outcome
from go_scheduler.stores.rules import run_end
from go_scheduler.stores.sql.rows import to_microseconds, to_sqlite_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence, Set
    from datetime import datetime
    from typing import Any

    from sqlalchemy import Connection, Row

    from go_scheduler.stores.messages import Claim, Firing, RunOutcome


def run_batch(
    connection: Connection, statement: str, batch: Sequence[object], **values: object
) -> Sequence[Row[Any]]:
    """Execute a statement over a batch, and fetch what it returns."""
    parameters = {"batch": json.dumps(batch), **values}
    return connection.exec_driver_sql(statement, parameters).all()


def write_all(connection: Connection, statement: str, rows: Sequence[Any]) -> None:
    """Execute a statement once for each row."""
    if rows:
        connection.exec_driver_sql(statement, rows)


def instances_of(
    firing: Firing, row: Row[Any], now: int
) -> Iterator[tuple[object, ...]]:
    """The values of ``MADE_COLUMNS`` for each instance of a firing that won."""
    of = (
        row.key,
        row.queue,
        row.priority,
        row.expire_after,
        row.waits,
        row.slot,
        row.overlap,
    )
    if (skipped := firing.skipped) is not None:
        first = to_sqlite_time(skipped.first)
        ended = (None, Outcome.SKIPPED.value, now, now)
        last = to_sqlite_time(skipped.last)
        of_skipped = (first, last, skipped.count, skipped.reason)
        yield (uuid4().hex, *of, None, first, first, *ended, *of_skipped)
    for fire_time, execute_at in firing.instances():
        at = to_sqlite_time(execute_at)
        times = (to_sqlite_time(fire_time), at, at)
        open = (max(at, now), None, None, now)
        yield (uuid4().hex, *of, *times, *open, None, None, None, None)


def successes(outcomes: Sequence[RunOutcome]) -> Sequence[tuple[object, ...]]:
    """The values that record the runs of which there is nothing more to say."""
    return [
        (*key_of(each.claim), to_sqlite_time(each.started_at))
        for each in outcomes
        if each.outcome is Outcome.COMPLETED
        and each.started_at is not None
        and not (each.error or each.hung)
    ]


def results(
    by_id: Mapping[str, RunOutcome], done: Set[str]
) -> Sequence[tuple[str | None, str | None, str]]:
    """The values that keep what came of those that are done."""
    return [
        (each.result, each.client, id)
        for id, each in by_id.items()
        if (each.result is not None or each.client is not None) and id in done
    ]


def ends(
    recorded: Sequence[tuple[Row[Any], RunOutcome]], now: int
) -> Sequence[tuple[object, ...]]:
    """The values that record the runs that ended for good."""
    return [
        (
            each.outcome.value,
            each.claim.attempt,
            now,
            time_of(each.started_at),
            _not_called(row, each),
            each.hung,
            *_error_and_reason(each),
            row.id,
        )
        for row, each in recorded
        if each.outcome is not None
    ]


def retries(
    recorded: Sequence[tuple[Row[Any], RunOutcome]], now: int
) -> Sequence[tuple[object, ...]]:
    """The values that make pending again what is to run again."""
    return [
        (
            due_at := now + to_microseconds(each.retry_in),
            due_at,
            _not_called(row, each),
            each.hung,
            each.error,
            row.id,
        )
        for row, each in recorded
        if each.outcome is None
    ]


def kept_runs(
    recorded: Sequence[tuple[Row[Any], RunOutcome]], now: int
) -> Sequence[tuple[Any, ...]]:
    """The values that keep the ends of runs that did not succeed."""
    return [
        (
            row.id,
            each.claim.attempt,
            row.claimed_by,
            row.worker,
            time_of(each.started_at),
            now,
            run_end(each).value,
            each.error,
        )
        for row, each in recorded
        if each.is_kept
    ]


def long_histories(kept: Sequence[tuple[Any, ...]]) -> Sequence[tuple[str, str]]:
    """The values that trim what is kept: there may be more after so many attempts."""
    return [(id, id) for id, attempt, *_ in kept if attempt > RUNS_KEPT]


def _error_and_reason(run: RunOutcome) -> tuple[str | None, str | None]:
    """What the handler raised, and why it is skipped."""
    if run.outcome is Outcome.SKIPPED:
        return None, run.error
    return run.error, None


def _not_called(row: Row[Any], run: RunOutcome) -> int:
    """How many runs were recorded as started and have not been."""
    return int(run.started_at is None and row.runs_on)


def key_of(claim: Claim) -> tuple[str, int]:
    """How a statement names a claim."""
    return claim.instance_id.hex, claim.attempt


def time_of(at: datetime | None, *, default: int | None = None) -> int | None:
    """A time as SQLite keeps it."""
    return default if at is None else to_sqlite_time(at)
