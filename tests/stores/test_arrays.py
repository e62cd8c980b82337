"""Arrays as the driver sends them: the server reads the same values."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
import pytest

from go_scheduler.stores.postgresql.arrays import (
    Durations,
    Ids,
    Numbers,
    Texts,
    Times,
    Truths,
    know_arrays,
)
from tests.servers import libpq

if TYPE_CHECKING:
    from collections.abc import Iterator

EVERY_KIND = [Ids, Numbers, Durations, Truths, Times, Texts]
AUTUMN = datetime(2030, 10, 27, 2, 30, tzinfo=timezone(timedelta(hours=2)))


@pytest.fixture
def connection(postgresql_url: str) -> Iterator[psycopg.Connection[Any]]:
    """One that knows them."""
    with psycopg.connect(libpq(postgresql_url)) as connection:
        know_arrays(connection)
        yield connection


@pytest.mark.parametrize(
    "given",
    [
        Ids([uuid4(), uuid4()]),
        Numbers([0, None, -(2**63), 2**63 - 1]),
        Truths([True, False]),
        Times([datetime.min.replace(tzinfo=UTC), None, AUTUMN, AUTUMN]),
        Texts(["", None, "NULL", 'a"b\\c,{}', "ü€\N{SNOWMAN}", "", "NULL"]),
        *(kind([]) for kind in EVERY_KIND),
    ],
    ids=lambda given: type(given).__name__,
)
def test_a_server_reads_what_was_given(
    connection: psycopg.Connection[Any], given: tuple[Any, ...]
) -> None:
    [(found,)] = connection.execute("SELECT %s", [given]).fetchall()
    assert found == [*given]


def test_durations_are_microseconds(connection: psycopg.Connection[Any]) -> None:
    given = Durations([timedelta(days=-1), None, timedelta(microseconds=1)])
    [(found,)] = connection.execute("SELECT %s", [given]).fetchall()
    assert found == [-86_400_000_000, None, 1]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (Texts(["a\0b"]), "NUL"),
        (Numbers([2**63]), "out of range"),
        (Durations([timedelta.max]), "out of range"),
    ],
    ids=["NUL", "number", "duration"],
)
def test_what_no_database_keeps_is_an_error_of_the_driver(
    connection: psycopg.Connection[Any], given: tuple[Any, ...], named: str
) -> None:
    with pytest.raises(psycopg.DataError, match=named):
        connection.execute("SELECT %s", [given])
