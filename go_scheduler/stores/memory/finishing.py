"""How a ``MemoryStore`` records that a run ends, or will not begin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.json import read_frozen
from go_scheduler.models import RUNS, Cancelled, Outcome, Skipped
from go_scheduler.stores.changes import run_end

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.stores.memory.tables import Tables
    from go_scheduler.stores.messages import Release, RunOutcome

_COMPLETED = Outcome.COMPLETED


def finish(outcome: RunOutcome, tables: Tables, now: datetime) -> bool:
    """Record what became of a run, as ``Store.finish_instances``, if it may count."""
    instances = tables.instances
    current = row = instances.current(outcome.claim)
    if row is None and outcome.outcome is _COMPLETED:
        row = instances.unsuccessful(outcome.claim)
    if row is None:
        return False
    if outcome.error is not None and outcome.outcome is Outcome.SKIPPED:
        row.skipped = Skipped.itself(row.fire_time or row.execute_at, outcome.error)
    elif outcome.error is not None:
        row.error = outcome.error
    if outcome.is_kept:
        row.started_at = outcome.started_at
        row.keep_run(run_end(outcome), outcome.error, now)
    if current is not None and outcome.started_at is None:
        row.runs -= row.state in RUNS
    if outcome.hung:
        row.hangs += 1
    elif outcome.outcome is None:
        row.hangs = 0
    if outcome.client is not None:
        row.client = read_frozen(outcome.client)
    if outcome.outcome is None:
        instances.free(row, now + outcome.retry_in)
        return True
    row.started_at = outcome.started_at
    row.ended_attempt = outcome.claim.attempt
    if outcome.result is not None:
        row.result = read_frozen(outcome.result)
    if row.outcome is None:
        instances.end(row, outcome.outcome, now)
        tables.definitions.go_on(row, outcome.next_fire_time, now)
    else:
        instances.end_again(row, outcome.outcome, now)
    return True


def release(given: Release, tables: Tables, now: datetime) -> bool:
    """Give back what was not called, as ``Store.release_instances``."""
    row = tables.instances.current(given.claim)
    if row is None:
        return False
    row.runs -= row.state in RUNS
    if not row.runs:
        tables.instances.slots.free(row)
    due_at = max(row.due_at, now + given.delay)
    tables.instances.free(row, due_at if given.delay else row.due_at)
    row.given_back = given.reason
    return True


def cancel(
    id: UUID, next_fire_time: datetime | None, tables: Tables, now: datetime
) -> Cancelled | None:
    """Cancel one that has not ended, as ``Store.cancel_instances``."""
    row = tables.instances.get(id)
    if row is None or row.completed_at is not None:
        return None
    if row.state in RUNS:
        tables.instances.ask_to_stop(row)
        return Cancelled.REQUESTED
    tables.instances.end(row, Outcome.CANCELLED, now)
    tables.definitions.go_on(row, next_fire_time, now)
    return Cancelled.CANCELLED
