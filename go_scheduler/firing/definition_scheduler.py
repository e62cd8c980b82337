"""Loop 1, the definition scheduler: creates instances of definitions that fire soon.

The zone watch brings new data of time zones to those that fire later.
"""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias

from go_scheduler.clock import ZERO, StoreClock
from go_scheduler.events import (
    DefinitionCompleted,
    DefinitionLocked,
    DefinitionSetAside,
    DefinitionsMoved,
    InstanceCreated,
    InstanceSkipped,
)
from go_scheduler.events.event import of_definition, of_skipped
from go_scheduler.events.event_bus import LOG_ALONE, Events, Teller
from go_scheduler.firing.planner import MOST_DISPLACED, Planner
from go_scheduler.formatting import shown
from go_scheduler.stores.messages import Claimant, Fired, Firing, Own, Position
from go_scheduler.stores.rules import uses_slot
from go_scheduler.ticking.retry_later import RetryLater, write_each, write_in_halves
from go_scheduler.ticking.ticker import Pace, Repeats, Ticker
from go_scheduler.triggers.base import is_own

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence, Set
    from contextlib import AbstractContextManager
    from uuid import UUID

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.settings import Settings
    from go_scheduler.stores.base import Store
    from go_scheduler.ticking.shares import Shares


def tell_fired(events: Teller, firings: Sequence[Firing]) -> None:
    """Tell of the instances of firings, and of definitions that fire no more."""
    events.count_fired(firings)
    if events.wanted(InstanceCreated):
        for firing in firings:
            ids = of_definition(firing.definition)
            for fire_time in firing.fire_times:
                events.tell(InstanceCreated(**ids, fire_time=fire_time))
    if events.wanted(InstanceSkipped):
        for firing in firings:
            if (skipped := firing.skipped) is not None:
                events.tell(InstanceSkipped(**of_skipped(firing.definition, skipped)))
    if events.wanted(DefinitionCompleted):
        for firing in firings:
            definition = firing.definition
            if firing.next_fire_time is None and not definition.trigger.waits:
                events.tell(DefinitionCompleted(**of_definition(definition)))


# Doubled while pages are full: a long way to the store is gone a few times only.
_FIRST_PAGE = 500
_LARGEST_PAGE = 2000
_MOST_ROWS = 500
_MOST_ALONE = 10
_SECOND = timedelta(seconds=1)
_FAILED_AT_FIRST = _SECOND
_FAILED_AT_MOST = timedelta(minutes=1)
_MOST_ASIDE = 10_000
_MOST_TOLD = 1_000

Directly: TypeAlias = (
    "Callable[[Sequence[Firing]], AbstractContextManager["
    "tuple[Claimant | None, Callable[[Sequence[TaskInstance]], None]]]]"
)
"""Lets a write start what firings make: answers its claimant, and who takes that."""
_Key: TypeAlias = "tuple[int, int | None]"


def longest_between_looks(window: timedelta) -> timedelta:
    """How long to look for nothing: so that what a hint leaves out is found in time.

    Half of a long window; a whole one of a second or less, for one look fewer a second.
    """
    return max(window / 2, min(window, _SECOND))


def furthest(settings: Settings) -> timedelta:
    """How far past the store's time to create instances while it answers at once."""
    return 2 * settings.runner_window + settings.schedule_window


