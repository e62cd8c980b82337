"""Questions of the doctor to SQL databases: how they are asked, and the common ones."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import UniqueConstraint
from sqlalchemy.schema import CreateIndex

from go_scheduler.errors import ConfigurationError, StoreError
from go_scheduler.formatting import shown
from go_scheduler.stores.findings import (
    INDEX_INVALID,
    INDEX_MISSING,
    SCHEMA_AHEAD,
    SCHEMA_BEHIND,
    SCHEMA_MISSING,
    SCHEMA_UNKNOWN,
    TABLE_MISSING,
    unanswered,
    well,
)
from go_scheduler.stores.migrations.history import history
from go_scheduler.stores.migrations.version import read_revisions
from go_scheduler.stores.sql.tables import indexes, is_on, metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from sqlalchemy import Connection, Dialect

    from go_scheduler.stores.findings import Finding

Question: TypeAlias = "Callable[[Connection], Iterable[Finding]]"

UNIQUE = [
    each
    for table in metadata.sorted_tables
    for each in table.constraints
    if isinstance(each, UniqueConstraint)
]
"""The keys that are parts of tables."""
TABLES = tuple(metadata.tables)
"""The names of all tables that a store of this version has."""
MIGRATE = "go_scheduler migrate"


def answers(
    questions: Mapping[str, Question],
    ask: Callable[[Callable[[Connection], list[Finding]]], list[Finding]],
) -> Iterator[Finding]:
    """Ask one question after the other. One that fails is a finding.

    Args:
        questions: By their subject.
        ask: Calls with a connection that is only read, for a bounded time.
    """
    for about, question in questions.items():

        def read(
            connection: Connection, question: Question = question
        ) -> list[Finding]:
            return list(question(connection))

        try:
            yield from ask(read)
        except StoreError as error:
            yield unanswered(about, error)


def schema(connection: Connection) -> Iterator[Finding]:
    """Whether the schema is at the revision that this version needs."""
    yield judged_revision(read_revisions(connection))


def judged_revision(revisions: Sequence[str]) -> Finding:
    """The finding for the revisions that a database has."""
    head = history().head
    if not revisions:
        return SCHEMA_MISSING.found("there are no tables of go_scheduler", MIGRATE)
    [*others, last] = revisions
    if last == head and not others:
        return well("schema", f"it is at revision {head}")
    if not others and last > head:
        return SCHEMA_AHEAD.found(f"it is at revision {last}, and {head} is known here")
    try:
        history().recognise(revisions)
        history().after(last)
    except (StoreError, ConfigurationError) as error:
        return SCHEMA_UNKNOWN.found(str(error))
    return SCHEMA_BEHIND.found(
        f"it is at revision {last}, and {head} is needed", MIGRATE
    )


def expected_indexes(dialect: Dialect) -> Mapping[str, Mapping[str, str]]:
    """For each table its indexes, and the statement that makes each."""
    expected: dict[str, dict[str, str]] = {each: {} for each in TABLES}
    for each in indexes:
        if not is_on(each, dialect.name):
            continue
        made = str(CreateIndex(each, if_not_exists=True).compile(dialect=dialect))
        if dialect.name == "postgresql":
            made = made.replace("INDEX", "INDEX CONCURRENTLY", 1)
        assert each.table is not None
        expected[each.table.name][str(each.name)] = " ".join(made.split()) + ";"
    for key in UNIQUE:
        columns = ", ".join(each.name for each in key.columns)
        expected[key.table.name][str(key.name)] = (
            f"ALTER TABLE {key.table.name} ADD CONSTRAINT {key.name} UNIQUE"
            f" ({columns});"
        )
    return expected


def judged_indexes(
    found: Iterable[Sequence[Any]], dialect: Dialect, *, rebuild: str
) -> Iterator[Finding]:
    """Findings for missing tables and indexes.

    Args:
        found: Rows of: table, whether it exists, index, whether that is valid.
        dialect: The dialect of the statements that make an index.
        rebuild: The statement that builds an index again, with a hole for its name.
    """
    tables: dict[str, bool] = {}
    valid: defaultdict[str, dict[str, bool]] = defaultdict(dict)
    for table, is_there, index, is_valid in found:
        tables[table] = is_there
        valid[table][index] = is_valid
    if missing := [each for each in TABLES if not tables.get(each)]:
        yield TABLE_MISSING.found(f"there is no table {', '.join(missing)}")
    well_made = 0
    for table, expected in expected_indexes(dialect).items():
        for index, made in expected.items() if tables.get(table) else ():
            if index not in valid[table]:
                yield INDEX_MISSING.found(f"{table} lacks {index}", made)
            elif not valid[table][index]:
                again = rebuild.format(index)
                yield INDEX_INVALID.found(f"{index} of {table} is not valid", again)
            else:
                well_made += 1
    yield well("indexes", f"{well_made} are there and valid")


def named(value: object) -> str:
    """A text of anybody, as part of a message."""
    return shown(str(value))


def quoted(name: str) -> str:
    """A quoted identifier."""
    return '"' + name.replace('"', '""') + '"'
