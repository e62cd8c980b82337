"""The store in memory."""

from go_scheduler.stores.memory.snapshots import Snapshot
from go_scheduler.stores.memory.store import MemoryStore

__all__ = ["MemoryStore", "Snapshot"]