class DefinitionScheduler:
    """Reads definitions that fire soon, creates their instances, and moves them on.

    One tick is one page. A definition that is locked by another transaction, whose
    trigger fails, or that cannot be written, is left alone for a while, a little longer
    each time, and delays no other.

    Args:
        store: Where the definitions are.
        clock: The store's time, as this node has it.
        settings: Says how far past the store's time to create instances, how long
            after a look the next one is due that nobody asks for, and which instances
            the runner has to be told of at once.
        shares: Which definitions are this node's to fire.
        created: Called when there are such instances, and after each look: what was
            there before is to be looked for as well.
        directly: Lets what may run here at once be started by the write, as
            ``Claimer.firing``.
        events: Told of what is created, and of what cannot fire.

    Attributes:
        ticker: Lets it tick.
    """

    def __init__(
        self,
        store: Store,
        clock: StoreClock,
        settings: Settings,
        *,
        shares: Shares,
        created: Callable[[], None],
        directly: Directly,
        events: Events = LOG_ALONE,
    ) -> None:
        self._events = events.teller("firing", bounded=True)
        self._unbounded = events.teller("firing")
        self._directly = directly
        self._store = store
        self._clock = clock
        self._planner = Planner(
            store, clock.base, catch_up=settings.catch_up, jitter=settings.jitter
        )
        self._pace = Pace(furthest(settings))
        self._interval = longest_between_looks(settings.schedule_window)
        self._runner_window = settings.runner_window
        self._shares = shares
        self._created = created
        self._after: TaskDefinition | None = None
        self._page = _FIRST_PAGE
        self._asked = False
        self._polled = False
        self._again = False
        self._next_look = ZERO
        self._told: deque[TaskDefinition] = deque()
        self._repeats = Repeats(clock, settling=store.settling)
        self._aside: RetryLater[_Key] = RetryLater(
            at_first=_FAILED_AT_FIRST, at_most=_FAILED_AT_MOST
        )
        self.ticker = Ticker(
            "definition scheduler",
            self.tick,
            interval=self._interval,
            clock=clock.base,
            events=events,
        )

    @property
    def hanging(self) -> Set[UUID]:
        """The definitions whose trigger hangs here."""
        return self._planner.hanging

    def look(self, stored: TaskDefinition | None = None) -> None:
        """Begin with the first page, once this pass over the pages has ended.

        Args:
            stored: What alone may be due by now: it fires without being looked for.
        """
        if stored is not None and len(self._told) < _MOST_TOLD:
            self._told.append(stored)
        else:
            # Not sooner, else who calls this often keeps later pages from being read.
            self._asked = True
        self.ticker.wake()

    def poll(self) -> None:
        """Look as if it were time to, once this pass has ended; and once only."""
        self._polled = True
        self.ticker.wake()

    def first_step(self, definition: TaskDefinition) -> Firing | None:
        """The step of a definition that is to be put, if that is one run, and now.

        None: it is for a tick to take it.
        """
        now = self._clock.now()
        # As the store has it, it may be later by so much: what is asked for now is due.
        # It is called no sooner for that.
        until = now + self._clock.round_trip
        if not (_is_due(definition, until) and _is_plain(definition)):
            return None
        step = self._planner.step(definition, now=now, until=until)
        if isinstance(step, Exception) or step.skipped or step.execute_times:
            return None
        return step

    def tell_first(self, firing: Firing) -> None:
        """Tell of a first step that was taken."""
        tell_fired(self._unbounded, [firing])

    def tick(self) -> timedelta | None:
        """Fire what it was told of, or a page; answer how soon there may be more."""
        self._clock.refresh()
        self._events.begin()
        sent = self._clock.elapsed()
        ahead = self._pace.ahead
        if self._shares.are_any:
            # The others look one pause less far: by then this one has looked there.
            ahead += self._interval / 2
        told = self._take_told(ahead)
        if told:
            self._fire_due(told, ahead)
        looks = not told or self._must_look(sent)
        if looks:
            self._read_page(sent, ahead)
        self._pace.took(self._clock.elapsed() - sent)
        self._aside.forget_beyond(_MOST_ASIDE)
        return self._next(has_looked=looks)

    @property
    def _rests(self) -> bool:
        """Whether nothing calls for another page at once."""
        calls = self._asked or self._again or self._polled
        return self._after is None and not calls

    def _must_look(self, now: timedelta) -> bool:
        return not self._rests or self._next_look <= now

    def _read_page(self, now: timedelta, ahead: timedelta) -> None:
        after, self._after = self._after, None
        asked = after is None and self._begin_pass(now)
        limit = self._page
        page = self._due(ahead, after, limit)
        # They are tried when a page has them, unless they are gone.
        self._aside.take_busy(now)
        self._aside.take_failed(now)
        created = self._fire_due(page, ahead)
        if asked and not created:
            self._created()
        if len(page) == limit:
            self._after = page[-1]
            self._page = min(2 * limit, _LARGEST_PAGE)
        if asked:
            # Counted from now, they keep out of the way of the claim that comes next.
            self._repeats.begin()

    def _due(
        self, ahead: timedelta, after: TaskDefinition | None, limit: int
    ) -> Sequence[TaskDefinition]:
        """Read a page; what is for other nodes to fire a look later than they do."""
        if not self._shares.are_any:
            return self._store.due_definitions(ahead=ahead, after=after, limit=limit)
        # So far that one look before it is due finds what its own node has not fired.
        far_enough = self._interval + self._runner_window
        others = min(ahead, max(self._pace.window - self._interval, far_enough))
        own = Own(shards=self._shares.of_firing(), others=others)
        return self._store.due_definitions(
            ahead=ahead, after=after, limit=limit, own=own
        )

    def _take_told(self, ahead: timedelta) -> Sequence[TaskDefinition]:
        """What was stored here since the last tick, and fires soon."""
        until = self._clock.now() + ahead
        told: dict[UUID, TaskDefinition] = {}
        while self._told:
            stored = self._told.popleft()
            told[stored.id] = stored
        return [each for each in told.values() if _is_due(each, until)]

    def _fire_due(self, due: Sequence[TaskDefinition], ahead: timedelta) -> bool:
        """Fire definitions; true if the runner was told of instances due at once."""
        now = self._clock.now()
        planned = self._planner.plan(
            [each for each in due if _key(each) not in self._aside],
            now=now,
            until=now + ahead,
            failed=self._fail_to_plan,
        )
        left: list[Firing] = []
        for part in self._parts(planned.firings):
            won, started = self._fire(part)
            left += [each for each in won if each.definition.id not in started]
            if any(_has_more(each, now + ahead) for each in won):
                self._again = True
        if not planned.complete:
            self._again = True
        if created := _any_due(left, now + self._runner_window):
            self._created()
        return created

    def _begin_pass(self, now: timedelta) -> bool:
        """Begin with the first page; true if this look was asked for."""
        self._next_look = now + self._interval
        self._repeats.take()
        asked = self._asked or self._again
        self._asked = self._again = self._polled = False
        self._page = _FIRST_PAGE
        return asked

    def _parts(self, firings: Sequence[Firing]) -> Iterator[Sequence[Firing]]:
        """The firings, so many at a time that no write delays others by much.

        Those of few fire times come first, then what was locked and what has failed
        before, which must not hold up the others again.
        """
        others, locked, failed = [], [], []
        for firing in firings:
            key = _key(firing.definition)
            if self._aside.has_failed(key):
                failed.append(firing)
            elif self._aside.was_busy(key):
                locked.append(firing)
            else:
                others.append(firing)
        yield from _in_parts(sorted(others, key=_rows_of))
        yield from _in_parts(locked)
        yield from ([each] for each in failed[:_MOST_ALONE])

    def _fire(self, firings: Sequence[Firing]) -> tuple[Sequence[Firing], Set[UUID]]:
        """Fire; answer which of them have won, and of which definitions that runs."""
        started: set[UUID] = set()

        def write(some: Sequence[Firing]) -> Fired:
            with self._directly(some) as (claimant, take):
                fired = self._store.fire_definitions(some, claimant=claimant)
                won = [each for each in some if each.definition.id in fired.done]
                # Before any of it runs.
                tell_fired(self._events, won)
                take(fired.started)
            started.update(each.definition.id for each in fired.started)
            return fired

        written = write_each(firings, write, id_of=attrgetter("definition.id"))
        won = set().union(*written.done)
        for definition in (firing.definition for firing in firings):
            # Nearly always there are none: the hashes of ids take long.
            if written.busy and definition.id in written.busy:
                self._leave_busy(definition)
            elif written.failed and definition.id in written.failed:
                self._leave_failed(definition, written.failed[definition.id])
            else:
                self._aside.forget(_key(definition))
        return [each for each in firings if each.definition.id in won], started

    def _next(self, *, has_looked: bool) -> timedelta | None:
        if not self._rests:
            return ZERO
        elapsed = self._clock.elapsed()
        waits = [self._repeats.wait, self._aside.next_busy(elapsed)]
        if not has_looked:
            waits.append(self._next_look - elapsed)
        return min((each for each in waits if each is not None), default=None)

    def _leave_busy(self, definition: TaskDefinition) -> None:
        if self._aside.leave_busy(_key(definition), self._clock.elapsed()):
            self._events.tell(DefinitionLocked(**of_definition(definition)))

    def _fail_to_plan(self, definition: TaskDefinition, error: Exception) -> None:
        self._leave_failed(definition, error, at_least=_FAILED_AT_MOST)

    def _leave_failed(
        self,
        definition: TaskDefinition,
        error: Exception,
        *,
        at_least: timedelta = ZERO,
    ) -> None:
        key = _key(definition)
        is_new = not self._aside.has_failed(key)
        elapsed = self._clock.elapsed()
        delay = self._aside.leave_failed(key, elapsed, at_least=at_least)
        if is_new:
            self._events.tell(
                DefinitionSetAside(
                    **of_definition(definition),
                    retry_in=delay,
                    error=shown(error),
                    exception=error,
                )
            )


