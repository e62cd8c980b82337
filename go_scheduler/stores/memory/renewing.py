"""How a ``MemoryStore`` lets claims hold longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.json import read_frozen
from go_scheduler.models import Stage
from go_scheduler.models.stage import step_of

if TYPE_CHECKING:
    from datetime import datetime

    from go_scheduler.stores.memory.instances import InstanceTable
    from go_scheduler.stores.memory.stored import StoredInstance
    from go_scheduler.stores.messages import Renewal


def renew(renewal: Renewal, instances: InstanceTable, now: datetime) -> bool | None:
    """Renew a claim, as ``Store.renew_claims``.

    Returns:
        Whether its run is asked to stop; None: it is lost.
    """
    row = instances.current(renewal.claim)
    if row is None or _is_others(row, renewal):
        return None
    accepted_before = _accepts_again(row, renewal)
    comes_on = renewal.stage is not None and _comes_to(row, renewal, now)
    if renewal.handed_on:
        row.handed_on = row.attempt
        if comes_on or renewal.stage is None:
            row.worker = renewal.worker or row.worker
    if renewal.progress is not None:
        row.progress = read_frozen(renewal.progress)
    expires_at = now + renewal.lease
    if row.is_handed_on and not comes_on:
        expires_at = max(expires_at, row.expires_at or now)
    if not accepted_before:
        instances.hold_until(row, expires_at)
    return row.cancel_requested


def _is_others(row: StoredInstance, renewal: Renewal) -> bool:
    """Whether a worker claims what another one has accepted."""
    if renewal.stage in (None, Stage.PUBLISHED) or row.accepted_at is None:
        return False
    return None not in (row.worker, renewal.worker) and row.worker != renewal.worker


def _comes_to(row: StoredInstance, renewal: Renewal, now: datetime) -> bool:
    """Record how far it has come; false: it had come further, and stays there."""
    if renewal.step < step_of(row.stage):
        return False
    if renewal.stage is Stage.STARTED:
        if row.stage is not renewal.stage and row.started_at is not None:
            row.started_at = now
        row.start_by = None
    elif not _accepts_again(row, renewal):
        row.start_by = now + renewal.lease
    if renewal.stage is not Stage.PUBLISHED:
        row.accepted_at = row.accepted_at or now
    return True


def _accepts_again(row: StoredInstance, renewal: Renewal) -> bool:
    """Whether it has been accepted before, and not begun: the first one counts."""
    return renewal.stage is Stage.ACCEPTED is row.stage
