"""Triggers made of other triggers, and how far they are searched."""

import typing

from go_scheduler import lazy_imports as _on_demand

if typing.TYPE_CHECKING:
    from go_scheduler.triggers.combining.any_all import AllOfTrigger, AnyOfTrigger
    from go_scheduler.triggers.combining.excluding import ExceptTrigger, OnlyTrigger
    from go_scheduler.triggers.combining.limited import LimitedTrigger
else:
    # Hidden from type checkers, which would take any misspelt name for an object.
    __getattr__, __dir__ = _on_demand.on_demand(
        __name__,
        {
            "AllOfTrigger": "any_all",
            "AnyOfTrigger": "any_all",
            "ExceptTrigger": "excluding",
            "LimitedTrigger": "limited",
            "OnlyTrigger": "excluding",
        },
    )

__all__ = [
    "AllOfTrigger",
    "AnyOfTrigger",
    "ExceptTrigger",
    "LimitedTrigger",
    "OnlyTrigger",
]
