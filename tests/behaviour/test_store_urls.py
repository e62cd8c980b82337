"""Stores are named by URLs and options, and what is wrong with these is said."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from sqlalchemy import URL, make_url

from go_scheduler import ConfigurationError, MemoryStore, Store, StoreUnavailableError
from go_scheduler.errors import StoreError
from go_scheduler.stores import open_store, opening
from go_scheduler.stores.cockroachdb import CockroachDBStore
from go_scheduler.stores.postgresql import PostgreSQLStore
from go_scheduler.stores.redis import RedisStore
from go_scheduler.stores.sqlite import SQLiteStore
from tests.behaviour.store_house import SECOND, opened

if TYPE_CHECKING:
    from pathlib import Path

    from go_scheduler.testing import ManualClock

NOWHERE = "user:secret@127.0.0.1:1/database"
"""Where nobody answers; a store is not connected before it is used."""
PORTS = {"postgresql": "5432", "cockroachdb": "26257"}


@pytest.mark.parametrize(
    ("url", "kind", "shown"),
    [
        ("memory://", MemoryStore, None),
        ("MEMORY://", MemoryStore, None),
        ("sqlite:////no/folder/a.db", SQLiteStore, "sqlite:////no/folder/a.db"),
        ("sqlite+pysqlite:///a.db", SQLiteStore, None),
        (f"postgresql://{NOWHERE}", PostgreSQLStore, None),
        (f"postgres://{NOWHERE}", PostgreSQLStore, None),
        (f"postgresql+psycopg://{NOWHERE}", PostgreSQLStore, None),
        (f"cockroachdb://{NOWHERE}?sslmode=verify-full", CockroachDBStore, None),
        (f"cockroachdb+psycopg://{NOWHERE}", CockroachDBStore, None),
        ("redis://host", RedisStore, "redis://host:6379/0"),
        ("redis://", RedisStore, "redis://localhost:6379/0"),
        ("redis://u:secret@Host:7000/3", RedisStore, "redis://host:7000/3"),
        ("rediss://:secret@host/1", RedisStore, "rediss://host:6379/1"),
        ("redis://[::1]:7000", RedisStore, "redis://[::1]:7000/0"),
        ("redis://us%40er:p%2Fsecret@host", RedisStore, "redis://host:6379/0"),
        (
            "redis+sentinel://a,b:26380/master/2",
            RedisStore,
            "redis+sentinel://a:26379,b:26380/master/2",
        ),
        (
            "redis+cluster://u:secret@a,b:7000?tls=true",
            RedisStore,
            "redis+cluster://a:6379,b:7000/0",
        ),
        (
            "rediss://:secret@host?tls_ca=/ca&namespace=b+%C3%A4%2Fc",
            RedisStore,
            "rediss://host:6379/0?namespace=b%2B%C3%A4%2Fc",
        ),
        ("redis://h?namespace=go_scheduler", RedisStore, "redis://h:6379/0"),
    ],
)
def test_a_url_names_the_store_of_its_database_and_no_password_is_shown(
    url: str, kind: type[Store], shown: str | None, clock: ManualClock
) -> None:
    with opened(url, clock) as store:
        assert type(store) is kind
        assert store.clock is clock
        assert "secret" not in repr(store)
        assert shown is None or repr(store) == f"{kind.__name__}({shown!r})"


REFUSED: list[tuple[Any, str]] = [
    *(
        (each, "begins with a scheme, as in memory")
        for each in ("", "memory:", None, 5)
    ),
    ("oracle://user:secret@host", "no store has the scheme 'oracle'; known: cockroach"),
    *(
        (each, "MemoryStore, memory://")
        for each in ("sqlite://", "sqlite:///", "sqlite:///:memory:")
    ),
    ("sqlite://host/a.db", r"sqlite:///relative/file\.db"),
    ("sqlite:///a.db?mode=ro", r"sqlite:///relative/file\.db"),
    ("sqlite+other:///a.db", r"sqlite:///relative/file\.db"),
    (f"postgresql+psycopg2://{NOWHERE}", "begin with postgresql://"),
    (f"postgresql+asyncpg://{NOWHERE}", r"or postgresql\+psycopg://"),
    (f"cockroachdb+asyncpg://{NOWHERE}", "begin with cockroachdb://"),
    ("postgresql://u:secret@host:port/d", "URL"),
    ("postgresql://u:sec@secret@host/d", "URL"),
    *(
        (f"{kind}://user:secret@{rest}", said)
        for kind in PORTS
        for rest, said in (
            ("a:1,b:x/db", "a port that is no number from 1 to 65535"),
            ("a:1,b:0/db", "a port that is no number"),
            ("a:1,b:65536/db", "a port that is no number"),
            ("a:1,,b:2/db", "several hosts, and one is empty"),
            ("a,b/db?port=1,2,3", "2 hosts and 3 ports"),
            ("/db?host=host&port=x", "a port that is no number"),
            ("host/db?port=1,2", "1 hosts and 2 ports"),
            ("a:1,b@c/db", "write one that belongs to the password as %40"),
            ("host/db?sslmod=require", "did you mean sslmode"),
            ("host/db?zyxw=1", "the option 'zyxw' of the URL is none of libpq's"),
            ("host/db?sslmode", "without a value"),
            ("host/db?sslmode=allow&sslmode=require", "sslmode more than once"),
            ("ss?secret=t@host/db", "an option of the URL is none of libpq's"),
            ("host/db?sslmode=&port=1", "without a value"),
            *(
                (each, "holds a NUL")
                for each in ("host/d\0b", "ho\0st/db", "a,b%00/db", "a,b\0/db")
            ),
            ("host/db?sslmode=%00", "holds a NUL"),
        )
    ),
    ("postgresql://us%00er:secret@host/db", "holds a NUL"),
    ("postgresql://user:sec%00ret@host/db", "holds a NUL"),
    *(
        (url, said)
        for url, said in (
            ("redis+master://secret@host/name", "is like redis://"),
            ("redis://secret@[host", "is like redis://"),
            ("redis://secret@host/name", "a database that is no whole number"),
            ("redis://secret@host/0/1", "a database that is no whole number"),
            ("redis+cluster://secret@host/1", "a database, of which a cluster"),
            ("redis+sentinel://secret@host", "not the name of their master"),
            ("redis+sentinel://secret@host/name/secret", "a database that is no"),
            ("redis://secret@host:port/0", "a port that is no number from 1 to 65535"),
            ("redis://user:secret/0", "a port that is no number"),
            ("redis://secret@::1", "an IPv6 address without brackets"),
            ("redis://secret@a,b", "several hosts, which only those of sentinels"),
            ("redis+cluster://secret@a,,b", "several hosts, and one is empty"),
            ("redis://secret@host?timeout=3", "no option 'timeout', only namespace"),
            ("redis://host?tls=yes", "an option tls that is neither true nor false"),
            ("redis://host?tls&tls_ca=/ca", "the option tls more than once, or"),
            ("redis://host?tls_ca=/ca.pem", "a tls_ca without TLS"),
            ("redis://secret@host#part", "write %40 for @"),
            ("redis://user:sec?ret=secret@host", "an @: in a user or password"),
            ("redis://host?namespace=", "namespace more than once, or without a val"),
            ("redis://host?namespace=%7Bmine}", "the namespace in the URL"),
            ("redis://host?namespace=a%00", "the namespace in the URL"),
            (f"redis://host?namespace={'n' * 256}", "the namespace in the URL"),
        )
    ),
]


@pytest.mark.parametrize(("url", "said"), REFUSED, ids=[str(url) for url, _ in REFUSED])
def test_any_other_url_is_refused_with_what_is_wrong_and_without_what_lets_in(
    url: Any, said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        open_store(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "options", "said"),
    [
        ("memory://", {"pool_size": 5}, "has no option 'pool_size'; known: none"),
        ("sqlite:///a.db", {"hints": True}, "known: clock, migrate, durable, busy_tim"),
        (f"postgresql://{NOWHERE}", {"durable": 1}, "no option 'durable'"),
        *(
            (f"postgresql://{NOWHERE}", {"pool_size": size}, "pool_size must be")
            for size in (0, -3, "5", True, None)
        ),
        *(
            (f"postgresql://{NOWHERE}", {"hints": hints}, "hints must be a bool")
            for hints in ("no", "", 0)
        ),
        (
            f"postgresql://{NOWHERE}",
            {"connect_args": {"password": "sec\0ret"}},
            "a NUL in 'password'",
        ),
        *(
            ("sqlite:///a.db", {"busy_timeout": each}, "busy_timeout must be")
            for each in (5, "5", None, -SECOND, timedelta(days=2))
        ),
        *(
            ("redis://host", {"namespace": each}, "namespace")
            for each in ("{mine}", "mi}ne", "", 7)
        ),
        (
            "redis://host?namespace=a",
            {"namespace": "b"},
            "has another namespace than the argument, 'b': say one",
        ),
        ("redis://host", {"timeout": timedelta(0)}, "timeout"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(
    url: str, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        open_store(url, **options)
    assert "ret" not in str(caught.value).replace("retry", "")


@pytest.mark.parametrize("store", [PostgreSQLStore, CockroachDBStore, SQLiteStore])
def test_the_url_of_another_database_is_refused_without_its_password(
    store: type[Store],
) -> None:
    for url in ("redis://me:secret@host/1", "mysql://me:secret@host/d", "no url"):
        with pytest.raises(ConfigurationError) as caught:
            store(url)  # type: ignore[arg-type]
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("scheme", "needed"),
    [
        ("postgresql", "go_scheduler requires it: install go_scheduler anew"),
        ("cockroachdb", "go_scheduler requires it: install go_scheduler anew"),
        ("sqlite", "go_scheduler requires it: install go_scheduler anew"),
        ("redis", "it needs the extra 'redis' of go_scheduler"),
        ("redis+sentinel", "it needs the extra 'redis' of go_scheduler"),
    ],
)
def test_a_store_whose_driver_is_missing_is_refused_with_what_to_do(
    scheme: str, needed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(name: str) -> object:
        raise ModuleNotFoundError("No module named 'psycopg'", name="psycopg")

    monkeypatch.setattr(opening, "import_module", cannot)
    with pytest.raises(ConfigurationError) as refused:
        open_store(f"{scheme}://{NOWHERE}")
    assert str(refused.value) == (
        f"the store of {scheme}:// cannot be imported: No module named 'psycopg';"
        f" {needed}"
    )


def test_an_old_sqlite_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sqlite3.sqlite_version_info", (3, 34, 1))
    with pytest.raises(ConfigurationError, match=r"SQLite 3\.35 or newer"):
        open_store("sqlite:///a.db")


# What the driver of PostgreSQL is told.


def told(
    monkeypatch: pytest.MonkeyPatch, url: str | URL, **options: Any
) -> dict[str, Any]:
    """The options with which a connection would be opened."""
    found: dict[str, Any] = {}

    def connect(*_: object, **options: Any) -> None:
        found.update(options)
        raise psycopg.OperationalError("nobody is there")

    scheme = url.drivername if isinstance(url, URL) else url.partition(":")[0]
    kind = CockroachDBStore if scheme.startswith("cockroachdb") else PostgreSQLStore
    with closing(kind(url, **options)) as store, monkeypatch.context() as patched:
        patched.setattr(psycopg.Connection, "connect", connect)
        with pytest.raises(StoreUnavailableError, match="nobody is there"):
            store.now()
    return found


@pytest.mark.parametrize(
    ("written", "hosts", "ports"),
    [
        ("user:pw@a:1,b:2,c:3/db", "a,b,c", "1,2,3"),
        ("user:pw@a,b:2/db", "a,b", "{port},2"),
        ("user:pw@a:1,b/db", "a,b", "1,{port}"),
        ("user:pw@a,b/db", "a,b", "{port},{port}"),
        ("user:pw@[::1]:1,[fe80::2]/db", "::1,fe80::2", "1,{port}"),
        ("user:pw@a.b:1,[::1]:2,10.0.0.3:3/db", "a.b,::1,10.0.0.3", "1,2,3"),
        ("user:pw@%2Frun%2Fpg,b/db", "/run/pg,b", "{port},{port}"),
        ("user:pw@/db?host=a,b,c&port=1,2,3", "a,b,c", "1,2,3"),
        ("user:pw@/db?host=a,b&port=1", "a,b", "1,1"),
        ("user:pw@/db?host=a,b", "a,b", "{port},{port}"),
        ("user:pw@/db?host=a:1&host=b", "a,b", "1,{port}"),
        ("user:pw@/db?host=::1,fe80::2&port=1,2", "::1,fe80::2", "1,2"),
        ("user:pw@c:9/db?host=a,b", "a,b", "9,9"),
    ],
)
@pytest.mark.parametrize("kind", PORTS)
def test_several_hosts_are_written_in_any_form(
    monkeypatch: pytest.MonkeyPatch, kind: str, written: str, hosts: str, ports: str
) -> None:
    found = told(monkeypatch, f"{kind}://{written}")
    port = PORTS[kind]
    assert (found["host"], found["port"]) == (hosts, ports.format(port=port))
    assert (found["user"], found["password"], found["dbname"]) == ("user", "pw", "db")


@pytest.mark.parametrize(
    ("written", "password"),
    [
        ("p%40ss%2Cw%3Ard", "p@ss,w:rd"),
        ("a,b:c/d?e#[f]", "a,b:c/d?e#[f]"),
        ("100%25", "100%"),
    ],
)
def test_a_password_may_have_any_characters(
    monkeypatch: pytest.MonkeyPatch, written: str, password: str
) -> None:
    found = told(monkeypatch, f"postgresql://user:{written}@a:1,b:2/db?sslmode=require")
    assert (found["password"], found["host"]) == (password, "a,b")
    assert found["sslmode"] == "require"


def test_one_of_several_hosts_has_less_time_and_has_to_be_the_primary(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = told(monkeypatch, "postgresql://user@host/db")
    many = told(monkeypatch, "postgresql://user@a,b/db")
    assert many["connect_timeout"] < one["connect_timeout"]
    assert many["target_session_attrs"] == "read-write"
    assert not {"target_session_attrs", "load_balance_hosts", "port"} & one.keys()
    assert told(monkeypatch, "cockroachdb://user@host/db")["port"] == 26257
    many = told(monkeypatch, "cockroachdb://user@a,b/db")
    assert many["load_balance_hosts"] == "random"
    assert "target_session_attrs" not in many
    own = "postgresql://user@a,b/db?connect_timeout=7&target_session_attrs=any"
    given = {"load_balance_hosts": "random"}
    found = told(monkeypatch, own, connect_args=given)
    assert (found["connect_timeout"], found["target_session_attrs"]) == ("7", "any")
    assert found["load_balance_hosts"] == "random"


def test_a_url_may_come_in_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    url = URL.create("postgresql", username="user", host="a:1,b", port=2, database="d")
    found = told(monkeypatch, url)
    assert (found["host"], found["port"]) == ("a,b", "1,2")


# What is there when a store is used.


def test_a_value_that_libpq_does_not_know_is_no_outage() -> None:
    with (
        opened("postgresql://127.0.0.1:1/?sslmode=requires") as store,
        pytest.raises(
            StoreError, match=r"invalid sslmode value: .*: mind the URL"
        ) as no,
    ):
        store.initialize()
    assert not isinstance(no.value, StoreUnavailableError)


@pytest.mark.parametrize(
    "url",
    [f"postgresql://{NOWHERE}", f"cockroachdb://{NOWHERE}", "redis://127.0.0.1:1"],
)
def test_a_server_that_is_not_there_is_away(url: str) -> None:
    with opened(url) as store, pytest.raises(StoreUnavailableError) as caught:
        store.initialize()
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is not None


def test_a_file_may_be_named_relative_to_where_the_process_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with opened("sqlite:///here.db", durable=False) as store:
        monkeypatch.chdir("/")
        store.initialize()
    assert (tmp_path / "here.db").exists()


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with (
        opened(f"sqlite:///{tmp_path}/missing/store.db") as store,
        pytest.raises(ConfigurationError, match="missing of the store's file"),
    ):
        store.initialize()


def test_a_file_that_is_no_database_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(b"This is no database, and it is long enough to be sure." * 20)
    with (
        opened(f"sqlite:///{path}") as store,
        pytest.raises(StoreError, match="not a database") as caught,
    ):
        store.initialize()
    assert type(caught.value) is StoreError
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["database", "role"])
def test_a_database_or_role_that_is_not_there_is_no_outage(
    postgresql_url: str, wrong: str
) -> None:
    url = make_url(postgresql_url)
    url = (
        url.set(database="nobody")
        if wrong == "database"
        else url.set(username="nobody")
    )
    with (
        closing(PostgreSQLStore(url)) as store,
        pytest.raises(StoreError, match=f'{wrong} "nobody" does not exist') as caught,
    ):
        store.initialize()
    assert type(caught.value) is StoreError


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["redis"])
def test_who_is_not_let_in_need_not_try_again(store_url: str) -> None:
    with (
        opened(store_url.replace("//", "//nobody:secret@")) as store,
        pytest.raises(StoreError) as caught,
    ):
        store.initialize()
    assert type(caught.value) is StoreError
    assert "secret" not in str(caught.value)


@pytest.mark.slow
def test_a_server_of_another_kind_is_named(postgresql_url: str) -> None:
    url = make_url(postgresql_url)
    url = url.set(drivername="cockroachdb", port=url.port or 5432)
    with (
        closing(CockroachDBStore(url)) as store,
        pytest.raises(ConfigurationError, match="let the URL begin with postgresql"),
    ):
        store.initialize()


# Stores that other packages announce.

PACKAGE = """
from go_scheduler import MemoryStore

