"""Store suite: definitions are listed."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from go_scheduler.models import DefinitionState
from go_scheduler.stores.messages import Position
from go_scheduler.testing.builders import (
    HOUR,
    NOBODY,
    SECOND,
    WAITING,
    definition,
    ids,
    put,
)
from go_scheduler.testing.clock import START

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from go_scheduler.json import JSON
    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.base import Store


CONTAINED: list[tuple[Mapping[str, JSON], Mapping[str, JSON], bool]] = [
    ({}, {}, True),
    ({"a": 1}, {}, True),
    ({}, {"a": None}, False),
    ({"a": None}, {"a": None}, True),
    ({"a": 1, "b": 2}, {"a": 1}, True),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
    ({"a": 1, "b": 2}, {"a": 1, "b": 3}, False),
    ({"a": 1}, {"b": 1}, False),
    ({"a": 1}, {"a": "1"}, False),
    ({"a": 1}, {"a": 1.0}, True),
    ({"a": 1}, {"a": True}, False),
    ({"a": True}, {"a": 1}, False),
    ({"a": False}, {"a": 0}, False),
    ({"a": False}, {"a": False}, True),
    ({"a": "Ab"}, {"a": "ab"}, False),
    ({"a": "ab"}, {"a": "a"}, False),
    ({"é": "ü"}, {"é": "ü"}, True),
    ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, True),
    ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, False),
    ({"a": {"b": {"c": [1]}}}, {"a": {"b": {}}}, True),
    ({"a": {"b": 1}}, {"b": 1}, False),
    ({"a": {}}, {"a": []}, False),
    ({"a": []}, {"a": {}}, False),
    ({"a": [1, 2, 3]}, {"a": [3, 1]}, True),
    ({"a": [1, 2]}, {"a": [1, 1, 1]}, True),
    ({"a": [1, 2]}, {"a": [1, 4]}, False),
    ({"a": [1, 2]}, {"a": []}, True),
    ({"a": [1, 2]}, {"a": 1}, False),
    ({"a": 1}, {"a": [1]}, False),
    ({"a": [True]}, {"a": [1]}, False),
    ({"a": [{"b": 1, "c": 2}]}, {"a": [{"b": 1}]}, True),
    ({"a": [{"b": 1}, {"c": 2}]}, {"a": [{"b": 1, "c": 2}]}, False),
    ({"a": [[1, 2], [3]]}, {"a": [[2]]}, True),
    ({"a": [[1, 2], [3]]}, {"a": [2]}, False),
    ({"a'\"%_\\$": "'; --"}, {"a'\"%_\\$": "'; --"}, True),
]


def _end(page: Sequence[TaskDefinition]) -> Position:
    return Position.of_definition(page[-1])


class DefinitionListTests:
    """``list_definitions``."""

    def test_definitions_come_in_the_order_of_their_ids(self, store: Store) -> None:
        keys = [3, 2**127, 1, 2**127 - 1, 0, 2]
        for key in keys:
            put(store, definition(START - key % 5 * SECOND, key=key))
        assert [each.id.int for each in store.list_definitions()] == sorted(keys)

    def test_pages_of_definitions_follow_each_other(self, store: Store) -> None:
        for key in range(5):
            put(store, definition(key=key))
        first = store.list_definitions(limit=2)
        second = store.list_definitions(after=_end(first), limit=2)
        third = store.list_definitions(after=_end(second), limit=2)
        assert [each.id.int for each in (*first, *second, *third)] == [0, 1, 2, 3, 4]
        assert store.list_definitions(after=_end(third), limit=2) == []

    def test_a_page_may_begin_after_an_id_that_is_gone(self, store: Store) -> None:
        for key in (1, 3):
            put(store, definition(key=key))
        found = store.list_definitions(after=Position(at=None, id=UUID(int=2)))
        assert [each.id.int for each in found] == [3]

    def test_definitions_by_state(self, store: Store) -> None:
        active, waiting = put(store), put(store, definition(None, trigger=WAITING))
        paused, over = put(store), put(store, definition(None))
        store.pause_definitions([paused.id, over.id])
        for state, expected in (
            (DefinitionState.ACTIVE, {active.id, waiting.id}),
            (DefinitionState.PAUSED, {paused.id}),
            (DefinitionState.COMPLETED, {over.id}),
        ):
            found = store.list_definitions(state=state)
            assert {each.id for each in found} == expected
            assert {each.state for each in found} == {state}

    def test_soonest_first_those_that_never_fire_come_last(self, store: Store) -> None:
        times = [START + HOUR, None, START - HOUR, START, None, START]
        for key, at in enumerate(times):
            put(store, definition(at, key=key))
        store.pause_definitions([UUID(int=2)])
        found = store.list_definitions(soonest_first=True)
        assert [each.id.int for each in found] == [2, 3, 5, 0, 1, 4]
        some = {UUID(int=key) for key in (0, 1, 3)}
        found = store.list_definitions(ids=some, soonest_first=True, limit=2)
        assert [each.id.int for each in found] == [3, 0]

    @pytest.mark.parametrize("limit", [1, 2, 3, 4])
    def test_pages_follow_each_other_soonest_first(
        self, store: Store, limit: int
    ) -> None:
        times = [START + HOUR, None, START - HOUR, START, None, START]
        for key, at in enumerate(times):
            put(store, definition(at, key=key, name="a"))
        put(store, definition(START))
        read: list[int] = []
        after = None
        while page := store.list_definitions(
            name="a", soonest_first=True, after=after, limit=limit
        ):
            read += (each.id.int for each in page)
            after = _end(page)
        assert read == [2, 3, 5, 0, 1, 4]

    @pytest.mark.parametrize("limit", [1, 2, 4])
    def test_pages_of_what_is_active_follow_each_other_soonest_first(
        self, store: Store, limit: int
    ) -> None:
        times = [START + HOUR, None, START - HOUR, START, None, START, START]
        for key, at in enumerate(times):
            put(store, definition(at, key=key, queue="a", trigger=WAITING))
        store.pause_definitions([UUID(int=5)])
        put(store, definition(START))
        put(store, definition(None, queue="a"))
        read: list[int] = []
        after = None
        while page := store.list_definitions(
            queues={"a"},
            state=DefinitionState.ACTIVE,
            soonest_first=True,
            after=after,
            limit=limit,
        ):
            read += (each.id.int for each in page)
            after = _end(page)
        assert read == [2, 3, 6, 0, 1, 4]

    def test_a_page_has_100_definitions_by_default(self, store: Store) -> None:
        store.put_definitions([definition() for _ in range(101)])
        assert len(store.list_definitions()) == 100

    def test_listed_definitions_are_read_as_they_are_stored(self, store: Store) -> None:
        new = put(store, definition(name="a", metadata={"b": [1, {}]}))
        store.pause_definitions([new.id], note="why")
        [found] = store.list_definitions()
        assert found == new
        assert (found.paused, found.note, found.revision) == (True, "why", 2)
        assert found.next_fire_time == START

    def test_by_ids(self, store: Store) -> None:
        for key in range(4):
            put(store, definition(key=key))
        found = store.list_definitions(ids=[UUID(int=3), NOBODY, UUID(int=1)])
        assert [each.id.int for each in found] == [1, 3]

    def test_by_no_ids(self, store: Store) -> None:
        put(store)
        assert store.list_definitions(ids=[]) == []

    def test_by_name(self, store: Store) -> None:
        wanted, *_ = [
            put(store, definition(name=name)) for name in ("a", "b", "A", None)
        ]
        assert store.list_definitions(name="a") == [wanted]

    def test_by_queue(self, store: Store) -> None:
        wanted, *_ = [put(store, definition(queue=queue)) for queue in ("a", "b", "A")]
        assert store.list_definitions(queue="a") == [wanted]

    def test_by_all_conditions_at_once(self, store: Store) -> None:
        def made(key: int, name: str = "a", queue: str = "b", value: int = 1) -> UUID:
            metadata = {"c": value}
            return put(
                store, definition(key=key, name=name, queue=queue, metadata=metadata)
            ).id

        wanted = made(5)
        others = [made(6, name="x"), made(7, queue="x"), made(8, value=2)]
        unlisted = [made(4), made(9)]
        found = store.list_definitions(
            ids=[wanted, *others, unlisted[0]],
            metadata={"c": 1},
            name="a",
            queue="b",
            after=Position(at=None, id=unlisted[0]),
            limit=2,
        )
        assert ids(found) == [wanted]

    @pytest.mark.parametrize(("stored", "asked", "found"), CONTAINED)
    def test_by_what_the_metadata_contains(
        self,
        store: Store,
        stored: Mapping[str, JSON],
        asked: Mapping[str, JSON],
        found: bool,
    ) -> None:
        new = put(store, definition(metadata=stored))
        assert store.list_definitions(metadata=asked) == ([new] if found else [])
