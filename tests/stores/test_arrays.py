"""Batches as a server is sent them: it reads the same values."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any
from uuid import UUID

import psycopg
import pytest

from go_scheduler.stores.postgresql.executing import ARRAYS
from tests.servers import libpq

if TYPE_CHECKING:
    from collections.abc import Iterator

AUTUMN = datetime(2030, 10, 27, 2, 30, tzinfo=timezone(timedelta(hours=2)))
BATCHES: list[tuple[str, list[Any]]] = [
    ("uuid", [UUID(int=1), UUID(int=2**128 - 1)]),
    ("bigint", [0, None, -(2**63), 2**63 - 1]),
    ("boolean", [True, False]),
    ("timestamptz", [datetime.min.replace(tzinfo=UTC), None, AUTUMN, AUTUMN]),
    ("text", ["", None, "NULL", 'a"b\\c,{}', "ü€\N{SNOWMAN}", "", "NULL"]),
    *((kind, []) for kind in ARRAYS if kind != "duration"),
]


@pytest.fixture
def connection(postgresql_url: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection of the driver's."""
    with psycopg.connect(libpq(postgresql_url)) as connection:
        yield connection


@pytest.mark.parametrize(("kind", "given"), BATCHES, ids=lambda each: str(each)[:11])
def test_a_server_reads_what_was_given(
    connection: psycopg.Connection[Any], kind: str, given: list[Any]
) -> None:
    query = f"SELECT CAST(%s AS {kind}[])".encode()
    [(found,)] = connection.execute(query, [ARRAYS[kind](given)]).fetchall()
    assert found == given


def test_durations_are_microseconds(connection: psycopg.Connection[Any]) -> None:
    given = ARRAYS["duration"]([timedelta(days=-1), None, timedelta(microseconds=1)])
    [(found,)] = connection.execute("SELECT %s::bigint[]", [given]).fetchall()
    assert found == [-86_400_000_000, None, 1]


@pytest.mark.parametrize(
    ("kind", "given", "named"),
    [
        ("text", ["a\0b"], "NUL"),
        ("bigint", [2**63], "out of range"),
        ("duration", [timedelta.max], "out of range"),
    ],
)
def test_what_no_database_keeps_is_an_error_of_the_driver(
    connection: psycopg.Connection[Any], kind: str, given: list[Any], named: str
) -> None:
    with pytest.raises(psycopg.DataError, match=named):
        connection.execute("SELECT CAST(%s AS bigint[])", [ARRAYS[kind](given)])
