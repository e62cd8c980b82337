"""The loop of every worker: takes runs from a transport, and calls their handlers."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import random
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Self, TypeVar
from uuid import UUID, uuid4

from go_scheduler.checks import check_at_least, check_name, check_takes_one, check_type
from go_scheduler.clock import ZERO, SystemClock
from go_scheduler.errors import ConfigurationError, SchedulerStateError
from go_scheduler.events.event import Instrument
from go_scheduler.formatting import shown
from go_scheduler.handlers.registry import (
    HandlerRegistry,
    async_test,
    check_callable,
    refuse_generator,
)
from go_scheduler.json import JSON, freeze, write_value
from go_scheduler.lifecycle import caught_signals, next_request
from go_scheduler.models import (
    METADATA_LIMIT,
    RESULT_LIMIT,
    TaskDefinition,
    TaskInstance,
)
from go_scheduler.run import HandedOn, enter_run, leave_run, run_here
from go_scheduler.running.defaults import GRACE
from go_scheduler.running.outcomes import Failure, failure_of
from go_scheduler.running.remote_runs import result_text
from go_scheduler.trace_context import joined
from go_scheduler.triggers.simple import OnDemandTrigger

if TYPE_CHECKING:
    import logging
    from types import TracebackType


def check_arguments(handler: object, max_workers: object, telemetry: object) -> None:
    """Refuse what is no handler of work, no number of places, or no instrument.

    Raises:
        ConfigurationError: An argument is wrong.
    """
    if not isinstance(handler, HandlerRegistry):
        check_callable(handler)
        assert callable(handler)
        check_takes_one("the handler", handler, argument="the work")
    check_type("max_workers", max_workers, int)
    assert isinstance(max_workers, int)
    if max_workers < 1:
        raise ConfigurationError(f"max_workers must be at least 1: {max_workers}")
    if telemetry is not None:
        check_type("telemetry", telemetry, Instrument)


def checked_queues(queues: Iterable[str]) -> Sequence[str]:
    """The names of queues, one at least.

    Raises:
        ConfigurationError: There is none, or they are no names.
    """
    if isinstance(queues, str):
        raise ConfigurationError(f"queues must be several texts, such as ({queues!r},)")
    names = [check_name("queue", each) for each in queues]
    if not names:
        raise ConfigurationError("queues must name one at least")
    return names


def checked_name(name: object) -> str:
    """A name that a line of a log or a list can show.

    Raises:
        ConfigurationError: It is none.
    """
    checked = check_name("name", name)
    if not checked.isprintable():
        raise ConfigurationError(
            "name must be of characters that can be printed, without line breaks:"
            f" {shown(name)}"
        )
    return checked


def own_name() -> str:
    """This machine's name, and the number of this process."""
    return f"{socket.gethostname()[:100]} {os.getpid()}"


_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 30.0


class Pauses:
    """Longer and longer pauses, each of its own length, so that not all come at once.

    Args:
        longest: The most seconds.
    """

    def __init__(self, longest: float = _LONGEST_PAUSE) -> None:
        self._longest = longest
        self._next = _FIRST_PAUSE

    def next(self, least: float = 0.0) -> float:
        """How many seconds to wait; no less than it asks for, within bounds."""
        seconds = min(max(self._next, least), self._longest)
        self._next = min(2 * self._next, self._longest)
        return seconds * random.uniform(1.0, 1.5)

    def reset(self) -> None:
        """Begin anew, as it has answered."""
        self._next = _FIRST_PAUSE


