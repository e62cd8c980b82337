"""A node's creating side: the definition scheduler, and the zone watch, wired."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO, StoreClock
from go_scheduler.events.definition_events import DefinitionsMoved
from go_scheduler.events.event_bus import LOG_ALONE, Events
from go_scheduler.firing.definition_scheduler import (
    DefinitionScheduler,
    Run,
    furthest,
    longest_between_looks,
    tell_fired,
)
from go_scheduler.firing.planner import MOST_DISPLACED, Guard, Planner
from go_scheduler.stores.rules import uses_slot
from go_scheduler.ticking.retry_later import write_in_halves
from go_scheduler.ticking.ticker import Ticker
from go_scheduler.triggers.base import is_own

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from go_scheduler.models import TaskDefinition
    from go_scheduler.settings import Settings
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import Firing, Position
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


# A node that starts has other things to do.
_WALK_AFTER = timedelta(minutes=1)
# A hundred a second, whatever there is: nobody waits for it.
_PAGE = MOST_DISPLACED
_PAUSE = timedelta(seconds=0.5)


class ZoneWatch:
    """Moves what was planned by other time zone data than this node has.

    Soon after its start it walks over all definitions, page by page with pauses, since
    the node before it may have had other data. What is due by the time it is met is
    left to the definition scheduler, which looks itself.

    Args:
        store: Where the definitions are.
        clock: The store's time, as this node has it.
        planner: Says what is displaced, and where it belongs.
        ahead: So far past the store's time a definition is due.
        created: Called when there are new instances.
        events: Told of what is moved.
    """

    def __init__(
        self,
        store: Store,
        clock: StoreClock,
        *,
        planner: Planner,
        ahead: timedelta,
        created: Callable[[], None],
        events: Events = LOG_ALONE,
    ) -> None:
        self._events = events.teller("firing")
        self._store = store
        self._clock = clock
        self._planner = planner
        self._ahead = ahead
        self._created = created
        self._walk_at: timedelta | None = clock.elapsed() + _WALK_AFTER
        self._after: Position | None = None
        self._moved = 0

    def tick(self) -> timedelta | None:
        """Walk over a page, if it is time; how soon the next one is; None: never."""
        if self._walk_at is not None and self._clock.elapsed() >= self._walk_at:
            self._walk_at = self._walk()
        if self._walk_at is None:
            return None
        return max(ZERO, self._walk_at - self._clock.elapsed())

    def _walk(self) -> timedelta | None:
        """Walk over a page; answer when the next one is; None: it was the last."""
        self._clock.refresh()
        page = self._store.select_definitions(after=self._after, limit=_PAGE)
        self._move(page)
        if page.next is not None:
            self._after = page.next
            return self._clock.elapsed() + _PAUSE
        if self._moved:
            self._events.tell(DefinitionsMoved(count=self._moved))
        return None

    def _move(self, page: Sequence[TaskDefinition]) -> None:
        now = self._clock.now()
        until = now + self._ahead
        planned = self._planner.plan(
            [each for each in page if _waits_until_after(each, until)],
            now=now,
            until=until,
            failed=_leave,
        )
        moves = [each for each in planned.firings if _changes(each)]
        for answer in write_in_halves(moves, self._store.fire_definitions, _leave):
            self._moved += len(answer.done)
            done = [each for each in moves if each.definition.id in answer.done]
            tell_fired(self._events, done)
        if any(each.fire_times for each in moves):
            self._created()


def _waits_until_after(definition: TaskDefinition, until: datetime) -> bool:
    fire_time = definition.next_fire_time
    # What counts from the end of a run reads no clock: once planned, it fires.
    is_left = definition.paused or definition.trigger.waits
    return not is_left and fire_time is not None and fire_time > until


def _changes(firing: Firing) -> bool:
    stays = firing.next_fire_time == firing.definition.next_fire_time
    return bool(firing.fire_times) or not stays


def _leave(what: object, error: Exception) -> None:
    """Leave what cannot be moved; it is told of when it is due and cannot fire."""
