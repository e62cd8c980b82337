"""The Redis store keeps every promise of the interface, on a server of its own."""

from __future__ import annotations

import logging
import re
import shlex
import threading
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest

from go_scheduler.errors import (
    ConfigurationError,
    StoreError,
    StoreUnavailableError,
)
from go_scheduler.models import Outcome, State
from go_scheduler.stores.hints import Hints, News
from go_scheduler.stores.messages import (
    Addition,
    Announcement,
    Firing,
    Position,
    Retention,
)
from go_scheduler.stores.opening import open_store
from go_scheduler.stores.redis import RedisStore, definition_calls, lists, rows, server
from go_scheduler.stores.redis.rows import time_text
from go_scheduler.stores.redis.server import parse
from go_scheduler.stores.rules import Declaration
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    SECOND,
    at_once,
    claim,
    claimant,
    definition,
    ended,
    finish,
    fire,
    firing,
    ids,
    pending,
    put,
    running,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.stores import StoreSuite
from tests.patience import FAILED_AFTER
from tests.servers import delete_all_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from go_scheduler.json import JSON
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock
    from tests.redis_servers import RedisServer

PREFIX = "{go_scheduler}:"


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


class TestUrls:
    @pytest.mark.parametrize(
        ("url", "shown"),
        [
            ("redis://host", "redis://host:6379/0"),
            ("redis://user:secret@host:7000/3", "redis://host:7000/3"),
            ("rediss://:secret@host/1", "rediss://host:6379/1"),
            ("redis://[::1]:7000", "redis://[::1]:7000/0"),
            ("redis://Host:", "redis://host:6379/0"),
            ("redis://", "redis://localhost:6379/0"),
            (
                "redis+sentinel://a,b:26380/mymaster/2",
                "redis+sentinel://a:26379,b:26380/mymaster/2",
            ),
            (
                "redis+cluster://user:secret@a,b:7000?tls=true",
                "redis+cluster://a:6379,b:7000/0",
            ),
            (
                "rediss://:secret@host?tls_ca=/ca&namespace=b+%C3%A4%2Fc",
                "rediss://host:6379/0?namespace=b%2B%C3%A4%2Fc",
            ),
            ("redis://host?namespace=go_scheduler", "redis://host:6379/0"),
        ],
    )
    def test_a_url_is_shown_without_its_password(self, url: str, shown: str) -> None:
        assert str(parse(url)) == shown

    def test_what_lets_in_may_be_percent_encoded(self) -> None:
        address = parse("redis://us%40er:p%2Fw@host?tls=true&tls_ca=/ca.pem")
        assert (address.username, address.password) == ("us@er", "p/w")
        assert (address.tls, address.ca) == (True, "/ca.pem")

    @pytest.mark.parametrize(
        ("url", "wrong"),
        [
            ("postgresql://me:secret@host/database", ""),
            ("redis+master://secret@host/name", ""),
            ("redis://secret@[host", ""),
            (7, ""),
            ("redis://secret@host/name", "a database that is no whole number"),
            ("redis://secret@host/0/1", "a database that is no whole number"),
            ("redis://secret@host/-1", "a database that is no whole number"),
            ("redis+sentinel://secret@host/name/secret", "a database that is no"),
            ("redis+cluster://secret@host/1", "a database, of which a cluster"),
            ("redis+sentinel://secret@host", "not the name of their master"),
            ("redis://secret@host:port/0", "a port that is no number from 1 to 65535"),
            ("redis://secret@host:99999", "a port that is no number"),
            ("redis://secret@host:0", "a port that is no number"),
            ("redis://user:secret/0", "a port that is no number"),
            ("redis://secret@::1", "an IPv6 address without brackets"),
            ("redis://secret@a,b", "several hosts, which only those of sentinels"),
            ("redis+cluster://secret@a,,b", "several hosts, and one is empty"),
            (
                "redis://secret@host?timeout=3",
                "no option 'timeout', only namespace, tls and tls_ca",
            ),
            ("redis://host?tls=yes", "an option tls that is neither true nor false"),
            (
                "redis://host?tls&tls_ca=/ca",
                "the option tls more than once, or without",
            ),
            ("redis://host?tls=true&tls=true", "the option tls more than once"),
            ("redis://host?tls_ca=/ca.pem", "a tls_ca without TLS: begin it with red"),
            ("redis://host?tls=false&tls_ca=/ca.pem", "a tls_ca without TLS"),
            ("redis://secret@host#part", "write %40 for @, %2F for /, %3F for ?"),
            ("redis://user:sec?ret=secret@host", "an @: in a user or password write"),
            ("redis://user:secret/secret@host", "an @: in a user or password write"),
            ("redis://host?namespace=", "namespace more than once, or without a val"),
            ("redis://host?namespace=%FF", ""),
        ],
    )
    def test_any_other_is_refused_without_what_lets_in(
        self, url: str, wrong: str
    ) -> None:
        with pytest.raises(ConfigurationError) as caught:
            RedisStore(url)
        said = str(caught.value)
        assert said.startswith("the URL of a Redis store" + (wrong and " ha"))
        assert wrong in said
        assert "is like redis://user:password@host:6379/0, rediss://" in said
        assert "secret" not in said

    @pytest.mark.parametrize("namespace", ["{mine}", "mi}ne", "", 7])
    def test_a_namespace_that_is_no_part_of_a_key_is_refused(
        self, namespace: Any
    ) -> None:
        with pytest.raises(ConfigurationError, match="namespace"):
            RedisStore("redis://host", namespace=namespace)

    @pytest.mark.parametrize("namespace", ["%7Bmine}", "a%00", "n" * 256])
    def test_nor_can_a_url_have_such_a_namespace(self, namespace: str) -> None:
        wrong = "the namespace in the URL of a Redis store .*; one is like redis://"
        with pytest.raises(ConfigurationError, match=wrong) as caught:
            open_store(f"redis://host?namespace={namespace}")
        assert namespace not in str(caught.value)

    def test_a_namespace_is_said_by_the_url_or_besides(self) -> None:
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

    def test_a_timeout_is_more_than_none(self) -> None:
        with pytest.raises(ConfigurationError, match="timeout"):
            open_store("redis://host", timeout=timedelta(0))

    def test_a_store_shows_where_it_is(self) -> None:
        store = open_store("redis://user:secret@host:7000/3")
        assert repr(store) == "RedisStore('redis://host:7000/3')"


