"""The life of a scheduler: how it is started, run and stopped, also by signals."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from abc import ABC, abstractmethod
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import islice
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Self
from weakref import ref

from go_scheduler.checks import LONGEST, check_type
from go_scheduler.clock import ZERO, Clock, DrivingClock
from go_scheduler.errors import SchedulerStateError
from go_scheduler.running.calling.workers import ApplicationLoop, running_loop

if TYPE_CHECKING:
    from collections.abc import Iterator, Set
    from types import FrameType, TracebackType

    from go_scheduler.models import Outcome, TaskDefinition
    from go_scheduler.node import Node


class Lifecycle(ABC):
    """Starts and stops one node after another: by calls, ``with``, or signals.

    Args:
        clock: The nodes' clock.
        loop: The event loop on which async handlers are called, if one was given.
    """

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop | None) -> None:
        self._clock = clock
        # Checked once: isinstance() of a protocol takes a tenth of the time of a call.
        self._clock_drives = isinstance(clock, DrivingClock)
        self._loop = loop
        # Reentrant: a listener that is called in place during a start may start, too.
        self._lock = threading.RLock()
        self._node: Node | None = None
        self._fellows = Fellows()
        self._fellows.add(self)

    @abstractmethod
    def _connect(self) -> None:
        """Make the store ready; do nothing if it cannot be reached."""

    @abstractmethod
    def _new_node(self, application: ApplicationLoop | None) -> Node:
        """Make a node, not yet started, whose async handlers run on this loop."""

    def start(self) -> None:
        """Start the loops on threads of their own; harmless if they run.

        After ``stop()`` this starts afresh, as another node.

        Raises:
            SchedulerStateError: It was started in another process, before a fork; or an
                event loop runs here, which this would block.
            StoreError: The store cannot be made ready.
        """
        self._refuse_to_block("start()", "await scheduler.astart()")
        self._started()

    async def astart(self) -> None:
        """Start, and call async handlers on the event loop that runs here.

        They are called in the context of this call: they see its context variables. If
        the scheduler was given a ``loop``, they are called on that one.

        Raises:
            SchedulerStateError: It runs already and calls them on another loop; or it
                was started in another process, before a fork.
            StoreError: The store cannot be made ready.
        """
        loop = asyncio.get_running_loop() if self._loop is None else self._loop
        application = ApplicationLoop(loop)
        await asyncio.to_thread(self._prepare_store)
        # No await from here on: a start that is cancelled has not begun.
        node = self._begin(application)
        if node.application is None or not node.application.is_for(loop):
            raise SchedulerStateError(
                "it runs already, and calls async handlers on another event loop: stop"
                " it first"
            )

    def stop(self, timeout: timedelta | None = None) -> bool:
        """Stop: claim nothing new, give back what is held, await what runs.

        Args:
            timeout: How long to wait before leaving behind what still runs; None: until
                each handler has come back or has outlived its ``expire_after``.

        Returns:
            Whether everything came back and was recorded; true if it was not running.
            Called from a handler or a listener, which cannot wait for itself, it
            answers false at once and the scheduler stops as soon as it can.

        Raises:
            ConfigurationError: The timeout is neither None nor a timedelta.
            SchedulerStateError: An event loop runs here, for which handlers may be
                waiting; nothing was stopped.
        """
        timeout = _checked_timeout(timeout)
        node = self._running()
        if node is None:
            return True
        if not (node.stopped or node.is_own_thread):
            self._refuse_to_block("stop()", "await scheduler.astop()")
        return node.stop(timeout)

    async def astop(self, timeout: timedelta | None = None) -> bool:
        """Stop like ``stop()``, while the event loop goes on; see there.

        If the await is cancelled, the scheduler stops all the same.
        """
        timeout = _checked_timeout(timeout)
        node = self._running()
        if node is None:
            return True
        if self._clock_drives:
            # On a driving clock, waiting moves the clock.
            return await asyncio.to_thread(node.stop, timeout)
        node.request_stop()
        if node.is_own_thread:
            return False
        seconds = None if timeout is None else timeout.total_seconds()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await _stopped(node)
        # On a thread, as it waits until the listeners have heard of it.
        return await asyncio.to_thread(node.leave_behind)

    def run(self) -> None:
        """Start, wait for SIGINT, SIGTERM or ``stop()``, and stop.

        The first signal awaits the running handlers; a second one leaves them behind.
        Signals are caught on the main thread only, and only while this runs.

        Raises:
            SchedulerStateError: The clock is one that tests move; or an event loop runs
                here, which this would block.
        """
        if self._clock_drives:
            raise SchedulerStateError(
                "run() waits in real time, and a manual clock is moved by hand: use"
                " start() and clock.advance()"
            )
        self._refuse_to_block("run()", "async with scheduler")
        # Only a SimpleQueue lets a signal handler put while its own thread gets.
        requests: SimpleQueue[int | None] = SimpleQueue()
        with caught_signals(requests):
            node = self._started()
            node.when_stopped(lambda: requests.put(None))
            if next_request(requests) is None:
                return
            node.request_stop()
            if next_request(requests) is not None:
                node.stop(ZERO)

    def __enter__(self) -> Self:
        """Start."""
        self._refuse_to_block("with", "async with")
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

    async def __aenter__(self) -> Self:
        """Start, and call async handlers on the event loop that runs here."""
        await self.astart()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop, and await what runs."""
        await self.astop()

    def _started(self) -> Node:
        self._prepare_store()
        return self._begin(None if self._loop is None else ApplicationLoop(self._loop))

    def _prepare_store(self) -> None:
        self._check_process()
        if self._node is None or self._node.stopping:
            self._connect()

    def _begin(self, application: ApplicationLoop | None) -> Node:
        """Start a node, unless one runs; the store has been made ready."""
        with self._lock:
            if self._node is None or self._node.stopping:
                self._node = self._new_node(application)
                self._node.start()
            return self._node

    def _join(self, other: Lifecycle) -> None:
        """Let this scheduler and another one tell each other what is new."""
        other._fellows = self._fellows
        self._fellows.add(other)

    def _taker(self, queue: str | None) -> Node | None:
        # On a driving clock things run when the clock is moved, never within a call.
        if self._clock_drives:
            return None
        if queue is None:
            return self._live_node()
        takers = (each for each in self._fellows.nodes() if each.takes(queue))
        return next(takers, None)

    @property
    def _is_cut_off(self) -> bool:
        """Whether it runs and its store does not answer; cheaper than ``health``."""
        node = self._node
        return not (node is None or node.stopped or node.reaches_store)

    def _look(self, stored: TaskDefinition | None = None) -> None:
        for each in self._fellows.nodes():
            each.look(stored)

    def _look_for_instances(self, queues: Set[str] | None = None) -> None:
        for each in self._fellows.nodes():
            each.look_for_instances(queues)

    def _look_beside(self) -> None:
        """Let the other schedulers of this process look for instances."""
        mine = self._node
        for each in self._fellows.nodes():
            if each is not mine:
                each.look_for_instances()

    def _count_end(
        self,
        definition: TaskDefinition,
        outcome: Outcome | None,
        took: timedelta | None,
    ) -> None:
        for each in islice(self._fellows.nodes(), 1):
            each.metrics.ended(definition, outcome, took)

    def _live_node(self) -> Node | None:
        node = self._node
        if node is None or node.stopping or node.process != os.getpid():
            return None
        return node

    def _running(self) -> Node | None:
        self._check_process()
        return self._node

    def _refuse_to_block(self, call: str, instead: str) -> None:
        """Refuse to wait for handlers on a thread for which they may be waiting.

        On a manual clock nothing waits for anything.
        """
        if running_loop() is not None and not isinstance(self._clock, DrivingClock):
            raise SchedulerStateError(
                f"{call} would block the event loop that runs here, for which handlers"
                f" may be waiting: use `{instead}`"
            )

    def _check_process(self) -> None:
        if self._node is not None and self._node.process != os.getpid():
            raise SchedulerStateError(forked(self._node))


