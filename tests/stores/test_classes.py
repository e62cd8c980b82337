"""Classes of priority that no definition uses cost no statement, and none is missed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import event

from go_scheduler.clock import ZERO
from go_scheduler.stores.postgresql.store import PostgreSQLStore
from go_scheduler.stores.rules import Turns
from go_scheduler.stores.sql.database import Classes, Lane
from go_scheduler.testing import ManualClock
from go_scheduler.testing.builders import SECOND, TICK, claim, definition, pending
from tests import servers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler.models import TaskDefinition


def of_class(priority: int, **options: str) -> TaskDefinition:
    return replace(definition(**options), priority=priority)  # type: ignore[arg-type]


def test_one_claim_in_eight_begins_at_the_last_class() -> None:
    turns = Turns()
    orders = [turns.next() for _ in range(512)]
    assert all(sorted(each) == [0, 1, 2, 3] for each in orders)
    for start in range(0, 512, 8):
        firsts = [order[0] for order in orders[start : start + 8]]
        assert firsts.count(3) == 1
    begun = [sum(order[0] == each for order in orders) for each in range(4)]
    # Of those that do not begin there, one in eight at the one before; and so on.
    assert begun[3] == 64
    assert begun[2] == 56
    assert begun[1] == 49
    assert {order for order in orders if order[0] == 2} == {(2, 1, 0, 3)}


class TestClasses:
    """Which classes a store knows, and when it looks for others."""

    @pytest.fixture
    def classes(self, clock: ManualClock) -> Classes:
        return Classes(clock.elapsed)

    def test_the_normal_one_is_known_and_those_that_are_seen(
        self, classes: Classes
    ) -> None:
        assert list(classes.known) == [1]
        assert classes.in_turn() == [1]
        seen = [of_class(3), of_class(0)]
        assert classes.seen(seen) is seen
        assert list(classes.known) == [0, 1, 3]
        assert classes.in_turn() == [0, 1, 3]

    def test_the_first_claim_looks_and_one_in_each_second(
        self, classes: Classes, clock: ManualClock
    ) -> None:
        assert [classes.look(), classes.look()] == [True, False]
        clock.advance(SECOND - TICK)
        assert not classes.look()
        clock.advance(TICK)
        assert [classes.look(), classes.look()] == [True, False]

    def test_there_is_nothing_to_look_for_once_all_are_known(
        self, classes: Classes
    ) -> None:
        classes.learn(range(4))
        assert not classes.look()


@pytest.fixture
def nodes(postgresql_url: str) -> Iterator[tuple[PostgreSQLStore, PostgreSQLStore]]:
    """The stores of two nodes on one database, of which each knows the other's not."""
    servers.delete_all_rows(postgresql_url)
    clock = ManualClock()
    with (
        servers.opened(postgresql_url, clock, has_tables=True) as one,
        servers.opened(postgresql_url, clock, has_tables=True) as other,
    ):
        assert isinstance(one, PostgreSQLStore)
        assert isinstance(other, PostgreSQLStore)
        yield one, other


Nodes = tuple[PostgreSQLStore, PostgreSQLStore]


def pass_a_second(store: PostgreSQLStore) -> None:
    assert isinstance(store.clock, ManualClock)
    store.clock.advance(SECOND)


@pytest.mark.parametrize("queues", [["default"], ["default", "other"]])
def test_what_another_node_has_put_into_a_class_of_its_own_is_claimed(
    nodes: Nodes, queues: list[str]
) -> None:
    one, other = nodes
    assert claim(one, queues=queues) == []
    given = pending(other, of_class(0, queue=queues[-1]))
    pass_a_second(one)
    [found] = claim(one, queues=queues)
    assert found.id == given.id
    assert one._classes.known == (0, 1)


def test_a_class_is_known_from_a_definition_that_is_due(nodes: Nodes) -> None:
    one, other = nodes
    claim(one)
    other.put_definitions([of_class(3)])
    assert len(one.due_definitions(ahead=ZERO, limit=10)) == 1
    assert one._classes.known == (1, 3)


def test_what_is_found_beside_what_fills_a_claim_waits_for_the_next(
    nodes: Nodes,
) -> None:
    one, other = nodes
    claim(one)
    pending(other, of_class(1))
    last = pending(other, of_class(2))
    pass_a_second(one)
    [first] = claim(one, limit=1)
    assert first.definition.priority == 1
    [second] = claim(one, limit=1)
    assert second.id == last.id


def test_a_node_of_the_normal_class_alone_sends_one_statement_for_a_claim(
    nodes: Nodes,
) -> None:
    one, _ = nodes
    executed: list[str] = []

    def note(connection: object, cursor: object, statement: str, *_: object) -> None:
        executed.append(statement)

    engine = one._database._engines[Lane.BY_TIME]
    event.listen(engine, "before_cursor_execute", note)
    for _ in range(9):
        claim(one)
    event.remove(engine, "before_cursor_execute", note)
    assert len(executed) == 9
    assert len([each for each in executed if "UNION ALL" in each]) == 1