def keys(by_hand: Any) -> list[str]:
    """All that the server has."""
    found: list[str] = by_hand.execute_command("KEYS", "*")
    return found


class TestKeys:
    def test_namespaces_know_nothing_of_each_other(
        self, store: RedisStore, redis_server: RedisServer, by_hand: Any
    ) -> None:
        put(store)
        with closing(RedisStore(redis_server.url, namespace="other")) as other:
            assert other.list_definitions() == []
            put(other, definition(key=7))
        with closing(open_store(f"{redis_server.url}?namespace=other")) as other:
            assert len(other.list_definitions()) == 1
        assert len(store.list_definitions()) == 1
        found = {key.partition(":")[0] for key in keys(by_hand)}
        assert found == {"{go_scheduler}", "{other}"}

    def test_what_has_been_deleted_leaves_no_keys(
        self, store: RedisStore, clock: ManualClock, by_hand: Any
    ) -> None:
        ended(store, outcome=Outcome.FAILED)
        labelled: Mapping[str, JSON] = {"of": ["a", {"b": 1}], "n": 1.0}
        one = put(store, replace(definition(), name="one", metadata=labelled))
        fire(store, one, START, START + HOUR)
        store.add_instances(one.id, [Addition(key="k", payload={"a": []})])
        locked = put(store, replace(definition(key=9), lock="l"))
        fire(store, locked, START)
        claim(store, ahead=2 * HOUR)
        store.note_contact(Announcement(node=uuid4()), unbroken=HOUR)
        declaration = Declaration(owner="me", definitions=[definition(key=8)])
        store.declare_definitions(declaration)
        store.delete_definitions([each.id for each in store.list_definitions()])
        clock.advance(2 * HOUR)
        nothing = Retention(ended=timedelta(0), failed=timedelta(0), remembered=HOUR)
        assert store.delete_finished(nothing, limit=100) > 0
        assert store.list_due_queues(apart_from=()) == []
        kept = {key.removeprefix(PREFIX) for key in keys(by_hand)}
        assert kept - {"hinted d", "hinted i"} == {"counts", "first", "life", "sets"}
        assert set(by_hand.hvals(f"{PREFIX}counts")) == {"0"}

    def test_a_server_that_has_forgotten_the_scripts_is_told_them(
        self, store: RedisStore, by_hand: Any
    ) -> None:
        by_hand.script_flush()
        put(store)
        assert len(store.list_definitions()) == 1


