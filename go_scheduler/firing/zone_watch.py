"""The zone watch: brings new data of time zones to definitions that wait to fire."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO, StoreClock
from go_scheduler.events import DefinitionsMoved
from go_scheduler.events.event_bus import LOG_ALONE, Events
from go_scheduler.firing.definition_scheduler import furthest, tell_fired
from go_scheduler.firing.planner import MOST_DISPLACED, Planner
from go_scheduler.ticking.retry_later import write_in_halves
from go_scheduler.ticking.ticker import Ticker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence, Set
    from uuid import UUID

    from go_scheduler.models import TaskDefinition
    from go_scheduler.settings import Settings
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import Firing, Position

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
        settings: Say how far past the store's time a definition is due.
        created: Called when there are new instances.
        events: Told of what is moved.

    Attributes:
        ticker: Lets it tick.
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
        self._events = events.teller("firing")
        self._store = store
        self._clock = clock
        # One of its own: whatever hangs here is not to keep others from firing.
        self._planner = Planner(
            store, clock.base, catch_up=settings.catch_up, jitter=settings.jitter
        )
        self._ahead = furthest(settings)
        self._created = created
        self._walk_at: timedelta | None = clock.elapsed() + _WALK_AFTER
        self._after: Position | None = None
        self._moved = 0
        self.ticker = Ticker(
            "zone watch", self.tick, interval=None, clock=clock.base, events=events
        )

    @property
    def hanging(self) -> Set[UUID]:
        """The definitions whose trigger hangs here."""
        return self._planner.hanging

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
