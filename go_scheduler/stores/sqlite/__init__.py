"""The store in an SQLite file."""

from go_scheduler.stores.sqlite.store import SQLiteStore

__all__ = ["SQLiteStore"]
