"""The trigger of work that is done only when somebody asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from go_scheduler.instead import write_instead
from go_scheduler.triggers.base import Trigger

if TYPE_CHECKING:
    from datetime import datetime


@write_instead("OnDemandTrigger()")
@dataclass(frozen=True, slots=True)
class OnDemandTrigger(Trigger):
    """Never fires: ``enqueue()`` and ``run_now()`` make each instance.

    A definition that has it is never completed, and stays until it is deleted.
    """

    kind: ClassVar[str] = "on_demand"
    recurring: ClassVar[bool] = False

    def next_fire_time(self, after: datetime) -> datetime | None:
        """None.

        Args:
            after: Any aware instant; it makes no difference.
        """
        return None

    def describe(self) -> str:
        """``on demand``."""
        return "on demand"
