"""The CockroachDB store: PostgreSQL's statements, spread over more of the cluster."""

from __future__ import annotations

from go_scheduler.stores.postgresql import PostgreSQLStore
from go_scheduler.stores.sql.driver import EngineKind


class CockroachDBStore(PostgreSQLStore):
    """Keeps everything in a CockroachDB cluster that any number of nodes share."""

    shards = 8
    _dialect = "cockroachdb"
    _kind = EngineKind.COCKROACHDB
