"""The planner: asks triggers for their steps under guard, with what has to be read."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from go_scheduler.clock import Clock, DrivingClock
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
    from collections.abc import Callable, Iterator, Sequence, Set
    from uuid import UUID

    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.messages import Firing

_PATIENCE = timedelta(milliseconds=500)
# Their whole plan has to be made within the patience.
_MOST_FOREIGN = 100
_MOST_HANGING = 4
_EARLIEST = datetime.min.replace(tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
MOST_DISPLACED = 50
"""The most definitions for which is read at once what has fired last, one by one."""

_Answer: TypeAlias = "Firing | Exception"
_Answered: TypeAlias = "tuple[TaskDefinition, _Answer]"
_Step: TypeAlias = "Callable[[TaskDefinition, int], _Answer]"


class Planned(NamedTuple):
    """What came of planning.

    Attributes:
        firings: The steps to take, in no order.
        complete: Whether there is no definition for which there was no time.
    """

    firings: Sequence[Firing]
    complete: bool


class Planner:
    """Plans definitions: the package's own triggers in place, foreign ones on a thread.

    A foreign trigger that does not answer in time is left behind with its thread, at
    most four at a time; while there are four, no foreign trigger is called. What time
    zones have displaced is planned by what has fired last.

    Args:
        store: Tells what has fired last, and how much waits.
        clock: Measures how long a trigger takes. On a driving clock, which has no
            threads, foreign triggers are called in place.
        catch_up: For definitions that do not say.
        jitter: Likewise.
        patience: How long the plan of one definition may take.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        catch_up: CatchUp = CatchUp(),
        jitter: timedelta | None = None,
        patience: timedelta = _PATIENCE,
    ) -> None:
        self._store = store
        self._clock = clock
        self._catch_up = catch_up
        self._jitter = jitter
        self._patience = patience
        self._left_behind: list[_Helper] = []

    @property
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
    ) -> Planned:
        """Plan the step of each definition, of as much as may wait.

        Args:
            definitions: The definitions, with a ``next_fire_time``.
            now: The store's time.
            until: How far ahead to go.
            failed: Told of each whose trigger raised, misbehaved or hung.
        """
        last: dict[UUID, LastFired] = {}

        def step(definition: TaskDefinition, most: int) -> _Answer:
            known = last.get(definition.id)
            return self.step(definition, now=now, until=until, most=most, last=known)

        firings: list[Firing] = []
        displaced: list[TaskDefinition] = []

        def ask(some: Sequence[TaskDefinition]) -> None:
            for definition, answer in self._ask(some, step):
                if isinstance(answer, DisplacedError):
                    displaced.append(definition)
                elif isinstance(answer, Exception):
                    failed(definition, answer)
                else:
                    firings.append(answer)

        ask(definitions)
        known = displaced[:MOST_DISPLACED]
        last.update((each.id, self._last_fired(each)) for each in known)
        ask(known)
        firings = [self._within_queue(each) for each in firings]
        return Planned(firings, complete=len(known) == len(displaced))

    def step(
        self,
        definition: TaskDefinition,
        *,
        now: datetime,
        until: datetime,
        most: int = MOST_FIRE_TIMES,
        last: LastFired | None = None,
    ) -> _Answer:
        """The step of one definition, whose trigger is called here, or its error.

        Args:
            definition: The definition.
            now: The store's time.
            until: How far ahead to go.
            most: As for ``steps.plan``.
            last: Likewise.
        """
        asked = definition
        if definition.jitter is None and self._jitter is not None:
            asked = changed(definition, jitter=self._jitter)
        try:
            firing = plan(
                asked,
                now=now,
                until=until,
                catch_up=self._catch_up,
                most=most,
                last=last,
            )
        except Exception as error:
            return error
        # Foreign code: SystemExit from a trigger must not look like ours.
        except BaseException as error:
            return InvalidTriggerError(f"the trigger raised {shown(error)}")
        return firing if asked is definition else replace(firing, definition=definition)

    def _ask(
        self, definitions: Sequence[TaskDefinition], step: _Step
    ) -> Iterator[_Answered]:
        hanging = self._hanging()
        foreign: deque[TaskDefinition] = deque()
        for definition in definitions:
            if is_own(definition.trigger):
                yield definition, step(definition, MOST_FIRE_TIMES)
            elif isinstance(self._clock, DrivingClock):
                yield definition, step(definition, _MOST_FOREIGN)
            elif (definition.id, definition.revision) in hanging:
                yield definition, _hung("it has not answered yet")
            else:
                foreign.append(definition)
        while foreign:
            yield from self._ask_on_a_thread(foreign, step)

    def _ask_on_a_thread(
        self, foreign: deque[TaskDefinition], step: _Step
    ) -> Iterator[_Answered]:
        """Ask until all have answered or one hangs; none if there are too many."""
        self._left_behind = [each for each in self._left_behind if not each.done]
        if len(self._left_behind) >= _MOST_HANGING:
            refusal = _hung("as many as are allowed to do so already")
            while foreign:
                yield foreign.popleft(), refusal
            return
        helper = _Helper(foreign, step, self._clock)
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


class _Helper:
    """A thread that takes definitions off a queue until it is empty, or until left."""

    def __init__(
        self, waiting: deque[TaskDefinition], step: _Step, clock: Clock
    ) -> None:
        self.done = False
        self.hung: TaskDefinition | None = None
        self._waiting = waiting
        self._step = step
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
            result = (definition, self._step(definition, _MOST_FOREIGN))
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
