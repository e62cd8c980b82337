"""One life of a worker on a bus: it takes runs, has them done, and says so."""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.dispatch.messages.actions import Cancel, Run, read_action
from go_scheduler.dispatch.messages.statuses import Said, Status
from go_scheduler.dispatch.paced_log import PacedLog
from go_scheduler.dispatch.taken_delivery import TakenDelivery
from go_scheduler.dispatch.timeouts import offered_again_after
from go_scheduler.dispatch.working.ended import Ended
from go_scheduler.dispatch.working.places import Places
from go_scheduler.dispatch.working.taken import Key, Taken
from go_scheduler.dispatch.working.telling import Telling
from go_scheduler.errors import ConfigurationError
from go_scheduler.handlers.registry import NAMELESS, HandlerRegistry
from go_scheduler.working import life
from go_scheduler.working.calling import Calling

if TYPE_CHECKING:
    from collections.abc import Callable

    from go_scheduler.dispatch.bus import Delivery, Subscription
    from go_scheduler.dispatch.working.settings import Settings
    from go_scheduler.json import JSON
    from go_scheduler.working.given import Ending

_LOG = logging.getLogger("go_scheduler.dispatch.worker")
_CANCELS = 100
_SHORTEST_BEAT = 0.1


class Life(life.Life):
    """Takes runs from a bus, until it is told to stop.

    All that it knows is touched on its event loop alone: subscriptions and the sender,
    which have threads of their own, pass on what they have there.

    Args:
        settings: What it is like.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(Calling(settings.handler, _LOG, settings.telemetry), _LOG)
        self._settings = settings
        self._taken: dict[Key, Taken] = {}
        self._ended = Ended()
        self._log = PacedLog(_LOG, settings.clock)
        self._places = Places(settings.max_workers, settings.limits, settings.served)
        self._subscriptions: dict[str, Subscription] = {}
        self._prefetch: dict[str, int] = {}

    def _prepare(self) -> None:
        settings, bus = self._settings, self._settings.bus
        with ExitStack() as stack:
            stack.callback(self._log.close)
            self._telling = Telling(settings, self._stopping)
            stack.callback(self._telling.close)
            topic = settings.topics.control(settings.name)
            hear = partial(self._soon, self._hear_cancel)
            subscription = bus.subscribe(topic, hear, prefetch=_CANCELS, own=True)
            stack.callback(subscription.close)
            for topic in settings.served:
                hear = partial(self._soon, partial(self._hear_run, topic))
                prefetch = self._places.prefetch(topic)
                subscription = bus.subscribe(topic, hear, prefetch=prefetch)
                stack.callback(subscription.close)
                self._subscriptions[topic] = subscription
                self._prefetch[topic] = prefetch
            self._hearing = stack.pop_all()

    async def _live(self) -> None:
        with self._hearing:
            await self._stopping.wait()
            self._resize()
            await self._until_left()

    def _soon(self, hear: Callable[[Delivery], None], delivery: Delivery) -> None:
        taken = TakenDelivery(delivery, self._log)
        self._loop.call_soon_threadsafe(hear, taken)

    def _hear_run(self, topic: str, delivery: Delivery) -> None:
        try:
            run = read_action(delivery.body)
            if not isinstance(run, Run):
                raise ConfigurationError(f"it is to {run.action}, where runs come from")
            taken = Taken(run, topic, self._goes_on_there)
        except ConfigurationError as error:
            text = "a message from %s is dropped: %s"
            self._log.write(logging.ERROR, text, topic, error)
            delivery.reject(requeue=False)
            return
        if (known := self._taken.get(taken.key)) is not None:
            self._hear_again(known, delivery)
        elif (last := self._ended.get(taken.key)) is not None:
            self._telling.say(last)
            delivery.ack()
        elif self._stopping.is_set() or not self._places.room(topic):
            delivery.reject(requeue=True)
        elif (reason := self._trouble(taken)) is not None:
            self._refuse(taken, delivery, reason)
        else:
            taken.deliveries.append(delivery)
            self._taken[taken.key] = taken
            self._places.take(taken)
            # Before its message is acknowledged, which makes way for the next one.
            self._resize()
            self._spawn(self._have_done(taken))

    def _hear_again(self, known: Taken, delivery: Delivery) -> None:
        """Hear of what it has: a duplicate, or one whose acknowledgement was lost."""
        if known.deliveries:
            known.deliveries.append(delivery)
        else:
            delivery.ack()

    def _trouble(self, taken: Taken) -> str | None:
        """Why this worker does not run it now; None: it does."""
        name, task = self._settings.name, taken.run.task
        if not self._knows(task):
            return NAMELESS if task is None else f"{name} has no handler for {task!r}"
        if not self._places.room(taken.topic, task):
            return f"{name} runs as many {task!r} as it may"
        return None

    def _knows(self, task: str | None) -> bool:
        handler = self._settings.handler
        if isinstance(handler, HandlerRegistry):
            return task is not None and task in handler
        return True

    def _refuse(self, taken: Taken, delivery: Delivery, reason: str) -> None:
        """Have the scheduler offer it again, in its turn or later each time."""
        (id, attempt), task = taken.key, taken.run.task
        if task is not None and self._knows(task):
            # That there is a limit is nothing to be warned of.
            level, delay = logging.INFO, self._places.turn(task)
        else:
            level, delay = logging.WARNING, offered_again_after(attempt)
        self._log.write(level, "%s is given back for %s: %s", id, delay, reason)
        status = self._telling.status(taken, Said.RELEASED, delay=delay, error=reason)
        self._ended.add(taken.key, status)
        self._telling.say(status, lambda sent: delivery.ack())

    def _hear_cancel(self, delivery: Delivery) -> None:
        delivery.ack()
        try:
            found = read_action(delivery.body)
        except ConfigurationError as error:
            text = "what it is to cancel is not known: %s"
            self._log.write(logging.ERROR, text, error)
            return
        taken = self._taken.get(Key(found.instance_id, found.attempt))
        if taken is None or not isinstance(found, Cancel):
            return
        if found.reason == "lost":
            text = "%s is lost: it runs elsewhere, or has ended"
            self._log.write(logging.WARNING, text, taken.key.instance_id)
            taken.lost = True
        else:
            taken.cancel_requested = True

    async def _have_done(self, taken: Taken) -> None:
        try:
            last = await self._run_taken(taken)
        finally:
            self._places.leave(taken)
            del self._taken[taken.key]
            self._resize()
        if last is not None:
            self._ended.add(taken.key, last)
            await self._telling.tell(last, self._settings.patience)

    async def _run_taken(self, taken: Taken) -> Status | None:
        """What is to be said of it at last; None: nothing, it never was ours."""
        accepted = self._telling.status(taken, Said.ACCEPTED)
        is_ours = await self._telling.tell(accepted, self._settings.short_patience)
        for each in taken.deliveries:
            if is_ours:
                each.ack()
            else:
                each.reject(requeue=self._stopping.is_set())
        taken.deliveries.clear()
        if not is_ours:
            return None
        if self._stopping.is_set() or taken.cancel_requested or taken.lost:
            return self._telling.status(taken, Said.RELEASED, delay=ZERO)
        return self._telling.end(taken, await self._call(taken))

    async def _call(self, taken: Taken) -> Ending:
        self._telling.begin(taken)
        self._beat_later(taken)
        timing_out = None
        if taken.run.timeout is not None:
            seconds = taken.run.timeout.total_seconds()
            timing_out = asyncio.create_task(self._time_out(taken, seconds))
        try:
            return await self._calling.call(taken)
        finally:
            taken.stop_beating()
            if timing_out is not None:
                timing_out.cancel()

    async def _time_out(self, taken: Taken, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._calling.end(taken)
        await asyncio.sleep(self._settings.grace.total_seconds())
        # Nothing ends it: the scheduler does, once it hears that it goes on.
        self._goes_on(taken)

    def _beat_later(self, taken: Taken) -> None:
        """Say again and again that it goes on."""
        third = max(taken.run.heartbeat_timeout.total_seconds() / 3, _SHORTEST_BEAT)
        # No task: most runs end long before, and each costs one.
        timer = self._loop.call_later(third, self._beat, taken)
        taken.stop_beating = timer.cancel

    def _beat(self, taken: Taken) -> None:
        self._goes_on(taken)
        self._beat_later(taken)

    def _goes_on(self, taken: Taken, progress: JSON = None) -> None:
        said = Said.HEARTBEAT if progress is None else Said.PROGRESS
        self._telling.say(self._telling.status(taken, said, progress=progress))

    def _goes_on_there(self, taken: Taken, progress: JSON) -> None:
        """Its handler says so, on its thread."""
        # One that has been left behind is not heard any more.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._goes_on, taken, progress)

    def _resize(self) -> None:
        """Have as many messages come as there is room for."""
        stops = self._stopping.is_set()
        for topic, subscription in self._subscriptions.items():
            present = self._prefetch[topic]
            prefetch = 0 if stops else self._places.prefetch(topic, present)
            if prefetch != present:
                self._prefetch[topic] = prefetch
                try:
                    subscription.resize(prefetch)
                # A bus of somebody else's may raise anything.
                except Exception as error:
                    text = "the bus does not resize what comes from %s: %s"
                    self._log.write(logging.ERROR, text, topic, error, error=error)
