"""The Redis store keeps every promise of the interface, on a server of its own."""

from __future__ import annotations

import logging
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest

from go_scheduler.errors import (
    ConfigurationError,
    QueueFullError,
    StoreError,
    StoreUnavailableError,
)
from go_scheduler.models import Outcome, State, TaskDefinition
from go_scheduler.stores.filters import DefinitionFilter, Filter, Order
from go_scheduler.stores.hints import News
from go_scheduler.stores.messages import Addition, Announcement, Retention
from go_scheduler.stores.opening import open_store
from go_scheduler.stores.redis import RedisStore, rows, server
from go_scheduler.stores.redis import store as redis_store
from go_scheduler.stores.redis.rows import time_text
from go_scheduler.stores.redis.server import parse
from go_scheduler.stores.rules import Declaration
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    SECOND,
    Rig,
    claim,
    definition,
    end_of,
    firing,
    pending,
    put,
    put_and_start,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.stores import StoreSuite
from tests.behaviour.house import wait_until
from tests.behaviour.store_by_hand import PREFIX, Damage, damage
from tests.servers import delete_all_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from go_scheduler.json import JSON
    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock
    from tests.redis_servers import RedisServer

    Spoil = Callable[[TaskDefinition | TaskInstance, str], None]


@pytest.fixture
def store(clock: ManualClock, redis_server: RedisServer) -> Iterator[RedisStore]:
    """An empty, initialized store."""
    delete_all_rows(redis_server.url)
    store = RedisStore(redis_server.url, clock=clock)
    store.initialize()
    yield store
    store.close()


@pytest.fixture
def by_hand(redis_server: RedisServer) -> Iterator[Any]:
    """A connection of somebody else's."""
    with redis_server.client() as client:
        yield client


class TestRedisStore(StoreSuite):
    """``RedisStore`` against the suite."""

    @pytest.fixture
    def store(self, store: RedisStore) -> Store:
        """The same as for the other tests of this module."""
        return store


def test_a_store_that_is_closed_has_no_connection_left(rig: Rig, by_hand: Any) -> None:
    def connections() -> int:
        return len(by_hand.client_list())

    rig.store.close()
    wait_until(lambda: connections() == 1)
    rig.store.select_definitions()
    assert connections() == 2
    rig.store.close()
    wait_until(lambda: connections() == 1)


def test_what_lets_in_may_be_percent_encoded() -> None:
    address = parse("redis://us%40er:p%2Fw@host?tls=true&tls_ca=/ca.pem")
    assert (address.username, address.password) == ("us@er", "p/w")
    assert (address.tls, address.ca) == (True, "/ca.pem")


def test_a_namespace_is_said_by_the_url_or_besides() -> None:
    url = "redis+sentinel://host/master?namespace=billing"
    for one in (
        open_store(url),
        open_store(url, namespace="billing"),
        open_store("redis+sentinel://host/master", namespace="billing"),
    ):
        assert "0?namespace=billing'" in repr(one)
    wrong = "has another namespace than the argument, 'go_scheduler': say one"
    with pytest.raises(ConfigurationError, match=wrong):
        open_store(url, namespace="go_scheduler")


def keys(by_hand: Any) -> list[str]:
    """All that the server has."""
    found: list[str] = by_hand.execute_command("KEYS", "*")
    return found


def test_what_has_been_deleted_leaves_no_keys(rig: Rig, by_hand: Any) -> None:
    rig.ended(outcome=Outcome.FAILED)
    labelled: Mapping[str, JSON] = {"of": ["a", {"b": 1}], "n": 1.0}
    one = rig.put(replace(definition(), name="one", metadata=labelled))
    rig.fire(one, START, START + HOUR)
    rig.store.add_instances(one.id, [Addition(key="k", payload={"a": []})])
    locked = rig.put(replace(definition(key=9), lock="l"))
    rig.fire(locked, START)
    rig.claim(ahead=2 * HOUR)
    rig.store.note_contact(Announcement(node=uuid4()), unbroken=HOUR)
    declaration = Declaration(owner="me", definitions=[definition(key=8)])
    rig.store.declare_definitions(declaration)
    rig.store.delete_definitions([each.id for each in rig.store.select_definitions()])
    rig.advance(2 * HOUR)
    nothing = Retention(ended=timedelta(0), failed=timedelta(0), remembered=HOUR)
    assert rig.store.delete_finished(nothing, limit=100) > 0
    assert rig.store.list_due_queues(apart_from=()) == []
    kept = {key.removeprefix(PREFIX) for key in keys(by_hand)}
    assert kept - {"hinted d", "hinted i"} == {"first", "life", "sets"}


