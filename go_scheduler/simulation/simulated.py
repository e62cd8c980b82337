"""What a simulation comes to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from go_scheduler.models import TaskDefinition


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """Something that the clocks of a zone do.

    Attributes:
        at: When, in UTC.
        text: What, for a person to read.
    """

    at: datetime
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """What one definition would do.

    Attributes:
        definition: It.
        duration: How long each of its runs was taken to last.
        starts: When its runs would begin, the earliest first, in UTC.
        fires: How often it would fire.
        skipped: How many of these its ``overlap`` would have skipped.
        waited: How many would have waited for another one to end.
        longest_wait: How long, at most.
        most_at_once: How many of it would run at once, at most.
        effects: What the clocks do to its fire times.
        warnings: What may not be meant so, a sentence each.
    """

    definition: TaskDefinition
    duration: timedelta
    starts: tuple[datetime, ...]
    fires: int
    skipped: int
    waited: int
    longest_wait: timedelta
    most_at_once: int
    effects: tuple[Effect, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """What all of them would do together.

    Attributes:
        start: From then on.
        end: Up to then.
        definitions: Each of them, in the order given.
        minutes: How many runs would begin in each minute in which any does, earliest
            first.
        most_at_once: How many would run at once, at most.
        most_at_once_at: When that is first so; None: nothing runs.
        short_minutes: In how many minutes more would run at once than there are
            workers.
        changes: Where the clocks change in zones of these definitions.
        warnings: What is to be said of all of them, a sentence each.
    """

    start: datetime
    end: datetime
    definitions: tuple[Simulated, ...]
    minutes: Mapping[datetime, int]
    most_at_once: int
    most_at_once_at: datetime | None
    short_minutes: int
    changes: tuple[Effect, ...]
    warnings: tuple[str, ...]

    @property
    def fires(self) -> int:
        """How often they would fire."""
        return sum(each.fires for each in self.definitions)

    @property
    def busiest(self) -> tuple[datetime, int] | None:
        """The minute in which most runs begin, and how many; None: none begins."""
        if not self.minutes:
            return None
        return max(self.minutes.items(), key=lambda each: each[1])
