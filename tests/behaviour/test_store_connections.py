"""Connections that are lost, servers that are away, and writes that fail a while."""

from __future__ import annotations

import shlex
import socket
import sqlite3
import subprocess
import sys
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from go_scheduler import StoreUnavailableError, TaskDefinition
from go_scheduler.client import Client
from go_scheduler.errors import StoreError
from go_scheduler.stores import open_store
from go_scheduler.testing.clock import START
from tests.behaviour.house import meanwhile
from tests.behaviour.store_house import (
    HOUR,
    SECOND,
    House,
    ids,
    once,
    opened,
    running,
    task,
)
from tests.faults import Proxy, behind, kill_connections, unix_socket
from tests.patience import FAILED_AFTER
from tests.servers import libpq

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from go_scheduler import Store
    from go_scheduler.testing import ManualClock
    from tests.redis_servers import RedisServer


pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
LOCKING = ["postgresql", "cockroachdb"]
DRIVERS = ("sqlite3", "sqlite3.dbapi2")


# PostgreSQL, whose connections end.


@pytest.mark.parametrize("engine", ["postgresql"])
def test_the_end_of_all_connections_loses_nothing_and_doubles_nothing(
    house: House, store: Store, store_url: str, clock: ManualClock
) -> None:
    house.answer = lambda _: None
    house.task()
    scheduled = []
    for number in range(3):
        kill_connections(store_url)
        scheduled.append(house.once().id)
        kill_connections(store_url)
        house.scheduler.enqueue("send", n=number)
        kill_connections(store_url)
        house.scheduler.enqueue_all("send", [{"n": number}])
        kill_connections(store_url)
        clock.advance(SECOND)
    clock.advance(2 * SECOND)
    assert len(house.called) == 9
    assert len({*ids(house.called)}) == 9
    counts = house.scheduler.counts()
    assert {each.value: n for each, n in counts.items() if n} == {"completed": 9}
    assert len(house.scheduler.list_definitions(limit=1000)) == 4
    assert store.retries  # type: ignore[attr-defined]
    assert house.scheduler.health().ok


@pytest.mark.parametrize("engine", LOCKING)
def test_when_a_host_dies_the_next_one_serves(
    store_url: str, clock: ManualClock
) -> None:
    with ExitStack() as stack, ExitStack() as dies:
        proxies = [Proxy(unix_socket(store_url)) for _ in range(3)]
        dies.enter_context(proxies[0])
        for each in proxies[1:]:
            stack.enter_context(each)
        url = behind(store_url, *(each.port for each in proxies))
        with opened(url, clock) as store, running(store, clock) as house:
            of = house.task()
            house.scheduler.enqueue("send")
            clock.advance(SECOND)
            dies.close()
            assert house.scheduler.get_definition(of.id) == of
            house.scheduler.enqueue("send")
            clock.advance(2 * SECOND)
            assert len(house.called) == 2


@pytest.mark.parametrize("engine", LOCKING)
def test_a_host_that_swallows_everything_is_left_behind(
    store_url: str, clock: ManualClock
) -> None:
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as hole,
        Proxy(unix_socket(store_url)) as proxy,
    ):
        url = behind(store_url, hole.getsockname()[1], proxy.port)
        with opened(url, clock) as store:
            assert Client(store).schedule(once()).revision == 1


@pytest.mark.parametrize("engine", ["postgresql"])
def test_too_few_connections_delay_and_do_not_lock(
    store_url: str, clock: ManualClock
) -> None:
    with opened(store_url, clock, pool_size=1) as store:
        client = Client(store)
        client.check()
        with meanwhile(*[lambda: client.schedule(once(START + HOUR))] * 8):
            pass
        assert len(client.list_definitions()) == 8


@pytest.mark.parametrize("engine", ["sqlite", "postgresql", "redis"])
def test_a_store_that_was_closed_may_be_used_again(
    store: Store, caplog: pytest.LogCaptureFixture, engine: str
) -> None:
    client = Client(store)
    client.check()
    with caplog.at_level("INFO"):
        new = client.schedule(once())
        store.close()
        store.close()
        assert client.list_definitions() == [new]
    said = "a store that was closed is used again, and opens connections"
    assert engine != "postgresql" or said in caplog.messages


