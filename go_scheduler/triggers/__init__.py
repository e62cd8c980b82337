"""Triggers: values that say when a definition fires."""

from go_scheduler.triggers.base import (
    Trigger,
    UnknownTrigger,
    dump_trigger,
    load_trigger,
)
from go_scheduler.triggers.cron import CronTrigger
from go_scheduler.triggers.delay import DelayTrigger
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger
from go_scheduler.triggers.interval import IntervalTrigger

__all__ = [
    "CronTrigger",
    "DelayTrigger",
    "ExecuteOnceTrigger",
    "IntervalTrigger",
    "Trigger",
    "UnknownTrigger",
    "dump_trigger",
    "load_trigger",
]
