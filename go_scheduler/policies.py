"""What to do when fire times were missed: decisions without I/O."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from go_scheduler.clock import CENTURY, ZERO
from go_scheduler.errors import ConfigurationError
from go_scheduler.shown import shown


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUp:
    """What becomes of fire times that passed while nothing served them.

    Each missed fire time within ``grace`` becomes an instance. If there is none, the
    latest missed one does. All older ones are recorded in one skipped row.

    Attributes:
        grace: How far back a missed fire time still runs; zero or more, at most 100
            years.
    """

    grace: timedelta = timedelta(minutes=1)

    def __post_init__(self) -> None:
        if not isinstance(self.grace, timedelta) or not (ZERO <= self.grace <= CENTURY):
            raise ConfigurationError(
                "grace must be a timedelta of zero or more, and at most 100 years:"
                f" {shown(self.grace)}"
            )
