"""How a server is asked for findings: in transactions that read, of bounded length."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.stores.postgresql.within import within
from go_scheduler.stores.sql.database import Lane
from go_scheduler.stores.sql.questions import answers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy import Connection

    from go_scheduler.stores.findings import Finding
    from go_scheduler.stores.sql.database import Database
    from go_scheduler.stores.sql.questions import Question

LONGEST = 5
"""Seconds that one statement may take."""


def examined(
    database: Database, questions: Mapping[str, Question]
) -> Sequence[Finding]:
    """The answers to all questions.

    Raises:
        StoreUnavailableError: The server cannot be reached.
    """
    database.run(Lane.BY_HAND, lambda each: each.exec_driver_sql("SELECT 1").all())

    def ask(read: Callable[[Connection], list[Finding]]) -> list[Finding]:
        def bounded(connection: Connection) -> list[Finding]:
            connection.exec_driver_sql(f"SET LOCAL statement_timeout = '{LONGEST}s'")
            return read(connection)

        return database.run(
            Lane.BY_HAND, lambda each: within("READ ONLY", each, bounded)
        )

    return list(answers(questions, ask))
