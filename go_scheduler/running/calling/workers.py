"""The workers: threads, an event loop, or an executor on which handlers are called."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections import Counter, deque
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from go_scheduler.errors import SchedulerStateError
from go_scheduler.events import ResultLost
from go_scheduler.events.event import of_instance
from go_scheduler.events.event_bus import LOG_ALONE, Events
from go_scheduler.formatting import shown
from go_scheduler.handlers.registry import Handler, HandlerRegistry, refuse_generator
from go_scheduler.running.calling.calls import Calls, await_here
from go_scheduler.running.state import NodeState, Part

if TYPE_CHECKING:
    from collections.abc import (
        Awaitable,
        Callable,
        Collection,
        Coroutine,
        Iterable,
        Iterator,
    )
    from concurrent.futures import Executor, Future

    from go_scheduler.running.calling.feed import Feed
    from go_scheduler.running.held import HeldRun
    from go_scheduler.running.result_writer import ResultWriter

    Perform = Callable[[HeldRun], Coroutine[None, None, None]]


class EventLoop:
    """An event loop, and which runs it has.

    Args:
        loop: The loop.
        context: Where its tasks begin; None: in that of whoever submits a run.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, context: Context | None = None
    ) -> None:
        self._loop = loop
        self._begins_in = context
        # The loop itself keeps only weak references to its tasks.
        self._tasks: dict[asyncio.Task[Any], HeldRun] = {}

    def submit(
        self, perform: Perform, run: HeldRun, *, dropped: Callable[[HeldRun], None]
    ) -> None:
        """Perform a run as a task of its own.

        Args:
            perform: Performs it, and lets nothing cancel it.
            run: The run.
            dropped: Called if the task was cancelled before it began.
        """
        self._loop.call_soon_threadsafe(
            self._start, perform, run, dropped, context=self._begins_in
        )

    def wait_for(self, result: Awaitable[object], run: HeldRun) -> object:
        """Await this for a run on the loop, and wait here for what comes of it."""
        work = self._tracked(result, run)
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def cancel(self, run: HeldRun) -> bool:
        """Cancel what a run is executing there; false: it has no task there."""
        if run not in self._tasks.copy().values():
            return False
        # One that has been closed meanwhile executes nothing more.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._cancel, run)
        return True

    def is_blocked_by(self, run: HeldRun) -> bool:
        """Whether a run is executing there now, while everything else has to wait."""
        task = asyncio.current_task(self._loop)
        return task is not None and self._tasks.get(task) is run

    def _start(
        self, perform: Perform, run: HeldRun, dropped: Callable[[HeldRun], None]
    ) -> None:
        task = self._loop.create_task(perform(run))
        self._track(task, run)

        def give_up(task: asyncio.Task[None]) -> None:
            if task.cancelled():
                dropped(run)
            self._leave()

        task.add_done_callback(give_up)

    async def _tracked(self, result: Awaitable[object], run: HeldRun) -> object:
        task = asyncio.current_task()
        assert task is not None
        self._track(task, run)
        return await result

    def _cancel(self, run: HeldRun) -> None:
        for task, executing in self._tasks.items():
            if executing is run:
                task.cancel()

    def _track(self, task: asyncio.Task[Any], run: HeldRun) -> None:
        self._tasks[task] = run
        task.add_done_callback(self._untrack)

    def _untrack(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task)

    def _leave(self) -> None:
        """Note that what was submitted has ended."""


class OwnEventLoop(EventLoop):
    """An event loop on a daemon thread.

    Args:
        expects: Whether something is about to be submitted, or awaited.
    """

    def __init__(self, *, expects: bool) -> None:
        super().__init__(asyncio.new_event_loop())
        self._lock = threading.Lock()
        self._stopping = False
        # What has been submitted or is awaited here counts until it has ended.
        self._expected = int(expects)
        threading.Thread(
            target=self._run, name="go_scheduler event loop", daemon=True
        ).start()

    def expect(self) -> bool:
        """Do not end before what is submitted next has; false: it has ended already."""
        with self._lock:
            goes_on = not self._has_ended
            self._expected += goes_on
            return goes_on

    def wait_for(self, result: Awaitable[object], run: HeldRun) -> object:
        """Await this for a run on the loop, and wait here for what comes of it."""
        try:
            return super().wait_for(result, run)
        finally:
            self._leave()

    def stop(self) -> None:
        """End once nothing runs on it."""
        with self._lock:
            self._stopping = True
            self._end_if_idle()

    @property
    def _has_ended(self) -> bool:
        return self._stopping and not self._expected

    def _run(self) -> None:
        while not self._has_ended:
            # SystemExit, and whatever else is no Exception, comes out of a task here.
            with suppress(BaseException):
                self._loop.run_forever()
        self._loop.close()

    def _leave(self) -> None:
        with self._lock:
            self._expected -= 1
            self._end_if_idle()

    def _end_if_idle(self) -> None:
        if self._has_ended:
            # It may have ended before it was told to.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._loop.stop)


