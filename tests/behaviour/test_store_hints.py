"""Who writes what is due has the nodes of other processes look for it."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from threading import Thread, Timer
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import create_engine, make_url
from sqlalchemy.orm import Session

from go_scheduler import StoreUnavailableError
from go_scheduler.client import Client
from go_scheduler.stores import Hints, News
from go_scheduler.testing.clock import START
from tests.behaviour.store_house import DAY, HOUR, SECOND, once, opened, task
from tests.faults import Pooler, kill_connections, unix_socket
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler import Store
    from go_scheduler.testing import ManualClock

pytestmark = pytest.mark.slow
TOLD = ["postgresql", "redis"]
"""Where somebody is told of what it is that is new."""


@contextmanager
def listening(store: Store) -> Iterator[Hints]:
    """Hints whose waits end after a while, so that a test of those lost fails."""
    hints = store.hints()
    assert hints is not None
    end = Timer(FAILED_AFTER, hints.close)
    end.start()
    try:
        # It cannot know whether there was anything before.
        assert hints.wait() is News.ANYTHING
        yield hints
    finally:
        end.cancel()
        hints.close()


@contextmanager
def waiting(store: Store) -> Iterator[Hints]:
    """Hints that somebody waits for in vain, until they are closed meanwhile."""
    Client(store).check()
    hints = store.hints()
    assert hints is not None
    assert hints.wait()
    found: list[News] = []
    thread = Thread(target=lambda: found.append(hints.wait()))
    thread.start()
    yield hints
    thread.join(FAILED_AFTER)
    assert found == [News.NOTHING]


SILENT: dict[str, Any] = {
    "later": lambda client, _: client.schedule(once(START + HOUR)),
    "the same": lambda client, of: client.schedule(of),
    "edited": lambda client, of: client.schedule(
        once(START + HOUR, id=of.id, name="b")
    ),
    "enqueued later": lambda client, _: client.enqueue("send", delay=HOUR),
    "a pause": lambda client, of: client.pause(of.id),
    "a delete": lambda client, of: client.delete_definition(of.id),
}
LOUD: dict[str, tuple[Any, News]] = {
    "due": (lambda client, _: client.schedule(once()), News.DEFINITIONS),
    "long due": (
        lambda client, _: client.schedule(once(START - DAY)),
        News.DEFINITIONS,
    ),
    "due soon": (
        lambda client, _: client.schedule(once(START + SECOND)),
        News.DEFINITIONS,
    ),
    "many": (
        lambda client, _: client.schedule_all(once() for _ in range(20)),
        News.DEFINITIONS,
    ),
    "enqueued": (lambda client, _: client.enqueue("send"), News.INSTANCES),
    "a resume": (
        lambda client, of: (client.pause(of.id), client.resume(of.id)),
        News.ANYTHING,
    ),
}


@pytest.mark.parametrize("engine", TOLD)
@pytest.mark.parametrize("loud", LOUD)
def test_a_hint_says_what_is_new(store: Store, loud: str) -> None:
    client = Client(store)
    client.schedule(task())
    of = client.schedule(once(START + HOUR))
    write, news = LOUD[loud]
    with listening(store) as hints:
        write(client, of)
        assert hints.wait() is news


@pytest.mark.parametrize("engine", TOLD)
def test_an_edit_that_makes_something_due_is_told(store: Store) -> None:
    client = Client(store)
    of = client.schedule(once(START + HOUR))
    with listening(store) as hints:
        client.schedule(once(id=of.id))
        assert hints.wait() & News.DEFINITIONS


@pytest.mark.parametrize("engine", TOLD)
@pytest.mark.parametrize("silent", SILENT)
def test_what_makes_nothing_due_is_told_to_nobody(store: Store, silent: str) -> None:
    client = Client(store)
    client.schedule(task())
    of = client.schedule(once(START + HOUR))
    with listening(store) as hints:
        SILENT[silent](client, of)
        # What is heard first is of the write that came after.
        client.enqueue("send")
        assert hints.wait() is News.INSTANCES


@pytest.mark.parametrize("engine", ["postgresql"])
def test_within_a_transaction_of_the_users_it_is_told_of_when_that_commits(
    store: Store, store_url: str
) -> None:
    client = Client(store)
    client.schedule(task())
    engine = create_engine(make_url(store_url).set(drivername="postgresql+psycopg"))
    with listening(store) as hints, Session(engine) as session:
        client.schedule(once(), connection=session)
        session.rollback()
        client.enqueue("send", connection=session)
        session.commit()
        assert hints.wait() & News.INSTANCES
        # What may be due by the time it commits is told of as well.
        client.schedule(once(START + 30 * SECOND), connection=session)
        session.commit()
        assert hints.wait() & News.DEFINITIONS
    engine.dispose()


@pytest.mark.parametrize("engine", ["postgresql"])
def test_where_hints_are_off_nobody_tells_and_nobody_listens(
    store: Store, store_url: str, clock: ManualClock
) -> None:
    with opened(store_url, clock, hints=False) as silent, listening(store) as hints:
        assert silent.hints() is None
        Client(silent).schedule(once())
        Client(store).schedule(task())
        Client(store).enqueue("send")
        assert hints.wait() is News.INSTANCES


@pytest.mark.parametrize("engine", ["postgresql", "redis", "sqlite"])
def test_a_wait_ends_when_it_is_closed_and_none_begins_again(store: Store) -> None:
    with waiting(store) as hints:
        hints.close()
    hints.close()
    assert hints.wait() is News.NOTHING


@pytest.mark.parametrize("engine", TOLD)
def test_a_connection_that_is_lost_is_said_and_replaced(
    store: Store, store_url: str, engine: str, request: pytest.FixtureRequest
) -> None:
    client = Client(store)
    with listening(store) as hints:
        if engine == "postgresql":
            kill_connections(store_url)
        else:
            with request.getfixturevalue("redis_server").client() as by_hand:
                by_hand.client_kill_filter(_type="pubsub")
        with pytest.raises(StoreUnavailableError):
            hints.wait()
        assert hints.wait()
        client.schedule(once())
        assert hints.wait() & News.DEFINITIONS


@pytest.mark.parametrize("engine", ["sqlite"])
def test_a_file_is_watched_for_what_others_write(
    store_url: str, clock: ManualClock
) -> None:
    with opened(store_url, clock) as store, opened(store_url, clock) as other:
        Client(other).check()
        with listening(store) as hints:
            # A look that finds nothing is no write, so that nodes do not wake each
            # other: what is heard is of the write.
            Client(other).list_definitions()
            Client(other).schedule(once())
            assert hints.wait()


def test_a_store_in_memory_needs_none_and_cockroachdb_has_polls() -> None:
    with opened("memory://") as store:
        assert store.hints() is None
    with opened("cockroachdb://root@127.0.0.1:1/none") as store:
        hints = store.hints()
        assert hints is not None
        hints.close()
        assert hints.wait() is News.NOTHING


@pytest.fixture
def pooled_url(store_url: str) -> Iterator[str]:
    """The URL of the database behind a pooler."""
    with Pooler(unix_socket(store_url)) as pooler:
        yield (
            make_url(store_url)
            .set(host="127.0.0.1", port=pooler.port, query={})
            .render_as_string(hide_password=False)
        )


@pytest.mark.parametrize("engine", ["postgresql"])
def test_behind_a_pooler_nobody_listens_unless_told_to(
    pooled_url: str, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with opened(pooled_url, clock) as store, waiting(store) as hints:
        Client(store).schedule(once())
        hints.close()
    assert "pooler" in caplog.text
    with opened(pooled_url, clock, hints=True) as store:
        Client(store).check()
        with listening(store) as heard:
            Client(store).schedule(once())
            assert heard.wait() & News.DEFINITIONS
