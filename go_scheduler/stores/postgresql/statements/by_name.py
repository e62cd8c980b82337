"""All statements of a server, by name, with its own words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from go_scheduler.stores.postgresql.statements.additions import addition_statements
from go_scheduler.stores.postgresql.statements.claims import claim_statements
from go_scheduler.stores.postgresql.statements.cleanup import CLEANUP_STATEMENTS
from go_scheduler.stores.postgresql.statements.definitions import definition_statements
from go_scheduler.stores.postgresql.statements.runs import RUN_STATEMENTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from go_scheduler.stores.postgresql.dialect import PostgreSQLDialect
    from go_scheduler.stores.postgresql.statements.statement import Statement

_INDEX = re.compile(r"@(\w+)")


def statements_by_name(dialect: PostgreSQLDialect) -> Mapping[str, Statement]:
    """Every statement of the loops on a kind of server."""
    named = {
        **definition_statements(dialect.shards, notifies=dialect.notifies),
        **claim_statements(dialect.shards, reads_rows=dialect.reads_rows),
        **addition_statements(notifies=dialect.notifies),
        **RUN_STATEMENTS,
        **CLEANUP_STATEMENTS,
    }
    return {name: in_words_of(dialect, each) for name, each in named.items()}


def in_words_of(dialect: PostgreSQLDialect, statement: Statement) -> Statement:
    """A statement with the hints that a kind of server takes."""
    sql = _INDEX.sub(lambda found: dialect.by_index(found[1]), statement.sql)
    return statement._replace(sql=sql.strip())
