"""What somebody has broken by hand in Redis costs only itself."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler.errors import QueueFullError
from go_scheduler.models import Outcome
from go_scheduler.stores.messages import Addition, RunOutcome
from go_scheduler.stores.redis import RedisStore
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    SECOND,
    claim,
    claim_of,
    definition,
    fire,
    firing,
    put,
    renew,
    start,
)
from go_scheduler.testing.clock import START
from tests.servers import delete_all_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler.testing.clock import ManualClock
    from tests.redis_servers import RedisServer

PREFIX = "{go_scheduler}:"
INSTANCE = "queue priority of fire_time execute_at due_at attempt runs hangs created_at"
DEFINITION = (
    "id queue priority revision overlap when_full named completed_at trigger_kind"
)
BREAKS = [
    *(("i", name) for name in (None, "", *INSTANCE.split())),
    *(("d", name) for name in (None, "", *DEFINITION.split())),
    *(("c", name) for name in (None, "")),
]
"""A key, and what is taken from its object; "": it is none; None: it is a hash."""


@pytest.fixture
def store(clock: ManualClock, redis_server: RedisServer) -> Iterator[RedisStore]:
    delete_all_rows(redis_server.url)
    with closing(RedisStore(redis_server.url, clock=clock)) as store:
        yield store


@pytest.fixture
def by_hand(redis_server: RedisServer) -> Iterator[Any]:
    with redis_server.client() as client:
        yield client


def damage(client: Any, key: str, name: str | None) -> None:
    """Break a key."""
    if name is None:
        client.delete(key)
        client.hset(key, "no", "text")
    elif not name:
        client.set(key, "[]")
    else:
        has = json.loads(client.get(key))
        del has[name]
        client.set(key, json.dumps(has))


@pytest.mark.parametrize(("of", "name"), BREAKS)
def test_what_is_broken_costs_only_itself(
    store: RedisStore, by_hand: Any, of: str, name: str | None
) -> None:
    bad, good = (put(store, definition(START, key=key)) for key in (1, 2))
    [broken], [whole] = fire(store, bad, START), fire(store, good, START + SECOND)
    key = f"{PREFIX}i:{broken.id.hex}"
    if of != "i":
        key = f"{PREFIX}{of}:{json.loads(by_hand.get(key))['of']}"
    damage(by_hand, key, name)
    # What cannot be claimed is not the first for ever.
    found = [each for _ in range(3) for each in claim(store, ahead=MINUTE, limit=1)]
    assert found[-1].id == whole.id
    assert {each.id for each in start(store, *found)} >= {whole.id}
    assert renew(store, *found)[whole.id] is False
    for listed in (store.list_instances(), store.list_claims(limit=9)):
        assert whole.id in {each.id for each in listed}
    later = [firing(each, START + HOUR) for each in store.list_definitions()]
    assert good.id in store.fire_definitions(later).done
    outcomes = [
        RunOutcome(claim=claim_of(each), outcome=Outcome.COMPLETED)
        for each in (broken, *found)
    ]
    assert whole.id in store.finish_instances(outcomes).done
    for change in (store.pause_definitions, store.resume_definitions):
        assert good.id in {each.id for each in change([bad.id, good.id])}
    assert good.id in store.delete_definitions([bad.id, good.id])


def test_what_no_node_can_claim_is_told_while_it_is_there(
    store: RedisStore, by_hand: Any
) -> None:
    [broken] = fire(store, put(store), START)
    damage(by_hand, f"{PREFIX}i:{broken.id.hex}", "attempt")
    assert claim(store) == []
    [found] = [each for each in store.examine() if each.name == "broken"]
    assert found.seen == f"instances that cannot be read: i:{broken.id.hex}"
    by_hand.delete(f"{PREFIX}i:{broken.id.hex}")
    assert "broken" not in {each.name for each in store.examine()}


def test_a_definition_that_cannot_be_read_is_met_once_and_told(
    store: RedisStore, by_hand: Any
) -> None:
    bad, gone, good = (put(store, definition(START, key=key)) for key in (1, 2, 3))
    life = by_hand.hget(f"{PREFIX}ids", bad.id.hex)
    damage(by_hand, f"{PREFIX}d:{life}", "queue")
    by_hand.hdel(f"{PREFIX}ids", gone.id.hex)
    # None of them takes the place of one behind it.
    [found] = store.due_definitions(ahead=MINUTE, limit=1)
    assert found.id == good.id
    assert by_hand.zcard(f"{PREFIX}due") == 1
    [told] = [each for each in store.examine() if each.name == "broken"]
    assert told.seen == f"definitions that cannot be read: d:{life}"


def test_what_is_open_is_read_only_where_there_may_be_no_room(
    store: RedisStore, by_hand: Any
) -> None:
    of = put(store, replace(definition(START), max_queue=3)).id

    def walks() -> int:
        found = by_hand.info("commandstats").get("cmdstat_smembers", {"calls": 0})
        return int(found["calls"])

    before = walks()
    for _ in range(3):
        store.add_instances(of, [Addition()])
    assert walks() == before
    with pytest.raises(QueueFullError):
        store.add_instances(of, [Addition()])
    assert walks() > before