FORKS = """
import os, sys
from go_scheduler import ExecuteOnceTrigger, TaskDefinition
from go_scheduler.client import Client
from go_scheduler.stores import open_store

store = open_store(sys.argv[1])
client = Client(store)
client.check()
def put():
    trigger = ExecuteOnceTrigger(store.now())
    client.schedule(TaskDefinition(trigger=trigger))

put()
if len(sys.argv) > 2:
    store.close()
sys.stdout.flush()
if not (child := os.fork()):
    try:
        put()
        store.close()
        answer = "done"
    except Exception as error:
        answer = type(error).__name__
    print("child", answer, flush=True)
    os._exit(0)
os.waitpid(child, 0)
put()
print("parent", len(client.list_definitions()), flush=True)
store.close()
"""


@pytest.mark.parametrize(
    ("engine", "more", "child", "count"),
    [
        ("postgresql", (), "done", 3),
        ("redis", (), "done", 3),
        ("sqlite", (), "StoreError", 2),
        ("sqlite", ("closed",), "done", 3),
    ],
)
def test_after_a_fork_each_process_has_connections_of_its_own(
    store_url: str, more: tuple[str, ...], child: str, count: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKS, store_url, *more],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=FAILED_AFTER,
        check=True,
    )
    assert done.stdout.splitlines() == [f"child {child}", f"parent {count}"]


# PostgreSQL, whose writes fail.

RAISE = """
CREATE FUNCTION made_on_purpose() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF random() < {share} THEN
    RAISE EXCEPTION 'made on purpose' USING ERRCODE = '{code}';
  END IF;
  RETURN NULL;
END $$
"""


@contextmanager
def failing(url: str, code: str, *, share: float = 1.0) -> Iterator[None]:
    """Let the server refuse a share of all statements that write, with this error."""
    tables = ("task_definitions", "task_instances")
    with psycopg.connect(libpq(url), autocommit=True) as connection:
        connection.execute(RAISE.format(share=share, code=code).encode())
        for each in tables:
            connection.execute(
                "CREATE TRIGGER made_on_purpose BEFORE INSERT OR UPDATE OR DELETE"
                f" ON {each} FOR EACH STATEMENT EXECUTE FUNCTION"
                " made_on_purpose()".encode()
            )
        try:
            yield
        finally:
            for each in tables:
                connection.execute(f"DROP TRIGGER made_on_purpose ON {each}".encode())
            connection.execute("DROP FUNCTION made_on_purpose()")


@pytest.mark.parametrize("engine", ["postgresql"])
@pytest.mark.parametrize(
    "code", ["53100", "25006", "53300", "57P03", "55P03", "57014", "42501"]
)
def test_an_error_says_whether_trying_again_may_help_and_changes_nothing(
    store: Store, store_url: str, code: str
) -> None:
    client = Client(store)
    client.check()
    with failing(store_url, code):
        with pytest.raises(StoreError, match=code) as caught:
            client.schedule_all([once(), once()])
        # Nobody grants a right that is missing meanwhile.
        assert isinstance(caught.value, StoreUnavailableError) == (code != "42501")
        assert caught.value.__cause__ is not None
    assert client.list_definitions() == []
    assert client.schedule(once()).revision == 1


# The isolation level.


@pytest.mark.parametrize(
    ("engine", "other"),
    [("postgresql", "serializable"), ("cockroachdb", r"read\ committed")],
)
def test_a_store_sets_its_isolation_level_whatever_the_default_is(
    store_url: str, other: str
) -> None:
    options = f"-c default_transaction_isolation={other}"
    with closing(open_store(store_url, connect_args={"options": options})) as store:
        store.initialize()


