"""The scheduler: what users hold; it wires handler, store and loops."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import fields, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.argument_hints import write_instead
from go_scheduler.checks import check_type
from go_scheduler.client import Client
from go_scheduler.client.on_demand import Tasks
from go_scheduler.clock import Clock, DrivingClock, StoreClock, SystemClock, check_same
from go_scheduler.errors import ConfigurationError, StoreError, StoreUnavailableError
from go_scheduler.events import NoticeGiven
from go_scheduler.events.event import Listener, checked_listeners
from go_scheduler.events.event_bus import Events
from go_scheduler.handlers.registry import NAMELESS, HandlerRegistry, check_handler
from go_scheduler.health import Health, HealthWarnings, not_running
from go_scheduler.lifecycle import Lifecycle, forked
from go_scheduler.node import Node
from go_scheduler.policies import CatchUp, RetryPolicy
from go_scheduler.running.calling.process_executor import check_sendable
from go_scheduler.running.calling.workers import ApplicationLoop, Handling
from go_scheduler.running.defaults import Defaults
from go_scheduler.settings import Settings
from go_scheduler.stores.base import Store
from go_scheduler.stores.memory.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from go_scheduler.handlers.registry import Handler
    from go_scheduler.models import TaskDefinition
    from go_scheduler.running.remote_runs import RemoteRuns


NO_HANDLER = (
    "this scheduler has no handler: it creates instances and runs none; pass one, or"
    " start others that have one"
)

_STOPPED = (
    "this scheduler has been stopped: what is scheduled by it waits for another one, or"
    " until it is started again"
)


@write_instead("Scheduler(handler, store, schedule_window=timedelta(seconds=10))")
class Scheduler(Lifecycle, Tasks, Client):
    """Runs a handler for each fire time of the definitions in a store.

    ```python
    with Scheduler(handler) as scheduler:
        scheduler.schedule(TaskDefinition(trigger=IntervalTrigger(timedelta(hours=1))))
        ...
    ```

    In an application with an event loop, async handlers are called on that loop, in
    the context in which the scheduler was entered:

    ```python
    async with Scheduler(handler, store) as scheduler:
        await scheduler.aschedule(definition)
        ...
    ```

    Any number of schedulers, in any number of processes, may share a store that
    processes can share: each fire time is run by one of them.

    All methods may be called from any thread and from handlers. Those that read or
    change the store raise ``StoreUnavailableError`` if it cannot be reached.

    Args:
        handler: Called with each due instance; sync or ``async def``, or a
            ``HandlerRegistry``. None: this scheduler manages definitions and creates
            instances for others to run, and needs the store that they have.
        store: Where definitions and instances are kept; None: a new ``MemoryStore``.
        schedule_window: Look for definitions that fire soon at least this often.
        runner_window: Claim instances this long before they are due, and look for them
            at least every three quarters of it.
        cleanup_window: Look for what can be deleted at least every half of this.
        queues: Run the instances of these queues, and of no others.
        max_workers: The most handlers that run at once; of sync and of async ones each.
        max_held: The most instances to hold before they are due.
        max_hung: The most handlers that may hang here and cost no worker, as another
            takes the place of each; None: as many as ``max_workers``, and at least
            four. Once an eighth of so many, or three, are of one definition, its
            further instances are left to other nodes. Once all are used up this node
            claims nothing more.
        max_hangs: After so many runs in a row that were presumed hung an instance has
            *failed*, whatever its ``max_attempts``; None: no end.
        expire_after: How long a run may take before it is presumed hung and the
            instance runs again, for definitions that do not say; see ``Run.extend``.
        timeout: How long a handler may run before it is told to end, for definitions
            that do not say; see ``TaskDefinition``. None: ``expire_after`` alone.
        retry: What follows a run that failed, for definitions that do not say. None:
            ``RetryPolicy()``, or ``RetryPolicy.after_expiry()`` for those with an
            ``expire_after`` of their own.
        catch_up: What becomes of what is late, for definitions that do not say.
        jitter: Run each instance later than its fire time, by up to so much, for
            definitions that do not say; see ``TaskDefinition``. None: at its fire time.
        lease: How long a claim holds unless it is renewed, which happens every third of
            it: the work of a node that died runs elsewhere a little after that.
        retention: How long finished instances and definitions are kept, for a ``lease``
            at least; zero: what has succeeded is deleted as it ends, unless it has a
            key, a result or a slot, or was claimed more than once.
        retention_failed: The same for instances that failed; None: a week, or as long
            as ``retention`` if that is longer or zero.
        remember: How long the id of a definition is remembered that was passed and not
            made up: scheduled again with an equal trigger, it does not run again. It
            counts from when its last fire time was given its instance.
        clock_error: This machine's clock and the store's are apart by no more than
            this, and you vouch for it: on a slow link handlers then start by this
            machine's clock, so much later, and no longer by answers that are late
            themselves. If it is not true, they may start early, by a round trip at
            most. None: nobody vouches for it.
        lateness_objective: How late runs may begin, but for one in a hundred: the log
            and an event tell when that is broken, and when it is met again.
        clock: Measures time; a ``ManualClock`` for tests. None: the system's.
        executor: Calls the handlers, such as a ``ProcessExecutor``, whose processes
            end with the scheduler; any other is not shut down. In processes there is no
            ``current_run()``. None: the scheduler's own threads, and an event loop for
            async handlers.
        loop: The event loop on which async handlers are called, while it runs. None:
            that in which the scheduler is started by ``async with`` or ``astart()``,
            else one of its own, on a thread of its own.
        log_runs: Whether the log has a line for each run, at INFO: name, id, attempt,
            how late it began, how long it took, and what came of it.
        listeners: Called with each event, such as ``InstanceFinished``, on threads of
            their own; ``hears`` of ``go_scheduler.events`` makes one that is told of
            some kinds only.

    Raises:
        ConfigurationError: An argument is wrong.
    """

    def __init__(
        self,
        handler: Handler | None,
        store: Store | None = None,
        *,
        schedule_window: timedelta = timedelta(seconds=1),
        runner_window: timedelta = timedelta(seconds=1),
        cleanup_window: timedelta = timedelta(minutes=1),
        queues: Sequence[str] = ("default",),
        max_workers: int = 32,
        max_held: int = 1000,
        max_hung: int | None = None,
        max_hangs: int | None = 3,
        expire_after: timedelta = timedelta(minutes=5),
        timeout: timedelta | None = None,
        retry: RetryPolicy | None = None,
        catch_up: CatchUp = CatchUp(),
        jitter: timedelta | None = None,
        lease: timedelta = timedelta(seconds=20),
        retention: timedelta = timedelta(days=1),
        retention_failed: timedelta | None = None,
        remember: timedelta = timedelta(days=400),
        clock_error: timedelta | None = None,
        lateness_objective: timedelta | None = None,
        clock: Clock | None = None,
        executor: Executor | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        log_runs: bool = False,
        listeners: Sequence[Listener] = (),
    ) -> None:
        _check_handler_or_store(handler, store)
        _check_if_given("executor", executor, Executor)
        check_sendable(handler, executor)
        _check_if_given("clock", clock, Clock)
        _check_if_given("loop", loop, asyncio.AbstractEventLoop)
        check_type("log_runs", log_runs, bool)
        heard = checked_listeners(listeners)
        self._settings = Settings(
            schedule_window=schedule_window,
            runner_window=runner_window,
            cleanup_window=cleanup_window,
            queues=queues,
            max_workers=max_workers,
            max_held=max_held,
            max_hung=max_hung,
            max_hangs=max_hangs,
            expire_after=expire_after,
            timeout=timeout,
            retry=retry,
            catch_up=catch_up,
            jitter=jitter,
            lease=lease,
            retention=retention,
            retention_failed=retention_failed,
            remember=remember,
            clock_error=clock_error,
            lateness_objective=lateness_objective,
        )
        Client.__init__(self, MemoryStore(clock) if store is None else store)
        self._defaults = Defaults.of(self._settings)
        self._retention = retention
        Lifecycle.__init__(self, SystemClock() if clock is None else clock, loop)
        self._listeners, self._logs_runs = heard, log_runs
        self._hub = Events(heard, self._clock, log_runs=log_runs)
        self._events = self._hub.teller("scheduler")
        self._handler, self._executor = handler, executor
        self._hands_out = False
        self._use_tasks_of(handler)
        self._notices, self._said = HealthWarnings(), HealthWarnings()
        check_same(self._clock, self._store.clock)
        if isinstance(self._clock, DrivingClock):
            self._executor = executor or self._clock.executor

    def health(self) -> Health:
        """How the scheduler is at this moment; never raises and never waits."""
        return replace(self._node_health(), events_dropped=self._hub.dropped)

    def _remote_runs_maker(self) -> Callable[[], RemoteRuns]:
        """Makes remote runs that know the store's time, anew for each batch."""
        clock = StoreClock(self._clock, self._store.now)

        def make() -> RemoteRuns:
            self._ready()
            clock.refresh(waits=True)
            return self._remote_runs(clock.now)

        return make

    def _handing_out(self) -> Scheduler:
        """One more scheduler like this, which hands out what others run elsewhere.

        It is started and stopped by itself, and serves what its node subscribes to.
        What one of the two puts in or makes due, the other looks for at once.
        """
        same = {
            each.name: getattr(self._settings, each.name) for each in fields(Settings)
        }
        made = Scheduler(
            None,
            self._store,
            **same,
            clock=self._clock,
            log_runs=self._logs_runs,
            listeners=self._listeners,
        )
        made._hands_out = True
        self._join(made)
        return made

    def _node_health(self) -> Health:
        node = self._node
        if node is None:
            return not_running("it has not been started; check() asks the store")
        if node.process != os.getpid():
            return not_running(forked(node))
        if node.stopped:
            return not_running("it has been stopped")
        health = node.health()
        return replace(health, warnings=self._notices.texts + health.warnings)

    def _connect(self) -> None:
        # The registry may have other tasks by now.
        check_sendable(self._handler, self._executor)
        store = self._ready()
        self._scheduled.clear()
        # If the store is away, the loops report it and go on later; tasks are scheduled
        # then as well.
        with suppress(StoreUnavailableError):
            self._schedule_tasks()
        with suppress(StoreError):
            store.connect()

    def _new_node(self, application: ApplicationLoop | None) -> Node:
        handling = Handling(
            self._handler,
            self._executor,
            application,
            self._look_beside,
            hands_out=self._hands_out,
        )
        if not handling.claims:
            self._say(NO_HANDLER, stays=True)
        return Node(
            handling,
            self._store,
            self._clock,
            self._settings,
            events=self._hub,
            tasks=self._schedule_tasks if self._unscheduled() else None,
        )

    def _prepare(
        self, operation: str, definitions: Sequence[TaskDefinition], *, joins: bool
    ) -> tuple[Sequence[TaskDefinition], Sequence[str]]:
        prepared = super()._prepare(operation, definitions, joins=joins)
        if self._handler is not None:
            for each in definitions:
                self._look_at(each)
        node = self._node
        if node is not None and node.stopped:
            # Other schedulers see what is in memory only if they have this very store.
            alone = type(self._store) is MemoryStore
            self._say(_STOPPED, is_warning=alone)
        return prepared

    def _look_at(self, definition: TaskDefinition) -> None:
        """Log if this scheduler cannot run a definition, which another one may."""
        queues = self._settings.queues
        if definition.queue not in queues:
            text = (
                f"queue {definition.queue!r} is not among those that this scheduler"
                f" serves, {', '.join(map(repr, queues))}: what is scheduled there"
                " waits for a node that serves it"
            )
            # Another node may serve it. If none does, the nodes warn later.
            self._say(text)
        elif isinstance(self._handler, HandlerRegistry):
            name = definition.name
            if name is None:
                self._say(f"{NAMELESS}: pass name= to TaskDefinition", stays=True)
            elif name not in self._handler:
                text = (
                    f"no handler is registered as {name!r} here: what is scheduled by"
                    " it waits for a node that has one; register it, or mind its"
                    " spelling"
                )
                self._say(text)

    def _say(self, text: str, *, is_warning: bool = False, stays: bool = False) -> None:
        """Log a text once; if it stays, it is a warning of ``health`` as well."""
        if (self._notices if stays else self._said).add(text):
            self._events.tell(NoticeGiven(text=text, is_warning=is_warning or stays))

    def _runs(self) -> bool:
        return self._live_node() is not None


def _check_handler_or_store(handler: object, store: object) -> None:
    if handler is None and store is None:
        raise ConfigurationError(
            "without a handler this scheduler would run nothing, and nobody else"
            " has its store: pass a handler, or the store of those who have one"
        )
    if isinstance(handler, Store):
        raise ConfigurationError(
            "the handler comes first, and then the store: Scheduler(handler, store)"
        )
    if handler is not None:
        check_handler(handler)


def _check_if_given(name: str, value: object, kind: type) -> None:
    if value is not None:
        check_type(name, value, kind)
