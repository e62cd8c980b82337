"""The planner: asks triggers for their steps under guard, with what has to be read."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from go_scheduler.clock import Clock, DrivingClock, StoreClock
from go_scheduler.errors import InvalidTriggerError
from go_scheduler.firing.steps import (
    MOST_FIRE_TIMES,
    DisplacedError,
    LastFired,
    plan,
    within_queue,
)
from go_scheduler.formatting import shown
from go_scheduler.models.values import changed
from go_scheduler.policies import CatchUp
from go_scheduler.stores.base import Store, count_unstarted
from go_scheduler.stores.filters import Filter
from go_scheduler.ticking.ticker import Ticker
from go_scheduler.triggers.base import is_own

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence, Set
    from uuid import UUID

    from go_scheduler.models import TaskDefinition
    from go_scheduler.settings import Settings
    from go_scheduler.stores.messages import Firing

_PATIENCE = timedelta(milliseconds=500)
# Their whole plan has to be made within the patience.
_MOST_FOREIGN = 100
_MOST_HANGING = 4
_Answered: TypeAlias = "tuple[TaskDefinition, Firing | Exception]"
_NOTHING_KNOWN: Mapping[UUID, LastFired] = MappingProxyType({})


class Guard:
    """Plans firings: the package's own triggers in place, foreign ones on a thread.

    A foreign trigger that does not answer in time is left behind with its thread, at
    most four at a time; while there are four, no foreign trigger is called.

    Args:
        clock: Measures how long a trigger takes. On a driving clock, which has no
            threads, foreign triggers are called in place.
        patience: How long the plan of one definition may take.
        catch_up: For definitions that do not say.
        jitter: Likewise.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        patience: timedelta,
        catch_up: CatchUp = CatchUp(),
        jitter: timedelta | None = None,
    ) -> None:
        self._clock = clock
        self._patience = patience
        self._catch_up = catch_up
        self._jitter = jitter
        self._left_behind: list[_Helper] = []

    @classmethod
    def of(cls, settings: Settings, clock: StoreClock) -> Guard:
        """One for a loop of a node."""
        return cls(
            clock.base,
            patience=_PATIENCE,
            catch_up=settings.catch_up,
            jitter=settings.jitter,
        )

    def hanging(self) -> Set[UUID]:
        """The definitions whose trigger was called and has not answered yet."""
        # Asked by other threads as well, so it forgets nobody: only plan() does.
        return {id for id, _ in self._hanging()}

    def plan(
        self,
        definitions: Sequence[TaskDefinition],
        *,
        now: datetime,
        until: datetime,
        failed: Callable[[TaskDefinition, Exception], None],
        last: Mapping[UUID, LastFired] = _NOTHING_KNOWN,
    ) -> Sequence[Firing]:
        """Plan the step of each definition.

        Args:
            definitions: Due definitions.
            now: The store's time.
            until: How far ahead to go.
            failed: Told of each whose trigger raised, misbehaved or hung, or of which
                has to be known what fired last.
            last: What fired last of those of which that is known.

        Returns:
            The firings of the others, in no order.
        """
        question = _Question(now, until, self._catch_up, self._jitter, last)
        firings: list[Firing] = []
        for definition, answer in self._ask(definitions, question):
            if isinstance(answer, Exception):
                failed(definition, answer)
            else:
                firings.append(answer)
        return firings

    def _ask(
        self, definitions: Sequence[TaskDefinition], question: _Question
    ) -> Iterator[_Answered]:
        hanging = self._hanging()
        foreign: deque[TaskDefinition] = deque()
        for definition in definitions:
            if is_own(definition.trigger):
                yield definition, question.answer(definition, MOST_FIRE_TIMES)
            elif isinstance(self._clock, DrivingClock):
                yield definition, question.answer(definition, _MOST_FOREIGN)
            elif (definition.id, definition.revision) in hanging:
                yield definition, _hung("it has not answered yet")
            else:
                foreign.append(definition)
        while foreign:
            yield from self._ask_on_a_thread(foreign, question)

    def _ask_on_a_thread(
        self, foreign: deque[TaskDefinition], question: _Question
    ) -> Iterator[_Answered]:
        """Ask until all have answered or one hangs; none if there are too many."""
        self._left_behind = [each for each in self._left_behind if not each.done]
        if len(self._left_behind) >= _MOST_HANGING:
            while foreign:
                yield (
                    foreign.popleft(),
                    _hung("as many as are allowed to do so already"),
                )
            return
        helper = _Helper(foreign, question, self._clock)
        yield from helper.run(self._patience)
        if helper.hung is not None:
            self._left_behind.append(helper)
            yield helper.hung, _hung(f"it did not answer within {self._patience}")

    def _hanging(self) -> Set[tuple[UUID, int | None]]:
        """The id and the revision of each, as another revision may have been mended."""
        return {
            (helper.hung.id, helper.hung.revision)
            for helper in self._left_behind
            if helper.hung is not None and not helper.done
        }


