"""The store for PostgreSQL, and what CockroachDB shares with it."""

from go_scheduler.stores.postgresql.store import PostgreSQLStore

__all__ = ["PostgreSQLStore"]
