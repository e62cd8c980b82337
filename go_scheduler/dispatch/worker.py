"""A worker on a bus: runs handlers here for schedulers elsewhere."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID, uuid4

from go_scheduler.checks import check_made, check_name, check_type
from go_scheduler.clock import ZERO, Clock, SystemClock
from go_scheduler.dispatch.bus import (
    OPENER,
    Delivery,
    MessageBus,
    PacedLog,
    SafeDelivery,
    Subscription,
    Topics,
    checked_tasks,
    offered_again_after,
)
from go_scheduler.dispatch.messages.message import (
    Cancel,
    Run,
    Said,
    Status,
    many_to_bytes,
    read_action,
)
from go_scheduler.errors import BusUnavailableError, ConfigurationError
from go_scheduler.formatting import shown
from go_scheduler.handlers.registry import NAMELESS, HandlerRegistry
from go_scheduler.models.values import changed
from go_scheduler.working.worker import (
    BaseWorker,
    Ending,
    Given,
    Loop,
    Pauses,
    Transport,
    Work,
    check_arguments,
    checked_name,
    checked_queues,
    frozen,
    instance_of,
    own_name,
    tell_progress,
)

if TYPE_CHECKING:
    from go_scheduler.events.event import Instrument
    from go_scheduler.models import TaskInstance


__all__ = ["DispatchWorker", "Work", "tell_progress"]


_MOST_ENDED = 1000
_MOST_BYTES_KEPT = 4 * 1024 * 1024


class Ended:
    """A bounded cache of the last statuses of runs that have ended here.

    Args:
        most: The most statuses.
        most_bytes: The most bytes of all of them together.
    """

    def __init__(
        self, most: int = _MOST_ENDED, most_bytes: int = _MOST_BYTES_KEPT
    ) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0
        self._last: OrderedDict[Key, tuple[Status, int]] = OrderedDict()

    def add(self, key: Key, status: Status) -> None:
        """Remember the last status of a run."""
        size = len(status.to_bytes())
        self._last[key] = status, size
        self._bytes += size
        while len(self._last) > self._most or self._bytes > self._most_bytes:
            _, (_, dropped) = self._last.popitem(last=False)
            self._bytes -= dropped

    def get(self, key: Key) -> Status | None:
        """The last status of a run; None: it has not ended here, or long ago."""
        found = self._last.get(key)
        return None if found is None else found[0]


_APART, _LONGEST_TURN = timedelta(seconds=1), timedelta(minutes=1)


class Places:
    """Counts the free places for runs, and derives the prefetch of each topic.

    Args:
        most: The most runs at once.
        limits: The most runs at once of some tasks, by their names.
        topics: The topics, as ``BusTransport.served`` has them.
    """

    def __init__(
        self, most: int, limits: Mapping[str, int], topics: Mapping[str, str | None]
    ) -> None:
        self._free = most
        self._limits = limits
        self._topics = topics
        self._running: Counter[str | None] = Counter()
        self._refused: Counter[str | None] = Counter()

    def room(self, topic: str, task: str | None = None) -> int:
        """How many more runs may come from a topic, of one task if that is known."""
        task = self._topics[topic] or task
        # Only a message says which task it is of, if many tasks share the topic.
        limit = None if task is None else self._limits.get(task)
        if limit is None:
            return self._free
        return min(self._free, limit - self._running[task])

    def take(self, taken: Taken) -> None:
        """Take a place for a run."""
        self._free -= 1
        self._running[taken.run.task] += 1
        del self._refused[taken.run.task]

    def turn(self, task: str) -> timedelta:
        """How long to give a run back for, if its task has reached its limit.

        The delays differ: as many runs as the limit allows come back at the same time.
        If all came back at once, most of them would be given back again.
        """
        turns = self._refused[task] // self._limits[task] + 1
        self._refused[task] += 1
        return min(turns * _APART, _LONGEST_TURN)

    def leave(self, taken: Taken) -> None:
        """Free the place of a run."""
        self._free += 1
        self._running[taken.run.task] -= 1

    def prefetch(self, topic: str, present: int = 0) -> int:
        """How many messages of a topic may be delivered and unacknowledged.

        It changes only if it is off by more than half, or if no place is left: each
        change costs a round trip to the broker.

        Args:
            topic: The topic.
            present: The present prefetch.
        """
        # The sum over all topics exceeds the free places only if there are fewer
        # places than topics.
        share = min(self.room(topic), max(1, self._free // len(self._topics)))
        return present if share <= 2 * present and present <= 2 * share else share


class Key(NamedTuple):
    """The identity of a run."""

    instance_id: UUID
    attempt: int


_SHORTEST_BEAT = 0.1


class Taken(Given):
    """A run that this worker has, from its delivery to its end.

    Args:
        run: The message.
        topic: The topic that it came from.
        loop: As for any that a worker has.

    Attributes:
        deliveries: The deliveries of its message that are not acknowledged yet.

    Raises:
        ConfigurationError: Its payload or metadata cannot be used.
    """

    place = "a worker on a bus"
    recorder = "the scheduler"

    def __init__(self, run: Run, topic: str, loop: Loop) -> None:
        lease = max(run.heartbeat_timeout.total_seconds(), 3 * _SHORTEST_BEAT)
        super().__init__(_work_of(run), lease, loop, run.timeout)
        self.run = run
        self.key = Key(run.instance_id, run.attempt)
        self.topic = topic
        self.deliveries: list[SafeDelivery] = []

    @cached_property
    def instance(self) -> TaskInstance:
        """What is run, as far as a worker knows it."""
        run = self.run
        return changed(
            instance_of(self.work),
            fire_time=run.fire_time,
            key=run.key,
            runs=run.runs,
        )


def _work_of(run: Run) -> Work:
    return Work(
        instance_id=run.instance_id,
        type=run.task,
        payload=None if run.payload is None else frozen(run.payload, "payload"),
        metadata=frozen(run.metadata, "metadata"),
        attempt=run.attempt,
        execute_at=run.execute_at,
        definition_id=run.definition_id,
        queue=run.queue,
        traceparent=run.trace_context,
        tracestate=run.trace_state,
    )


_LOG = logging.getLogger("go_scheduler.dispatch.worker")
_LONGEST_PAUSE = 2.0
# While so many messages are unconfirmed, new statuses wait, and share the next message.
_MOST_MESSAGES = 4
_MOST_STATUSES, _MOST_BYTES_SENT = 100, 64 * 1024
ENDS = (Said.SUCCEEDED, Said.FAILED, Said.RELEASED)
_NEEDLESS = (Said.STARTED, Said.HEARTBEAT, Said.PROGRESS)


class What(NamedTuple):
    """The identity of a status: its run, and its kind."""

    instance_id: UUID
    attempt: int
    said: Said


class _Saying(NamedTuple):
    what: What
    body: bytes
    then: Callable[[bool], None]
    alone: bool = False


class Sender:
    """Publishes statuses; those of one run in their order.

    A few messages are unconfirmed at a time. Each has all statuses that were waiting.
    Statuses that the bus does not take are published again, and later statuses of the
    same runs wait. Of each run and kind only the newest status waits, and of a run that
    has ended only the end: the number of runs bounds the number of waiting statuses.
    It is used on one event loop alone.

    Args:
        bus: The bus.
        topic: The topic of statuses.
    """

    def __init__(self, bus: MessageBus, topic: str) -> None:
        self._bus = bus
        self._topic = topic
        self._loop = asyncio.get_running_loop()
        self._is_away = False
        self._pauses = Pauses(_LONGEST_PAUSE)
        self._waiting: dict[What, _Saying] = {}
        # The statuses of each message, by what publishes it.
        self._under_way: dict[asyncio.Task[None], Sequence[_Saying]] = {}
        # A call of ``_send`` is scheduled, or the sender is closed.
        self._will_send = False

    def put(
        self, status: Status, then: Callable[[bool], None] = lambda sent: None
    ) -> None:
        """Publish a status, after all earlier ones of its run.

        Args:
            status: The status.
            then: Called with true once the bus has the status, and with false if the
                bus refuses it for good; not called if the end of the run makes the
                status needless. If several statuses of one kind wait, only the ``then``
                of the first is called.
        """
        what = What(status.instance_id, status.attempt, status.status)
        saying = _Saying(what, status.to_bytes(), then)
        if (earlier := self._waiting.get(what)) is not None:
            saying = saying._replace(then=earlier.then)
        self._drop_needless(what)
        self._waiting[what] = saying
        # All statuses of one turn of the event loop share a message.
        self._send_in(0)

    def close(self) -> Sequence[What]:
        """Publish nothing more; returns the statuses that the bus may not have."""
        self._will_send = True
        left = [each.what for some in self._under_way.values() for each in some]
        left.extend(self._waiting)
        self._waiting.clear()
        return left

    def _drop_needless(self, what: What) -> None:
        if what.said in ENDS:
            for each in _NEEDLESS:
                self._waiting.pop(what._replace(said=each), None)

    def _send_in(self, seconds: float) -> None:
        if not self._will_send:
            self._will_send = True
            self._loop.call_later(seconds, self._send)

    def _send(self) -> None:
        self._will_send = False
        while len(self._under_way) < _MOST_MESSAGES and (some := self._next()):
            for each in some:
                del self._waiting[each.what]
            self._under_way[self._loop.create_task(self._publish(some))] = some

    async def _publish(self, some: Sequence[_Saying]) -> None:
        pause = 0.0
        task = asyncio.current_task()
        assert task is not None
        try:
            body = many_to_bytes([each.body for each in some])
            await asyncio.wrap_future(self._bus.publish_soon(self._topic, body))
        # Only a third party's bus cancels, and a worker that has ended.
        except (BusUnavailableError, asyncio.CancelledError) as error:
            if task.cancelling():
                raise
            self._keep(some)
            pause = self._pauses.next()
            if not self._is_away:
                self._is_away = True
                _LOG.warning("the bus is away, and statuses wait: %s", error)
        except Exception:
            if len(some) > 1:
                # The bus may refuse one of them alone.
                self._keep([each._replace(alone=True) for each in some])
            else:
                text = "the bus refuses the status that %s, attempt %d, has %s"
                _LOG.exception(text, *some[0].what)
                some[0].then(False)
        else:
            self._pauses.reset()
            if self._is_away:
                self._is_away = False
                _LOG.info("the bus is back, and statuses are sent again")
            for each in some:
                each.then(True)
        del self._under_way[task]
        self._send_in(pause)

    def _next(self) -> Sequence[_Saying]:
        """The statuses of the next message: of runs without an unconfirmed one."""
        runs = {each.what[:2] for some in self._under_way.values() for each in some}
        found: list[_Saying] = []
        size = 0
        for each in self._waiting.values():
            if each.what[:2] in runs:
                continue
            size += len(each.body)
            is_full = (
                len(found) == _MOST_STATUSES or size > _MOST_BYTES_SENT or each.alone
            )
            if found and is_full:
                break
            found.append(each)
            if each.alone:
                break
        return found

    def _keep(self, some: Sequence[_Saying]) -> None:
        """Let statuses wait again, before the newer ones."""
        kept = {each.what: each for each in some}
        for what in kept.keys() & self._waiting.keys():
            newer = self._waiting.pop(what)
            kept[what] = newer._replace(then=kept[what].then, alone=kept[what].alone)
        self._waiting = kept | self._waiting
        for what in list(self._waiting):
            self._drop_needless(what)


def served_topics(
    topics: Topics,
    queues: Sequence[str],
    handler: object,
    topic_per_task: bool | Collection[str],
) -> Mapping[str, str | None]:
    """The topics from which a worker takes runs, as ``BusTransport`` has them.

    Args:
        topics: The names of topics.
        queues: The queues.
        handler: The handler; a registry has a fixed set of tasks.
        topic_per_task: The tasks that have topics of their own; true: all.

    Raises:
        ConfigurationError: A name is wrong, the tasks are not known, or the name of a
            topic is too long.
    """
    known = handler.names if isinstance(handler, HandlerRegistry) else None
    own = _own(topic_per_task, known)
    shared = known is None or not set(known) <= set(own)
    found: dict[str, str | None] = {}
    for queue in queues:
        if shared:
            found[topics.runs(queue)] = None
        found.update({topics.runs(queue, task): task for task in own})
    if not found:
        raise ConfigurationError("the registry has no handlers: there is nothing to do")
    return found


def _own(
    topic_per_task: bool | Collection[str], known: Sequence[str] | None
) -> Sequence[str]:
    asked = checked_tasks(topic_per_task)
    if asked is True:
        if known is None:
            raise ConfigurationError(
                "topic_per_task must name the tasks: only a HandlerRegistry says"
                " itself which it has"
            )
        return known
    return sorted(each for each in asked or () if known is None or each in known)


def unserved_texts(
    queues: Sequence[str], handler: object, topic_per_task: bool | Collection[str]
) -> Sequence[str]:
    """Warnings of queues and tasks that may be misspelt: the registry has none such."""
    if not isinstance(handler, HandlerRegistry):
        return ()
    named = () if isinstance(topic_per_task, bool) else sorted(set(topic_per_task))
    found = [
        f"topic_per_task: no handler is registered as {shown(each)}, but"
        f" {', '.join(handler.names)}: its topic is not heard"
        for each in named
        if each not in handler
    ]
    tasks = handler.tasks
    # A handler without a task may be for any queue.
    if tasks.keys() >= set(handler.names):
        known = {each.definition.queue for each in tasks.values()}
        found += [
            f"queues: none of the tasks {', '.join(handler.names)} is in"
            f" {shown(each)}, but in {', '.join(sorted(known))}"
            for each in queues
            if each not in known
        ]
    return found


def checked_limits(limits: object, handler: object) -> Mapping[str, int]:
    """Check the limits of tasks, and return them.

    Raises:
        ConfigurationError: A limit is wrong, or the registry has no such task.
    """
    if limits is None:
        return {}
    if not isinstance(limits, Mapping):
        raise ConfigurationError(
            f'limits must be such as {{"resize": 2}}, not {shown(limits)}'
        )
    for task, most in limits.items():
        check_name("limits", task)
        check_type(f"limits[{task!r}]", most, int)
        if most < 1:
            raise ConfigurationError(f"limits[{task!r}] must be at least 1: {most}")
        if isinstance(handler, HandlerRegistry) and task not in handler:
            raise ConfigurationError(
                f"limits: no handler is registered as {task!r}, but"
                f" {', '.join(handler.names)}"
            )
    return dict(limits)


_CANCELS = 100


@dataclass(kw_only=True, eq=False)
class BusTransport(Transport[Taken]):
    """Takes runs from a bus, and publishes the statuses of runs.

    Subscriptions and the sender have threads of their own, and pass everything on to
    the event loop, which alone uses its state.

    Args:
        bus: The bus.
        handler: The handler; a registry has only some tasks.
        topics: The names of topics.
        served: The topics from which it takes runs. The value is the task to which the
            topic belongs; None: the topic is for all tasks of a queue.
        max_workers: The most handlers that run at once.
        limits: The most runs at once of some tasks, by their names.
        name: The worker's name.
        patience: How long after its stop it still tries to send the ends of runs.
        short_patience: How long it still tries to send that it accepted a run.
        clock: The clock.
    """

    bus: MessageBus
    handler: Callable[[Any], object]
    topics: Topics
    served: Mapping[str, str | None]
    max_workers: int
    limits: Mapping[str, int]
    name: str
    patience: timedelta = timedelta(minutes=10)
    short_patience: timedelta = timedelta(seconds=5)
    clock: Clock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        self._taken: dict[Key, Taken] = {}
        self._ended = Ended()
        self._log = PacedLog(_LOG, self.clock)
        self._places = Places(self.max_workers, self.limits, self.served)
        self._subscriptions: dict[str, Subscription] = {}
        self._prefetch: dict[str, int] = {}

    def open(self, loop: Loop) -> None:
        """Subscribe to the topics."""
        super().open(loop)
        self._events = asyncio.get_running_loop()
        self._sender = Sender(self.bus, self.topics.statuses)
        with ExitStack() as stack:
            stack.callback(self._log.close)
            stack.callback(self._close_sender)
            topic = self.topics.control(self.name)
            hear = partial(self._soon, self._hear_cancel)
            subscription = self.bus.subscribe(topic, hear, prefetch=_CANCELS, own=True)
            stack.callback(subscription.close)
            for topic in self.served:
                hear = partial(self._soon, partial(self._hear_run, topic))
                prefetch = self._places.prefetch(topic)
                subscription = self.bus.subscribe(topic, hear, prefetch=prefetch)
                stack.callback(subscription.close)
                self._subscriptions[topic] = subscription
                self._prefetch[topic] = prefetch
            self._opened = stack.pop_all()

    async def close(self) -> None:
        """End the subscriptions; log the ends of runs that were not sent."""
        self._opened.close()

    def _close_sender(self) -> None:
        for id, attempt, said in self._sender.close():
            if said in ENDS:
                text = "that %s, attempt %d, has %s was not sent: the bus is away"
                _LOG.warning(text, id, attempt, said)

    async def take(self) -> None:
        """Wait, as the subscriptions take runs; cancelled, have no more delivered."""
        try:
            await self._events.create_future()
        finally:
            self._resize()

    def _soon(self, hear: Callable[[SafeDelivery], None], delivery: Delivery) -> None:
        self._events.call_soon_threadsafe(hear, SafeDelivery(delivery, self._log))

    def _hear_run(self, topic: str, delivery: SafeDelivery) -> None:
        try:
            run = read_action(delivery.body)
            if not isinstance(run, Run):
                raise ConfigurationError(f"its action is {run.action}, and not run")
            taken = Taken(run, topic, self._loop)
        except ConfigurationError as error:
            text = "a message from %s is dropped: %s"
            self._log.write(logging.ERROR, text, topic, error)
            delivery.reject(requeue=False)
            return
        if (known := self._taken.get(taken.key)) is not None:
            if known.deliveries:
                known.deliveries.append(delivery)
            else:
                delivery.ack()
        elif (last := self._ended.get(taken.key)) is not None:
            self._sender.put(last)
            delivery.ack()
        elif self._loop.stopping.done() or not self._places.room(topic):
            delivery.reject(requeue=True)
        elif (reason := self._trouble(taken)) is not None:
            self._refuse(taken, delivery, reason)
        else:
            taken.deliveries.append(delivery)
            self._taken[taken.key] = taken
            self._places.take(taken)
            # Before the message is acknowledged: the next one comes after that.
            self._resize()
            self._loop.begin(taken)

    def _trouble(self, taken: Taken) -> str | None:
        """Why this worker cannot run it now; None: it can."""
        name, task = self.name, taken.run.task
        if not self._knows(task):
            return NAMELESS if task is None else f"{name} has no handler for {task!r}"
        if not self._places.room(taken.topic, task):
            return f"{name} runs as many {task!r} as it may"
        return None

    def _knows(self, task: str | None) -> bool:
        handler = self.handler
        if isinstance(handler, HandlerRegistry):
            return task is not None and task in handler
        return True

    def _refuse(self, taken: Taken, delivery: SafeDelivery, reason: str) -> None:
        """Give a run back, for the scheduler to publish it again later."""
        (id, attempt), task = taken.key, taken.run.task
        if task is not None and self._knows(task):
            # A limit is no reason for a warning.
            level, delay = logging.INFO, self._places.turn(task)
        else:
            level, delay = logging.WARNING, offered_again_after(attempt)
        self._log.write(level, "%s is given back for %s: %s", id, delay, reason)
        status = self._status(taken, Said.RELEASED, delay=delay, error=reason)
        self._ended.add(taken.key, status)
        self._sender.put(status, lambda sent: delivery.ack())

    def _hear_cancel(self, delivery: SafeDelivery) -> None:
        delivery.ack()
        try:
            found = read_action(delivery.body)
        except ConfigurationError as error:
            text = "a message about a run to cancel cannot be read: %s"
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

    async def accept(self, given: Taken) -> bool:
        """Send that it is accepted; the bus keeps its message until it has that."""
        accepted = self._status(given, Said.ACCEPTED)
        is_ours = await self._send(accepted, self.short_patience)
        for each in given.deliveries:
            if is_ours:
                each.ack()
            else:
                each.reject(requeue=self._loop.stopping.done())
        given.deliveries.clear()
        return is_ours

    def begin(self, given: Taken) -> None:
        """Send that the handler is about to be called."""
        self._sender.put(self._status(given, Said.STARTED))

    async def keep(self, given: Taken, by: timedelta | None = None) -> float:
        """Send a heartbeat, or progress; it cannot say for how long."""
        # After the end of a run nothing more is said of it.
        if given.key in self._taken:
            said = Said.HEARTBEAT if given.progress is None else Said.PROGRESS
            self._sender.put(self._status(given, said, progress=given.progress))
            given.progress = None
        return given.lease / 3

    def leave(self, given: Taken) -> None:
        """Free the place of a run."""
        self._places.leave(given)
        del self._taken[given.key]
        self._resize()

    async def give_back(self, given: Taken) -> None:
        """Send that it is released."""
        await self._end(given, self._status(given, Said.RELEASED, delay=ZERO))

    async def report(self, given: Taken, ending: Ending) -> None:
        """Send what came of it."""
        failure = ending.failure
        more: dict[str, Any] = {
            "started_at": given.began_at,
            "ended_at": given.ended_at,
        }
        if failure is None:
            said, more["result"] = Said.SUCCEEDED, ending.result
        elif (delay := failure.given_back_for) is not None:
            said, more = Said.RELEASED, {"delay": delay, "error": failure.error}
        else:
            said, more["error"] = Said.FAILED, failure.error
            more["retry"] = False if failure.is_final else None
            more["retry_in"] = failure.retry_in
        await self._end(given, self._status(given, said, **more))

    async def _end(self, given: Taken, last: Status) -> None:
        self._ended.add(given.key, last)
        await self._send(last, self.patience)

    def _status(self, taken: Taken, said: Said, **more: Any) -> Status:
        """Make a status of a run, at the present time."""
        return Status(
            status=said,
            instance_id=taken.key.instance_id,
            attempt=taken.key.attempt,
            worker=self.name,
            at=self.clock.now(),
            **more,
        )

    async def _send(self, status: Status, patience: timedelta) -> bool:
        """Send a status, and wait until the bus has it; after a stop only so long.

        Returns:
            Whether the bus has it.
        """
        future: asyncio.Future[bool] = self._events.create_future()
        self._sender.put(status, future.set_result)
        both: list[asyncio.Future[Any]] = [future, self._loop.stopping]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not future.done():
            await asyncio.wait([future], timeout=patience.total_seconds())
        return future.done() and future.result()

    def _resize(self) -> None:
        """Adapt the prefetch of each topic to the free places."""
        stops = self._loop.stopping.done()
        for topic, subscription in self._subscriptions.items():
            present = self._prefetch[topic]
            prefetch = 0 if stops else self._places.prefetch(topic, present)
            if prefetch != present:
                self._prefetch[topic] = prefetch
                try:
                    subscription.resize(prefetch)
                # A third party's bus may raise anything.
                except Exception as error:
                    text = "the prefetch of %s cannot be changed: %s"
                    self._log.write(logging.ERROR, text, topic, error, error=error)


class DispatchWorker(BaseWorker):
    """Takes runs from a message bus, and runs them here.

    ```python
    with open_bus("amqp://localhost") as bus:
        DispatchWorker(bus, handlers, queues=("mail",)).run()
    ```

    Sync handlers are called on threads, ``async def`` handlers on an event loop. The
    return value is the result, if it is JSON. An exception is the error; raise
    ``RetryAfter``, ``Fail`` or ``GiveBack`` to decide what follows, as in any handler.
    Inside a handler ``current_run()`` says whether the run was cancelled or lost. The
    worker sends heartbeats. The ``timeout`` of a definition cancels ``async def``
    handlers. While the bus is away handlers go on; their results are sent once the bus
    is back.

    Args:
        bus: The bus, which you open and close.
        handler: Called with ``Work``; or a ``HandlerRegistry``, whose handlers are
            called by the names of their tasks, as by a scheduler.
        queues: The queues from which it takes runs.
        max_workers: The most handlers that run at once.
        limits: The most runs at once of some tasks, by their names, such as
            ``{"resize": 2}``.
        topic_per_task: The tasks that have topics of their own, as for the
            ``Dispatcher``; true, with a registry: all of its tasks.
        namespace: The beginning of all topics, as for the ``Dispatcher``.
        name: The worker's name, in lists and for cancelling; different for each worker.
            None: the name of the machine, the process id, and a random part.
        telemetry: Puts a span around each call of a handler, in the trace of the run,
            such as a ``Telemetry``; None: no spans.

    Raises:
        ConfigurationError: An argument is wrong.
    """

    def __init__(
        self,
        bus: MessageBus,
        handler: Callable[[Any], object],
        *,
        queues: Iterable[str] = ("default",),
        max_workers: int = 32,
        limits: Mapping[str, int] | None = None,
        topic_per_task: bool | Collection[str] = False,
        namespace: str = "go_scheduler",
        name: str | None = None,
        telemetry: Instrument | None = None,
    ) -> None:
        check_made("bus", bus, MessageBus, opener=OPENER)
        check_arguments(handler, max_workers, telemetry)
        if name is None:
            # Some brokers do not allow blanks in the names of queues.
            name = f"{own_name()} {uuid4().hex[:6]}".replace(" ", "-")
        topics = Topics(namespace)
        # This checks its length.
        topics.control(checked_name(name))
        names = checked_queues(queues)
        transport = partial(
            BusTransport,
            bus=bus,
            handler=handler,
            topics=topics,
            served=served_topics(topics, names, handler, topic_per_task),
            max_workers=max_workers,
            limits=checked_limits(limits, handler),
            name=name,
        )
        for text in unserved_texts(names, handler, topic_per_task):
            _LOG.warning(text)
        super().__init__(transport, handler, log=_LOG, telemetry=telemetry)
