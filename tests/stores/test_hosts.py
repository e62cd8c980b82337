"""One URL may name several hosts, of which any that is there will do."""

from __future__ import annotations

import socket
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import psycopg
import pytest
from sqlalchemy import URL, make_url

from go_scheduler.clock import ZERO
from go_scheduler.errors import ConfigurationError, StoreError, StoreUnavailableError
from go_scheduler.stores import open_store
from go_scheduler.stores.cockroachdb import CockroachDBStore
from go_scheduler.stores.postgresql import driver
from go_scheduler.stores.postgresql.store import PostgreSQLStore
from go_scheduler.stores.sql.database import Lane
from go_scheduler.testing.builders import put
from tests import servers
from tests.faults import Proxy, unix_socket

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection

FAMILY = ["postgresql", pytest.param("cockroachdb", marks=pytest.mark.slow)]
NAMED: Mapping[str, type[PostgreSQLStore]] = {
    "postgresql": PostgreSQLStore,
    "cockroachdb": CockroachDBStore,
}


def connected_with(
    monkeypatch: pytest.MonkeyPatch, store: PostgreSQLStore
) -> Mapping[str, object]:
    """What libpq is told when the store connects."""
    told: dict[str, object] = {}

    def connect(*_: object, **options: object) -> None:
        told.update(options)
        raise psycopg.OperationalError("nobody is there")

    monkeypatch.setattr(psycopg.Connection, "connect", connect)
    with pytest.raises(StoreUnavailableError):
        store.now()
    return told


@pytest.mark.parametrize(
    ("written", "hosts", "ports"),
    [
        ("user:pw@a:1,b:2,c:3/db", "a,b,c", "1,2,3"),
        ("user:pw@a,b:2/db", "a,b", "{port},2"),
        ("user:pw@a:1,b/db", "a,b", "1,{port}"),
        ("user:pw@a,b/db", "a,b", "{port},{port}"),
        ("user:pw@[::1]:1,[fe80::2]/db", "::1,fe80::2", "1,{port}"),
        (
            "user:pw@a.b:1,[::1]:2,10.0.0.3:3/db",
            "a.b,::1,10.0.0.3",
            "1,2,3",
        ),
        ("user:pw@%2Frun%2Fpg,b/db", "/run/pg,b", "{port},{port}"),
        ("user:pw@/db?host=a,b,c&port=1,2,3", "a,b,c", "1,2,3"),
        ("user:pw@/db?host=a,b&port=1", "a,b", "1,1"),
        ("user:pw@/db?host=a,b", "a,b", "{port},{port}"),
        ("user:pw@/db?host=a:1&host=b", "a,b", "1,{port}"),
        ("user:pw@/db?host=::1,fe80::2&port=1,2", "::1,fe80::2", "1,2"),
        ("user:pw@c:9/db?host=a,b", "a,b", "9,9"),
    ],
)
@pytest.mark.parametrize("kind", NAMED)
def test_several_hosts_are_written_in_any_form(
    monkeypatch: pytest.MonkeyPatch, kind: str, written: str, hosts: str, ports: str
) -> None:
    store = NAMED[kind](f"{kind}://{written}")
    told = connected_with(monkeypatch, store)
    port = driver.EngineKind(kind).port
    assert (told["host"], told["port"]) == (hosts, ports.format(port=port))
    assert (told["user"], told["password"], told["dbname"]) == ("user", "pw", "db")


@pytest.mark.parametrize(
    ("written", "password"),
    [
        ("p%40ss%2Cw%3Ard", "p@ss,w:rd"),
        ("a,b:c/d?e#[f]", "a,b:c/d?e#[f]"),
        ("100%25", "100%"),
    ],
)
def test_a_password_beside_several_hosts_may_have_any_characters(
    monkeypatch: pytest.MonkeyPatch, written: str, password: str
) -> None:
    store = open_store(f"postgresql://user:{written}@a:1,b:2/db?sslmode=require")
    assert isinstance(store, PostgreSQLStore)
    assert password not in repr(store)
    told = connected_with(monkeypatch, store)
    assert (told["password"], told["host"]) == (password, "a,b")
    assert told["sslmode"] == "require"


def test_a_url_in_its_parts_may_have_several_hosts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = URL.create("postgresql", username="user", host="a:1,b", port=2, database="d")
    told = connected_with(monkeypatch, PostgreSQLStore(url))
    assert (told["host"], told["port"]) == ("a,b", "1,2")


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("a:1,b:x/db", "a port that is no number from 1 to 65535"),
        ("a:1,b:0/db", "a port that is no number"),
        ("a:1,b:65536/db", "a port that is no number"),
        ("a:1,,b:2/db", "several hosts, and one is empty"),
        ("a,b/db?port=1,2,3", "2 hosts and 3 ports"),
        ("a:1,b@c/db", "write one that belongs to the password as %40"),
    ],
)
def test_several_hosts_of_which_one_is_wrong_are_refused(
    written: str, reason: str
) -> None:
    with pytest.raises(ConfigurationError, match=reason) as caught:
        PostgreSQLStore(f"postgresql://user:secret@{written}")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("host:99999/db", "a port that is no number from 1 to 65535"),
        ("/db?host=host&port=x", "a port that is no number"),
        ("host/db?port=1,2", "1 hosts and 2 ports"),
        ("host/db?sslmod=require", "'sslmod' of the URL .* did you mean sslmode?"),
        ("host/db?zyxw=1", "the option 'zyxw' of the URL is none of libpq's$"),
        ("host/db?autocommit=true", "the option 'autocommit' of the URL is none"),
        ("ss?secret=t@host/db", "an option of the URL is none of libpq's"),
        ("host/db?sslmode", r"without a value: write \?name=value"),
        ("host/db?sslmode=&port=1", "without a value"),
        ("host/db?sslmode=allow&sslmode=require", "the option sslmode more than once"),
    ],
)
@pytest.mark.parametrize("kind", NAMED)
def test_an_option_or_port_that_does_nothing_is_refused_at_once(
    kind: str, written: str, reason: str
) -> None:
    with pytest.raises(ConfigurationError, match=reason) as caught:
        open_store(f"{kind}://user:secret@{written}")
    assert "secret" not in str(caught.value)


