"""A node's creating side, wired: the definition scheduler, and the zone watch."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from go_scheduler.events.hub import LOG_ALONE, Events
from go_scheduler.firing.definition_scheduler import DefinitionScheduler
from go_scheduler.firing.guard import Guard
from go_scheduler.firing.planner import Planner
from go_scheduler.firing.zone_watch import ZoneWatch
from go_scheduler.ticking.pace import Pace
from go_scheduler.ticking.ticker import Ticker

if TYPE_CHECKING:
    from collections.abc import Callable

    from go_scheduler.clock import StoreClock
    from go_scheduler.models import TaskDefinition
    from go_scheduler.settings import Settings
    from go_scheduler.stores.base import Store

_PATIENCE = timedelta(milliseconds=500)


class Creation:
    """What creates instances, and moves definitions on.

    Args:
        store: Where the definitions are.
        clock: The store's time, as this node has it.
        settings: How the loops behave.
        created: Called when there may be new instances.
        events: Told of what happens.

    Attributes:
        tickers: Those of its loops.
    """

    def __init__(
        self,
        store: Store,
        clock: StoreClock,
        settings: Settings,
        *,
        created: Callable[[], None],
        events: Events = LOG_ALONE,
    ) -> None:
        base = clock.base
        # Whatever hangs in the one is not to keep the other from its work.
        guard = partial(Guard, base, patience=_PATIENCE, catch_up=settings.catch_up)
        self._guards = [guard() for _ in range(2)]
        planner, in_the_background = (Planner(store, each) for each in self._guards)
        ahead = 2 * settings.runner_window + settings.schedule_window
        self._definitions = DefinitionScheduler(
            store,
            clock,
            planner=planner,
            pace=Pace(ahead),
            settings=settings,
            created=created,
            events=events,
        )
        zones = ZoneWatch(
            store,
            clock,
            planner=in_the_background,
            ahead=ahead,
            created=created,
            events=events,
        )
        ticker = partial(Ticker, clock=base, events=events)
        half = settings.schedule_window / 2
        self._scheduling = ticker(
            "definition scheduler", self._definitions.tick, interval=half
        )
        watching = ticker("zone watch", zones.tick, interval=None)
        self.tickers = [self._scheduling, watching]

    def look(self, stored: TaskDefinition | None) -> None:
        """Look for due definitions at once.

        Args:
            stored: One that has been stored a moment ago; None: there may be others.
        """
        self._definitions.look(stored)
        self._scheduling.wake()

    @property
    def hanging(self) -> int:
        """How many definitions have a trigger that hangs."""
        return len(set().union(*(each.hanging() for each in self._guards)))
