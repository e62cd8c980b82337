"""The CockroachDB store: PostgreSQL's statements, spread over the cluster."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

# SQLAlchemy looks for it by itself, and does not say what to install.
import sqlalchemy_cockroachdb  # type: ignore[import-untyped] # noqa: F401

from go_scheduler.stores.postgresql.driver import EngineKind
from go_scheduler.stores.postgresql.store import PostgreSQLStore
from go_scheduler.stores.sql.dialects import CockroachDBDialect

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy.engine import URL

    from go_scheduler.clock import Clock


class CockroachDBStore(PostgreSQLStore):
    """Keeps everything in a CockroachDB cluster that any number of nodes share.

    It needs v24.3 or later. What is due is spread over eight parts of an index, so that
    nodes do not all write to one range.

    Args:
        url: Such as ``cockroachdb://user:password@host:26257/database``; what follows a
            ``?`` goes to libpq, as in ``?sslmode=verify-full``. Of several nodes, as in
            ``cockroachdb://user@a:26257,b:26257/database``, each connection takes one
            at random.
        clock: Used instead of the database's time, for tests.
        connect_args: As for ``PostgreSQLStore``.
        pool_size: As for ``PostgreSQLStore``.
        migrate: As for ``PostgreSQLStore``.
        follower_reads: Whether lists and counts may be some five seconds old, and come
            from the nearest replica without waiting for anybody's writes. Of listed
            instances, what their definitions hold is read as it is now, unless this
            process has it already.

    Raises:
        ConfigurationError: The URL is none, or is one for another kind of database.
    """

    # What a transaction has written counts as locked until it has been marked, row by
    # row and after the commit, as committed: for 70 ms at the 99th percentile on one
    # idle node.
    settling = timedelta(milliseconds=200)
    _kind = EngineKind.COCKROACHDB

    def __init__(
        self,
        url: str | URL,
        *,
        clock: Clock | None = None,
        connect_args: Mapping[str, object] | None = None,
        pool_size: int = 5,
        migrate: bool = True,
        follower_reads: bool = False,
    ) -> None:
        self._follower_reads = follower_reads
        super().__init__(
            url,
            clock=clock,
            connect_args=connect_args,
            pool_size=pool_size,
            migrate=migrate,
        )

    def _make_dialect(self, clock: Clock | None) -> CockroachDBDialect:
        return CockroachDBDialect(clock, follower_reads=self._follower_reads)