def test_a_value_that_libpq_does_not_know_is_no_outage() -> None:
    wrong = r"invalid sslmode value: .requires.: mind the URL"
    with (
        closing(PostgreSQLStore("postgresql://127.0.0.1:1/?sslmode=requires")) as store,
        pytest.raises(StoreError, match=wrong) as caught,
    ):
        store.initialize()
    assert not isinstance(caught.value, StoreUnavailableError)


@pytest.mark.parametrize(
    "written",
    [
        "user:sec\0ret@host/db",
        "user:sec%00ret@host/db",
        "us%00er:secret@host/db",
        "user:secret@a,b\0/db",
        "user:secret@ho\0st/db",
        "user:secret@host/d\0b",
        "user:secret@host/db?sslmode=%00",
        "user:secret@host/db?%00=5",
    ],
)
def test_what_holds_a_nul_is_refused(written: str) -> None:
    # The driver would end there, and connect to a server that nobody named.
    with pytest.raises(ConfigurationError, match="holds a NUL") as caught:
        PostgreSQLStore(f"postgresql://{written}")
    assert "sec" not in str(caught.value)


def test_arguments_of_the_driver_hold_no_nul_either() -> None:
    url = "postgresql://user@host/db"
    with pytest.raises(ConfigurationError, match="a NUL in 'password'"):
        PostgreSQLStore(url, connect_args={"password": "sec\0ret"})
    assert PostgreSQLStore(url, connect_args={"password": "secret", "port": 1})


def test_one_host_of_many_is_given_less_time_and_has_to_be_the_primary(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = connected_with(monkeypatch, PostgreSQLStore("postgresql://user@a,b/db"))
    assert told["connect_timeout"] == 2
    assert told["target_session_attrs"] == "read-write"
    assert "load_balance_hosts" not in told
    told = connected_with(monkeypatch, CockroachDBStore("cockroachdb://user@a,b/db"))
    assert told["load_balance_hosts"] == "random"
    assert "target_session_attrs" not in told


@pytest.mark.parametrize("kind", NAMED)
def test_one_host_alone_is_given_more_time(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    told = connected_with(monkeypatch, NAMED[kind](f"{kind}://user@host/db"))
    assert (told["host"], told["connect_timeout"]) == ("host", driver.CONNECT_TIMEOUT)
    assert not {"load_balance_hosts", "target_session_attrs"} & told.keys()
    assert told.get("port") == (26257 if kind == "cockroachdb" else None)


def test_what_the_user_says_of_several_hosts_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = "postgresql://user@a,b/db?connect_timeout=7&target_session_attrs=any"
    store = PostgreSQLStore(url, connect_args={"load_balance_hosts": "random"})
    told = connected_with(monkeypatch, store)
    assert (told["connect_timeout"], told["target_session_attrs"]) == ("7", "any")
    assert told["load_balance_hosts"] == "random"


def among(url: str, *ports: int) -> str:
    """The URL of a server that is behind each of these ports."""
    hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
    parsed = make_url(url)
    user = f"{parsed.username}:{parsed.password or ''}"
    scheme = parsed.drivername.partition("+")[0]
    query = {key: text for key, text in parsed.query.items() if key != "host"}
    return (
        make_url(f"{scheme}://HOSTS/{parsed.database}")
        .update_query_dict(query)
        .render_as_string()
        .replace("HOSTS", f"{user}@{hosts}")
    )


@pytest.mark.parametrize("engine", FAMILY)
def test_when_a_host_dies_the_next_one_serves(store_url: str) -> None:
    connect = unix_socket(store_url)
    with ExitStack() as stack:
        first, second = (stack.enter_context(Proxy(connect)) for _ in range(2))
        third = Proxy(connect)
        third.__enter__()
        url = among(store_url, third.port, first.port, second.port)
        with servers.opened(url, has_tables=True) as store:
            new = put(store)
            for dying in (third, first):
                dying.__exit__()
                assert store.get_definition(new.id) == new
                assert store.due_definitions(ahead=ZERO, limit=1) == []
                assert store.renew_claims([]).done == {}


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["postgresql"])
def test_a_primary_that_has_become_a_standby_is_left(store_url: str) -> None:
    with Proxy(unix_socket(store_url)) as one, Proxy(unix_socket(store_url)) as two:
        url = among(store_url, one.port, two.port)
        for each, written in ((store_url, False), (url, True)):
            with servers.opened(each, has_tables=True) as store:
                assert isinstance(store, PostgreSQLStore)
                store._database.run(Lane.NEW, make_read_only)
                if written:
                    assert put(store).revision == 1
                    continue
                with pytest.raises(StoreUnavailableError, match="25006"):
                    put(store)


def make_read_only(connection: Connection) -> None:
    connection.exec_driver_sql("SET default_transaction_read_only = on")


@pytest.mark.parametrize("engine", FAMILY)
@pytest.mark.slow
def test_a_host_that_swallows_everything_is_left_behind(store_url: str) -> None:
    hole = socket.create_server(("127.0.0.1", 0))
    with closing(hole), Proxy(unix_socket(store_url)) as proxy:
        url = among(store_url, hole.getsockname()[1], proxy.port)
        with servers.opened(url, has_tables=True) as store:
            assert store.now().tzinfo is not None