def test_what_runs_is_found_without_what_waits(rig: Rig, by_hand: Any) -> None:
    waits = rig.put(definition(key=2))
    late = [Addition(at=START + HOUR + number * SECOND) for number in range(1200)]
    rig.store.add_instances(waits.id, late)
    running_ones = Filter(states=[State.RUNNING])

    def found_at_once(number: int, where: Filter = running_ones, **page: Any) -> None:
        by_hand.config_resetstat()
        found = rig.store.select(where, limit=2, **page)
        assert len(found) == number
        assert by_hand.info("commandstats")["cmdstat_evalsha"]["calls"] == 1

    rig.store.select()
    found_at_once(0)
    begun = [rig.running(definition(key=key)) for key in (3, 4, 5)]
    found_at_once(2)
    found_at_once(2, descending=True)
    found_at_once(0, replace(running_ones, definition_id=waits.id))
    found_at_once(1, replace(running_ones, definition_id=begun[1].definition.id))
    found_at_once(1, after=rig.store.select(running_ones, limit=2).next)
    found_at_once(0, replace(running_ones, since=START + HOUR))
    # What is paused stands in no list of claims, and is found with what waits.
    rig.store.pause_definitions([begun[0].definition.id])
    assert len(rig.store.select(Filter(states=[State.RUNNING]), limit=10)) == 3
    assert rig.store.select(Filter(states=[State.CLAIMED])) == []


def test_a_full_memory_refuses_what_is_new_and_takes_what_ends(
    rig: Rig, by_hand: Any
) -> None:
    of = rig.put(definition(START, key=2))
    begun, waits = rig.running(definition(key=3)), rig.pending(definition(key=4))
    by_hand.config_set("maxmemory", "1")
    try:
        with pytest.raises(StoreUnavailableError, match="memory"):
            rig.fire(of, START)
        with pytest.raises(StoreUnavailableError, match="memory"):
            rig.store.add_instances(of.id, [Addition()])
        assert rig.store.cancel_instances({waits.id: None})
        assert rig.finish(begun)
    finally:
        by_hand.config_set("maxmemory", "0")
    assert [each.id for each in rig.fire(of, START)]
    states = {each.id: each.state for each in rig.store.select()}
    assert states[waits.id] is State.CANCELLED
    assert states[begun.id] is State.COMPLETED


def test_metadata_of_many_parts_is_found_all_the_same(rig: Rig) -> None:
    large: Mapping[str, JSON] = {f"key {number}": number for number in range(100)}
    rig.put(replace(definition(), metadata=large))
    rig.put(replace(definition(key=9), metadata={"key 99": 99, "other": 1}))
    for looked_for in ({"key 99": 99.0}, {"key 0": 0, "key 99": 99}, large):
        found = rig.store.select_definitions(DefinitionFilter(metadata=looked_for))
        assert any(each.metadata == large for each in found)
    assert (
        rig.store.select_definitions(DefinitionFilter(metadata={"key 99": True})) == []
    )


def test_of_a_list_that_is_picked_from_so_many_are_looked_at(rig: Rig) -> None:
    made = []
    for queue in ("mine", "other", "other"):
        rig.advance(SECOND)
        rig.pending(definition(rig.now(), queue=queue))
        [started] = rig.claim(queues=[queue], lead=timedelta())
        rig.finish(started, Outcome.FAILED)
        made.append(started.id)
    of = Filter(states=[State.FAILED], queues=["mine"])
    page = partial(
        rig.store.select, of, order=Order.END, descending=True, limit=2, scan_limit=2
    )
    first = page()
    assert first == []
    rest = page(after=first.next)
    assert [each.id for each in rest] == made[:1]
    assert rest.next is None


def test_without_a_clock_it_is_the_servers(
    redis_server: RedisServer, by_hand: Any
) -> None:
    with closing(RedisStore(redis_server.url)) as store:
        store.connect()
        before, now, after = by_hand.time(), store.now(), by_hand.time()
    seconds, micros = divmod(int(time_text(now)), 10**6)
    assert before <= (seconds - 62_135_596_800, micros) <= after


