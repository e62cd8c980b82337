"""Handlers: what is called with a due instance, and a registry of them by name."""

from go_scheduler.handlers.registry import Handler, HandlerRegistry
from go_scheduler.handlers.task import Task

__all__ = ["Handler", "HandlerRegistry", "Task"]
