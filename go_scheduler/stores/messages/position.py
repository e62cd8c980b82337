"""Where a list goes on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from go_scheduler.models import TaskDefinition, TaskInstance


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a page of a list ends, and the next one goes on.

    Attributes:
        at: The last one's time, if the list is in the order of times: the
            ``next_fire_time`` of a definition, the ``execute_at`` of an instance.
        id: Its id.
    """

    at: datetime | None
    id: UUID

    @classmethod
    def of_definition(cls, last: TaskDefinition) -> Position:
        """Behind this one."""
        return cls(at=last.next_fire_time, id=last.id)

    @classmethod
    def of_instance(cls, last: TaskInstance) -> Position:
        """Behind this one."""
        return cls(at=last.execute_at, id=last.id)
