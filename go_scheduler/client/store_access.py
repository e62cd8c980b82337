"""A client's way to its store: made ready by the first call, awaited on a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextvars import ContextVar, copy_context
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar
from uuid import UUID

from go_scheduler.checks import check_made, check_trace_context, check_type
from go_scheduler.errors import ConfigurationError
from go_scheduler.events import Change, DefinitionChanged
from go_scheduler.events.event import Instrument, Put, of_definition
from go_scheduler.events.event_bus import LOG_ALONE, Events, Teller
from go_scheduler.formatting import shown
from go_scheduler.running.withdrawing import Edit, Kind, withdraw
from go_scheduler.stores.base import JoinedStore, Store, transactional
from go_scheduler.stores.filters import DefinitionFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Sequence, Set
    from concurrent.futures import Executor
    from datetime import timedelta

    from go_scheduler.models import Outcome, TaskDefinition
    from go_scheduler.node import Node


_Self = TypeVar("_Self")
_P = ParamSpec("_P")
_T = TypeVar("_T")
_Given = TypeVar("_Given")

THREADS: ContextVar[Executor | None] = ContextVar("THREADS", default=None)
"""The executor in which awaited calls wait for the store; None: the loop's own."""


async def on_thread(call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Make a call that waits for the store, or takes long, on a thread, and await it.

    Raises:
        StoreUnavailableError: There is no thread for it, and nothing was done.
    """
    in_context = partial(copy_context().run, call, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(THREADS.get(), in_context)


async def await_within(connection: Any, call: Callable[[object], _T], name: str) -> _T:
    """Await a call that takes a sync connection, or None: then it is on a thread.

    Args:
        connection: The user's async connection; None: there is none.
        call: Called with the sync connection behind that one.
        name: The user's call for a sync one.

    Raises:
        ConfigurationError: It is no async connection.
    """
    if connection is None:
        return await on_thread(call, None)
    if not hasattr(connection, "run_sync"):
        raise ConfigurationError(
            "connection must be a SQLAlchemy AsyncConnection or AsyncSession, not of"
            f" type {type(connection).__name__}: with that one, call {name}()"
        )
    answer: _T = await connection.run_sync(call)
    return answer


def awaitable(
    method: Callable[Concatenate[_Self, _P], _T],
) -> Callable[Concatenate[_Self, _P], Coroutine[Any, Any, _T]]:
    """Make the awaitable form of a method, which does not block the event loop.

    Its ``connection``, if it takes one and is given it, is an async one.
    """

    async def call(self: _Self, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        def join(joined: object) -> _T:
            if joined is not None:
                kwargs["connection"] = joined
            return method(self, *args, **kwargs)

        return await await_within(kwargs.get("connection"), join, method.__name__)

    update_wrapper(call, method)
    call.__name__ = f"a{method.__name__}"
    call.__doc__ = f"Await what ``{method.__name__}`` does; see there."
    return call


def several(
    name: str, given: Iterable[_Given], *, such_as: str = "[definition]"
) -> Sequence[_Given]:
    """Check that an argument is an iterable of several; its items are not checked."""
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise ConfigurationError(
            f"{name} must be several, such as {such_as}, not {shown(given)}"
        )
    return tuple(given)


CARRIED: ContextVar[str | None] = ContextVar("CARRIED", default=None)
"""The trace context that a remote caller sent with the call."""

_NOBODYS = UUID(int=0)


class Write:
    """What one call writes: by itself, or as part of the user's transaction.

    Args:
        store: Where to.
        connection: To the user's transaction; None: there is none.

    Attributes:
        store: Takes it.
        joined: Whether it is part of the user's transaction.
    """

    def __init__(self, store: Store, connection: object) -> None:
        self.joined = connection is not None
        self._following: list[Callable[[], object]] = []
        self.store: JoinedStore = store
        if self.joined:
            joins = transactional(store)
            self.store = joins.join(connection, committed=self._committed)

    def then(
        self, call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T | None:
        """Call this now, or once the user's transaction has committed.

        A store may never learn of a commit: then it is not called.

        Returns:
            What it returned; None: it has not been called yet.
        """
        if not self.joined:
            return call(*args, **kwargs)
        self._following.append(partial(call, *args, **kwargs))
        return None

    def _committed(self) -> None:
        for each in self._following:
            each()


class StoreAccess:
    """What the client's calls share: the store, which the first call makes ready.

    Args:
        store: Where definitions and instances are kept.
        telemetry: Knows the trace of a call; None: no tracing.
    """

    def __init__(self, store: Store, *, telemetry: Instrument | None = None) -> None:
        opener = "open_store(), in go_scheduler.stores"
        check_made("store", store, Store, opener=opener)
        if telemetry is not None:
            check_type("telemetry", telemetry, Instrument)
        self._store = store
        self._telemetry = telemetry
        self._initialized = False
        # The last known queues of definitions that were run by hand.
        self._queues: dict[UUID, str] = {}
        self._hub: Events = LOG_ALONE
        self._events: Teller = self._hub.teller("scheduler")

    def teller(self, room: str, *, bounded: bool = False) -> Teller:
        """Make a teller, by which a part built on this client tells events.

        Args:
            room: Names the logger, behind ``go_scheduler.``.
            bounded: Whether the log writes but a few lines from one ``begin`` of the
                teller to the next.
        """
        return self._hub.teller(room, bounded=bounded)

    def check(self) -> None:
        """Ask the store for a sign of life, and make it ready if no call has yet.

        It takes no start, and costs one small query; the first one also schedules the
        tasks of the registry that a scheduler has. A program that only schedules calls
        it once at its beginning, so that tables and tasks are there for its first
        ``connection``, and whenever it is asked whether it is well.

        Raises:
            StoreUnavailableError: The store cannot be reached.
            StoreError: It cannot be used.
        """
        # With an unused id no row that an open transaction has locked is read.
        self._ready().select_definitions(DefinitionFilter(ids=[_NOBODYS]), limit=1)
        self._schedule_tasks()

    acheck = awaitable(check)
    """Await what ``check`` does; see there."""

    def _ready(self) -> Store:
        if not self._initialized:
            self._store.initialize()
            self._initialized = True
        return self._store

    def _write(self, connection: object) -> Write:
        return Write(self._ready() if connection is None else self._store, connection)

    def _withdraw(self, kind: Kind, ids: Collection[UUID]) -> Set[UUID]:
        """Let go of held instances whose definition was edited; return which."""
        return withdraw(self._store, Edit(kind, frozenset(ids)))

    def _tell_changed(
        self, change: Change, changed: Sequence[TaskDefinition], *, joined: bool
    ) -> None:
        for each in changed:
            self._events.tell(
                DefinitionChanged(
                    **of_definition(each), change=change, note=each.note, joined=joined
                )
            )

    def _trace_context(
        self, operation: str, name: str | None, size: int = 1
    ) -> str | None:
        """The trace context that what is put now carries to its handlers."""
        context = CARRIED.get()
        instrument = self._telemetry or self._hub.instrument
        if instrument is not None and size:
            context = instrument.carry(Put(operation, name, size, context))
        return None if context is None else check_trace_context(context)

    def _schedule_tasks(self) -> None:
        """Schedule the registry's new tasks; a client has no registry."""

    def _taker(self, queue: str | None) -> Node | None:
        """The node that could run at once what is created here, if there is one.

        Args:
            queue: The queue of what is created; None: not known.
        """
        return None

    def _count_end(
        self,
        definition: TaskDefinition,
        outcome: Outcome | None,
        took: timedelta | None,
    ) -> None:
        """Let a node count the end of an instance or, without an outcome, of a run."""

    def _look(self, stored: TaskDefinition | None = None) -> None:
        """Let a scheduler look: something may be due, such as what was just stored."""

    def _look_for_instances(self, queues: Set[str] | None = None) -> None:
        """Let a scheduler look for instances: one in these queues may be due."""

    def _look_at_all(self) -> None:
        """Let a scheduler look for both: fire times, and instances that have waited."""
        self._look()
        self._look_for_instances()