class Fellows:
    """The schedulers of a process on one store; they tell each other what is new."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: tuple[ref[Lifecycle], ...] = ()

    def add(self, one: Lifecycle) -> None:
        """Add one; it is kept only as long as somebody else refers to it."""
        with self._lock:
            kept = (each for each in self._all if each() is not None)
            self._all = (*kept, ref(one))

    def nodes(self) -> Iterator[Node]:
        """The nodes of those that run."""
        for each in self._all:
            one = each()
            if one is not None and (node := one._live_node()) is not None:
                yield node


def forked(node: Node) -> str:
    """The error about a node that was started before a fork."""
    return (
        f"this scheduler was started in process {node.process}, which has been forked"
        " since: make another one in each process"
    )


def _checked_timeout(timeout: timedelta | None) -> timedelta | None:
    if timeout is None:
        return None
    check_type("timeout", timeout, timedelta)
    return min(timeout, LONGEST)


async def _stopped(node: Node) -> None:
    """Wait until a node has stopped."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()

    def tell() -> None:
        # The loop may be closed by now, if the wait was given up.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(stopped.set)

    node.when_stopped(tell)
    await stopped.wait()


def next_request(requests: SimpleQueue[int | None]) -> int | None:
    """Wait for the next one: a signal's number, or None for ``stop()``."""
    while True:
        # In an endless wait, a signal that came just before the wait would only be
        # noticed with the next one.
        with suppress(Empty):
            return requests.get(timeout=0.5)


@contextmanager
def caught_signals(requests: SimpleQueue[int | None]) -> Iterator[None]:
    """Put SIGINT and SIGTERM to a queue while this lasts, if on the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def put(number: int, frame: FrameType | None) -> None:
        requests.put(number)

    before = {
        number: signal.signal(number, put) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
