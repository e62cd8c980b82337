"""A store is found by its URL, and what is wrong is said without repeating the URL."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from go_scheduler.errors import ConfigurationError
from go_scheduler.stores import MemoryStore, Store, opening
from go_scheduler.stores.cockroachdb import CockroachDBStore
from go_scheduler.stores.opening import open_store
from go_scheduler.stores.postgresql.store import PostgreSQLStore
from go_scheduler.stores.sqlite.store import SQLiteStore
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from go_scheduler.clock import Clock
    from go_scheduler.testing import ManualClock

ROOT = Path(__file__).parents[2]
DRIVERS = {
    "alembic",
    "psycopg",
    "psycopg2",
    "redis",
    "sqlalchemy",
    "sqlalchemy_cockroachdb",
    "sqlite3",
}
OPEN_IN_A_NEW_PROCESS = """
import sys
from go_scheduler.stores import open_store
open_store(sys.argv[1]).close()
print(*sorted({{*{drivers}}} & {{*sys.modules}}))
"""
FORK_WITH_AN_OPEN_STORE = """
import os, sys
from go_scheduler.stores import open_store
from go_scheduler.stores.sql.database import Lane

def connection_of(store):
    def ask(connection):
        return connection.exec_driver_sql("SELECT pg_backend_pid()").scalar()

    return store._database.run(Lane.BY_HAND, ask)

store = open_store(sys.argv[1])
store.initialize()
before = connection_of(store)
if not (child := os.fork()):
    other = connection_of(store)
    store.close()
    os._exit(0 if other != before else 1)
_, status = os.waitpid(child, 0)
assert status == 0, "the child used its parent's connection"
assert connection_of(store) == before, "the child closed its parent's connection"
store.close()
"""
# Nobody answers here: a store is not connected before it is used.
NOWHERE = "user:secret@127.0.0.1:1/database"


class ForeignStore(MemoryStore):
    """A store that an installed package brings."""

    def __init__(
        self, url: str, *, clock: Clock | None = None, **options: object
    ) -> None:
        super().__init__(clock)
        self.url = url
        self.options = options


def make_nothing(url: str, *, clock: Clock | None = None) -> object:
    return None


@pytest.fixture(autouse=True)
def announced(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the installed packages announce."""
    group = opening.ENTRY_POINTS
    points = EntryPoints(
        EntryPoint(name, value, group)
        for name, value in [
            ("foreign", f"{__name__}:ForeignStore"),
            ("nothing", f"{__name__}:make_nothing"),
            ("missing", "tests.no_such_module:Store"),
        ]
    )
    monkeypatch.setattr(
        opening, "entry_points", lambda group: points.select(group=group)
    )


def refusal(url: str) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        open_store(url)
    return caught.value


@pytest.mark.parametrize("url", ["memory://", "MEMORY://"])
def test_a_memory_store_is_new_each_time(url: str, clock: ManualClock) -> None:
    one, other = open_store(url), open_store(url, clock=clock)
    assert type(one) is type(other) is MemoryStore
    assert one is not other
    assert (one.clock, other.clock) == (None, clock)


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("sqlite:////no/such/folder/tasks.db", SQLiteStore),
        ("sqlite+pysqlite:///tasks.db", SQLiteStore),
        (f"postgresql://{NOWHERE}", PostgreSQLStore),
        (f"postgresql+psycopg://{NOWHERE}", PostgreSQLStore),
        (f"cockroachdb://{NOWHERE}?sslmode=verify-full", CockroachDBStore),
        (f"cockroachdb+psycopg://{NOWHERE}", CockroachDBStore),
    ],
)
def test_a_url_names_the_store_of_its_database(
    url: str, kind: type[Store], clock: ManualClock
) -> None:
    store = open_store(url, clock=clock)
    assert type(store) is kind
    assert store.clock is clock
    assert "secret" not in repr(store)
    store.close()


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite://host/tasks.db",
        "sqlite:///tasks.db?mode=ro",
        "sqlite:///tasks?.db",
        "sqlite+other:///tasks.db",
        "postgresql+psycopg2://user:secret@host/database",
        "cockroachdb+asyncpg://user:secret@host/database",
    ],
)
def test_a_url_that_its_store_cannot_use_is_refused(url: str) -> None:
    assert "secret" not in str(refusal(url))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("url", "loaded"),
    [
        ("memory://", set()),
        ("sqlite:///tasks.db", {"sqlalchemy", "sqlite3"}),
        ("redis://user:secret@127.0.0.1:1", {"redis", "sqlalchemy"}),
        (f"postgresql://{NOWHERE}", {"psycopg", "sqlalchemy"}),
        (f"cockroachdb://{NOWHERE}", DRIVERS - {"psycopg2", "redis", "sqlite3"}),
    ],
)
def test_a_driver_is_loaded_when_its_store_is_asked_for(
    url: str, loaded: set[str]
) -> None:
    program = OPEN_IN_A_NEW_PROCESS.format(drivers=DRIVERS)
    # Coverage measures subprocesses too, and loads a driver in them.
    env = {key: value for key, value in os.environ.items() if "COV" not in key}
    done = subprocess.run(
        [sys.executable, "-c", program, url],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=FAILED_AFTER,
        check=True,
    )
    assert {*done.stdout.split()} == loaded


