"""What is kept of runs, as it is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from go_scheduler.models import RunEnd, Stage, TaskRun
from go_scheduler.stores.sql.tables import runs
from go_scheduler.stores.sql.types import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from sqlalchemy import Connection, Row

_COLUMNS = (
    "instance_id",
    "attempt",
    "node",
    "started_at",
    "ended_at",
    "outcome",
    "error",
    "worker",
    "lost_in",
)
_STAGES = {None: None} | {stage.value: stage for stage in Stage}
_ENDS = {end.value: end for end in RunEnd}


def read_runs(connection: Connection, instance_id: UUID) -> Sequence[TaskRun]:
    """The runs of an instance, earliest attempt first; but for what cannot be read."""
    rows = connection.execute(
        select(*(runs.c[name] for name in _COLUMNS))
        .where(runs.c.instance_id == instance_id)
        .order_by(runs.c.attempt)
    )
    return [_run(row) for row in rows if _is_readable(row)]


def _is_readable(row: Row[Any]) -> bool:
    known = row.outcome in _ENDS and row.lost_in in _STAGES
    return known and UNREADABLE not in row


def _run(row: Row[Any]) -> TaskRun:
    values = {**row._mapping, "outcome": _ENDS[row.outcome]}
    values["lost_in"] = _STAGES[row.lost_in]
    return TaskRun(**values)
