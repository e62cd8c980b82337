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
from go_scheduler.stores.sqlite import SQLiteStore
from tests.behaviour.store_house import SECOND, opened
from tests.case_tables import table

if TYPE_CHECKING:
    from pathlib import Path

    from go_scheduler.testing import ManualClock

NOWHERE = "user:secret@127.0.0.1:1/database"
"""Where nobody answers; a store is not connected before it is used."""
PORTS = {"postgresql": "5432", "cockroachdb": "26257"}


@pytest.mark.parametrize(("url", "kind", "shown"), table("behaviour/urls_of_stores"))
def test_a_url_names_the_store_of_its_database_and_no_password_is_shown(
    url: str, kind: str, shown: str, clock: ManualClock
) -> None:
    with opened(url, clock) as store:
        assert type(store).__name__ == kind
        assert store.clock is clock
        assert "secret" not in repr(store)
        assert not shown or repr(store) == f"{kind}({shown!r})"


REFUSED: list[tuple[Any, str]] = [
    *(
        (url.replace("{kind}", kind), said)
        for url, said in table("behaviour/refused_urls")
        for kind in (PORTS if "{kind}" in url else [""])
    ),
    *((each, "begins with a scheme, as in memory") for each in ("", None, 5)),
    *(
        (f"{kind}://user:secret@{rest}", "holds a NUL")
        for kind in PORTS
        for rest in ("host/d\0b", "ho\0st/db", "a,b\0/db")
    ),
    (f"redis://host?namespace={'n' * 256}", "the namespace in the URL"),
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


REDIS = (
    "it needs the extra 'redis' of go_scheduler: in a checkout, pip install '.[redis]'"
)


@pytest.mark.parametrize(
    ("scheme", "needed"),
    [
        ("postgresql", "go_scheduler requires it: install go_scheduler anew"),
        ("cockroachdb", "go_scheduler requires it: install go_scheduler anew"),
        ("sqlite", "go_scheduler requires it: install go_scheduler anew"),
        ("redis", REDIS),
        ("redis+sentinel", REDIS),
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
    ("written", "hosts", "ports"), table("behaviour/urls_of_several_hosts")
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
