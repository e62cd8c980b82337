"""Handlers: what is called with a due instance, and a registry of them by name."""

from go_scheduler.handlers.registry import Handler, HandlerRegistry, Task

__all__ = ["Handler", "HandlerRegistry", "Task"]
