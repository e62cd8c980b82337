"""What somebody has broken by hand in Redis costs only itself."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from go_scheduler.errors import QueueFullError
from go_scheduler.models import Outcome
from go_scheduler.stores.messages import Addition, RunOutcome
from go_scheduler.stores.redis import RedisStore
from go_scheduler.stores.redis.rows import time_text
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    SECOND,
    claim,
    claim_of,
    clean_up,
    definition,
    finish,
    fire,
    firing,
    ids,
    pending,
    put,
    renew,
    running,
    start,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers.stored import UnknownTrigger
from tests.servers import delete_all_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler.models import TaskInstance
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
EDITS = [
    ("i", "attempt", "Infinity"),
    ("i", "runs", "1e17"),
    ("i", "hangs", "0.5"),
    ("i", "of", "null"),
    ("i", "of", "{}"),
    ("i", "due_at", '"soon"'),
    ("d", "id", '"another"'),
    ("d", "revision", "Infinity"),
    ("d", "revision", "{}"),
    ("d", "max_queue", "NaN"),
    ("d", "pause_since", '"once"'),
]
"""A key, a name of its object, and the JSON that it has there."""


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


def edit(client: Any, key: str, name: str, value: str) -> None:
    """Write some JSON into the object of a key."""
    has = json.loads(client.get(key)) | {name: "edited"}
    client.set(key, json.dumps(has).replace('"edited"', value))


def key_of(client: Any, instance: TaskInstance, of: str = "i") -> str:
    """That of an instance, or of its definition."""
    key = f"{PREFIX}i:{instance.id.hex}"
    if of == "i":
        return key
    return f"{PREFIX}{of}:{json.loads(client.get(key))['of']}"


@pytest.mark.parametrize(("of", "name"), BREAKS)
def test_what_is_broken_costs_only_itself(
    store: RedisStore, by_hand: Any, of: str, name: str | None
) -> None:
    bad, good = (put(store, definition(START, key=key)) for key in (1, 2))
    [broken], [whole] = fire(store, bad, START), fire(store, good, START + SECOND)
    damage(by_hand, key_of(by_hand, broken, of), name)
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


def test_what_no_node_can_claim_is_named(store: RedisStore, by_hand: Any) -> None:
    [broken] = fire(store, put(store), START)
    damage(by_hand, f"{PREFIX}i:{broken.id.hex}", "attempt")
    assert claim(store) == []
    assert by_hand.smembers(f"{PREFIX}broken") == {broken.id.hex}


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
    assert by_hand.smembers(f"{PREFIX}broken") == {f"d:{life}"}


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


def test_what_is_edited_to_make_no_sense_costs_only_itself(
    store: RedisStore, by_hand: Any
) -> None:
    bad = [put(store, definition(START, key=key)) for key, _ in enumerate(EDITS, 2)]
    good = put(store, definition(START, key=1))
    broken = [fire(store, each, START)[0] for each in bad]
    [whole] = fire(store, good, START + SECOND)
    for each, (of, name, value) in zip(broken, EDITS, strict=True):
        edit(by_hand, key_of(by_hand, each, of), name, value)
    held = claim(store, ahead=MINUTE)
    assert whole.id in {each.id for each in start(store, *held)}
    for listed in (store.list_instances(), store.list_claims(limit=50)):
        assert whole.id in {each.id for each in listed}
    later = [firing(each, START + HOUR) for each in store.list_definitions()]
    assert good.id in store.fire_definitions(later).done
    for change in (store.pause_definitions, store.resume_definitions):
        assert good.id in ids(change([*ids(bad), good.id]))


def test_contents_that_make_no_sense_cost_only_themselves(
    store: RedisStore, by_hand: Any
) -> None:
    bad, good = (put(store, definition(START, key=key)) for key in (1, 2))
    [broken] = fire(store, bad, START)
    by_hand.set(key_of(by_hand, broken, "c"), "{}\n{}\n{}\n[[1], null, {}]")
    both = {bad.id, good.id}
    assert store.delete_definitions(both).keys() == both


def test_what_is_moved_by_hand_is_claimed_where_it_says_and_once(
    store: RedisStore, by_hand: Any
) -> None:
    [moved] = fire(store, put(store), START)
    edit(by_hand, key_of(by_hand, moved), "queue", '"other"')
    assert claim(store) == []
    [found] = claim(store, queues=["other"])
    assert (found.id, found.attempt) == (moved.id, 1)
    assert claim(store, queues=["other"]) == claim(store) == []


def test_what_cannot_be_read_holds_nobody_behind_it_in_a_slot(
    store: RedisStore, by_hand: Any
) -> None:
    of = put(store, replace(definition(START), lock="one"))
    holder, *parked = fire(store, of, *(START + n * SECOND for n in range(3)))
    held = claim(store, ahead=MINUTE)
    start(store, *held)
    damage(by_hand, key_of(by_hand, parked[0]), "attempt")
    finish(store, next(each for each in held if each.id == holder.id))
    seen = [each for _ in range(2) for each in store.review_parked(limit=9).unparked]
    assert [each.id for each in seen] == [parked[1].id]


def test_what_cannot_be_read_is_not_the_first_to_be_cleaned_up_for_ever(
    store: RedisStore, by_hand: Any, clock: ManualClock
) -> None:
    both: list[TaskInstance] = []
    for key in (1, 2):
        of = put(store, definition(START, key=key))
        both += fire(store, of, START, next_fire_time=None)
        [begun] = start(store, *claim(store, ahead=MINUTE))
        finish(store, begun)
        clock.advance(SECOND)
    damage(by_hand, key_of(by_hand, both[0]), "attempt")
    clock.advance(HOUR)
    for _ in range(3):
        clean_up(store, limit=1)
    assert [each.id for each in store.list_definitions()] == [both[0].definition.id]
    known = key_of(by_hand, both[0], "d")
    by_hand.zadd(f"{PREFIX}idle", {"0" * 18 + both[0].definition.id.hex: 0})
    damage(by_hand, known, "queue")
    clean_up(store)
    assert not by_hand.exists(f"{PREFIX}idle")


def test_of_a_key_whose_instance_cannot_be_read_nothing_is_listed(
    store: RedisStore, by_hand: Any
) -> None:
    of = put(store, definition(START)).id
    [keyed] = store.add_instances(of, [Addition(key="k")])
    damage(by_hand, key_of(by_hand, keyed), "attempt")
    assert store.list_instances(definition_id=of, key="k") == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("trigger_kind", "nobody's"),
        ("queue", ""),
        ("priority", "high"),
        ("revision", "many"),
        ("expire_after", "soon"),
        ("id", "nobody's"),
        ("c", "no JSON\n{}\n{}\n[]"),
        ("c", "{}\n[]\n{}\n[]"),
        ("c", "[]"),
        ("d", '{"id": "1", "queue": "", "priority": "", "revision": 0x1}'),
    ],
)
def test_a_definition_that_cannot_be_read_costs_only_itself(
    store: RedisStore, by_hand: Any, field: str, value: str
) -> None:
    broken = put(store, definition(START, key=1))
    whole = put(store, definition(START, key=2))
    [life] = [by_hand.hget(f"{PREFIX}ids", broken.id.hex)]
    if field in ("c", "d"):
        by_hand.set(f"{PREFIX}{field}:{life}", value)
    else:
        edit(by_hand, f"{PREFIX}d:{life}", field, json.dumps(value))
    with closing(RedisStore(str(store._address), clock=store.clock)) as other:
        read = other.due_definitions(ahead=HOUR, limit=10)
    assert [type(each.trigger) is UnknownTrigger for each in read] == [True, False]
    assert read[1] == whole


def test_a_definition_whose_keys_are_gone_is_left_out(
    store: RedisStore, by_hand: Any
) -> None:
    gone = put(store, definition(START, key=1))
    whole = put(store, definition(START, key=2))
    life = by_hand.hget(f"{PREFIX}ids", gone.id.hex)
    fire(store, gone, START)
    fire(store, whole, START)
    by_hand.delete(f"{PREFIX}d:{life}")
    assert ids(store.list_definitions()) == [whole.id]
    assert [each.definition.id for each in claim(store)] == [whole.id]


@pytest.mark.parametrize("field", ["body", "result", "execute_at", "claimed_by"])
def test_an_instance_that_cannot_be_read_is_shown_as_such(
    store: RedisStore, by_hand: Any, field: str
) -> None:
    broken = running(store)
    whole = pending(store)
    # What has a body has a text of its own for it, which is not there.
    edit(by_hand, key_of(by_hand, broken), field, '"{{no"')
    found = {each.id: each for each in store.list_instances()}
    assert isinstance(found[broken.id].definition.trigger, UnknownTrigger)
    assert found[whole.id] == whole


def test_a_tombstone_that_cannot_be_read_is_none(
    store: RedisStore, by_hand: Any
) -> None:
    id = uuid4()
    values = {
        "trigger_kind": "nobody's",
        "trigger_state": "?",
        "revision": "1",
        "completed_at": time_text(START),
    }
    by_hand.hset(f"{PREFIX}t:{id.hex}", mapping=values)
    assert store.list_tombstones([id]) == []
