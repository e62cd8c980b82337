"""What to do when a run fails or fire times were missed: decisions without I/O."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from go_scheduler.clock import CENTURY, ZERO
from go_scheduler.errors import ConfigurationError
from go_scheduler.shown import shown

_MOST_ATTEMPTS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """When a run that did not succeed is followed by another.

    The next run begins when ``expire_after`` has passed since the last one began,
    whether that one raised, hung, or died with its node.

    Attributes:
        max_attempts: Runs after which the instance is *failed*, at most a billion;
            None: no end. A run is counted before its handler is called, so a handler
            that kills its process is bounded too.
    """

    max_attempts: int | None = 100

    def __post_init__(self) -> None:
        runs = self.max_attempts
        if runs is None:
            return
        is_number = isinstance(runs, int) and not isinstance(runs, bool)
        if not (is_number and 1 <= runs <= _MOST_ATTEMPTS):
            raise ConfigurationError(
                f"max_attempts must be a whole number from 1 to {_MOST_ATTEMPTS:,}, or"
                f" None: {shown(runs)}"
            )

    def allows(self, runs: int) -> bool:
        """Whether an instance that ran this often may run again."""
        return self.max_attempts is None or runs < self.max_attempts

    def retry_in(
        self, *, runs: int, ran_for: timedelta, expire_after: timedelta
    ) -> timedelta | None:
        """How long after a failed run the next one is due; None: it has failed.

        Args:
            runs: The runs so far, the failed one included.
            ran_for: How long ago the failed run began.
            expire_after: How long a run of this definition may take.
        """
        if not self.allows(runs):
            return None
        return max(ZERO, expire_after - ran_for)


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