class _Question(NamedTuple):
    """What each definition is asked: its step by now."""

    now: datetime
    until: datetime
    catch_up: CatchUp
    jitter: timedelta | None
    last: Mapping[UUID, LastFired]

    def answer(self, definition: TaskDefinition, most: int) -> Firing | Exception:
        """The step of a definition of so many fire times at most, or its error."""
        if definition.jitter is None and self.jitter is not None:
            found = self.answer(changed(definition, jitter=self.jitter), most)
            if isinstance(found, Exception):
                return found
            return replace(found, definition=definition)
        try:
            return plan(
                definition,
                now=self.now,
                until=self.until,
                catch_up=self.catch_up,
                most=most,
                last=self.last.get(definition.id),
            )
        # Foreign code: SystemExit from a trigger must not look like ours.
        except BaseException as error:
            if isinstance(error, Exception):
                return error
            return InvalidTriggerError(f"the trigger raised {shown(error)}")


class _Helper:
    """A thread that takes definitions off a queue until it is empty, or until left."""

    def __init__(
        self,
        waiting: deque[TaskDefinition],
        question: _Question,
        clock: Clock,
    ) -> None:
        self.done = False
        self.hung: TaskDefinition | None = None
        self._waiting = waiting
        self._question = question
        self._clock = clock
        self._condition = threading.Condition()
        self._called: timedelta | None = None
        self._results: list[_Answered] = []
        self._ticker = Ticker("trigger helper", self._work, interval=None, clock=clock)

    def run(self, patience: timedelta) -> Sequence[_Answered]:
        """Plan until the queue is empty, or one takes longer than ``patience``.

        Returns:
            What was planned. If ``hung`` is not None, that one was not.
        """
        self._ticker.start()
        with self._condition:
            while not self.done:
                # The patience counts from the call, however late the thread came to it.
                until = None if self._called is None else self._called + patience
                if until is not None and self._clock.elapsed() >= until:
                    self.hung = self._current
                    break
                self._clock.wait(self._condition, until)
            return self._results

    def _work(self) -> None:
        result = None
        while (definition := self._take(result)) is not None:
            result = (definition, self._question.answer(definition, _MOST_FOREIGN))
        self._ticker.stop()

    def _take(self, result: _Answered | None) -> TaskDefinition | None:
        """Hand in what was planned and take the next, in one step."""
        with self._condition:
            self._condition.notify()
            if result is not None and self.hung is None:
                self._results.append(result)
            if self.hung is not None or not self._waiting:
                self.done = True
                return None
            self._current = self._waiting.popleft()
            self._called = self._clock.elapsed()
            return self._current


def _hung(what: str) -> InvalidTriggerError:
    return InvalidTriggerError(f"its trigger hangs: {what}")


_EARLIEST = datetime.min.replace(tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
MOST_DISPLACED = 50
"""The most definitions for which is read at once what has fired last, one by one."""


class Planned(NamedTuple):
    """What came of planning.

    Attributes:
        firings: The steps to take, in no order.
        complete: Whether there is no definition for which there was no time.
    """

    firings: Sequence[Firing]
    complete: bool


class Planner:
    """Plans definitions; what time zones have displaced by what has fired last.

    Args:
        store: Tells what has fired last.
        guard: Calls the triggers.
    """

    def __init__(self, store: Store, guard: Guard) -> None:
        self._store = store
        self._guard = guard

    def plan(
        self,
        definitions: Sequence[TaskDefinition],
        *,
        now: datetime,
        until: datetime,
        failed: Callable[[TaskDefinition, Exception], None],
    ) -> Planned:
        """Plan the step of each definition.

        Args:
            definitions: The definitions, with a ``next_fire_time``.
            now: The store's time.
            until: How far ahead to go.
            failed: Told of each whose trigger raised, misbehaved or hung.
        """
        displaced: list[TaskDefinition] = []

        def fail(definition: TaskDefinition, error: Exception) -> None:
            if isinstance(error, DisplacedError):
                displaced.append(definition)
            else:
                failed(definition, error)

        planned = self._guard.plan(definitions, now=now, until=until, failed=fail)
        firings = [self._within_queue(each) for each in planned]
        if not displaced:
            return Planned(firings, complete=True)
        some = displaced[:MOST_DISPLACED]
        last = {each.id: self._last_fired(each) for each in some}
        found = self._guard.plan(some, now=now, until=until, failed=failed, last=last)
        more = [self._within_queue(each) for each in found]
        return Planned([*firings, *more], complete=len(some) == len(displaced))

    def _within_queue(self, firing: Firing) -> Firing:
        """A step, of as much as may wait; what is beyond it is left out."""
        most = firing.definition.max_queue
        if most is None or firing.definition.trigger.waits or not firing.fire_times:
            return firing
        waiting = count_unstarted(self._store, firing.definition.id, most=most)
        return within_queue(firing, most - waiting)

    def _last_fired(self, definition: TaskDefinition) -> LastFired:
        last, since = None, _EARLIEST
        # By a jitter an earlier fire time may run later: each look is behind the last.
        while newest := self._store.select(
            Filter(definition_id=definition.id, fired_since=since),
            descending=True,
            limit=1,
        ):
            fired = newest[0].fire_time
            assert fired is not None
            since = fired + _MICROSECOND
            # Before one that was backfilled the schedule need not have fired.
            last = fired if newest[0].backfilled is None else last
        return LastFired(last)