class ApplicationLoop(EventLoop):
    """The event loop of the application, which starts and ends it.

    Its tasks begin in the context in which this was made.

    Args:
        loop: The loop; handlers are called while it runs.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._context = copy_context()
        super().__init__(loop, self._context)

    @property
    def trouble(self) -> str | None:
        """Why nothing can be called there; None: it can."""
        if self._loop.is_running():
            return None
        return "the application's event loop, where async handlers run, does not run"

    def left_by_close(self) -> Collection[HeldRun]:
        """What ran there and never goes on, as the loop has been closed."""
        return tuple(self._tasks.values()) if self._loop.is_closed() else ()

    def call(self, function: Callable[[HeldRun], None], run: HeldRun) -> None:
        """Call a function here, in the context in which the loop's tasks begin.

        What it awaits on the loop is in that context as well.
        """
        self._context.copy().run(function, run)

    def is_for(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether this is that loop."""
        return self._loop is loop


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop that runs in this thread, if one does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class Places:
    """Lets runs begin while there are places; the others wait their turn.

    Args:
        size: How many there are.
        begin: Begins a run that has got a place.
    """

    def __init__(self, size: int, begin: Callable[[HeldRun], None]) -> None:
        self.size = size
        self._begin = begin
        self._waiting: SimpleQueue[HeldRun] = SimpleQueue()
        self._lock = threading.Lock()
        self._taken: dict[HeldRun, None] = {}

    def enter(self, run: HeldRun) -> None:
        """Begin a run as soon as there is a place."""
        self._waiting.put(run)
        self.fill()

    def leave(self, run: HeldRun) -> None:
        """Give the place of a run to the next, if it has one still."""
        self.vacate(run)
        self.fill()

    def vacate(self, run: HeldRun) -> None:
        """Leave a place, which the next ``fill`` gives away."""
        with self._lock:
            self._taken.pop(run, None)

    def fill(self) -> None:
        """Begin what waits, as far as there are places."""
        while (run := self._next()) is not None:
            self._begin(run)

    def drain(self) -> Iterator[HeldRun]:
        """Take out what waits."""
        while True:
            try:
                yield self._waiting.get_nowait()
            except Empty:
                return

    def empty(self) -> Iterator[HeldRun]:
        """Take out all there is: what has a place, and what waits."""
        with self._lock:
            taken, self._taken = self._taken, {}
        yield from taken
        yield from self.drain()

    def _next(self) -> HeldRun | None:
        with self._lock:
            if len(self._taken) >= self.size:
                return None
            try:
                run = self._waiting.get_nowait()
            except Empty:
                return None
            self._taken[run] = None
            return run


