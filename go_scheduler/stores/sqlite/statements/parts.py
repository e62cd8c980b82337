"""Parts of the statements: the columns that they return, and their batches."""

from __future__ import annotations

from textwrap import fill

from go_scheduler.stores.sql.instance_rows import CLAIMED_COLUMNS
from go_scheduler.stores.sql.rows import DEFINITION_COLUMNS
from go_scheduler.stores.sql.tables import definitions, instances
from go_scheduler.stores.sqlite.statements.statement import Statement

INSTANCE = fill(", ".join(CLAIMED_COLUMNS), width=80, subsequent_indent=" " * 10)
DEFINITION = fill(", ".join(DEFINITION_COLUMNS), width=80, subsequent_indent=" " * 9)


def of_instances(sql: str) -> Statement:
    """A statement that returns instances which are claimed, or were just now."""
    return Statement(sql, (instances.c[name] for name in CLAIMED_COLUMNS))


def of_lapsed(sql: str) -> Statement:
    """A statement that returns what is known of runs that are to be taken over."""
    column = instances.c
    columns = {
        "began": column.started_at,
        "taken_at": column.accepted_at,
        "due_by": column.start_by,
        "ran_by": column.worker,
    }
    named = (each.label(name) for name, each in columns.items())
    return Statement(sql, (column.id, *named))


def of_definitions(sql: str) -> Statement:
    """A statement that returns definitions."""
    return Statement(sql, (definitions.c[name] for name in DEFINITION_COLUMNS))


def batch(*names: str) -> str:
    """The rows of a batch; materialized, for each row to be taken apart only once."""
    columns = [
        f"json_extract(value, '$[{number}]') AS {name}"
        for number, name in enumerate(names)
    ]
    joined = ",\n         ".join(columns)
    return f"WITH x AS MATERIALIZED (\n  SELECT {joined}\n    FROM json_each(:batch))"
