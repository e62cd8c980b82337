"""Cron expressions: read, described, and searched for what comes next."""

import typing

from go_scheduler import lazy_imports as _on_demand

if typing.TYPE_CHECKING:
    from go_scheduler.triggers.cron.cron_trigger import CronTrigger
else:
    # Hidden from type checkers, which would take any misspelt name for an object.
    __getattr__, __dir__ = _on_demand.on_demand(
        __name__,
        {
            "CronTrigger": "cron_trigger",
        },
    )

__all__ = ["CronTrigger"]
