"""Recurrence rules of RFC 5545: read, written, described, and their times."""

import typing

from go_scheduler import lazy_imports as _on_demand

if typing.TYPE_CHECKING:
    from go_scheduler.triggers.recurrence.recurrence_trigger import RecurrenceTrigger
else:
    # Hidden from type checkers, which would take any misspelt name for an object.
    __getattr__, __dir__ = _on_demand.on_demand(
        __name__,
        {
            "RecurrenceTrigger": "recurrence_trigger",
        },
    )

__all__ = ["RecurrenceTrigger"]
