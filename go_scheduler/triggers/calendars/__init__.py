"""Calendars: the days that schedules keep to or leave out."""

from go_scheduler.triggers.calendars.calendar import (
    BusinessDays,
    Calendar,
    DateCalendar,
    register_calendar,
)
from go_scheduler.triggers.calendars.ical import read_ical
from go_scheduler.triggers.calendars.rule_calendar import RuleCalendar

__all__ = [
    "BusinessDays",
    "Calendar",
    "DateCalendar",
    "RuleCalendar",
    "read_ical",
    "register_calendar",
]
