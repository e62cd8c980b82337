"""Calendars: the days that schedules keep to or leave out."""

import typing

from go_scheduler import lazy_imports as _on_demand

if typing.TYPE_CHECKING:
    from go_scheduler.triggers.calendars.calendar import (
        BusinessDays,
        Calendar,
        DateCalendar,
        register_calendar,
    )
    from go_scheduler.triggers.calendars.ical import read_ical
    from go_scheduler.triggers.calendars.rule_calendar import RuleCalendar
else:
    # Hidden from type checkers, which would take any misspelt name for an object.
    __getattr__, __dir__ = _on_demand.on_demand(
        __name__,
        {
            "BusinessDays": "calendar",
            "Calendar": "calendar",
            "DateCalendar": "calendar",
            "RuleCalendar": "rule_calendar",
            "read_ical": "ical",
            "register_calendar": "calendar",
        },
    )

__all__ = [
    "BusinessDays",
    "Calendar",
    "DateCalendar",
    "RuleCalendar",
    "read_ical",
    "register_calendar",
]
