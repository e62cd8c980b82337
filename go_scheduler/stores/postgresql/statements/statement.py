"""One statement, and the columns that several of them return."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.stores.sql.instance_rows import CLAIMED_COLUMNS
from go_scheduler.stores.sql.rows import DEFINITION_COLUMNS, ContentsRow

if TYPE_CHECKING:
    from collections.abc import Iterable


class Statement(NamedTuple):
    """A statement as it is written down.

    Attributes:
        sql: With named parameters. ``table@index`` names the index by which rows are
            looked up; it becomes CockroachDB's hint, and nothing on PostgreSQL, where
            the connections' settings see to it: by statistics that are missing, or
            stale, the whole table may seem to be cheaper to read.
        returns: The names of the columns that come back.
    """

    sql: str
    returns: tuple[str, ...]


# The key of its definition is among an instance's own columns.
_OTHERS = DEFINITION_COLUMNS[1:]
OF_DEFINITION = "d_"
OF_CONTENTS = "c_"


def _listed(columns: Iterable[str]) -> str:
    return fill(", ".join(columns), width=80, subsequent_indent=" " * 9)


INSTANCE = _listed(f"t.{name}" for name in CLAIMED_COLUMNS)
DEFINITION = _listed(f"d.{name} AS {OF_DEFINITION}{name}" for name in _OTHERS)
CONTENTS = _listed(f"c.{name} AS {OF_CONTENTS}{name}" for name in ContentsRow._fields)
BOTH = (*CLAIMED_COLUMNS, *(OF_DEFINITION + name for name in _OTHERS))
ALL = (*BOTH, *(OF_CONTENTS + name for name in ContentsRow._fields))

LONGEST_LEASE = """least(CAST(:lease AS interval),
               coalesce(
                 CASE WHEN d.expire_after BETWEEN 0 AND 3155760000000000
                 THEN d.expire_after END * interval '1 microsecond',
                 CAST(:expire_after AS interval)))"""
"""How long a claim holds of what is started, by the columns of ``d``."""

APART = " AND false"
"""Leaves definitions out of a join, to be read after it.

On CockroachDB a statement that reads a definition waits for whoever is writing it.
"""
