"""Ids of definitions that have ended and are gone: one rule for every store."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.messages import Tombstone

log = logging.getLogger(__name__)


def is_over(new: TaskDefinition, remembered: Tombstone | None) -> bool:
    """Whether a definition has ended before, and is not to run again."""
    return remembered is not None and new.trigger == remembered.trigger


def ended_before(new: TaskDefinition, remembered: Tombstone) -> TaskDefinition:
    """A definition that has ended before, as it is answered; nothing of it is kept."""
    return replace(
        new,
        owner=None,
        paused=False,
        note=None,
        paused_at=None,
        next_fire_time=None,
        completed_at=remembered.completed_at,
        revision=remembered.revision,
    )


def note_forgotten(count: int, *, most: int) -> None:
    """Say that ids were forgotten before their time, if any were."""
    if count:
        log.warning(
            "%d ids of definitions that have ended are forgotten: only the %d that"
            " ended last are remembered; scheduled again, the others run again",
            count,
            most,
        )