@contextmanager
def once_it_has_read(store: Store, call: Callable[[], object]) -> Iterator[None]:
    """Make a call of somebody else's after each read of a put."""
    assert isinstance(store, RedisStore)
    run = store._server.run

    def interrupted(name: str, /, **arguments: object) -> Any:
        answer = run(name, **arguments)
        if name == "read_definitions" and arguments.get("tombstones"):
            call()
        return answer

    store._server.run = interrupted  # type: ignore[method-assign]
    try:
        yield
    finally:
        store._server.run = run  # type: ignore[method-assign]


def test_what_others_fire_while_pages_are_read_is_due_once(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_store, "AHEAD", 1)
    first, last = (put(store, definition(at)) for at in (START, START + MINUTE))
    run, later = store._server.run, [firing(first, START, next_fire_time=START + HOUR)]

    def interrupted(name: str, /, **arguments: object) -> Any:
        answer = run(name, **arguments)
        if name == "due_definitions" and later:
            store.fire_definitions([later.pop()])
        return answer

    monkeypatch.setattr(store._server, "run", interrupted)
    due = store.due_definitions(ahead=2 * HOUR, limit=9)
    assert [(each.id, each.next_fire_time) for each in due] == [
        (last.id, START + MINUTE),
        (first.id, START + HOUR),
    ]


@pytest.mark.parametrize(
    ("at", "asked"),
    [(START, [8, 12]), (START + SECOND, [8, 8, 4])],
    ids=["due", "ahead"],
)
def test_what_is_not_due_yet_is_claimed_by_short_scripts(
    store: RedisStore,
    monkeypatch: pytest.MonkeyPatch,
    at: datetime,
    asked: Sequence[int],
) -> None:
    for key in range(1, 31):
        pending(store, definition(at, key=key))
    limits, run = [], store._server.run

    def noted(name: str, /, **arguments: Any) -> Any:
        limits.append(arguments["limit"])
        return run(name, **arguments)

    monkeypatch.setattr(store._server, "run", noted)
    assert len(claim(store, ahead=MINUTE, lead=SECOND / 2, limit=20)) == 20
    assert limits == asked


def test_only_so_many_small_definitions_are_known_by_their_texts(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "_MOST_KNOWN", 1)
    small = rig.put(definition(key=1))
    assert rig.store.get_definition(small.id) is small
    large = rig.put(replace(definition(key=2), metadata={"of": "x" * 5000}))
    assert rig.store.get_definition(large.id) == large
    assert rig.store.get_definition(large.id) is not large
    assert rig.store.get_definition(small.id) is small
    other = rig.put(definition(key=3))
    assert rig.store.get_definition(other.id) is other
    assert rig.store.get_definition(small.id) is not small


class Editor:
    """Somebody who changes a definition, so often."""

    def __init__(self, store: Store, times: int) -> None:
        self._store = store
        self._left = times

    def __call__(self) -> None:
        """Pause it, or resume it."""
        if self._left > 0:
            self._left -= 1
            if self._left % 2:
                self._store.pause_definitions([UUID(int=1)])
            else:
                self._store.resume_definitions([UUID(int=1)])


ONE = replace(definition(), id=UUID(int=1), name="one")
PUTS: Mapping[str, Callable[[Store], object]] = {
    "put": lambda store: store.put_definitions([ONE]),
    "put and start": lambda store: put_and_start(store, firing(ONE)),
    "declare": lambda store: store.declare_definitions(
        Declaration(owner="me", definitions=[ONE], adopts=True)
    ),
}


