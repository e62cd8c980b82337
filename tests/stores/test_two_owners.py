"""Two sessions that declare the same definition: one of them has it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import event

from go_scheduler.errors import ConfigurationError
from go_scheduler.stores.rules import Declaration, Removed
from go_scheduler.stores.sql.database import Lane
from go_scheduler.stores.sql.store import SQLStore
from go_scheduler.testing.builders import definition, put
from tests.conftest import SQL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.base import Store

# On SQLite nobody writes while a transaction is open that will write.
pytestmark = pytest.mark.parametrize("engine", SQL[1:])

ONE = definition(key=1)
READ = "LEFT OUTER JOIN task_contents"
LIST = "WHERE task_definitions.owner ="


@contextmanager
def once_it_has_read(
    store: Store, call: Callable[[], object], *, statement: str = READ
) -> Iterator[None]:
    """Make a call in another session, after the next such statement of the store's."""
    assert isinstance(store, SQLStore)
    called = False

    def interrupt(
        connection: object, cursor: object, executed: str, *_: object
    ) -> None:
        nonlocal called
        if statement in executed and not called:
            called = True
            call()

    engine = store._database._engines[Lane.BY_HAND]
    event.listen(engine, "after_cursor_execute", interrupt)
    try:
        yield
    finally:
        event.remove(engine, "after_cursor_execute", interrupt)
    assert called


def declare(
    store: Store, owner: str, *definitions: TaskDefinition, removed: Removed = "delete"
) -> None:
    store.declare_definitions(
        Declaration(owner=owner, definitions=definitions, removed=removed, adopts=True)
    )


@pytest.mark.parametrize("stored", [True, False])
def test_who_declares_what_another_has_just_taken_is_refused(
    store: Store, stored: bool
) -> None:
    if stored:
        put(store, ONE)
    with (
        once_it_has_read(store, lambda: declare(store, "other", ONE)),
        pytest.raises(ConfigurationError, match="the set of 'other'"),
    ):
        declare(store, "app", ONE)
    assert store.get_definition(ONE.id).owner == "other"


def test_what_somebody_schedules_meanwhile_is_not_taken_unasked(store: Store) -> None:
    declaration = Declaration(owner="app", definitions=[ONE])
    with (
        once_it_has_read(store, lambda: put(store, ONE)),
        pytest.raises(ConfigurationError, match="in no declared set"),
    ):
        store.declare_definitions(declaration)
    assert store.get_definition(ONE.id).owner is None


def test_a_put_keeps_an_owner_that_it_has_not_read(store: Store) -> None:
    put(store, ONE)
    with once_it_has_read(store, lambda: declare(store, "app", ONE)):
        changed = put(store, replace(ONE, name="b"))
    assert changed.owner == "app"
    assert (store.get_definition(ONE.id).owner, changed.revision) == ("app", 2)


def test_who_declares_again_what_another_has_just_taken_is_refused(
    store: Store,
) -> None:
    declare(store, "app", ONE)
    declare(store, "app", removed="pause")
    with (
        once_it_has_read(store, lambda: declare(store, "other", ONE)),
        pytest.raises(ConfigurationError, match="the set of 'other'"),
    ):
        declare(store, "app", ONE)
    assert store.get_definition(ONE.id).owner == "other"


@pytest.mark.parametrize("removed", ["pause", "delete"])
def test_what_another_has_just_taken_is_not_removed(
    store: Store, removed: Removed
) -> None:
    declare(store, "app", ONE)
    declare(store, "app", removed="pause")

    def take() -> None:
        declare(store, "other", ONE)

    with once_it_has_read(store, take, statement=LIST):
        declare(store, "app", removed=removed)
    taken = store.get_definition(ONE.id)
    assert (taken.owner, taken.paused) == ("other", False)
