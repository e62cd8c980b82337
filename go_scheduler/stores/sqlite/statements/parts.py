"""Parts of the statements: the columns that they return, and their batches."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING

from sqlalchemy import text

from go_scheduler.stores.sql.instance_rows import INSTANCE_COLUMNS
from go_scheduler.stores.sql.rows import DEFINITION_COLUMNS
from go_scheduler.stores.sql.tables import definitions, instances

if TYPE_CHECKING:
    from sqlalchemy.sql.expression import TextualSelect

INSTANCE = fill(", ".join(INSTANCE_COLUMNS), width=80, subsequent_indent=" " * 10)
DEFINITION = fill(", ".join(DEFINITION_COLUMNS), width=80, subsequent_indent=" " * 9)


def of_instances(statement: str) -> TextualSelect:
    """A statement that returns instances."""
    return text(statement).columns(*(instances.c[name] for name in INSTANCE_COLUMNS))


def of_definitions(statement: str) -> TextualSelect:
    """A statement that returns definitions."""
    return text(statement).columns(
        *(definitions.c[name] for name in DEFINITION_COLUMNS)
    )


def batch(*names: str) -> str:
    """The rows of a batch; materialized, for each row to be taken apart only once."""
    columns = [
        f"json_extract(value, '$[{number}]') AS {name}"
        for number, name in enumerate(names)
    ]
    joined = ",\n         ".join(columns)
    return f"WITH x AS MATERIALIZED (\n  SELECT {joined}\n    FROM json_each(:batch))"
