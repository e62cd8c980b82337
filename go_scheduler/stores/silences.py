"""What a claim answers of runs on a bus that it takes over: one rule for all stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.models import Silence
from go_scheduler.models.changed import changed
from go_scheduler.models.stage import stage_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.models import TaskInstance


def silence_of(
    started_at: datetime | None,
    *,
    accepted_at: datetime | None,
    start_by: datetime | None,
    worker: str | None,
) -> Silence | None:
    """What is known of a run whose claim has lapsed, by its row before it is claimed.

    Returns:
        None: it had not started, or was on no bus.
    """
    stage = stage_of(accepted_at, start_by)
    if stage is None or started_at is None:
        return None
    within = None if start_by is None else start_by - (accepted_at or started_at)
    return Silence(stage=stage, worker=worker, within=within)


def with_silences(
    claimed: Sequence[TaskInstance], silences: Mapping[UUID, Silence | None]
) -> list[TaskInstance]:
    """The instances of a claim, those with it to whom it belongs by their ids."""
    if not silences:
        return list(claimed)
    return [changed(each, silence=silences.get(each.id)) for each in claimed]
