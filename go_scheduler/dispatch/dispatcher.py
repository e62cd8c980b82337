"""The dispatcher: a handler that has its instances run by workers on a message bus."""

from __future__ import annotations

import logging
import random
import threading
from asyncio import wrap_future
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.checks import check_made, check_type
from go_scheduler.clock import ZERO, Clock, SystemClock
from go_scheduler.dispatch.bus import OPENER, MessageBus
from go_scheduler.dispatch.messages.message import Run
from go_scheduler.dispatch.recording import Hearing, Timeouts, Topics
from go_scheduler.errors import BusUnavailableError, ConfigurationError
from go_scheduler.formatting import shown
from go_scheduler.handlers.job_types import unmarked
from go_scheduler.run import Fail, GiveBack, HandedOn, run_here
from go_scheduler.running.held import HeldRun
from go_scheduler.running.remote_runs import HandedOut
from go_scheduler.scheduler import Scheduler
from go_scheduler.trace_context import parted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from go_scheduler.models import TaskInstance

_LOG = logging.getLogger("go_scheduler.dispatch")
_AWAY = "the message bus cannot be reached"
_UNHEARD = (
    "this process does not receive the statuses of workers in namespace %r: unless"
    " another process does, each run will count as not accepted, and run again; enter"
    " `dispatcher.hearing(scheduler)` before the scheduler starts"
)
# The namespaces of which this process has received statuses, by any dispatcher.
_HEARD: set[str] = set()
_FIRST_DELAY, _LONGEST_DELAY = timedelta(seconds=1), timedelta(seconds=5)
# Of thousands of waiting runs only so many come back at once: a node has other work.
_APART, _LONGEST_TURN = timedelta(milliseconds=2), timedelta(minutes=1)


