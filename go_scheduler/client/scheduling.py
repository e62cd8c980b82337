"""Scheduling definitions: how one comes into the store."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING
from warnings import warn

from go_scheduler.client.preparation import prepare
from go_scheduler.errors import (
    ConfigurationError,
    ScheduleWarning,
)
from go_scheduler.events.definition_events import DefinitionScheduled
from go_scheduler.events.event import of_definition
from go_scheduler.stores.base import Store, transactional
from go_scheduler.stores.remembered import is_over
from go_scheduler.triggers.base import is_own

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import datetime

    from go_scheduler.models import (
        TaskDefinition,
    )
    from go_scheduler.triggers.base import Trigger

from go_scheduler.client.store_access import StoreAccess


class Scheduling(StoreAccess):
    """Schedules definitions."""

    def schedule(
        self, definition: TaskDefinition, *, connection: object = None
    ) -> TaskDefinition:
        """Insert a definition, or replace the one with its id.

        Scheduling an equal definition again changes nothing. Another trigger starts
        anew from now: what has not started of the old one is removed. Any other change
        leaves the fire times as they are and applies to each instance that starts from
        now on.

        With a ``connection`` to the database of an SQL store this becomes part of the
        transaction that is open there: the definition is scheduled when that commits,
        together with whatever else was written in it, or not at all. The store must
        have been made ready before: by ``start()``, ``check()``, or a call without one.

        ```python
        with Session(engine) as session, session.begin():
            session.add(order)
            scheduler.schedule(reminder_for(order), connection=session)
        ```

        Args:
            definition: What to run, and when. Its ``revision``, if it has one, must be
                the stored one.
            connection: A SQLAlchemy ``Session`` or ``Connection`` that is not in
                autocommit. A scheduler looks for what is due as soon as a ``Session``
                has committed, and after a ``Connection`` has at its next tick.

        Returns:
            The definition as stored, with its ``next_fire_time``; as it will be stored,
            with a ``connection``.

        Raises:
            ConfigurationError: It is no definition, or its trigger cannot be stored; or
                the connection is none, or the store takes part in no transactions.
            InvalidTriggerError: Its trigger raised, or returned what is no fire time.
            ConflictError: It has been changed since it was read.
            StoreUnavailableError: With a ``connection``: somebody else is changing the
                definition at the same moment; repeat the transaction.

        Warns:
            ScheduleWarning: The trigger is one that people often do not mean.
        """
        prepared, odd = self._prepare(definition, joins=connection is not None)
        _warn(odd)
        return self._put(prepared, connection)

    async def aschedule(
        self, definition: TaskDefinition, *, connection: object = None
    ) -> TaskDefinition:
        """Await what ``schedule`` does; see there.

        Args:
            definition: What to run, and when.
            connection: A SQLAlchemy ``AsyncSession`` or ``AsyncConnection`` that is not
                in autocommit.
        """
        run_sync = None if connection is None else _run_sync_of(connection)
        prepared, odd = await asyncio.to_thread(
            self._prepare, definition, joins=run_sync is not None
        )
        _warn(odd)
        put = partial(self._put, prepared)
        if run_sync is None:
            return await asyncio.to_thread(put, None)
        return await run_sync(put)

    def _prepare(
        self, definition: TaskDefinition, *, joins: bool
    ) -> tuple[TaskDefinition, Sequence[str]]:
        """A definition as it is put, and what is odd about its trigger.

        Args:
            definition: The definition.
            joins: Whether it is put within a transaction of the user's.
        """
        # Not made ready for that: on SQLite it would wait for the transaction.
        store = transactional(self._store) if joins else self._ready()
        now = store.now()
        prepared = prepare(definition, now)
        odd = _warnings(prepared.trigger, now)
        # Whoever schedules at every start has been told at the first one.
        if odd and _changes_nothing(store, prepared):
            odd = []
        return prepared, odd

    def _put(self, definition: TaskDefinition, connection: object) -> TaskDefinition:
        if connection is not None:
            (stored,) = transactional(self._store).put_definitions_in(
                connection, [definition], committed=self._look
            )
            self._tell_scheduled(stored, joined=True)
            return stored
        (stored,) = self._ready().put_definitions([definition])
        self._look(stored)
        self._tell_scheduled(stored, joined=False)
        return stored

    def _tell_scheduled(self, stored: TaskDefinition, *, joined: bool) -> None:
        if self._events.wanted(DefinitionScheduled):
            self._events.tell(
                DefinitionScheduled(
                    **of_definition(stored),
                    next_fire_time=stored.next_fire_time,
                    revision=stored.revision,
                    joined=joined,
                )
            )


def _changes_nothing(store: Store, prepared: TaskDefinition) -> bool:
    for stored in store.list_definitions(ids=[prepared.id], limit=1):
        return prepared.is_same(stored)
    return any(is_over(prepared, each) for each in store.list_tombstones([prepared.id]))


def _warnings(trigger: Trigger, now: datetime) -> Sequence[str]:
    if not is_own(trigger):
        return []
    return [f"{trigger.describe()}: {each}" for each in trigger.warnings(now)]


def _warn(odd: Sequence[str]) -> None:
    """Tell the author, as of where ``schedule`` or ``aschedule`` was called."""
    for text in odd:
        warn(text, ScheduleWarning, stacklevel=3)


def _run_sync_of(
    connection: object,
) -> Callable[[Callable[[object], TaskDefinition]], Awaitable[TaskDefinition]]:
    found = getattr(connection, "run_sync", None)
    if found is None:
        raise ConfigurationError(
            "connection must be a SQLAlchemy AsyncConnection or AsyncSession, not of"
            f" type {type(connection).__name__}: with that one, call schedule()"
        )
    run_sync: Callable[
        [Callable[[object], TaskDefinition]], Awaitable[TaskDefinition]
    ] = found
    return run_sync
