"""How the end of a run is recorded in a ``MemoryStore``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.models import Outcome, State

if TYPE_CHECKING:
    from datetime import datetime

    from go_scheduler.stores.memory.tables import Tables
    from go_scheduler.stores.messages import RunOutcome


def finish(outcome: RunOutcome, tables: Tables, now: datetime) -> bool:
    """Record what became of a run, as ``Store.finish_instances``, if it may count."""
    instances = tables.instances
    current = row = instances.current(outcome.claim)
    if row is None and outcome.outcome is Outcome.COMPLETED:
        row = instances.unsuccessful(outcome.claim)
    if row is None:
        return False
    if outcome.error is not None:
        row.error = outcome.error
    if current is not None and outcome.started_at is None:
        row.runs -= row.state is State.RUNNING
    if outcome.hung:
        row.hangs += 1
    elif outcome.outcome is None:
        row.hangs = 0
    if outcome.outcome is None:
        instances.free(row, now + outcome.retry_in)
        return True
    row.started_at = outcome.started_at
    row.ended_attempt = outcome.claim.attempt
    if row.outcome is None:
        instances.end(row, outcome.outcome, now)
        tables.definitions.go_on(row.of, outcome.next_fire_time, now)
    else:
        instances.end_again(row, outcome.outcome, now)
    return True