@pytest.mark.parametrize("engine", ["postgresql"])
def test_a_store_whose_isolation_level_is_not_kept_is_refused(store_url: str) -> None:
    options = (
        "-c default_transaction_isolation=serializable"
        " -c search_path=careless,pg_catalog,public"
    )
    with psycopg.connect(libpq(store_url), autocommit=True) as connection:
        connection.execute(
            "CREATE SCHEMA careless; CREATE FUNCTION careless.set_config(text, text,"
            " boolean) RETURNS text LANGUAGE sql AS 'SELECT $2'"
        )
        store = open_store(store_url, connect_args={"options": options})
        with closing(store), pytest.raises(StoreError) as refused:
            store.initialize()
        connection.execute("DROP SCHEMA careless CASCADE")
    message = str(refused.value)
    assert "run at isolation level SERIALIZABLE" in message
    assert "default_transaction_isolation to READ COMMITTED" in message


# SQLite, whose file is away, full or read-only.


@contextmanager
def every_connection(
    monkeypatch: pytest.MonkeyPatch, prepare: Callable[[sqlite3.Connection], object]
) -> Iterator[None]:
    """Prepare all connections that are opened meanwhile."""
    connect = sqlite3.connect

    def connected(*args: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **options)
        prepare(connection)
        return connection

    with monkeypatch.context() as patched:
        for module in DRIVERS:
            patched.setattr(f"{module}.connect", connected)
        yield


def executing(pragma: str) -> Callable[[sqlite3.Connection], object]:
    """What belongs to a connection."""
    return lambda connection: connection.execute(pragma).close()


def test_a_file_that_cannot_be_opened_may_come_back(
    own_file: Path, clock: ManualClock
) -> None:
    with opened(f"sqlite:///{own_file}", clock) as store:
        client = Client(store)
        new = client.schedule(once())
        store.close()
        hidden = own_file.rename(own_file.with_suffix(".hidden"))
        own_file.mkdir()
        with pytest.raises(StoreUnavailableError, match="unable to open"):
            client.schedule(once())
        own_file.rmdir()
        hidden.rename(own_file)
        assert client.list_definitions() == [new]


def test_a_full_disk_is_an_outage_that_ends(
    own_file: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(own_file)) as by_hand:
        [(pages,)] = by_hand.execute("PRAGMA page_count")
    with opened(f"sqlite:///{own_file}", clock, durable=False) as store:
        client = Client(store)
        client.check()
        store.close()
        full = executing(f"PRAGMA max_page_count = {pages + 2}")
        with every_connection(monkeypatch, full):
            with pytest.raises(StoreUnavailableError, match="full"):
                client.schedule_all(once(START + HOUR) for _ in range(500))
            assert client.list_definitions() == []
            store.close()
        assert len(client.schedule_all(once(START + HOUR) for _ in range(500))) == 500


