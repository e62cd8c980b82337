"""The lateness objective: whether runs begin as late at most as is wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.events.hub import LOG_ALONE, Events
from go_scheduler.events.node_events import ObjectiveBroken, ObjectiveMet

if TYPE_CHECKING:
    from datetime import timedelta
    from uuid import UUID

    from go_scheduler.clock import StoreClock
    from go_scheduler.running.tally import Tally

# One of so many runs may be later.
_ONE_OF = 100


class Objective:
    """Tells when more than one run in a hundred was too late in the last minute.

    Args:
        wanted: How late runs may be; None: nobody has said.
        tally: Counts those that begin.
        clock: The store's time, as this node has it.
        node: The node's id.
        events: Told of it.

    Attributes:
        wanted: How late runs may be; None: nobody has said.
        tally: Counts those that begin.
        met: Whether that is kept to; None: nobody has said how late they may be.
    """

    def __init__(
        self,
        wanted: timedelta | None,
        tally: Tally,
        *,
        clock: StoreClock,
        node: UUID,
        events: Events = LOG_ALONE,
    ) -> None:
        self.wanted = wanted
        self.tally = tally
        self._clock = clock
        self._node = node
        self._tell = events.teller("running").tell
        self._broken_at: timedelta | None = None
        if wanted is not None:
            tally.watch(wanted)

    @property
    def met(self) -> bool | None:
        """Whether that is kept to; None: nobody has said how late they may be."""
        return None if self.wanted is None else self._broken_at is None

    def look(self) -> None:
        """Judge the last minute; to be called every few seconds."""
        elapsed = self._clock.elapsed()
        self.tally.look(self._clock.at(elapsed))
        if self.wanted is None:
            return
        runs, late = self.tally.last_minute()
        is_broken = late * _ONE_OF > runs
        if is_broken and self._broken_at is None:
            self._broken_at = elapsed
            self._tell(
                ObjectiveBroken(
                    node=self._node, objective=self.wanted, runs=runs, late=late
                )
            )
        elif self._broken_at is not None and not is_broken:
            after, self._broken_at = elapsed - self._broken_at, None
            self._tell(
                ObjectiveMet(node=self._node, objective=self.wanted, after=after)
            )
