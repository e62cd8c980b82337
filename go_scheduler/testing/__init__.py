"""Test tools: a manual clock, an inline executor, and suites for your own parts.

``ManualClock``, ``InlineExecutor`` and ``settle`` need nothing else. The suites need
pytest and Hypothesis, which the extra ``testing`` brings.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from go_scheduler.lazy_imports import without_extra
from go_scheduler.testing.clock import InlineExecutor, ManualClock, settle

if TYPE_CHECKING:
    from go_scheduler.testing.buses import BusSuite
    from go_scheduler.testing.machine import StoreMachine
    from go_scheduler.testing.stores import StoreSuite
    from go_scheduler.testing.triggers import TriggerSuite
else:
    # Hidden from type checkers, which would take any misspelt name for an object.
    def __getattr__(name: str) -> object:
        return _load(name)


__all__ = [
    "BusSuite",
    "InlineExecutor",
    "ManualClock",
    "StoreMachine",
    "StoreSuite",
    "TriggerSuite",
    "settle",
]

_SUITES = {
    "BusSuite": "go_scheduler.testing.buses",
    "StoreMachine": "go_scheduler.testing.machine",
    "StoreSuite": "go_scheduler.testing.stores",
    "TriggerSuite": "go_scheduler.testing.triggers",
}
_TOOLS = ("hypothesis", "pytest")


def _load(name: str) -> object:
    """Import a suite when it is first asked for, as not every user has its tools."""
    if name not in _SUITES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(_SUITES[name]), name)
    except ModuleNotFoundError as error:
        if error.name not in _TOOLS:
            raise
        raise ImportError(
            without_extra(f"go_scheduler.testing.{name} needs", "testing", error),
            name=error.name,
        ) from error
