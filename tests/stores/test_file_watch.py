"""A process that shares a file learns of what others write to it, and only of that."""

from __future__ import annotations

import shutil
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from go_scheduler.stores.hints import News
from go_scheduler.stores.sqlite.database import FileWatch
from go_scheduler.stores.sqlite.store import SQLiteStore
from go_scheduler.testing.builders import claim, definition, fire, put
from go_scheduler.testing.clock import START
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from go_scheduler.testing import ManualClock


@pytest.fixture
def url(sqlite_file: Path, tmp_path: Path) -> str:
    """That of a file of the test's own, which has the tables."""
    return f"sqlite:///{shutil.copy(sqlite_file, tmp_path / 'store.db')}"


@pytest.fixture
def store(clock: ManualClock, url: str) -> Iterator[SQLiteStore]:
    """One process's store in the file."""
    with closing(SQLiteStore(url, clock=clock)) as store:
        yield store


@pytest.fixture
def other(clock: ManualClock, url: str) -> Iterator[SQLiteStore]:
    """Another's in the same file."""
    with closing(SQLiteStore(url, clock=clock)) as other:
        yield other


def test_what_another_process_writes_changes_the_version_and_nothing_else_does(
    store: SQLiteStore, other: SQLiteStore
) -> None:
    version = store._database.version
    first = version()
    [mine] = fire(store, put(store, definition(START)))
    assert [each.id for each in claim(store)] == [mine.id]
    assert version() == first
    # A look that finds nothing is no write, so that two nodes do not wake each other.
    assert not claim(other)
    assert not other.due_definitions(ahead=START - START, limit=1)
    assert version() == first
    put(other, definition(START))
    assert version() != first


def test_a_watch_ends_when_the_version_is_another_one() -> None:
    versions = iter([1, 1, 1, 2])
    watch = FileWatch(lambda: next(versions))
    assert watch.wait()
    assert watch.wait()
    assert not list(versions)


def test_a_watch_that_is_closed_waits_no_more() -> None:
    watch = FileWatch(lambda: 1)
    assert watch.wait()
    found: list[News] = []
    thread = threading.Thread(target=lambda: found.append(watch.wait()))
    thread.start()
    watch.close()
    thread.join(FAILED_AFTER)
    assert found == [News.NOTHING]


def test_a_store_in_a_file_watches_it(store: SQLiteStore) -> None:
    hints = store.hints()
    assert hints.wait()
    hints.close()
    assert not hints.wait()
