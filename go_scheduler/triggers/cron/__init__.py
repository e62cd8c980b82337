"""Cron expressions: read, described, and searched for what comes next."""

from go_scheduler.triggers.cron.trigger import CronTrigger

__all__ = ["CronTrigger"]
