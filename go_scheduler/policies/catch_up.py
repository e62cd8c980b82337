"""What to do when fire times were missed: decisions without I/O."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Literal

from go_scheduler.argument_hints import write_instead
from go_scheduler.checks import check_at_least
from go_scheduler.clock import ZERO
from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import shown


@write_instead('CatchUp(mode="all", within=timedelta(hours=1))')
@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUp:
    """What becomes of fire times that are late because nothing served them in time.

    Fire times that are late by ``grace`` at most all run. Later ones were *missed*, and
    the ``mode`` says which of them run. What does not run is recorded as skipped.

    All is counted from ``execute_at``. A ``DelayTrigger`` has no times that could be
    missed: what it fires runs, however late.

    Attributes:
        mode: ``"latest"`` runs the latest that was missed, unless a later fire time
            runs anyway; ``"all"`` runs all of them, the oldest first; ``"none"`` none.
        grace: How late a fire time may be without being missed; zero or more.
        within: How late a missed one may be and still run; None: any time.
        drop_after: What is later than this never runs, whatever the other fields say.
            That includes one-offs, retries, and what was in time when its instance was
            made. None: nothing is too late.

    Raises:
        ConfigurationError: The mode is none of these, or a duration is none, below zero
            (``drop_after``: not above zero), or above 100 years.
    """

    mode: Literal["latest", "all", "none"] = "latest"
    grace: timedelta = timedelta(seconds=10)
    within: timedelta | None = None
    drop_after: timedelta | None = None

    def __post_init__(self) -> None:
        if self.mode not in _MODES:
            raise ConfigurationError(
                f"mode must be one of {', '.join(map(repr, _MODES))}:"
                f" {shown(self.mode)}"
            )
        check_at_least("grace", self.grace, ZERO)
        if self.within is not None:
            check_at_least("within", self.within, ZERO)
        if self.drop_after is not None:
            check_at_least("drop_after", self.drop_after, ZERO)
            if not self.drop_after:
                raise ConfigurationError(
                    "drop_after must be more than zero: nothing starts at the very"
                    " instant it is due"
                )

    @property
    def dropping_alone(self) -> CatchUp:
        """The part that applies to what was late already when it was scheduled."""
        return _dropping(self.drop_after)

    def drops(self, late: timedelta) -> bool:
        """Whether what is so late never runs."""
        return self.drop_after is not None and late > self.drop_after

    @property
    def each(self) -> timedelta | None:
        """How late a fire time may be that runs in any case; None: any time."""
        if self.mode == "all":
            return self.latest
        return self._or_dropped(self.grace)

    @property
    def latest(self) -> timedelta | None:
        """How late the latest missed one may be, or each if all run."""
        # ``within`` does not restrict what is not missed.
        within = None if self.within is None else max(self.within, self.grace)
        return self._or_dropped(within)

    def why_not(self, instead: str | None = None) -> str:
        """Why what is too late does not run, for a person to read.

        Args:
            instead: What to say of a later fire time that runs; None: there is none.
        """
        is_latest = self.mode == "latest" and instead is None
        late = self.latest if is_latest else self.each
        if late == self.drop_after:
            why = f"late by more than its drop_after of {late}"
        elif late == self.grace:
            why = f"missed by more than the grace of {late}"
        else:
            why = f"missed by more than {late}, within which it would be caught up"
        if self.mode == "latest" and instead is not None:
            return f"{why}; {instead}"
        if self.mode == "none" and late == self.grace:
            return f"{why}; of what was missed nothing is caught up"
        return why

    def _or_dropped(self, late: timedelta | None) -> timedelta | None:
        if self.drop_after is None or late is None:
            return late if self.drop_after is None else self.drop_after
        return min(late, self.drop_after)


_MODES = ("latest", "all", "none")


# Each one-off that is late when it is scheduled asks for it.
@lru_cache(maxsize=100)
def _dropping(drop_after: timedelta | None) -> CatchUp:
    return CatchUp(mode="all", drop_after=drop_after)