class ForeignStore(MemoryStore):
    def __init__(self, url, *, clock=None, **options):
        super().__init__(clock)
        self.url, self.options = url, options

def nothing(url, *, clock=None):
    return None
"""


@pytest.fixture
def announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package that brings stores."""
    (tmp_path / "foreign_package.py").write_text(PACKAGE)
    info = tmp_path / "foreign_package-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: foreign-package\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[go_scheduler.stores]\n"
        "foreign = foreign_package:ForeignStore\n"
        "nothing = foreign_package:nothing\n"
        "missing = no_such_module:Store\n"
    )
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("announced")
def test_an_announced_store_is_given_the_url_the_clock_and_the_options(
    clock: ManualClock,
) -> None:
    store: Any = open_store("Foreign://user@host/name", clock=clock, anything=5)
    assert (store.url, store.clock) == ("Foreign://user@host/name", clock)
    assert store.options == {"anything": 5}
    assert isinstance(store, MemoryStore)


@pytest.mark.usefixtures("announced")
@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("nothing://user:secret@host", "made a NoneType, not a Store"),
        ("missing://user:secret@host", "for 'missing' cannot be imported"),
        ("other://user:secret@host", "known: .*foreign, memory, missing, nothing"),
    ],
)
def test_what_is_announced_and_makes_no_store_is_refused(url: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        open_store(url)
    assert "secret" not in str(caught.value)