@pytest.mark.slow
def test_a_store_that_was_open_before_a_fork_has_connections_of_its_own_after_it(
    postgresql_url: str,
) -> None:
    arguments = (sys.executable, "-c", FORK_WITH_AN_OPEN_STORE, postgresql_url)
    subprocess.run(arguments, cwd=ROOT, timeout=FAILED_AFTER, check=True)


@pytest.mark.parametrize("scheme", ["foreign", "Foreign"])
def test_an_announced_store_is_given_the_url_and_the_clock(
    scheme: str, clock: ManualClock
) -> None:
    store = open_store(f"{scheme}://user@host/name", clock=clock)
    assert isinstance(store, ForeignStore)
    assert store.url == f"{scheme}://user@host/name"
    assert store.clock is clock


@pytest.mark.parametrize("url", ["", "memory", "memory:", "host=a dbname=b", None, 5])
def test_what_is_no_url_is_refused(url: str) -> None:
    assert str(refusal(url)) == (
        "a store's URL begins with a scheme, as in memory://, sqlite:///file.db,"
        " postgresql://user@host/database or cockroachdb://user@host:26257/database"
    )


def test_options_are_passed_on() -> None:
    store = open_store(f"postgresql://{NOWHERE}", migrate=False, pool_size=2)
    assert isinstance(store, PostgreSQLStore)
    assert not store._schema._migrate
    foreign = open_store("foreign://host", anything=5)
    assert isinstance(foreign, ForeignStore)
    assert foreign.options == {"anything": 5}


@pytest.mark.parametrize(
    ("url", "known"),
    [
        ("memory://", "none"),
        ("nothing://host", "clock"),
        ("sqlite:///tasks.db", "clock, migrate, durable, busy_timeout"),
        (
            f"postgresql://{NOWHERE}",
            "clock, connect_args, pool_size, migrate, hints",
        ),
    ],
)
def test_an_option_that_a_store_does_not_have_is_refused(url: str, known: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_store(url, follower_reads=True)
    scheme = url.partition(":")[0]
    assert str(caught.value) == (
        f"the store of {scheme}:// has no option 'follower_reads'; known: {known}"
    )


def test_an_unknown_scheme_is_refused_with_those_that_are_known() -> None:
    assert str(refusal("oracle://user:secret@host")) == (
        "no store has the scheme 'oracle'; known: cockroachdb, foreign, memory,"
        " missing, nothing, postgres, postgresql, redis, redis+cluster,"
        " redis+sentinel, rediss, sqlite"
    )


def test_a_store_that_cannot_be_imported_is_refused() -> None:
    error = refusal("missing://user:secret@host")
    assert "the store announced for 'missing' cannot be imported" in str(error)
    assert "secret" not in str(error)
    assert isinstance(error.__cause__, ModuleNotFoundError)


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


def test_what_makes_no_store_is_refused() -> None:
    assert str(refusal("nothing://user:secret@host")) == (
        "what is announced for 'nothing' made a NoneType, not a Store"
    )
