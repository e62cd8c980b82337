"""The store in memory."""

from go_scheduler.stores.memory.store import MemoryStore, Snapshot

__all__ = ["MemoryStore", "Snapshot"]
