"""The machine that makes the same calls of any store and of a ``MemoryStore``."""

from go_scheduler.testing.machine.store_machine import StoreMachine

__all__ = ["StoreMachine"]
