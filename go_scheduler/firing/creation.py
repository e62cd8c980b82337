"""A node's creating side, wired: the definition scheduler, and the zone watch."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from go_scheduler.events.event_bus import LOG_ALONE, Events
from go_scheduler.firing.definition_scheduler import (
    DefinitionScheduler,
    furthest,
    longest_between_looks,
    tell_fired,
)
from go_scheduler.firing.planner import Guard, Planner
from go_scheduler.firing.zone_watch import ZoneWatch
from go_scheduler.stores.rules import uses_slot
from go_scheduler.ticking.ticker import Ticker
from go_scheduler.triggers.base import is_own

if TYPE_CHECKING:
    from collections.abc import Callable

    from go_scheduler.clock import StoreClock
    from go_scheduler.firing.definition_scheduler import Run
    from go_scheduler.models import TaskDefinition
    from go_scheduler.settings import Settings
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import Firing
    from go_scheduler.ticking.shares import Shares

_PATIENCE = timedelta(milliseconds=500)


class Creation:
    """What creates instances, and moves definitions on.

    Args:
        store: Where the definitions are.
        clock: The store's time, as this node has it.
        settings: How the loops behave.
        shares: Which definitions are this node's to fire.
        created: Called when there may be new instances.
        run: Fires what may run here at once.
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
        shares: Shares,
        created: Callable[[], None],
        run: Run,
        events: Events = LOG_ALONE,
    ) -> None:
        base = clock.base
        self._clock = clock
        self._events = events.teller("firing")
        # Whatever hangs in the one is not to keep the other from its work.
        guard = partial(
            Guard,
            base,
            patience=_PATIENCE,
            catch_up=settings.catch_up,
            jitter=settings.jitter,
        )
        self._guards = [guard() for _ in range(2)]
        planner, in_the_background = (Planner(store, each) for each in self._guards)
        self._definitions = DefinitionScheduler(
            store,
            clock,
            planner=planner,
            settings=settings,
            shares=shares,
            created=created,
            run=run,
            events=events,
        )
        zones = ZoneWatch(
            store,
            clock,
            planner=in_the_background,
            ahead=furthest(settings),
            created=created,
            events=events,
        )
        ticker = partial(Ticker, clock=base, events=events)
        self._scheduling = ticker(
            "definition scheduler",
            self._definitions.tick,
            interval=longest_between_looks(settings.schedule_window),
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

    def poll(self) -> None:
        """Look for due definitions sooner than at the next tick."""
        self._definitions.poll()
        self._scheduling.wake()

    def first_step(self, definition: TaskDefinition) -> Firing | None:
        """The step of a definition that is to be put, if that is one run, and now.

        None: it is for the loop to take it.
        """
        at, now = definition.next_fire_time, self._clock.now()
        # As the store has it, it may be later by so much: what is asked for now is due.
        # It is called no sooner for that.
        until = now + self._clock.round_trip
        is_due = at is not None and at <= until and not definition.paused
        if not is_due or not _is_plain(definition):
            return None
        firings = self._guards[0].plan(
            [definition], now=now, until=until, failed=lambda *_: None
        )
        at_once = (e for e in firings if e.skipped is None and not e.execute_times)
        return next(at_once, None)

    def tell_fired(self, firing: Firing) -> None:
        """Tell of a first step that was taken."""
        tell_fired(self._events, [firing])

    @property
    def hanging(self) -> int:
        """How many definitions have a trigger that hangs."""
        return len(set().union(*(each.hanging() for each in self._guards)))


def _is_plain(definition: TaskDefinition) -> bool:
    """Whether it is new, runs once and needs no slot, by a trigger of our own."""
    trigger = definition.trigger
    runs_once = is_own(trigger) and not (trigger.recurring or trigger.waits)
    is_new = definition.revision is None
    return runs_once and is_new and not uses_slot(definition)
