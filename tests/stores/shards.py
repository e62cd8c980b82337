"""What stores promise that spread definitions and instances over several shards."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.stores.messages import Addition, Own
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    SECOND,
    claim,
    definition,
    ids,
    pending,
    put,
    task,
)
from go_scheduler.testing.clock import START

if TYPE_CHECKING:
    from uuid import UUID

    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.base import Store


class ShardTests:
    """A node reads its own shards first and further ahead than the others."""

    @pytest.fixture
    def store(self) -> Store:
        """The store."""
        raise NotImplementedError

    def test_what_is_due_is_read_ahead_in_own_shards_alone(self, store: Store) -> None:
        soon = [put(store, definition(START + SECOND, key=each)) for each in range(20)]
        later = [
            put(store, definition(START + MINUTE, key=each)) for each in range(20, 60)
        ]
        far = []
        for shard in range(store.shards):
            own = Own(shards={shard}, others=2 * SECOND)
            page = store.due_definitions(ahead=HOUR, limit=100, own=own)
            assert ids(page[:20]) == ids(soon)
            far += ids(page[20:])
            rest = store.due_definitions(ahead=HOUR, limit=100, own=own, after=page[3])
            assert ids(rest) == ids(page[4:])
        # Each is in one shard.
        assert sorted(far) == ids(later)

    def test_what_is_to_come_is_claimed_in_own_shards_alone(self, store: Store) -> None:
        due = [pending(store, definition(START)) for _ in range(20)]
        coming = [pending(store, definition(START + MINUTE)) for _ in range(40)]
        mine = {*range(8)}
        own = {"default": Own(shards=mine, others=SECOND)}
        found = claim(store, ahead=HOUR, own=own)
        expected = [each.id for each in coming if each.id.int % store.shards in mine]
        assert len(expected) > 0
        assert {each.id for each in found} == {*ids(due), *expected}

    def test_a_claim_begins_in_own_shards(self, store: Store) -> None:
        due = [pending(store) for _ in range(60)]
        mine = {*range(8)}
        own = [each.id for each in due if each.id.int % store.shards in mine]
        node = {"default": Own(shards=mine, others=ZERO)}
        found = claim(store, limit=len(own), own=node)
        assert {each.id for each in found} == {*own}
        assert len(claim(store)) == len(due) - len(own)

    def test_what_is_due_in_other_shards_does_not_starve(self, store: Store) -> None:
        of = put(store, task())
        other = pending_in(store, of, 5)
        # Of its own there is always more.
        node = {"default": Own(shards={3}, others=ZERO)}
        for _ in range(100):
            pending_in(store, of, 3)
            found = claim(store, limit=1, own=node)
            if ids(found) == [other]:
                return
        raise AssertionError("it is never claimed")


def pending_in(store: Store, of: TaskDefinition, shard: int) -> UUID:
    """The id of an instance that is due, in this shard."""
    while (id := uuid4()).int % store.shards != shard:
        pass
    store.add_instances(of.id, [Addition(id=id)])
    return id
