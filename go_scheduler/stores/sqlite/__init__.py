"""The store in an SQLite file."""

import typing

import sqlalchemy  # noqa: F401 - the whole before its parts, as in stores/sql

from go_scheduler import lazy_imports as _on_demand

if typing.TYPE_CHECKING:
    from go_scheduler.stores.sqlite.store import SQLiteStore
else:
    # Hidden from type checkers, which would take any misspelt name for an object.
    __getattr__, __dir__ = _on_demand.on_demand(
        __name__,
        {
            "SQLiteStore": "store",
        },
    )

__all__ = ["SQLiteStore"]
