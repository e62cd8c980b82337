"""Triggers: values that say when a definition fires."""

import typing

from go_scheduler import lazy_imports as _on_demand
from go_scheduler.triggers.base import (
    Trigger,
    UnknownTrigger,
    dump_trigger,
    load_trigger,
)
from go_scheduler.triggers.simple import (
    DelayTrigger,
    ExecuteOnceTrigger,
    IntervalTrigger,
    OnDemandTrigger,
)

if typing.TYPE_CHECKING:
    from go_scheduler.triggers.calendars import (
        BusinessDays,
        Calendar,
        DateCalendar,
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
    from go_scheduler.triggers.phrases import parse_phrase
    from go_scheduler.triggers.previews import PreviewedTime, explain, preview
    from go_scheduler.triggers.recurrence import RecurrenceTrigger
    from go_scheduler.triggers.rule_calendars import RuleCalendar, read_ical
else:
    # Hidden from type checkers, which would take any misspelt name for an object.
    __getattr__, __dir__ = _on_demand.on_demand(
        __name__,
        {
            "AllOfTrigger": "combining",
            "AnyOfTrigger": "combining",
            "BusinessDays": "calendars",
            "Calendar": "calendars",
            "CronTrigger": "cron",
            "DateCalendar": "calendars",
            "ExceptTrigger": "combining",
            "LimitedTrigger": "combining",
            "OnlyTrigger": "combining",
            "PreviewedTime": "previews",
            "RecurrenceTrigger": "recurrence",
            "RuleCalendar": "rule_calendars",
            "explain": "previews",
            "parse_phrase": "phrases",
            "preview": "previews",
            "read_ical": "rule_calendars",
            "register_calendar": "calendars",
        },
    )

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
    "OnDemandTrigger",
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
