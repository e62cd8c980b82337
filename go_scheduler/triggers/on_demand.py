"""The trigger of work that is done only when somebody asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from go_scheduler.argument_hints import write_instead
from go_scheduler.checks import check_type
from go_scheduler.json import NOTHING, FrozenObject
from go_scheduler.triggers.base import Trigger

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from go_scheduler.json import JSON

_PASSING = FrozenObject(lasting=False)


@write_instead("OnDemandTrigger()")
@dataclass(frozen=True, slots=True)
class OnDemandTrigger(Trigger):
    """Never fires: ``enqueue()`` and ``run_now()`` make each instance.

    A definition that has it is never completed, and stays until it is deleted. One that
    does not last is completed as soon as it is scheduled: it can be run all the same,
    and is cleaned up when ``retention`` has passed and none of its instances is left.

    Args:
        lasting: Whether its definition stays.
    """

    kind: ClassVar[str] = "on_demand"
    recurring: ClassVar[bool] = False
    lasting: bool = True

    def to_dict(self) -> Mapping[str, JSON]:
        """Nothing, of one that lasts."""
        return NOTHING if self.lasting else _PASSING

    def __post_init__(self) -> None:
        check_type("lasting", self.lasting, bool)

    def next_fire_time(self, after: datetime) -> datetime | None:
        """None.

        Args:
            after: Any aware instant; it makes no difference.
        """
        return None

    def describe(self) -> str:
        """``on demand``."""
        return "on demand"