def _is_plain(definition: TaskDefinition) -> bool:
    """Whether it is new, runs once and needs no slot, by a trigger of our own."""
    trigger = definition.trigger
    runs_once = is_own(trigger) and not (trigger.recurring or trigger.waits)
    is_new = definition.revision is None
    return runs_once and is_new and not uses_slot(definition)


def _is_due(definition: TaskDefinition, until: datetime) -> bool:
    at = definition.next_fire_time
    return at is not None and at <= until and not definition.paused


def _key(definition: TaskDefinition) -> _Key:
    """One that has been edited since is another one; numbers are hashed at once."""
    return definition.id.int, definition.revision


def _in_parts(firings: Sequence[Firing]) -> Iterator[Sequence[Firing]]:
    """The firings, so many at a time that no write delays others by much."""
    part: list[Firing] = []
    rows = 0
    for firing in firings:
        part.append(firing)
        rows += _rows_of(firing)
        if rows >= _MOST_ROWS:
            yield part
            part, rows = [], 0
    if part:
        yield part


def _rows_of(firing: Firing) -> int:
    return 1 + len(firing.fire_times)


def _any_due(firings: Sequence[Firing], until: datetime) -> bool:
    return any(each.fire_times and each.fire_times[0] <= until for each in firings)


def _has_more(firing: Firing, until: datetime) -> bool:
    return firing.next_fire_time is not None and firing.next_fire_time <= until


# A node that starts has other things to do.
_WALK_AFTER = timedelta(minutes=1)
# A hundred a second, whatever there is: nobody waits for it.
_WALK_PAGE = MOST_DISPLACED
_WALK_PAUSE = timedelta(seconds=0.5)


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
        page = self._store.select_definitions(after=self._after, limit=_WALK_PAGE)
        self._move(page)
        if page.next is not None:
            self._after = page.next
            return self._clock.elapsed() + _WALK_PAUSE
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
