"""What is found of a Redis: of a real one, and of what one says of itself."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler.doctor import diagnose
from go_scheduler.errors import StoreUnavailableError
from go_scheduler.stores.findings import Severity
from go_scheduler.stores.redis import RedisStore, questions
from go_scheduler.testing.builders import definition, put
from tests.servers import delete_all_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler.stores.findings import Finding
    from tests.redis_servers import RedisServer

WELL = {"server", "memory", "persistence"}


@pytest.fixture
def store(redis_server: RedisServer) -> Iterator[RedisStore]:
    delete_all_rows(redis_server.url)
    with closing(RedisStore(redis_server.url)) as store:
        put(store, definition(store.now()))
        yield store


@pytest.fixture
def by_hand(redis_server: RedisServer) -> Iterator[Any]:
    """Somebody else's connection; what it has set is as it was in the end."""
    names = ("maxmemory", "maxmemory-policy", "appendonly", "appendfsync")
    with redis_server.client() as client:
        before = {name: client.config_get(name)[name] for name in names}
        yield client
        for name, value in before.items():
            client.config_set(name, value)


def wrong(store: RedisStore) -> dict[str, Finding]:
    """What is not as it should be."""
    found = store.examine()
    return {each.name: each for each in found if each.severity is not Severity.OK}


def test_one_that_is_well_says_so(store: RedisStore) -> None:
    assert {each.name for each in store.examine()} == WELL
    [server] = [each for each in diagnose(store).findings if each.name == "server"]
    assert "edis " in server.seen or "Valkey " in server.seen


def test_what_may_be_lost_is_found(
    store: RedisStore, by_hand: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_hand.config_set("maxmemory", by_hand.info("memory")["used_memory"] * 2)
    assert "memory" in {each.name for each in store.examine()}
    by_hand.config_set("maxmemory-policy", "allkeys-lru")
    by_hand.config_set("appendfsync", "no")
    monkeypatch.setattr(questions, "NEARLY_FULL", 0.01)
    found = wrong(store)
    assert found.keys() == {"evicting", "memory-full", "may-lose"}
    assert found["may-lose"].statement == "CONFIG SET appendfsync everysec"
    by_hand.config_set("appendonly", "no")
    assert wrong(store)["may-lose"].seen == "appendonly is no"


def test_a_replica_takes_no_writes(store: RedisStore, by_hand: Any) -> None:
    by_hand.replicaof("127.0.0.1", "1")
    try:
        assert wrong(store)["read-only"].seen == "a replica of 127.0.0.1"
    finally:
        by_hand.replicaof("NO", "ONE")


def test_what_a_user_may_not_ask_is_said(
    store: RedisStore, redis_server: RedisServer, by_hand: Any
) -> None:
    rights = ("on", ">secret", "~*", "&*", "+@all", "-config")
    by_hand.execute_command("ACL", "SETUSER", "few", *rights)
    url = redis_server.url.replace("//", "//few:secret@")
    with closing(RedisStore(url)) as theirs:
        found = [each.seen for each in theirs.examine() if each.name == "not-allowed"]
    by_hand.execute_command("ACL", "DELUSER", "few")
    assert [each.partition(":")[0] for each in found] == ["persistence"]


def test_one_that_is_not_there_is_away() -> None:
    with (
        closing(RedisStore("redis://127.0.0.1:1")) as store,
        pytest.raises(StoreUnavailableError),
    ):
        store.examine()


class Says:
    """A server that says this of itself."""

    def __init__(self, **info: Any) -> None:
        self._info = info

    def info(self, _: str) -> dict[str, Any]:
        return self._info


@pytest.mark.parametrize(
    ("about", "said", "expected"),
    [
        (
            "server",
            {"redis_version": "6.0.16"},
            [("old-server", "Redis 6.0.16")],
        ),
        (
            "server",
            {"redis_version": "7.2.4", "valkey_version": "8.1.8"},
            [("server", "Valkey 8.1.8")],
        ),
        (
            "persistence",
            {"aof_last_write_status": "err", "aof_enabled": 0},
            [
                ("not-kept", "aof_last_write_status is err"),
                ("may-lose", "appendonly is no"),
            ],
        ),
        ("replication", {"role": "master"}, []),
    ],
)
def test_what_a_server_says_of_itself_is_judged(
    about: str, said: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    found = questions.QUESTIONS[about](Says(**said))
    assert [(each.name, each.seen) for each in found] == expected


def test_a_question_that_fails_costs_only_itself(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(client: Any) -> Iterator[Finding]:
        yield client.execute_command("NOSUCH")

    monkeypatch.setitem(questions.QUESTIONS, "memory", fails)
    found = wrong(store)
    assert found.keys() == {"not-answered"}
    assert found["not-answered"].seen.startswith("memory: Redis: unknown")