class Threads:
    """Calls runs on threads that are started as they are needed.

    Args:
        call: Calls the handler of one run.
        most: The most threads, those that have been replaced not counted.
        events: Told of calls of which nobody else can tell.
    """

    def __init__(
        self,
        call: Callable[[HeldRun], None],
        *,
        most: int,
        events: Events = LOG_ALONE,
    ) -> None:
        self._events = events.teller("running")
        self._call = call
        self._most = most
        self._runs: SimpleQueue[HeldRun | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._started = 0
        self._stopped = False
        # One entry for each thread that waits; taking one out is atomic.
        self._free: deque[None] = deque()
        # The runs that are being called; whoever takes one out has the say over its
        # thread.
        self._calling: dict[HeldRun, None] = {}
        self.count = 0

    def prepare(self, count: int) -> None:
        """Have threads for so many runs that fall due soon: a start takes time."""
        # What cannot be started now is tried again when it is needed.
        with suppress(RuntimeError):
            for _ in range(min(count, self._most) - self.count):
                self._add()
                self._free.append(None)

    def submit(self, run: HeldRun) -> None:
        """Call a run as soon as a thread is free."""
        self._runs.put(run)
        if self.count >= self._most:
            return
        try:
            self._free.pop()
        except IndexError:
            self._add()

    def replace(self, run: HeldRun) -> None:
        """If a thread of these calls it, let another one take that one's place."""
        if self._calling.pop(run, _GONE) is _GONE:
            return
        with self._lock:
            self.count -= 1
        self._add()

    def stop(self) -> None:
        """Let the threads end once they are free; what runs goes on."""
        with self._lock:
            self._stopped = True
            for _ in range(self.count):
                self._runs.put(None)

    def _add(self) -> None:
        with self._lock:
            # One that is started once it has stopped would never end.
            if self.count < self._most and not self._stopped:
                name = f"go_scheduler worker {self._started + 1}"
                threading.Thread(target=self._work, name=name, daemon=True).start()
                self._started += 1
                self.count += 1

    def _work(self) -> None:
        while (run := self._runs.get()) is not None:
            self._calling[run] = None
            try:
                self._call(run)
            except BaseException as error:
                ids = of_instance(run.instance)
                event = ResultLost(**ids, error=shown(error), exception=error)
                self._events.tell(event)
            if self._calling.pop(run, _GONE) is _GONE:
                return
            if self.count < self._most:
                self._free.append(None)


_GONE = object()


def _nobody() -> None:
    """Nobody is told."""


class Handling(NamedTuple):
    """A handler, and where it is called.

    Attributes:
        handler: What is called; None: nothing is, and the node claims nothing.
        executor: Calls it instead of the node's own threads; None: those.
        application: The event loop on which it is called if it is async; None: one of
            the node's own.
        beside: Has other nodes of the process look for instances.
        hands_out: Whether nothing is called, and runs are handed to those that wait.
    """

    handler: Handler | None
    executor: Executor | None = None
    application: ApplicationLoop | None = None
    beside: Callable[[], None] = _nobody
    hands_out: bool = False

    @property
    def claims(self) -> bool:
        """Whether the node claims anything."""
        return self.handler is not None or self.hands_out


_NOT_CALLED = "its executor or thread does not call it"


class Workers(Part):
    """Have a handler called for every run that is handed over.

    Sync handlers are called on daemon threads, started as they are needed, ``async
    def`` ones as tasks of one event loop, the application's if there is one; of each at
    most ``max_workers`` at once.

    Args:
        state: What the node's parts share.
        handling: Says what is called, and where; without a handler nothing is.
        writer: Takes what became of it.
    """

    def __init__(
        self,
        state: NodeState,
        handling: Handling,
        *,
        writer: ResultWriter,
    ) -> None:
        super().__init__(state)
        # The empty registry is never asked: then nothing is claimed.
        calls = Calls(state, handling.handler or HandlerRegistry(), writer)
        max_workers = state.settings.max_workers
        self._max_held = state.settings.max_held
        self._calls = calls
        self._writer = writer
        self._application = handling.application
        # Bound once: each run is called so, and each further call costs it.
        self._perform = partial(calls.call, await_result=self._await_result)
        if self._application is not None:
            self._perform = partial(self._application.call, self._perform)
        self._threads = Threads(self._perform, most=max_workers, events=state.events)
        self._tasks = Places(max_workers, self._begin_task)
        self._feed: Feed | None = None
        self.size = max_workers
        if handling.executor is not None:
            # Here, as few have one: what is about processes takes long to import.
            from go_scheduler.running.calling.feed import Feed

            self._feed = Feed(
                handling.executor,
                self._hand_to,
                give_back=partial(writer.give_back, reason=_NOT_CALLED),
                clock=state.clock,
                max_workers=max_workers,
                events=state.events,
            )
            self.size = self._feed.size
        self._lock = threading.Lock()
        self._stopped = False
        self._own_loop: OwnEventLoop | None = None

    def free(self, queues: tuple[str, ...], recently: int = 0) -> int:
        """How many workers there are for what is handed over at this moment.

        Args:
            queues: From which queues; these are all that the node serves.
            recently: How many more are taken to come free.
        """
        return self.size + recently - self._held.busy - self._writer.backlog

    def ahead(self, queues: tuple[str, ...]) -> int:
        """How much more may be held before it is due."""
        return self._max_held - self._held.waiting

    @property
    def trouble(self) -> str | None:
        """Why this node should be given nothing to call; None: it should."""
        left = self._held.keeping()
        if (
            self._held.are_spares_used_up
            or len(left) >= self.size
            or any(self._is_blocked_by(run) for run in left)
        ):
            hanging = len(self._held.hung_runs)
            return f"{hanging} handlers hang, and no worker may take their place"
        if self._application is not None and self._application.trouble is not None:
            return self._application.trouble
        return None if self._feed is None else self._feed.trouble

    def ready(self) -> bool:
        """Whether there is no trouble; an executor that refused is asked again."""
        if self._feed is not None:
            self._feed.revive()
        return self.trouble is None

    def prepare(self, runs: Iterable[HeldRun]) -> None:
        """Have threads ready for runs that fall due soon, as many as do so at once."""
        if self._feed is None:
            sync = (run for run in runs if not self._calls.is_async(run.instance))
            crowds = Counter(run.instance.due_at for run in sync)
            self._threads.prepare(max(crowds.values(), default=0))

    def submit(self, runs: Iterable[HeldRun]) -> None:
        """Call the handler for runs that are due, each as soon as a worker is free."""
        failure: Exception | None = None
        for run in self._held.fall_due(runs, self._clock.elapsed()):
            try:
                if self._feed is not None:
                    self._feed.submit(run)
                elif self._calls.is_async(run.instance):
                    # Here, where it costs only this run if there can be none.
                    self._event_loop(expects=False)
                    self._tasks.enter(run)
                else:
                    self._threads.submit(run)
            # No thread can be started, or the executor has been shut down.
            except Exception as error:
                failure = error
                self._writer.give_back(run, _NOT_CALLED)
        if failure is not None:
            raise failure

    def end(self, run: HeldRun) -> bool:
        """Tell the handler of a run to end; false: it is on a thread, or elsewhere."""
        if self._feed is not None and self._feed.end(run):
            return True
        loop = self._application or self._own_loop
        return loop is not None and loop.cancel(run)

    def replace(self, run: HeldRun) -> None:
        """Let another worker take the place of one whose handler hangs, if it may."""
        if self._feed is not None:
            # A process can be ended; what else an executor has is not ours.
            self._feed.end(run)
            return
        # Neither is the application's loop.
        ours = not self._blocks_application(run)
        if ours and self._held.set_apart(run):
            self._threads.replace(run)
            if self._is_blocked_by(run):
                self._leave_loop()
            self._tasks.leave(run)

    def give_back_left(self) -> None:
        """Give back what never goes on, as the application has closed its loop."""
        if self._application is None:
            return
        for run in self._application.left_by_close():
            # A thread that waits for the loop ends no sooner by this.
            if self._calls.is_async(run.instance):
                self._calls.leave(run, "its event loop has been closed")

    def stop(self) -> None:
        """Let the threads end once they are free; what runs goes on."""
        self._threads.stop()
        with self._lock:
            self._stopped = True
            if self._own_loop is not None:
                self._own_loop.stop()
        if self._feed is not None:
            self._feed.stop()

    def _begin_task(self, run: HeldRun) -> None:
        perform = partial(self._perform_async, places=self._tasks)
        drop = partial(self._drop_task, places=self._tasks)
        self._event_loop().submit(perform, run, dropped=drop)

    def _drop_task(self, run: HeldRun, *, places: Places) -> None:
        """Give back a run whose task somebody cancelled before it began."""
        self._writer.give_back(run, "its task was cancelled")
        places.leave(run)

    def _is_blocked_by(self, run: HeldRun) -> bool:
        """Whether a run keeps the event loop from all others."""
        loop = self._application or self._own_loop
        return loop is not None and loop.is_blocked_by(run)

    def _blocks_application(self, run: HeldRun) -> bool:
        return self._application is not None and self._application.is_blocked_by(run)

    def _leave_loop(self) -> None:
        """Go on with another event loop; this one ends when what it runs has ended."""
        with self._lock:
            loop, self._own_loop = self._own_loop, None
            places, self._tasks = self._tasks, Places(self.size, self._begin_task)
        assert loop is not None
        loop.stop()
        # A run that is being called there stays: it cannot be called twice.
        for run in places.empty():
            self._tasks.enter(run)

    def _hand_to(self, executor: Executor, run: HeldRun) -> Future[Any] | None:
        from concurrent.futures import ProcessPoolExecutor

        from go_scheduler.running.calling.process_executor import ProcessExecutor

        if isinstance(executor, ProcessExecutor | ProcessPoolExecutor):
            return self._calls.call_in_process(executor, run)
        return executor.submit(self._perform, run)

    async def _perform_async(self, run: HeldRun, *, places: Places) -> None:
        try:
            await self._calls.call_async(run)
        finally:
            places.leave(run)

    def _await_result(self, result: object, run: HeldRun) -> object:
        """Await what a sync handler returned, if that is what it takes to run it."""
        refuse_generator(result)
        if not inspect.isawaitable(result):
            return result
        if running_loop() is not None:
            _refuse_here(result)
        if self._feed is None or self._application is not None:
            return self._event_loop().wait_for(result, run)
        return asyncio.run(await_here(result))

    def _event_loop(self, *, expects: bool = True) -> EventLoop:
        """The event loop; if it expects something, it does not end before that has."""
        if self._application is not None:
            return self._application
        with self._lock:
            loop = self._own_loop
            if loop is None or (expects and not loop.expect()):
                loop = self._own_loop = OwnEventLoop(expects=expects)
                if self._stopped:
                    loop.stop()
            return loop


def _refuse_here(result: Awaitable[object]) -> NoReturn:
    """Refuse to await in a thread whose event loop waits for this call meanwhile."""
    if inspect.iscoroutine(result):
        result.close()
    raise SchedulerStateError(
        "an async handler cannot be awaited where an event loop runs and waits for it:"
        " move a manual clock by `await asyncio.to_thread(clock.advance, ...)`"
    )
