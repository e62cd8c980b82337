"""The store in memory."""

from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.stores.memory.tables import Snapshot

__all__ = ["MemoryStore", "Snapshot"]
