"""Stores: where definitions and instances are kept."""

from go_scheduler.stores.base import Store
from go_scheduler.stores.memory import MemoryStore
from go_scheduler.stores.opening import open_store

__all__ = ["MemoryStore", "Store", "open_store"]