def test_a_file_that_cannot_be_written_can_be_read(
    own_file: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(f"sqlite:///{own_file}", clock, durable=False) as store:
        house = House(store, clock)
        house.task()
        made = house.scheduler.enqueue("send")
        store.close()
        with every_connection(monkeypatch, executing("PRAGMA query_only = ON")):
            assert house.again(made) == made
            with pytest.raises(StoreError, match="readonly") as refused:
                house.scheduler.enqueue("send")
            assert not isinstance(refused.value, StoreUnavailableError)
            with house.scheduler:
                clock.advance(SECOND)
            assert house.called == []
            store.close()
        with house.scheduler:
            clock.advance(SECOND)
            assert ids(house.called) == [made.id]


@pytest.mark.parametrize(("durable", "level"), [(True, 2), (False, 1)])
def test_writes_wait_for_the_disk_unless_told_otherwise(
    own_file: Path, durable: bool, level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    with (
        every_connection(monkeypatch, lambda of: of.set_trace_callback(said.append)),
        opened(f"sqlite:///{own_file}", durable=durable) as store,
    ):
        Client(store).schedule(once())
    levels = {"FULL": 2, "NORMAL": 1, "2": 2, "1": 1}
    assert {
        levels[each.partition("=")[2].strip().upper()]
        for each in said
        if "synchronous" in each and "=" in each
    } == {level}


WRITER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
connection.execute("UPDATE task_instances SET attempt = 77")
print("written", flush=True)
sys.stdin.read()
"""


def test_a_killed_process_leaves_nothing_half_done(
    own_file: Path, clock: ManualClock
) -> None:
    with opened(f"sqlite:///{own_file}", clock) as store:
        house = House(store, clock)
        house.task()
        made = house.scheduler.enqueue("send")
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(own_file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"written\n"
            process.kill()
        assert house.again(made) == made
        with house.scheduler:
            clock.advance(SECOND)
            assert [each.attempt for each in house.called] == [1]


# Redis, whose server dies, hangs, is full or forgets.


@pytest.mark.parametrize("engine", ["redis"])
def test_a_full_memory_may_pass_and_takes_what_makes_room(
    store: Store, redis_server: RedisServer
) -> None:
    client = Client(store)
    there = client.schedule(once())
    with redis_server.client() as by_hand:
        try:
            by_hand.config_set("maxmemory", "1")
            with pytest.raises(StoreUnavailableError, match="memory"):
                client.schedule(once())
            assert client.delete_definition(there.id)
            by_hand.config_set("maxmemory", "0")
            by_hand.config_set("min-replicas-to-write", "1")
            with pytest.raises(StoreUnavailableError, match="replicas"):
                client.schedule(once())
        finally:
            by_hand.config_set("maxmemory", "0")
            by_hand.config_set("min-replicas-to-write", "0")
    assert client.list_definitions() == []
    assert client.schedule(once()).state == "active"


@pytest.mark.parametrize("engine", ["redis"])
def test_a_server_that_has_forgotten_the_scripts_or_ends_connections_is_told_again(
    store: Store, redis_server: RedisServer, clock: ManualClock
) -> None:
    with running(store, clock) as house, redis_server.client() as by_hand:
        for _ in range(2):
            by_hand.script_flush()
            house.run()
            by_hand.client_kill_filter(_type="normal", skipme=True)
            house.run()
        assert len(house.called) == 4


@pytest.mark.parametrize("engine", ["redis"])
@pytest.mark.parametrize("size", [1, 5000])
def test_what_is_written_anew_after_a_loss_is_read_as_it_is_now(
    store: Store, store_url: str, redis_server: RedisServer, size: int
) -> None:
    id = TaskDefinition.id_for("a")
    with opened(store_url, store.clock) as other:  # type: ignore[arg-type]
        Client(store).schedule(once(id=id, metadata={"was": "w" * size}))
        assert Client(other).get_definition(id).metadata == {"was": "w" * size}
        with redis_server.client() as by_hand:
            by_hand.flushdb()
        Client(store).schedule(once(id=id, metadata={"is": "i" * size}))
        assert Client(other).get_definition(id).metadata == {"is": "i" * size}


@pytest.mark.parametrize("engine", ["redis"])
def test_namespaces_know_nothing_of_each_other(
    store: Store, store_url: str, clock: ManualClock
) -> None:
    Client(store).schedule(task())
    with opened(store_url, clock, namespace="other") as other:
        assert Client(other).list_definitions() == []
        with running(other, clock) as house:
            house.run()
    with opened(f"{store_url}?namespace=other", clock) as other:
        assert len(Client(other).list_definitions()) == 1
    assert len(Client(store).list_definitions()) == 1


@pytest.mark.parametrize("engine", ["redis"])
def test_who_may_do_what_the_page_says_can_use_it(
    store_url: str, redis_server: RedisServer, clock: ManualClock
) -> None:
    page = (ROOT / "docs/redis.md").read_text().splitlines()
    [line] = [each for each in page if each.startswith("$ redis-cli ACL SETUSER ")]
    words = shlex.split(line)[4:]
    with redis_server.client() as by_hand:
        by_hand.execute_command("ACL", "SETUSER", *words)
        name, password = words[0], words[2].removeprefix(">")
        url = store_url.replace("//", f"//{name}:{password}@")
        try:
            with opened(url, clock) as store, running(store, clock) as house:
                assert house.complete(house.run())
        finally:
            by_hand.execute_command("ACL", "DELUSER", name)
