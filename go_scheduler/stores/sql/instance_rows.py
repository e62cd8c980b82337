"""Between rows and values: instances.

Reading never fails. An instance whose row cannot be read belongs to a definition with
an ``UnknownTrigger`` that says why, so that it is reported and not run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from go_scheduler.models import Outcome, Skipped, TaskInstance
from go_scheduler.models.trusted import trusted
from go_scheduler.policies import Overlap
from go_scheduler.stores.sql.rows import LATEST, NO_ID, unknown
from go_scheduler.stores.sql.types import UNREADABLE, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from go_scheduler.models import TaskDefinition

CLAIMED_COLUMNS = (
    "id",
    "definition_key",
    "fire_time",
    "execute_at",
    "due_at",
    "attempt",
    "runs",
    "hangs",
    "claimed_by",
    "expires_at",
    "started_at",
    "outcome",
    "error",
    "cancel_requested",
    "payload",
    "key",
    "backfilled",
    "reopened_at",
    "created_at",
    "trace_context",
)
"""The columns to be read of an instance that is claimed."""
INSTANCE_COLUMNS = (
    *CLAIMED_COLUMNS,
    "completed_at",
    "ended_attempt",
    "parked",
    "worker",
    "result",
    "client",
    "accepted_at",
    "start_by",
    "progress",
    "given_back",
    "skipped_first",
    "skipped_last",
    "skipped_count",
    "skipped_reason",
)
"""The columns to be read of any other: all but those that only statements use."""

NOT_ELSEWHERE = {
    "worker": None,
    "accepted_at": None,
    "start_by": None,
    "progress": None,
    "given_back": None,
}
"""What has a row that nobody has outside of nodes, nor has given back."""

_OUTCOMES = {None: None} | {outcome.value: outcome for outcome in Outcome}
_OUTCOME = INSTANCE_COLUMNS.index("outcome")
_NOT_READ = (None,) * (len(INSTANCE_COLUMNS) - len(CLAIMED_COLUMNS))
_instance: Callable[..., TaskInstance] = trusted(TaskInstance)
_OVERLAPS = {None: None} | {overlap.value: overlap for overlap in Overlap}
_STAND_INS = {
    "id": NO_ID,
    "execute_at": LATEST,
    "due_at": LATEST,
    "skipped_first": LATEST,
    "skipped_last": LATEST,
}


def read_instance(values: Sequence[Any], definition: TaskDefinition) -> TaskInstance:
    """The instance whose ``INSTANCE_COLUMNS`` have these values.

    Of one that is claimed those beyond ``CLAIMED_COLUMNS`` may be left out.
    """
    if Unreadable in map(type, values) or values[_OUTCOME] not in _OUTCOMES:
        definition, values = _repaired(values, definition)
    id, _, fire_time, execute_at, due_at, attempt, runs, hangs, *rest = values
    claimed_by, expires_at, started_at, outcome, error, *rest = rest
    cancel_requested, payload, key, backfilled, reopened_at, *rest = rest
    created_at, trace_context, *rest = rest
    completed_at, ended_attempt, parked, worker, result, *rest = rest or _NOT_READ
    client, *rest = rest
    on_bus, given_back, of_skipped = rest[:3], rest[3], rest[4:]
    return _instance(
        id,
        definition,
        fire_time,
        execute_at,
        due_at,
        attempt,
        runs,
        hangs,
        claimed_by,
        expires_at,
        started_at,
        completed_at,
        _OUTCOMES[outcome],
        ended_attempt,
        error,
        bool(cancel_requested),
        bool(parked),
        _skipped(fire_time or execute_at, *of_skipped),
        payload,
        key,
        _OVERLAPS.get(backfilled, Overlap.ALLOW),
        reopened_at,
        worker,
        result,
        created_at,
        client,
        trace_context,
        *on_bus,
        given_back,
    )


def _skipped(at: Any, first: Any, last: Any, count: Any, reason: Any) -> Skipped | None:
    if count is not None:
        return Skipped(first=first, last=last, count=count, reason=reason)
    return None if reason is None else Skipped.itself(at, reason)


def _repaired(
    values: Sequence[Any], definition: TaskDefinition
) -> tuple[TaskDefinition, Sequence[Any]]:
    """Values that can be read, and a definition that keeps it from running."""
    named = dict(zip(INSTANCE_COLUMNS, values, strict=False))
    bad = [name for name, value in named.items() if value is UNREADABLE]
    for name in bad:
        named[name] = _STAND_INS.get(name)
    if named["outcome"] not in _OUTCOMES:
        bad.append("outcome")
        named["outcome"] = Outcome.FAILED.value
    reason = f"the row of an instance cannot be read: {', '.join(bad)}"
    trigger = unknown(definition.trigger, reason)
    return replace(definition, trigger=trigger), tuple(named.values())
