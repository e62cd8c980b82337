"""Recurrence rules of RFC 5545: read, written, described, and their times."""

from go_scheduler.triggers.recurrence.recurrence_trigger import RecurrenceTrigger

__all__ = ["RecurrenceTrigger"]
