"""The guard: calls triggers so that one that raises or hangs costs only its definition."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from go_scheduler.clock import DrivingClock
from go_scheduler.errors import InvalidTriggerError
from go_scheduler.planner import plan
from go_scheduler.ticker import Ticker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence, Set
    from datetime import datetime, timedelta
    from uuid import UUID

    from go_scheduler.clock import Clock
    from go_scheduler.models import Firing, TaskDefinition

_MOST_HANGING = 4


class Guard:
    """Plans firings: the package's own triggers in place, foreign ones on a thread.

    A foreign trigger that does not answer in time is left behind with its thread, at most
    four at a time; while there are four, no foreign trigger is called.

    Args:
        clock: Measures how long a trigger takes. On a driving clock, which has no threads,
            foreign triggers are called in place.
        patience: How long one call may take.
    """

    def __init__(self, clock: Clock, *, patience: timedelta) -> None:
        self._clock = clock
        self._patience = patience
        self._helpers: list[_Helper] = []

    def hanging(self) -> Set[UUID]:
        """The definitions whose trigger was called and has not answered yet."""
        self._helpers = [helper for helper in self._helpers if not helper.done]
        return {helper.hung.id for helper in self._helpers if helper.hung is not None}

    def plan(
        self,
        definitions: Sequence[TaskDefinition],
        *,
        now: datetime,
        until: datetime,
        failed: Callable[[TaskDefinition, Exception], None],
    ) -> Sequence[Firing]:
        """Plan the step of each definition.

        Args:
            definitions: Due definitions.
            now: The store's time.
            until: How far ahead to go.
            failed: Told of each whose trigger raised, misbehaved or hung.

        Returns:
            The firings of the others, in no order.
        """
        firings: list[Firing] = []
        foreign: deque[TaskDefinition] = deque()

        def plan_one(definition: TaskDefinition) -> Firing | Exception:
            try:
                return plan(definition, now=now, until=until)
            # Foreign code: SystemExit from a trigger must not look like ours.
            except BaseException as error:
                if isinstance(error, Exception):
                    return error
                return InvalidTriggerError(f"the trigger raised {error!r}")

        def take(definition: TaskDefinition, result: Firing | Exception) -> None:
            if isinstance(result, Exception):
                failed(definition, result)
            else:
                firings.append(result)

        hanging = self.hanging()
        for definition in definitions:
            if self._is_trusted(definition):
                take(definition, plan_one(definition))
            elif definition.id in hanging:
                failed(definition, _hung("it has not answered yet"))
            else:
                foreign.append(definition)
        while foreign:
            if len(self.hanging()) >= _MOST_HANGING:
                for definition in foreign:
                    failed(definition, _hung("as many as are allowed to do so already"))
                break
            helper = _Helper(foreign, plan_one, self._clock)
            for definition, result in helper.run(self._patience):
                take(definition, result)
            if helper.hung is not None:
                self._helpers.append(helper)
                failed(
                    helper.hung, _hung(f"it did not answer within {self._patience}")
                )
        return firings

    def _is_trusted(self, definition: TaskDefinition) -> bool:
        if isinstance(self._clock, DrivingClock):
            return True
        return type(definition.trigger).__module__.startswith("go_scheduler.")


class _Helper:
    """A thread that takes definitions off a queue until it is empty, or until left."""

    def __init__(
        self,
        waiting: deque[TaskDefinition],
        plan_one: Callable[[TaskDefinition], Firing | Exception],
        clock: Clock,
    ) -> None:
        self.done = False
        self.hung: TaskDefinition | None = None
        self._waiting = waiting
        self._plan_one = plan_one
        self._clock = clock
        self._condition = threading.Condition()
        self._results: list[tuple[TaskDefinition, Firing | Exception]] = []
        self._ticker = Ticker("trigger helper", self._work, interval=None, clock=clock)

    def run(
        self, patience: timedelta
    ) -> Sequence[tuple[TaskDefinition, Firing | Exception]]:
        """Plan until the queue is empty, or one takes longer than ``patience``.

        Returns:
            What was planned. If ``hung`` is not None, that one was not.
        """
        self._ticker.start()
        with self._condition:
            while not self.done and self._advances(patience):
                pass
            if not self.done:
                self.hung = self._current
            return self._results

    def _advances(self, patience: timedelta) -> bool:
        seen = len(self._results)
        deadline = self._clock.elapsed() + patience
        while not self.done and len(self._results) == seen:
            if self._clock.elapsed() >= deadline:
                return False
            self._clock.wait(self._condition, deadline)
        return True

    def _work(self) -> None:
        while (definition := self._take()) is not None:
            result = self._plan_one(definition)
            with self._condition:
                if self.hung is None:
                    self._results.append((definition, result))
                    self._condition.notify()
        self._ticker.stop()

    def _take(self) -> TaskDefinition | None:
        with self._condition:
            if self.hung is not None or not self._waiting:
                self.done = True
                self._condition.notify()
                return None
            self._current = self._waiting.popleft()
            return self._current


def _hung(what: str) -> InvalidTriggerError:
    return InvalidTriggerError(f"its trigger hangs: {what}")