_LIMIT = 2 * METADATA_LIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What has been handed to a worker.

    Attributes:
        instance_id: Its identity, the same over all attempts.
        type: What it is: the name of its definition, if that has one.
        payload: What it was submitted or run with; read-only. None: nothing.
        metadata: Its definition's; read-only.
        attempt: Rises with each time it is handed out.
        execute_at: When it was to run.
        definition_id: Of what it is a run; None: that is not said.
        queue: From which queue it comes; likewise.
        traceparent: The trace in which it was asked for, as W3C writes it; None: none.
        tracestate: What belongs to that, likewise.
    """

    instance_id: UUID
    type: str | None
    payload: Mapping[str, JSON] | None = field(hash=False)
    metadata: Mapping[str, JSON] = field(hash=False)
    attempt: int
    execute_at: datetime
    definition_id: UUID | None = None
    queue: str | None = None
    traceparent: str | None = None
    tracestate: str | None = None


def instance_of(work: Work) -> TaskInstance:
    """What handlers of a registry take, as far as a worker knows it."""
    definition = TaskDefinition(
        id=work.definition_id or uuid4(),
        name=work.type,
        queue=work.queue or "default",
        trigger=OnDemandTrigger(),
        metadata=work.metadata,
    )
    return TaskInstance(
        id=work.instance_id,
        definition=definition,
        fire_time=None,
        execute_at=work.execute_at,
        due_at=work.execute_at,
        attempt=work.attempt,
        payload=work.payload,
        own_trace_context=joined(work.traceparent, work.tracestate),
    )


def frozen(value: Mapping[str, JSON], name: str) -> Mapping[str, JSON]:
    """What was sent as a payload or as metadata, read-only.

    Raises:
        ConfigurationError: It is no object, or none that a store can have kept.
    """
    return freeze(value, name=name, limit=_LIMIT)


class Ending(NamedTuple):
    """What came of a run.

    Attributes:
        failure: Why it did not succeed; None: it did.
        result: What its handler returned, a JSON value.
    """

    failure: Failure | None = None
    result: JSON = None


class Given:
    """A run that a worker has, as ``current_run()`` shows it.

    Args:
        work: What it was handed.
        lease: How many seconds it has the run without a heartbeat.
        loop: Has it done, and is asked for its heartbeats.
        timeout: After how long its handler is ended; None: not by this worker.

    Attributes:
        loop: As given.
        place: Where it runs, as errors name it.
        recorder: Who records what came of it, likewise.
        progress: What its handler told last of how far it has come, and was not sent
            yet; None: there is nothing to be sent.
        is_to_end: Whether its handler is to end, as far as it can be made to.
        was_ended: Whether it was cancelled for that.
        began_at: When its handler was called, by this machine's clock.
        ended_at: When that returned, likewise.
        keeping: Sends its heartbeats.
        task: What is executed for it on the event loop of handlers; None: nothing is.
    """

    joined = False
    place: ClassVar[str]
    recorder: ClassVar[str]
    began_at: datetime
    ended_at: datetime
    keeping: asyncio.Task[None]

    def __init__(
        self,
        work: Work,
        lease: float,
        loop: Loop,
        timeout: timedelta | None = None,
    ) -> None:
        self.work = work
        self.lease = lease
        self.timeout = timeout
        self.lost = False
        self.cancel_requested = False
        self.is_to_end = self.was_ended = False
        self.progress: JSON = None
        self.task: asyncio.Task[Any] | None = None
        self.loop = loop

    @cached_property
    def instance(self) -> TaskInstance:
        """What is run, as far as a worker knows it."""
        return instance_of(self.work)

    def extend(self, by: timedelta) -> bool:
        """Ask for more time; false: it is too late for that."""
        if self.lost:
            return False
        self.loop.ask(self, by, None)
        return True

    def tell(self, progress: JSON) -> None:
        """Have it sent how far it has come, unless it is lost."""
        if not self.lost:
            self.loop.ask(self, None, progress)

    def complete_in(self, connection: object) -> bool:
        """Refuse: the store is elsewhere.

        Raises:
            ConfigurationError: Always.
        """
        raise ConfigurationError(
            "complete_in() is for handlers next to their store, and this one runs in"
            f" {self.place}: return, and {self.recorder} records it"
        )


def tell_progress(progress: JSON) -> None:
    """Send the progress of the run whose handler calls this.

    It is kept as the ``progress`` of the instance, which shows the last one.

    Args:
        progress: Any JSON value, of at most 64 KiB as text.

    Raises:
        ConfigurationError: It is not such a value.
        SchedulerStateError: The caller is not a handler of a ``Worker`` or a
            ``DispatchWorker``.
    """
    given = run_here()
    if not isinstance(given, Given):
        raise SchedulerStateError(
            "tell_progress() is for handlers that a Worker or a DispatchWorker calls"
        )
    # A copy: the caller may change the value before it is sent.
    text = write_value(progress, name="progress", limit=RESULT_LIMIT)
    given.tell(json.loads(text))


class Calling:
    """Calls the handler for what was given, each on a thread or as a task.

    Its threads are daemons: one that hangs keeps no process from its end.

    Args:
        handler: What is called, with the work; a registry's with the instance.
        log: Says which results are not kept.
        telemetry: Has a span around each call; None: there is none.
    """

    def __init__(
        self,
        handler: Callable[[Any], object],
        log: logging.Logger,
        telemetry: Instrument | None = None,
    ) -> None:
        self._log = log
        self._telemetry = telemetry
        self._handler = handler
        self._by_type = isinstance(handler, HandlerRegistry)
        self._is_async = async_test(handler)
        self._queue: SimpleQueue[tuple[Given, Future[Ending]] | None] = SimpleQueue()
        self._threads = self._busy = 0
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def call(self, given: Given) -> Ending:
        """Call it; answers what came of it."""
        argument = given.instance if self._by_type else given.work
        if self._is_async(argument):  # type: ignore[arg-type]
            task = self._call_async(argument, given)
            return await asyncio.wrap_future(
                asyncio.run_coroutine_threadsafe(task, self._event_loop())
            )
        future: Future[Ending] = Future()
        # From now on nobody can cancel it.
        future.set_running_or_notify_cancel()
        self._busy += 1
        try:
            if self._threads < self._busy:
                _start("handler", self._work)
                self._threads += 1
            self._queue.put((given, future))
            return await asyncio.wrap_future(future)
        finally:
            self._busy -= 1

    def end(self, given: Given) -> None:
        """Cancel what is executed for it on the event loop, now or once something is.

        It is ``was_ended`` from then on; what runs on a thread goes on.
        """
        given.is_to_end = True
        if given.task is not None and not given.task.done():
            given.was_ended = True
            self._event_loop().call_soon_threadsafe(given.task.cancel)

    def stop(self) -> None:
        """Let the threads end once they are free."""
        for _ in range(self._threads):
            self._queue.put(None)
        with self._lock:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)

    def _work(self) -> None:
        while (found := self._queue.get()) is not None:
            given, future = found
            future.set_result(self._call(given))

    def _call(self, given: Given) -> Ending:
        token = enter_run(given)
        try:
            with self._around(given):
                result = self._handler(given.instance if self._by_type else given.work)
                refuse_generator(result)
                if inspect.isawaitable(result):
                    result = asyncio.run_coroutine_threadsafe(
                        self._await(result, given), self._event_loop()
                    ).result()
                return self._success(given, result)
        except BaseException as error:
            return Ending(failure_of(error, callers=_CALLERS))
        finally:
            leave_run(token)

    async def _call_async(self, argument: Any, given: Given) -> Ending:
        enter_run(given)
        self._note_task(given)
        try:
            with self._around(given):
                result: Any = self._handler(argument)
                return self._success(given, await result)
        # SystemExit would end the event loop, and with it every other handler.
        except BaseException as error:
            return Ending(failure_of(error, callers=_CALLERS))

    async def _await(self, result: Awaitable[object], given: Given) -> object:
        """Await what a sync handler returned."""
        self._note_task(given)
        return await result

    def _note_task(self, given: Given) -> None:
        """Have the present task be what is cancelled, once it awaits something.

        Cancelled before it has begun, it would never await what it was given.
        """
        given.task = asyncio.current_task()
        # Noted first: whoever ends it now finds that, or has said so before.
        if given.is_to_end:
            self.end(given)

    def _around(self, given: Given) -> AbstractContextManager[object]:
        if self._telemetry is None:
            return nullcontext()
        return self._telemetry.around(given.instance)

    def _success(self, given: Given, result: object) -> Ending:
        if result is HandedOn or isinstance(result, HandedOn):
            raise ConfigurationError(
                "HandedOn is for handlers next to their store, and this one runs in"
                f" {given.place}, which has been handed it on already"
            )
        try:
            text = result_text(result)
        except ConfigurationError as error:
            # What is done is done, and must not be done again for that.
            self._log.warning("what a handler returned is not kept: %s", error)
            text = None
        # A copy: what it was may be changed by now.
        return Ending(result=None if text is None else json.loads(text))

    def _event_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                _start("event loop", self._run_loop, loop)
                self._loop = loop
            return self._loop

    def _run_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.get_loop().run_forever()


def _start(name: str, target: Callable[..., None], *args: object) -> None:
    name = f"go_scheduler worker {name}"
    threading.Thread(target=target, args=args, name=name, daemon=True).start()


_CALLERS = {
    each.__code__
    for each in (Calling._call, Calling._call_async, HandlerRegistry.__call__)
}


_CLOCK = SystemClock()
AnyGiven = TypeVar("AnyGiven", bound=Given)


class Transport(ABC, Generic[AnyGiven]):
    """Where a worker takes runs from, and where it reports them.

    It belongs to one start of a worker, and is used on the event loop of that alone.
    """

    _loop: Loop

    def open(self, loop: Loop) -> None:
        """Begin. What it raises, ``start`` raises, and nothing is left open."""
        self._loop = loop

    @abstractmethod
    async def take(self) -> None:
        """Pass what is taken to ``Loop.begin``, until this is cancelled.

        What is still on its way then is passed as well: the loop gives it back.

        Raises:
            GoSchedulerError: This worker is refused, and ends.
        """

    async def accept(self, given: AnyGiven) -> bool:
        """Whether this worker has the run."""
        return True

    def begin(self, given: AnyGiven) -> None:
        """Note that the handler is about to be called."""
        return

    @abstractmethod
    async def keep(self, given: AnyGiven, by: timedelta | None = None) -> float:
        """Send a heartbeat, with the progress; or ask for more time.

        Returns:
            After how many seconds to send the next one.
        """

    @abstractmethod
    def leave(self, given: AnyGiven) -> None:
        """Free the place of a run: its handler has returned, or is not called."""

    @abstractmethod
    async def give_back(self, given: AnyGiven) -> None:
        """Give back a run whose handler was not called."""

    @abstractmethod
    async def report(self, given: AnyGiven, ending: Ending) -> None:
        """Report what came of a run, until that is recorded or in vain."""

    @abstractmethod
    async def close(self) -> None:
        """End all that ``open`` has begun."""


class Loop:
    """Takes runs and has them done, until it is told to stop: one start of a worker.

    Args:
        transport: Where it takes them from.
        handler: What is called for them.
        log: The log of this kind of worker.
        telemetry: Has a span around each call; None: there is none.
        grace: How long a handler may go on after its timeout.

    Attributes:
        stopping: Done once it is to take no more.
        error: What has ended it; None: nothing has.
    """

    stopping: asyncio.Future[None]

    def __init__(
        self,
        transport: Transport[Any],
        handler: Callable[[Any], object],
        *,
        log: logging.Logger,
        telemetry: Instrument | None = None,
        grace: timedelta = GRACE,
    ) -> None:
        self._transport = transport
        self._calling = Calling(handler, log, telemetry)
        self._log = log
        self._grace = grace.total_seconds()
        self._over: Future[None] = Future()
        self._runs: set[asyncio.Task[Any]] = set()
        self._opened: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._run, name="go_scheduler worker", daemon=True
        )
        self.error: BaseException | None = None

    def start(self) -> None:
        """Begin, on its thread.

        Raises:
            Exception: It cannot begin, and is over.
        """
        self._thread.start()
        self._opened.result()

    def request_stop(self) -> None:
        """Take no more work; what runs is awaited."""
        self._call_soon(_set, self.stopping)

    def leave(self) -> None:
        """Await nothing any more."""
        self._call_soon(_set, self._leaving)

    def join(self, seconds: float | None) -> bool:
        """Wait until it is over, and no longer than so long; whether it is."""
        self._thread.join(seconds)
        return self._over.done()

    def when_over(self, call: Callable[[], None]) -> None:
        """Have it called once this is over, or now if it is."""
        self._over.add_done_callback(lambda _: call())

    def begin(self, given: Given) -> None:
        """Have a run done that the transport has taken."""
        self._spawn(self._have_done(given))

    def ask(self, given: Given, by: timedelta | None, progress: JSON) -> None:
        """Have a heartbeat sent now, from any thread.

        Args:
            given: The run.
            by: How much time to ask for; None: only a heartbeat.
            progress: What to send with it; None: nothing.
        """
        self._call_soon(self._ask, given, by, progress)

    def _ask(self, given: Given, by: timedelta | None, progress: JSON) -> None:
        if progress is not None:
            given.progress, before = progress, given.progress
            if before is not None:
                # What is about to be sent is now the newer one.
                return
        self._spawn(self._transport.keep(given, by))

    async def _have_done(self, given: Given) -> None:
        ending = None
        try:
            if not await self._transport.accept(given):
                return
            if not (self.stopping.done() or given.cancel_requested or given.lost):
                ending = await self._call(given)
        finally:
            self._transport.leave(given)
        if ending is None:
            await self._transport.give_back(given)
            return
        try:
            await self._transport.report(given, ending)
        finally:
            given.keeping.cancel()

    async def _call(self, given: Given) -> Ending:
        given.began_at = _CLOCK.now()
        self._transport.begin(given)
        given.keeping = asyncio.create_task(self._keep(given))
        timers = []
        if given.timeout is not None:
            seconds, later = given.timeout.total_seconds(), self._loop.call_later
            timers.append(later(seconds, self._calling.end, given))
            # A thread cannot be ended: the scheduler gives it up at this heartbeat.
            timers.append(later(seconds + self._grace, self._ask, given, None, None))
        try:
            ending = await self._calling.call(given)
        # No thread can be started, say: it has not been called, and failed.
        except Exception as error:
            ending = Ending(failure_of(error))
        finally:
            for each in timers:
                each.cancel()
        # The clock may have been set back.
        given.ended_at = max(given.began_at, _CLOCK.now())
        failure = ending.failure
        if failure is None or failure.given_back_for is not None:
            return ending
        if given.was_ended:
            text = f"timed out after {given.timeout}\n\n{failure.error}"
            failure = failure._replace(error=text)
        id, attempt = given.work.instance_id, given.work.attempt
        self._log.warning("%s, attempt %d, has failed:\n%s", id, attempt, failure.error)
        return Ending(failure)

    async def _keep(self, given: Given) -> None:
        seconds = given.lease / 3
        while not given.lost:
            await asyncio.sleep(seconds)
            seconds = await self._transport.keep(given)

    def _run(self) -> None:
        try:
            asyncio.run(self._begin_and_live())
        # Coverage no longer follows this thread when its event loop has ended.
        except BaseException as error:  # pragma: no cover
            self.error = error
            if not self._opened.done():
                self._opened.set_exception(error)
        finally:  # pragma: no cover
            self._calling.stop()
            self._over.set_result(None)

    async def _begin_and_live(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.stopping, self._leaving = (self._loop.create_future() for _ in range(2))
        try:
            self._transport.open(self)
        except Exception as error:
            self._opened.set_exception(error)
            raise
        self._opened.set_result(None)
        taking = asyncio.create_task(self._transport.take())
        try:
            await _first(taking, self.stopping)
            taking.cancel()
            await asyncio.wait([taking])
            await _first(asyncio.create_task(self._end()), self._leaving)
            if self._runs:
                text = (
                    "left behind, with runs that have not ended or are still to be told"
                    " of: %d; they run again once they are missed"
                )
                self._log.warning(text, len(self._runs))
        finally:
            await self._transport.close()
        # Raises the error if this worker was refused.
        if not taking.cancelled():
            taking.result()

    async def _end(self) -> None:
        while self._runs:
            await asyncio.wait(self._runs)

    def _spawn(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.create_task(work)
        self._runs.add(task)
        task.add_done_callback(self._runs.discard)

    def _call_soon(self, call: Callable[..., object], *args: object) -> None:
        # The event loop is closed once this is over.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call, *args)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def _first(*futures: asyncio.Future[Any]) -> None:
    """Wait until one of them is done, and leave the others."""
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)


class BaseWorker:
    """A worker that may be started and stopped again and again.

    Args:
        transport: Makes the transport of one start.
        handler: As for a ``Loop``.
        log: Likewise.
        telemetry: Likewise.
    """

    def __init__(
        self,
        transport: Callable[[], Transport[Any]],
        handler: Callable[[Any], object],
        *,
        log: logging.Logger,
        telemetry: Instrument | None,
    ) -> None:
        self._new_loop: Callable[[], Loop] = lambda: Loop(
            transport(), handler, log=log, telemetry=telemetry
        )
        self._lock = threading.Lock()
        self._loop: Loop | None = None

    def start(self) -> None:
        """Begin to wait for work, on threads of its own; harmless if it does.

        Raises:
            GoSchedulerError: It cannot, such as on a bus that has been closed.
        """
        self._started()

    def stop(self, timeout: timedelta | None = None) -> bool:
        """Take no more work, and await what runs and what is still to be told.

        Args:
            timeout: How long to wait before leaving that behind, which then runs again
                elsewhere; None: until all has ended.

        Returns:
            Whether all has ended; true if it was not running. Called from one of its
            handlers, which cannot wait for itself, it answers false at once and the
            worker stops as soon as it can.

        Raises:
            NotAllowedError: It had ended: a server does not know who it is, or does
                not let them work.
            GoSchedulerError: It had ended, as it was refused for another reason.
        """
        if timeout is not None:
            check_at_least("timeout", timeout, ZERO)
        given = run_here()
        with self._lock:
            loop = self._loop
            is_own = isinstance(given, Given) and given.loop is loop
            # Whoever stops it next waits for it.
            self._loop = loop if is_own else None
        if loop is None:
            return True
        loop.request_stop()
        if is_own:
            return False
        done = loop.join(None if timeout is None else timeout.total_seconds())
        if not done:
            loop.leave()
            loop.join(None)
        if loop.error is not None:
            raise loop.error
        return done

    def run(self) -> None:
        """Work until SIGINT, SIGTERM or ``stop()``.

        The first signal awaits the running handlers; a second one leaves them behind.
        Signals are caught on the main thread only, and only while this runs.

        Raises:
            NotAllowedError: A server does not know who asks, or does not let them work.
            GoSchedulerError: It is refused for another reason.
        """
        requests: SimpleQueue[int | None] = SimpleQueue()
        with caught_signals(requests):
            loop = self._started()
            loop.when_over(lambda: requests.put(None))
            if next_request(requests) is not None:
                loop.request_stop()
                if next_request(requests) is not None:
                    loop.leave()
        self.stop()

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop, and wait for what runs."""
        self.stop()

    def _started(self) -> Loop:
        with self._lock:
            if self._loop is None or self._loop.join(0):
                self._loop, loop = None, self._new_loop()
                loop.start()
                self._loop = loop
            return self._loop
