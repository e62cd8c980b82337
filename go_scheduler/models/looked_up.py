"""What is read for people to look at: bounded numbers, and what waits in queues."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

COUNTED = 10_000
"""So many are counted, and no more, where nothing else is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """How many there are, as far as was counted; as text, such as ``10,000+``.

    Attributes:
        count: So many.
        more: Whether there are more, or may be.
    """

    count: int
    more: bool = False

    @classmethod
    def up_to(cls, most: int, found: int) -> Counted:
        """A number that need be known no further than this."""
        return cls(count=min(most, found), more=found > most)

    def __str__(self) -> str:
        return f"{self.count:,}+" if self.more else f"{self.count:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What is due in a queue and has not been claimed.

    Attributes:
        queue: The queue.
        due: How many instances.
        oldest: The earliest ``due_at`` of those that were counted.
    """

    queue: str
    due: Counted
    oldest: datetime
