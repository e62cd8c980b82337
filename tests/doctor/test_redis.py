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
from tests.patience import FAILED_AFTER
from tests.servers import delete_all_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler.stores.findings import Finding
    from tests.redis_servers import RedisServer

WELL = {"server", "memory", "persistence", "latency", "keys"}
PREFIX = "{go_scheduler}:"


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
    """What is not as it should be, but for what a busy machine may be the cause of."""
    found = {each.name: each for each in store.examine()}
    return {
        name: each
        for name, each in found.items()
        if each.severity is not Severity.OK and not name.startswith("slow-")
    }


def test_one_that_is_well_says_so(store: RedisStore) -> None:
    names = {each.name for each in store.examine()} | {"latency"}
    assert names - {"slow-answers", "slow-scripts"} == WELL | {"no-replica"}
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
    assert found.keys() == {"evicting", "memory-full", "may-lose", "no-replica"}
    assert found["may-lose"].statement == "CONFIG SET appendfsync everysec"
    by_hand.config_set("appendonly", "no")
    assert wrong(store)["may-lose"].seen == "appendonly is no"


def test_keys_of_another_type_are_found(store: RedisStore, by_hand: Any) -> None:
    for number in range(6):
        by_hand.hset(f"{PREFIX}i:{number}", "no", "text")
    by_hand.set(f"{PREFIX}theirs", "not ours")
    by_hand.set("[go]:all", "of nobody")
    found = wrong(store)["wrong-type"]
    assert found.seen.startswith(f"{PREFIX}i:0 is a hash, {PREFIX}i:1 is a hash")
    assert found.seen.endswith("i:4 is a hash, and 1 more")
    by_hand.delete(f"{PREFIX}i:5")
    assert wrong(store)["wrong-type"].seen.endswith("i:4 is a hash")


def test_slow_scripts_and_a_slow_server_are_found(
    store: RedisStore, by_hand: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "SLOW_SCRIPT", 0)
    monkeypatch.setattr(questions, "SLOW_ANSWER", 0)
    before = by_hand.config_get("slowlog-log-slower-than")
    by_hand.config_set("slowlog-log-slower-than", 1)
    by_hand.slowlog_reset()
    store.list_definitions()
    by_hand.config_set(*before.popitem())
    names = {each.name for each in store.examine()}
    assert names >= {"slow-answers", "slow-scripts"}
    monkeypatch.setattr(questions, "SLOW_SCRIPT", FAILED_AFTER)
    monkeypatch.setattr(questions, "SLOW_ANSWER", FAILED_AFTER)
    names = {each.name for each in store.examine()}
    assert names.isdisjoint({"slow-answers", "slow-scripts"})


def test_a_replica_takes_no_writes(store: RedisStore, by_hand: Any) -> None:
    by_hand.replicaof("127.0.0.1", "1")
    try:
        assert wrong(store)["read-only"].seen == "a replica of 127.0.0.1"
    finally:
        by_hand.replicaof("NO", "ONE")


def test_what_a_user_may_not_ask_is_said(
    store: RedisStore, redis_server: RedisServer, by_hand: Any
) -> None:
    rights = ("on", ">secret", "~*", "&*", "+@all", "-config", "-slowlog")
    by_hand.execute_command("ACL", "SETUSER", "few", *rights)
    url = redis_server.url.replace("//", "//few:secret@")
    with closing(RedisStore(url)) as theirs:
        found = [each.seen for each in theirs.examine() if each.name == "not-allowed"]
    by_hand.execute_command("ACL", "DELUSER", "few")
    assert [each.partition(":")[0] for each in found] == ["persistence", "scripts"]


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


def replica(*, offset: int, lag: int) -> dict[str, Any]:
    return {"ip": "10.0.0.2", "port": 6379, "offset": offset, "lag": lag}


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
        (
            "replication",
            {
                "role": "master",
                "connected_slaves": 2,
                "master_repl_offset": 2_000_000,
                "slave0": replica(offset=500_000, lag=0),
                "slave1": replica(offset=2_000_000, lag=11),
            },
            [
                (
                    "replica-behind",
                    "10.0.0.2:6379 lacks 1,500,000 bytes, and has said nothing for 0 s",
                ),
                (
                    "replica-behind",
                    "10.0.0.2:6379 lacks 0 bytes, and has said nothing for 11 s",
                ),
            ],
        ),
        (
            "replication",
            {
                "role": "master",
                "connected_slaves": 1,
                "master_repl_offset": 7,
                "slave0": replica(offset=7, lag=1),
            },
            [("replication", "1 replicas keep up")],
        ),
    ],
)
def test_what_a_server_says_of_itself_is_judged(
    about: str, said: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    found = questions.QUESTIONS[about](Says(**said), PREFIX)
    assert [(each.name, each.seen) for each in found] == expected


def test_a_question_that_fails_costs_only_itself(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(questions.TYPES, "ids", "zset")
    monkeypatch.setattr(questions, "QUESTIONS", {"keys": questions.QUESTIONS["keys"]})
    assert wrong(store).keys() == {"wrong-type"}

    def fails(client: Any, _: str) -> Iterator[Finding]:
        yield client.execute_command("NOSUCH")

    monkeypatch.setattr(questions, "QUESTIONS", {"nothing": fails})
    assert wrong(store)["not-answered"].seen.startswith("nothing: Redis: unknown")
