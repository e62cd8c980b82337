"""Stores as tests make them, by what a process that a test starts can soon import."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.stores.opening import open_store

if TYPE_CHECKING:
    from go_scheduler.clock import Clock
    from go_scheduler.stores.base import Store


def make_store(url: str, clock: Clock | None = None) -> Store:
    """What ``open_store`` makes, but that nothing waits for a disk."""
    if url.startswith("sqlite:"):
        from go_scheduler.stores.sqlite.store import SQLiteStore

        return SQLiteStore(url, clock=clock, durable=False)
    return open_store(url, clock=clock)
