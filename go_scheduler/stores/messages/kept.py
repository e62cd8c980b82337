"""What is kept of what is over, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from go_scheduler.triggers.base import Trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone:
    """The memory of a definition that has ended and is gone.

    Attributes:
        id: Its id, which was passed and not made up.
        trigger: Its trigger.
        revision: Its last revision.
        completed_at: When it ended.
    """

    id: UUID
    trigger: Trigger
    revision: int
    completed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """For how long a store keeps what is over, by its time; zero or more of each.

    Attributes:
        ended: Instances since they ended, definitions since they were completed and
            have no instance left, and what is known of deleted ones.
        failed: Instances that failed.
        remembered: Ids, since their definition was completed.
    """

    ended: timedelta
    failed: timedelta
    remembered: timedelta
