"""The functions that SQLite has not got by itself."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING

from go_scheduler.json import JSON, contains

if TYPE_CHECKING:
    import sqlite3

CONTAINS = "go_scheduler_contains"
"""Whether JSON contains JSON."""


def add_functions(connection: sqlite3.Connection) -> None:
    """Give them to a connection of the driver."""
    connection.create_function(CONTAINS, 2, _contains, deterministic=True)


def _contains(outer: bytes, inner: str) -> bool:
    """Whether JSON contains JSON; a text that is none contains nothing."""
    try:
        return contains(json.loads(outer), _parsed(inner))
    except (TypeError, ValueError, RecursionError):
        return False


@lru_cache(maxsize=8)
def _parsed(text: str) -> JSON:
    parsed: JSON = json.loads(text)
    return parsed