class TestLists:
    def test_a_long_list_is_read_in_parts(self, store: RedisStore) -> None:
        one = put(store)
        store.add_instances(
            one.id, [Addition(at=START + number * SECOND) for number in range(1200)]
        )
        found = store.list_instances(limit=2000)
        assert len(found) == 1200
        newest = store.list_instances(newest_first=True, limit=2000)
        assert ids(newest) == [*reversed(ids(found))]
        some = store.list_instances(state=State.PENDING, key="none", limit=10)
        assert some == []

    def test_what_runs_is_found_without_what_waits(
        self, store: RedisStore, by_hand: Any
    ) -> None:
        waits = put(store, definition(key=2))
        late = [Addition(at=START + HOUR + number * SECOND) for number in range(1200)]
        store.add_instances(waits.id, late)
        wanted: dict[str, Any] = {"state": State.RUNNING, "limit": 2}

        def found_at_once(number: int, **conditions: Any) -> None:
            by_hand.config_resetstat()
            found = store.list_instances(**wanted, **conditions)
            assert len(found) == number
            assert by_hand.info("commandstats")["cmdstat_evalsha"]["calls"] == 1

        store.list_instances()
        found_at_once(0)
        begun = [running(store, definition(key=key)) for key in (3, 4, 5)]
        found_at_once(2)
        found_at_once(2, newest_first=True)
        found_at_once(0, definition_id=waits.id)
        found_at_once(1, definition_id=begun[1].definition.id)
        after = Position.of_instance(store.list_instances(**wanted)[-1])
        found_at_once(1, after=after)
        found_at_once(0, since=START + HOUR)
        # What is paused stands in no list of claims, and is found with what waits.
        store.pause_definitions([begun[0].definition.id])
        assert len(store.list_instances(state=State.RUNNING, limit=10)) == 3
        assert store.list_instances(state=State.CLAIMED) == []

    def test_many_definitions_are_read_in_parts(self, store: RedisStore) -> None:
        many = [replace(definition(), id=uuid4()) for _ in range(1100)]
        store.put_definitions(many)
        by_id = store.list_definitions(limit=2000)
        assert ids(by_id) == sorted((each.id for each in many), key=lambda id: id.hex)
        wanted = [each.id for each in many]
        assert len(store.list_definitions(ids=wanted, limit=2000)) == 1100
        assert len(store.list_definitions(soonest_first=True, limit=2000)) == 1100

    def test_metadata_of_many_parts_is_found_all_the_same(
        self, store: RedisStore
    ) -> None:
        large: Mapping[str, JSON] = {f"key {number}": number for number in range(100)}
        put(store, replace(definition(), metadata=large))
        put(store, replace(definition(key=9), metadata={"key 99": 99, "other": 1}))
        for looked_for in ({"key 99": 99.0}, {"key 0": 0, "key 99": 99}, large):
            found = store.list_definitions(metadata=looked_for)
            assert any(each.metadata == large for each in found)
        assert store.list_definitions(metadata={"key 99": True}) == []

    def test_ids_in_the_order_of_times_go_on_behind_a_place(
        self, store: RedisStore
    ) -> None:
        many = [definition(START + number * SECOND, key=number) for number in range(3)]
        store.put_definitions(many)
        wanted = [each.id for each in many]
        after = Position.of_definition(many[0])
        found = store.list_definitions(ids=wanted, soonest_first=True, after=after)
        assert ids(found) == wanted[1:]

    def test_of_a_list_that_is_picked_from_so_many_are_looked_at(
        self, store: RedisStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(lists, "LOOKED_AT", 2)
        made = []
        for queue in ("mine", "other", "other"):
            clock.advance(SECOND)
            pending(store, definition(clock.now(), queue=queue))
            [started] = claim(store, queues=[queue], lead=timedelta())
            finish(store, started, Outcome.FAILED)
            made.append(started.id)
        first = store.list_ended(Outcome.FAILED, queues=["mine"], limit=2)
        assert list(first.found) == []
        rest = store.list_ended(
            Outcome.FAILED, queues=["mine"], before=first.next, limit=2
        )
        assert [each.id for each in rest.found] == made[:1]
        assert rest.next is None


class TestTime:
    def test_without_a_clock_it_is_the_servers(
        self, redis_server: RedisServer, by_hand: Any
    ) -> None:
        with closing(RedisStore(redis_server.url)) as store:
            store.connect()
            before, now, after = by_hand.time(), store.now(), by_hand.time()
        seconds, micros = divmod(int(time_text(now)), 10**6)
        assert before <= (seconds - 62_135_596_800, micros) <= after


@contextmanager
def once_it_has_read(store: RedisStore, call: Callable[[], object]) -> Iterator[None]:
    """Make a call of somebody else's after each read of a put."""
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
    monkeypatch.setattr(definition_calls, "AHEAD", 1)
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
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "_MOST_KNOWN", 1)
    small = put(store, definition(key=1))
    assert store.get_definition(small.id) is small
    large = put(store, replace(definition(key=2), metadata={"of": "x" * 5000}))
    assert store.get_definition(large.id) == large
    assert store.get_definition(large.id) is not large
    assert store.get_definition(small.id) is small
    other = put(store, definition(key=3))
    assert store.get_definition(other.id) is other
    assert store.get_definition(small.id) is not small


