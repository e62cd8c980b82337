"""Triggers: values that say when a definition fires."""

from go_scheduler.triggers.base import (
    Trigger,
    UnknownTrigger,
    dump_trigger,
    load_trigger,
)
from go_scheduler.triggers.calendars import (
    BusinessDays,
    Calendar,
    DateCalendar,
    RuleCalendar,
    read_ical,
    register_calendar,
)
from go_scheduler.triggers.combining import (
    AllOfTrigger,
    AnyOfTrigger,
    ExceptTrigger,
    LimitedTrigger,
    OnlyTrigger,
)
from go_scheduler.triggers.cron import CronTrigger
from go_scheduler.triggers.delay import DelayTrigger
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger
from go_scheduler.triggers.interval import IntervalTrigger
from go_scheduler.triggers.phrases import parse_phrase
from go_scheduler.triggers.preview import PreviewedTime, explain, preview
from go_scheduler.triggers.recurrence import RecurrenceTrigger

__all__ = [
    "AllOfTrigger",
    "AnyOfTrigger",
    "BusinessDays",
    "Calendar",
    "CronTrigger",
    "DateCalendar",
    "DelayTrigger",
    "ExceptTrigger",
    "ExecuteOnceTrigger",
    "IntervalTrigger",
    "LimitedTrigger",
    "OnlyTrigger",
    "PreviewedTime",
    "RecurrenceTrigger",
    "RuleCalendar",
    "Trigger",
    "UnknownTrigger",
    "dump_trigger",
    "explain",
    "load_trigger",
    "parse_phrase",
    "preview",
    "read_ical",
    "register_calendar",
]