@pytest.mark.parametrize("name", PUTS)
class TestPutsThatAreOvertaken:
    @pytest.fixture
    def other(self, store: RedisStore, redis_server: RedisServer) -> Iterator[Store]:
        """Another session, which finds one like it."""
        put(store, replace(ONE, name="before"))
        with closing(RedisStore(redis_server.url, clock=store.clock)) as other:
            yield other

    def test_what_changed_meanwhile_is_read_again(
        self, rig: Rig, other: RedisStore, name: str
    ) -> None:
        with once_it_has_read(rig.store, Editor(other, times=2)):
            PUTS[name](rig.store)
        found = rig.store.get_definition(ONE.id)
        assert (found.name, found.revision, found.paused) == ("one", 4, False)

    def test_at_last_it_is_left_to_the_caller(
        self, rig: Rig, other: RedisStore, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(redis_store, "_TRIES", 3)
        with (
            once_it_has_read(rig.store, Editor(other, times=100)),
            pytest.raises(StoreUnavailableError, match="all the time"),
        ):
            PUTS[name](rig.store)
        assert rig.store.get_definition(ONE.id).name == "before"


def test_one_that_was_new_a_moment_ago_is_put_over(
    rig: Rig, redis_server: RedisServer
) -> None:
    with closing(RedisStore(redis_server.url, clock=rig.store.clock)) as other:

        def put_first() -> None:
            if not other.select_definitions():
                other.put_definitions([replace(ONE, name="before")])

        with once_it_has_read(rig.store, put_first):
            [stored] = rig.store.put_definitions([ONE]).definitions
    assert (stored.name, stored.revision) == ("one", 2)


def test_what_is_no_store_is_an_error(rig: Rig, by_hand: Any) -> None:
    by_hand.set(f"{PREFIX}all", "no sorted set")
    with pytest.raises(StoreError, match="WRONGTYPE") as caught:
        rig.put()
    assert type(caught.value) is StoreError


def test_an_old_server_is_refused(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_LEAST_VERSION", (99, 0))
    with pytest.raises(ConfigurationError, match=r"Redis \d[\d.]*: .* 6\.2 or later"):
        rig.store.initialize()


def test_a_server_that_does_not_tell_is_taken_as_it_is(
    redis_server: RedisServer,
    by_hand: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    rights = ("~*", "&*", "+@all", "-config", "-info")
    by_hand.execute_command("ACL", "SETUSER", "plain", "on", ">pw", *rights)
    url = redis_server.url.replace("//", "//plain:pw@")
    with closing(RedisStore(url)) as store:
        store.initialize()
        store.connect()
    by_hand.execute_command("ACL", "DELUSER", "plain")
    assert caplog.records == []


@pytest.mark.parametrize(
    ("settings", "level", "said"),
    [
        ({"appendonly": "no"}, "WARNING", "Set appendonly yes"),
        ({"appendfsync": "no"}, "WARNING", "appendfsync always or everysec"),
        ({"appendfsync": "everysec"}, "INFO", "the last second"),
        ({"appendfsync": "always"}, "INFO", "appendfsync always"),
        (
            {"appendfsync": "always", "maxmemory-policy": "allkeys-lru"}
            | {"maxmemory": "1000000000"},
            "WARNING",
            "Set maxmemory-policy noeviction",
        ),
    ],
)
def test_what_a_server_may_lose_is_said_once_to_who_runs_there(
    rig: Rig,
    by_hand: Any,
    caplog: pytest.LogCaptureFixture,
    settings: dict[str, str],
    level: str,
    said: str,
) -> None:
    caplog.set_level(logging.INFO)
    before = {name: by_hand.config_get(name)[name] for name in settings}
    try:
        for name, value in settings.items():
            by_hand.config_set(name, value)
        rig.store.initialize()
        assert caplog.records == []
        for _ in range(2):
            rig.store.connect()
    finally:
        for name, value in before.items():
            by_hand.config_set(name, value)
    told = [(each.levelname, said in each.getMessage()) for each in caplog.records]
    assert [each for each in told if each != ("INFO", False)] == [(level, True)]


def test_an_interrupt_lets_go_of_the_connection(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    hints = store.hints()
    hints.wait()

    def interrupt(_: object) -> News:
        raise KeyboardInterrupt

    monkeypatch.setattr(hints, "_news", interrupt)
    with pytest.raises(KeyboardInterrupt):
        hints.wait()
    monkeypatch.undo()
    assert hints.wait() is News.ANYTHING
    hints.close()


# What somebody has broken by hand costs only itself.


@pytest.fixture
def spoil(redis_server: RedisServer) -> Spoil:
    """Changes what stands in Redis of a definition or an instance."""

    def spoil(given: TaskDefinition | TaskInstance, change: str) -> None:
        of = "definition" if isinstance(given, TaskDefinition) else "instance"
        damage(redis_server.url, Damage(of, change), given.id, given.id)

    return spoil


def test_a_success_of_a_broken_definition_keeps_no_other_from_being_deleted(
    rig: Rig, spoil: Spoil
) -> None:
    other, bad = rig.running(), rig.running()
    spoil(bad.definition, "-queue")
    ends = [end_of(each, deletes=True) for each in (other, bad)]
    assert other.id in rig.store.finish_instances(ends).done
    assert other.id not in {each.id for each in rig.store.select()}


def test_what_no_node_can_claim_is_named(rig: Rig, by_hand: Any, spoil: Spoil) -> None:
    [broken] = rig.fire(rig.put(), START)
    spoil(broken, "-attempt")
    assert rig.claim() == []
    assert by_hand.smembers(f"{PREFIX}broken") == {broken.id.hex}


def test_a_definition_that_cannot_be_read_is_met_once_and_told(
    rig: Rig, by_hand: Any, spoil: Spoil
) -> None:
    bad, gone, good = (rig.put(definition(START, key=key)) for key in (1, 2, 3))
    life = by_hand.hget(f"{PREFIX}ids", bad.id.hex)
    spoil(bad, "-queue")
    by_hand.hdel(f"{PREFIX}ids", gone.id.hex)
    # None of them takes the place of one behind it.
    [found] = rig.store.due_definitions(ahead=MINUTE, limit=1)
    assert found.id == good.id
    assert by_hand.zcard(f"{PREFIX}due") == 1
    assert by_hand.smembers(f"{PREFIX}broken") == {f"d:{life}"}


def test_what_is_open_is_read_only_where_there_may_be_no_room(
    rig: Rig, by_hand: Any
) -> None:
    of = rig.put(replace(definition(START), max_queue=3)).id

    def walks() -> int:
        found = by_hand.info("commandstats").get("cmdstat_zrangebylex", {"calls": 0})
        return int(found["calls"])

    before = walks()
    for _ in range(3):
        rig.store.add_instances(of, [Addition()])
    assert walks() == before
    with pytest.raises(QueueFullError):
        rig.store.add_instances(of, [Addition()])
    assert walks() > before


def test_what_is_moved_by_hand_is_claimed_where_it_says_and_once(
    rig: Rig, spoil: Spoil
) -> None:
    [moved] = rig.fire(rig.put(), START)
    spoil(moved, 'queue="other"')
    assert rig.claim() == []
    [found] = rig.claim(queues=["other"])
    assert (found.id, found.attempt) == (moved.id, 1)
    assert rig.claim(queues=["other"]) == rig.claim() == []


def test_what_cannot_be_read_holds_nobody_behind_it_in_a_slot(
    rig: Rig, spoil: Spoil
) -> None:
    of = rig.put(replace(definition(START), lock="one"))
    holder, *parked = rig.fire(of, *(START + n * SECOND for n in range(3)))
    held = rig.claim(ahead=MINUTE)
    rig.start(*held)
    spoil(parked[0], "-attempt")
    rig.finish(next(each for each in held if each.id == holder.id))
    seen = [
        each for _ in range(2) for each in rig.store.review_parked(limit=9).unparked
    ]
    assert [each.id for each in seen] == [parked[1].id]


def test_what_cannot_be_read_is_not_the_first_to_be_cleaned_up_for_ever(
    rig: Rig, by_hand: Any, spoil: Spoil
) -> None:
    both: list[TaskInstance] = []
    for key in (1, 2):
        of = rig.put(definition(START, key=key))
        both += rig.fire(of, START, next_fire_time=None)
        [begun] = rig.start(*rig.claim(ahead=MINUTE))
        rig.finish(begun)
        rig.advance(SECOND)
    spoil(both[0], "-attempt")
    rig.advance(HOUR)
    for _ in range(3):
        rig.clean_up(limit=1)
    assert [each.id for each in rig.store.select_definitions()] == [
        both[0].definition.id
    ]
    by_hand.zadd(f"{PREFIX}idle", {"0" * 18 + both[0].definition.id.hex: 0})
    spoil(both[0].definition, "-queue")
    rig.clean_up()
    assert not by_hand.exists(f"{PREFIX}idle")


def test_of_a_key_whose_instance_cannot_be_read_nothing_is_listed(
    rig: Rig, spoil: Spoil
) -> None:
    of = rig.put(definition(START)).id
    [keyed] = rig.store.add_instances(of, [Addition(key="k")])
    spoil(keyed, "-attempt")
    assert rig.store.select(Filter(definition_id=of, key="k")) == []


def test_a_tombstone_that_cannot_be_read_is_none(rig: Rig, by_hand: Any) -> None:
    id = uuid4()
    values = {
        "trigger_kind": "nobody's",
        "trigger_state": "?",
        "revision": "1",
        "completed_at": time_text(START),
    }
    by_hand.hset(f"{PREFIX}t:{id.hex}", mapping=values)
    assert rig.store.list_tombstones([id]) == []