class Dispatcher:
    """A handler that publishes each run on a message bus, for workers to run it.

    ```python
    dispatcher = Dispatcher(open_bus("amqp://localhost"))
    scheduler = Scheduler(dispatcher, store)
    with dispatcher.hearing(scheduler):
        scheduler.run()
    ```

    For some of the tasks of a registry alone, the scheduler's handler is
    ``handlers.routed({"resize": dispatcher})``; the others run here.

    While the bus is away, a due run is given back for a few seconds at a time, and for
    up to a minute if thousands wait. This does not count as a run. It runs once the
    bus is back.
    If the bus goes away during a publish, nobody knows whether it has the message. The
    run then counts as published. If no worker accepts it in time, it runs again by its
    ``retry``.

    Args:
        bus: The bus, such as ``open_bus`` returns. You close it.
        namespace: The beginning of all topics; the same as the workers'.
        topic_per_task: Whether each task has a topic of its own in each queue, so that
            workers can choose among tasks; or the names of the tasks that have one.
        start_timeout: How long a run waits for a worker to accept it, and then how long
            until it begins; for definitions without a ``start_timeout``.
        heartbeat_timeout: How long a run that has begun may send no heartbeat, for
            definitions without a ``heartbeat_timeout``; None: its ``expire_after``.
        clock: Measures how long the bus has been away; None: the system's.

    Raises:
        ConfigurationError: An argument is wrong.
    """

    # The HTTP server shows this for each type of job.
    over_bus = True

    def __init__(
        self,
        bus: MessageBus,
        *,
        namespace: str = "go_scheduler",
        topic_per_task: bool | Collection[str] = False,
        start_timeout: timedelta = timedelta(minutes=1),
        heartbeat_timeout: timedelta | None = None,
        clock: Clock | None = None,
    ) -> None:
        check_made("bus", bus, MessageBus, opener=OPENER)
        self._bus = bus
        self._topics = Topics(namespace)
        self._apart = _checked_tasks(topic_per_task)
        self._timeouts = Timeouts(
            start_timeout=start_timeout, heartbeat_timeout=heartbeat_timeout
        )
        self._clock = SystemClock() if clock is None else clock
        self._has_published = False
        self._away_since: timedelta | None = None
        self._turns = threading.Lock()
        self._last_turn = ZERO
        self._handed_out = HandedOut()

    async def __call__(self, instance: TaskInstance) -> HandedOn:
        """Publish a run, for any worker to accept."""
        if not self._bus.is_up():
            raise GiveBack(self._delay(), _AWAY)
        timeouts = self._timeouts_here()
        start_timeout = timeouts.start_timeout_of(instance)
        try:
            topic = self._topic_of(instance)
        except ConfigurationError as error:
            raise Fail(str(error)) from None
        self._tell_if_unheard()
        # First: a worker's status may arrive before this function goes on.
        self._handed_out.add(instance)
        body = _message(instance, timeouts).to_bytes()
        try:
            # The event loop publishes other runs meanwhile.
            await wrap_future(
                self._bus.publish_soon(topic, body, expires=start_timeout)
            )
        except BusUnavailableError as error:
            delay = self._delay()
            if error.unsent:
                raise GiveBack(delay, str(error)) from None
            # The bus may have the message: a second one would run beside it.
        else:
            self._away_since = None
        return HandedOn(start_timeout=start_timeout)

    @contextmanager
    def hearing(self, scheduler: Scheduler) -> Iterator[None]:
        """Receive and record the statuses that workers send, inside the ``with`` block.

        Several schedulers on one store may do it: each receives a part of the
        statuses. Give each the same dispatcher, or one with the same arguments.
        Statuses wait on the bus while nobody receives them.

        Args:
            scheduler: Its store and settings are used; it need not run.

        Raises:
            ConfigurationError: It is not a scheduler.
        """
        check_type("scheduler", scheduler, Scheduler)
        defaults = scheduler._defaults
        self._timeouts = replace(self._timeouts, defaults=defaults)
        hearing = Hearing(
            scheduler,
            self._bus,
            self._topics,
            timeouts=self._timeouts,
            handed_out=self._handed_out,
        )
        _HEARD.add(self._topics.namespace)
        with hearing:
            yield

    def _tell_if_unheard(self) -> None:
        """Warn at the first run, once, if this process does not receive statuses."""
        if not self._has_published:
            self._has_published = True
            if self._topics.namespace not in _HEARD:
                _LOG.warning(_UNHEARD, self._topics.namespace)

    def _topic_of(self, instance: TaskInstance) -> str:
        name, apart = instance.definition.name, self._apart
        is_apart = apart if isinstance(apart, bool) else name in apart
        return self._topics.runs(instance.definition.queue, name if is_apart else None)

    def _timeouts_here(self) -> Timeouts:
        """The timeouts, with the defaults of the scheduler that runs the instance."""
        run = run_here()
        if not isinstance(run, HeldRun):
            return self._timeouts
        # Its ``timeout`` does not pass before a worker begins the run.
        run.hand_on()
        defaults = replace(
            self._timeouts.defaults, expire_after=run.expire_after, timeout=run.timeout
        )
        return replace(self._timeouts, defaults=defaults)

    def _delay(self) -> timedelta:
        """How long to give a run back for: longer the longer the bus has been away.

        Many runs get different delays, so that they do not all come back at once.
        """
        now = self._clock.elapsed()
        since = self._away_since
        if since is None:
            self._away_since = since = now
        most = min(_LONGEST_DELAY, _FIRST_DELAY + (now - since))
        with self._turns:
            turn = max(self._last_turn, now + _FIRST_DELAY) + _APART
            self._last_turn = turn = min(turn, now + _LONGEST_TURN)
        return max(turn - now, _FIRST_DELAY + (most - _FIRST_DELAY) * random.random())


def _message(instance: TaskInstance, timeouts: Timeouts) -> Run:
    definition, started_at = instance.definition, instance.started_at
    payload, start_timeout = instance.payload, timeouts.start_timeout_of(instance)
    trace_context, trace_state = parted(instance.trace_context)
    return Run(
        instance_id=instance.id,
        attempt=instance.attempt,
        task=definition.name,
        queue=definition.queue,
        definition_id=definition.id,
        fire_time=instance.fire_time,
        execute_at=instance.execute_at,
        payload=None if payload is None else dict(payload),
        metadata=unmarked(instance.metadata),
        key=instance.key,
        runs=max(0, instance.runs - 1),
        start_by=None if started_at is None else started_at + start_timeout,
        heartbeat_timeout=timeouts.heartbeat_timeout_of(instance),
        timeout=timeouts.defaults.timeout_of(instance),
        trace_context=trace_context,
        trace_state=trace_state,
    )


def _checked_tasks(given: object) -> bool | frozenset[str]:
    if isinstance(given, bool):
        return given
    if isinstance(given, list | tuple | set | frozenset) and all(
        isinstance(each, str) for each in given
    ):
        return frozenset(given)
    raise ConfigurationError(
        f"topic_per_task must be True, False, or the names of tasks, not {shown(given)}"
    )
