"""The machine that calls any store and a ``MemoryStore`` alike, by what it drives."""

from go_scheduler.testing.machine.store_machine import StoreMachine

__all__ = ["StoreMachine"]
