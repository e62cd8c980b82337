"""A put into a ``MemoryStore``, planned before anything changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.memory.stored import StoredDefinition
    from go_scheduler.stores.messages import Tombstone


class PutPlan(NamedTuple):
    """A put that changes nothing yet.

    Attributes:
        definition: The one to put.
        row: The row that has its id.
        over: The tombstone, if it has ended before and is not to run again.
        equal: Whether it is the same as that of the row.
        goes_on: Whether when it fires stays as it is.
    """

    definition: TaskDefinition
    row: StoredDefinition | None
    over: Tombstone | None = None
    equal: bool = False
    goes_on: bool = False

    @property
    def is_new(self) -> bool:
        """Whether it makes a new row."""
        return self.row is None and self.over is None