class Editor:
    """Somebody who changes a definition, so often."""

    def __init__(self, store: RedisStore, times: int) -> None:
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
PUTS: Mapping[str, Callable[[RedisStore], object]] = {
    "put": lambda store: store.put_definitions([ONE]),
    "put_and_start": lambda store: store.put_and_start(
        Firing(definition=ONE, fire_times=(START,)), claimant()
    ),
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
        self, store: RedisStore, other: RedisStore, name: str
    ) -> None:
        with once_it_has_read(store, Editor(other, times=2)):
            PUTS[name](store)
        found = store.get_definition(ONE.id)
        assert (found.name, found.revision, found.paused) == ("one", 4, False)

    def test_at_last_it_is_left_to_the_caller(
        self,
        store: RedisStore,
        other: RedisStore,
        name: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(definition_calls, "_TRIES", 3)
        with (
            once_it_has_read(store, Editor(other, times=100)),
            pytest.raises(StoreUnavailableError, match="all the time"),
        ):
            PUTS[name](store)
        assert store.get_definition(ONE.id).name == "before"


def test_one_that_was_new_a_moment_ago_is_put_over(
    store: RedisStore, redis_server: RedisServer
) -> None:
    with closing(RedisStore(redis_server.url, clock=store.clock)) as other:

        def put_first() -> None:
            if not other.list_definitions():
                other.put_definitions([replace(ONE, name="before")])

        with once_it_has_read(store, put_first):
            [stored] = store.put_definitions([ONE])
    assert (stored.name, stored.revision) == ("one", 2)


def test_of_two_owners_at_once_one_is_refused(
    store: RedisStore, redis_server: RedisServer
) -> None:
    put(store, ONE)

    def declare(owner: str) -> bool:
        with closing(RedisStore(redis_server.url, clock=store.clock)) as mine:
            try:
                mine.declare_definitions(
                    Declaration(owner=owner, definitions=[ONE], adopts=True)
                )
            except ConfigurationError:
                return False
            return True

    won = at_once(lambda: declare("one"), lambda: declare("other"))
    assert sorted(map(bool, won)) == [False, True]


class TestErrors:
    def test_nobody_answers(self) -> None:
        with (
            closing(RedisStore("redis://127.0.0.1:1")) as store,
            pytest.raises(StoreUnavailableError, match="Redis") as caught,
        ):
            store.initialize()
        assert caught.value.__cause__ is not None

    def test_who_is_not_let_in_need_not_try_again(
        self, redis_server: RedisServer
    ) -> None:
        url = redis_server.url.replace("//", "//nobody:secret@")
        with (
            closing(RedisStore(url)) as store,
            pytest.raises(StoreError) as caught,
        ):
            store.initialize()
        assert type(caught.value) is StoreError
        assert "secret" not in str(caught.value)

    def test_what_is_no_store_is_an_error(
        self, store: RedisStore, by_hand: Any
    ) -> None:
        by_hand.set(f"{PREFIX}all", "no sorted set")
        with pytest.raises(StoreError, match="WRONGTYPE") as caught:
            put(store)
        assert type(caught.value) is StoreError

    @pytest.mark.parametrize("size", [1, 5000])
    def test_what_is_written_anew_after_a_loss_is_read_as_it_is_now(
        self, store: RedisStore, redis_server: RedisServer, size: int
    ) -> None:
        with closing(RedisStore(redis_server.url, clock=store.clock)) as other:
            put(store, definition(key=1, metadata={"was": "w" * size}))
            assert other.list_definitions()[0].metadata == {"was": "w" * size}
            delete_all_rows(redis_server.url)
            put(store, definition(key=1, metadata={"is": "i" * size}))
            assert other.list_definitions()[0].metadata == {"is": "i" * size}

    def test_a_full_memory_may_pass_and_takes_what_makes_room(
        self, store: RedisStore, by_hand: Any
    ) -> None:
        there = put(store)
        by_hand.config_set("maxmemory", "1")
        try:
            with pytest.raises(StoreUnavailableError, match="memory"):
                put(store, definition(key=2))
            assert store.delete_definitions([there.id]).keys() == {there.id}
        finally:
            by_hand.config_set("maxmemory", "0")
        assert store.list_definitions() == []

    def test_a_server_that_cannot_write_may_be_able_again(
        self, store: RedisStore, by_hand: Any
    ) -> None:
        by_hand.config_set("min-replicas-to-write", "1")
        try:
            with pytest.raises(StoreUnavailableError, match="replicas"):
                put(store)
        finally:
            by_hand.config_set("min-replicas-to-write", "0")

    def test_an_old_server_is_refused(
        self, store: RedisStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(server, "_LEAST_VERSION", (99, 0))
        with pytest.raises(ConfigurationError, match=r"Redis \d\.\d: .* 6\.2 or later"):
            store.initialize()


class TestDurability:
    @pytest.mark.parametrize(
        ("settings", "level", "said"),
        [
            ({"appendonly": "no"}, "WARNING", "set appendonly yes"),
            ({"appendfsync": "no"}, "WARNING", "set appendfsync always"),
            ({"appendfsync": "everysec"}, "INFO", "the last second"),
            (
                {
                    "appendfsync": "always",
                    "maxmemory": "1000000000",
                    "maxmemory-policy": "allkeys-lru",
                },
                "WARNING",
                "set maxmemory-policy noeviction",
            ),
        ],
    )
    def test_what_may_be_lost_is_said_once(
        self,
        redis_server: RedisServer,
        by_hand: Any,
        caplog: pytest.LogCaptureFixture,
        settings: Mapping[str, str],
        level: str,
        said: str,
    ) -> None:
        caplog.set_level(logging.INFO)
        before = {name: by_hand.config_get(name)[name] for name in settings}
        try:
            for name, value in settings.items():
                by_hand.config_set(name, value)
            with closing(RedisStore(redis_server.url)) as store:
                store.initialize()
                assert not caplog.records  # who only looks is told nothing
                store.connect()
                store.connect()
        finally:
            for name, value in before.items():
                by_hand.config_set(name, value)
        [record] = caplog.records
        assert record.levelname == level
        assert said in record.getMessage()

    def test_nothing_is_said_where_nothing_is_lost(
        self,
        redis_server: RedisServer,
        by_hand: Any,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        caplog.set_level(logging.INFO)
        by_hand.config_set("appendfsync", "always")
        try:
            with closing(RedisStore(redis_server.url)) as store:
                store.initialize()
                store.connect()
        finally:
            by_hand.config_set("appendfsync", "everysec")
        assert caplog.records == []

    def test_a_server_that_does_not_tell_is_taken_as_it_is(
        self,
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


class TestUsers:
    def test_one_who_may_do_what_the_page_says_can_use_it(
        self, redis_server: RedisServer, by_hand: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        page = (Path(__file__).parents[2] / "docs/redis.md").read_text()
        [line] = re.findall(r"^\$ redis-cli ACL SETUSER (.+)$", page, re.MULTILINE)
        by_hand.execute_command("ACL", "SETUSER", *shlex.split(line))
        name, _, password, *_ = shlex.split(line)
        url = redis_server.url.replace("//", f"//{name}:{password[1:]}@")
        with closing(RedisStore(url)) as store:
            store.initialize()
            store.connect()
            put(store, definition(store.now()))
            hints = store.hints()
            assert hints.wait() is News.ANYTHING
            hints.close()
        by_hand.execute_command("ACL", "DELUSER", name)
        assert "appendfsync everysec" in caplog.text


class TestHints:
    @pytest.fixture
    def hints(self, store: RedisStore) -> Iterator[Hints]:
        """Hints whose waits end after a while."""
        hints = store.hints()
        end = threading.Timer(FAILED_AFTER, hints.close)
        end.start()
        assert hints.wait() is News.ANYTHING
        yield hints
        end.cancel()
        hints.close()

    def test_what_is_due_soon_is_heard_of(
        self, store: RedisStore, hints: Hints, by_hand: Any
    ) -> None:
        one = put(store, definition(START))
        assert hints.wait() is News.DEFINITIONS
        store.add_instances(one.id, [Addition()])
        assert hints.wait() is News.INSTANCES
        store.pause_definitions([one.id])
        store.resume_definitions([one.id])
        assert hints.wait() is News.ANYTHING

    def test_what_is_due_later_is_not(
        self, store: RedisStore, hints: Hints, by_hand: Any
    ) -> None:
        one = put(store, definition(START + HOUR))
        store.add_instances(one.id, [Addition(delay=HOUR), Addition()])
        assert hints.wait() is News.INSTANCES

    def test_a_connection_that_is_lost_is_replaced(
        self, store: RedisStore, hints: Hints, by_hand: Any
    ) -> None:
        by_hand.client_kill_filter(_type="pubsub")
        with pytest.raises(StoreUnavailableError, match="nothing is heard"):
            hints.wait()
        assert hints.wait() is News.ANYTHING
        put(store, definition(START))
        assert hints.wait() is News.DEFINITIONS

    def test_a_wait_ends_with_the_close(
        self, hints: Hints, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        answers: list[News] = []
        waits = threading.Thread(target=lambda: answers.append(hints.wait()))
        looks = hints._news  # type: ignore[attr-defined]
        looked = threading.Event()

        def look(pubsub: object) -> News:
            looked.set()
            return looks(pubsub)  # type: ignore[no-any-return]

        monkeypatch.setattr(hints, "_news", look)
        waits.start()
        # It has found nothing, and waits from here on, or is about to.
        assert looked.wait(FAILED_AFTER)
        hints.close()
        waits.join(FAILED_AFTER)
        assert answers == [News.NOTHING]
        hints.close()
        assert hints.wait() is News.NOTHING

    def test_an_interrupt_lets_go_of_the_connection(
        self, store: RedisStore, monkeypatch: pytest.MonkeyPatch
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
