"""The scheduler: what users hold; it wires handler, store and loops."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
from datetime import timedelta
from queue import SimpleQueue
from typing import TYPE_CHECKING, Self
from uuid import UUID

from go_scheduler.clock import ZERO, DrivingClock, SystemClock
from go_scheduler.errors import (
    ConfigurationError,
    SchedulerStateError,
    TaskDefinitionNotFoundError,
)
from go_scheduler.health import STOPPED, Health
from go_scheduler.json import freeze
from go_scheduler.models import (
    METADATA_LIMIT,
    State,
    TaskDefinition,
    TaskInstance,
    check_type,
)
from go_scheduler.node import Node
from go_scheduler.preparation import next_after_end, prepare
from go_scheduler.settings import Settings
from go_scheduler.stores.base import Store
from go_scheduler.stores.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from concurrent.futures import Executor
    from types import FrameType, TracebackType

    from go_scheduler.clock import Clock
    from go_scheduler.handlers import Handler
    from go_scheduler.json import JSON
    from go_scheduler.models import Cancelled

MOST_LISTED = 1000
"""The most definitions or instances that one list returns."""


class Scheduler:
    """Runs a handler for each fire time of the definitions in a store.

    ```python
    with Scheduler(handler) as scheduler:
        scheduler.schedule(TaskDefinition(trigger=IntervalTrigger(timedelta(hours=1))))
        ...
    ```

    Any number of schedulers, in any number of processes, may share a store that
    processes can share: each fire time is run by one of them.

    All methods may be called from any thread and from handlers. Those that read or
    change the store raise ``StoreUnavailableError`` if it cannot be reached.

    Args:
        handler: Called with each due instance; sync or ``async def``, or a
            ``HandlerRegistry``. None: this scheduler manages definitions and creates
            instances for others to run.
        store: Where definitions and instances are kept; None: a new ``MemoryStore``.
        schedule_window: Look for definitions that fire soon at least every half of
            this.
        runner_window: Claim instances this long before they are due, and look for them
            at least every half of it.
        cleanup_window: Look for what can be deleted at least every half of this.
        queues: Run the instances of these queues, and of no others.
        max_workers: The most handlers that run at once.
        max_held: The most instances to hold before they are due.
        expire_after: How long a run may take before it is presumed hung and the
            instance runs again, for definitions that do not say; see ``Run.extend``.
        lease: How long a claim holds unless it is renewed, which happens every third of
            it: the work of a node that died runs elsewhere after so long, and a little
            more.
        retention: How long finished instances and definitions are kept.
        clock: Measures time; a ``ManualClock`` for tests. None: the system's.
        executor: Calls the handlers, such as a ``ProcessPoolExecutor``, whose handlers
            and instances travel pickled and have no ``current_run()``; it is not shut
            down. None: the scheduler's own threads, and an event loop for async
            handlers.

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
        expire_after: timedelta = timedelta(minutes=5),
        lease: timedelta = timedelta(seconds=20),
        retention: timedelta = timedelta(days=1),
        clock: Clock | None = None,
        executor: Executor | None = None,
    ) -> None:
        if handler is not None and not callable(handler):
            raise ConfigurationError(f"the handler cannot be called: {handler!r}")
        self._settings = Settings(
            schedule_window=schedule_window,
            runner_window=runner_window,
            cleanup_window=cleanup_window,
            queues=queues,
            max_workers=max_workers,
            max_held=max_held,
            expire_after=expire_after,
            lease=lease,
            retention=retention,
        )
        self._handler = handler
        self._store = MemoryStore(clock) if store is None else store
        check_type("store", self._store, Store)
        self._clock = SystemClock() if clock is None else clock
        self._executor = executor
        if isinstance(self._clock, DrivingClock):
            if self._store.clock is not self._clock:
                raise ConfigurationError(
                    "the store must have the same manual clock as the scheduler:"
                    " pass it to both"
                )
            self._executor = executor or self._clock.executor
        self._lock = threading.Lock()
        self._initialized = False
        self._node: Node | None = None

    def schedule(self, definition: TaskDefinition) -> TaskDefinition:
        """Insert a definition, or replace the one with its id.

        Scheduling an equal definition again changes nothing. Another trigger starts
        anew from now: what has not started of the old one is removed. Any other change
        leaves the fire times as they are and applies to each instance that starts from
        now on.

        Args:
            definition: What to run, and when. Its ``revision``, if it has one, must be
                the stored one.

        Returns:
            The definition as stored, with its ``next_fire_time``.

        Raises:
            ConfigurationError: It is no definition, or its trigger cannot be stored.
            InvalidTriggerError: Its trigger raised, or returned what is no fire time.
            ConflictError: It has been changed since it was read.
        """
        store = self._ready()
        prepared = prepare(definition, store.now())
        (stored,) = store.put_definitions([prepared])
        self._look()
        return stored

    def get_definition(self, definition_id: UUID) -> TaskDefinition:
        """Read one definition.

        Raises:
            TaskDefinitionNotFoundError: There is none with this id.
        """
        check_type("definition_id", definition_id, UUID)
        return self._ready().get_definition(definition_id)

    def list_definitions(
        self,
        *,
        ids: Collection[UUID] | None = None,
        metadata: Mapping[str, JSON] | None = None,
        name: str | None = None,
        queue: str | None = None,
        after: UUID | None = None,
        limit: int = 100,
    ) -> Sequence[TaskDefinition]:
        """Read a page of the definitions that meet every condition given.

        Args:
            ids: Their id is among these.
            metadata: Their metadata contains this: each key, with a value that contains
                the one given; an array contains those whose items it all contains.
            name: They have this name.
            queue: They have this queue.
            after: Their id is greater: the id of the last one of the page before.
            limit: The most to return, 1 to 1,000.

        Returns:
            The definitions in the order of their ids; empty if there are no more.

        Raises:
            ConfigurationError: An argument is wrong.
        """
        _check_limit(limit)
        return self._ready().list_definitions(
            ids=None if ids is None else _ids(ids),
            metadata=None if metadata is None else _query(metadata),
            name=name,
            queue=queue,
            after=after,
            limit=limit,
        )

    def delete_definition(self, definition_id: UUID) -> bool:
        """Delete a definition and what has not started of it.

        What runs is told that it has lost its claim, and its result is dropped. After
        this the same id may be scheduled again, as a new definition.

        Returns:
            Whether there was one.
        """
        return self.delete_definitions(ids=[definition_id]) == 1

    def delete_definitions(
        self,
        *,
        ids: Collection[UUID] | None = None,
        metadata: Mapping[str, JSON] | None = None,
    ) -> int:
        """Delete the definitions that meet every condition given, as above.

        Returns:
            How many there were.

        Raises:
            ConfigurationError: No condition was given, or one is wrong.
        """
        if ids is None and metadata is None:
            raise ConfigurationError("say which definitions to delete: ids or metadata")
        store = self._ready()
        if metadata is None and ids is not None:
            return len(store.delete_definitions(_ids(ids)))
        deleted = 0
        after = None
        while page := self.list_definitions(ids=ids, metadata=metadata, after=after):
            after = page[-1].id
            deleted += len(store.delete_definitions([one.id for one in page]))
        return deleted

    def pause(self, definition_id: UUID, note: str | None = None) -> TaskDefinition:
        """Pause a definition: nothing of it starts until it is resumed.

        Fire times that pass meanwhile are treated by ``catch_up`` when it is resumed.
        What runs goes on.

        Args:
            definition_id: Which.
            note: Why, for a person to read; at most 64 KiB.

        Returns:
            The definition as stored.

        Raises:
            TaskDefinitionNotFoundError: There is none with this id.
            ConfigurationError: The note is no text that every store can keep.
        """
        check_type("definition_id", definition_id, UUID)
        if note is not None:
            check_type("note", note, str)
            freeze({"note": note}, name="pause", limit=METADATA_LIMIT)
        paused = self._ready().pause_definitions([definition_id], note=note)
        return _only(paused, definition_id)

    def resume(self, definition_id: UUID) -> TaskDefinition:
        """End a definition's pause.

        Returns:
            The definition as stored.

        Raises:
            TaskDefinitionNotFoundError: There is none with this id.
        """
        check_type("definition_id", definition_id, UUID)
        resumed = _only(
            self._ready().resume_definitions([definition_id]), definition_id
        )
        self._look()
        return resumed

    def get_instance(self, instance_id: UUID) -> TaskInstance:
        """Read one instance.

        Raises:
            TaskInstanceNotFoundError: There is none with this id.
        """
        check_type("instance_id", instance_id, UUID)
        return self._ready().get_instance(instance_id)

    def list_instances(
        self,
        *,
        definition_id: UUID | None = None,
        state: State | None = None,
        after: TaskInstance | None = None,
        limit: int = 100,
    ) -> Sequence[TaskInstance]:
        """Read a page of the instances that meet every condition given.

        Args:
            definition_id: They belong to this definition.
            state: They are in this state.
            after: They come later: the last one of the page before.
            limit: The most to return, 1 to 1,000.

        Returns:
            The instances in the order of ``execute_at`` and id; empty if there are no
            more.

        Raises:
            ConfigurationError: An argument is wrong.
        """
        _check_limit(limit)
        if definition_id is not None:
            check_type("definition_id", definition_id, UUID)
        if state is not None:
            check_type("state", state, State)
        if after is not None:
            check_type("after", after, TaskInstance)
        return self._ready().list_instances(
            definition_id=definition_id, state=state, after=after, limit=limit
        )

    def counts(self) -> Mapping[State, int]:
        """How many instances are in each state."""
        return self._ready().counts()

    def cancel(self, instance_id: UUID) -> Cancelled | None:
        """Cancel an instance that has not started, or ask its run to stop.

        A start is recorded some 20 ms before the instance is due; from then on its run
        is asked, by ``current_run().cancelled``, which it learns within a third of the
        lease.

        Returns:
            *cancelled*: it will not run; *requested*: it runs, or is about to; None: it
            had ended before.

        Raises:
            TaskInstanceNotFoundError: There is none with this id.
        """
        instance = self.get_instance(instance_id)
        store = self._ready()
        next_fire_time = next_after_end(instance.definition, store.now())
        return store.cancel_instances({instance_id: next_fire_time}).get(instance_id)

    def start(self) -> None:
        """Start the loops on threads of their own; harmless if they run.

        After ``stop()`` this starts afresh, as another node.

        Raises:
            SchedulerStateError: It was started in another process, before a fork.
            StoreError: The store cannot be made ready.
        """
        self._started()

    def stop(self, timeout: timedelta | None = None) -> bool:
        """Stop: claim nothing new, give back what is held, await what runs.

        Args:
            timeout: How long to wait before leaving behind what still runs; None: until
                each handler has come back or has outlived its ``expire_after``.

        Returns:
            Whether everything came back and was recorded; true if it was not running.
            Called from a handler, which cannot wait for itself, it answers false at
            once and the scheduler stops as soon as it can.

        Raises:
            ConfigurationError: The timeout is neither None nor a timedelta.
        """
        if timeout is not None:
            check_type("timeout", timeout, timedelta)
        self._check_process()
        node = self._node
        return True if node is None else node.stop(timeout)

    def run(self) -> None:
        """Start, wait for SIGINT, SIGTERM or ``stop()``, and stop.

        The first signal awaits the running handlers; a second one leaves them behind.
        Signals are caught on the main thread only, and only while this runs.

        Raises:
            SchedulerStateError: The clock is one that tests move.
        """
        if isinstance(self._clock, DrivingClock):
            raise SchedulerStateError(
                "run() waits for the world, which a manual clock moves: use start() and"
                " clock.advance()"
            )
        # The one queue that a signal handler may put to while its thread is getting.
        requests: SimpleQueue[int | None] = SimpleQueue()
        with _signals(requests):
            node = self._started()
            node.when_stopped(lambda: requests.put(None))
            if requests.get() is None:
                return
            node.request_stop()
            if requests.get() is not None:
                node.stop(ZERO)

    def health(self) -> Health:
        """How the scheduler is at this moment; never raises and never waits."""
        node = self._node
        if node is None or node.stopped or node.process != os.getpid():
            return STOPPED
        return node.health()

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

    def _started(self) -> Node:
        self._check_process()
        store = self._ready()
        with self._lock:
            if self._node is None or self._node.stopping:
                self._node = Node(
                    self._handler,
                    store,
                    self._clock,
                    self._settings,
                    executor=self._executor,
                )
                self._node.start()
            return self._node

    def _ready(self) -> Store:
        if not self._initialized:
            self._store.initialize()
            self._initialized = True
        return self._store

    def _look(self) -> None:
        node = self._node
        if node is not None and not node.stopping and node.process == os.getpid():
            node.look()

    def _check_process(self) -> None:
        if self._node is not None and self._node.process != os.getpid():
            raise SchedulerStateError(
                f"this scheduler was started in process {self._node.process}, which has"
                " been forked since: make another one in each process"
            )


@contextmanager
def _signals(requests: SimpleQueue[int | None]) -> Iterator[None]:
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


def _only(found: Sequence[TaskDefinition], definition_id: UUID) -> TaskDefinition:
    if not found:
        raise TaskDefinitionNotFoundError(definition_id)
    return found[0]


def _check_limit(limit: int) -> None:
    check_type("limit", limit, int)
    if not 1 <= limit <= MOST_LISTED:
        raise ConfigurationError(f"limit must be 1 to {MOST_LISTED}: {limit}")


def _ids(ids: Collection[UUID]) -> Collection[UUID]:
    for each in ids:
        check_type("an id", each, UUID)
    return ids


def _query(metadata: Mapping[str, JSON]) -> Mapping[str, JSON]:
    return freeze(metadata, name="metadata", limit=METADATA_LIMIT)
